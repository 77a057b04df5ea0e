package derive

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mercator/formats/warc"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

// parts writes WARC files of n replies each.
func parts(t testing.TB, dir string, codec warc.Codec, files, n int) (list []warc.Part) {
	t.Helper()
	for i := range files {
		var replies []string
		for j := range n {
			replies = append(replies, reply("text/html", fmt.Sprintf("<title>page %d of %d \xcf\xf0\xe8\xe2\xe5\xf2 \xea\xe0\xea \xe4\xe5\xeb\xe0</title>", j, i)))
		}
		path := filepath.Join(dir, fmt.Sprintf("crawl-%06d%s.open", i, codec.Suffix()))
		b := archive(t, codec, replies...)
		must.OK(t, os.WriteFile(path, append(b, "a tail that does not count"...), 0o644))
		list = append(list, warc.Part{Path: path, Length: int64(len(b))})
	}
	return list
}

// TestCDXJ: each line leads to its record, in the order of bytes over all files, whatever the memory.
func TestCDXJ(t *testing.T) {
	dir := t.TempDir()
	list := parts(t, dir, warc.Gzip, 2, 2500)
	var few, much bytes.Buffer
	for mem, out := range map[int64]*bytes.Buffer{1: &few, 1 << 30: &much} {
		must.OK(t, CDXJ(context.Background(), out, list, mem, nil))
	}
	if few.String() != much.String() {
		t.Error("memory makes a difference")
	}
	lines := strings.Split(strings.TrimSuffix(few.String(), "\n"), "\n")
	if len(lines) != 5002 || !slices.IsSorted(lines) {
		t.Errorf("%d lines, sorted %v", len(lines), slices.IsSorted(lines))
	}
	for i, line := range lines[:50] {
		var c struct{ URL, Offset, Length, Filename, Status, MIME, Digest string }
		key, rest, _ := strings.Cut(line, " ")
		stamp, doc, _ := strings.Cut(rest, " ")
		must.OK(t, json.Unmarshal([]byte(doc), &c))
		var offset, length int64
		_, err := fmt.Sscan(c.Offset+" "+c.Length, &offset, &length)
		must.OK(t, err)
		f, err := os.Open(filepath.Join(dir, c.Filename+".open"))
		must.OK(t, err)
		rec, r, err := warc.OpenAt(f, offset, length, warc.ReaderOptions{})
		if err != nil || rec.TargetURI != c.URL || stamp != "20010909014640" || key == "" {
			t.Fatalf("line %d: %s: %v, %v", i, line, rec, err)
		}
		if err := r.Finish(); err != nil || r.Good() != offset+length {
			t.Errorf("line %d: %s: %v, ends at %d", i, line, err, r.Good())
		}
		r.Close()
		f.Close()
	}
	if want := `ftp://h/x.txt`; !strings.Contains(few.String(), `"url":"`+want+`","mime":"text/plain"`) {
		t.Errorf("no document of %s", want)
	}
	if err := CDXJ(context.Background(), io.Discard, nil, 0, nil); err != ErrNoReply {
		t.Errorf("without files: %v", err)
	}
}

func lineOf(t *testing.T, block string, add func(*warc.Record)) string {
	t.Helper()
	rec := &warc.Record{Type: warc.TypeResponse, Date: time.Unix(1e9, 0), TargetURI: "http://example.com/", ContentType: warc.MediaResponse,
		Block: strings.NewReader(block), Length: int64(len(block))}
	add(rec)
	member, err := warc.Encoder{}.Append(nil, rec)
	must.OK(t, err)
	r := warc.NewReader(bytes.NewReader(member), warc.ReaderOptions{})
	defer r.Close()
	got, err := r.Next()
	must.OK(t, err)
	line, err := AppendCDXJ(nil, r, got, "a.warc.gz")
	must.OK(t, err)
	return string(line)
}

