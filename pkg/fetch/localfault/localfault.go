// Package localfault tells what this machine could not do from what a server did.
//
// A contact that fails because this machine has no free port, no open file or no network says
// nothing about the server: its URL is deferred, and no attempt of the URL and no failure of
// the host is counted. Such a fault is passed on as text (the columns error and addr_error,
// a Resolver's failure), one text for each kind; all begin with "this machine: ".
package localfault

import (
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"strings"
	"syscall"
)

// Prefix begins the text of every fault of this machine, of those below and of others.
const Prefix = "this machine: "

// The kinds that Of knows.
const (
	NoPort   = Prefix + "no free local port"
	NoFile   = Prefix + "too many open files (raise ulimit -n)"
	NoMemory = Prefix + "no memory for sockets or processes"
	Down     = Prefix + "the network is down"
	NoRoute  = Prefix + "no route to the network"
	NoIPv6   = Prefix + "no IPv6 network" // where there is a route to IPv4 addresses
	Firewall = Prefix + "its firewall or its routes forbid it"
)

// Is reports whether a text names a fault of this machine.
func Is(text string) bool { return strings.HasPrefix(text, Prefix) }

// Passing reports whether a kind is a shortage, which may be over in a second.
func Passing(text string) bool { return text == NoPort || text == NoFile || text == NoMemory }

// Unrouted reports whether a kind is about one address: another one of the host may do.
func Unrouted(text string) bool { return text == NoRoute || text == NoIPv6 || text == Firewall }

// Of returns the kind of an error that is a fault of this machine.
//
// "Unreachable" comes from this machine's own table of routes, or from a router somewhere. It
// is the former if connecting a UDP socket fails, too: that looks at the table and sends nothing.
// Even so it is about that address alone, and its host is one that cannot be had, where the table
// leads elsewhere: an operator's route that prohibits a network is not over in a later round.
func Of(err error) (text string, ok bool) {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return "", false
	}
	var started *fs.PathError // of a process: "fork/exec"
	switch errno {
	case syscall.EMFILE, syscall.ENFILE:
		return NoFile, true
	case syscall.ENOBUFS, syscall.ENOMEM:
		return NoMemory, true
	case syscall.EAGAIN:
		if errors.As(err, &started) && started.Op == "fork/exec" {
			return NoMemory, true
		}
	case syscall.ENETDOWN:
		return Down, true
	}
	var dial *net.OpError
	if !errors.As(err, &dial) || dial.Op != "dial" && (dial.Op != "write" || errno != syscall.EPERM) {
		return "", false // a connection that stood: a router, or the other end; but a datagram meets the firewall when it is sent
	}
	to, _ := remote(dial)
	switch errno {
	case syscall.EADDRNOTAVAIL, syscall.EADDRINUSE:
		if to.IsValid() && !routed(to) { // no address to come from
			return unrouted(to), true
		}
		return NoPort, true
	case syscall.EACCES, syscall.EPERM:
		if !to.IsValid() || routed(to) || !routed(elsewhere(to)) {
			return Firewall, true
		}
	case syscall.EAFNOSUPPORT:
		return unrouted(to), true
	case syscall.ENETUNREACH:
		if to.IsValid() && !routed(to) {
			return unrouted(to), true
		}
	case syscall.EHOSTUNREACH, syscall.EINVAL: // there is a route, "unreachable" or "blackhole"
		if to.IsValid() && !routed(to) && !routed(elsewhere(to)) {
			return unrouted(to), true
		}
	}
	return "", false
}

func remote(e *net.OpError) (netip.Addr, bool) {
	switch a := e.Addr.(type) {
	case *net.TCPAddr:
		return a.AddrPort().Addr().Unmap(), true
	case *net.UDPAddr:
		return a.AddrPort().Addr().Unmap(), true
	}
	return netip.Addr{}, false
}

// routed reports whether this machine knows where to send what is for an address.
func routed(to netip.Addr) bool {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 9)))
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// elsewhere is an address of the same kind that belongs to nobody (RFC 5737, RFC 3849).
func elsewhere(to netip.Addr) netip.Addr {
	if to.Is6() {
		return netip.MustParseAddr("2001:db8::1")
	}
	return netip.MustParseAddr("192.0.2.1")
}

func unrouted(to netip.Addr) string {
	if to.Is6() && routed(elsewhere(netip.IPv4Unspecified())) {
		return NoIPv6
	}
	return NoRoute
}
