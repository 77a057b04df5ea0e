package http1

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

// probe finds out whether a connection that waited has been closed by the server,
// or holds bytes that nobody asked for: another reply than ours would be read. Over TLS
// the session tickets, which nobody asks for either, come before the first reply.
type probe struct {
	raw  syscall.RawConn // nil: the connection is no socket
	gone bool
	one  [1]byte
	look func(fd uintptr)
}

// stale reports whether the connection is of no more use.
func (c *Conn) stale() bool {
	if c.probe == nil {
		c.probe = newProbe(c.conn)
	}
	return c.probe.raw != nil && (c.probe.raw.Control(c.probe.look) != nil || c.probe.gone) || c.surplus()
}

// surplus reports whether a record of TLS was read from the socket with the reply's last.
// Where it was not, the reading ends at once, and the connection is none the worse.
func (c *Conn) surplus() bool {
	t, ok := c.conn.(*tls.Conn)
	if !ok {
		return false
	}
	if t.SetReadDeadline(time.Unix(1, 0)) != nil {
		return true
	}
	n, err := t.Read(c.probe.one[:])
	return n > 0 || !errors.Is(err, os.ErrDeadlineExceeded)
}

// newProbe returns an empty probe for a connection that is no socket.
func newProbe(conn net.Conn) *probe {
	p := &probe{}
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	s, ok := conn.(syscall.Conn)
	if !ok {
		return p
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return p
	}
	p.raw = raw
	p.look = func(fd uintptr) {
		p.gone = !quiet(fd, p.one[:])
	}
	return p
}
