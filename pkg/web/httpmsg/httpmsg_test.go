package httpmsg

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"mercator/pkg/base/costtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

// pack encodes text with one content coding.
func pack(t testing.TB, coding string, text []byte) []byte {
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip", "x-gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "raw deflate":
		w, _ = flate.NewWriter(&b, 5)
	case "br":
		w = brotli.NewWriter(&b)
	case "zstd":
		w, _ = zstd.NewWriter(&b)
	default:
		return text
	}
	_, err := w.Write(text)
	must.OK(t, err)
	must.OK(t, w.Close())
	return b.Bytes()
}

// inChunks is a chunked body of one chunk.
func inChunks(b []byte) string { return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(b), b) }

// codedAs is the head of a reply with a Content-Encoding.
func codedAs(coding string) *Head { return &Head{Fields: []Field{{"Content-Encoding", coding}}} }

func decode(payload []byte, coding string, max int64) (string, *Body, error) {
	b := NewBody(codedAs(coding), bytes.NewReader(payload), max)
	defer b.Close()
	got, err := io.ReadAll(b)
	return string(got), b, err
}

var codings = []string{"gzip", "x-gzip", "deflate", "br", "zstd"}

func TestContentCodings(t *testing.T) {
	text := []byte(strings.Repeat("the quick brown fox ", 2000))
	n := int64(len(text))
	for _, c := range append(codings, "identity", "") {
		packed := pack(t, c, text)
		for range 2 { // the second time with a decoder from the pool
			for _, max := range []int64{0, n, n + 1, n - 1, 1} {
				got, b, err := decode(packed, strings.ToUpper(c), max)
				want, truncated := string(text), ""
				if max > 0 && max < n {
					want, truncated = want[:max], TruncatedLength
				}
				if err != nil || got != want || b.Truncated() != truncated {
					t.Errorf("%q, at most %d: %d bytes, truncated %q, %v", c, max, len(got), b.Truncated(), err)
				}
			}
		}
	}
	if got, b, _ := decode(pack(t, "raw deflate", text), "deflate", 0); got != string(text) || b.Truncated() != "" {
		t.Errorf("deflate without zlib's frame: %d bytes, %q", len(got), b.Truncated())
	}
	if got, b, _ := decode(pack(t, "br", pack(t, "gzip", text)), "gzip, br", 0); got != string(text) || b.Truncated() != "" {
		t.Errorf("gzip, br: %d bytes, %q", len(got), b.Truncated())
	}
}

func TestBadContentCodings(t *testing.T) {
	text := []byte(strings.Repeat("the quick brown fox ", 2000))
	for _, c := range codings {
		packed := pack(t, c, text)
		for cut := 1; cut < len(packed); cut++ {
			_, b, err := decode(packed[:cut], c, 0)
			if err != nil || cut > 3 && (b.Truncated() != TruncatedDisconnect || b.Err() == nil) {
				t.Fatalf("%s cut at %d of %d: truncated %q (%v), %v", c, cut, len(packed), b.Truncated(), b.Err(), err)
			}
		}
		for i := range packed {
			packed[i] ^= 0x55
			if _, _, err := decode(packed, c, 1<<20); err != nil {
				t.Fatalf("%s byte %d changed: %v", c, i, err)
			}
			packed[i] ^= 0x55
		}
	}
	for _, c := range []struct{ coding, payload, body, truncated string }{
		{"gzip", "plain text", "plain text", ""}, // the header lies
		{"zstd", "plain text", "plain text", ""},
		{"gzip", "", "", ""},
		{"br", "", "", ""},
		{"compress", "x", "", TruncatedUnspecified},
		{"gzip, gzip, gzip, gzip, gzip", "x", "", TruncatedUnspecified},
	} {
		t.Run(c.coding+" "+c.payload, func(t *testing.T) {
			got, b, err := decode([]byte(c.payload), c.coding, 0)
			if got != c.body || b.Truncated() != c.truncated || err != nil || (b.Err() == nil) != (c.truncated == "") {
				t.Errorf("%s of %q: %q, %q, %v", c.coding, c.payload, got, b.Truncated(), b.Err())
			}
		})
	}
	hello := string(pack(t, "gzip", []byte("hello ")))
	for _, c := range []struct{ payload, body, truncated string }{
		{hello + hello, "hello hello ", ""},
		{hello + "\r\n<!-- a banner -->", "hello ", ""},
		{hello + "\x00\x00\x00", "hello ", ""},
		{hello + "\x1f", "hello ", ""},
		{hello + hello[:9], "hello ", TruncatedDisconnect},
		{hello + "\x1f\x8bjunk that is no member", "hello ", TruncatedUnspecified},
	} {
		t.Run(fmt.Sprintf("%.12q", strings.TrimPrefix(c.payload, hello)), func(t *testing.T) {
			got, b, err := decode([]byte(c.payload), "gzip", 0)
			if got != c.body || b.Truncated() != c.truncated || err != nil {
				t.Errorf("%q: %q, %q, %v", c.payload, got, b.Truncated(), b.Err())
			}
		})
	}
	none := NewBody(codedAs("gzip"), &exact{r: strings.NewReader(""), left: 5}, 0)
	if got, err := io.ReadAll(none); len(got) != 0 || err != nil || none.Truncated() != TruncatedDisconnect {
		t.Errorf("nothing of five bytes: %q, %q, %v", got, none.Truncated(), err)
	}
	broken := errors.New("broken")
	b := NewBody(codedAs(""), io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken)), 0)
	if got, err := io.ReadAll(b); string(got) != "abc" || err != nil || !errors.Is(b.Err(), broken) {
		t.Errorf("%q %v %v", got, err, b.Err())
	}
}