func TestCDXJOfOneRecord(t *testing.T) {
	for name, c := range map[string]struct {
		block, want string
		add         func(*warc.Record)
	}{
		"a reply":         {"HTTP/1.1 404 No\r\nContent-Type: text/HTML; charset=x\r\n\r\ngone", `"mime":"text/html","status":"404","digest":"U3P55KR2ISSMKLKEFBEEPVYWBCJLIAL6","length":`, func(*warc.Record) {}},
		"no HTTP":         {"220 ftp ready\r\n\r\nrest", `"url":"http://example.com/","length":`, func(*warc.Record) {}},
		"a digest":        {"HTTP/1.1 200 OK\r\n\r\n", `"digest":"3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"`, func(r *warc.Record) { r.Add(warc.FieldPayloadDigest, "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ") }},
		"a revisit":       {"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n", `"mime":"warc/revisit","status":"200"`, func(r *warc.Record) { r.Type = warc.TypeRevisit }},
		"an FTP document": {"text", `"mime":"text/plain","digest":"G4XKBDFLGPTRYAWGKHN4QOSHJUZMM5XK","length"`, func(r *warc.Record) { r.Type, r.ContentType = warc.TypeResource, "text/plain" }}, // as cdxj-indexer has it
		"its own digest": {"text", `"digest":"3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"`, func(r *warc.Record) {
			r.Type, r.ContentType = warc.TypeResource, "text/plain"
			r.Add(warc.FieldPayloadDigest, "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ")
		}},
		"another protocol":  {"text", `example.com/","digest":"G4XKBDFLGPTRYAWGKHN4QOSHJUZMM5XK","length"`, func(r *warc.Record) { r.TargetURI, r.ContentType = "gemini://example.com/", "text/gemini" }},
		"a space in a name": {"text", `example.com:%20x 2001`, func(r *warc.Record) { r.Type, r.TargetURI = warc.TypeResource, "example.com: x" }},
	} {
		t.Run(name, func(t *testing.T) {
			if got := lineOf(t, c.block, c.add); !strings.Contains(got, c.want) {
				t.Errorf("%s: %s, want %s", name, got, c.want)
			}
		})
	}
	for _, add := range []func(*warc.Record){
		func(r *warc.Record) { r.TargetURI = "" },
		func(r *warc.Record) { r.Type = warc.TypeRequest },
		func(r *warc.Record) { r.Type = warc.TypeMetadata },
		func(r *warc.Record) { r.Type, r.TargetURI = warc.TypeResource, "dns:example.com" },
	} {
		if got := lineOf(t, "x", add); got != "" {
			t.Errorf("an index leaves this out: %s", got)
		}
	}
}

func keep(t *testing.T, fsys durable.FS, dir string, list []warc.Part) (read int) {
	t.Helper()
	err := KeepIndex(context.Background(), fsys, dir, "my crawl", []string{"../fetch"}, list, nil, 1<<20, func(n int64) { read += int(n) })
	must.OK(t, err)
	return read
}

