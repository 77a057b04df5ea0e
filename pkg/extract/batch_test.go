package extract

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mercator/formats/record"
	"mercator/formats/warc"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/filter"
	"mercator/pkg/web/linkkind"
	"mercator/pkg/web/markup"
	"mercator/pkg/web/process"
)

// rowsInMemory is a batch in memory.
type rowsInMemory struct {
	rows     []record.Fetch
	in       int
	links    []string
	consumed int
	drops    map[string]int
	refused  map[string]uint64
	failAt   int // Make number that fails; 0: none
	readErr  error
}

var errSink = errors.New("the reader went away")

func (b *rowsInMemory) Read(row *record.Fetch) error {
	if b.in == len(b.rows) {
		if b.readErr != nil {
			return b.readErr
		}
		return io.EOF
	}
	*row = b.rows[b.in]
	b.in++
	return nil
}

func (b *rowsInMemory) Make(reason string, row *record.Link) error {
	if b.failAt > 0 && len(b.links)+1 == b.failAt {
		return errSink
	}
	b.links = append(b.links, fmt.Sprintf("%s %s depth %d from %s", reason, row.URL, row.Depth, row.SrcURL))
	return nil
}

func (b *rowsInMemory) Drop(reason string) {
	if b.drops == nil {
		b.drops = make(map[string]int)
	}
	b.drops[reason]++
}

func (b *rowsInMemory) Consume() { b.consumed++ }

func (b *rowsInMemory) Refuse(reason string, n uint64) {
	if b.refused == nil {
		b.refused = make(map[string]uint64)
	}
	b.refused[reason] += n
}

// keep writes replies into a fetch store's WARC file and returns their rows.
func keep(t *testing.T, name string, replies ...string) (dir string, rows []record.Fetch) {
	t.Helper()
	dir = t.TempDir()
	var file []byte
	for i, r := range replies {
		url := fmt.Sprintf("http://h/p%d", i)
		rec := &warc.Record{
			Type: warc.TypeResponse, Date: time.Unix(int64(i), 0).UTC(), TargetURI: url,
			ContentType: warc.MediaResponse, Block: strings.NewReader(r), Length: int64(len(r)),
		}
		at := len(file)
		var err error
		file, err = (&warc.Encoder{Codec: warc.Gzip}).Append(file, rec)
		must.OK(t, err)
		_, body, _ := strings.Cut(r, "\r\n\r\n")
		rows = append(rows, record.Fetch{
			URL: url, Role: record.RolePage, Outcome: record.OutcomeFetched, Status: 200, MIME: "text/html", Charset: "utf-8",
			BodyLength: int64(len(body)), Depth: 4, FetchTime: record.Time(i + 1),
			WARCFilename: strings.TrimSuffix(name, ".open"), WARCOffset: int64(at), WARCLength: int64(len(file) - at),
		})
	}
	must.OK(t, os.WriteFile(filepath.Join(dir, name), file, 0o666))
	return dir, rows
}

const page = "HTTP/1.1 200 OK\r\nLink: </next>; rel=next\r\n\r\n"

// TestCutDocuments: a document that is not searched to its end is counted, by reason.
func TestCutDocuments(t *testing.T) {
	long := page + "<a href=x>" + strings.Repeat(" ", 100)
	dir, rows := keep(t, "a.warc.gz.open", long, long, page+"<a href=y><a href='"+strings.Repeat("q", 3*markup.MaxToken)+"'><a href=z>", page+"<a href=x>")
	rows[1].Truncated = "disconnect"
	rows[0].Truncated = "length" // MaxBody would cut it, too
	b := &rowsInMemory{rows: rows[:2]}
	report, err := Batch(context.Background(), b, Settings{Archive: dir, MaxBody: 50})
	want := map[string]uint64{"max-body": 2}
	if err != nil || !maps.Equal(report.Cut, want) {
		t.Errorf("%v, %v; want %v", report.Cut, err, want)
	}
	b = &rowsInMemory{rows: rows}
	report, err = Batch(context.Background(), b, Settings{Archive: dir})
	want = map[string]uint64{"length": 1, "disconnect": 1, "tag": 1}
	if err != nil || !maps.Equal(report.Cut, want) {
		t.Errorf("%v, %v; want %v", report.Cut, err, want)
	}
	for reason, n := range want {
		if b.refused["cut-"+reason] != n {
			t.Errorf("the ledger has %v, want %v", b.refused, want)
		}
	}
}

