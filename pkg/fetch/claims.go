package fetch

import (
	"net/netip"
	"slices"
	"sync"

	"mercator/formats/record"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/folder/exchange"
	"mercator/pkg/folder/shard"
)

// claims say which hosts a shard may contact although the exchange gave it none of their URLs: those that a robots.txt
// redirects to. In each round a host has one shard that may (exchange.ContactOf). Another one claims the host, with one of its
// addresses, for its next round, and puts off the pages that wait; the claim stands beside the contact times that it saves. In that
// round all others put off their URLs of the host and of the address. If two shards claim either, the shard with the lower number has it.
type claims struct {
	owners *shard.Map
	own    int
	round  string

	mine  map[string]netip.Addr // by host: held in this round
	hosts map[string]bool       // claimed by other shards
	addrs map[netip.Addr]bool   // addresses claimed by other shards

	mu   sync.Mutex
	next map[string]netip.Addr // for the next round
}

// ofAnotherShard is why a host is not contacted.
const ofAnotherShard = "another shard may contact it in this round"

// addClaim takes in a claim that shard n made in the round before. Those of the own shard come first.
func (c *claims) addClaim(n int, host string, addr netip.Addr) {
	if n == c.own {
		c.mine[host] = addr
		return
	}
	c.hosts[host], c.addrs[addr] = true, true
	if n > c.own {
		return
	}
	for h, a := range c.mine {
		if h == host || a == addr {
			delete(c.mine, h)
		}
	}
}

// allowed returns the addresses of a host that this shard may contact. given: it has URLs of the host, and so these addresses
// are its own.
func (c *claims) allowed(host string, given bool, addrs []netip.Addr) []netip.Addr {
	if claimed, ok := c.mine[host]; ok && slices.Contains(addrs, claimed) {
		return []netip.Addr{claimed}
	}
	if given && c.hosts[host] {
		return nil
	}
	if given {
		return slices.DeleteFunc(addrs, func(a netip.Addr) bool { return c.addrs[a] })
	}
	texts := make([]string, len(addrs))
	for i, a := range addrs {
		texts[i] = a.String()
	}
	text := exchange.ContactOf(c.round, host, texts)
	chosen := addrs[slices.Index(texts, text)]
	if c.owners.OfAddress(text) == c.own && !c.hosts[host] && !c.addrs[chosen] {
		return []netip.Addr{chosen}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next[host] = chosen
	return nil
}

// rows are the claims for the next round.
func (c *claims) rows() (rows []record.Module) {
	for host, addr := range c.next {
		rows = append(rows, record.Module{Key: fingerprint.OfString(host), Module: moduleClaim, Name: host, Value: addr.String()})
	}
	return rows
}
