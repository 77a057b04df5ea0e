package addrguard

import (
	"fmt"
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
		"168.63.129.16": "cloud service", "168.63.129.15": "", "168.63.129.17": "", "::ffff:168.63.129.16": "cloud service", "64:ff9b::a83f:8110": "cloud service",
		"2002:a83f:8110::1": "6to4", "2001:0:a83f:8110::1": "IETF protocol assignments", "::a83f:8110": "IPv4-compatible",
		"169.254.170.2": "link local", "100.100.100.200": "shared address space", "192.0.0.192": "IETF protocol assignments", "fd00:ec2::254": "unique local", "fd20:ce::254": "unique local",
		"161.25.255.255": "", "161.26.0.10": "cloud service", "161.27.0.0": "", "166.7.255.255": "", "166.8.0.0": "cloud service", "166.11.255.255": "cloud service", "166.12.0.0": "",
		"192.80.8.124": "cloud service", "199.36.153.3": "", "199.36.153.4": "cloud service", "199.36.153.11": "cloud service", "199.36.153.12": "",
		"2600:2d00:2:1000::1": "cloud service", "2600:2d00:2:20ff::1": "cloud service", "2600:2d00:2:2100::1": "",
	} {
		t.Run(addr, func(t *testing.T) {
			if got := Special(netip.MustParseAddr(addr)); got != want {
				t.Errorf("%s: %q, want %q", addr, got, want)
			}
		})
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
		t.Run(addr, func(t *testing.T) {
			if got, reason := g.Allowed(netip.MustParseAddr(addr)); got != want || got != (reason == "") {
				t.Errorf("%s: allowed %v, want %v", addr, got, want)
			}
		})
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
		t.Run(fmt.Sprint(port), func(t *testing.T) {
			if PortRefused(port) != want {
				t.Errorf("port %d: refused %v, want %v", port, !want, want)
			}
		})
	}
}

func TestOwn(t *testing.T) {
	own := netip.MustParseAddr("8.8.4.4")
	g := Guard{Own: []netip.Addr{own, netip.MustParseAddr("2a00::1")}}
	for addr, want := range map[string]string{
		"8.8.4.4": ThisMachine, "::ffff:8.8.4.4": ThisMachine, "64:ff9b::808:404": ThisMachine, "2a00::1": ThisMachine, "8.8.4.5": "", "2a00::2": "",
		"2002:808:404::1": "6to4", "127.0.0.1": "loopback",
	} {
		t.Run(addr, func(t *testing.T) {
			if ok, got := g.Allowed(netip.MustParseAddr(addr)); got != want || ok != (want == "") {
				t.Errorf("%s: %q, want %q", addr, got, want)
			}
		})
	}
	g.Allow = []netip.Prefix{netip.PrefixFrom(own, 32), netip.MustParsePrefix("168.63.129.16/32")}
	for _, addr := range []string{"8.8.4.4", "168.63.129.16"} {
		if ok, reason := g.Allowed(netip.MustParseAddr(addr)); !ok {
			t.Errorf("%s: %s, although it is allowed", addr, reason)
		}
	}
	found, err := Guard{}.WithOwn()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range found.Own {
		if ok, _ := found.Allowed(a); ok {
			t.Errorf("%v is this machine's, and is allowed", a)
		}
	}
}

func TestNetwork(t *testing.T) {
	for addr, want := range map[string]string{"127.3.4.5": "127.0.0.0/8", "192.168.7.1": "192.168.0.0/16", "::1": "::1/128", "8.8.8.8": "8.8.8.8/32"} {
		t.Run(addr, func(t *testing.T) {
			if got := Network(netip.MustParseAddr(addr)).String(); got != want {
				t.Errorf("network of %s: got %s, want %s", addr, got, want)
			}
		})
	}
}