// counter is a module that counts documents.
type counter int

func (*counter) Name() string            { return "counter" }
func (*counter) Types() []string         { return []string{"*/*"} }
func (c *counter) New() process.Instance { return c }
func (c *counter) Process(context.Context, *process.Document, func(key, value string)) error {
	*c++
	return nil
}

// TestDuplicateStyleSheets: each copy of a style sheet is searched where it stands, also where
// the archive has it once. Modules see it once.
func TestDuplicateStyleSheets(t *testing.T) {
	const sheet = "HTTP/1.1 200 OK\r\nContent-Type: text/css\r\n\r\n@import 'b.css'; p { background: url(i.png) }"
	dir, rows := keep(t, "a.warc.gz.open", sheet, sheet, page+"<a href=x>")
	name := filepath.Join(dir, "a.warc.gz.open")
	file, err := os.ReadFile(name)
	must.OK(t, err)
	head := strings.SplitAfter(sheet, "\r\n\r\n")[0]
	third, at := rows[0], len(file)
	third.URL = "http://h/c/p3"
	if file, err = (&warc.Encoder{Codec: warc.Gzip}).Append(file, &warc.Record{
		Type: warc.TypeRevisit, TargetURI: third.URL, Date: time.Unix(9, 0), ContentType: warc.MediaResponse, Block: strings.NewReader(head), Length: int64(len(head)),
		Fields: []warc.Field{{Name: warc.FieldProfile, Value: warc.ProfileIdenticalPayload}, {Name: warc.FieldRefersToFilename, Value: "a.warc.gz"}, {Name: warc.FieldRefersToOffset, Value: "0"}},
	}); err != nil {
		t.Fatal(err)
	}
	must.OK(t, os.WriteFile(name, file, 0o666))
	third.WARCOffset, third.WARCLength = int64(at), int64(len(file)-at)
	rows = append(rows, third)
	rows[1].URL, rows[1].BodyLength = "http://h/p1", rows[0].BodyLength
	for i := range rows {
		rows[i].MIME, rows[i].Duplicate = "text/css", i > 0
	}
	rows[2].MIME = "text/html"
	seen := counter(0)
	count := process.Selected{Module: &seen}
	b := &rowsInMemory{rows: rows}
	_, err = Batch(context.Background(), b, Settings{Archive: dir, Modules: []process.Selected{count}, Finding: func(*record.Module) error { return nil }})
	must.OK(t, err)
	want := []string{
		"css-import http://h/b.css depth 5 from http://h/p0", "css http://h/i.png depth 5 from http://h/p0",
		"css-import http://h/b.css depth 5 from http://h/p1", "css http://h/i.png depth 5 from http://h/p1",
		"css-import http://h/c/b.css depth 5 from http://h/c/p3", "css http://h/c/i.png depth 5 from http://h/c/p3",
	}
	if diff := cmp.Diff(want, b.links); diff != "" {
		t.Error(diff)
	}
	if b.drops["duplicate"] != 1 || b.consumed != 3 || seen != 1 {
		t.Errorf("%v dropped, %d consumed, modules saw %d", b.drops, b.consumed, seen)
	}
}