// TestUnknownCodings: text with a coding that nobody knows is taken as it is, with an error.
func TestUnknownCodings(t *testing.T) {
	packed := string(pack(t, "gzip", []byte("<p>hello")))
	for _, c := range []struct {
		coding, mime, payload string
		body                  string // "": it is refused
	}{
		{"none", "text/html; charset=utf-8", "<p>hello", "<p>hello"},
		{"utf-8", "text/plain", "hello", "hello"},
		{"identity,none", "text/css", "a{}", "a{}"},
		{"UTF-8", "application/xhtml+xml", "<html/>", "<html/>"},
		{"none", "", "\r\n<!DOCTYPE html>", "\r\n<!DOCTYPE html>"},
		{"gzip, none", "text/html", packed, "<p>hello"},
		{"none, gzip", "text/html", packed, "<p>hello"},
		{"none", "text/plain", "\xff\xfeh\x00i\x00", "\xff\xfeh\x00i\x00"},
		{"none", "", "hello", ""},
		{"none", "image/png", "hello", ""},
		{"compress", "text/html", "\x1f\x9d\x90h\xca\xb0a\xf3\x06", ""},
	} {
		t.Run(c.coding+" "+c.mime+" "+c.body, func(t *testing.T) {
			head := codedAs(c.coding)
			head.Fields = append(head.Fields, Field{"Content-Type", c.mime})
			b := NewBody(head, strings.NewReader(c.payload), 0)
			got, err := io.ReadAll(b)
			truncated := ""
			if c.body == "" {
				truncated = TruncatedUnspecified
			}
			if string(got) != c.body || err != nil || b.Truncated() != truncated || b.Err() == nil || !strings.Contains(b.Err().Error(), "content coding") {
				t.Errorf("%q of %s %q: %q, %q, %v, %v", c.coding, c.mime, c.payload, got, b.Truncated(), b.Err(), err)
			}
			b.Close()
		})
	}
}

func TestBombs(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection empties the pool
	zeros := make([]byte, 32<<20)
	for _, c := range codings {
		packed := pack(t, c, zeros)
		var before, after runtime.MemStats
		allocated := uint64(math.MaxUint64)
		for range 5 { // the first time fills the pool; one on another processor may not find it
			runtime.ReadMemStats(&before)
			body := NewBody(codedAs(c), bytes.NewReader(packed), 1<<20)
			n, _ := io.Copy(io.Discard, body)
			if n != 1<<20 || body.Truncated() != TruncatedLength {
				t.Fatalf("%s: %d bytes, %q", c, n, body.Truncated())
			}
			body.Close()
			runtime.ReadMemStats(&after)
			allocated = min(allocated, after.TotalAlloc-before.TotalAlloc)
		}
		if allocated > 1<<20 {
			t.Errorf("%s: %d bytes allocated for a body of at most 1 MiB", c, allocated)
		}
	}
	// A zstd frame that asks for a window of 1 GiB.
	huge := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 20 << 3, 0x03, 0x00, 0x00, 'x'}
	if got, b, _ := decode(huge, "zstd", 0); b.Truncated() != TruncatedUnspecified {
		t.Errorf("window of 1 GiB: %q, %q", got, b.Truncated())
	}
}

