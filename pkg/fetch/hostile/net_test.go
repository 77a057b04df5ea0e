package hostile

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// network is a network inside the process, on the clock of its bubble: no load of
// the machine and no order of goroutines changes what a server does, or when.
type network struct {
	servers map[string]*server // by address and port
	good    *tls.Config        // for robots.txt of servers that speak TLS
	open    sync.WaitGroup     // connections
}

// dial is fetch.Limits.Dial.
func (n *network) dial(_ context.Context, _, addr string) (net.Conn, error) {
	s := n.servers[addr]
	if s == nil || s.serve == nil {
		return nil, syscall.ECONNREFUSED
	}
	near, far := net.Pipe()
	p := &peer{Conn: far, in: make(chan []byte, 1024)}
	c := &client{Conn: near, peer: p}
	s.connections.Add(1)
	n.open.Go(p.receive)
	n.open.Go(func() {
		defer p.Close()
		switch {
		case s.whole || s.connections.Load() > 1:
			s.serve(p)
		case s.https:
			secure(n.good, answer(noRobots))(p)
		default:
			say(noRobots)(p)
		}
	})
	return c, nil
}

// client is the fetcher's end of a connection.
type client struct {
	net.Conn
	peer *peer
}

func (c *client) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == io.EOF && c.peer.reset.Load() {
		err = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	}
	return n, err
}

// peer is the server's end. What the client sends is taken at once, as a kernel
// does; what the server sends waits for the client to read it.
type peer struct {
	net.Conn
	in    chan []byte
	rest  []byte
	reset atomic.Bool // closing is a reset
}

func (p *peer) receive() {
	defer close(p.in)
	for {
		b := make([]byte, 4096)
		n, err := p.Conn.Read(b)
		if err != nil {
			return
		}
		p.in <- b[:n]
	}
}

func (p *peer) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		var ok bool
		if p.rest, ok = <-p.in; !ok {
			return 0, io.EOF
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// request reads a request and returns its first line.
func (p *peer) request() string {
	var text strings.Builder
	b := make([]byte, 4096)
	for !strings.HasSuffix(text.String(), "\r\n\r\n") {
		n, err := p.Read(b)
		if err != nil {
			break
		}
		text.Write(b[:n])
	}
	line, _, _ := strings.Cut(text.String(), "\r\n")
	return line
}

const noRobots = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

// handler serves a connection, which is closed afterwards.
type handler func(p *peer)

// say sends parts after the request, one write each.
func say(parts ...string) handler {
	return func(p *peer) {
		p.request()
		for _, s := range parts {
			if s == "" {
				continue // it would be a read of nothing
			}
			if _, err := io.WriteString(p, s); err != nil {
				return
			}
		}
	}
}

// hold is say and then silence, until the client goes.
func hold(parts ...string) handler {
	return func(p *peer) {
		say(parts...)(p)
		io.Copy(io.Discard, p)
	}
}

// forever is say and then part again and again, until the client goes.
func forever(first, part string, pause time.Duration) handler {
	return func(p *peer) {
		say(first)(p)
		for {
			if _, err := io.WriteString(p, part); err != nil {
				return
			}
			time.Sleep(pause)
		}
	}
}

// reset is say and then a reset of the connection.
func reset(parts ...string) handler {
	return func(p *peer) {
		say(parts...)(p)
		p.reset.Store(true)
	}
}

// drip sends text a byte at a time.
func drip(text string, pause time.Duration) handler {
	return func(p *peer) {
		p.request()
		for i := range len(text) {
			if _, err := io.WriteString(p, text[i:i+1]); err != nil {
				return
			}
			time.Sleep(pause)
		}
		io.Copy(io.Discard, p)
	}
}

// keep answers each request of a connection in turn, and closes it after the last.
func keep(replies ...string) handler {
	return func(p *peer) {
		for _, s := range replies {
			if p.request() == "" {
				return
			}
			io.WriteString(p, s)
		}
	}
}