func TestBatchBooks(t *testing.T) {
	dir, rows := keep(t, "a.warc.gz.open",
		page+"<a href=x>", page+"<a href=x>", page+"Sitemap: /s.xml", page, page+"<a href=x>", page+"<a href=x>", page+"<a href='mailto:x'><a href=/no><a href=/y><a href=y>",
		"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nLink: <mailto:y>\r\n\r\n\x1f\x8b\x08")
	rows[1].Duplicate = true
	rows[2].Role, rows[2].Duplicate = record.RoleRobots, true // which does not matter
	rows[4].Status, rows[4].RedirectURL = 301, "http://g/"
	rows[5].Status = 404
	rows = append(rows, record.Fetch{URL: "http://h/denied", Role: record.RolePage, Outcome: record.OutcomeRobotsDenied},
		record.Fetch{URL: "http://h/robots.txt", Role: record.RoleRobots, Outcome: record.OutcomeTimeout})
	rules, err := filter.Parse("rules", strings.NewReader("deny no: suffix /no"))
	must.OK(t, err)
	b := &rowsInMemory{rows: rows}
	report, err := Batch(context.Background(), b, Settings{Archive: dir, Filter: rules, Threads: 2})
	must.OK(t, err)
	want := []string{
		"link-next http://h/next depth 5 from http://h/p0", "a http://h/x depth 5 from http://h/p0",
		"sitemap http://h/s.xml depth 1 from http://h/p2",
		"link-next http://h/next depth 5 from http://h/p3",
		"redirect http://g/ depth 4 from http://h/p4",
		"link-next http://h/next depth 5 from http://h/p6", "a http://h/y depth 5 from http://h/p6",
	}
	if diff := cmp.Diff(want, b.links); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]int{"duplicate": 1, "no-body": 1, "status-4xx": 1, "robots-denied": 1}, b.drops); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]uint64{"scheme": 2, "repeated": 1, "filter:no": 1}, b.refused, cmp.FilterPath(func(p cmp.Path) bool {
		return p.Last().String() == `["undecodable"]`
	}, cmp.Ignore())); diff != "" {
		t.Error(diff)
	}
	if b.consumed != 6 || report.Bytes == 0 {
		t.Errorf("%d consumed, report %+v", b.consumed, report)
	}
	b = &rowsInMemory{rows: rows[1:2]}
	if _, err := Batch(context.Background(), b, Settings{Archive: dir, Duplicates: true}); err != nil || len(b.links) != 2 || b.drops != nil {
		t.Errorf("with duplicates: %v, %v, %v", b.links, b.drops, err)
	}
}

// Rows of a program that writes no WARC are searched by their bodies alone.
func TestBatchOfBodiesAlone(t *testing.T) {
	row := record.Fetch{URL: "http://h/", Role: record.RolePage, Outcome: record.OutcomeFetched, Status: 200, MIME: "text/html", Body: []byte("<a href=x>")}
	b := &rowsInMemory{rows: []record.Fetch{row}}
	if _, err := Batch(t.Context(), b, Settings{}); err != nil || len(b.links) != 1 || b.consumed != 1 {
		t.Errorf("%v, links %v, drops %v", err, b.links, b.drops)
	}
}

// Of many WARC files few are open at a time.
func TestOpenFiles(t *testing.T) {
	dir, rows := keep(t, "0.warc.gz", page+"<a href=x>")
	file, err := os.ReadFile(filepath.Join(dir, "0.warc.gz"))
	must.OK(t, err)
	a := &archive{dir: dir}
	defer a.close()
	for i := range 3 * openFiles {
		rows[0].WARCFilename = fmt.Sprintf("%d.warc.gz", i%(openFiles+2))
		must.OK(t, os.WriteFile(filepath.Join(dir, rows[0].WARCFilename), file, 0o666))
		if p, err := a.read(&rows[0], 1<<20, false); err != nil || string(p.body) != "<a href=x>" || len(a.files) > openFiles {
			t.Fatalf("file %d: %q, %v, %d files are open", i, p.body, err, len(a.files))
		}
	}
}

