package simweb

import (
	"context"
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
