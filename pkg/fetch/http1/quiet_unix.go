//go:build unix

package http1

import "golang.org/x/sys/unix"

// quiet reports whether a socket is open and nothing waits in it: no error, no end, no bytes. b is room for one of these.
func quiet(fd uintptr, b []byte) bool {
	_, _, err := unix.Recvfrom(int(fd), b, unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return err == unix.EAGAIN || err == unix.EINTR
}