// A row with a length that means nothing has no body.
func TestBatchOfNegativeLengths(t *testing.T) {
	dir, rows := keep(t, "a.warc.gz", "HTTP/1.1 200 OK\r\n\r\n<a href=x>")
	for _, length := range []int64{-1, -600, math.MinInt64} {
		for _, truncated := range []string{"", "length"} {
			row := rows[0]
			row.BodyLength, row.Truncated = length, truncated
			b := &rowsInMemory{rows: []record.Fetch{row}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if _, err := Batch(ctx, b, Settings{Archive: dir}); err != nil || b.drops["no-body"] != 1 {
				t.Errorf("%d bytes, truncated %q: %v, drops %v", length, truncated, err, b.drops)
			}
			cancel()
		}
	}
}

// Links, findings and rowsInMemory are the same on any number of threads, and whether
// bodies come with the rows or from the WARC.
func TestBatchSameOnAnyThreads(t *testing.T) {
	var replies []string
	for i := range 60 {
		var b strings.Builder
		b.WriteString(page)
		fmt.Fprintf(&b, "<title>%d</title>", i)
		for j := range (i * 37) % 700 { // more than two chunks
			fmt.Fprintf(&b, "<a href=%d-%d>", i, j)
		}
		replies = append(replies, b.String())
	}
	dir, rows := keep(t, "a.warc.gz", replies...)
	run := func(threads int, bodies bool) string {
		rows := slices.Clone(rows)
		for i := range rows {
			if bodies && i%3 > 0 {
				_, body, _ := strings.Cut(replies[i], "\r\n\r\n")
				rows[i].Body = []byte(body)
			}
		}
		b := &rowsInMemory{rows: rows}
		var found []string
		_, err := Batch(context.Background(), b, Settings{
			Archive: dir, Threads: threads, Modules: []process.Selected{{Module: process.Builtin()[0]}},
			Finding: func(m *record.Module) error { found = append(found, fmt.Sprint(*m)); return nil },
		})
		if err != nil || len(found) != len(rows) {
			t.Fatalf("%d threads: %d findings, %v", threads, len(found), err)
		}
		return fmt.Sprint(b.links, b.drops, b.refused, b.consumed, found)
	}
	want := run(1, false)
	for _, threads := range []int{1, 2, 3, 16} {
		for _, bodies := range []bool{false, true} {
			if run(threads, bodies) != want {
				t.Errorf("%d threads, bodies in rows %v: other output", threads, bodies)
			}
		}
	}
}

func TestBatchErrors(t *testing.T) {
	dir, rows := keep(t, "a.warc.gz", page+"<a href=x>", page+strings.Repeat("<a href=y>", 5000))
	path := filepath.Join(dir, "a.warc.gz")
	whole, err := os.ReadFile(path)
	must.OK(t, err)
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-6] ^= 1 // in the last member's checksum
	for _, tt := range []struct {
		name   string
		file   []byte
		change func(r *record.Fetch)
		class  fault.Class
		text   string
	}{
		{"damaged", flipped, nil, fault.Corrupt, "a.warc.gz: record "},
		{"cut", whole[:len(whole)-20], nil, fault.Truncated, "a.warc.gz: record "},
		{"other offset", whole, func(r *record.Fetch) { r.WARCOffset++ }, fault.Corrupt, "a.warc.gz: record "},
		{"other record", whole, func(r *record.Fetch) { r.WARCOffset, r.WARCLength = 0, 0 }, fault.Corrupt, `a record of "http://h/p0", want "http://h/p1"`},
		{"negative offset", whole, func(r *record.Fetch) { r.WARCOffset, r.WARCLength = -1, 0 }, fault.Corrupt, "a negative offset"},
		{"outside", whole, func(r *record.Fetch) { r.WARCFilename = "../a.warc.gz" }, fault.Corrupt, "want one inside the fetch store"},
		{"missing", whole, func(r *record.Fetch) { r.WARCFilename = "b.warc.gz" }, "", "no such WARC file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			must.OK(t, os.WriteFile(path, tt.file, 0o666))
			r := slices.Clone(rows)
			if tt.change != nil {
				tt.change(&r[1])
			}
			b := &rowsInMemory{rows: r}
			_, err := Batch(context.Background(), b, Settings{Archive: dir, Threads: 2})
			if err == nil || fault.ClassOf(err) != tt.class || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%s: %v, want %q", tt.name, err, tt.text)
			}
		})
	}
	os.WriteFile(path, whole, 0o666)
	if _, err := Batch(context.Background(), &rowsInMemory{rows: rows}, Settings{}); fault.ClassOf(err) != fault.Usage {
		t.Errorf("without archive: %v", err)
	}
	if _, err := Batch(context.Background(), &rowsInMemory{rows: rows, failAt: 2}, Settings{Archive: dir}); err != errSink {
		t.Errorf("sink: %v", err)
	}
	if _, err := Batch(context.Background(), &rowsInMemory{rows: rows, readErr: errSink}, Settings{Archive: dir}); err != errSink {
		t.Errorf("source: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Batch(ctx, &rowsInMemory{rows: rows}, Settings{Archive: dir}); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
}

// What a server got wrong is no damage: the page is used as far as it goes.
func TestServerNonsense(t *testing.T) {
	for name, reply := range map[string]string{
		"no head":           "nonsense <a href=x>",
		"short body":        "HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n<a href=x>",
		"bad chunk":         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n<a href=x>\r\nzz\r\n",
		"gzip that is none": "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n<a href=x>",
		"unknown coding":    "HTTP/1.1 200 OK\r\nContent-Encoding: rot13\r\n\r\n<a href=x>",
		"empty":             "",
	} {
		t.Run(name, func(t *testing.T) {
			dir, rows := keep(t, "a.warc.gz", reply)
			rows[0].BodyLength = 10
			b := &rowsInMemory{rows: rows}
			if _, err := Batch(context.Background(), b, Settings{Archive: dir}); err != nil || b.consumed+len(b.drops) != 1 {
				t.Errorf("%s: %v, %+v", name, err, b)
			}
		})
	}
}

func TestWARCInput(t *testing.T) {
	dir, _ := keep(t, "a.warc.gz",
		"HTTP/1.1 200 OK\r\nContent-Type: Text/HTML; charset=UTF-8\r\n\r\n<a href=x>",
		"HTTP/1.1 302 Found\r\nLocation: /to#x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Type: image/gif\r\n\r\nGIF8")
	path := filepath.Join(dir, "a.warc.gz")
	in := NewWARCInput([]string{path, path}, func(name string) (io.ReadCloser, error) { return os.Open(name) }, canon.Options{}, 0, nil)
	var rows []record.Fetch
	for {
		var row record.Fetch
		err := in.Read(&row)
		if err == io.EOF {
			break
		}
		must.OK(t, err)
		rows = append(rows, row)
	}
	if len(rows) != 6 || rows[0].MIME != "text/html" || rows[0].Charset != "utf-8" || string(rows[0].Body) != "<a href=x>" || rows[1].RedirectURL != "http://h/to" || rows[1].Status != 302 {
		t.Errorf("%+v", rows)
	}
	tr := in.Trailer()
	if tr.Rows != 6 || tr.Ledger.Balance() != nil {
		t.Errorf("%+v", tr)
	}
	for name, content := range map[string]string{"empty": "", "cut": "\x1f\x8b\x08", "other": "hello"} {
		t.Run(name, func(t *testing.T) {
			p := filepath.Join(dir, name)
			os.WriteFile(p, []byte(content), 0o666)
			in := NewWARCInput([]string{p}, func(name string) (io.ReadCloser, error) { return os.Open(name) }, canon.Options{}, 0, nil)
			if err := in.Read(new(record.Fetch)); fault.ClassOf(err).ExitCode() != 3 || !strings.Contains(err.Error(), p) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// What the rules would rewrite has been fetched as it stands: its links are relative to that.
func TestWARCInputIsNotRewritten(t *testing.T) {
	var buf []byte
	block := "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<a href=x/>"
	buf, err := (&warc.Encoder{Codec: warc.Gzip}).Append(buf, &warc.Record{
		Type: warc.TypeResponse, Date: time.Unix(0, 0).UTC(), TargetURI: "http://h/dir/",
		ContentType: warc.MediaResponse, Block: strings.NewReader(block), Length: int64(len(block)),
	})
	must.OK(t, err)
	path := filepath.Join(t.TempDir(), "a.warc.gz")
	must.OK(t, os.WriteFile(path, buf, 0o666))
	opt := canon.Options{URLRules: canon.TrailingSlash, KeyRules: canon.TrailingSlash}
	in := NewWARCInput([]string{path}, func(name string) (io.ReadCloser, error) { return os.Open(name) }, opt, 0, nil)
	var row record.Fetch
	if err := in.Read(&row); err != nil || row.URL != "http://h/dir/" || row.Key != opt.URLKey("h", "http://h/dir") {
		t.Errorf("%s, key %016x, %v", row.URL, row.Key, err)
	}
}

// Plain text behind the redirects of a robots.txt is a robots.txt; a page there is a page.
func TestWARCInputFollowsRobots(t *testing.T) {
	var buf []byte
	for _, r := range [][2]string{
		{"http://h/r", "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nSitemap: /no"},
		{"http://h/robots.txt", "HTTP/1.1 301 Moved\r\nLocation: /q\r\n\r\n"},
		{"http://h/q", "HTTP/1.1 301 Moved\r\nLocation: /r\r\n\r\n"},
		{"http://h/r", "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nSitemap: /s"},
		{"http://i/robots.txt", "HTTP/1.1 301 Moved\r\nLocation: /\r\n\r\n"},
		{"http://i/", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<a href=x>"},
	} {
		var err error
		buf, err = (&warc.Encoder{Codec: warc.Gzip}).Append(buf, &warc.Record{
			Type: warc.TypeResponse, Date: time.Unix(0, 0).UTC(), TargetURI: r[0], ContentType: warc.MediaResponse, Block: strings.NewReader(r[1]), Length: int64(len(r[1])),
		})
		must.OK(t, err)
	}
	in := NewWARCInput([]string{"a"}, func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf)), nil }, canon.Options{}, 0, nil)
	for _, want := range []string{record.RolePage, record.RoleRobots, record.RoleRobots, record.RoleRobots, record.RoleRobots, record.RolePage} {
		var row record.Fetch
		if err := in.Read(&row); err != nil || row.Role != want {
			t.Errorf("%s: role %s, %v, want %s", row.URL, row.Role, err, want)
		}
	}
}

func TestSniff(t *testing.T) {
	rec := func() *warc.Record {
		return &warc.Record{Type: warc.TypeInfo, Date: time.Unix(0, 0), ContentType: warc.MediaFields, Block: strings.NewReader("a: b\r\n"), Length: 6}
	}
	for _, codec := range []warc.Codec{warc.Gzip, warc.Zstd, warc.None} {
		b, err := (&warc.Encoder{Codec: codec}).Append(nil, rec())
		must.OK(t, err)
		if !warc.Sniff(b) {
			t.Errorf("%s: not seen to be WARC", codec)
		}
	}
	var records bytes.Buffer
	w, err := record.NewWriter[record.Fetch](&records, record.WriterOptions{Name: "x"})
	if err == nil {
		_, err = w.Commit(record.Ledger{})
	}
	must.OK(t, err)
	for _, s := range []string{"", "W", "hello", records.String()} {
		if warc.Sniff([]byte(s)) {
			t.Errorf("%.10q: taken for WARC", s)
		}
	}
}

// TestRequisites: the rows of links say what is a part of the page, and the filter takes it from any host.
func TestRequisites(t *testing.T) {
	const page = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<link rel=stylesheet href=http://cdn/s><img src=http://cdn/i><a href=http://cdn/a>x</a><iframe src=http://cdn/f></iframe><meta property=og:image content=http://cdn/o>"
	const sheet = "HTTP/1.1 200 OK\r\nContent-Type: text/css\r\n\r\n@import '/s'; a{b:url(/u)}"
	for _, test := range []struct {
		name, reply string
		row         record.Fetch
		want        string
	}{
		{"page", page, record.Fetch{}, "s3 i1 f4"},
		{"picture that is a page", page, record.Fetch{Requisite: 1}, ""},
		{"frame", page, record.Fetch{Requisite: 4}, "s3 i1 f3"},
		{"picture that is a page of the crawl", page, record.Fetch{Requisite: 1 | linkkind.Page}, "s3 i1 f4"},
		{"sitemap", page, record.Fetch{Sitemap: 1}, ""},
		{"style sheet", sheet, record.Fetch{Requisite: 3}, "s2 u1"},
		{"imported style sheet", sheet, record.Fetch{Requisite: 2}, "s1 u1"},
		{"redirect of a picture", "HTTP/1.1 302 Found\r\n\r\n", record.Fetch{Requisite: 1, Status: 302, RedirectURL: "http://cdn/r"}, "r1"},
		{"redirect of a picture of the crawl", "HTTP/1.1 302 Found\r\n\r\n", record.Fetch{Requisite: 1 | linkkind.Page, Status: 302, RedirectURL: "http://cdn/r"}, "r1"},
		{"redirect of a page", "HTTP/1.1 302 Found\r\n\r\n", record.Fetch{Status: 302, RedirectURL: "http://cdn/r"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			rules, err := filter.Parse("rules", strings.NewReader("allow requisites: requisite\ndefault deny"))
			must.OK(t, err)
			dir, rows := keep(t, "a.warc.gz.open", test.reply)
			rows[0].Requisite, rows[0].Sitemap, rows[0].RedirectURL = test.row.Requisite, test.row.Sitemap, test.row.RedirectURL
			if strings.Contains(test.reply, "text/css") {
				rows[0].MIME = "text/css"
			}
			if test.row.Status != 0 {
				rows[0].Status = test.row.Status
			}
			for _, raw := range []bool{false, true} {
				var got []string
				b := &hopRows{rowsInMemory{rows: rows}, func(l *record.Link) error {
					if !raw || l.Requisite > 0 { // raw links are not judged yet
						got = append(got, fmt.Sprintf("%s%d", l.URL[strings.LastIndexByte(l.URL, '/')+1:], l.Requisite))
					}
					return nil
				}}
				if _, err := Batch(context.Background(), b, Settings{Archive: dir, Filter: rules, Raw: raw}); err != nil || strings.Join(got, " ") != test.want {
					t.Errorf("raw %t: %q, %v, want %q", raw, got, err, test.want)
				}
			}
		})
	}
}

// TestPartsThatArePages: a part that a rule allows, by whatever kind of link, is a page.
func TestPartsThatArePages(t *testing.T) {
	const page = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<img src=http://own/i><img src=http://cdn/i><img src=http://cdn/img/i><link rel=stylesheet href=http://cdn/img/s><iframe data-src=http://own/f></iframe>"
	for _, test := range []struct{ name, rules, want string }{
		{"host", "allow own: host own\nallow parts: requisite\ndefault deny", "own/i9 cdn/i1 cdn/img/i1 cdn/img/s3 own/f12"},
		{"host below", "allow parts: requisite\nallow own: host own\ndefault deny", "own/i9 cdn/i1 cdn/img/i1 cdn/img/s3 own/f12"},
		{"kind", "allow parts: requisite\nallow pictures: kind img and path /img/\ndefault deny", "own/i1 cdn/i1 cdn/img/i9 cdn/img/s3 own/f4"},
		{"not requisite", "deny pages: not requisite", "own/i1 cdn/i1 cdn/img/i1 cdn/img/s3 own/f4"},
		{"all", "match all\nallow parts: requisite or host own", "own/i9 cdn/i1 cdn/img/i1 cdn/img/s3 own/f12"},
		{"program", "allow parts: requisite\nallow asked: exec \"sed -u 's/.*own.*/yes/;t;s/.*/no/'\"\ndefault deny", "own/i9 cdn/i1 cdn/img/i1 cdn/img/s3 own/f12"},
		{"any", "default allow", "own/i9 cdn/i9 cdn/img/i9 cdn/img/s11 own/f12"},
	} {
		t.Run(test.name, func(t *testing.T) {
			rules, err := filter.Parse("rules", strings.NewReader(test.rules))
			must.OK(t, err)
			dir, rows := keep(t, "a.warc.gz.open", page)
			for _, raw := range []bool{false, true} {
				var got []string
				keepLink := func(l *record.Link) error {
					got = append(got, fmt.Sprintf("%s%d", strings.TrimPrefix(l.URL, "http://"), l.Requisite))
					return nil
				}
				var links []record.Link
				b := &hopRows{rowsInMemory{rows: rows}, func(l *record.Link) error {
					if !raw {
						return keepLink(l)
					}
					links = append(links, *l)
					return nil
				}}
				_, err := Batch(context.Background(), b, Settings{Archive: dir, Filter: rules, Raw: raw})
				if raw && err == nil {
					err = Resolve(context.Background(), &linksInMemory{links, keepLink}, canon.Options{}, rules, nil)
				}
				if err != nil || strings.Join(got, " ") != test.want {
					t.Errorf("raw %t: %q, %v, want %q", raw, got, err, test.want)
				}
			}
		})
	}
}

// linksInMemory are Links.
type linksInMemory struct {
	rows []record.Link
	pass func(*record.Link) error
}

func (l *linksInMemory) Read(row *record.Link) error {
	if len(l.rows) == 0 {
		return io.EOF
	}
	*row, l.rows = l.rows[0], l.rows[1:]
	return nil
}
func (l *linksInMemory) Pass(row *record.Link) error { return l.pass(row) }
func (l *linksInMemory) Drop(string)                 {}

// TestHops: redirects of every kind are counted on the way from the last link, cost no depth, and end at MaxHops.
func TestHops(t *testing.T) {
	const html = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
	for _, test := range []struct {
		name, reply, to string
		hops, next      uint8
		refused         bool
	}{
		{"a redirect", "", "http://h/next", 0, 1, false},
		{"the last redirect", "", "http://h/next", MaxHops - 1, MaxHops, false},
		{"one too many", "", "http://h/next", MaxHops, MaxHops + 1, true},
		{"more than a column holds", "", "http://h/next", 255, 255, true},
		{"meta refresh", html + "\r\n<meta http-equiv=refresh content='0; url=/next'>", "", 3, 4, false},
		{"one meta refresh too many", html + "\r\n<meta http-equiv=refresh content='9; url=/next'>", "", MaxHops, MaxHops + 1, true},
		{"a Refresh field", html + "Refresh: 0; url=/next\r\n\r\nbody", "", MaxHops, MaxHops + 1, true},
		{"a Refresh field without body", html + "Refresh: 0; url=/next\r\n\r\n", "", MaxHops, MaxHops + 1, true},
		{"a canonical URL", html + "\r\n<link rel=canonical href=/next>", "", MaxHops, MaxHops + 1, true},
		{"a canonical URL in a field", html + "Link: </next>; rel=canonical\r\n\r\nbody", "", 7, 8, false},
		{"a link begins anew", html + "\r\n<a href=/next>x</a>", "", MaxHops, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			reply := test.reply
			if test.to != "" {
				reply = "HTTP/1.1 302 Found\r\n\r\n"
			}
			dir, rows := keep(t, "a.warc.gz.open", reply)
			rows[0].Hops = test.hops
			if rows[0].RedirectURL = test.to; test.to != "" {
				rows[0].Status = 302
			}
			depth := rows[0].Depth
			if test.next == 0 {
				depth++
			}
			wantHops := func(l *record.Link, out bool) error {
				if l.URL != "http://h/next" || l.Depth != depth || l.Hops != test.next || out == test.refused {
					t.Errorf("%s (%s): depth %d, hops %d, refused %v; want %d, %d, %v", l.URL, l.LinkKind, l.Depth, l.Hops, !out, depth, test.next, test.refused)
				}
				return nil
			}
			n := 0
			b := &hopRows{rowsInMemory{rows: rows}, func(l *record.Link) error { n++; return wantHops(l, true) }}
			settings := Settings{Archive: dir, Refused: func(l *record.Link) error { n++; return wantHops(l, false) }}
			if _, err := Batch(context.Background(), b, settings); err != nil || n != 1 {
				t.Fatalf("%d links, %v, refused %v; want one", n, err, b.refused)
			}
			if (b.refused[ReasonHops] == 1) != test.refused {
				t.Errorf("the ledger has %v", b.refused)
			}
			// The same from raw links.
			var raw []record.Link
			b = &hopRows{rowsInMemory{rows: rows}, func(l *record.Link) error { raw = append(raw, *l); return nil }}
			if _, err := Batch(context.Background(), b, Settings{Archive: dir, Raw: true}); err != nil || len(raw) != 1 || raw[0].Hops != test.next || raw[0].Depth != depth {
				t.Fatalf("raw: %+v, %v", raw, err)
			}
			links := &rawInMemory{rows: raw}
			if err := Resolve(context.Background(), links, canon.Options{}, nil, nil); err != nil || (links.dropped == ReasonHops) != test.refused {
				t.Errorf("resolved: dropped %q, %v", links.dropped, err)
			}
		})
	}
}

type hopRows struct {
	rowsInMemory
	write func(*record.Link) error
}

func (b *hopRows) Make(_ string, l *record.Link) error { return b.write(l) }

type rawInMemory struct {
	rows    []record.Link
	dropped string
}

func (b *rawInMemory) Read(l *record.Link) error {
	if len(b.rows) == 0 {
		return io.EOF
	}
	*l, b.rows = b.rows[0], b.rows[1:]
	return nil
}

func (b *rawInMemory) Pass(*record.Link) error { return nil }
func (b *rawInMemory) Drop(reason string)      { b.dropped = reason }
