package process

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/net/html/charset"

	"mercator/pkg/pdf"
)

var htmlTypes = []string{"text/html", "application/xhtml+xml"}

// htmlText gives an HTML document's text as UTF-8.
func htmlText(doc *Document) (io.Reader, error) {
	return decoded(doc, "text/html")
}

// decoded gives the text of a document as UTF-8, by its byte order mark, the charset
// that came with it, or, of HTML, what it says itself.
func decoded(doc *Document, contentType string) (io.Reader, error) {
	if doc.Charset != "" {
		contentType += "; charset=" + doc.Charset
	}
	r, err := charset.NewReader(bytes.NewReader(doc.Body), contentType)
	if err == io.EOF { // an empty document
		return bytes.NewReader(nil), nil
	}
	return r, err
}

// maxToken bounds one token of HTML, in bytes. What stands behind a longer one is
// not looked at.
const maxToken = 2 << 20

func newTokenizer(text io.Reader) *html.Tokenizer {
	z := html.NewTokenizer(text)
	z.SetMaxBuf(maxToken)
	return z
}

// pageModule reports title, description, keywords, language, robots directives
// and generator of an HTML page, and the title of other documents.
type pageModule struct{}

func (pageModule) Name() string { return "page" }
func (pageModule) Types() []string {
	return append(slices.Clone(htmlTypes), typePDF, typeDOCX, typeODT)
}
func (pageModule) New() Instance { return pageModule{} }

// maxTitle bounds what is read of a title: a page may never close it.
const maxTitle = 4 * MaxValue

func (pageModule) Process(ctx context.Context, doc *Document, report func(key, value string)) error {
	var title string
	var err error
	switch doc.MIME {
	case typePDF:
		var d *pdf.Document
		if d, err = pdf.Open(doc.Body); err == nil {
			title = d.Title()
		}
	case typeDOCX:
		title, err = officeTitle(doc.Body, "docProps/core.xml")
	case typeODT:
		title, err = officeTitle(doc.Body, "meta.xml")
	default:
		first := true
		return htmlPage(doc, func(key, value string) {
			if key != "robots" || first {
				report(key, value)
			}
			first = first && key != "robots"
		})
	}
	if title != "" {
		report("title", title)
	}
	return err
}

// Title is the title of a document that module page reads, at most MaxValue bytes; "" where it has none, or nobody can read it.
func Title(doc *Document) string {
	title, _ := Head(doc)
	return title
}

// Head is the title as Title has it, and what the document asks of robots: its header, and the meta elements of HTML.
func Head(doc *Document) (title string, asks Directives) {
	asks.AddHeader(doc.Header)
	take := func(key, value string) {
		switch key {
		case "title":
			title = strings.ToValidUTF8(value[:min(len(value), MaxValue)], "")
		case "robots":
			asks.Add(value)
		}
	}
	switch {
	case slices.Contains(htmlTypes, doc.MIME):
		_ = htmlPage(doc, take)
	case slices.Contains((pageModule{}).Types(), doc.MIME):
		_ = pageModule{}.Process(context.Background(), doc, take)
	}
	return title, asks
}

// htmlPage reports the first of each, and all robots directives.
func htmlPage(doc *Document, report func(key, value string)) error {
	text, err := htmlText(doc)
	if err != nil {
		return err
	}
	seen := make(map[string]bool)
	once := func(key, value string) {
		if value = strings.Join(strings.Fields(value), " "); value != "" && !seen[key] {
			seen[key] = true
			report(key, value)
		}
	}
	z := newTokenizer(text)
	inTitle, inSVG := false, false
	for {
		switch z.Next() {
		case html.ErrorToken:
			return nil
		case html.TextToken:
			if inTitle {
				t := z.Text()
				once("title", string(t[:min(len(t), maxTitle)]))
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			tag := atom.Lookup(name)
			var attr map[string]string
			if tag == atom.Html || tag == atom.Meta {
				attr = attributes(z, more, "lang", "name", "content", "http-equiv")
			}
			inTitle = tag == atom.Title && !inSVG
			switch tag {
			case atom.Svg:
				inSVG = true // its title is a tool tip
			case atom.Html:
				once("language", attr["lang"])
			case atom.Meta:
				switch name := strings.ToLower(attr["name"]); name {
				case "description", "keywords", "generator", "author":
					once(name, attr["content"])
				case "robots":
					if value := strings.Join(strings.Fields(attr["content"]), " "); value != "" {
						report(name, value)
					}
				}
				if strings.EqualFold(attr["http-equiv"], "content-language") {
					once("language", attr["content"])
				}
			}
		case html.EndTagToken:
			inTitle = false
			if name, _ := z.TagName(); atom.Lookup(name) == atom.Svg {
				inSVG = false
			}
		}
	}
}

// tagsModule counts the elements of an HTML page by name, as Mercator's tag
// counter did. Names that HTML does not know are counted together as "other".
type tagsModule struct{}

func (tagsModule) Name() string    { return "tags" }
func (tagsModule) Types() []string { return htmlTypes }
func (tagsModule) New() Instance   { return tagsModule{} }

func (tagsModule) Process(ctx context.Context, doc *Document, report func(key, value string)) error {
	text, err := htmlText(doc)
	if err != nil {
		return err
	}
	counts := make(map[string]uint64)
	z := newTokenizer(text)
	for {
		switch z.Next() {
		case html.ErrorToken:
			names := make([]string, 0, len(counts))
			for name := range counts {
				names = append(names, name)
			}
			slices.Sort(names)
			for _, name := range names {
				report(name, strconv.FormatUint(counts[name], 10))
			}
			return nil
		case html.StartTagToken, html.SelfClosingTagToken:
			name, _ := z.TagName()
			if a := atom.Lookup(name); a != 0 {
				if a == atom.Noscript {
					z.NextIsNotRawText() // we are who runs no scripts
				}
				counts[a.String()]++
			} else {
				counts["other"]++
			}
		}
	}
}
