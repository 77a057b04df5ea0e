package process

import (
	"bytes"
	"errors"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"

	"mercator/pkg/web/markup"
)

const typeDOC = "application/msword"

// Content is a document's text for programs that judge what it is about: the text of Text, and of
//
//	XML               all character data, a line an element
//	text/*            as plain text
//	application/msword   Word 97 to 2003: what looks like text in the bytes, see salvage
//
// It has at most max bytes (0: DefaultMaxText). The error is ErrNoText for other types.
func Content(doc *Document, max int) (string, error) {
	if max <= 0 {
		max = DefaultMaxText
	}
	m := doc.MIME
	switch {
	case slices.Contains(textTypes, m):
		return Text(doc, max)
	case m == typeDOC:
		return salvage(doc.Body, max)
	case m == "text/xml" || m == "application/xml" || strings.HasSuffix(m, "+xml"):
		r, err := decoded(doc, "text/xml")
		if err != nil {
			return "", err
		}
		w := &lines{max: max}
		err = readXML(r, w, func(string, bool, bool, *markup.Reader) { w.line() }, w.text)
		return w.String(), err
	case strings.HasPrefix(m, "text/") && m != "text/css" && m != "text/javascript":
		plain := *doc
		plain.MIME = typePlain
		return Text(&plain, max)
	}
	return "", ErrNoText
}

// oleMagic begins a compound file (MS-CFB 2.2), which a Word file is.
const oleMagic = "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"

// minRun is the least number of characters that salvage takes for text.
const minRun = 12

// salvage finds the text of a Word file of 97 to 2003 without its directory and its piece table: runs of characters of
// Windows-1252, or of Latin, Greek and Cyrillic letters in UTF-16, as strings(1) does. A line is a run. It misses other scripts, runs shorter
// than minRun, and the order of the pieces of a file that was saved fast; names of styles, fonts and programs stand among the text.
func salvage(body []byte, limit int) (string, error) {
	if !bytes.HasPrefix(body, []byte(oleMagic)) {
		return "", errors.New("not a compound file, as Word files are")
	}
	w := &lines{max: limit}
	wide := func(i int) (rune, int) {
		if i+1 >= len(body) {
			return utf8.RuneError, 2
		}
		r := rune(body[i]) | rune(body[i+1])<<8
		if r > 0x052F && r&^0x7F != 0x2000 {
			r = utf8.RuneError
		}
		return shown(r), 2
	}
	narrow := func(i int) (rune, int) { return shown(charmap.Windows1252.DecodeByte(body[i])), 1 }
	var text []byte
	for i := len(oleMagic); i < len(body) && !w.full(); {
		next := i + 1
		for _, at := range []func(int) (rune, int){wide, narrow} {
			characters, letters, end := 0, 0, i
			for end < len(body) {
				r, n := at(end)
				if r == utf8.RuneError {
					break
				}
				if r == ' ' || unicode.IsLetter(r) {
					letters++
				}
				characters++
				end += n
			}
			if characters < minRun {
				next = max(next, end-1) // its last byte may begin a wide run
				continue
			}
			next = end
			if letters*5 >= characters*4 {
				w.line()
				for i < end && !w.full() {
					r, n := at(i)
					text = utf8.AppendRune(text[:0], r)
					w.text(text)
					i += n
				}
			}
			break
		}
		i = next
	}
	return w.String(), nil
}

// shown is a character of text, a space for those that part paragraphs, lines and cells; RuneError of others.
func shown(r rune) rune {
	switch {
	case r == '\r', r == '\v', r == '\t', r == '\a':
		return ' '
	case r < ' ' || !unicode.IsPrint(r):
		return utf8.RuneError
	}
	return r
}

// Captions are the words that an HTML page has about its pictures and itself without showing them: the alternative text, the title and the
// file name of each image, the page's description and keywords; a line each, at most max bytes. Other documents have none.
func Captions(doc *Document, max int) string {
	if !slices.Contains(htmlTypes, doc.MIME) {
		return ""
	}
	r, err := readHTML(doc, captionAttributes)
	if err != nil {
		return ""
	}
	defer readers.Put(r)
	defer r.Close()
	w := &lines{max: max}
	line := func(text string) {
		w.line()
		w.text([]byte(text))
	}
	for !w.full() {
		tok := r.Next()
		e := &r.Element
		switch {
		case tok == markup.TokenEnd:
			return w.String()
		case tok != markup.TokenStart || r.Inert():
			continue
		}
		switch e.Tag {
		case markup.TagImg, markup.TagImage, markup.TagArea, markup.TagInput:
			line(e.Get(markup.AttrAlt))
			line(e.Get(markup.AttrTitle))
			line(FileName(e.Get(markup.AttrSrc)))
		case markup.TagMeta:
			if n := strings.ToLower(e.Get(markup.AttrName)); n == "description" || n == "keywords" {
				line(e.Get(markup.AttrContent))
			}
		}
	}
	return w.String()
}

var captionAttributes = markup.Want(1<<markup.AttrAlt|1<<markup.AttrTitle|1<<markup.AttrSrc|1<<markup.AttrName|1<<markup.AttrContent, 0)

// FileName is the last name in the path of a URL, without extension; "" for a data URL.
func FileName(url string) string {
	if strings.HasPrefix(url, "data:") {
		return ""
	}
	url, _, _ = strings.Cut(url, "#")
	url, _, _ = strings.Cut(url, "?")
	url = path.Base(url)
	return strings.TrimSuffix(url, path.Ext(url))
}
