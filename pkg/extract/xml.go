package extract

import (
	"bufio"
	"encoding/xml"
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
	bound := &tokenBound{in: in}
	d := xml.NewDecoder(bound)
	d.Strict = false
	d.Entity = xml.HTMLEntity
	d.CharsetReader = charset.NewReaderLabel
	root := ""
	var text []byte
	collecting := "" // local name of the element whose text is a link
	kind := ""
	for {
		// Raw: no stack of open elements that a hostile file could make deep.
		bound.left = maxToken
		tok, err := d.RawToken()
		if err != nil {
			f.page.Cut = bound.hit
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

// tokenBound ends the input where the decoder has read maxToken bytes without a
// token: it holds each as a whole, and a file may be one comment.
type tokenBound struct {
	in   io.Reader
	left int
	hit  bool
}

func (b *tokenBound) Read(p []byte) (int, error) {
	if b.left <= 0 {
		b.hit = true
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.in.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

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
