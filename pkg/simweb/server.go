package simweb

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of the server on what a client sends.
const (
	headLimit   = 16 << 10         // bytes of a request's head
	idleTimeout = 60 * time.Second // between two bytes of a client
	outFlush    = 64 << 10         // replies to pipelined requests are written once they reach this
)

// Responder makes replies; Web, Hard and Archive do. The request is the
// responder's to change. The body may be appended to scratch. The duration is
// how long the reply is held back.
type Responder func(scratch []byte, q *Request) (Response, time.Duration)

// Calm is the responder of a web without time.
func (w *Web) Calm() Responder {
	return func(scratch []byte, q *Request) (Response, time.Duration) {
		return w.Respond(scratch, q), w.roughDelayOf(q)
	}
}

// Clocked is the responder of a hard web under a clock.
func (h *Hard) Clocked(now func() time.Time) Responder {
	return func(scratch []byte, q *Request) (Response, time.Duration) { return h.Respond(scratch, q, now()) }
}

// Contact is one request as the server saw it.
type Contact struct {
	Start, End time.Time // head read, reply written
	Local      net.Addr  // the address that was contacted
	Host       string
	Target     string
	Status     int
}

// Server is an HTTP/1.1 server for a web: keep-alive, pipelining, one write
// per batch of replies, and no more than a synthetic web needs.
type Server struct {
	Respond Responder
	Log     func(Contact) // called for each request if not nil, from many goroutines

	requests atomic.Int64
	mu       sync.Mutex
	open     map[io.Closer]struct{} // listeners and connections
	closed   bool
	wait     sync.WaitGroup
}

// Requests is how many replies have been made.
func (s *Server) Requests() int64 { return s.requests.Load() }

// Serve accepts connections until Close. It returns nil after Close.
func (s *Server) Serve(l net.Listener) error {
	if !s.enter(l) {
		return nil
	}
	defer s.leave(l)
	for {
		conn, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			if te, ok := err.(interface{ Temporary() bool }); ok && te.Temporary() { // out of descriptors: they come back
				time.Sleep(10 * time.Millisecond)
				continue
			}
			return err
		}
		if !s.enter(conn) {
			return nil
		}
		go func() {
			defer s.leave(conn)
			s.converse(conn)
		}()
	}
}

// enter notes what Close has to close; after Close it closes it at once.
func (s *Server) enter(c io.Closer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		c.Close()
		return false
	}
	if s.open == nil {
		s.open = map[io.Closer]struct{}{}
	}
	s.open[c] = struct{}{}
	s.wait.Add(1)
	return true
}

func (s *Server) leave(c io.Closer) {
	c.Close()
	s.mu.Lock()
	delete(s.open, c)
	s.mu.Unlock()
	s.wait.Done()
}

// Close closes listeners and connections and waits for their goroutines. It
// may be called again.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	for c := range s.open {
		c.Close()
	}
	s.mu.Unlock()
	s.wait.Wait()
	return nil
}

