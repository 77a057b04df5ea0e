package derive

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
	"mercator/formats/warc"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/must"
)

// rowsOf are the rows that would have been written with the records of WARC files, and what a store would say of them.
func rowsOf(t *testing.T, list []warc.Part) (rows []record.Fetch, places warc.Places) {
	t.Helper()
	for _, p := range list {
		f, length, err := p.Open()
		must.OK(t, err)
		defer f.Close()
		r := warc.NewReader(io.NewSectionReader(f, 0, length), warc.ReaderOptions{})
		defer r.Close()
		for {
			rec, err := r.Next()
			if err == io.EOF {
				break
			}
			must.OK(t, err)
			offset, plain, date := rec.Offset, rec.Plain(), rec.Date
			line, err := AppendCDXJ(nil, r, rec, partName(p))
			must.OK(t, err)
			if len(line) == 0 {
				continue
			}
			var c cdx
			must.OK(t, json.Unmarshal(line[bytes.Index(line, []byte(" {"))+1:], &c))
			places.Add(partName(p), offset, r.Good()-offset, plain)
			rows = append(rows, record.Fetch{URL: c.URL, Role: record.RolePage, Outcome: record.OutcomeFetched, Status: 200, MIME: c.MIME, PayloadSHA1: c.Digest,
				FetchTime: record.TimeOf(date), WARCFilename: partName(p), WARCOffset: offset, WARCLength: r.Good() - offset})
		}
	}
	return rows, places
}

// TestKeepIndexOfRows: rows give the index where they are the rows of the archive, else the archive gives it.
func TestKeepIndexOfRows(t *testing.T) {
	dir := t.TempDir()
	list := parts(t, dir, warc.Gzip, 3, 4)
	var want bytes.Buffer
	must.OK(t, CDXJ(context.Background(), &want, list, 1<<20, nil))
	all, places := rowsOf(t, list)
	const mark = "text/x-row" // of a row alone
	for name, c := range map[string]struct {
		change func(rows []record.Fetch) []record.Fetch
		damage func(b []byte) []byte
		slow   bool
	}{
		"all":              {},
		"in another order": {change: func(rows []record.Fetch) []record.Fetch { slices.Reverse(rows); return rows }},
		"one less":         {change: func(rows []record.Fetch) []record.Fetch { return rows[1:] }, slow: true},
		"one more":         {change: func(rows []record.Fetch) []record.Fetch { return append(rows, rows[0]) }, slow: true},
		"another place":    {change: func(rows []record.Fetch) []record.Fetch { rows[0].WARCOffset++; return rows }, slow: true},
		"another file":     {change: func(rows []record.Fetch) []record.Fetch { rows[0].WARCFilename = "x"; return rows }, slow: true},
		"a cut file":       {damage: func(b []byte) []byte { return b[:len(b)-9] }, slow: true},
		"a damaged file":   {damage: func(b []byte) []byte { b[len(b)/2] ^= 1; return b }, slow: true},
		"no file":          {damage: func([]byte) []byte { return nil }, slow: true},
	} {
		t.Run(name, func(t *testing.T) {
			rows := slices.Clone(all)
			if c.change != nil {
				rows = c.change(rows)
			}
			for i := range rows {
				if rows[i].MIME == "text/html" {
					rows[i].MIME = mark
				}
			}
			file := recordtest.File(t, filepath.Join(t.TempDir(), "rows"), nil, rows...)
			if c.damage != nil {
				b, err := os.ReadFile(file)
				if err == nil {
					if b = c.damage(b); b == nil {
						err = os.Remove(file)
					} else {
						err = os.WriteFile(file, b, 0o644)
					}
				}
				must.OK(t, err)
			}
			index := t.TempDir()
			// The first file stands in the index already, in the second step.
			for _, some := range [][]warc.Part{list[:1], list} {
				from := &Rows{Files: []string{file}, Places: places}
				if len(some) == 1 {
					from = nil
				}
				must.OK(t, KeepIndex(context.Background(), durable.OS, index, "c", []string{"../fetch"}, some, from, 1<<20, nil))
			}
			b, err := os.ReadFile(filepath.Join(index, "index.cdxj"))
			must.OK(t, err)
			marks := 8 // of the pages of two files
			if c.slow {
				marks = 0
			}
			if n := strings.Count(string(b), mark); n != marks {
				t.Errorf("%d lines of rows, want %d", n, marks)
			}
			got := strings.SplitAfter(strings.ReplaceAll(string(b), mark, "text/html"), "\n")
			slices.Sort(got) // the mark has changed the order
			if diff := cmp.Diff(slices.Sorted(strings.SplitAfterSeq(want.String(), "\n")), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestRowTells: what a row does not tell for certain is read.
func TestRowTells(t *testing.T) {
	row := record.Fetch{URL: "http://h/", Outcome: record.OutcomeFetched, Status: 200, MIME: "text/html", PayloadSHA1: "X"}
	for name, c := range map[string]struct {
		change func(r *record.Fetch)
		want   bool
	}{
		"a page":             {func(*record.Fetch) {}, true},
		"no media type":      {func(r *record.Fetch) { r.MIME = "" }, true},
		"not modified":       {func(r *record.Fetch) { r.Outcome, r.Status, r.PayloadSHA1 = record.OutcomeNotModified, 304, "" }, true}, // it has no line
		"no digest":          {func(r *record.Fetch) { r.PayloadSHA1 = "" }, false},
		"no status":          {func(r *record.Fetch) { r.Status = 0 }, false},
		"an interim status":  {func(r *record.Fetch) { r.Status = 101 }, false},
		"a blank in a URL":   {func(r *record.Fetch) { r.URL += " " }, false},
		"other characters":   {func(r *record.Fetch) { r.URL += "é" }, false},
		"a long media type":  {func(r *record.Fetch) { r.MIME = "a/" + strings.Repeat("b", mimeMax) }, false},
		"a document of HTTP": {func(r *record.Fetch) { r.MIME = "application/http" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := row
			c.change(&r)
			if got := tells(&r); got != c.want {
				t.Errorf("%t, want %t", got, c.want)
			}
		})
	}
}

// TestNoLineOfNotModified: a player would show the reply 304 in place of the page that it is about.
func TestNoLineOfNotModified(t *testing.T) {
	block := "HTTP/1.1 304 Not Modified\r\n\r\n"
	for profile, lines := range map[string]int{warc.ProfileNotModified: 0, warc.ProfileIdenticalPayload: 1} {
		rec := &warc.Record{Type: warc.TypeRevisit, Date: time.Unix(1e9, 0), TargetURI: "http://h/", ContentType: warc.MediaResponse, Block: strings.NewReader(block), Length: int64(len(block))}
		rec.Add(warc.FieldProfile, profile)
		member, err := warc.Encoder{}.Append(nil, rec)
		must.OK(t, err)
		r := warc.NewReader(bytes.NewReader(member), warc.ReaderOptions{})
		defer r.Close()
		rec, err = r.Next()
		must.OK(t, err)
		if line, err := AppendCDXJ(nil, r, rec, "x"); err != nil || (len(line) > 0) != (lines > 0) {
			t.Errorf("%s: %q, %v", profile, line, err)
		}
	}
	if line := AppendRowCDXJ(nil, &record.Fetch{URL: "http://h/", Role: record.RolePage, Outcome: record.OutcomeNotModified, Status: 304, WARCFilename: "x", WARCLength: 9}); len(line) > 0 {
		t.Errorf("%q", line)
	}
}
