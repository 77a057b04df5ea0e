package simweb

import (
	"net"
	"net/netip"
	"strconv"
)

func listenOne(port int, ipv6 bool) ([]net.Listener, netip.Addr, error) {
	one := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	l, err := net.Listen("tcp4", netip.AddrPortFrom(one, uint16(port)).String())
	if err != nil {
		return nil, one, err
	}
	return withIPv6(l, one, ipv6)
}

// withIPv6 adds a listener on ::1 with l's port, if wanted.
func withIPv6(l net.Listener, one netip.Addr, ipv6 bool) ([]net.Listener, netip.Addr, error) {
	if !ipv6 {
		return []net.Listener{l}, one, nil
	}
	l6, err := net.Listen("tcp6", "[::1]:"+strconv.Itoa(Port(l)))
	if err != nil {
		l.Close()
		return nil, one, err
	}
	return []net.Listener{l, l6}, one, nil
}

// Port is the TCP port that a listener of Listen has.
func Port(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }
