package mfocus

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"mercator/formats/record"
	"mercator/formats/warc"
	"mercator/pkg/base/fingerprint"
)

// fetched STORE ROWS TABLE writes pages into STORE/a.warc.gz, and their fetch records, which end the round r1, to ROWS. A line of the table is
// "URL outcome status media-type score duplicate file", with - for none of the last two.
func fetched(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.MkdirAll(ts.MkAbs(args[0]), 0o777))
	out, err := os.Create(ts.MkAbs(args[1]))
	ts.Check(err)
	like := record.NewSchema(record.KindFetch, record.Column{Name: "rank"})
	w, err := record.NewWriter[record.Fetch](out, record.WriterOptions{Name: args[1], Txn: "r1", Now: 1, Like: like})
	ts.Check(err)
	var file []byte
	for i, line := range strings.Split(strings.TrimSpace(ts.ReadFile(args[2])), "\n") {
		row := record.Fetch{Host: "h", Role: record.RolePage, FetchTime: record.Time(i + 1), Extra: like.Extra(func(string) uint64 { return uint64(i) })}
		var duplicate, body string
		_, err := fmt.Sscan(line, &row.URL, &row.Outcome, &row.Status, &row.MIME, &row.Score, &duplicate, &body)
		ts.Check(err)
		row.Key, row.Duplicate = fingerprint.URLKey(row.Host, row.URL), duplicate != "-"
		if body != "-" {
			body := ts.ReadFile(body)
			row.BodyLength, row.WARCFilename, row.WARCOffset = int64(len(body)), "a.warc.gz", int64(len(file))
			reply := fmt.Sprintf("HTTP/1.1 %d OK\r\nContent-Type: %s\r\n\r\n%s", row.Status, row.MIME, body)
			file, err = (&warc.Encoder{Codec: warc.Gzip}).Append(file, &warc.Record{
				Type: warc.TypeResponse, Date: time.Unix(int64(i+1), 0), TargetURI: row.URL, ContentType: warc.MediaResponse,
				Block: strings.NewReader(reply), Length: int64(len(reply)),
			})
			ts.Check(err)
			row.WARCLength = int64(len(file)) - row.WARCOffset
		}
		ts.Check(w.Write(&row))
	}
	n, hash, err := w.Finish()
	ts.Check(err)
	_, err = w.Commit(record.Ledger{Stages: []record.Stage{{Name: "mfetch", Txn: "r1", Made: []record.Count{{Reason: "page", N: n}}, Out: n, OutHash: hash.String()}}})
	ts.Check(err)
	ts.Check(out.Close())
	ts.Check(os.WriteFile(filepath.Join(ts.MkAbs(args[0]), "a.warc.gz"), file, 0o666))
}

// show FILE prints fetch or module records, and the last stage of a ledger that must balance.
func show(ts *testscript.TestScript, _ bool, args []string) {
	f, err := os.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	defer f.Close()
	src, err := record.Open(f, record.ReaderOptions{Name: args[0]})
	ts.Check(err)
	var t record.Trailer
	if src.Kind() == record.KindFetch {
		t = showRows(ts, src, func(r *record.Fetch) string {
			rank, _ := r.Extra.Number("rank")
			return fmt.Sprintf("%s %.3f %q rank %d", r.URL, r.Score, r.Extra.Text("topic"), rank)
		})
	} else {
		t = showRows(ts, src, func(r *record.Module) string {
			n := func(name string) (n uint64) { n, _ = r.Extra.Number(name); return n }
			return fmt.Sprintf("%s %s %s %d-%d %d-%d %s", r.URL, r.Module, r.Name, n("start"), n("end"), n("start_char"), n("end_char"), r.Value)
		})
	}
	ts.Check(t.Ledger.Balance())
	s := t.Ledger.Stages[len(t.Ledger.Stages)-1]
	fmt.Fprintf(ts.Stdout(), "%s of %s: in %d passed %d consumed %d out %d drops %v\n", s.Name, s.Txn, s.In, s.Passed, s.Consumed, s.Out, s.Drops)
}

func showRows[T record.Row](ts *testscript.TestScript, src *record.Source, text func(*T) string) record.Trailer {
	r, err := record.Rows[T](src)
	ts.Check(err)
	for {
		var row T
		if err := r.Read(&row); err == io.EOF {
			return r.Trailer()
		} else if err != nil {
			ts.Fatalf("%v", err)
		}
		fmt.Fprintln(ts.Stdout(), text(&row))
	}
}
