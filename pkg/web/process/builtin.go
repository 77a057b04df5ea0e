package process

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/html/atom"
	"golang.org/x/net/html/charset"

	"mercator/pkg/web/markup"
	"mercator/pkg/web/pdf"
)

var htmlTypes = []string{"text/html", typeXHTML}

// typeXHTML is the media type of HTML that is XML.
const typeXHTML = "application/xhtml+xml"

var readers = sync.Pool{New: func() any { return new(markup.Reader) }}

// readHTML opens an HTML document. Close the reader, and put it back.
func readHTML(doc *Document, wants *markup.Wants) (*markup.Reader, error) {
	text, err := decoded(doc, "text/html")
	if err != nil {
		return nil, err
	}
	r := readers.Get().(*markup.Reader)
	r.Open(text, doc.Body, doc.MIME != "text/html", wants) // which is XML then
	return r, nil
}

var noAttributes = markup.Want(0, 0)

// decoded gives the text of a document as UTF-8, by its byte order mark, the charset
// that came with it, or, of HTML, what it says itself.
func decoded(doc *Document, contentType string) (io.Reader, error) {
	if b, ok := bytes.CutPrefix(doc.Body, []byte("\uFEFF")); ok || strings.EqualFold(doc.Charset, "utf-8") && !bytes.HasPrefix(b, []byte("\xFE\xFF")) && !bytes.HasPrefix(b, []byte("\xFF\xFE")) {
		return bytes.NewReader(b), nil
	}
	if doc.Charset != "" {
		contentType += "; charset=" + doc.Charset
	}
	r, err := charset.NewReader(bytes.NewReader(doc.Body), contentType)
	if err == io.EOF { // an empty document
		return bytes.NewReader(nil), nil
	}
	return r, err
}

// pageModule reports title, description, keywords, language, robots directives
// and generator of an HTML page, and the title of other documents.
type pageModule struct{}

func (pageModule) Name() string { return "page" }
func (pageModule) Types() []string {
	return append(append(slices.Clone(htmlTypes), typePDF), OfficeTypes()...)
}
func (pageModule) New() Instance { return pageModule{} }

// maxTitle bounds what is read of a title: a page may never close it.
const maxTitle = 4 * MaxValue

func (pageModule) Process(ctx context.Context, doc *Document, report func(key, value string)) error {
	var title string
	var err error
	switch o := officeOf(doc.MIME); {
	case doc.MIME == typePDF:
		var d *pdf.Document
		if d, err = pdf.Open(doc.Body); err == nil {
			title = d.Title()
		}
	case o != nil:
		title, err = o.titleOf(doc.Body)
	default:
		robots := headerLists(doc.Header, doc.Agent)
		err := htmlPage(doc, func(key, value string) {
			if key == "robots" {
				robots = append(robots, value)
				return
			}
			report(key, value)
		})
		if len(robots) > 0 {
			report("robots", strings.Join(robots, ", "))
		}
		return err
	}
	if title != "" {
		report("title", title)
	}
	if robots := headerLists(doc.Header, doc.Agent); len(robots) > 0 {
		report("robots", strings.Join(robots, ", "))
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
	asks.AddHeader(doc.Header, doc.Agent)
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

// Facts are the texts that module page reads of a document, each at most MaxValue bytes; "" where it has none, or nobody can read it.
type Facts struct{ Title, Description, Language string }

// About reads a document.
func About(doc *Document) (f Facts) {
	if !slices.Contains((pageModule{}).Types(), doc.MIME) {
		return f
	}
	_ = pageModule{}.Process(context.Background(), doc, func(key, value string) {
		value = strings.ToValidUTF8(value[:min(len(value), MaxValue)], "")
		switch key {
		case "title":
			f.Title = value
		case "description":
			f.Description = value
		case "language":
			f.Language = value
		}
	})
	return f
}

// htmlPage reports the first of each, and all robots directives that are for all robots or for the agent.
func htmlPage(doc *Document, report func(key, value string)) error {
	r, err := readHTML(doc, pageAttributes)
	if err != nil {
		return err
	}
	defer readers.Put(r)
	defer r.Close()
	seen := make(map[string]bool)
	once := func(key, value string) {
		if value = strings.Join(strings.Fields(value), " "); value != "" && !seen[key] {
			seen[key] = true
			report(key, value)
		}
	}
	for {
		tok := r.Next()
		e := &r.Element
		switch {
		case tok == markup.TokenEnd:
			return nil
		case r.Inert() || e.Space != markup.SpaceHTML:
		case tok == markup.TokenRaw && e.Tag == markup.TagTitle:
			t := r.Decoded()
			once("title", strings.ReplaceAll(string(t[:min(len(t), maxTitle)]), "\uFEFF", ""))
		case tok != markup.TokenStart:
		case e.Tag == markup.TagHTML:
			once("language", string(e.Bytes(markup.AttrLang)))
		case e.Tag == markup.TagMeta:
			content := string(cutBytes(e.Bytes(markup.AttrContent), maxTitle))
			switch name := strings.ToLower(string(e.Bytes(markup.AttrName))); {
			case name == "description" || name == "keywords" || name == "generator" || name == "author":
				once(name, content)
			case Addresses(name, doc.Agent):
				if value := strings.Join(strings.Fields(content), " "); value != "" {
					report("robots", value)
				}
			}
			if strings.EqualFold(e.Get(markup.AttrHTTPEquiv), "content-language") {
				once("language", content)
			}
		}
	}
}

var pageAttributes = markup.Want(1<<markup.AttrLang|1<<markup.AttrName|1<<markup.AttrContent|1<<markup.AttrHTTPEquiv, 0)

func cutBytes(b []byte, max int) []byte { return b[:min(len(b), max)] }

// tagsModule counts the elements of an HTML page by name, as Mercator's tag
// counter did. Names that HTML does not know are counted together as "other".
type tagsModule struct{}

func (tagsModule) Name() string    { return "tags" }
func (tagsModule) Types() []string { return htmlTypes }
func (tagsModule) New() Instance   { return tagsModule{} }

func (tagsModule) Process(ctx context.Context, doc *Document, report func(key, value string)) error {
	r, err := readHTML(doc, noAttributes)
	if err != nil {
		return err
	}
	defer readers.Put(r)
	defer r.Close()
	counts := make(map[string]uint64)
	for {
		switch r.Next() {
		case markup.TokenEnd:
			names := make([]string, 0, len(counts))
			for name := range counts {
				names = append(names, name)
			}
			slices.Sort(names)
			for _, name := range names {
				report(name, strconv.FormatUint(counts[name], 10))
			}
			return nil
		case markup.TokenStart:
			if a := atom.Lookup(bytes.ToLower(cutBytes(r.TagName(), MaxKey))); a != 0 {
				counts[a.String()]++
			} else {
				counts["other"]++
			}
		}
	}
}
