package render

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/formats/warc"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/release"
	"mercator/pkg/web/process"
)

// module is the name under which findings stand.
const module = "rendered"

// record writes a record to the WARC file of the round. It has the records of browsertrix-crawler: "urn:pageinfo:URL", what the page asked for and
// what became of it, as JSON; "urn:text:URL", its text; "urn:view:URL", a picture. The replies themselves are where mfetch wrote them.
func (w *batch) record(uri, mime string, date time.Time, block []byte) error {
	if w.out == nil {
		f, err := w.state.tx.Create("warc/", ".warc.gz", roleWARC)
		if err != nil {
			return err
		}
		w.file, w.out = f, warc.NewWriter(f, 0)
		about := warc.FormatFields([]warc.Field{{Name: "software", Value: "mercator/" + release.Version}, {Name: "format", Value: "WARC File Format 1.1"}, {Name: "transaction", Value: w.b.Schema().Txn}})
		info := &warc.Record{Type: warc.TypeInfo, Date: date, ContentType: warc.MediaFields, Block: bytes.NewReader(about), Length: int64(len(about))}
		if _, _, err := w.out.Write(info, warc.Encoder{}); err != nil {
			return err
		}
	}
	rec := &warc.Record{Type: warc.TypeResource, Date: date, TargetURI: uri, ContentType: mime, Block: bytes.NewReader(block), Length: int64(len(block))}
	_, _, err := w.out.Write(rec, warc.Encoder{})
	return err
}

// pageInfo is the block of urn:pageinfo.
type pageInfo struct {
	PageID   string           `json:"pageid"`
	URL      string           `json:"url"`
	TS       time.Time        `json:"ts"`
	TSStatus uint16           `json:"tsStatus"`
	URLs     map[string]asked `json:"urls"`
	Counts   map[string]int   `json:"counts"`
	Attempt  int              `json:"attempt"`
	Why      string           `json:"why"`
	Cut      string           `json:"cut,omitempty"`
	Software string           `json:"software"`
}

// write writes the records and the findings of a page. Records have the date of its document, so that the same page gives the same again.
func (w *batch) write(r *rendered) error {
	p, date := r.page, r.page.Fetched.Go()
	info := pageInfo{PageID: string(fingerprint.Append(nil, p.key)), URL: p.URL, TS: date, TSStatus: p.Part.Status, URLs: r.asked, Counts: map[string]int{"requests": r.result.Requests},
		Attempt: p.Attempts, Why: p.Why, Cut: r.result.Cut, Software: "mercator/" + release.Version}
	block, err := json.MarshalIndent(info, "", " ")
	if err != nil {
		return err
	}
	err = cmp.Or(w.record("urn:pageinfo:"+p.URL, "application/json", date, block), w.record("urn:text:"+p.URL, "text/plain", date, []byte(r.result.Text)))
	if err == nil && r.result.Screenshot != nil {
		err = w.record("urn:view:"+p.URL, "image/png", date, r.result.Screenshot)
	}
	find := func(name, value string) {
		if err == nil {
			err = w.Finding(&record.Module{URL: p.URL, Key: p.key, Module: module, Name: name, Value: value})
		}
	}
	find("why", p.Why)
	if r.result.Cut != "" {
		find("cut", r.result.Cut)
	}
	n := 2
	process.Pieces(strings.ToValidUTF8(r.result.Text, "\uFFFD"), func(piece string) {
		if n++; n <= process.MaxFindings {
			find("text", piece)
		}
	})
	return err
}
