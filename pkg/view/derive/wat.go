package derive

import (
	"bytes"
	"crypto/sha1"
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"mercator/formats/warc"
	"mercator/pkg/extract"
	"mercator/pkg/web/httpmsg"
	"mercator/pkg/web/markup"
)

// Bounds of a page's metadata.
const (
	MaxItems      = 20_000  // metas, links and scripts of one page
	maxItemsBytes = 4 << 20 // of all their values, as JSON
	maxAnchor     = 128     // characters of an anchor's text, as Common Crawl has it
	maxAttribute  = 8 << 10 // bytes of one value
	maxName       = 64      // bytes of an element's name
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

// append appends it as JSON, the members in their order, in which < > & stand as they are.
func (o object) append(b []byte) []byte {
	b = append(b, '{')
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, m.name), ':')
		switch v := m.value.(type) {
		case string:
			b = appendString(b, v)
		case bool:
			b = strconv.AppendBool(b, v)
		case object:
			b = v.append(b)
		case []object:
			b = appendArray(b, v, func(b []byte, o object) []byte { return o.append(b) })
		case []string:
			b = appendArray(b, v, appendString)
		}
	}
	return append(b, '}')
}

func appendArray[T any](b []byte, list []T, one func([]byte, T) []byte) []byte {
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = one(b, v)
	}
	return append(b, ']')
}

// appendString appends s as encoding/json has it.
func appendString(b []byte, s string) []byte {
	begin, from := len(b), 0
	b = append(b, '"')
	for i, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(append(b, s[from:i]...), '\\')
			from = i
		case r < ' ' || r == utf8.RuneError || r == '\u2028' || r == '\u2029':
			text := bytes.NewBuffer(b[:begin])
			_ = encoder(text).Encode(s) // no string is refused
			return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
		}
	}
	return append(append(b, s[from:]...), '"')
}

// encoder writes JSON in which < > & stand as they are.
func encoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

func (o *object) addMember(name string, value any) { *o = append(*o, member{name, value}) }

// envelope reads a record; what it returns makes what WAT says of it.
func (w *Writer) envelope(r *warc.Reader, rec *warc.Record, file string) (func() object, *message, error) {
	fields := object{{"WARC-Type", rec.Type}, {"WARC-Date", rec.Date.UTC().Format(time.RFC3339Nano)}}
	if rec.ID != "" {
		fields.addMember("WARC-Record-ID", "<"+rec.ID+">")
	}
	fields = append(fields, member{"Content-Length", number(rec.Length)}, member{"Content-Type", rec.ContentType})
	if rec.TargetURI != "" {
		fields.addMember("WARC-Target-URI", rec.TargetURI)
	}
	for _, f := range rec.Fields {
		if !slices.ContainsFunc(fields, func(m member) bool { return m.name == f.Name }) {
			fields.addMember(f.Name, f.Value)
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
	m, err := w.read(rec)
	if err == nil {
		err = r.Finish()
	}
	if err != nil {
		return nil, nil, err
	}
	if codec == warc.Gzip {
		header, crc := r.Inflated()
		container.addMember("Gzip-Metadata", object{
			{"Deflate-Length", number(r.Good() - offset)}, // of the whole member
			{"Header-Length", number(header)}, {"Footer-Length", "8"},
			{"Inflated-CRC", number(int64(int32(crc)))}, {"Inflated-Length", number(inflated)},
		})
	}
	return func() object {
		switch {
		case m.head != nil:
			payload.addMember("HTTP-Response-Metadata", w.response(m))
		case kind == warc.TypeRequest:
			payload.addMember("HTTP-Request-Metadata", requestOf(request.Bytes(), m))
		case kind == warc.TypeInfo:
			payload.addMember("WARC-Info-Metadata", named(warc.ParseFields(info.Bytes())))
		case info.Len() > 0:
			list := []object{}
			for _, f := range warc.ParseFields(info.Bytes()) {
				list = append(list, object{{"Name", f.Name}, {"Value", f.Value}})
			}
			payload.addMember("WARC-Metadata-Metadata", object{{"Metadata-Records", list}})
		}
		payload.addMember("Actual-Content-Length", number(m.blockLength))
		slop := "4" // the line ends behind the block, which Common Crawl counts as part of fields
		if info.Len() > 0 {
			slop = "0"
		}
		payload.addMember("Trailing-Slop-Length", slop)
		payload.addMember("Block-Digest", warc.FormatSHA1(m.block))
		envelope.addMember("Payload-Metadata", payload)
		return object{{"Container", container}, {"Envelope", envelope}}
	}, m, nil
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
			o.addMember(f.Name, f.Value)
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
		o.addMember("Entity-Digest", warc.FormatSHA1(sha1.Sum(head[min(end+4, len(head)):])))
	}
	o.addMember("Entity-Trailing-Slop-Length", "0")
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
		o.addMember("HTML-Metadata", htmlMetadata(m.doc))
	}
	return o
}

