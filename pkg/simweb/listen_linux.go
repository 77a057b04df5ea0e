package simweb

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Listen opens the sockets of a web on a port; 0 takes a free one. On Linux
// one socket, bound to the loopback device, takes connections to every
// address of 127.0.0.0/8, so that each host has its own. Where the kernel
// does not allow that to ordinary users (before 5.7), or when oneAddress is
// set, all hosts share one address, which is returned; otherwise it is not
// valid. With ipv6 a second socket takes connections to ::1.
func Listen(port int, oneAddress, ipv6 bool) (listeners []net.Listener, one netip.Addr, err error) {
	if !oneAddress {
		lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
			var err error
			if e := c.Control(func(fd uintptr) { err = unix.BindToDevice(int(fd), "lo") }); e != nil {
				return e
			}
			return err
		}}
		l, err := lc.Listen(context.Background(), "tcp4", "0.0.0.0:"+strconv.Itoa(port))
		if err == nil {
			return withIPv6(l, netip.Addr{}, ipv6)
		}
	}
	return listenOne(port, ipv6)
}

// held are sockets that nobody serves.
type held []int

func (h held) Close() (err error) {
	for _, fd := range h {
		err = errors.Join(err, unix.Close(fd))
	}
	return err
}

// HoldDead makes of a port what dead addresses of a rough web are, beside the socket of Listen: silentAddr takes no connection and
// refuses none, as its queue is full; refusingAddr refuses.
func HoldDead(l net.Listener) (_ io.Closer, err error) {
	port := Port(l)
	var h held
	defer func() {
		if err != nil {
			h.Close()
		}
	}()
	open := func(family int) (int, error) {
		fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fd, err
		}
		h = append(h, fd)
		return fd, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	}
	// The port is shared for as long as it takes to get the second socket.
	raw, err := l.(*net.TCPListener).SyscallConn()
	if err != nil {
		return nil, err
	}
	var inner error
	err = raw.Control(func(fd uintptr) {
		silent := &unix.SockaddrInet4{Port: port, Addr: silentAddr.As4()}
		if inner = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); inner != nil {
			return
		}
		defer unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 0)
		var s, c int
		if s, inner = open(unix.AF_INET); inner != nil {
			return
		}
		if inner = errors.Join(unix.BindToDevice(s, "lo"), unix.Bind(s, silent), unix.Listen(s, 0)); inner != nil {
			return
		}
		if c, inner = open(unix.AF_INET); inner == nil { // takes the one place in the queue
			inner = unix.Connect(c, silent)
		}
	})
	if err = errors.Join(err, inner); err != nil {
		return nil, err
	}
	// Bound, it listens not. Without IPv6 there is nobody, either.
	refusing := &unix.SockaddrInet6{Port: port, Addr: refusingAddr.As16()}
	if fd, err := open(unix.AF_INET6); err == nil {
		unix.Bind(fd, refusing)
	}
	return h, nil
}
