package http1

import (
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

// newProbe returns nil for a connection that is no socket.
func newProbe(conn net.Conn, secure bool) *probe {
	s, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil
	}
	p := &probe{raw: raw, secure: secure}
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

func (p *probe) stale() bool {
	return p != nil && (p.raw.Control(p.look) != nil || p.gone)
}
