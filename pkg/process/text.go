package process

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"mercator/pkg/pdf"
)

// Media types with text.
const (
	typePDF   = "application/pdf"
	typeDOCX  = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
	typeODT   = "application/vnd.oasis.opendocument.text"
	typePlain = "text/plain"
)

var textTypes = append(slices.Clone(htmlTypes), typePlain, typePDF, typeDOCX, typeODT)

// Bounds of documents in a zip archive.
const (
	maxParts = 10_000  // files in the archive
	maxPart  = 8 << 20 // bytes of one of them, inflated
)

// DefaultMaxText bounds a document's text, in bytes.
const DefaultMaxText = 4 << 20

// ErrNoText is returned by Text for media types that it finds no text in.
var ErrNoText = errors.New("a media type without text")

// Text is a document's text as a reader sees it, as UTF-8 of at most max bytes (0:
// DefaultMaxText): a line a block, words parted by single spaces, no empty lines at
// the ends. Of HTML the title comes first, as in Common Crawl's WET files; scripts,
// styles and what comments hold are left out, and noscript is not, since nobody runs
// scripts here. Damage that leaves nothing to be read is an error.
func Text(doc *Document, max int) (string, error) {
	if max <= 0 {
		max = DefaultMaxText
	}
	w := &lines{max: max}
	switch {
	case slices.Contains(htmlTypes, doc.MIME):
		if err := visible(w, doc); err != nil {
			return "", err
		}
	case doc.MIME == typePlain:
		r, err := decoded(doc, typePlain)
		if err != nil {
			return "", err
		}
		b, err := io.ReadAll(io.LimitReader(r, int64(max)))
		if err != nil {
			return "", err
		}
		w.pre++
		w.text(b)
	case doc.MIME == typePDF:
		d, err := pdf.Open(doc.Body)
		if err != nil {
			return "", err
		}
		s, _ := d.Text(max)
		return s, nil
	case doc.MIME == typeDOCX:
		if err := docx(w, doc.Body); err != nil {
			return "", err
		}
	case doc.MIME == typeODT:
		if err := odt(w, doc.Body); err != nil {
			return "", err
		}
	default:
		return "", fmt.Errorf("%w: %q", ErrNoText, doc.MIME)
	}
	return w.String(), nil
}

// lines collects text as lines. White space between words becomes one space.
type lines struct {
	b     []byte
	max   int
	pre   int  // above 0: line ends stay
	gap   bool // a space is due before the next word
	empty int  // line ends since the last word
}

// text adds words.
func (w *lines) text(s []byte) {
	for len(s) > 0 {
		r, n := utf8.DecodeRune(s)
		c := s[:n]
		s = s[n:]
		switch {
		case r == '\n' && w.pre > 0:
			w.line()
		case unicode.IsSpace(r), r < ' ', r == 0x7F:
			w.gap = true
		default:
			if r == utf8.RuneError && n == 1 {
				c = []byte("\uFFFD")
			}
			if w.gap && len(w.b) > 0 && w.b[len(w.b)-1] != '\n' {
				w.add(' ')
			}
			if len(w.b)+len(c) > w.max {
				w.max = len(w.b) // no half words of what follows
				return
			}
			w.gap, w.empty = false, 0
			w.b = append(w.b, c...)
		}
	}
}

func (w *lines) add(c byte) {
	if len(w.b) < w.max {
		w.b = append(w.b, c)
	}
}

// line ends a line. No more than one empty line follows another.
func (w *lines) line() {
	if w.gap = false; len(w.b) == 0 || w.pre == 0 && w.empty > 0 || w.empty > 1 {
		return
	}
	w.empty++
	w.add('\n')
}

func (w *lines) full() bool     { return len(w.b) >= w.max }
func (w *lines) String() string { return strings.TrimRightFunc(string(w.b), unicode.IsSpace) }

// hidden elements have no text that a reader sees.
func hidden(a atom.Atom) bool {
	switch a {
	case atom.Script, atom.Style, atom.Template, atom.Iframe, atom.Noembed, atom.Noframes, atom.Object, atom.Svg, atom.Math, atom.Datalist:
		return true
	}
	return false
}

// block elements begin and end a line.
func block(a atom.Atom) bool {
	switch a {
	case atom.Address, atom.Article, atom.Aside, atom.Blockquote, atom.Body, atom.Br, atom.Button, atom.Caption, atom.Center, atom.Dd,
		atom.Details, atom.Dialog, atom.Dir, atom.Div, atom.Dl, atom.Dt, atom.Fieldset, atom.Figcaption, atom.Figure, atom.Footer,
		atom.Form, atom.Frameset, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Head, atom.Header, atom.Hgroup, atom.Hr,
		atom.Html, atom.Legend, atom.Li, atom.Listing, atom.Main, atom.Menu, atom.Nav, atom.Ol, atom.Optgroup, atom.Option, atom.P,
		atom.Plaintext, atom.Pre, atom.Search, atom.Section, atom.Select, atom.Summary, atom.Table, atom.Tbody, atom.Textarea,
		atom.Tfoot, atom.Th, atom.Thead, atom.Title, atom.Tr, atom.Ul, atom.Xmp:
		return true
	}
	return false
}

