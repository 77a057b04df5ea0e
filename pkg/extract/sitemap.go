package extract

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
	"path"
	"regexp"
	"strings"
	"sync"

	"golang.org/x/net/publicsuffix"
	"golang.org/x/text/transform"

	"mercator/formats/record"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/httpmsg"
	"mercator/pkg/web/linkkind"
)

// Limits of sitemaps, beside the limits of Options.
const (
	sitemapHead   = 64 << 10 // bytes in which the first element of a sitemap begins: programs write warnings before it
	sitemapLayers = 3        // how often a sitemap may be compressed
	sitemapLevels = 5        // of sitemaps that name sitemaps
	foreignMax    = 100      // sitemaps on other hosts that one robots.txt may name
)

// ReasonSitemapDepth refuses a sitemap that a sitemap of the last level names (sitemapLevels).
const ReasonSitemapDepth = "sitemap-depth"

// robots adds the sitemaps that a robots.txt names.
func (f *finder) robots(body []byte) {
	_, own, _ := canon.Split(f.page.Base.String())
	foreign := 0
	body = bytes.TrimPrefix(body, utf8Mark)
	for len(body) > 0 {
		line := body
		if end := bytes.IndexAny(body, "\r\n"); end >= 0 {
			line, body = body[:end], body[end+1:]
		} else {
			body = nil
		}
		for _, ref := range sitemapRefs(string(line)) {
			ref = f.withScheme(ref)
			if _, host, err := f.page.Base.Resolve(ref); err == nil && host != own {
				if foreign++; foreign > foreignMax {
					f.refuse(linkkind.Sitemap, ref, ReasonTooMany)
					continue
				}
			}
			f.addLink(linkkind.Sitemap, ref, false)
		}
	}
}

var sitemapKey = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)^[\x00\s]*site-?map(?:\s*:|\s)`) })

// sitemapRefs returns the sitemaps that a line of robots.txt names. One may have spaces in it:
// words are several only if each is one.
func sitemapRefs(line string) []string {
	key := sitemapKey().FindString(line)
	if key == "" {
		return nil
	}
	value := line[len(key):]
	for _, comment := range []string{" #", "\t#"} {
		value, _, _ = strings.Cut(value, comment)
	}
	trim := func(s string) string { return strings.Trim(s, " \t\x00<>\"'") }
	words := strings.FieldsFunc(value, func(r rune) bool { return r == ' ' || r == '\t' })
	for i := range words {
		words[i] = trim(strings.Trim(words[i], ",;"))
		if !strings.Contains(words[i], "://") && !strings.HasPrefix(words[i], "/") {
			words = nil
			break
		}
	}
	if len(words) < 2 {
		words = []string{trim(value)}
	}
	var refs []string
	for _, w := range words {
		for i, rest := range strings.Split(w, ",http") { // no space between
			if i > 0 {
				rest = "http" + rest
			}
			if rest = trim(rest); rest != "" {
				refs = append(refs, rest)
			}
		}
	}
	return refs
}

// withScheme is a reference of a sitemap, or to one, which must be a whole URL. Where it
// begins with a host instead ("www.example.org/map.xml"), it gets the scheme of the
// document; it is no path then.
func (f *finder) withScheme(ref string) string {
	name := ref
	if i := strings.IndexAny(ref, "/?#"); i >= 0 {
		name = ref[:i]
	}
	if name == "" || strings.HasPrefix(ref[len(name):], "//") || !f.isHost(name, ref[len(name):]) {
		return ref
	}
	scheme, _, _ := canon.Split(f.page.Base.String())
	return scheme + "://" + ref
}

// isHost reports whether what may be a host or a segment of a path is a host: that of the document or one of its
// domain, one that begins with "www.", or one with the last label of the document's host or of a registry, but only if a path
// follows: "map.zip" is a file.
func (f *finder) isHost(name, rest string) bool {
	_, own, _ := canon.Split(f.page.Base.String())
	own, _ = canon.SplitPort(own)
	bare, port, withPort := strings.Cut(strings.ToLower(name), ":")
	if withPort && !isNumber(port) || !hostName().MatchString(bare) {
		return false
	}
	domain := canon.RegisteredDomain(own)
	switch {
	case bare == own || bare == domain || strings.HasSuffix(bare, "."+domain):
		return true
	case strings.HasPrefix(bare, "www.") && strings.Count(bare, ".") > 1:
		return true
	case !strings.HasPrefix(rest, "/"):
		return false
	}
	_, registry := publicsuffix.PublicSuffix(bare)
	last := bare[strings.LastIndexByte(bare, '.'):]
	return registry || strings.HasSuffix(own, last)
}

var hostName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[\p{L}\p{N}_-]+(\.[\p{L}\p{N}_-]+)*\.(\p{L}{2,}|xn--[a-z0-9-]+)$`)
})

