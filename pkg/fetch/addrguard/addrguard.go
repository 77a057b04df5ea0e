// Package addrguard keeps a crawler away from addresses that are not part of the
// public Internet, and from ports that are not for the web.
//
// Addresses are judged after resolution and at every connection, so that neither
// a name nor a redirect leads a crawler to loopback, a private network or a
// cloud's metadata service. The tables are IANA's special-purpose registries for
// IPv4 and IPv6 (RFC 6890 and its updates) with multicast, and services that
// clouds offer to their own machines at addresses that IANA has as public; ports are
// those that browsers refuse (WHATWG Fetch, "bad port").
//
// Addresses in IPv6 that stand for an IPv4 address are judged by it where that is known
// (mapped, the NAT64 prefix 64:ff9b::/96), and refused where it is not sure who answers (6to4, Teredo).
// A NAT64 prefix of one network (RFC 6052) is not known here.
package addrguard

import (
	"net"
	"net/netip"
	"slices"

	"mercator/pkg/base/fault"
)

// Guard judges addresses. The zero Guard refuses every special-purpose range.
type Guard struct {
	Allow []netip.Prefix // ranges that are contacted although they are special-purpose, or this machine's
	Own   []netip.Addr   // this machine's addresses, public ones too: at these it would reach its own services
}

// ThisMachine is the name of a range of one address: one of Guard.Own.
const ThisMachine = "this machine"

// WithOwn is the guard that refuses also the addresses of this machine's interfaces. It depends on the machine, so what several
// machines must agree on is judged without. An address that a router translates to this machine's is not known here.
func (g Guard) WithOwn() (Guard, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return g, err
	}
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			g.Own = append(g.Own, p.Addr().WithZone("").Unmap())
		}
	}
	return g, nil
}

// New is the Guard that allows these networks, which are written as CIDR.
func New(allow []string) (g Guard, err error) {
	for _, s := range allow {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return g, &fault.Error{Class: fault.Usage, Place: "--allow-net", Found: s, Want: "a network such as 127.0.0.0/8"}
		}
		g.Allow = append(g.Allow, p)
	}
	return g, nil
}

// Network is the special-purpose network of an address, such as 127.0.0.0/8; for an address in none, the network of that address alone.
func Network(addr netip.Addr) netip.Prefix {
	for _, r := range specials {
		if r.prefix.Contains(addr) {
			return r.prefix
		}
	}
	return netip.PrefixFrom(addr, addr.BitLen())
}

type special struct {
	prefix netip.Prefix
	name   string
}

func table(rows ...string) []special {
	var all []special
	for i := 0; i < len(rows); i += 2 {
		all = append(all, special{netip.MustParsePrefix(rows[i]), rows[i+1]})
	}
	return all
}

// global lists ranges inside special ones that are globally reachable.
var global = table(
	"192.0.0.9/32", "port control protocol anycast",
	"192.0.0.10/32", "TURN anycast",
	"2001:1::1/128", "port control protocol anycast",
	"2001:1::2/128", "TURN anycast",
	"2001:1::3/128", "DNS-SD anycast",
	"2001:3::/32", "AMT",
	"2001:4:112::/48", "AS112-v6",
	"2001:20::/28", "ORCHIDv2",
	"2001:30::/28", "drone remote ids",
)

// cloud names services that a cloud offers to the machines in it alone, at addresses outside of IANA's tables. Those inside (169.254.169.254,
// 100.100.100.200, 192.0.0.192, fd00:ec2::254) are refused as these.
const cloud = "cloud service"

var specials = table(
	"0.0.0.0/8", "this network",
	"10.0.0.0/8", "private use",
	"100.64.0.0/10", "shared address space",
	"127.0.0.0/8", "loopback",
	"161.26.0.0/16", cloud, // IBM: infrastructure services
	"166.8.0.0/14", cloud, // IBM: service endpoints
	"168.63.129.16/32", cloud, // Azure: host service
	"169.254.0.0/16", "link local",
	"172.16.0.0/12", "private use",
	"192.0.0.0/24", "IETF protocol assignments",
	"192.0.2.0/24", "documentation",
	"192.80.8.124/32", cloud, // Equinix: metadata
	"192.88.99.0/24", "6to4 relay anycast",
	"192.168.0.0/16", "private use",
	"198.18.0.0/15", "benchmarking",
	"199.36.153.4/30", cloud, // Google: restricted and
	"199.36.153.8/30", cloud, // private access to its services
	"198.51.100.0/24", "documentation",
	"203.0.113.0/24", "documentation",
	"224.0.0.0/4", "multicast",
	"240.0.0.0/4", "reserved",
	"::/128", "unspecified",
	"::1/128", "loopback",
	"::/96", "IPv4-compatible",
	"64:ff9b:1::/48", "local-use NAT64",
	"100::/64", "discard only",
	"100:0:0:1::/64", "dummy prefix",
	"2001::/23", "IETF protocol assignments",
	"2001:db8::/32", "documentation",
	"2002::/16", "6to4",
	"2600:2d00:2:1000::/56", cloud, // Google: as above
	"2600:2d00:2:2000::/56", cloud,
	"3fff::/20", "documentation",
	"5f00::/16", "segment routing",
	"fc00::/7", "unique local",
	"fe80::/10", "link local",
	"fec0::/10", "site local",
	"ff00::/8", "multicast",
)

// nat64 is the well-known prefix of IPv6 addresses that hold an IPv4 address in their last 32 bits (RFC 6052).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// unicast6 is all of IPv6 that has been given out (RFC 4291 section 2.4).
var unicast6 = netip.MustParsePrefix("2000::/3")

// Special names the special-purpose range that addr lies in, or returns "" for a
// public address. IPv4-mapped and NAT64 addresses are judged by the IPv4 address
// in them. The invalid address is "no address".
func Special(addr netip.Addr) string {
	if !addr.IsValid() {
		return "no address"
	}
	addr = meant(addr)
	for _, s := range global {
		if s.prefix.Contains(addr) {
			return ""
		}
	}
	for _, s := range specials {
		if s.prefix.Contains(addr) {
			return s.name
		}
	}
	if addr.Is6() && !unicast6.Contains(addr) {
		return "not global unicast"
	}
	return ""
}

// meant is the IPv4 address that an address of IPv6 stands for, or addr.
func meant(addr netip.Addr) netip.Addr {
	addr = addr.WithZone("").Unmap()
	if nat64.Contains(addr) {
		b := addr.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return addr
}

// Allowed reports whether addr may be contacted, and if not, names the range for
// which it is refused.
func (g Guard) Allowed(addr netip.Addr) (ok bool, reason string) {
	name := Special(addr)
	if name == "" && slices.Contains(g.Own, meant(addr)) {
		name = ThisMachine
	}
	if name == "" || !addr.IsValid() {
		return name == "", name
	}
	for _, p := range g.Allow {
		if p.Contains(addr.WithZone("")) || p.Contains(addr.WithZone("").Unmap()) {
			return true, ""
		}
	}
	return false, name
}

// ports in ascending order: WHATWG Fetch, section 2.9.
var ports = []uint16{0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95,
	101, 102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465,
	512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995,
	1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080}

// PortRefused reports whether browsers refuse to fetch http and https URLs from port.
func PortRefused(port uint16) bool {
	_, found := slices.BinarySearch(ports, port)
	return found
}
