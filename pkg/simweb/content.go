package simweb

import (
	"bytes"

	"github.com/klauspost/compress/gzip"
)

// mimeTypes of assets, by extension.
var mimeTypes = map[string]string{
	"css": "text/css", "gif": "image/gif", "jpg": "image/jpeg", "js": "text/javascript", "txt": "text/plain; charset=utf-8",
	"xml": "application/xml", "pdf": "application/pdf", "doc": "application/msword",
}

func (w *Web) contentType(r resource) string {
	switch r.kind {
	case kindAsset:
		return mimeTypes[extension(r.n)]
	case kindSitemap:
		if r.n%2 == 1 {
			return "application/gzip"
		}
		return "application/xml"
	}
	if w.status(r) == 200 && w.declaration(r) == inHeader {
		return "text/html; charset=" + charsetNames[w.charset(r)]
	}
	return "text/html"
}

// appendBody appends the document, without content coding.
func (w *Web) appendBody(b []byte, r resource, variant uint64) []byte {
	switch status := w.status(r); {
	case r.kind == kindRedirect:
		to, _ := w.redirection(r)
		b = append(b, "<html><body>Moved <a href=\""...)
		b = appendEscaped(b, w.appendURL(nil, to))
		return append(b, "\">there</a></body></html>\n"...)
	case status != 200:
		return append(b, "<html><body>There is nothing here. <a href=\"/nothing\">More of it</a></body></html>\n"...)
	case r.kind == kindAsset:
		return w.appendAsset(b, r)
	case r.kind == kindSitemap:
		return w.appendSitemap(b, r)
	case r.kind == kindEndless, r.kind == kindMenu:
		return w.appendRoughPage(b, r)
	}
	return w.appendPage(b, r, variant)
}

func (w *Web) appendSitemap(b []byte, r resource) []byte {
	const ns = `xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"`
	start := len(b)
	list, item := "urlset", "url"
	if r.n == 0 {
		list, item = "sitemapindex", "sitemap"
	}
	b = append(b, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<"+list+" "+ns+">\n"...)
	for _, to := range w.appendSitemapTargets(nil, r) {
		b = append(b, "<"+item+"><loc>"...)
		b = appendEscaped(b, w.appendURL(nil, to))
		b = append(b, "</loc></"+item+">\n"...)
	}
	b = append(b, "</"+list+">\n"...)
	if r.n%2 == 0 {
		return b
	}
	return append(b[:start], gzipped(b[start:])...)
}

// gzipped compresses at the fastest level.
func gzipped(b []byte) []byte {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	z.Write(b) // a bytes.Buffer takes everything
	z.Close()
	return out.Bytes()
}

// appendAsset appends a small file of the asset's type. Pictures, scripts and
// style sheets are the same on many hosts; the others say where they are.
func (w *Web) appendAsset(b []byte, r resource) []byte {
	shared := byte('a' + r.n/int32(len(extensions))%16)
	url := func() { b = w.appendURL(b, r) }
	switch extension(r.n) {
	case "css":
		// A style sheet has no links, so that a crawl may search it or not.
		b = append(b, "body { margin: 1em } /* "...)
		b = append(b, shared)
		return append(b, " */\n"...)
	case "js":
		b = append(b, "\"use strict\";\nvar page = \""...)
		b = append(b, shared)
		return append(b, "\";\n"...)
	case "gif": // 1 × 1 pixel, with a comment
		b = append(b, "GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xfe\x01"...)
		b = append(b, shared)
		return append(b, "\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"...)
	case "jpg": // JFIF header and a comment
		b = append(b, "\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00\xff\xfe\x00\x03"...)
		b = append(b, shared)
		return append(b, "\xff\xd9"...)
	case "txt":
		b = append(b, "Notes kept at "...)
		url()
		if w.Topics > 0 {
			b = w.appendNotes(append(b, "\n\n"...), r)
		}
		return append(b, "\n\nNothing here is a link.\n"...)
	case "xml":
		b = append(b, "<?xml version=\"1.0\"?>\n<notes about=\""...)
		b = appendEscaped(b, w.appendURL(nil, r))
		b = append(b, "\"><note>"...)
		if w.Topics > 0 {
			b = w.appendNotes(b, r)
		}
		return append(b, "Nothing here is a link.</note></notes>\n"...)
	case "pdf":
		if w.Topics > 0 {
			return w.appendPDF(b, r)
		}
		b = append(b, "%PDF-1.4\n1 0 obj <</Type/Catalog/Pages 2 0 R>> endobj\n2 0 obj <</Type/Pages/Kids[]/Count 0>> endobj\n% "...)
		url()
		return append(b, "\ntrailer <</Root 1 0 R>>\n%%EOF\n"...)
	}
	b = append(b, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"...) // OLE file, as Word wrote it
	b = append(b, make([]byte, 504)...)
	url()
	if w.Topics > 0 {
		b = w.appendNotes(append(b, "\r"...), r)
	}
	return b
}
