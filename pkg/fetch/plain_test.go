package fetch_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/must"
	"mercator/pkg/extract"
	"mercator/pkg/folder/bodies"
	"mercator/pkg/web/process"
)

// documentsOf reads the documents of rows as modules see them; nil where there is none.
func documentsOf(t *testing.T, dir string, rows []record.Fetch, bodyMax int64) []*process.Document {
	t.Helper()
	d := extract.NewDocuments(dir, bodyMax)
	defer d.Close()
	list := make([]*process.Document, len(rows))
	for i := range rows {
		doc, err := d.Read(&rows[i])
		if err != nil {
			t.Fatalf("%s: %v", rows[i].URL, err)
		}
		if doc != nil {
			doc.Body = bytes.Clone(doc.Body)
			list[i] = doc
		}
	}
	return list
}

// linksOf is what extract finds in rows.
type linksOf struct {
	rows  []record.Fetch
	in    int
	Found []string
}

func (b *linksOf) Read(row *record.Fetch) error {
	if b.in == len(b.rows) {
		return io.EOF
	}
	*row = b.rows[b.in]
	b.in++
	return nil
}

func (b *linksOf) Make(_ string, l *record.Link) error {
	b.Found = append(b.Found, fmt.Sprintf("%+v", *l))
	return nil
}
func (b *linksOf) Drop(reason string)             { b.Found = append(b.Found, "dropped: "+reason) }
func (b *linksOf) Consume()                       { b.Found = append(b.Found, "consumed") }
func (b *linksOf) Refuse(reason string, n uint64) { b.Found = append(b.Found, fmt.Sprint(reason, n)) }

// equal compares what was read with what the archive has.
func equal(t *testing.T, what string, docs, wantDocs []*process.Document, links, wantLinks []string) {
	t.Helper()
	for i, want := range wantDocs {
		if !reflect.DeepEqual(docs[i], want) {
			t.Fatalf("%s: %.500v, want %.500v", what, docs[i], want)
		}
	}
	if !slices.Equal(links, wantLinks) {
		t.Fatalf("%s: %q, want %q", what, links, wantLinks)
	}
}

// TestBodiesLeft: the commands behind read the same of what mfetch leaves as of the archive, whatever became of the former:
// bodies of each framing and coding, revisits, and those that are too long to be left.
func TestBodiesLeft(t *testing.T) {
	const text = "<title>A page</title><p>of <a href=/other>links</a> and <a href=http://b.test/>more</a>"
	zip := func(s string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write([]byte(s))
		z.Close()
		return b.String()
	}
	replies := map[string]string{
		"/plain":   fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nLink: </linked>; rel=next\r\nContent-Length: %d\r\n\r\n%s", len(text), text),
		"/again":   fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX-Other: 1\r\nContent-Length: %d\r\n\r\n%s", len(text), text),
		"/close":   "HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n" + text + "close",
		"/chunks":  fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n4\r\nmore\r\n0\r\n\r\n", len(text), text),
		"/zipped":  "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\n" + zip(text+"zipped"),
		"/cut":     "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1000\r\n\r\n" + text,
		"/cutzip":  "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\n" + zip(strings.Repeat(text+"cut", 9))[:90],
		"/nozip":   "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\nno gzip <a href=/nozip>at all</a>",
		"/swells":  "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\n" + zip("<a href=/first>"+strings.Repeat(" ", 300<<10)+"<a href=/last>"),
		"/long":    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<a href=/first>" + strings.Repeat("long ", 100<<10) + "<a href=/last>",
		"/toolong": "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<a href=/first>" + strings.Repeat("too long ", 130<<10),
		"/empty":   "HTTP/1.1 200 OK\r\nRefresh: 1; url=/elsewhere\r\nContent-Length: 0\r\n\r\n",
		"/bare":    "<html>bare " + text,
		"/moved":   "HTTP/1.1 302 Found\r\nLocation: /plain\r\nContent-Length: 5\r\n\r\nmoved",
		"/missing": "HTTP/1.1 404 Not Found\r\nContent-Length: 7\r\n\r\nmissing",
	}
	server := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		reply, ok := replies[r.URL.Path]
		if !ok {
			reply = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 31\r\n\r\nSitemap: http://a.test/map.xml\n\n"
		}
		io.WriteString(c, reply)
	}, false)
	var urls []record.URL
	for path := range replies {
		urls = append(urls, server.at("a.test", path))
	}
	slices.SortFunc(urls, func(a, b record.URL) int { return strings.Compare(b.URL, a.URL) }) // /plain comes before /again
	_, st := inCrawl(t)
	opt := options(st, loopback(t))
	opt.Dedup, opt.ContactTime = true, 10*time.Second
	rows := run(t, opt, "r1", urls)
	dir, file := st.Dir(), filepath.Join(st.Dir(), bodies.File)
	read := func(bodyMax int64) (docs []*process.Document, links []string) {
		t.Helper()
		b := &linksOf{rows: rows}
		report, err := extract.Batch(context.Background(), b, extract.Settings{Archive: dir, MaxBody: bodyMax, Threads: 2})
		must.OK(t, err)
		return documentsOf(t, dir, rows, bodyMax), append(b.Found, fmt.Sprintf("%+v", report))
	}
	left, err := os.ReadFile(file)
	must.OK(t, err, os.Rename(file, file+"x"))
	wantDocs, wantLinks := read(0)
	shortDocs, shortLinks := read(50)
	same := func(what string) {
		t.Helper()
		docs, links := read(0)
		equal(t, what, docs, wantDocs, links, wantLinks)
	}
	write := func(b []byte) {
		t.Helper()
		must.OK(t, os.WriteFile(file, b, 0o666))
	}
	write(left)
	same("as it was left")
	docs, links := read(50)
	equal(t, "of 50 bytes", docs, shortDocs, links, shortLinks)
	for part := range 10 {
		write(left[:len(left)*part/10])
		same(fmt.Sprintf("cut to part %d", part))
	}
	used := slices.DeleteFunc(slices.Collect(func(yield func(int) bool) {
		for i := range left {
			if left[i] != 0 && !yield(i) {
				return
			}
		}
	}), func(i int) bool { return left[i] == ' ' || left[i] == 'o' })
	for i := 0; i < len(used); i += max(len(used)/30, 1) {
		left[used[i]] ^= 1
		write(left)
		same(fmt.Sprintf("bit of byte %d altered", used[i]))
		left[used[i]] ^= 1
	}

	// What was left is read, not the archive: that is damaged now.
	write(left)
	archives, err := filepath.Glob(filepath.Join(dir, "*.warc.gz*"))
	if err != nil || len(archives) != 1 {
		t.Fatal(archives, err)
	}
	must.OK(t, os.Remove(archives[0]))
	d := extract.NewDocuments(dir, 0)
	defer d.Close()
	for i := range rows {
		path := rows[i].URL[strings.LastIndexByte(rows[i].URL, '/'):]
		_, err := d.Read(&rows[i])
		if want := slices.Contains([]string{"/swells", "/moved", "/missing", "/bare", "/robots.txt"}, path); (err != nil) != want {
			t.Errorf("%s: %v; needs the archive: %v", path, err, want)
		}
	}
}

