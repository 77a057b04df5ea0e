package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/formats/warc"
	"mercator/pkg/httpmsg"
)

// showWARCRecord prints one record; cdxj has lines for replies only, text for
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
		return p.showCDXJ(r, rec, name)
	}
	return p.putJSON(warcText{Type: rec.Type, ID: rec.ID, Date: rec.Date.UTC().Format(time.RFC3339Nano), TargetURI: rec.TargetURI,
		MediaType: rec.ContentType, Length: rec.Length, Offset: rec.Offset, Filename: filepath.Base(name)})
}

func (p *printer) showCDXJ(r *warc.Reader, rec *warc.Record, name string) error {
	if rec.Type != "response" && rec.Type != "revisit" {
		return nil
	}
	c := cdx{URL: rec.TargetURI, Offset: strconv.FormatInt(rec.Offset, 10), Filename: filepath.Base(name),
		Digest: strings.TrimPrefix(rec.Get("WARC-Payload-Digest"), "sha1:")}
	stamp := rec.Date.UTC().Format(cdxTime)
	if rec.Type == "revisit" {
		c.MIME = "warc/revisit"
	}
	if strings.HasPrefix(rec.ContentType, "application/http") {
		if m, err := httpmsg.Open(rec.Block); err == nil { // a reply that no one can parse has no status
			c.Status = strconv.Itoa(m.Head.Status)
			if c.MIME == "" {
				c.MIME, _ = httpmsg.MediaType(m.Head.Get("Content-Type"))
			}
		}
	}
	if err := r.Finish(); err != nil {
		return err
	}
	c.Length = strconv.FormatInt(r.Good()-rec.Offset, 10)
	return p.put(appendCDXJ(p.line[:0], stamp, c))
}