// visible writes the text of an HTML page.
func visible(w *lines, doc *Document) error {
	r, err := htmlText(doc)
	if err != nil {
		return err
	}
	z := newTokenizer(r)
	var within atom.Atom // a hidden element
	depth := 0           // of it in itself
	for !w.full() {
		switch tt := z.Next(); tt {
		case html.ErrorToken:
			return nil
		case html.TextToken:
			if within == 0 {
				w.text(z.Text())
			}
		case html.StartTagToken, html.SelfClosingTagToken, html.EndTagToken:
			name, _ := z.TagName()
			tag := atom.Lookup(name)
			if tag == atom.Noscript && tt == html.StartTagToken {
				z.NextIsNotRawText() // we are who runs no scripts
			}
			switch {
			case within != 0 && tag == within && tt == html.StartTagToken:
				depth++
			case within != 0 && tag == within && tt == html.EndTagToken:
				if depth--; depth == 0 {
					within = 0
				}
			case within != 0:
			case hidden(tag) && tt == html.StartTagToken:
				within, depth = tag, 1
			case block(tag):
				w.line()
			case tag == atom.Td:
				w.gap = true
			}
			if tag == atom.Pre && within == 0 {
				if tt == html.StartTagToken {
					w.pre = 1
				} else {
					w.pre = 0
				}
			}
		}
	}
	return nil
}

// openZip opens an archive of few enough files.
func openZip(body []byte) (*zip.Reader, error) {
	if bytes.Count(body, []byte("PK\x01\x02")) > maxParts {
		return nil, fmt.Errorf("an archive of more than %d files", maxParts)
	}
	return zip.NewReader(bytes.NewReader(body), int64(len(body)))
}

// part calls read with a file of the archive, at most maxPart bytes of it. One that
// is not there is empty.
func part(z *zip.Reader, name string, read func(io.Reader) error) error {
	i := slices.IndexFunc(z.File, func(f *zip.File) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	f, err := z.File[i].Open()
	if err != nil {
		return err
	}
	defer f.Close()
	return read(io.LimitReader(f, maxPart))
}

// xmlText reads the text of elements of an XML file: that within those for which in
// says so, calling mark at each start and end of an element. It does not mind what is
// not well-formed, and keeps one token in memory, whatever the nesting.
func xmlText(r io.Reader, w *lines, in func(name string) bool, mark func(name string, end bool)) error {
	z := newTokenizer(r)
	z.AllowCDATA(true)
	depth := 0
	for !w.full() {
		switch tt := z.Next(); tt {
		case html.ErrorToken:
			if err := z.Err(); err != io.EOF {
				return err
			}
			return nil
		case html.TextToken:
			if depth > 0 {
				w.text(z.Text())
			}
		case html.StartTagToken, html.EndTagToken, html.SelfClosingTagToken:
			b, _ := z.TagName()
			name := string(b[:min(len(b), MaxKey)])
			z.NextIsNotRawText()
			if in(name) && tt == html.StartTagToken {
				depth++
			}
			if in(name) && tt == html.EndTagToken {
				depth = max(depth-1, 0)
			}
			mark(name, tt != html.StartTagToken)
		}
	}
	return nil
}

// docx writes the text of a word processor's document (ISO 29500): its body, then
// footnotes and endnotes. Deleted text and field codes are left out.
func docx(w *lines, body []byte) error {
	z, err := openZip(body)
	if err != nil {
		return err
	}
	w.pre++ // a run's spaces count
	for _, name := range []string{"word/document.xml", "word/footnotes.xml", "word/endnotes.xml"} {
		err := part(z, name, func(r io.Reader) error {
			return xmlText(r, w, func(name string) bool { return name == "w:t" }, func(name string, end bool) {
				switch {
				case name == "w:p" && end, name == "w:br" && end, name == "w:cr" && end:
					w.line()
				case name == "w:tab" && end:
					w.text([]byte(" "))
				}
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// odt writes the text of an OpenDocument text (ISO 26300): its paragraphs and
// headings.
func odt(w *lines, body []byte) error {
	z, err := openZip(body)
	if err != nil {
		return err
	}
	return part(z, "content.xml", func(r io.Reader) error {
		in := func(name string) bool { return name == "text:p" || name == "text:h" }
		return xmlText(r, w, in, func(name string, end bool) {
			switch {
			case in(name) && end, name == "text:line-break" && end:
				w.line()
			case (name == "text:s" || name == "text:tab") && end:
				w.text([]byte(" "))
			}
		})
	})
}

// officeTitle is the title in a document's properties.
func officeTitle(body []byte, properties string) (string, error) {
	z, err := openZip(body)
	if err != nil {
		return "", err
	}
	w := &lines{max: maxTitle}
	err = part(z, properties, func(r io.Reader) error {
		return xmlText(r, w, func(name string) bool { return name == "dc:title" }, func(string, bool) {})
	})
	return w.String(), err
}

// textModule reports the text of a document in pieces of at most MaxValue bytes, cut
// at line ends where there are any.
type textModule struct{}

func (textModule) Name() string    { return "text" }
func (textModule) Types() []string { return textTypes }
func (textModule) New() Instance   { return textModule{} }

// Process reports the pieces in order, all with the key "text".
func (textModule) Process(_ context.Context, doc *Document, report func(key, value string)) error {
	s, err := Text(doc, MaxFindings*MaxValue)
	if err != nil {
		return err
	}
	for s != "" {
		n := len(s)
		if n > MaxValue {
			n = strings.LastIndexByte(s[:MaxValue], '\n') + 1
			if n == 0 {
				n = len(cut(s, MaxValue))
			}
		}
		report("text", strings.TrimSuffix(s[:n], "\n"))
		s = s[n:]
	}
	return nil
}
