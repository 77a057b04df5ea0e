package derive

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mercator/formats/warc"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/extract"
)

const page = `<html lang=de><head><title> A
 title </title><base href="/base/"><meta name=description content="d &amp; e"><meta property=og:x content=y>
<link rel=stylesheet href=s.css type=text/css><script src=x.js></script></head>
<body><a href=one rel=nofollow>One <b>and</b> more</a><a name=x>no</a><img src=i.gif alt=pic srcset="a 2x"><form action=/go method=post><input name=q></form>
<p>Dies ist ein deutscher Satz, der lang genug ist, damit man seine Sprache erkennen kann, und noch einer dazu.</p></body></html>`

// archive makes a WARC file of replies, each with its request.
func archive(t testing.TB, codec warc.Codec, replies ...string) []byte {
	t.Helper()
	var file []byte
	add := func(rec *warc.Record, block string) {
		rec.Date, rec.Block, rec.Length = time.Unix(1e9, 0), strings.NewReader(block), int64(len(block))
		var err error
		file, err = (warc.Encoder{Codec: codec}).Append(file, rec)
		must.OK(t, err)
	}
	add(&warc.Record{Type: warc.TypeInfo, ContentType: warc.MediaFields}, "software: test\r\n")
	for i, reply := range replies {
		u := fmt.Sprintf("http://h/%d", i)
		add(&warc.Record{Type: warc.TypeRequest, TargetURI: u, ContentType: warc.MediaRequest}, "GET /0 HTTP/1.1\r\nHost: h\r\n\r\n")
		add(&warc.Record{Type: warc.TypeResponse, TargetURI: u, ContentType: warc.MediaResponse}, reply)
	}
	add(&warc.Record{Type: warc.TypeResource, TargetURI: "ftp://h/x.txt", ContentType: "text/plain"}, "a plain file")
	return file
}

func reply(contentType, body string) string {
	return "HTTP/1.1 200 OK\r\nContent-Type: " + contentType + "\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n\r\n" + body
}

// records reads a derived file: type, URL, language and block of each record.
func derived(t *testing.T, opt Options, head uint64, file []byte) (blocks []string) {
	t.Helper()
	var out bytes.Buffer
	must.OK(t, NewWriter(&out, head, opt).File(context.Background(), bytes.NewReader(file), "dir/x.warc.gz"))
	r := warc.NewReader(&out, warc.ReaderOptions{Name: "derived", Verify: true})
	defer r.Close()
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return blocks
		}
		must.OK(t, err)
		b, err := io.ReadAll(rec.Block)
		must.OK(t, err)
		if rec.Type == warc.TypeInfo {
			continue
		}
		if !strings.HasPrefix(rec.Get(warc.FieldRefersTo), "<urn:uuid:") || rec.Date.Unix() != 1e9 {
			t.Errorf("record of %s: %v, %v", rec.TargetURI, rec.Fields, rec.Date)
		}
		blocks = append(blocks, fmt.Sprintf("%s %s %s %s\n%s", rec.Type, rec.ContentType, rec.TargetURI, rec.Get(fieldLanguage), b))
	}
}

func TestWET(t *testing.T) {
	for _, codec := range []warc.Codec{warc.Gzip, warc.Zstd, warc.None} {
		got := derived(t, Options{Format: WET}, 0, archive(t, codec, reply("text/html", page), reply("image/gif", "GIF89a"), "HTTP/1.1 404 Not\r\nContent-Type: text/html\r\n\r\ngone",
			reply("text/html", "<script>no</script>"), reply("application/pdf", "%PDF-no"), "nonsense", reply("text/html", "chunked\r\n"), reply("image/svg+xml", "<svg><title>A drawing</title><text>with words</text></svg>")))
		want := []string{
			"conversion text/plain http://h/0 deu\nA title\nOne and moreno\nDies ist ein deutscher Satz, der lang genug ist, damit man seine Sprache erkennen kann, und noch einer dazu.",
			"conversion text/plain http://h/6 \nchunked",
			"conversion text/plain http://h/7 \nA drawing\nwith words",
			"conversion text/plain ftp://h/x.txt \na plain file",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", codec, diff)
		}
	}
	if got := derived(t, Options{Format: WET}, 1, archive(t, warc.Gzip, reply("text/html", page), reply("text/html", page))); len(got) != 1 {
		t.Errorf("%d records, want 1", len(got))
	}
}

