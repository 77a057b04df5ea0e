package hostile

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"mercator/formats/record"
	"mercator/pkg/fetch"
	"mercator/pkg/web/httpmsg"
)

// Bounds of the fetcher under test. The clock is the bubble's, so they cost nothing.
const (
	timeout        = time.Minute
	connectTimeout = 20 * time.Second
	bodyMax        = 2 << 20
)

// server is one server that harms, lies or is broken, and what is to become of the
// one URL that is asked of it.
type server struct {
	name  string
	serve handler
	want
	https bool
	pages int  // asked of it; 0: one
	whole bool // serve answers for robots.txt too; else there is none

	connections atomic.Int64
}

// want is the right outcome: what is kept, how it is marked, and the time it takes.
type want struct {
	outcome   string
	truncated string        // "": nothing is missing
	body      string        // that is kept, decoded; "…": any, within the bound
	took      time.Duration // exactly; drips take theirs, all else is at once
	says      string        // is in the column error
	contacts  int64         // connections in all; 0: robots.txt and the page
}

func fetched(body string) want { return want{outcome: record.OutcomeFetched, body: body} }
func cut(truncated, body string) want {
	return want{outcome: record.OutcomeFetched, truncated: truncated, body: body}
}
func refused(outcome, says string) want { return want{outcome: outcome, says: says} }
func telling(w want, says string) want {
	w.says = says
	return w
}
func late(w want, took time.Duration) want {
	w.took = took
	return w
}
func connected(w want, contacts int64) want {
	w.contacts = contacts
	return w
}

const (
	ok      = "HTTP/1.1 200 OK\r\n"
	length5 = ok + "Content-Length: 5\r\n\r\nhello"
	chunked = ok + "Transfer-Encoding: chunked\r\n\r\n"
	end     = "0\r\n\r\n"
)

// The codings of bombs.
var coders = map[string]func(io.Writer) io.WriteCloser{
	"gzip":    func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
	"deflate": func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
	"raw":     func(w io.Writer) io.WriteCloser { z, _ := flate.NewWriter(w, flate.BestSpeed); return z },
	"br":      func(w io.Writer) io.WriteCloser { return brotli.NewWriterLevel(w, 5) },
	"zstd":    func(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1)); return z },
}

// pack encodes a text that is repeated to n bytes.
func pack(text string, n int, codings ...string) string {
	plain := []byte(strings.Repeat(text, n/len(text)))
	for _, name := range codings {
		var b bytes.Buffer
		z := coders[name](&b)
		if _, err := z.Write(plain); err != nil {
			panic(err)
		}
		if err := z.Close(); err != nil {
			panic(err)
		}
		plain = b.Bytes()
	}
	return string(plain)
}

func coded(coding, body string) string {
	return fmt.Sprintf("%sContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s", ok, coding, len(body), body)
}

// bomb is 16 MiB in a few bytes: it is decoded to the bound of a body, or of its
// own size, whichever is less.
func bomb(name, coding string, coders ...string) *server {
	reply := coded(coding, pack("0", 16<<20, coders...))
	kept := min(bodyMax, 1<<20+256*len(reply))
	w := cut(httpmsg.TruncatedLength, strings.Repeat("0", kept))
	if kept < bodyMax {
		w.says = fetch.Swollen
	}
	return &server{name: name, serve: hold(reply), want: w}
}

// secure is a handler behind TLS.
func secure(config *tls.Config, inner func(c *tls.Conn)) handler {
	return func(p *peer) {
		c := tls.Server(p, config)
		if c.Handshake() == nil {
			inner(c)
		}
	}
}

// answer sends text after the request.
func answer(text string) func(*tls.Conn) {
	return func(c *tls.Conn) {
		c.Read(make([]byte, 4096))
		io.WriteString(c, text)
	}
}

// robotsOr answers for robots.txt with one handler and for pages with another.
func robotsOr(robots string, page handler) handler {
	return func(p *peer) {
		if strings.Contains(p.request(), "robots") {
			io.WriteString(p, robots)
			return
		}
		p.rest = []byte("GET / HTTP/1.1\r\n\r\n") // it is read already
		page(p)
	}
}

