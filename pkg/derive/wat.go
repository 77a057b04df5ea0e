package derive

import (
	"bytes"
	"crypto/sha1"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/net/html/charset"

	"mercator/formats/warc"
	"mercator/pkg/extract"
	"mercator/pkg/httpmsg"
)

// Bounds of a page's metadata.
const (
	MaxItems      = 20_000  // metas, links and scripts of one page
	maxItemsBytes = 4 << 20 // of all their values, as JSON
	maxAnchor     = 128     // characters of an anchor's text, as Common Crawl has it
	maxAttribute  = 8 << 10 // bytes of one value
	maxTitle      = 4 << 10
	maxToken      = 2 << 20
	maxRequest    = 64 << 10 // bytes of a request's head
)

// object is a JSON object that keeps the order of its members.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON writes the members in their order.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	e := encoder(&b)
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := e.Encode(m.name); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := e.Encode(m.value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// encoder writes JSON in which < > & stand as they are.
func encoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

func (o *object) add(name string, value any) { *o = append(*o, member{name, value}) }

// envelope is what WAT says of a record.
func (w *Writer) envelope(r *warc.Reader, rec *warc.Record, file string) (object, error) {
	fields := object{{"WARC-Type", rec.Type}, {"WARC-Date", rec.Date.UTC().Format(time.RFC3339Nano)}, {"WARC-Record-ID", "<" + rec.ID + ">"},
		{"Content-Length", number(rec.Length)}, {"Content-Type", rec.ContentType}}
	if rec.TargetURI != "" {
		fields.add("WARC-Target-URI", rec.TargetURI)
	}
	for _, f := range rec.Fields {
		if !slices.ContainsFunc(fields, func(m member) bool { return m.name == f.Name }) {
			fields.add(f.Name, f.Value)
		}
	}
	container := object{{"Filename", file}, {"Compressed", r.Codec() != warc.None}, {"Offset", number(rec.Offset)}}
	envelope := object{{"Format", "WARC"}, {"WARC-Header-Length", number(int64(rec.Header))}, {"WARC-Header-Metadata", fields}}
	inflated := int64(rec.Header) + rec.Length + 4
	offset, codec := rec.Offset, r.Codec()

	payload := object{{"Actual-Content-Type", rec.ContentType}}
	var request bytes.Buffer
	if rec.Type == warc.TypeRequest {
		rec.Block = io.TeeReader(rec.Block, &limited{&request, maxRequest})
	}
	var info bytes.Buffer
	if rec.Type == warc.TypeInfo || rec.ContentType == warc.MediaFields {
		rec.Block = io.TeeReader(rec.Block, &limited{&info, maxRequest})
	}
	kind := rec.Type
	m, err := readMessage(rec, w.opt.MaxBody)
	if err == nil {
		err = r.Finish()
	}
	if err != nil {
		return nil, err
	}
	if codec == warc.Gzip {
		header, crc := r.Inflated()
		container.add("Gzip-Metadata", object{
			{"Deflate-Length", number(r.Good() - offset)}, // of the whole member
			{"Header-Length", number(header)}, {"Footer-Length", "8"},
			{"Inflated-CRC", number(int64(int32(crc)))}, {"Inflated-Length", number(inflated)},
		})
	}
	switch {
	case m.head != nil:
		payload.add("HTTP-Response-Metadata", w.response(m))
	case kind == warc.TypeRequest:
		payload.add("HTTP-Request-Metadata", requestOf(request.Bytes(), m))
	case kind == warc.TypeInfo:
		payload.add("WARC-Info-Metadata", named(warc.ParseFields(info.Bytes())))
	case info.Len() > 0:
		list := []object{}
		for _, f := range warc.ParseFields(info.Bytes()) {
			list = append(list, object{{"Name", f.Name}, {"Value", f.Value}})
		}
		payload.add("WARC-Metadata-Metadata", object{{"Metadata-Records", list}})
	}
	payload.add("Actual-Content-Length", number(m.blockLength))
	slop := "4" // the line ends behind the block, which Common Crawl counts as part of fields
	if info.Len() > 0 {
		slop = "0"
	}
	payload.add("Trailing-Slop-Length", slop)
	payload.add("Block-Digest", warc.FormatSHA1(m.block))
	envelope.add("Payload-Metadata", payload)
	return object{{"Container", container}, {"Envelope", envelope}}, nil
}

// limited keeps the first bytes.
type limited struct {
	b   *bytes.Buffer
	max int
}

func (l *limited) Write(p []byte) (int, error) {
	l.b.Write(p[:min(len(p), l.max-l.b.Len())])
	return len(p), nil
}

// named makes an object of fields; those of one name become an array.
func named(fields []warc.Field) object {
	o := object{}
	for _, f := range fields {
		i := slices.IndexFunc(o, func(m member) bool { return m.name == f.Name })
		if i < 0 {
			o.add(f.Name, f.Value)
			continue
		}
		switch v := o[i].value.(type) {
		case string:
			o[i].value = []string{v, f.Value}
		case []string:
			o[i].value = append(v, f.Value)
		}
	}
	return o
}

func headers(fields []httpmsg.Field) object {
	list := make([]warc.Field, len(fields))
	for i, f := range fields {
		list[i] = warc.Field(f)
	}
	return named(list)
}

// requestOf describes a request, as far as it is one.
func requestOf(head []byte, m *message) object {
	text := string(head)
	end := strings.Index(text, "\r\n\r\n")
	if end < 0 {
		end = len(text)
	}
	line, rest, _ := strings.Cut(text[:end], "\r\n")
	words := strings.SplitN(line, " ", 3)
	for len(words) < 3 {
		words = append(words, "")
	}
	o := object{
		{"Request-Message", object{{"Method", words[0]}, {"Path", words[1]}, {"Version", words[2]}}},
		{"Headers-Length", number(int64(min(end+2, len(text))))}, // without the blank line, unlike a response's
		{"Headers", named(warc.ParseFields([]byte(rest)))},
		{"Entity-Length", number(max(m.blockLength-int64(end)-4, 0))},
	}
	if int64(len(text)) == m.blockLength {
		o.add("Entity-Digest", warc.FormatSHA1(sha1.Sum(head[min(end+4, len(head)):])))
	}
	o.add("Entity-Trailing-Slop-Length", "0")
	return o
}

func (w *Writer) response(m *message) object {
	h := m.head
	o := object{
		{"Response-Message", object{{"Version", "HTTP/" + number(int64(h.Major)) + "." + number(int64(h.Minor))}, {"Status", number(int64(h.Status))}, {"Reason", h.Reason}}},
		{"Headers-Length", number(int64(h.Size))},
		{"Headers", headers(h.Fields)},
		{"Entity-Length", number(m.entityLength)},
		{"Entity-Digest", warc.FormatSHA1(m.entity)},
		{"Entity-Trailing-Slop-Length", "0"},
	}
	switch extract.MediaType(m.doc) {
	case "text/html", "application/xhtml+xml":
		o.add("HTML-Metadata", htmlMetadata(m.doc))
	}
	return o
}

// places are the attributes with URLs of each element, and those that are kept
// with the first of them.
var places = map[atom.Atom]struct{ urls, with []string }{
	atom.A:          {[]string{"href"}, []string{"target", "alt", "title", "rel", "hreflang", "type"}},
	atom.Applet:     {[]string{"codebase"}, nil},
	atom.Area:       {[]string{"href"}, []string{"rel"}},
	atom.Audio:      {[]string{"src"}, nil},
	atom.Blockquote: {[]string{"cite"}, nil},
	atom.Button:     {[]string{"formaction"}, nil},
	atom.Del:        {[]string{"cite"}, nil},
	atom.Embed:      {[]string{"src"}, nil},
	atom.Form:       {[]string{"action"}, []string{"method", "target"}},
	atom.Frame:      {[]string{"src"}, nil},
	atom.Iframe:     {[]string{"src"}, nil},
	atom.Img:        {[]string{"src", "longdesc", "srcset"}, []string{"alt", "title"}},
	atom.Input:      {[]string{"src"}, nil},
	atom.Ins:        {[]string{"cite"}, nil},
	atom.Link:       {[]string{"href"}, []string{"rel", "type", "hreflang", "title"}},
	atom.Object:     {[]string{"codebase", "data"}, nil},
	atom.Q:          {[]string{"cite"}, nil},
	atom.Script:     {[]string{"src"}, []string{"type"}},
	atom.Source:     {[]string{"src", "srcset"}, nil},
	atom.Track:      {[]string{"src"}, nil},
	atom.Video:      {[]string{"src", "poster"}, nil},
}

var metaAttributes = []string{"name", "property", "itemprop", "http-equiv", "charset", "content"}

// metadata collects what HTML-Metadata holds. URLs are as they stand in the page.
type metadata struct {
	title, base          string
	metas, link, scripts []object
	links                []object
	items, bytes         int
	cut                  bool
	anchor               object // open a element
	anchorText           []byte
	inTitle, inSVG       bool
}

func (p *metadata) keep(list *[]object, o object) {
	for _, m := range o {
		p.bytes += sizeJSON(m.value.(string))
	}
	if p.items++; p.items > MaxItems || p.bytes > maxItemsBytes {
		p.cut = true
		return
	}
	*list = append(*list, o)
}

// sizeJSON is how long a string may be in JSON: six times as long, if it is made for that.
func sizeJSON(s string) int {
	n := len(s)
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ':
			n += len(`\u0000`) - 1
		case c == '"', c == '\\':
			n++
		}
	}
	return n
}

