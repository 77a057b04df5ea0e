package mcat

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/formats/warc"
	"mercator/pkg/view/derive"
)

// showWARCRecord prints one record; cdxj has lines for replies and documents only, text for
// records with a URL.
func (p *printer) showWARCRecord(r *warc.Reader, rec *warc.Record, name string) error {
	switch p.g.Format {
	case "text":
		if rec.TargetURI == "" {
			return nil
		}
		return p.put(record.AppendEscaped(p.line[:0], rec.TargetURI))
	case "tsv":
		line := fmt.Appendf(p.line[:0], "%s\t%s\t%d\t%d\t", rec.Type, rec.Date.UTC().Format(time.RFC3339Nano), rec.Offset, rec.Length)
		return p.put(record.AppendEscaped(line, rec.TargetURI))
	case "cdxj":
		line, err := derive.AppendCDXJ(p.line[:0], r, rec, strings.TrimSuffix(filepath.Base(name), ".open"))
		if err != nil || len(line) == 0 {
			return err
		}
		return p.put(printable(line))
	}
	return p.putJSON(warcText{Type: rec.Type, ID: rec.ID, Date: rec.Date.UTC().Format(time.RFC3339Nano), TargetURI: rec.TargetURI,
		MediaType: rec.ContentType, Length: rec.Length, Offset: rec.Offset, Filename: filepath.Base(name)})
}
