package canon

import (
	neturl "net/url"
	"testing"

	"github.com/nlnwa/whatwg-url/url"
)

// links are of the kinds that pages have, in about the proportions of Python's
// documentation; bench/canon measures those of whole sets of pages.
var links = []string{
	"#os.path.join", "#module-os", "../library/os.path.html", "../library/functions.html#open", "../genindex.html",
	"../_static/pygments.css", "https://docs.python.org/3/library/os.html", "https://github.com/python/cpython/tree/3.11/Lib/os.py",
	"#", "../bugs.html", "exceptions.html#OSError", "../search.html?q=path", "./", "/index.html", "../whatsnew/3.11.html#os",
}

func BenchmarkLinks(b *testing.B) {
	const page = "https://docs.example.org/python3.11/html/library/os.html"
	b.Run("AppendResolve", func(b *testing.B) {
		base, _ := Options{}.Base(page)
		var dst []byte
		for i := range b.N {
			dst, _, _ = base.AppendResolve(dst[:0], bytesOf(links[i%len(links)]))
		}
	})
	b.Run("AppendResolve and Key by all rules", func(b *testing.B) {
		o := Options{KeyRules: AllRules}
		base, _ := o.Base(page)
		var dst []byte
		var p Parts
		for i := range b.N {
			dst, p, _ = base.AppendResolve(dst[:0], bytesOf(links[i%len(links)]))
			o.Key(dst, p)
		}
	})
	b.Run("Base", func(b *testing.B) {
		for range b.N {
			Options{}.Base(page)
		}
	})
	b.Run("CDXKey", func(b *testing.B) {
		for range b.N {
			CDXKey(page)
		}
	})
	b.Run("whatwg-url", func(b *testing.B) {
		parser := url.NewParser()
		base, _ := parser.Parse(page)
		for i := range b.N {
			if u, err := parser.BasicParser(links[i%len(links)], base, nil, url.NoState); err == nil {
				u.Href(true)
			}
		}
	})
	b.Run("net-url.Parse", func(b *testing.B) {
		for i := range b.N {
			neturl.Parse(links[i%len(links)])
		}
	})
}
