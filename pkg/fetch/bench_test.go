package fetch_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"testing"

	"mercator/formats/record"
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
