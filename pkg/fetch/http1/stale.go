package http1

import (
	"crypto/tls"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// probe finds out whether a connection that waited has been closed by the server,
// or holds bytes that nobody asked for: another reply than ours would be read. TLS
// sends records of its own, so there bytes prove nothing.
type probe struct {
	raw    syscall.RawConn
	secure bool
	gone   bool
	one    [1]byte
	look   func(fd uintptr)
}

// stale says whether the connection is of no more use.
func (c *Conn) stale() bool {
	if c.probe == nil {
		c.probe = newProbe(c.conn)
	}
	return c.probe.raw != nil && (c.probe.raw.Control(c.probe.look) != nil || c.probe.gone)
}

// newProbe returns an empty probe for a connection that is no socket.
func newProbe(conn net.Conn) *probe {
	p := &probe{}
	if t, ok := conn.(*tls.Conn); ok {
		conn, p.secure = t.NetConn(), true
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
		n, _, err := unix.Recvfrom(int(fd), p.one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		switch {
		case err == unix.EAGAIN || err == unix.EINTR:
		case err != nil || n == 0:
			p.gone = true
		default:
			p.gone = !p.secure
		}
	}
	return p
}