func htmlMetadata(doc *extract.Document) object {
	contentType := "text/html"
	if doc.Charset != "" {
		contentType += "; charset=" + doc.Charset
	}
	p := &metadata{}
	if r, err := charset.NewReader(bytes.NewReader(doc.Body), contentType); err == nil { // io.EOF: an empty page
		p.read(r)
	}
	head := object{}
	if p.title != "" {
		head.add("Title", p.title)
	}
	if p.base != "" {
		head.add("Base", p.base)
	}
	for _, part := range []struct {
		name string
		list []object
	}{{"Metas", p.metas}, {"Link", p.link}, {"Scripts", p.scripts}} {
		if len(part.list) > 0 {
			head.add(part.name, part.list)
		}
	}
	o := object{{"Head", head}}
	if len(p.links) > 0 {
		o.add("Links", p.links)
	}
	if p.cut {
		o.add("Truncated", true)
	}
	return o
}

func (p *metadata) read(r io.Reader) {
	z := html.NewTokenizer(r)
	z.SetMaxBuf(maxToken)
	for !p.cut {
		switch tt := z.Next(); tt {
		case html.ErrorToken:
			p.endAnchor()
			return
		case html.TextToken:
			if p.inTitle && p.title == "" {
				p.title = words(z.Text(), maxTitle)
			}
			if p.anchor != nil && len(p.anchorText) < 8*maxAnchor {
				t := z.Text()
				p.anchorText = append(p.anchorText, t[:min(len(t), 8*maxAnchor)]...)
			}
		case html.EndTagToken:
			name, _ := z.TagName()
			switch atom.Lookup(name) {
			case atom.A:
				p.endAnchor()
			case atom.Svg:
				p.inSVG = false
			}
			p.inTitle = false
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			p.tag(z, atom.Lookup(name), more, tt == html.SelfClosingTagToken)
		}
	}
}

