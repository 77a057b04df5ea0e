package extract

import (
	"bufio"
	"encoding/xml"
	"errors"
	"io"
	"strings"

	"golang.org/x/net/html/charset"
)

// maxElementText bounds what is read of an element whose text is a link.
const maxElementText = 16 << 10

// xml adds the links of a sitemap, a sitemap index (sitemaps.org), RSS 0.9 to
// 2.0 or Atom (RFC 4287). The root element says which; XML of other roots has no
// links. Damage ends the search.
func (f *finder) xml(in io.Reader) {
	m := &meter{in: bufio.NewReader(in)}
	d := xml.NewDecoder(m)
	d.Strict = false
	d.Entity = xml.HTMLEntity
	d.CharsetReader = func(label string, in io.Reader) (io.Reader, error) {
		r, err := charset.NewReaderLabel(label, in)
		m = &meter{in: bufio.NewReader(r)} // in is the old one, which bounds nothing more
		return m, err
	}
	root := ""
	var text []byte
	collecting := "" // local name of the element whose text is a link
	kind := ""
	for {
		// Raw: no stack of open elements that a hostile file could make deep.
		m.begin()
		tok, err := d.RawToken()
		if err != nil {
			f.page.Cut = f.page.Cut || errors.Is(err, errToken)
			return
		}
		switch t := tok.(type) {
		case xml.StartElement:
			name := strings.ToLower(t.Name.Local)
			if root == "" {
				root = name
				if !feedRoots[root] {
					return
				}
				continue
			}
			kind = f.xmlElement(root, name, t)
			collecting, text = "", text[:0]
			if kind != "" {
				collecting = name
			}
		case xml.CharData:
			if collecting != "" && len(text)+len(t) <= maxElementText {
				text = append(text, t...)
			}
		case xml.EndElement:
			if collecting != "" && strings.ToLower(t.Name.Local) == collecting {
				ref := strings.TrimSpace(string(text))
				// A guid is a permanent link by default, and by habit often none.
				if ref != "" && (collecting != "guid" || strings.Contains(ref, "://")) {
					f.add(kind, ref, false)
				}
			}
			collecting = ""
		}
	}
}

// maxTag bounds a tag of XML, in bytes: its attributes cost many times as much.
const maxTag = 64 << 10

var errToken = errors.New("token too long")

// meter bounds the tokens of an XML decoder: it reads byte by byte, and so knows
// where a token begins.
type meter struct {
	in    *bufio.Reader
	n     int  // bytes of the token
	limit int  // 0: its kind is not known yet
	last  byte // that was read
}

// begin says that a token ended. If it was a text, the < behind it was read.
func (m *meter) begin() {
	m.n, m.limit = 0, 0
	if m.last != '<' {
		m.last = 0
	}
}

// ReadByte gives the next byte, or errToken.
func (m *meter) ReadByte() (byte, error) {
	c, err := m.in.ReadByte()
	if err != nil {
		return 0, err
	}
	switch {
	case m.limit != 0 || m.last == 0 && c == '<':
	case m.last == '<' && c != '!':
		m.limit = maxTag
	default:
		m.limit = maxToken
	}
	m.last = c
	if m.n++; m.limit != 0 && m.n > m.limit {
		return 0, errToken
	}
	return c, nil
}

// Read is for the decoder of another charset.
func (m *meter) Read(p []byte) (int, error) { return m.in.Read(p) }

var feedRoots = map[string]bool{"urlset": true, "sitemapindex": true, "rss": true, "rdf": true, "feed": true}

// xmlElement adds the links in an element's attributes, and returns the kind of
// link that its text is, or "".
func (f *finder) xmlElement(root, name string, t xml.StartElement) (kind string) {
	attr := func(name string) string {
		for _, a := range t.Attr {
			if strings.EqualFold(a.Name.Local, name) {
				return strings.TrimSpace(a.Value)
			}
		}
		return ""
	}
	switch root {
	case "sitemapindex":
		if name == "loc" {
			return KindSitemap
		}
	case "urlset":
		switch {
		case name == "loc" && t.Name.Space == "image":
			return KindImg
		case name == "loc":
			return KindSitemapURL
		case name == "link" && attr("href") != "":
			if kind := relKind(attr("rel"), attr("hreflang")); kind != "" {
				f.add(kind, attr("href"), false)
			}
		}
	case "rss", "rdf":
		switch name {
		case "link":
			if href := attr("href"); href != "" { // atom:link
				f.add(KindFeed, href, false)
				return ""
			}
			return KindFeed
		case "enclosure":
			if u := attr("url"); u != "" {
				f.add(KindFeed, u, false)
			}
		case "guid":
			if p := attr("isPermaLink"); root == "rss" && (p == "" || strings.EqualFold(p, "true")) {
				return KindFeed
			}
		case "comments":
			return KindFeed
		}
	case "feed":
		switch name {
		case "link":
			if href := attr("href"); href != "" {
				f.add(KindFeed, href, false)
			}
		case "content":
			if src := attr("src"); src != "" {
				f.add(KindFeed, src, false)
			}
		}
	}
	return ""
}

// textSitemap adds the lines of a text sitemap that are absolute URLs.
func (f *finder) textSitemap(in io.Reader) {
	r := bufio.NewReaderSize(in, maxElementText)
	for {
		line, err := r.ReadSlice('\n')
		whole := err != bufio.ErrBufferFull
		s := strings.TrimSpace(strings.TrimPrefix(string(line), "\uFEFF"))
		if whole && strings.Contains(s, "://") {
			f.add(KindSitemapURL, s, false)
		}
		for err == bufio.ErrBufferFull { // the rest of a line that is no URL
			_, err = r.ReadSlice('\n')
		}
		if err != nil {
			return
		}
	}
}
