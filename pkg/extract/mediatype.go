package extract

import (
	"bytes"
	"slices"
	"strings"

	"github.com/gabriel-vasile/mimetype"

	"mercator/pkg/web/httpmsg"
	"mercator/pkg/web/process"
)

// What a document is searched as.
type docSort int

const (
	sortOther docSort = iota
	sortHTML
	sortCSS
	sortXML  // a sitemap, a feed, or any other, by the root element
	sortText // a sitemap of one URL a line, or any other
	sortGzip
	sortPDF
	sortOffice
	sortJSON
	sortScript
	sortListing
	sortMenu
)

// sniffLen is how much of a body tells its type, in bytes.
const sniffLen = 3072

// directoryLen is how much of a zip archive's end is searched for the names of its files, in bytes.
const directoryLen = 64 << 10

// MediaType is the type of a document: what the header says, unless that is known
// to be said for want of a better. Then the body decides, as in browsers (WHATWG
// MIME Sniffing), who go less far in the second and the last of these:
//
//	none, */*, unknown/unknown, application/unknown   what the body looks like
//	application/octet-stream                          the same: servers say it of files they do not know
//	application/zip of a zip archive                  the same: office documents are zip archives
//	text/plain with binary data                       the same, but no text: servers say it by default
//	text/html that begins as a feed                   XML
//	XML, CSS or text that is compressed               gzip: of files stored as .gz
//
// A reply that says X-Content-Type-Options: nosniff is taken at its word, if there
// is one.
func MediaType(doc *Document) string {
	m := doc.MIME
	switch m {
	case "", "*/*", "unknown/unknown", "application/unknown":
		return sniff(doc.Body)
	}
	if strings.EqualFold(strings.TrimSpace(doc.Header.Get("X-Content-Type-Options")), "nosniff") {
		return m
	}
	head := doc.Body[:min(len(doc.Body), sniffLen)]
	switch {
	case m == "application/octet-stream", m == "binary/octet-stream", (m == "application/zip" || m == "application/x-zip-compressed") && bytes.HasPrefix(head, []byte("PK")):
		return sniff(doc.Body)
	case m == "text/plain" && !httpmsg.IsText(head):
		if s := sniff(doc.Body); !strings.HasPrefix(s, "text/") {
			return s
		}
		return "application/octet-stream"
	case m == "text/html" && isFeed(head):
		return "text/xml"
	case isGzip(head) && (m == "text/plain" || m == "text/css" || isXMLType(m)):
		return "application/gzip"
	}
	return m
}

// sniff is the type that a body looks like, without parameters.
func sniff(b []byte) string {
	m, _, _ := strings.Cut(mimetype.Detect(b[:min(len(b), sniffLen)]).String(), ";")
	if i := slices.IndexFunc(process.OfficeNames, func(n process.OfficeName) bool {
		return (m == "application/zip" || m == "application/java-archive") && bytes.Contains(b[max(0, len(b)-directoryLen):], []byte(n.Name))
	}); i >= 0 {
		return process.OfficeNames[i].MIME
	}
	return m
}

// isFeed reports whether what is called HTML begins as a feed (MIME Sniffing section 7.3).
func isFeed(b []byte) bool {
	b = bytes.TrimPrefix(b, utf8Mark)
	for {
		b = bytes.TrimLeft(b, htmlSpace)
		var end []byte
		switch {
		case bytes.HasPrefix(b, []byte("<!--")):
			end = []byte("-->")
		case bytes.HasPrefix(b, []byte("<?")):
			end = []byte("?>")
		case bytes.HasPrefix(b, []byte("<!")):
			end = []byte(">")
		default:
			for _, root := range []string{"<rss", "<feed", "<rdf:RDF", "<urlset", "<sitemapindex"} {
				if rest, ok := bytes.CutPrefix(b, []byte(root)); ok && len(rest) > 0 && strings.IndexByte(htmlSpace+">:", rest[0]) >= 0 {
					return true
				}
			}
			return false
		}
		_, rest, ok := bytes.Cut(b[2:], end)
		if !ok {
			return false
		}
		b = rest
	}
}

func isGzip(b []byte) bool { return bytes.HasPrefix(b, []byte("\x1f\x8b\x08")) }

func isXMLType(m string) bool {
	return m == "text/xml" || m == "application/xml" || m == "text/rdf" || m == "text/rss" || m == "text/x-opml" || strings.HasSuffix(m, "+xml")
}

var officeTypes = process.OfficeTypes()

func classify(doc *Document) docSort {
	m := MediaType(doc)
	switch m {
	case "text/html", "application/xhtml+xml", "application/vnd.wap.xhtml+xml":
		return sortHTML
	case "text/css":
		return sortCSS
	case "application/gzip", "application/x-gzip":
		return sortGzip
	case "application/pdf", "application/x-pdf":
		return sortPDF
	case "text/x-ftp-listing":
		return sortListing
	case "application/gopher-menu":
		return sortMenu
	case "application/json", "text/json", "application/x-ndjson", "application/jsonl":
		return sortJSON
	case "text/javascript", "application/javascript", "application/x-javascript", "application/ecmascript", "text/ecmascript":
		return sortScript
	case "text/plain", "text/csv", "text/markdown", "text/tab-separated-values":
		return sortText
	}
	switch {
	case isXMLType(m):
		return sortXML
	case slices.Contains(officeTypes, m):
		return sortOffice
	case strings.HasSuffix(m, "+json"):
		return sortJSON
	}
	return sortOther
}
