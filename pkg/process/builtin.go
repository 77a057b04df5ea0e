package process

import (
	"bytes"
	"context"
	"fmt"
	"image"
	_ "image/jpeg" // formats of image.DecodeConfig
	_ "image/png"
	"io"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/net/html/charset"
)

var htmlTypes = []string{"text/html", "application/xhtml+xml"}

// htmlText gives an HTML document's text as UTF-8.
func htmlText(doc *Document) (io.Reader, error) {
	contentType := "text/html"
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
// and generator of an HTML page.
type pageModule struct{}

func (pageModule) Name() string    { return "page" }
func (pageModule) Types() []string { return htmlTypes }
func (pageModule) New() Instance   { return pageModule{} }

// maxTitle bounds what is read of a title: a page may never close it.
const maxTitle = 4 * MaxValue

func (pageModule) Process(ctx context.Context, doc *Document, report func(key, value string)) error {
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
			tag, attr := readTag(z)
			inTitle = tag == atom.Title && !inSVG
			switch tag {
			case atom.Svg:
				inSVG = true // its title is a tool tip
			case atom.Html:
				once("language", attr["lang"])
			case atom.Meta:
				switch name := strings.ToLower(attr["name"]); name {
				case "description", "keywords", "robots", "generator", "author":
					once(name, attr["content"])
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

// readTag returns a start tag's name and the attributes that pageModule needs.
func readTag(z *html.Tokenizer) (atom.Atom, map[string]string) {
	name, more := z.TagName()
	tag := atom.Lookup(name)
	if tag != atom.Html && tag != atom.Meta {
		return tag, nil
	}
	attr := make(map[string]string)
	for more {
		var k, v []byte
		k, v, more = z.TagAttr()
		switch key := string(k); key {
		case "lang", "name", "content", "http-equiv":
			if _, twice := attr[key]; !twice {
				attr[key] = string(v[:min(len(v), maxTitle)])
			}
		}
	}
	return tag, attr
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

// imageModule reports format, width and height of GIF, JPEG and PNG images, and of
// a GIF its version, number of frames and of colours in its global table: what
// Mercator's GIF statistics were made from.
type imageModule struct{}

func (imageModule) Name() string    { return "image" }
func (imageModule) Types() []string { return []string{"image/gif", "image/jpeg", "image/png"} }
func (imageModule) New() Instance   { return imageModule{} }

func (imageModule) Process(ctx context.Context, doc *Document, report func(key, value string)) error {
	if bytes.HasPrefix(doc.Body, []byte("GIF8")) {
		return gifStats(doc.Body, report)
	}
	c, format, err := image.DecodeConfig(bytes.NewReader(doc.Body))
	if err != nil {
		return err
	}
	report("format", format)
	report("width", strconv.Itoa(c.Width))
	report("height", strconv.Itoa(c.Height))
	return nil
}

// gifStats walks the blocks of a GIF (GIF89a section 17 ff.) without decoding pixels.
// Of one that is cut short it reports the frames that are there.
func gifStats(b []byte, report func(key, value string)) error {
	if len(b) < 13 {
		return fmt.Errorf("gif header of %d bytes, want 13", len(b))
	}
	colors := 0
	rest := b[13:]
	if b[10]&0x80 != 0 {
		colors = 2 << (b[10] & 7)
		rest = rest[min(len(rest), 3*colors):]
	}
	report("format", "gif")
	report("version", string(b[3:6]))
	report("width", strconv.Itoa(int(b[6])|int(b[7])<<8))
	report("height", strconv.Itoa(int(b[8])|int(b[9])<<8))
	report("colors", strconv.Itoa(colors))
	frames := 0
	for len(rest) > 0 {
		switch rest[0] {
		case 0x2C: // image descriptor
			if len(rest) < 11 {
				rest = nil
				break
			}
			frames++
			table := 0
			if rest[9]&0x80 != 0 {
				table = 3 * (2 << (rest[9] & 7))
			}
			rest = skipBlocks(rest[min(len(rest), 11+table):])
		case 0x21: // extension
			rest = skipBlocks(rest[min(len(rest), 2):])
		default: // trailer, or not a GIF any more
			rest = nil
		}
	}
	report("frames", strconv.Itoa(frames))
	return nil
}

// skipBlocks skips data sub-blocks with their terminator.
func skipBlocks(b []byte) []byte {
	for len(b) > 0 {
		n := int(b[0])
		b = b[min(len(b), n+1):]
		if n == 0 {
			break
		}
	}
	return b
}