// converse answers the requests of one connection until either side ends it.
func (s *Server) converse(conn net.Conn) {
	in := make([]byte, 0, 4<<10)
	var local netip.Addr
	if a, ok := conn.LocalAddr().(*net.TCPAddr); ok {
		local = a.AddrPort().Addr().Unmap()
	}
	var out, scratch []byte
	for {
		end := bytes.Index(in, []byte("\r\n\r\n"))
		if end < 0 {
			// Everything that came is answered: write before waiting.
			if len(out) > 0 {
				if _, err := conn.Write(out); err != nil {
					return
				}
				out = keepSmall(out)
			}
			if len(in) >= headLimit {
				conn.Write([]byte("HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"))
				return
			}
			if len(in) == cap(in) {
				in = append(make([]byte, 0, min(2*cap(in), headLimit)), in...)
			}
			conn.SetReadDeadline(time.Now().Add(idleTimeout))
			n, err := conn.Read(in[len(in):cap(in)])
			in = in[:len(in)+n]
			if err != nil && n == 0 {
				return
			}
			continue
		}
		h, ok := parseHead(in[:end+2])
		if !ok {
			out = append(out, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"...)
			conn.Write(out)
			return
		}
		in = in[:copy(in, in[end+4:])]
		start := time.Time{}
		if s.Log != nil {
			start = time.Now()
		}
		h.Local = local
		p, delay := s.Respond(scratch[:0], &h.Request)
		s.requests.Add(1)
		if delay > 0 {
			time.Sleep(delay)
		}
		if p.Raw != nil {
			h.closing = true
			out = append(out, p.Raw...)
		} else if out = p.AppendHTTP(out, h.http10, h.closing, h.Method == "HEAD"); cap(p.Body) <= outFlush {
			scratch = p.Body
		}
		if len(out) >= outFlush || h.closing || s.Log != nil {
			_, err := conn.Write(out)
			if s.Log != nil {
				s.Log(Contact{Start: start, End: time.Now(), Local: conn.LocalAddr(), Host: h.Host, Target: h.Target, Status: p.Status})
			}
			if err != nil || h.closing {
				return
			}
			out = keepSmall(out)
		}
	}
}

// keepSmall empties a buffer for use again, unless one large reply has blown
// it up.
func keepSmall(b []byte) []byte {
	if cap(b) > 2*outFlush {
		return nil
	}
	return b[:0]
}

type head struct {
	Request
	http10  bool
	closing bool
}

// parseHead reads a request line and its fields. Requests with a body are
// refused: nothing here takes one.
func parseHead(b []byte) (h head, ok bool) {
	line, rest, _ := bytes.Cut(b, []byte("\r\n"))
	method, line, ok1 := bytes.Cut(line, []byte(" "))
	target, version, ok2 := bytes.Cut(line, []byte(" "))
	if !ok1 || !ok2 || len(method) == 0 || len(target) == 0 {
		return h, false
	}
	switch string(version) {
	case "HTTP/1.1":
	case "HTTP/1.0":
		h.http10, h.closing = true, true
	default:
		return h, false
	}
	h.Method = "GET"
	if string(method) != "GET" {
		h.Method = string(method)
	}
	for len(rest) > 0 {
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		i := bytes.IndexByte(line, ':')
		if i <= 0 {
			return h, false
		}
		name, value := line[:i], bytes.Trim(line[i+1:], " \t")
		switch len(name) {
		case len("host"):
			if bytes.EqualFold(name, []byte("host")) {
				h.Host = string(value)
			}
		case len("cookie"):
			if bytes.EqualFold(name, []byte("cookie")) {
				h.Cookie = string(value)
			}
		case len("connection"):
			if bytes.EqualFold(name, []byte("connection")) {
				h.closing = bytes.EqualFold(value, []byte("close")) || h.http10 && !bytes.EqualFold(value, []byte("keep-alive"))
			}
		case len("if-none-match"):
			if bytes.EqualFold(name, []byte("if-none-match")) {
				h.IfNoneMatch = string(value)
			}
		case len("accept-encoding"):
			if bytes.EqualFold(name, []byte("accept-encoding")) {
				h.AcceptGzip = bytes.Contains(bytes.ToLower(value), []byte("gzip"))
			}
		case len("content-length"):
			if bytes.EqualFold(name, []byte("content-length")) && string(value) != "0" {
				return h, false
			}
		case len("transfer-encoding"): // and if-modified-since
			if bytes.EqualFold(name, []byte("if-modified-since")) {
				h.IfModified = string(value)
			}
			if bytes.EqualFold(name, []byte("transfer-encoding")) {
				return h, false
			}
		}
	}
	// The absolute form is what a client sends to a proxy (RFC 9112 section 3.2.2).
	if t, isAbsolute := bytes.CutPrefix(target, []byte("http://")); isAbsolute {
		i := bytes.IndexByte(t, '/')
		if i < 0 {
			return h, false
		}
		h.Host, target = string(t[:i]), t[i:]
	}
	h.Target = string(target)
	return h, true
}
