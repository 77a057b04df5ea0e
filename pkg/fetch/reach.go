package fetch

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/fingerprint"
)

// A host may have several addresses, and some of them dead. A visit to a host, for one URL or one robots.txt, tries
// them in turn until one serves. It promises what RFC 8305 does: a dead address costs a bounded time, and a live one is
// found. But it tries one at a time, as a host has one connection at most.
//
//   - An address does not serve where no connection comes about, TLS included, or where the server closes it before the first
//     byte of a reply.
//   - A visit tries triesMax addresses at most, each once. While another one is left to try, connecting ends
//     after HurryTime.
//   - A connection that did not come about is no load for the host: its next address is tried at once. One that
//     stood was a contact: the host's gap follows. Between two tries at one address the address delay lies, whatever came of them.
//   - A visit gives one row, for its last try. If no address served, it is one attempt of the URL, and one failure
//     of the host.
//   - A visit begins at the address that served last, or behind the last one that did not. What is behind an
//     address is the next larger one, and behind the largest the smallest, in whatever order the resolver has them.
//     Without knowledge it begins at the resolver's first.
//   - A visit that the end of a batch cut goes on in the next one, where it was. So no URL is deferred for ever: each
//     batch tries one more.

// triesMax is how many addresses a visit tries, at most: as many as the resolver keeps.
const triesMax = 32

// HurryTime is how long connecting may take, a handshake of TLS included, while the host has another address to try.
const HurryTime = 3 * time.Second

// reach records which of a host's addresses served last.
type reach struct {
	addr   netip.Addr // address tried last
	tried  int        // addresses that the visit under way has tried in vain; 0: addr served; triesMax: the visit is over
	at     micros     // when that was learnt
	copied bool       // from the store of another shard, which keeps it
}

// Bounds of what is kept: how long, and of how many hosts.
const (
	keepReach  = micros(30 * 24 * time.Hour / time.Microsecond)
	reachesMax = 1 << 16
)

// reaches holds, by name, hosts with several addresses if at least one failed.
type reaches map[string]reach

// learn notes what is known of a host. With more than reachesMax hosts it keeps the half learnt last.
func (all reaches) learn(host string, r reach) {
	all[host] = r
	if len(all) <= reachesMax {
		return
	}
	var ages []micros
	for _, r := range all {
		ages = append(ages, r.at)
	}
	slices.Sort(ages)
	middle := ages[len(ages)/2]
	for name, r := range all {
		if r.at <= middle && name != host {
			delete(all, name)
		}
	}
}

// next returns the address that a visit to the host tries next. addrs must not be empty.
func (all reaches) next(host string, addrs []netip.Addr) netip.Addr {
	r, known := all[host]
	if !known {
		return addrs[0]
	}
	lowest, behind := addrs[0], netip.Addr{}
	for _, a := range addrs {
		if a.Less(lowest) {
			lowest = a
		}
		ahead := r.addr.Less(a) || r.addr == a && r.tried == 0
		if ahead && (!behind.IsValid() || a.Less(behind)) {
			behind = a
		}
	}
	if behind.IsValid() {
		return behind
	}
	return lowest
}

// left returns how many of a host's addresses a visit has left to try after the next one.
func (all reaches) left(host string, addrs int) int {
	limit, tried := min(addrs, triesMax), all[host].tried
	if tried >= limit {
		tried = 0 // no visit is under way
	}
	return limit - tried - 1
}

// miss notes that one of a host's addresses did not serve, and returns how many are left to try in this visit.
func (all reaches) miss(host string, addr netip.Addr, addrs int, now micros) (left int) {
	limit := min(addrs, triesMax)
	if r := all[host]; r.addr == addr && r.tried > 0 && r.tried < limit {
		return all.left(host, addrs) + 1 // another connection of the host has noted it
	}
	left = all.left(host, addrs)
	r := reach{addr: addr, tried: limit - left, at: now}
	if left == 0 {
		r.tried = triesMax
	}
	all.learn(host, r)
	return left
}

// skip makes the next try begin after an address, without counting a try.
func (all reaches) skip(host string, addr netip.Addr, now micros) {
	tried := all[host].tried
	if tried == 0 {
		tried = triesMax // else the address would be one that served
	}
	all.learn(host, reach{addr: addr, tried: tried, at: now})
}

// serve notes that an address served, where one of the host's did not before.
func (all reaches) serve(host string, addr netip.Addr, now micros) {
	if _, known := all[host]; known {
		all[host] = reach{addr: addr, at: now}
	}
}

// rows returns the reaches that this store keeps, in order.
func (all reaches) rows() []record.Module {
	var rows []record.Module
	for host, r := range all {
		if !r.copied {
			rows = append(rows, record.Module{Key: fingerprint.OfString(host), Module: moduleReach, Name: host, Value: fmt.Sprintf("%d %s %d", r.at, r.addr, r.tried)})
		}
	}
	slices.SortFunc(rows, func(a, b record.Module) int { return compareContacts(&a, &b) })
	return rows
}

// load takes in the value of a row; copied: of another shard's store. What was learnt last holds.
func (all reaches) load(host, value string, copied bool, now micros) error {
	fields := strings.Split(value, " ")
	var at, tried uint64
	var addr netip.Addr
	var err1, err2, err3 error
	if len(fields) == 3 {
		at, err1 = strconv.ParseUint(fields[0], 10, 63)
		addr, err2 = netip.ParseAddr(fields[1])
		tried, err3 = strconv.ParseUint(fields[2], 10, 8)
	}
	if err := cmp.Or(err1, err2, err3); err != nil || len(fields) != 3 || tried > triesMax {
		return badRow(clean(value), fmt.Sprintf("a number of microseconds, an IP address and a number up to %d", triesMax))
	}
	r := reach{addr: addr, tried: int(tried), at: min(micros(at), now), copied: copied}
	if known, ok := all[host]; r.at > now-keepReach && (!ok || r.at > known.at) && (ok || len(all) < reachesMax) {
		all[host] = r
	}
	return nil
}

// hurryKey marks the context of a contact with a host that has another address to try.
type hurryKey struct{}

// ConnectTime is how long connecting may take in a contact, a handshake of TLS included.
func (l *Limits) ConnectTime(ctx context.Context) time.Duration {
	limit := cmp.Or(l.ConnectTimeout, DefaultConnectTimeout)
	if ctx.Value(hurryKey{}) != nil {
		limit = min(limit, HurryTime)
	}
	return limit
}