// TestKeepIndex: only what is new is read, and what is kept is what an index of all would be.
func TestKeepIndex(t *testing.T) {
	dir := t.TempDir()
	list := parts(t, dir, warc.Gzip, 3, 4)
	index := filepath.Join(dir, "index")
	same := func(list []warc.Part, what string) {
		t.Helper()
		var want bytes.Buffer
		must.OK(t, CDXJ(context.Background(), &want, list, 1<<20, nil))
		got, err := os.ReadFile(filepath.Join(index, "index.cdxj"))
		if err != nil || string(got) != want.String() {
			t.Errorf("%s: %v\n%swant\n%s", what, err, got, &want)
		}
	}
	const records = 1 + 2*4 + 1
	for _, c := range []struct {
		what string
		list []warc.Part
		read int
	}{
		{"two files", list[:2], 2 * records},
		{"the same again", list[:2], 0},
		{"one more", list, records},
		{"one less", list[1:], 0},
		{"all", list, records},
	} {
		if read := keep(t, durable.OS, index, c.list); read != c.read {
			t.Errorf("%s: %d records read, want %d", c.what, read, c.read)
		}
		same(c.list, c.what)
	}
	// back to a checkpoint at which a file was shorter
	short := slices.Clone(list)
	b, err := os.ReadFile(list[2].Path)
	must.OK(t, err)
	r := warc.NewReader(bytes.NewReader(b), warc.ReaderOptions{})
	for range 5 {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	must.OK(t, r.Finish())
	short[2].Length = r.Good()
	if read := keep(t, durable.OS, index, short); read != 5 {
		t.Errorf("%d records read of the shorter file, want 5", read)
	}
	same(short, "shorter")
	config, err := os.ReadFile(filepath.Join(index, "config.yaml"))
	if err != nil || !strings.Contains(string(config), "\n  my-crawl:\n    index_paths: index.cdxj\n    archive_paths: ../fetch/\n") {
		t.Errorf("%s%v", config, err)
	}
	for _, gone := range []string{"index.cdxj", "files.json"} {
		must.OK(t, os.Remove(filepath.Join(index, gone)))
		keep(t, durable.OS, index, list)
		same(list, "without "+gone)
	}
}

// TestKeepIndexCrash stops the machine at each call: what is there then is the index of files.json, or there is none
// of these, and the next call makes the index of all.
func TestKeepIndexCrash(t *testing.T) {
	dir := t.TempDir()
	list := parts(t, dir, warc.Gzip, 2, 2)
	const index = "/index"
	var want bytes.Buffer
	must.OK(t, CDXJ(context.Background(), &want, list[1:], 1<<20, nil))
	for n := 1; ; n++ {
		fsys := crashtest.New()
		keep(t, fsys, index, list)
		fsys.CrashAt(n)
		err := KeepIndex(context.Background(), fsys, index, "c", []string{"../fetch"}, list[1:], nil, 1<<20, nil)
		crashed := fsys.Crashed()
		if !crashed && err != nil {
			t.Fatal(err)
		}
		for loss := crashtest.Loss(0); loss < 3; loss++ {
			after := fsys.AfterCrash(loss)
			keep(t, after, index, list[1:])
			if got, err := durable.ReadFile(after, index+"/index.cdxj", 1<<20); err != nil || string(got) != want.String() {
				t.Fatalf("crash at call %d, loss %d: %v\n%s", n, loss, err, got)
			}
		}
		if !crashed {
			if n < 8 {
				t.Errorf("only %d calls", n)
			}
			return
		}
	}
}

// TestWACZ reads one with another ZIP reader's eyes: what stands in it, and what it says of that.
func TestWACZ(t *testing.T) {
	dir := t.TempDir()
	list := parts(t, dir, warc.Gzip, 2, 1500)
	var out bytes.Buffer
	opt := WACZOptions{Title: "c", Software: "mercator", Created: time.Unix(1e9, 0), Memory: 1 << 20}
	must.OK(t, WACZ(context.Background(), &out, list, opt))
	z, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
	must.OK(t, err)
	files, stored := map[string][]byte{}, map[string]bool{}
	for _, f := range z.File {
		r, err := f.Open()
		must.OK(t, err)
		files[f.Name], err = io.ReadAll(r)
		must.OK(t, err)
		stored[f.Name] = f.Method == zip.Store
	}
	var about struct {
		Profile, Created string
		Version          string `json:"wacz_version"`
		Resources        []struct {
			Name, Path, Hash string
			Bytes            int
		}
	}
	must.OK(t, json.Unmarshal(files["datapackage.json"], &about))
	if about.Profile != "data-package" || about.Version != "1.1.1" || about.Created != "2001-09-09T01:46:40Z" || !bytes.Contains(files["datapackage.json"], []byte(`"mainPageUrl": "http://h/0"`)) {
		t.Errorf("%+v", about)
	}
	if want := fmt.Sprintf(`"sha256:%x"`, sha256.Sum256(files["datapackage.json"])); !strings.Contains(string(files["datapackage-digest.json"]), want) {
		t.Errorf("%s, want %s", files["datapackage-digest.json"], want)
	}
	for _, r := range about.Resources {
		b, ok := files[r.Path]
		if !ok || len(b) != r.Bytes || fmt.Sprintf("sha256:%x", sha256.Sum256(b)) != r.Hash || r.Name != filepath.Base(r.Path) {
			t.Errorf("%+v, %v: it has %d bytes", r, ok, len(b))
		}
	}
	if len(about.Resources)+2 != len(files) {
		t.Errorf("%d files, %d resources", len(files), len(about.Resources))
	}
	for _, p := range list {
		name := "archive/" + partName(p)
		b, err := os.ReadFile(p.Path)
		if err != nil || string(files[name]) != string(b[:p.Length]) || !stored[name] {
			t.Errorf("%s: %d bytes, stored %v, %v", name, len(files[name]), stored[name], err)
		}
	}
	pages := strings.Split(strings.TrimSuffix(string(files["pages/pages.jsonl"]), "\n"), "\n")
	if len(pages) != 3001 || pages[0] != `{"format":"json-pages-1.0","id":"pages","title":"All Pages"}` ||
		pages[1502] != `{"id":"1502","url":"http://h/1","ts":"2001-09-09T01:46:40Z","title":"page 1 of 1 Привет как дела"}` {
		t.Errorf("%d pages: %s, %s", len(pages), pages[0], pages[1502])
	}

	// each line of the second index leads to a member, and has its first line
	index, all := files["indexes/index.cdx.gz"], &bytes.Buffer{}
	idx := strings.Split(strings.TrimSuffix(string(files["indexes/index.idx"]), "\n"), "\n")
	if len(idx) != 4 || !strings.HasPrefix(idx[0], `!meta 0 {"format": "cdxj-gzip-1.0"`) || !stored["indexes/index.cdx.gz"] {
		t.Fatalf("%q", idx)
	}
	for _, line := range idx[1:] {
		var place struct{ Offset, Length int }
		i := strings.Index(line, " {")
		must.OK(t, json.Unmarshal([]byte(line[i+1:]), &place))
		member := index[place.Offset:][:place.Length]
		if !strings.Contains(line, fmt.Sprintf("sha256:%x", sha256.Sum256(member))) {
			t.Errorf("another digest: %s", line)
		}
		r, err := gzip.NewReader(bytes.NewReader(member))
		must.OK(t, err)
		b, err := io.ReadAll(r)
		if err != nil || !strings.HasPrefix(string(b), line[:i+1]) {
			t.Errorf("%s: begins with %.60s, %v", line, b, err)
		}
		all.Write(b)
	}
	var want bytes.Buffer
	if err := CDXJ(context.Background(), &want, list, 1<<20, nil); err != nil || all.String() != want.String() {
		t.Errorf("the index has %d bytes, want %d; %v", all.Len(), want.Len(), err)
	}

	if err := WACZ(context.Background(), io.Discard, parts(t, dir, warc.Zstd, 1, 1), opt); !errors.Is(err, fault.WrongKind) || !strings.Contains(fault.HintOf(err), "gzip") {
		t.Errorf("zstd: %v", err)
	}
	if err := WACZ(context.Background(), io.Discard, nil, opt); err != ErrNoReply {
		t.Errorf("nothing: %v", err)
	}
}
