package extract

import (
	"net/http"
	"os"
	"path/filepath"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/web/process"
)

// Documents reads the documents that fetch rows stand for. One goroutine.
type Documents struct {
	archive archive
	maxBody int64
}

// NewDocuments reads from a fetch store, or those of the shards of a crawl folder, or with "" only what rows carry. Bodies are cut at maxBody bytes (0: DefaultMaxBody).
func NewDocuments(store string, maxBody int64) *Documents {
	if maxBody <= 0 {
		maxBody = DefaultMaxBody
	}
	return &Documents{archive: archive{dir: store}, maxBody: maxBody}
}

// DocumentsOf reads the documents of a crawl folder, of one shard or several.
func DocumentsOf(crawl string, maxBody int64) *Documents {
	dir := filepath.Join(crawl, "fetch")
	if _, err := os.Stat(dir); err != nil {
		dir = crawl
	}
	return NewDocuments(dir, maxBody)
}

// Read returns the document of a row, decoded, as modules see it; nil if it has no body that can be had. The body is valid until the
// next call. An error is damage of the archive.
func (d *Documents) Read(row *record.Fetch) (*process.Document, error) {
	doc := &Document{URL: row.URL, MIME: row.MIME, Charset: row.Charset, Body: row.Body}
	if row.Body == nil {
		if row.WARCFilename == "" || row.BodyLength <= 0 {
			return nil, nil
		}
		if d.archive.dir == "" {
			return nil, &fault.Error{
				Class: fault.Usage, Found: "fetch records without --warc", Want: "the fetch store of their WARC files",
				Hint: "add --warc crawl/fetch",
			}
		}
		p, err := d.archive.read(row, min(d.maxBody, row.BodyLength), false)
		if err != nil {
			return nil, err
		}
		doc.Header, doc.Body = p.header, p.body
	}
	if len(doc.Body) == 0 {
		return nil, nil
	}
	doc.Body = doc.Body[:min(int64(len(doc.Body)), d.maxBody)]
	out := &process.Document{
		URL: row.URL, Key: row.Key, Header: doc.Header, MIME: MediaType(doc), Charset: ModuleCharset(doc), Status: int(row.Status), Truncated: row.Truncated, Body: doc.Body,
	}
	if as := classify(doc); as == sortXML {
		_, out.Charset = documentEncoding(doc, as)
	}
	return out, nil
}

// Header returns the header of a row's reply from the archive; nil if the reply has no body, as in Read, unless it says "not modified".
func (d *Documents) Header(row *record.Fetch) (http.Header, error) {
	if row.WARCFilename == "" || row.BodyLength <= 0 && row.Outcome != record.OutcomeNotModified {
		return nil, nil
	}
	p, err := d.archive.read(row, 0, true)
	return p.header, err
}

// Close closes the files.
func (d *Documents) Close() { d.archive.close() }
