package addrguard

import (
	"net/netip"
	"slices"
	"testing"
)

func TestSpecial(t *testing.T) {
	for addr, want := range map[string]string{
		"1.1.1.1": "", "192.0.0.9": "", "192.0.0.8": "IETF protocol assignments",
		"0.0.0.0": "this network", "10.255.255.255": "private use", "11.0.0.0": "",
		"100.64.0.0": "shared address space", "100.128.0.0": "", "127.200.1.2": "loopback",
		"169.254.169.254": "link local", "172.15.255.255": "", "172.16.0.0": "private use", "172.31.255.255": "private use", "172.32.0.0": "",
		"198.19.255.255": "benchmarking", "198.20.0.0": "", "223.255.255.255": "", "224.0.0.1": "multicast", "255.255.255.255": "reserved",
		"::": "unspecified", "::1": "loopback", "::7f00:1": "IPv4-compatible",
		"::ffff:127.0.0.1": "loopback", "::ffff:8.8.8.8": "", "64:ff9b::a9fe:a9fe": "link local", "64:ff9b::808:808": "",
		"64:ff9b:1::1": "local-use NAT64", "2001:4860:4860::8888": "", "2001:db8::1": "documentation", "2001:0:1::": "IETF protocol assignments",
		"2001:20::1": "", "2002:7f00:1::": "6to4", "fd00::1": "unique local", "fe80::1%eth0": "link local", "ff02::1": "multicast",
		"::ffff:0:127.0.0.1": "not global unicast", "4000::1": "not global unicast", "64:ff9b:2::1": "not global unicast", "2620:4f:8000::1": "",
	} {
		if got := Special(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %q, want %q", addr, got, want)
		}
	}
	if Special(netip.Addr{}) == "" {
		t.Error("the invalid address is public")
	}
}

func TestAllow(t *testing.T) {
	g := Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("fd00::/16")}}
	for addr, want := range map[string]bool{
		"127.1.2.3": true, "::ffff:127.0.0.1": true, "10.0.0.1": false, "fd00::1": true, "fd01::1": false, "8.8.8.8": true,
		"64:ff9b::7f00:1": false, // NAT64 reaches another machine's loopback
	} {
		if got, reason := g.Allowed(netip.MustParseAddr(addr)); got != want || got != (reason == "") {
			t.Errorf("%s: allowed %v, want %v", addr, got, want)
		}
	}
	if ok, _ := (Guard{Allow: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}}).Allowed(netip.Addr{}); ok {
		t.Error("no address is allowed")
	}
}

func TestPorts(t *testing.T) {
	if !slices.IsSorted(ports) {
		t.Fatal("the table is not in order")
	}
	for port, want := range map[uint16]bool{0: true, 22: true, 25: true, 80: false, 443: false, 6000: true, 6667: true, 8080: false, 10080: true, 65535: false} {
		if PortRefused(port) != want {
			t.Errorf("port %d: refused %v, want %v", port, !want, want)
		}
	}
}
