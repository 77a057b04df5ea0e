package simweb

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mercator/formats/warc"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

// saved writes a WARC file of replies.
func saved(t *testing.T, replies ...[2]string) string {
	t.Helper()
	return savedAt(t, time.Unix(1, 0), replies...)
}

func savedAt(t *testing.T, date time.Time, replies ...[2]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "saved.warc.gz")
	f, err := os.Create(path)
	must.OK(t, err)
	defer f.Close()
	w := warc.NewWriter(f, 0)
	for _, r := range replies {
		rec := &warc.Record{Type: warc.TypeResponse, Date: date, TargetURI: r[0], ContentType: warc.MediaResponse,
			Block: strings.NewReader(r[1]), Length: int64(len(r[1]))}
		if _, _, err := w.Write(rec, warc.Encoder{Codec: warc.Gzip}); err != nil {
			t.Fatal(err)
		}
	}
	must.OK(t, w.Flush())
	return path
}

func TestArchive(t *testing.T) {
	path := saved(t,
		[2]string{"http://www.example.org/", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: 3\r\n\r\nold"},
		[2]string{"http://www.example.org/", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nnew\r\n0\r\n\r\n"},
		[2]string{"https://secure.example.org/a?b=c", "HTTP/1.1 301 Moved\r\nLocation: /d\r\nContent-Length: 0\r\n\r\n"},
		[2]string{"http://other.example.org:81/", "HTTP/1.0 404 Not Found\r\n\r\nnothing"},
	)
	a, err := OpenArchive([]warc.Part{{Path: path, Length: -1}}, 18080, time.Time{}, nil)
	must.OK(t, err)
	defer a.Close()
	if a.First != "http://www.example.org/" || len(a.index) != 3 || fmt.Sprint(slices.Sorted(maps.Keys(a.hosts))) != "[other.example.org secure.example.org www.example.org]" {
		t.Errorf("first %s, %d URLs, hosts %v", a.First, len(a.index), slices.Sorted(maps.Keys(a.hosts)))
	}
	for _, c := range []struct{ method, host, target, want string }{
		{"GET", "www.example.org", "/", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\nnew"},
		{"GET", "WWW.example.org:18080", "/", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\nnew"},
		{"HEAD", "www.example.org", "/", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\n"},
		{"GET", "secure.example.org", "/a?b=c", "HTTP/1.1 301 Moved Permanently\r\nLocation: /d\r\nContent-Length: 0\r\n\r\n"},
		{"GET", "other.example.org:81", "/", "HTTP/1.1 404 Not Found\r\nServer: mweb\r\nContent-Length: 7\r\n\r\nnothing"},
	} {
		t.Run(c.method+" "+c.host+c.target, func(t *testing.T) {
			p, _ := a.Respond(nil, &Request{Method: c.method, Host: c.host, Target: c.target})
			if got := string(p.AppendHTTP(nil, false, false, c.method == "HEAD")); got != c.want {
				t.Errorf("%s %s%s: got\n%s\nwant\n%s", c.method, c.host, c.target, got, c.want)
			}
		})
	}
	for _, host := range []string{"other.example.org", "www.example.net"} {
		if p, _ := a.Respond(nil, &Request{Method: "GET", Host: host, Target: "/"}); p.Status != 404 {
			t.Errorf("%s: status %d, want 404", host, p.Status)
		}
	}
	if p, _ := a.Respond(nil, &Request{Method: "PUT", Host: "www.example.org", Target: "/"}); p.Status != 405 {
		t.Errorf("PUT: status %d, want 405", p.Status)
	}
	if got := a.Lookup("WWW.example.org."); got.Addr != HostAddr(0) {
		t.Errorf("www.example.org has address %v", got)
	}
	if got := a.Lookup("www.example.net").String(); got != "NXDOMAIN" {
		t.Errorf("www.example.net is %s", got)
	}
}

func TestArchiveRefuses(t *testing.T) {
	whole, err := os.ReadFile(saved(t, [2]string{"http://www.example.org/", "HTTP/1.1 200 OK\r\n\r\n"}))
	must.OK(t, err)
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		must.OK(t, os.WriteFile(path, data, 0o666))
		return path
	}
	for _, c := range []struct {
		path string
		want error
	}{
		{filepath.Join(dir, "missing"), os.ErrNotExist},
		{file("empty.warc", nil), fault.WrongKind},
		{file("cut.warc.gz", whole[:len(whole)-3]), fault.Truncated},
		{file("text.warc", []byte("hello\r\n\r\n")), fault.Corrupt},
	} {
		t.Run(filepath.Base(c.path), func(t *testing.T) {
			if _, err := OpenArchive([]warc.Part{{Path: c.path, Length: -1}}, 1, time.Time{}, nil); !errors.Is(err, c.want) {
				t.Errorf("%s: got error %v, want %v", c.path, err, c.want)
			}
		})
	}
}

func TestArchiveOfOneMember(t *testing.T) {
	path := "../../formats/warc/testdata/other/A6-whole.warc.gz"
	_, err := OpenArchive([]warc.Part{{Path: path, Length: -1}}, 1, time.Time{}, &warc.Tolerance{})
	if !errors.Is(err, fault.WrongKind) {
		t.Fatalf("got error %v, want %v", err, fault.WrongKind)
	}
	if got, want := fault.HintOf(err), "gzip -dc "+path+" > FILE.warc makes a file that can be served"; got != want {
		t.Errorf("got hint %q, want %q", got, want)
	}
}

// With a time, the record nearest to it counts, wherever it stands.
func TestArchiveAt(t *testing.T) {
	page := func(text string) string { return "HTTP/1.1 200 OK\r\n\r\n" + text }
	const url = "http://www.example.org/"
	var parts []warc.Part
	for _, c := range []struct {
		day  int
		text string
	}{{20, "third"}, {1, "first"}, {10, "second"}, {10, "second again"}} {
		parts = append(parts, warc.Part{Path: savedAt(t, time.Date(2020, 1, c.day, 0, 0, 0, 0, time.UTC), [2]string{url, page(c.text)}), Length: -1})
	}
	for at, want := range map[string]string{
		"1990-01-01": "first", "2020-01-05": "first", "2020-01-06": "second again", "2020-01-10": "second again", "2020-01-15": "third", "2020-01-16": "third", "9999-12-31": "third",
	} {
		t.Run(at, func(t *testing.T) {
			day, err := time.Parse(time.DateOnly, at)
			must.OK(t, err)
			a, err := OpenArchive(parts, 1, day, nil)
			must.OK(t, err)
			defer a.Close()
			if p, _ := a.Respond(nil, &Request{Method: "GET", Host: "www.example.org", Target: "/"}); string(p.Body) != want {
				t.Errorf("got %q, want %q", p.Body, want)
			}
		})
	}
}