func servers(good, stranger *tls.Config) []*server {
	const (
		disconnect = httpmsg.TruncatedDisconnect
		length     = httpmsg.TruncatedLength
		slow       = httpmsg.TruncatedTime
		damaged    = httpmsg.TruncatedUnspecified

		protocol = record.OutcomeProtocol
		gone     = record.OutcomeDisconnect
		stalled  = record.OutcomeTimeout
		noTLS    = record.OutcomeTLS
	)
	big := strings.Repeat("0123456789abcdef", 4<<10) // 64 KiB
	noise := string(noisy(bodyMax + 1<<16))
	packed := pack(noise, len(noise), "gzip")
	const chunkedGzip = ok + "Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
	old := good.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	list := []*server{
		// What browsers read is read.
		{name: "good", serve: hold(length5), want: fetched("hello")},
		{name: "good chunks", serve: hold(chunked + "5\r\nhello\r\n1;x=y\r\n!\r\n0\r\nT: v\r\n\r\n"), want: fetched("hello!")},
		{name: "a byte at a time", serve: drip(length5, time.Millisecond), want: late(fetched("hello"), time.Duration(len(length5)-1)*time.Millisecond)},
		{name: "chunks a byte at a time", serve: drip(chunked+"5\r\nhello\r\n"+end, time.Millisecond), want: late(fetched("hello"), time.Duration(len(chunked+"5\r\nhello\r\n"+end)-1)*time.Millisecond)},
		{name: "until the end", serve: say(ok+"\r\nhel", "lo"), want: fetched("hello")},
		{name: "HTTP/1.0", serve: say("HTTP/1.0 200 OK\r\n\r\nhello"), want: fetched("hello")},
		{name: "HTTP/1.0 with chunks that are none", serve: say("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello"), want: fetched("hello")},
		{name: "HTTP/0.9", serve: say("<p>hello"), want: fetched("<p>hello")},
		{name: "ICY", serve: say("ICY 200 OK\r\nicy-name: radio\r\n\r\nhello"), want: fetched("hello")},
		{name: "LF for CRLF", serve: hold("HTTP/1.1 200 OK\nContent-Length: 5\n\nhello"), want: fetched("hello")},
		{name: "lower case and no reason", serve: hold("http/1.1 200\r\ncontent-length: 5\r\n\r\nhello"), want: fetched("hello")},
		{name: "line ends first", serve: hold("\r\n\n\r\n" + length5), want: fetched("hello")},
		{name: "folded lines", serve: hold(ok + "Content-Length:\r\n\t 5\r\nX: a\r\n  b\r\n\r\nhello"), want: fetched("hello")},
		{name: "folded first line", serve: hold(ok + " folded\r\nContent-Length: 5\r\n\r\nhello"), want: fetched("hello")},
		{name: "line without colon", serve: hold(ok + "nonsense\r\nContent-Length: 5\r\n\r\nhello"), want: fetched("hello")},
		{name: "space before colon", serve: hold(ok + "Content-Length : 5\r\n\r\nhello"), want: fetched("hello")},
		{name: "bare CR in a value", serve: hold(ok + "X: a\rY: b\r\nContent-Length: 5\r\n\r\nhello"), want: fetched("hello")},
		{name: "bytes above ASCII in the head", serve: hold("HTTP/1.1 200 \xff\xfe\r\nX-\xc3\xbc: \x80\r\nContent-Length: 5\r\n\r\nhello"), want: fetched("hello")},
		{name: "NUL in the body", serve: hold(ok + "Content-Length: 5\r\n\r\nh\x00ll\x00"), want: fetched("h\x00ll\x00")},
		{name: "status 999", serve: hold("HTTP/1.1 999 No\r\nContent-Length: 5\r\n\r\nhello"), want: fetched("hello")},
		{name: "interim replies", serve: hold("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + length5), want: fetched("hello")},
		{name: "long interim replies", serve: hold(strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: "+big[:60<<10]+"\r\n\r\n", 8), length5), want: fetched("hello")},
		{name: "204 with a length", serve: hold("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n"), want: fetched("")},
		{name: "204 with a body", serve: hold("HTTP/1.1 204 No Content\r\n\r\nhello"), want: fetched("")},
		{name: "304 nobody asked for", serve: hold("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"), want: fetched("")},
		{name: "a head of 60 KiB", serve: hold(ok + "ETag: \"" + big[:60<<10] + "\"\r\nContent-Length: 5\r\n\r\nhello"), want: fetched("hello")},
		{name: "two bodies", serve: hold(length5 + "evil"), want: fetched("hello")},
		{name: "two replies", serve: hold(length5 + length5), want: fetched("hello")},

		// Lengths that lie.
		{name: "length zero and a body", serve: hold(ok + "Content-Length: 0\r\n\r\nhello"), want: fetched("")},
		{name: "length too small", serve: hold(ok + "Content-Length: 2\r\n\r\nhello"), want: fetched("he")},
		{name: "length too large, then the end", serve: say(ok + "Content-Length: 50\r\n\r\nhello"), want: cut(disconnect, "hello")},
		{name: "length too large, then silence", serve: hold(ok + "Content-Length: 50\r\n\r\nhello"), want: late(cut(slow, "hello"), timeout)},
		{name: "length too large, then a reset", serve: reset(ok + "Content-Length: 50\r\n\r\nhello"), want: cut(disconnect, "hello")},
		{name: "length of all numbers", serve: say(ok + "Content-Length: 9223372036854775807\r\n\r\nhello"), want: cut(disconnect, "hello")},
		{name: "length beyond all numbers", serve: say(ok + "Content-Length: 18446744073709551616\r\n\r\nhello"), want: telling(fetched("hello"), "Content-Length")},
		{name: "length negative", serve: say(ok + "Content-Length: -5\r\n\r\nhello"), want: telling(fetched("hello"), "Content-Length \"-5\"")},
		{name: "length hexadecimal", serve: say(ok + "Content-Length: 0x2\r\n\r\nhello"), want: telling(fetched("hello"), "Content-Length")},
		{name: "length empty", serve: say(ok + "Content-Length:\r\n\r\nhello"), want: telling(fetched("hello"), "Content-Length")},
		{name: "length twice the same", serve: hold(ok + "Content-Length: 5\r\nContent-Length: 5, 5\r\n\r\nhello"), want: fetched("hello")},
		{name: "lengths that differ", serve: say(ok + "Content-Length: 5\r\nContent-Length: 3\r\n\r\nhello"), want: telling(fetched("hello"), "Content-Length 5 and 3")},
		{name: "lengths that differ in a line", serve: say(ok + "Content-Length: 5, 3\r\n\r\nhello"), want: telling(fetched("hello"), "Content-Length 5 and 3")},
		{name: "length and chunks", serve: hold(ok + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n" + end), want: fetched("hello")},

		// Chunks: what Chromium and curl accept, and what they do not.
		{name: "chunk with LF", serve: hold(chunked + "5\nhello\n0\n\n"), want: fetched("hello")},
		{name: "chunk size and spaces", serve: hold(chunked + "5      \r\nhello\r\n0 \r\n\r\n"), want: fetched("hello")},
		{name: "chunk size and a tab", serve: hold(chunked + "5\t\r\nhello\r\n" + end), want: fetched("hello")},
		{name: "chunk size with zeros", serve: hold(chunked + "0000000000000000000005\r\nhello\r\n000\r\n\r\n"), want: fetched("hello")},
		{name: "chunk extensions", serve: hold(chunked + "5;x=\"; 7\"\r\nhello\r\n0;y=z\r\n\r\n"), want: fetched("hello")},
		{name: "bytes after the last chunk", serve: hold(chunked + "5\r\nhello\r\n" + end + "evil"), want: fetched("hello")},
		{name: "chunked, twice", serve: hold(ok + "Transfer-Encoding: chunked, chunked\r\n\r\n5\r\nhello\r\n" + end), want: fetched("hello")},
		{name: "chunked in capitals", serve: hold(ok + "TRANSFER-ENCODING:  Chunked\r\n\r\n5\r\nhello\r\n" + end), want: fetched("hello")},
		{name: "not quite chunked", serve: say(ok + "Transfer-Encoding: xchunked\r\n\r\nhello"), want: fetched("hello")},
		{name: "no last chunk", serve: say(chunked + "5\r\nhello\r\n"), want: cut(disconnect, "hello")},
		{name: "last chunk without its end", serve: say(chunked + "5\r\nhello\r\n0\r\n"), want: cut(disconnect, "hello")},
		{name: "chunk size overflows", serve: hold(chunked + "2\r\nab\r\nFFFFFFFFFFFFFFFFF\r\nhel"), want: cut(damaged, "ab")},
		{name: "chunk size huge", serve: say(chunked + "7FFFFFFFFFFFFFFF\r\nhel"), want: cut(disconnect, "hel")},
		{name: "chunk size negative", serve: hold(chunked + "2\r\nab\r\n-5\r\nhello\r\n" + end), want: cut(damaged, "ab")},
		{name: "chunk size with 0x", serve: hold(chunked + "2\r\nab\r\n0x5\r\nhello\r\n" + end), want: cut(damaged, "ab")},
		{name: "chunk size no number", serve: hold(chunked + "2\r\nab\r\nxyz\r\n"), want: cut(damaged, "ab")},
		{name: "chunk size of zeros without end", serve: forever(chunked+"2\r\nab\r\n", big[:1]+strings.Repeat("0", 4095), 0), want: cut(damaged, "ab")},
		{name: "chunk longer than it says", serve: hold(chunked + "2\r\nabcde\r\n" + end), want: cut(damaged, "ab")},
		{name: "empty lines between chunks", serve: hold(chunked + "2\r\nab\r\n\r\n\r\n2\r\ncd\r\n" + end), want: cut(damaged, "ab")},
		{name: "chunk extension without end", serve: forever(chunked+"2\r\nab\r\n5;", "xxxxxxxx", 0), want: cut(damaged, "ab")},
		{name: "trailers without end", serve: forever(chunked+"2\r\nab\r\n0\r\n", "a: b\r\n", 0), want: cut(damaged, "ab")},
		{name: "chunks without end", serve: forever(chunked, "400\r\n"+big[:1024]+"\r\n", 0), want: cut(length, "…")},
		{name: "chunks of one byte without end", serve: forever(chunked, strings.Repeat("1\r\nx\r\n", 1000), 0), want: cut(length, "…")},

		// What has no end.
		{name: "body without end", serve: forever(ok+"\r\n", big, 0), want: cut(length, strings.Repeat(big, bodyMax/len(big)))},
		{name: "document without head or end", serve: forever("<p>", big, 0), want: cut(length, "…")},
		{name: "body as long as the bound", serve: say(ok + "\r\n" + strings.Repeat(big, bodyMax/len(big))), want: fetched(strings.Repeat(big, bodyMax/len(big)))},
		{name: "body a byte longer than the bound", serve: say(ok + "\r\n" + strings.Repeat(big, bodyMax/len(big)) + "x"), want: cut(length, strings.Repeat(big, bodyMax/len(big)))},
		{name: "head without end", serve: forever(ok, "X: "+big[:1000]+"\r\n", 0), want: refused(protocol, "65536 bytes")},
		{name: "one line without end", serve: forever(ok+"X: ", big, 0), want: refused(protocol, "65536 bytes")},
		{name: "status line of 64 KiB", serve: hold("HTTP/1.1 200 " + big + "\r\n\r\n"), want: refused(protocol, "65536 bytes")},
		{name: "header lines beyond number", serve: hold(ok + strings.Repeat("a:b\n", 600) + "\r\n"), want: refused(protocol, "512 header lines")},
		{name: "line ends without end", serve: forever("\r\n", strings.Repeat("\r\n", 500), 0), want: refused(protocol, "want an HTTP status line")},
		{name: "interim replies without end", serve: forever("HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n", 0), want: refused(protocol, "interim reply 9")},

		// What is slow.
		{name: "silence", serve: hold(), want: late(refused(stalled, ""), timeout)},
		{name: "half a status line", serve: hold("HTTP/1.1 2"), want: late(refused(stalled, ""), timeout)},
		{name: "half a head", serve: hold(ok + "X: y\r\n"), want: late(refused(stalled, ""), timeout)},
		{name: "a header line a second", serve: forever(ok, "X: y\r\n", time.Second), want: late(refused(stalled, ""), timeout)},
		{name: "a byte of the head a second", serve: drip(ok+"X: "+big, time.Second), want: late(refused(stalled, ""), timeout)},
		{name: "a byte of the body in seven seconds", serve: forever(ok+"Content-Length: 100000\r\n\r\n", "x", 7*time.Second), want: late(cut(slow, "xxxxxxxxx"), timeout)},
		{name: "a chunk in seven seconds", serve: forever(chunked, "1\r\nx\r\n", 7*time.Second), want: late(cut(slow, "xxxxxxxxx"), timeout)},
		{name: "an interim reply in nine seconds", serve: forever("", "HTTP/1.1 100 Continue\r\n\r\n", 9*time.Second), want: late(refused(stalled, ""), timeout)},
		{name: "no word after a whole body", serve: hold(ok + "\r\nhello"), want: late(cut(slow, "hello"), timeout)},

		// What is no HTTP.
		{name: "NUL in the head", serve: hold(ok + "X: \x00\r\n\r\n"), want: refused(protocol, "NUL")},
		{name: "NUL first", serve: hold("\x00HTTP/1.1 200 OK\r\n\r\n"), want: refused(protocol, "status line")},
		{name: "only CR", serve: say("HTTP/1.1 200 OK\rContent-Length: 5\r\rhello"), want: refused(gone, "")},
		{name: "status no number", serve: hold("HTTP/1.1 abc OK\r\n\r\n"), want: refused(protocol, "status")},
		{name: "status of four digits", serve: hold("HTTP/1.1 2000 OK\r\n\r\n"), want: refused(protocol, "status")},
		{name: "status zero", serve: hold("HTTP/1.1 000 OK\r\n\r\n"), want: refused(protocol, "status")},
		{name: "no status", serve: hold("HTTP/1.1\r\n\r\n"), want: refused(protocol, "status")},
		{name: "plain text", serve: hold("hello"), want: refused(protocol, "status line")},
		{name: "noise", serve: hold("\x8a\xff\x00\x03" + big), want: refused(protocol, "status line")},
		{name: "SSH", serve: hold("SSH-2.0-OpenSSH_9.2\r\n"), want: refused(protocol, "status line")},
		{name: "SMTP", serve: func(p *peer) { io.WriteString(p, "220 mail ESMTP\r\n"); io.Copy(io.Discard, p) }, want: refused(protocol, "status line")},
		{name: "FTP", serve: hold("220 ready\r\n500 GET not understood\r\n"), want: refused(protocol, "status line")},
		{name: "HTTP/2 frames", serve: hold("\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x80"), want: refused(protocol, "frames of HTTP/2")},
		{name: "TLS alert", serve: hold("\x15\x03\x01\x00\x02\x02\x46"), want: refused(protocol, "status line")},
		{name: "request for a request", serve: hold("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), want: refused(protocol, "status line")},
		{name: "switching protocols", serve: hold("HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n"), want: refused(protocol, "101")},

		// What breaks off.
		{name: "closed at once", serve: func(*peer) {}, want: refused(gone, "")},
		{name: "closed after the request", serve: say(), want: refused(gone, "")},
		{name: "closed in the head", serve: say(ok + "X: y"), want: refused(gone, "")},
		{name: "closed after an interim reply", serve: say("HTTP/1.1 100 Continue\r\n\r\n"), want: refused(gone, "")},
		{name: "reset at once", serve: reset(), want: refused(gone, "reset")},
		{name: "reset in the head", serve: reset(ok), want: refused(gone, "reset")},
		{name: "reset in a chunk", serve: reset(chunked + "5\r\nhel"), want: cut(disconnect, "hel")},
		{name: "reset for the end", serve: reset(ok + "\r\nhello"), want: cut(disconnect, "hello")},
		{name: "nobody there", serve: nil, want: connected(refused(record.OutcomeRobotsUnreachable, "connection refused"), -1)},

		// Content codings that swell, lie or are damaged.
		{name: "gzip", serve: hold(coded("gzip", pack("hello", 5, "gzip"))), want: fetched("hello")},
		{name: "x-gzip, zlib, raw deflate, br and zstd", serve: hold(coded("x-gzip, deflate, deflate, br, zstd", "")), want: cut(damaged, "")},
		bomb("gzip bomb", "gzip", "gzip"),
		bomb("zlib bomb", "deflate", "deflate"),
		bomb("deflate bomb", "deflate", "raw"),
		bomb("br bomb", "br", "br"),
		bomb("zstd bomb", "zstd", "zstd"),
		bomb("gzip in gzip bomb", "gzip, gzip", "gzip", "gzip"),
		bomb("br in br bomb", "br, br", "br", "br"),
		bomb("zstd in gzip in br bomb", "zstd, gzip, br", "zstd", "gzip", "br"),
		{name: "gzip without end", serve: forever(ok+"Content-Encoding: gzip\r\n\r\n", pack(big, 1<<20, "gzip"), 0), want: cut(length, "…")},
		{name: "gzip that is none", serve: hold(coded("gzip", "hello")), want: fetched("hello")},
		{name: "zstd that is none", serve: hold(coded("zstd", "hello")), want: fetched("hello")},
		{name: "br that is none", serve: hold(coded("br", "hello hello")), want: cut(damaged, "…")},
		{name: "gzip cut", serve: hold(coded("gzip", pack(big, 1<<20, "gzip")[:500])), want: cut(disconnect, "…")},
		{name: "gzip with a wrong checksum", serve: hold(coded("gzip", flip(pack("hello", 5, "gzip"), -6))), want: cut(damaged, "hello")},
		{name: "zstd that wants 128 MiB", serve: hold(coded("zstd", "\x28\xb5\x2f\xfd\x00\x88\x01\x00\x00")), want: cut(damaged, "")},
		{name: "five codings", serve: hold(coded("gzip, gzip, gzip, gzip, gzip", pack("hello", 5, "gzip", "gzip", "gzip", "gzip", "gzip"))), want: cut(damaged, "")},
		{name: "gzip longer than the bound", serve: hold(coded("gzip", pack(noise, len(noise), "gzip"))), want: cut(length, "…")},
		{name: "gzip in chunks longer than the bound", serve: forever(chunkedGzip, fmt.Sprintf("%x\r\n%s\r\n", len(packed), packed), 0), want: cut(length, "…")},
		{name: "page with the coding none", serve: hold(ok + "Content-Type: text/html\r\nContent-Encoding: none\r\nContent-Length: 8\r\n\r\n<p>hello"), want: telling(fetched("<p>hello"), `content coding "none"`)},
		{name: "page with the coding utf-8", serve: hold(ok + "Content-Encoding: identity, utf-8\r\nContent-Length: 8\r\n\r\n<p>hello"), want: telling(fetched("<p>hello"), `content coding "utf-8"`)},
		{name: "gzip as transfer coding", serve: hold(ok + "Transfer-Encoding: gzip, chunked\r\n\r\n" + inChunks(pack("hello", 5, "gzip"))), want: fetched("hello")},
		{name: "gzip as transfer coding to the end", serve: say(ok + "Transfer-Encoding: gzip\r\n\r\n" + pack("hello", 5, "gzip")), want: fetched("hello")},
		{name: "gzip bomb as transfer coding", serve: hold(ok + "Transfer-Encoding: gzip, chunked\r\n\r\n" + inChunks(pack("0", 16<<20, "gzip"))), want: cut(length, strings.Repeat("0", bodyMax))},
		{name: "a coding nobody knows", serve: hold(coded("lzma", "hello")), want: cut(damaged, "")},

		// TLS.
		{name: "TLS", https: true, serve: secure(good, answer(length5)), want: fetched("hello")},
		{name: "TLS without its end", https: true, serve: secure(good, answer(ok+"\r\nhello")), want: fetched("hello")},
		{name: "TLS of another name", https: true, serve: secure(stranger, answer(length5)), want: refused(noTLS, "certificate")},
		{name: "TLS 1.1", https: true, serve: secure(old, answer(length5)), want: connected(telling(fetched("hello"), "old TLS: TLS 1.1"), 3)},
		{name: "TLS garbage", https: true, serve: func(p *peer) { p.Read(make([]byte, 4096)); io.WriteString(p, big) }, want: refused(noTLS, "")},
		{name: "TLS closed", https: true, serve: func(p *peer) { p.Read(make([]byte, 4096)) }, want: connected(refused(record.OutcomeDisconnect, "closed during the handshake"), 3)},
		{name: "TLS reset", https: true, serve: func(p *peer) { p.Read(make([]byte, 4096)); p.reset.Store(true) }, want: connected(refused(record.OutcomeDisconnect, "closed during the handshake"), 3)},
		{name: "TLS answered in HTTP", https: true, serve: func(p *peer) { p.Read(make([]byte, 4096)); io.WriteString(p, "HTTP/1.1 400 Bad Request\r\n\r\n") }, want: refused(noTLS, "")},
		{name: "TLS stall", https: true, serve: func(p *peer) { io.Copy(io.Discard, p) }, want: late(refused(stalled, ""), connectTimeout)},
		{name: "TLS hello a byte a second", https: true, serve: func(p *peer) {
			p.Read(make([]byte, 4096))
			forever("\x16\x03\x03\x3f\xff", "\x02", time.Second)(&peer{Conn: p.Conn, rest: []byte("\r\n\r\n")})
		}, want: late(refused(stalled, ""), connectTimeout)},
		{name: "TLS, then silence", https: true, serve: secure(good, func(c *tls.Conn) { io.Copy(io.Discard, c) }), want: late(refused(stalled, ""), timeout)},
		{name: "TLS, then noise below it", https: true, serve: secure(good, func(c *tls.Conn) {
			c.Read(make([]byte, 4096))
			io.WriteString(c, ok+"Content-Length: 50\r\n\r\nhello")
			io.WriteString(c.NetConn(), big)
		}), want: cut(disconnect, "hello")},

		// Kept connections.
		{name: "closed between requests", serve: keep(length5), pages: 4, want: connected(fetched("hello"), 5)},
		{name: "closed with the second request", serve: keep(length5, ""), pages: 4, want: connected(fetched("hello"), 5)},
		{name: "kept", serve: keep(length5, length5, length5, length5), pages: 4, want: connected(fetched("hello"), 2)},
		{name: "more than was asked for", serve: keep(length5+"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", length5), pages: 4, want: connected(fetched("hello"), 5)},
		{name: "closed, says it", serve: keep(ok+"Connection: close\r\nContent-Length: 5\r\n\r\nhello", length5), pages: 4, want: connected(fetched("hello"), 5)},

		// robots.txt.
		{name: "robots without end", whole: true, serve: robotsOr(ok+"\r\nUser-agent: *\nDisallow: /\n"+strings.Repeat("# "+big[:1000]+"\n", 4000), hold(length5)), want: refused(record.OutcomeRobotsDenied, "")},
		{name: "robots bomb", whole: true, serve: robotsOr(coded("gzip", pack("User-agent: *\nDisallow: /\n", 16<<20, "gzip")), hold(length5)), want: refused(record.OutcomeRobotsDenied, "")},
		{name: "robots of noise", whole: true, serve: robotsOr(ok+"\r\n\x00\xff\xfe"+big, hold(length5)), want: fetched("hello")},
		{name: "robots that are a page", whole: true, serve: robotsOr(ok+"Content-Type: text/html\r\n\r\n<html>Disallow: /", hold(length5)), want: fetched("hello")},
		{name: "robots redirected to themselves", whole: true, serve: robotsOr("HTTP/1.1 301 Moved\r\nLocation: /robots.txt\r\nContent-Length: 0\r\n\r\n", hold(length5)), want: connected(fetched("hello"), 7)},
		{name: "robots redirected to a private address", whole: true, serve: robotsOr("HTTP/1.1 301 Moved\r\nLocation: http://private.test/\r\nContent-Length: 0\r\n\r\n", hold(length5)), want: connected(refused(record.OutcomeAddress, "private use"), 1)},
		{name: "robots redirected to a mapped loopback", whole: true, serve: robotsOr("HTTP/1.1 301 Moved\r\nLocation: http://[::ffff:a9fe:a9fe]/\r\nContent-Length: 0\r\n\r\n", hold(length5)), want: connected(refused(record.OutcomeAddress, "link local"), 1)},
		{name: "robots redirected to a mail server", whole: true, serve: robotsOr("HTTP/1.1 301 Moved\r\nLocation: http://private.test:25/\r\nContent-Length: 0\r\n\r\n", hold(length5)), want: connected(refused(record.OutcomeRobotsUnreachable, ":25"), 1)},
		{name: "robots redirected to a file", whole: true, serve: robotsOr("HTTP/1.1 301 Moved\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n", hold(length5)), want: fetched("hello")},
		{name: "robots silent", whole: true, serve: hold(), want: connected(refused(record.OutcomeRobotsUnreachable, "timeout"), 1)},
		{name: "robots closed", whole: true, serve: say(), want: connected(refused(record.OutcomeRobotsUnreachable, "closed"), 1)},
		{name: "robots busy", whole: true, serve: robotsOr("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", hold(length5)), want: connected(refused(record.OutcomeRobotsUnreachable, "503"), 1)},

		// Text that goes into columns.
		{name: "redirect to a Unicode host", serve: hold("HTTP/1.1 302 Found\r\nLocation: http://b\xc3\xbccher.test/\xff\r\nContent-Length: 5\r\n\r\nhello"), want: fetched("hello")},
		{name: "redirect to a control character", serve: hold("HTTP/1.1 302 Found\r\nLocation: http://\x1b[2J\r\nContent-Length: 5\r\n\r\nhello"), want: fetched("hello")},
		{name: "redirect of 60 KiB", serve: hold("HTTP/1.1 302 Found\r\nLocation: /" + big[:60<<10] + "\r\nContent-Length: 5\r\n\r\nhello"), want: fetched("hello")},
		{name: "escape sequences", serve: hold(ok + "Content-Type: \x1b]0;x\x07/y\r\nETag: \x1b[31m\r\nContent-Length: 5\r\n\r\nhello"), want: fetched("hello")},
		{name: "retry in a thousand years", serve: hold(ok + "Retry-After: 99999999999999999999\r\nContent-Length: 5\r\n\r\nhello"), want: fetched("hello")},
	}
	// A reply that ends at each of its bytes.
	for name, reply := range map[string]string{"length": length5, "chunks": chunked + "5\r\nhello\r\n" + end} {
		head := strings.Index(reply, "\r\n\r\n") + 4
		for n := range len(reply) {
			s := &server{name: fmt.Sprintf("%s closed at %d", name, n), serve: say(reply[:n]), want: refused(gone, "")}
			if n >= head {
				body := ""
				if at := strings.Index(reply, "hello"); n > at {
					body = "hello"[:min(n-at, 5)]
				}
				s.want = cut(disconnect, body)
			}
			list = append(list, s)
		}
	}
	return list
}

// inChunks is a chunked body of one chunk.
func inChunks(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) + end }

// noisy is n bytes that do not compress.
func noisy(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{}).Read(b)
	return b
}

// flip changes the byte at a place, from the end where that is negative.
func flip(s string, at int) string {
	b := []byte(s)
	b[(len(b)+at)%len(b)] ^= 1
	return string(b)
}
