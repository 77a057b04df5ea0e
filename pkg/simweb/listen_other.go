//go:build !linux

package simweb

import (
	"io"
	"net"
	"net/netip"
)

// Listen opens the sockets of a web on a port; 0 takes a free one. Here all
// hosts share one address, which is returned, and are told apart by the Host
// header. With ipv6 a second socket takes connections to ::1.
func Listen(port int, oneAddress, ipv6 bool) (listeners []net.Listener, one netip.Addr, err error) {
	return listenOne(port, ipv6)
}

// HoldDead has nothing to hold: with one address none is dead.
func HoldDead(net.Listener) (io.Closer, error) { return io.NopCloser(nil), nil }