// words is text with single spaces, in at most max bytes.
func words(b []byte, max int) string {
	s := strings.Join(strings.Fields(strings.ToValidUTF8(string(b[:min(len(b), max)]), "")), " ")
	return s
}

func (p *metadata) endAnchor() {
	if p.anchor == nil {
		return
	}
	text := words(p.anchorText, len(p.anchorText))
	if utf8.RuneCountInString(text) > maxAnchor {
		text = strings.TrimSpace(string([]rune(text)[:maxAnchor]))
	}
	if text != "" {
		p.anchor.add("text", text)
	}
	p.keep(&p.links, p.anchor)
	p.anchor, p.anchorText = nil, p.anchorText[:0]
}

func (p *metadata) tag(z *html.Tokenizer, tag atom.Atom, more, closed bool) {
	switch tag {
	case atom.Noscript:
		z.NextIsNotRawText() // we are who runs no scripts
	case atom.Svg:
		p.inSVG = !closed
	case atom.Title:
		p.inTitle = !p.inSVG
	case atom.Base:
		if p.base == "" {
			p.base = attributes(z, more, "href")["href"]
		}
	case atom.Meta:
		a := attributes(z, more, metaAttributes...)
		var o object
		for _, name := range metaAttributes {
			if v, ok := a[name]; ok {
				o.add(name, v)
			}
		}
		if o != nil {
			p.keep(&p.metas, o)
		}
	}
	at, ok := places[tag]
	if !ok {
		return
	}
	if tag == atom.A {
		p.endAnchor()
	}
	a := attributes(z, more, append(at.urls[:len(at.urls):len(at.urls)], at.with...)...)
	for i, name := range at.urls {
		u, ok := a[name]
		if !ok {
			continue
		}
		o := object{{"path", strings.ToUpper(tag.String()) + "@/" + name}, {"url", u}}
		for _, with := range at.with {
			if v, ok := a[with]; ok && i == 0 {
				o.add(with, v)
			}
		}
		switch {
		case tag == atom.Link:
			p.keep(&p.link, o)
		case tag == atom.Script:
			p.keep(&p.scripts, o)
		case tag == atom.A && !closed:
			p.anchor = o
		default:
			p.keep(&p.links, o)
		}
	}
}

// attributes reads those of a start tag that are named; of one that is there twice
// the first counts.
func attributes(z *html.Tokenizer, more bool, names ...string) map[string]string {
	a := make(map[string]string, len(names))
	for more {
		var k, v []byte
		k, v, more = z.TagAttr()
		if !slices.Contains(names, string(k)) {
			continue
		}
		if _, twice := a[string(k)]; !twice {
			a[string(k)] = strings.ToValidUTF8(string(v[:min(len(v), maxAttribute)]), "")
		}
	}
	return a
}
