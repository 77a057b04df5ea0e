package extract

import (
	"mime"
	"net/http"
	"strings"
)

// What a document is searched as.
type docSort int

const (
	sortOther docSort = iota
	sortHTML
	sortCSS
	sortXML
	sortText // a sitemap of one URL a line
	sortGzip
	sortListing
	sortMenu
)

// mediaType is what the header says, or what the body looks like where the header
// says nothing.
func mediaType(doc *Document) string {
	m := doc.MIME
	if m == "" || m == "application/octet-stream" || m == "unknown/unknown" {
		m, _, _ = mime.ParseMediaType(http.DetectContentType(doc.Body))
	}
	return m
}

func classify(doc *Document) docSort {
	m := mediaType(doc)
	switch m {
	case "text/html", "application/xhtml+xml", "application/vnd.wap.xhtml+xml":
		return sortHTML
	case "text/css":
		return sortCSS
	case "text/xml", "application/xml", "text/rdf", "text/rss":
		return sortXML
	case "application/gzip", "application/x-gzip":
		return sortGzip
	case "text/x-ftp-listing":
		return sortListing
	case "application/gopher-menu":
		return sortMenu
	case "text/plain":
		if isSitemapName(doc.URL) {
			return sortText
		}
	}
	if strings.HasSuffix(m, "+xml") && m != "image/svg+xml" {
		return sortXML
	}
	return sortOther
}