func TestChunkedAtAnyCut(t *testing.T) {
	const in = "5\r\nhello\r\nA;ext=\"x\"\r\n, chunked \r\n00003\nend\n0\r\nTrailer: x\r\n\r\nnext"
	const want = "hello, chunked end"
	const whole = len(in) - len("next")
	for _, wrap := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader} {
		got, err := io.ReadAll(NewChunkedReader(wrap(strings.NewReader(in))))
		if string(got) != want || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	for cut := range whole {
		got, err := io.ReadAll(NewChunkedReader(strings.NewReader(in[:cut])))
		if err != io.ErrUnexpectedEOF || !strings.HasPrefix(want, string(got)) {
			t.Errorf("cut at %d: %q, %v", cut, got, err)
		}
	}
	var c Chunked
	for p := []byte(in); !c.Done(); {
		_, used, err := c.Next(p)
		must.OK(t, err)
		if p = p[used:]; c.Done() && string(p) != "next" {
			t.Errorf("%q left", p)
		}
	}
}

func TestChunkedRefuses(t *testing.T) {
	for name, in := range map[string]string{
		"no size":         "\r\n",
		"sign":            "-1\r\n",
		"prefix":          "0x5\r\nhello\r\n",
		"overflow":        "10000000000000000\r\n",
		"longer than it":  "1\r\nab\r\n",
		"bare CRs":        "1\r\na\r\r\r\n",
		"extension":       "1;" + strings.Repeat("x", lineMax) + "\r\n",
		"trailers":        "0\r\n" + strings.Repeat("a: b\r\n", trailersMax/6+1),
		"junk after size": "5 hello",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := io.ReadAll(NewChunkedReader(strings.NewReader(in)))
			if name == "junk after size" { // white space, then an extension without ";"
				if err != io.ErrUnexpectedEOF {
					t.Errorf("%s: %v", name, err)
				}
				return
			}
			if fault.ClassOf(err) != fault.Corrupt {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		})
	}
}

func TestHeadEnd(t *testing.T) {
	for in, want := range map[string]int{
		"":                                 -1,
		"HTTP/1.1 200\r":                   -1,
		"HTTP/1.1 200\r\n\r\nbody":         16,
		"HTTP/1.1 200\n\nbody":             14,
		"HTTP/1.1 200\r\nA: b\n\r\nbody":   21,
		"\r\n\nHTTP/1.1 200\r\n\r\n\r\n":   19,
		"\r\n\r\n\r\n":                     -1,
		"HTTP/1.1 200\r\nA: b\r\n \r\n\n":  24,
		"HTTP/1.1 200\r\nA: b\r\nC: d\r\n": -1,
	} {
		t.Run(in, func(t *testing.T) {
			// Whatever was searched before, the answer is the same.
			for from := 0; from <= len(in); from++ {
				if from > 0 && HeadEnd([]byte(in[:from]), 0) >= 0 {
					break
				}
				if got := HeadEnd([]byte(in), from); got != want {
					t.Errorf("%q from %d: %d, want %d", in, from, got, want)
				}
			}
		})
	}
}