// places are the attributes with URLs of each element, and those that are kept
// with the first of them: those that Common Crawl has, and some more.
var places = sync.OnceValue(func() map[markup.Tag]place {
	t := map[markup.Tag]place{}
	for names, p := range map[string]struct{ urls, with string }{
		"a":                    {"href", "target alt title rel hreflang type"},
		"applet":               {"codebase cdata", ""},
		"area":                 {"href", "rel"},
		"audio embed track":    {"src", ""},
		"blockquote del ins q": {"cite", ""},
		"button":               {"formaction", ""},
		"form":                 {"action", "method target"},
		"frame iframe":         {"src", ""},
		"img":                  {"src longdesc srcset", "alt title"},
		"input":                {"src formaction", ""},
		"link":                 {"href", "rel type hreflang title"},
		"menuitem":             {"icon", ""},
		"object":               {"codebase cdata data", ""},
		"script":               {"src", "type"},
		"source":               {"src srcset", ""},
		"video":                {"src poster", ""},
	} {
		for _, name := range strings.Fields(names) {
			t[markup.TagOf(name)] = place{attributesOf(p.urls), attributesOf(p.with)}
		}
	}
	return t
})

type place struct{ urls, with []attribute }

type attribute struct {
	name string
	attr markup.Attr
}

func attributesOf(names string) (list []attribute) {
	for _, name := range strings.Fields(names) {
		list = append(list, attribute{name, markup.AttrOf(name)})
	}
	return list
}

// Of elements of any name: attributes with URLs, and what meta and html elements say.
var (
	anywhere       = attributesOf("background data-href data-uri")
	metaAttributes = attributesOf("name rel property itemprop http-equiv charset content")
	languages      = attributesOf("lang xml:lang")
)

// watAttributes are all of these.
var watAttributes = sync.OnceValue(func() *markup.Wants {
	set := uint64(1<<markup.AttrOnclick | 1<<markup.AttrHref)
	add := func(list []attribute) {
		for _, a := range list {
			set |= 1 << a.attr
		}
	}
	for _, p := range places() {
		add(p.urls)
		add(p.with)
	}
	add(anywhere)
	add(metaAttributes)
	add(languages)
	return markup.Want(set, 0)
})

