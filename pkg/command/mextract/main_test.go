package mextract

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"mercator/formats/record"
	"mercator/formats/warc"
	"mercator/pkg/base/fingerprint"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"mextract": func() { os.Exit(Command.Main("")) }})
}

func TestScripts(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			w.Header().Set("Content-Type", "text/html; charset=iso-8859-1")
			io.WriteString(w, "<title>Caf\xe9</title><a href='/b?\xe9'>b</a><a href=/gone>")
		case "/robots.txt":
			io.WriteString(w, "Sitemap: /s.xml\n")
		case "/b":
			http.Redirect(w, r, "/c", http.StatusFound)
		case "/c":
			io.WriteString(w, "<html><img src=i.gif>")
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(site.Close)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("SITE", site.URL)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"scores": scores, "makecrawl": makeCrawl, "show": show, "cutfile": cutFile, "flipbit": flipBit,
		},
	})
}

// makeCrawl STORE ROWS FILE... writes the files as HTML pages http://h/1, … into
// STORE/a.warc.gz, and their fetch records, which end the round r1, to ROWS.
func makeCrawl(ts *testscript.TestScript, neg bool, args []string) {
	var docs []document
	for _, name := range args[2:] {
		docs = append(docs, document{"text/html", "", ts.ReadFile(name)})
	}
	ts.Check(writeCrawl(ts.MkAbs(args[0]), ts.MkAbs(args[1]), docs))
}

type document struct{ mime, charset, body string }

func writeCrawl(dir, rows string, docs []document) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	out, err := os.Create(rows)
	if err != nil {
		return err
	}
	w, err := record.NewWriter[record.Fetch](out, record.WriterOptions{Name: rows, Txn: "r1", Now: 1})
	if err != nil {
		return err
	}
	var file []byte
	for i, d := range docs {
		reply := "HTTP/1.1 200 OK\r\nContent-Type: " + mime.FormatMediaType(d.mime, map[string]string{"charset": d.charset}) + "\r\n\r\n" + d.body
		row := record.Fetch{
			URL: fmt.Sprintf("http://h/%d", i+1), Host: "h", Role: record.RolePage, FetchTime: record.Time(1e6 * (i + 1)), Outcome: record.OutcomeFetched,
			Status: 200, MIME: d.mime, Charset: d.charset, BodyLength: int64(len(d.body)), WARCFilename: "a.warc.gz", WARCOffset: int64(len(file)),
		}
		row.Key = fingerprint.URLKey(row.Host, row.URL)
		file, err = (&warc.Encoder{Codec: warc.Gzip}).Append(file, &warc.Record{
			Type: warc.TypeResponse, Date: time.Unix(int64(i+1), 0), TargetURI: row.URL, ContentType: warc.MediaResponse,
			Block: strings.NewReader(reply), Length: int64(len(reply)),
		})
		if err != nil {
			return err
		}
		row.WARCLength = int64(len(file)) - row.WARCOffset
		if err := w.Write(&row); err != nil {
			return err
		}
	}
	n, hash, err := w.Finish()
	if err != nil {
		return err
	}
	stage := record.Stage{Name: "mfetch", Txn: "r1", Made: []record.Count{{Reason: "page", N: n}}, Out: n, OutHash: hash.String()}
	if _, err := w.Commit(record.Ledger{Stages: []record.Stage{stage}}); err != nil {
		return err
	}
	return errors.Join(out.Close(), os.WriteFile(filepath.Join(dir, "a.warc.gz"), file, 0o666))
}

// scores FILE prints the score of each link.
func scores(ts *testscript.TestScript, neg bool, args []string) {
	f, err := os.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	defer f.Close()
	src, err := record.Open(f, record.ReaderOptions{Name: args[0]})
	ts.Check(err)
	printRows(ts, src, func(l *record.Link) string { return fmt.Sprintf("%s %.3f", l.URL, l.Score) })
}

// show FILE prints link or module records, and checks that the ledger balances.
func show(ts *testscript.TestScript, neg bool, args []string) {
	f, err := os.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	defer f.Close()
	src, err := record.Open(f, record.ReaderOptions{Name: args[0]})
	ts.Check(err)
	var trailer record.Trailer
	switch src.Kind() {
	case record.KindLink:
		trailer = printRows(ts, src, func(l *record.Link) string {
			line := fmt.Sprintf("%s %s %q depth %d nofollow %v from %s at %d", l.LinkKind, l.URL, l.Text, l.Depth, l.Nofollow, l.SrcURL, l.Discovered)
			if reason := l.Extra.Text("refused"); reason != "" {
				line += " refused " + reason
			}
			return line
		})
	case record.KindModule:
		trailer = printRows(ts, src, func(m *record.Module) string {
			if !strings.HasPrefix(m.URL, "http://") {
				ts.Fatalf("finding %s %s is of the URL %q, want that of its page", m.Module, m.Name, m.URL)
			}
			return fmt.Sprintf("%s %s=%s", m.Module, m.Name, m.Value)
		})
	default:
		ts.Fatalf("kind %s", src.Kind())
	}
	ts.Check(trailer.Ledger.Balance())
	for _, s := range trailer.Ledger.Stages {
		fmt.Fprintf(ts.Stdout(), "stage %s txn %s in %d consumed %d out %d drops %v refused %v\n", s.Name, s.Txn, s.In, s.Consumed, s.Out, s.Drops, s.Refused)
	}
}

func printRows[T record.Row](ts *testscript.TestScript, src *record.Source, text func(*T) string) record.Trailer {
	r, err := record.Rows[T](src)
	ts.Check(err)
	for {
		var row T
		err := r.Read(&row)
		if err == io.EOF {
			return r.Trailer()
		}
		ts.Check(err)
		fmt.Fprintln(ts.Stdout(), text(&row))
	}
}

// cutFile FILE takes the last 10 bytes away.
func cutFile(ts *testscript.TestScript, neg bool, args []string) {
	b := ts.ReadFile(args[0])
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(b[:len(b)-10]), 0o666))
}

// flipBit FILE changes a bit near the end, in the last record's checksum.
func flipBit(ts *testscript.TestScript, neg bool, args []string) {
	b := []byte(ts.ReadFile(args[0]))
	b[len(b)-6] ^= 1
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o666))
}
