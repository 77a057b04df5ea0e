package http1

import (
	"crypto/tls"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// stale says whether a connection that waited has been closed by the server, or
// holds bytes that nobody asked for: another reply than ours would be read. TLS
// sends records of its own, so there bytes prove nothing.
func stale(conn net.Conn, secure bool) bool {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	s, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		var one [1]byte
		n, _, err := unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		switch {
		case err == unix.EAGAIN || err == unix.EINTR:
		case err != nil || n == 0:
			gone = true
		default:
			gone = !secure
		}
	})
	return gone || err != nil
}
