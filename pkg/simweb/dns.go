package simweb

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// Answer is the answer of the web's name service for a name.
type Answer struct {
	Rcode int          // dns.RcodeSuccess, RcodeNameError or RcodeServerFailure
	Alias string       // the name that the asked one is an alias of, lower case, without a final dot; or empty
	Addr  netip.Addr   // IPv4; invalid if there is none
	Dead  []netip.Addr // further ones, all before it or behind, where nobody serves
	First bool         // Addr stands before those
}

// String is the address and alias, or the name of the error.
func (a Answer) String() string {
	if a.Rcode != dns.RcodeSuccess {
		return dns.RcodeToString[a.Rcode]
	}
	s := ""
	for _, addr := range a.all() {
		s += " " + addr.String()
	}
	if a.Alias != "" {
		s += " (" + a.Alias + ")"
	}
	return strings.TrimPrefix(s, " ")
}

// all are the addresses, in their order.
func (a Answer) all() []netip.Addr {
	switch {
	case !a.Addr.IsValid():
		return nil
	case a.First:
		return append([]netip.Addr{a.Addr}, a.Dead...)
	}
	return append(slices.Clip(a.Dead), a.Addr)
}

// edge is the name of a content network's server, under which no site answers.
const edge = "edge.cdn.test"

// Lookup answers for a name, in any case, with or without a final dot. A
// host's address is its own in 127.0.0.0/8; with Config.Rough some have others that are dead.
//
// Of each ten hosts one is an alias of a name under which nothing answers. With Config.Aliases that name is of another domain, and the same
// for all of these hosts, which have one address too: name-based virtual hosts. The name of a mirror is then an alias of the host that it mirrors.
func (w *Web) Lookup(name string) Answer {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if strings.HasPrefix(name, unresolved[1]) && strings.HasSuffix(name, Suffix) {
		return Answer{Rcode: dns.RcodeServerFailure}
	}
	if w.Aliases && name == edge {
		return Answer{Addr: HostAddr(posAlias)}
	}
	target, isTarget := strings.CutPrefix(name, "real.")
	host, ok := w.parseHost(target)
	alias := ok && position(host) == posAlias
	switch {
	case !ok || strings.Contains(name, ":") || isTarget && !alias:
		return Answer{Rcode: dns.RcodeNameError}
	case w.Aliases && alias && !isTarget:
		return Answer{Alias: edge, Addr: HostAddr(posAlias)}
	case w.Aliases && position(host) == posMirror:
		of := resource{host: origin(host)}
		return Answer{Alias: string(w.appendHost(nil, of)), Addr: HostAddr(int(of.host))}
	case alias && !isTarget:
		return Answer{Alias: "real." + name, Addr: HostAddr(int(host))}
	}
	a := Answer{Addr: HostAddr(int(host))}
	if w.Rough && position(host) == posMany {
		a.Dead, a.First = deadAddrs, host/blockSize%2 == 1
	}
	return a
}

// HostAddr is the loopback address of host h: 127.1.0.1 for host 0, and so on,
// with neither 0 nor 255 as last byte.
func HostAddr(h int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, byte(1 + h/254/256), byte(h / 254), byte(1 + h%254)})
}
