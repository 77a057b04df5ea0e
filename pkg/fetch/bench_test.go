package fetch_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/formats/warc"
	"mercator/pkg/fetch"
	"mercator/pkg/folder/stage"
)

// pageServer answers every request of a connection with one page, robots.txt
// with 404, and allocates nothing for it.
func pageServer(b testing.TB, body string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	found, missing := []byte(page(body)), []byte("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				in := bufio.NewReader(c)
				reply := found
				for {
					line, err := in.ReadSlice('\n')
					switch {
					case err != nil:
						return
					case len(line) > 15 && string(line[:15]) == "GET /robots.txt":
						reply = missing
					case len(line) == 2:
						if _, err := c.Write(reply); err != nil {
							return
						}
						reply = found
					}
				}
			}()
		}
	}()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	return port
}

// BenchmarkBatch fetches pages of 12 KB of 32 hosts over loopback into a WARC
// file; an operation is a page, the server's share included.
func BenchmarkBatch(b *testing.B) {
	var words strings.Builder
	for i := 0; words.Len() < 12<<10; i++ {
		fmt.Fprintf(&words, "<p>word %d of <a href=\"/%x\">many</a> in a page\n", i*i%977, i*7919)
	}
	for _, codec := range []warc.Codec{warc.Gzip, warc.Zstd} {
		b.Run(string(codec), func(b *testing.B) {
			port := pageServer(b, words.String())
			urls := make([]record.URL, b.N)
			for i := range urls {
				urls[i] = url(fmt.Sprintf("http://h%d.test:%s/%d", i%32, port, i))
				urls[i].Addr = "127.0.0.1"
			}
			opt := options(newStore(b), loopback(b))
			opt.Codec, opt.Connections = codec, 32
			in := stream(b, "r1", urls)
			opt.Txn, opt.Schema = "r1", in.Schema()
			b.SetBytes(int64(words.Len()))
			b.ReportAllocs()
			b.ResetTimer()
			drain(b, opt, in)
		})
	}
}

// nowhere is a sink that keeps nothing.
type nowhere struct{ io.Writer }

func (nowhere) Options() record.WriterOptions { return record.WriterOptions{Name: "sink"} }
func (nowhere) Publish() error                { return nil }
func (nowhere) Abort()                        {}

func drain(b testing.TB, opt fetch.Options, in stage.Input[record.URL]) {
	spec := stage.Spec{Name: "mfetch", Verb: "fetch", Store: opt.Store, Txn: opt.Txn}
	_, err := stage.Run(b.Context(), spec, in, []stage.Output{nowhere{io.Discard}}, func(ctx context.Context, batch *stage.Batch[record.URL, record.Fetch]) error {
		return fetch.Run(ctx, batch, opt)
	})
	if err != nil {
		b.Fatal(err)
	}
}