func TestOpen(t *testing.T) {
	for _, c := range []struct{ name, block, body, truncated string }{
		{"length", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef", "abc", ""},
		{"cut", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "abc", TruncatedDisconnect},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "abc", ""},
		{"chunks cut", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", "abc", TruncatedDisconnect},
		{"chunks taken out", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n<html>abc", "<html>abc", ""},
		{"no length", "HTTP/1.0 200 OK\r\n\r\nabc", "abc", ""},
		{"no body", "HTTP/1.1 304 Not Modified\r\n\r\nabc", "", ""},
		{"no head", "<html>", "<html>", ""},
		{"gzip", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + string(pack(t, "gzip", []byte("abc"))), "abc", ""},
		{"gzip in two lines", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Encoding: gzip\r\n\r\n" + string(pack(t, "gzip", pack(t, "gzip", []byte("abc")))), "abc", ""},
		{"gzip, then chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n" + inChunks(pack(t, "gzip", []byte("abc"))), "abc", ""},
		{"deflate, then chunks, in two lines", "HTTP/1.1 200 OK\r\nTransfer-Encoding: deflate\r\nTransfer-Encoding: chunked\r\n\r\n" + inChunks(pack(t, "deflate", []byte("abc"))), "abc", ""},
		{"br, then gzip", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nContent-Encoding: br\r\n\r\n" + string(pack(t, "gzip", pack(t, "br", []byte("abc")))), "abc", ""},
		{"gzip, then chunks, cut", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n" + inChunks(pack(t, "gzip", []byte("abc")))[:24], "abc", TruncatedDisconnect},
		{"transfer codings of HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n" + string(pack(t, "gzip", []byte("abc"))), string(pack(t, "gzip", []byte("abc"))), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := Open(iotest.OneByteReader(strings.NewReader(c.block)))
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				return
			}
			b := NewBody(&m.Head, m.Payload, 0)
			got, _ := io.ReadAll(b)
			if string(got) != c.body || b.Truncated() != c.truncated {
				t.Errorf("%s: %q, %q", c.name, got, b.Truncated())
			}
			b.Close()
		})
	}
	for name, block := range map[string]string{
		"empty":    "",
		"no end":   "HTTP/1.1 200 OK\r\nA: b\r\n",
		"too long": "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", HeadMax/6) + "\r\n",
		"one line": "HTTP/1.1 200 " + strings.Repeat("x", 2*HeadMax),
		"not HTTP": "SSH-2.0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Open(strings.NewReader(block)); fault.ClassOf(err) != fault.Corrupt {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// TestOpenArchived: what any program archived is read, where the live path refuses it.
func TestOpenArchived(t *testing.T) {
	text := strings.Repeat("<p>text</p>", 50)
	for _, c := range []struct {
		name, block string
		status      int
		body        string
		truncated   string
	}{
		{"HTTP/2", "HTTP/2 200\r\nA: b\r\n\r\nabc", 200, "abc", ""},
		{"HTTP/2 with blank", "HTTP/2 404 \r\n\r\nabc", 404, "abc", ""},
		{"HTTP/3", "HTTP/3 200 \r\n\r\nabc", 200, "abc", ""},
		{"HTTP/1", "HTTP/1 200 OK\r\n\r\nabc", 200, "abc", ""},
		{"HTTP", "HTTP 200 OK\r\n\r\nabc", 200, "abc", ""},
		{"HTTP/1.1 and two digits", "HTTP/1.10 200 OK\r\n\r\nabc", 200, "abc", ""},
		{"leading blank", " HTTP/1.1 200 OK\r\n\r\nabc", 200, "abc", ""},
		{"leading tab", "\tHTTP/1.1 200 OK\r\n\r\nabc", 200, "abc", ""},
		{"tab", "HTTP/1.1\t200\tOK\r\n\r\nabc", 200, "abc", ""},
		{"lower case", "http/1.1 200 ok\r\n\r\nabc", 200, "abc", ""},
		{"ICY", "ICY 200 OK\r\n\r\nabc", 200, "abc", ""},
		{"no reason", "HTTP/1.0 302\r\n\r\n", 302, "", ""},
		{"line ends of three", "HTTP/1.0 302 \r\r\nLocation: x\r\r\n\r\r\nabc", 302, "abc", ""},
		{"line feeds", "HTTP/1.0 200 OK\n\nabc", 200, "abc", ""},
		{"ends inside the head", "HTTP/1.1 301 Moved\r\nLocation: x\r\n", 301, "", ""},
		{"a status line alone", "HTTP/1.1 404 Not Found", 404, "", ""},
		{"early hints", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\nabc", 200, "abc", ""},
		{"continue, twice", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/2 201\r\n\r\nabc", 201, "abc", ""},
		{"continue alone", "HTTP/1.1 100 Continue\r\n\r\n", 100, "", ""},
		{"switch of protocols", "HTTP/1.1 101 Switching\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", 101, "", ""},
		{"length too short", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef", 200, "abcdef", ""},
		{"length too long", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", 200, "abc", TruncatedDisconnect},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 200, "abc", ""},
		{"chunks taken out", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n<html>abc", 200, "<html>abc", ""},
		{"chunks taken out of what looks like them", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\nabcdef", 200, "3\nabcdef", ""},
		{"gzip taken out", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 40\r\n\r\n" + text, 200, text, ""},
		{"br taken out", "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 40\r\n\r\n" + text, 200, text, ""},
		{"deflate taken out", "HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\n\r\n" + text, 200, text, ""},
		{"br", "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\n" + string(pack(t, "br", []byte(text))), 200, text, ""},
		{"deflate", "HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\n\r\n" + string(pack(t, "raw deflate", []byte(text))), 200, text, ""},
		{"a NUL", "HTTP/1.1 200 OK\r\nA: b\x00c\r\n\r\nabc", 200, "abc", ""},
		{"no head", "<html>", 200, "<html>", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := OpenArchived(iotest.OneByteReader(strings.NewReader(c.block)))
			must.OK(t, err)
			if m.Head.Status >= 200 && m.Head.Minor != 9 && m.Head.Size > len(c.block) {
				t.Errorf("a head of %d bytes", m.Head.Size)
			}
			b := NewBody(&m.Head, m.Payload, 0)
			defer b.Close()
			if got, _ := io.ReadAll(b); string(got) != c.body || b.Truncated() != c.truncated || m.Head.Status != c.status {
				t.Errorf("%d, %q, %q", m.Head.Status, got, b.Truncated())
			}
		})
	}
	for name, block := range map[string]string{
		"empty":             "",
		"line ends":         "\r\n\r\n",
		"too long":          "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: "+strings.Repeat("b", 1000)+"\r\n", ArchivedHeadMax/1000) + "\r\n",
		"no end":            "HTTP/1.1 200 OK" + strings.Repeat("x", ArchivedHeadMax),
		"no status":         "HTTP/2 \r\n\r\n",
		"four digits":       "HTTP/1.1 2000 OK\r\n\r\n",
		"another protocol":  "SSH-2.0 200 OK\r\n\r\n",
		"a page that talks": "HTTP is 200 times\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := OpenArchived(strings.NewReader(block)); fault.ClassOf(err) != fault.Corrupt {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// TestOpenArchivedLongHead: a head beyond the bounds of the live path costs no body.
func TestOpenArchivedLongHead(t *testing.T) {
	const length = "Content-Length: 3\r\nContent-Encoding: gzip\r\n"
	body := string(pack(t, "gzip", []byte("abc")))
	for _, c := range []struct {
		name, fields string
		kept         int
	}{
		{"a long field first", "A: " + strings.Repeat("b", HeadMax) + "\r\n" + length, 3},
		{"a long field last", length + "A: " + strings.Repeat("b", HeadMax+1) + "\r\n", 3},
		{"up to the bound", length + "A: " + strings.Repeat("b", ArchivedHeadMax-100) + "\r\n", 3},
		{"many long fields", strings.Repeat("Set-Cookie: "+strings.Repeat("c", 4000)+"\r\n", 100) + length, 102},
		{"folded lines", "A: b\r\n" + strings.Repeat(" "+strings.Repeat("c", 100)+"\r\n", 2000) + length, 3},
		{"more than 512 fields", strings.Repeat("A: b\r\n", FieldsMax+1) + length, FieldsMax + 3},
		{"more fields than are kept", strings.Repeat("A: b\r\n", ArchivedFieldsMax+5) + length, ArchivedFieldsMax + 2},
		{"more fields of the body than are kept", strings.Repeat("A: b\r\n", ArchivedFieldsMax) + length + strings.Repeat("content-type: text/html\r\n", 100), ArchivedFieldsMax + lateFieldsMax},
		{"interim replies", strings.Repeat("A: b\r\n", 9000) + "\r\nHTTP/2 200\r\n" + length, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			status := "HTTP/1.1 200 OK\r\n"
			if c.name == "interim replies" {
				status = "HTTP/1.1 103 Early Hints\r\n"
			}
			block := status + c.fields + "\r\n" + body
			m, err := OpenArchived(strings.NewReader(block))
			must.OK(t, err)
			if len(m.Head.Fields) != c.kept || m.Head.Size != len(block)-len(body) || m.Head.Status != 200 {
				t.Errorf("%d fields in %d bytes, status %d; want %d in %d", len(m.Head.Fields), m.Head.Size, m.Head.Status, c.kept, len(block)-len(body))
			}
			b := NewBody(&m.Head, m.Payload, 0)
			defer b.Close()
			if got, _ := io.ReadAll(b); string(got) != "abc" {
				t.Errorf("%q", got)
			}
			if _, err := Open(strings.NewReader(block)); fault.ClassOf(err) != fault.Corrupt {
				t.Errorf("on the live path: %v", err)
			}
		})
	}
}

// TestOpenStrict: what OpenArchived takes is no reply on the live path.
func TestOpenStrict(t *testing.T) {
	for _, block := range []string{"HTTP/2 200\r\n\r\n", "HTTP 200 OK\r\n\r\n", " HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1\t200 OK\r\n\r\n", "HTTP/1.1\t404 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nA: b\r\n"} {
		if _, err := Open(strings.NewReader(block)); fault.ClassOf(err) != fault.Corrupt {
			t.Errorf("%q: %v", block, err)
		}
	}
}

func TestFields(t *testing.T) {
	h, err := ParseHead([]byte("HTTP/1.1 200  All  good \r\nA : x\r\n y\r\nnocolon\r\n: noname\r\nb:\tp\rq\r\nB: r, S;t\r\nConnection: foo, Keep-Alive\r\n\r\n"))
	must.OK(t, err)
	if h.Reason != "All  good" || h.Get("a") != "x y" || h.Get("b") != "p q" || len(h.Values("B")) != 2 || !h.has("b", "s") || len(h.Fields) != 4 {
		t.Errorf("%+v", h)
	}
	for _, c := range []struct {
		head string
		keep bool
	}{
		{"HTTP/1.1 200\r\n\r\n", true}, {"HTTP/1.0 200\r\n\r\n", false}, {"HTTP/1.0 200\r\nConnection: keep-alive\r\n\r\n", true},
		{"HTTP/1.1 200\r\nConnection: x, CLOSE\r\n\r\n", false},
	} {
		t.Run(c.head, func(t *testing.T) {
			if h, _ := ParseHead([]byte(c.head)); h.KeepAlive() != c.keep {
				t.Errorf("%q: keep-alive %v", c.head, h.KeepAlive())
			}
		})
	}
}

// TestPlausible: what can be no head is known as soon as it comes.
func TestPlausible(t *testing.T) {
	for b, want := range map[string]bool{
		"": true, "H": true, "http/1": true, "ICY 200": true, "IC": true, "\r\n\n": true, "\nHTTP/1.1": true,
		"x": false, "HTTX": false, "\nx": false, " HTTP/1.1": false,
		strings.Repeat("\n", leadMax) + "H": true, strings.Repeat("\n", leadMax+1): false,
	} {
		t.Run(b, func(t *testing.T) {
			if Plausible([]byte(b)) != want {
				t.Errorf("%.20q (%d bytes): %v", b, len(b), !want)
			}
		})
	}
}

// TestFoldedLines: what they cost grows with the head, and no faster.
func TestFoldedLines(t *testing.T) {
	var before, after runtime.MemStats
	head := []byte("HTTP/1.1 200 OK\r\nA: b\r\n" + strings.Repeat(" \n\tc\r\n", 9000) + "\r\n")
	runtime.ReadMemStats(&before)
	h, err := ParseHead(head)
	runtime.ReadMemStats(&after)
	if want := "b" + strings.Repeat(" c", 9000); err != nil || h.Get("A") != want {
		t.Errorf("%d bytes of value, want %d: %v", len(h.Get("A")), len(want), err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("%d bytes of memory for a head of %d", n, len(head))
	}
}

func TestMediaType(t *testing.T) {
	for in, want := range map[string][2]string{
		"text/html": {"text/html", ""}, " Text/HTML ; Charset=\"UTF-8\"; charset=x": {"text/html", "utf-8"},
		"text/html;charset='latin1'": {"text/html", "latin1"}, "": {}, "html": {}, "a b/c": {}, ";charset=x": {"", "x"},
		"text/html\x01": {}, "text/html\x7f;charset=x": {"", "x"}, "text/h\u00e9": {}, "text/\xff": {}, "text/html\u00a0": {"text/html", ""},
	} {
		t.Run(in, func(t *testing.T) {
			if mime, charset := MediaType(in); mime != want[0] || charset != want[1] {
				t.Errorf("%q: %q, %q", in, mime, charset)
			}
		})
	}
}

// FuzzArchivedReadsTheSame: of a reply that Open takes, OpenArchived reads the same status and media type.
func FuzzArchivedReadsTheSame(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\nhello"))
	f.Add([]byte("HTTP/1.1\t404 200 OK\r\n\r\n"))
	f.Add([]byte("\r\nhttp/1.0x  200\tOK\nContent-Type:\n text/html;\n\tcharset=x\n\r\r\nContent-Type: a/b\n\n"))
	f.Add([]byte("ICY 200\n: x\nContent-Type : a/b\n\n"))
	f.Add([]byte("<p>"))
	f.Fuzz(func(t *testing.T, block []byte) {
		got, err := Open(bytes.NewReader(block))
		if err != nil || got.Head.Status < 200 {
			return
		}
		of := func(m *Message) string {
			mime, charset := MediaType(m.Head.Get("Content-Type"))
			return fmt.Sprint(m.Head.Status, mime, charset)
		}
		archived, err := OpenArchived(bytes.NewReader(block))
		if err != nil || of(archived) != of(got) {
			t.Errorf("%q is read as %s, from an archive as %s, %v", block, of(got), of(archived), err)
		}
	})
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n5;x\r\nhello\r\n0\r\n\r\n"))
	f.Add([]byte("ICY 200\nContent-Length: 5, 5\n\nhello"))
	f.Add([]byte("<p>"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Encoding: br, zstd, deflate\r\n\r\n\x28\xb5\x2f\xfd"))
	f.Add([]byte("HTTP/1.1 103 x\n\n HTTP/2 200\nTransfer-Encoding: chunked\n\n3\nabcd"))
	f.Fuzz(func(t *testing.T, block []byte) {
		if m, err := OpenArchived(bytes.NewReader(block)); err == nil {
			if len(m.Head.Fields) > FieldsMax || m.Head.Size > len(block) || m.Head.Size > 2*HeadMax {
				t.Errorf("%d fields, %d bytes", len(m.Head.Fields), m.Head.Size)
			}
			b := NewBody(&m.Head, m.Payload, 1<<16)
			defer b.Close()
			if n, err := io.Copy(io.Discard, b); n > 1<<16 || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
		}
		m, err := Open(bytes.NewReader(block))
		if err != nil {
			return
		}
		if len(m.Head.Fields) > FieldsMax || m.Head.Size > HeadMax {
			t.Errorf("%d fields, %d bytes", len(m.Head.Fields), m.Head.Size)
		}
		b := NewBody(&m.Head, m.Payload, 1<<16)
		defer b.Close()
		if n, err := io.Copy(io.Discard, b); n > 1<<16 || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
}

// Line ends before the status line count as part of the head, cost their number
// and not its square, and are bounded.
func TestOpenLineEndsBeforeTheHead(t *testing.T) {
	const lead = HeadMax - 4
	const head = "HTTP/1.1 200 OK\r\n\r\n"
	costtest.Linear(t, lead/4, func(n int) func() {
		text := strings.Repeat("\n", n) + head + "body"
		return func() {
			m, err := Open(strings.NewReader(text))
			must.OK(t, err)
			if b, err := io.ReadAll(m.Payload); string(b) != "body" || err != nil || m.Head.Size != n+len(head) {
				t.Errorf("%q, %v, head of %d bytes", b, err, m.Head.Size)
			}
		}
	})
	if _, err := Open(strings.NewReader(strings.Repeat("\n", HeadMax+1) + head)); !errors.Is(err, fault.Corrupt) {
		t.Errorf("%d line ends: %v", HeadMax+1, err)
	}
}

// TestCertain: replies without a body, with fields that may say that there is one.
func TestCertain(t *testing.T) {
	for head, want := range map[string]bool{
		"204 No Content\r\n\r\n":                                 true,
		"204 No Content\r\nContent-Length: 0\r\n\r\n":            true,
		"204 No Content\r\nContent-Length: 5\r\n\r\n":            false,
		"204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n":   false,
		"304 Not Modified\r\n\r\n":                               true,
		"304 Not Modified\r\nContent-Length: 5\r\n\r\n":          true,
		"304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n": true,
	} {
		t.Run(head, func(t *testing.T) {
			h, err := ParseHead([]byte("HTTP/1.1 " + head))
			must.OK(t, err)
			if got := h.Certain(); got != want {
				t.Errorf("%q: certain %v, want %v", head, got, want)
			}
		})
	}
}