// sitemapTags finds what tells a sitemap, a feed or a part of one, and a page of HTML.
var sitemapTags = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)<(?:(?:[\w.-]+:)?(urlset|sitemapindex|rss|feed|rdf|url|sitemap|loc)|(!doctype\s+html|html|head|body|a))[\s/>]`)
})

// sitemap reads a document that a robots.txt or a sitemap names as a sitemap, whatever its
// URL and its header say of its type. What looks like none is left to the other readers: false.
func (f *finder) sitemap(doc *Document) bool {
	in := bufio.NewReader(bytes.NewReader(doc.Body))
	for range sitemapLayers {
		if head, _ := in.Peek(3); !isGzip(head) {
			break
		}
		z, err := gzip.NewReader(in)
		if err != nil {
			return false
		}
		in = bufio.NewReader(io.LimitReader(z, int64(f.opt.MaxUnzipped)))
	}
	in = sitemapText(in, doc.Charset)
	head, _ := in.Peek(sitemapHead) // what there is
	switch at := sitemapTags().FindSubmatchIndex(head); {
	case at != nil && at[2] >= 0:
		start := at[0]
		for _, before := range []string{"<!DOCTYPE", "<?xml "} {
			if i := bytes.Index(head[:start], []byte(before)); i >= 0 {
				start = i
			}
		}
		_, _ = in.Discard(start) // it was seen
		f.xmlTokens(in, "urlset")
	case at != nil || bytes.HasPrefix(bytes.TrimLeft(head, htmlSpace), []byte("<")) || !httpmsg.IsText(head[:min(len(head), sniffLen)]):
		return false
	default:
		f.textSitemap(in, true)
	}
	return true
}

// sitemapText is a sitemap as UTF-8: by its byte order mark, by its zeros if it is UTF-16, by the header, or by
// its declaration, which may stand behind other text.
func sitemapText(in *bufio.Reader, label string) *bufio.Reader {
	head, _ := in.Peek(1024) // what there is
	enc, _ := markEncoding(head)
	if enc == nil && len(head) >= 4 {
		switch {
		case head[1] == 0 && head[3] == 0:
			enc, _ = lookup("utf-16le")
		case head[0] == 0 && head[2] == 0:
			enc, _ = lookup("utf-16be")
		}
	}
	if enc == nil {
		var name string
		if enc, name = lookup(label); strings.HasPrefix(name, "utf-16") {
			enc = nil // it would have zeros
		}
	}
	if i := bytes.Index(head, []byte("<?xml")); enc == nil && i >= 0 {
		enc, _ = xmlEncoding(head[i:])
	}
	if enc == nil {
		enc, _ = lookup("utf-8")
	}
	if bytes.HasPrefix(head, utf8Mark) {
		_, _ = in.Discard(len(utf8Mark)) // they were seen
	}
	return bufio.NewReaderSize(transform.NewReader(in, enc.NewDecoder()), sitemapHead)
}

// textSitemap adds the lines of a text sitemap that are URLs: whole ones, and of a document that was named as a
// sitemap also hosts with a path, and paths. A tab or "<" ends one.
func (f *finder) textSitemap(in *bufio.Reader, named bool) {
	var line []byte
	long := false
	end := func() {
		s := strings.TrimSpace(strings.TrimPrefix(string(line), "\uFEFF"))
		if i := strings.IndexAny(s, "\t<"); i >= 0 {
			s = strings.TrimSpace(s[:i])
		}
		if named && !strings.Contains(s, "://") {
			if whole := f.withScheme(s); whole != s || strings.HasPrefix(s, "/") {
				s = whole
			} else {
				s = ""
			}
		}
		if !long && s != "" && (named || strings.Contains(s, "://")) {
			f.addLink(linkkind.SitemapURL, s, false)
		}
		line, long = line[:0], false
	}
	for {
		c, err := in.ReadByte()
		switch {
		case err == io.EOF:
			end()
			return
		case err != nil: // damage: half a URL is none
			return
		case c == '\n' || c == '\r':
			end()
		case len(line) == maxElementText:
			long = true // a line that is no URL
		default:
			line = append(line, c)
		}
	}
}

// isSitemapName reports whether the last segment of a URL's path says sitemap. A
// text of URLs that nobody named has no other mark.
func isSitemapName(u string) bool {
	_, _, rest := canon.Split(u)
	p, _, _ := strings.Cut(rest, "?")
	return strings.Contains(strings.ToLower(path.Base(p)), "sitemap")
}

// gzip reads a compressed sitemap, as far as MaxUnzipped.
func (f *finder) gzip(doc *Document) {
	z, err := gzip.NewReader(bytes.NewReader(doc.Body))
	if err != nil {
		return
	}
	in := bufio.NewReader(io.LimitReader(z, int64(f.opt.MaxUnzipped)))
	head, _ := in.Peek(512) // damage: what there is decides
	switch t := bytes.TrimLeft(bytes.TrimPrefix(head, utf8Mark), " \t\r\n"); {
	case len(t) > 0 && t[0] == '<':
		f.xml(in, "")
	case isSitemapName(doc.URL) && f.opt.Sources.has(FromSitemaps):
		f.textSitemap(in, false)
	}
}

// sitemapLevel is the level (record.URL.Sitemap) of a link in a row's document; 0: it names no sitemap.
// That which a robots.txt names has 1, unless it was only asked for because of a sitemap or a page's part on its host.
func sitemapLevel(row *record.Fetch, kind string) uint8 {
	switch {
	case kind == linkkind.Redirect:
		return row.Sitemap
	case kind != linkkind.Sitemap:
		return 0
	case row.Role == record.RoleRobots && (row.Requisite == 0 || row.Requisite&linkkind.Page != 0):
		return row.Sitemap + 1
	}
	return max(row.Sitemap, 1) + 1
}

// requisite is the column requisite of the target of a link in a row's document. A sitemap is no page: it has no parts.
func requisite(row *record.Fetch, kind string) uint8 {
	if row.Sitemap > 0 {
		return 0
	}
	return linkkind.Requisite(kind, row.Requisite)
}