// Threads change nothing: records are in the order of the archive, and no more than were asked for.
func TestThreads(t *testing.T) {
	var replies []string
	for i := range 40 {
		replies = append(replies, reply([]string{"text/html", "text/html", "image/gif"}[i%3], fmt.Sprint(i, strings.Repeat(page, i%7))))
	}
	file := archive(t, warc.Gzip, replies...)
	for _, format := range []Format{WET, WAT} {
		want := derived(t, Options{Format: format}, 0, file)
		for _, head := range []uint64{0, 1, 5, 6} {
			for _, body := range []int64{0, 300} { // of which one fills the queue
				got := derived(t, Options{Format: format, Threads: 3, MaxBody: body}, head, file)
				some := want
				if body > 0 {
					some = derived(t, Options{Format: format, MaxBody: body}, 0, file)
				}
				if head > 0 {
					some = some[:head]
				}
				if diff := cmp.Diff(some, got); diff != "" {
					t.Errorf("%s, first %d, bodies of %d: %s", format, head, body, diff)
				}
			}
		}
	}
}

// What WAT has of a text is what encoding/json makes of it.
func FuzzString(f *testing.F) {
	for _, s := range []string{"", "a/<b>&'c'", `"\`, "ä\u65e5\U0001f600", "\x00\b\f\n\r\t\x1f\x7f\u0085", "\u2028 \u2029 \xff\ufffd"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var want bytes.Buffer
		_ = encoder(&want).Encode(s)
		if got := string(appendString([]byte("x"), s)) + "\n"; got != "x"+want.String() {
			t.Errorf("%q, want %q", got, want.String())
		}
	})
}

// at follows names through a JSON object.
func at(v any, path string) any {
	for name := range strings.SplitSeq(path, "/") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

// The names are as in Common Crawl's files.
func TestWAT(t *testing.T) {
	got := derived(t, Options{Format: WAT}, 0, archive(t, warc.Gzip, reply("text/html", page)))
	if len(got) != 4 {
		t.Fatalf("%d records, want 4", len(got))
	}
	parse := func(i int) (v any) {
		head, block, _ := strings.Cut(got[i], "\n")
		if !strings.HasPrefix(head, "metadata application/json ") {
			t.Errorf("record %d: %s", i, head)
		}
		must.OK(t, json.Unmarshal([]byte(block), &v))
		return v
	}
	info, request, response := parse(0), parse(1), parse(2)
	expect := func(v any, path string, want any) {
		t.Helper()
		if diff := cmp.Diff(want, at(v, path)); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	const http, req = "Envelope/Payload-Metadata/HTTP-Response-Metadata/", "Envelope/Payload-Metadata/HTTP-Request-Metadata/"
	body := reply("text/html", page)
	expect(info, "Envelope/Payload-Metadata/WARC-Info-Metadata/software", "test")
	expect(request, req+"Request-Message", map[string]any{"Method": "GET", "Path": "/0", "Version": "HTTP/1.1"})
	expect(request, req+"Headers", map[string]any{"Host": "h"})
	expect(request, req+"Headers-Length", "26")
	expect(request, req+"Entity-Length", "0")
	expect(request, req+"Entity-Digest", "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ") // of nothing
	expect(request, "Envelope/Payload-Metadata/Trailing-Slop-Length", "4")
	expect(info, "Envelope/Payload-Metadata/Trailing-Slop-Length", "0")
	expect(response, "Container/Filename", "x.warc.gz")
	expect(response, "Container/Compressed", true)
	expect(response, "Envelope/Format", "WARC")
	expect(response, "Envelope/WARC-Header-Metadata/WARC-Type", "response")
	expect(response, "Envelope/WARC-Header-Metadata/WARC-Target-URI", "http://h/0")
	expect(response, "Envelope/WARC-Header-Metadata/WARC-Date", "2001-09-09T01:46:40Z")
	expect(response, "Envelope/Payload-Metadata/Actual-Content-Length", fmt.Sprint(len(body)))
	expect(response, "Envelope/Payload-Metadata/Trailing-Slop-Length", "4")
	expect(response, http+"Response-Message", map[string]any{"Status": "200", "Version": "HTTP/1.1", "Reason": "OK"})
	expect(response, http+"Headers/Set-Cookie", []any{"a", "b"})
	expect(response, http+"Headers-Length", fmt.Sprint(len(body)-len(page)))
	expect(response, http+"Entity-Length", fmt.Sprint(len(page)))
	expect(response, http+"HTML-Metadata/Head", map[string]any{
		"Title": "A title", "Base": "/base/",
		"Metas":   []any{map[string]any{"name": "HTML@/lang", "content": "de"}, map[string]any{"name": "description", "content": "d & e"}, map[string]any{"property": "og:x", "content": "y"}},
		"Link":    []any{map[string]any{"path": "LINK@/href", "url": "s.css", "rel": "stylesheet", "type": "text/css"}},
		"Scripts": []any{map[string]any{"path": "SCRIPT@/src", "url": "x.js"}},
	})
	expect(response, http+"HTML-Metadata/Links", []any{
		map[string]any{"path": "A@/href", "url": "one", "rel": "nofollow", "text": "One and more"},
		map[string]any{"path": "IMG@/src", "url": "i.gif", "alt": "pic"},
		map[string]any{"path": "IMG@/srcset", "url": "a 2x"},
		map[string]any{"path": "FORM@/action", "url": "/go", "method": "post"},
	})
	// The numbers are those of the file: header, block and line ends make the member.
	header, _ := at(response, "Envelope/WARC-Header-Length").(string)
	inflated, _ := at(response, "Container/Gzip-Metadata/Inflated-Length").(string)
	if fmt.Sprint(number(atoi(header)+int64(len(body))+4)) != inflated || atoi(header) < 100 {
		t.Errorf("header of %s bytes, member of %s", header, inflated)
	}
}

// What WAT says of gzip members is so, of those with a name and a comment, too.
func TestWATGzip(t *testing.T) {
	var file bytes.Buffer
	members := bufio.NewReader(bytes.NewReader(archive(t, warc.Gzip, reply("text/html", page))))
	for i := 0; ; i++ {
		z, err := gzip.NewReader(members)
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		z.Multistream(false)
		w := gzip.NewWriter(&file)
		w.Header = gzip.Header{Extra: make([]byte, i), Name: strings.Repeat("n", i), Comment: "c"}
		_, err = io.Copy(w, z)
		must.OK(t, err)
		must.OK(t, w.Close())
	}
	next := int64(0)
	for _, record := range derived(t, Options{Format: WAT}, 0, file.Bytes()) {
		_, block, _ := strings.Cut(record, "\n")
		var v any
		must.OK(t, json.Unmarshal([]byte(block), &v))
		number := func(name string) int64 {
			text, _ := at(v, "Container/"+name).(string)
			return atoi(text)
		}
		offset, length, head, foot := number("Offset"), number("Gzip-Metadata/Deflate-Length"), number("Gzip-Metadata/Header-Length"), number("Gzip-Metadata/Footer-Length")
		if offset != next || foot != 8 || head < 10 || head+foot > length {
			t.Fatalf("%v", at(v, "Container"))
		}
		next = offset + length
		footer := file.Bytes()[next-foot:]
		text, err := io.ReadAll(flate.NewReader(bytes.NewReader(file.Bytes()[offset+head : next-foot])))
		if err != nil || int64(len(text)) != number("Gzip-Metadata/Inflated-Length") || int64(int32(binary.LittleEndian.Uint32(footer))) != number("Gzip-Metadata/Inflated-CRC") {
			t.Errorf("%v: %d bytes, %v", at(v, "Container"), len(text), err)
		}
	}
	if next != int64(file.Len()) {
		t.Errorf("records to byte %d of %d", next, file.Len())
	}
}

func atoi(s string) (n int64) { fmt.Sscan(s, &n); return n }

// Pages of very many elements, and of very long ones, give bounded records.
func TestWATBounds(t *testing.T) {
	for name, body := range map[string]string{
		"links":      strings.Repeat("<a href=x>y</a>", 500_000),
		"metas":      strings.Repeat("<meta name=a content=b>", 300_000),
		"long":       strings.Repeat("<img src='"+strings.Repeat("x", 10_000)+"'>", 700),
		"control":    strings.Repeat("<img src='"+strings.Repeat("\x01", 8000)+"'>", 700),
		"anchor":     "<a href=x>" + strings.Repeat("word ", 1_000_000),
		"attributes": "<a href=x " + strings.Repeat("a=b ", 1_000_000) + ">",
	} {
		t.Run(name, func(t *testing.T) {
			got := derived(t, Options{Format: WAT}, 0, archive(t, warc.Gzip, reply("text/html", body)))
			if n := len(got[2]); n > maxItemsBytes+MaxItems*64 {
				t.Errorf("%s: a record of %d bytes", name, n)
			}
			if truncated := strings.Contains(got[2], `"Truncated":true`); truncated != (name == "links" || name == "metas" || name == "long" || name == "control") {
				t.Errorf("%s: truncated %v", name, truncated)
			}
		})
	}
}

func TestDamage(t *testing.T) {
	file := archive(t, warc.Gzip, reply("text/html", page))
	for _, f := range []Format{WET, WAT} {
		err := NewWriter(io.Discard, 0, Options{Format: f}).File(context.Background(), bytes.NewReader(file[:len(file)-30]), "x")
		if !errors.Is(err, fault.Truncated) {
			t.Errorf("%s: %v", f, err)
		}
	}
}

func FuzzDerive(f *testing.F) {
	f.Add(archive(f, warc.None, reply("text/html", page)))
	f.Add(archive(f, warc.None, reply("text/html; charset=x", "<a href=\xff>\xff")))
	f.Fuzz(func(t *testing.T, file []byte) {
		for _, format := range []Format{WET, WAT} {
			var out bytes.Buffer
			if NewWriter(&out, 0, Options{Format: format, MaxBody: 1 << 16}).File(context.Background(), bytes.NewReader(file), "x") != nil {
				continue
			}
			r := warc.NewReader(&out, warc.ReaderOptions{Name: "derived", Verify: true})
			for {
				if _, err := r.Next(); err == io.EOF {
					break
				} else if err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// TestWATPlaces: URLs stand where Common Crawl's own files have them.
func TestWATPlaces(t *testing.T) {
	link := func(path, url string) string { return path + " " + url }
	for _, tt := range []struct {
		name, page string
		title      string
		want       []string
	}{
		{"background of any element", "<body background=b.png><x-y background=c.png>", "", []string{link("BODY@/background", "b.png"), link("X-Y@/background", "c.png")}},
		{"style element", "<style>@import 'a.css'; b{c:url(d.png)}</style>", "", []string{link("STYLE/#text", "a.css"), link("STYLE/#text", "d.png")}},
		{"style element of SVG", "<svg><style>b{c:<![CDATA[url(d.png)]]>}</style></svg>", "", []string{link("STYLE/#text", "d.png")}},
		{"attributes of scripts", "<div data-href=/one><li data-uri=/two>", "", []string{link("DIV@/data-href", "/one"), link("LI@/data-uri", "/two")}},
		{"onclick that goes to a page", `<div onclick="location.href='/one'"><input onclick="window.open(&quot;/two&quot;, 'w')"><div onclick="go('/no')">`, "", []string{link("DIV@/onclick", "/one"), link("INPUT@/onclick", "/two")}},
		{"buttons", "<button formaction=/one><input formaction=/two src=i.png>", "", []string{link("BUTTON@/formaction", "/one"), link("INPUT@/src", "i.png"), link("INPUT@/formaction", "/two")}},
		{"behind an empty title of SVG", "<title>T</title><svg><title/></svg><a href=/x>y</a>", "T", []string{link("A@/href", "/x")}},
		{"title behind SVG", "<svg><title>no</title></svg><title>T</title>", "T", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := htmlMetadata(&extract.Document{MIME: "text/html", Charset: "utf-8", Body: []byte(tt.page)}).append(nil)
			var got struct {
				Head  struct{ Title string }
				Links []struct{ Path, URL, Href string }
			}
			must.OK(t, json.Unmarshal(o, &got))
			var links []string
			for _, l := range got.Links {
				links = append(links, l.Path+" "+l.URL+l.Href)
			}
			if !slices.Equal(links, tt.want) || got.Head.Title != tt.title {
				t.Errorf("title %q, links %q, want %q, %q", got.Head.Title, links, tt.title, tt.want)
			}
		})
	}
}