// TestBodiesOfAnotherAttempt: what a killed attempt left is never taken for what the next one fetched.
func TestBodiesOfAnotherAttempt(t *testing.T) {
	text := "first"
	server := newServer(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, text) }, false)
	_, st := inCrawl(t)
	opt := options(st, loopback(t))
	opt.Robots = nil
	urls := []record.URL{server.at("a.test", "/"), server.at("b.test", "/")}
	interrupted(t, opt, "r1", urls)
	stale, err := os.ReadFile(filepath.Join(st.Dir(), bodies.File))
	must.OK(t, err)
	archives, _ := filepath.Glob(filepath.Join(st.Dir(), "*.open"))
	for _, name := range archives { // what the attempt wrote is lost
		must.OK(t, os.Truncate(name, 0))
	}
	text = "other"
	rows := run(t, opt, "r1", urls)
	for _, put := range []bool{false, true} {
		if put {
			must.OK(t, os.WriteFile(filepath.Join(st.Dir(), bodies.File), stale, 0o666))
		}
		for _, doc := range documentsOf(t, st.Dir(), rows, 0) {
			if string(doc.Body) != text {
				t.Errorf("%s: %q, want %q", doc.URL, doc.Body, text)
			}
		}
	}
}

// fullArchive is a disk that has room for all but WARC files, once it is full.
type fullArchive struct {
	durable.FS
	full atomic.Bool
}

func (d *fullArchive) OpenFile(name string, flag int, perm os.FileMode) (durable.File, error) {
	f, err := d.FS.OpenFile(name, flag, perm)
	if err == nil && strings.Contains(name, ".warc.") {
		f = fullFile{f, d}
	}
	return f, err
}

type fullFile struct {
	durable.File
	disk *fullArchive
}

func (f fullFile) Write(b []byte) (int, error) {
	if f.disk.full.Load() {
		return 0, syscall.ENOSPC
	}
	return f.File.Write(b)
}

func (f fullFile) WriteAt(b []byte, at int64) (int, error) {
	if f.disk.full.Load() {
		return 0, syscall.ENOSPC
	}
	return f.File.WriteAt(b, at)
}

// TestBodiesOnAFullDisk: an archive that meets a full disk gets the room of the documents that were left.
func TestBodiesOnAFullDisk(t *testing.T) {
	_, st := inCrawl(t)
	left, disk := filepath.Join(st.Dir(), bodies.File), &fullArchive{FS: durable.OS}
	w := &web{onFetch: func(string) {
		if _, err := os.Stat(left); err != nil {
			t.Error(err)
		}
		disk.full.Store(true)
	}}
	if _, err := try(t, t.Context(), options(openOn(t, disk, st.Dir()), w), "r1", pages(1, 5)); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("%v, want no space left", err)
	}
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file that holds room: %v, want none", err)
	}
}