// opens are scripts of onclick that do no more than go to a page.
var opens = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^\s*(?:javascript:)?\s*(?:(?:(?:window|top|document|self|parent)\.)?location(?:\.href)?\s*=\s*|(?:window|parent)\.open\s*\(\s*)(?:'([^'"]{3,256})'|"([^'"]{3,256})")`)
})

// metadata collects what HTML-Metadata holds. URLs are as they stand in the page.
type metadata struct {
	title, base          string
	metas, link, scripts []object
	links                []object
	items, bytes         int
	cut                  bool
	anchor               object // open a element
	anchorText           []byte
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
	p := &metadata{}
	p.read(doc)
	head := object{}
	if p.title != "" {
		head.addMember("Title", p.title)
	}
	if p.base != "" {
		head.addMember("Base", p.base)
	}
	for _, part := range []struct {
		name string
		list []object
	}{{"Metas", p.metas}, {"Link", p.link}, {"Scripts", p.scripts}} {
		if len(part.list) > 0 {
			head.addMember(part.name, part.list)
		}
	}
	o := object{{"Head", head}}
	if len(p.links) > 0 {
		o.addMember("Links", p.links)
	}
	if p.cut {
		o.addMember("Truncated", true)
	}
	return o
}

func (p *metadata) read(doc *extract.Document) {
	r := readers.Get().(*markup.Reader)
	defer readers.Put(r)
	extract.Open(r, doc, watAttributes())
	defer r.Close()
	var sheet []byte // of SVG
	for !p.cut {
		styled := r.Styled()
		within, _ := r.Within()
		r.Texts = p.anchor != nil && len(p.anchorText) < 8*maxAnchor || styled
		tok := r.Next()
		if styled && tok != markup.TokenText {
			p.style(sheet)
			sheet = sheet[:0]
		}
		switch e := &r.Element; tok {
		case markup.TokenEnd:
			p.endAnchor()
			return
		case markup.TokenText:
			switch {
			case styled && within == markup.TagStyle && len(sheet)+len(r.Text) <= maxToken:
				sheet = append(sheet, r.Decoded()...)
			case !styled && p.anchor != nil:
				t := r.Decoded()
				p.anchorText = append(p.anchorText, t[:min(len(t), 8*maxAnchor)]...)
			}
		case markup.TokenRaw:
			switch {
			case e.Tag == markup.TagTitle && p.title == "":
				p.title = words(r.Decoded(), maxTitle)
			case e.Tag == markup.TagStyle:
				p.style(r.Decoded())
			}
		case markup.TokenClose:
			if e.Tag == markup.TagA {
				p.endAnchor()
			}
		case markup.TokenStart:
			p.tag(r)
		}
	}
}

var readers = sync.Pool{New: func() any { return new(markup.Reader) }}

// style keeps the URLs of a style element.
func (p *metadata) style(sheet []byte) {
	extract.StyleURLs(sheet, func(ref string) {
		p.keep(&p.links, object{{"path", "STYLE/#text"}, {"href", cut(ref)}})
	})
}

// cut is a value of at most maxAttribute bytes, as UTF-8.
func cut(v string) string {
	return strings.ToValidUTF8(strings.Clone(v[:min(len(v), maxAttribute)]), "")
}

// words is text with single spaces, in at most max bytes.
func words(b []byte, max int) string {
	s := strings.ReplaceAll(strings.ToValidUTF8(string(b[:min(len(b), max)]), ""), "\uFEFF", "") // a byte order mark
	s = strings.Join(strings.Fields(s), " ")
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
		p.anchor.addMember("text", text)
	}
	p.keep(&p.links, p.anchor)
	p.anchor, p.anchorText = nil, p.anchorText[:0]
}

func (p *metadata) tag(r *markup.Reader) {
	e := &r.Element
	value := func(a attribute) (string, bool) {
		if e.Has>>a.attr&1 == 0 {
			return "", false
		}
		return cut(e.Get(a.attr)), true
	}
	if e.Tag == markup.TagA {
		p.endAnchor()
	}
	if e.Has == 0 {
		return
	}
	name := func() string {
		b := r.TagName()
		return strings.ToUpper(strings.ToValidUTF8(string(b[:min(len(b), maxName)]), ""))
	}
	for _, a := range anywhere {
		if v, ok := value(a); ok {
			p.keep(&p.links, object{{"path", name() + "@/" + a.name}, {"url", v}})
		}
	}
	if m := opens().FindSubmatch(e.Bytes(markup.AttrOnclick)); m != nil {
		p.keep(&p.links, object{{"path", name() + "@/onclick"}, {"url", cut(string(m[1]) + string(m[2]))}})
	}
	if e.Space != markup.SpaceHTML && e.Tag != markup.TagA {
		return
	}
	switch e.Tag {
	case markup.TagBase:
		if p.base == "" {
			p.base = cut(e.Get(markup.AttrHref))
		}
	case markup.TagHTML:
		for _, a := range languages {
			if v, ok := value(a); ok {
				p.keep(&p.metas, object{{"name", "HTML@/" + a.name}, {"content", v}})
			}
		}
	case markup.TagMeta:
		var o object
		for _, a := range metaAttributes {
			if v, ok := value(a); ok {
				o.addMember(a.name, v)
			}
		}
		if o != nil {
			p.keep(&p.metas, o)
		}
	}
	at := places()[e.Tag]
	for i, a := range at.urls {
		u, ok := value(a)
		if !ok {
			continue
		}
		o := object{{"path", strings.ToUpper(e.Name) + "@/" + a.name}, {"url", u}}
		for _, with := range at.with {
			if v, ok := value(with); ok && i == 0 {
				o.addMember(with.name, v)
			}
		}
		switch {
		case e.Tag == markup.TagLink:
			p.keep(&p.link, o)
		case e.Tag == markup.TagScript:
			p.keep(&p.scripts, o)
		case e.Tag == markup.TagA && !(e.SelfClosing && r.XML):
			p.anchor = o
		default:
			p.keep(&p.links, o)
		}
	}
}
