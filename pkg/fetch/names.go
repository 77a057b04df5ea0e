package fetch

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"mercator/formats/record"
	"mercator/pkg/fetch/localfault"
)

// parseLiteral reads a host name that is an address. Names that cannot be one cost
// nothing.
func parseLiteral(name string) (a netip.Addr, ok bool) {
	if name == "" || strings.IndexByte(name, ':') < 0 && (name[len(name)-1] < '0' || name[len(name)-1] > '9') {
		return a, false
	}
	a, err := netip.ParseAddr(name)
	return a, err == nil
}

// choose gives the address for the host's next contact.
func (r *runner) choose(h *host, addrs []netip.Addr) netip.Addr {
	if len(addrs) == 1 {
		return addrs[0]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.s.reaches.next(h.name, addrs)
}

// addresses appends to room the host's addresses that may be contacted. outcome is not "" if there
// are none.
func (r *runner) addresses(ctx context.Context, h *host, row *record.URL, room []netip.Addr) (allowed []netip.Addr, outcome, detail string, err error) {
	addrs, outcome, detail, err := r.lookup(h, row, room)
	if err != nil || outcome != "" {
		return addrs, outcome, detail, err
	}
	if allowed = addrs; r.opt.Guard != nil {
		allowed = addrs[:0]
		for _, a := range addrs {
			refused, err := r.opt.Guard(a)
			switch {
			case err != nil:
				return nil, "", "", err
			case refused == "":
				allowed = append(allowed, a)
			case detail == "":
				detail = a.String() + " is refused: " + refused
			}
		}
		if len(allowed) == 0 {
			return nil, record.OutcomeAddress, detail, nil
		}
	}
	if c := r.s.claims; c != nil {
		r.mu.Lock()
		given := row != nil && h.dnsArchived // a URL asked again may be of a host without URLs in the batch
		r.mu.Unlock()
		if allowed = c.allowed(h.name, given, allowed); len(allowed) == 0 {
			return nil, record.OutcomeDeferred, ofAnotherShard, nil
		}
	}
	if len(h.unrouted) > 0 {
		allowed = slices.DeleteFunc(allowed, func(a netip.Addr) bool { return slices.Contains(h.unrouted, a) })
		if len(allowed) == 0 {
			return nil, record.OutcomeDeferred, h.noRoute, nil
		}
	}
	return allowed, "", "", nil
}

// addrsMax is how many addresses of a row count.
const addrsMax = 64

// lookup appends the host's addresses to room, each once: the row's until they expire, then the resolver's.
// If the resolver has none, expired ones are better than none.
// In a crawl of several shards the addresses of row do not expire.
// outcome is not "" if there are none. The error is errUnnamed if the resolver is to be asked.
func (r *runner) lookup(h *host, row *record.URL, room []netip.Addr) (addrs []netip.Addr, outcome, detail string, err error) {
	name := hostname(h.name)
	now := r.now()
	valid := now
	if r.s.claims != nil {
		valid = 0 // another address may be another shard's
	}
	switch literal, isLiteral := parseLiteral(name); {
	case isLiteral:
		return append(room, literal.Unmap()), "", "", nil
	case row != nil && localfault.Is(row.AddrError):
		return nil, record.OutcomeDeferred, row.AddrError, nil
	case row != nil && row.AddrError != "":
		return nil, record.OutcomeDNS, row.AddrError, nil
	case len(h.resolved) > 0 && h.expires > now && !given(row, valid):
		return append(room, h.resolved...), "", "", nil
	case given(row, valid), given(row, 0) && (h.nameError != "" || r.opt.Resolver == nil):
		for text := range strings.SplitSeq(row.Addr, ",") {
			a, err := netip.ParseAddr(text)
			if err != nil {
				return nil, record.OutcomeDNS, "not an address: " + text, nil
			}
			if a = a.Unmap(); !slices.Contains(room, a) && len(room) < addrsMax {
				room = append(room, a)
			}
		}
		return room, "", "", nil
	case r.opt.Resolver == nil:
		return nil, record.OutcomeDNS, "no address, and no resolver", nil
	case h.nameError != "" && h.expires > now && localfault.Is(h.nameError):
		return nil, record.OutcomeDeferred, h.nameError, nil
	case h.nameError != "" && h.expires > now:
		return nil, record.OutcomeDNS, h.nameError, nil
	}
	return nil, "", "", errUnnamed
}

// given reports whether a row carries addresses that are valid at a time; 0: at any.
func given(row *record.URL, now micros) bool {
	return row != nil && row.Addr != "" && (row.AddrExpires == 0 || int64(row.AddrExpires) > now || now == 0)
}

// lookups are the hosts that wait for a look-up of their names.
type lookups struct {
	unnamed   []*host // hosts that wait for a look-up
	naming    int     // goroutines that do
	namers    sync.WaitGroup
	namesTook micros          // sum of the times of all of them
	named     context.Context // ends when no host needs addresses any more
}

// errUnnamed: the host waits for its addresses, and nobody waits for the host.
var errUnnamed = errors.New("the name is to be looked up")

const (
	namingMax = 256         // names that are looked up at a time
	namedMin  = time.Second // least time for which an answer of the resolver is used
)

// name has the resolver asked for a host's addresses. A worker has the host, and gives it back.
func (r *runner) name(ctx context.Context, h *host) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reason != "" {
		return // it needs none
	}
	h.naming = true
	r.unnamed = append(r.unnamed, h)
	if r.naming < namingMax {
		r.naming++
		r.namers.Go(func() { r.nameAll(ctx) })
	}
}

// nameAll looks names up while there are any.
func (r *runner) nameAll(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.unnamed) > 0 && ctx.Err() == nil {
		h := r.unnamed[0]
		r.unnamed = r.unnamed[1:]
		begun := r.now()
		r.mu.Unlock()
		addrs, expires, failure := r.opt.Resolver.Resolve(ctx, hostname(h.name))
		r.mu.Lock()
		r.namesTook += r.now() - begun
		if ctx.Err() != nil || !h.naming {
			continue
		}
		now := r.now()
		h.naming, h.nameError, h.expires = false, "", max(expires.UnixMicro(), now+us(namedMin))
		switch {
		case (failure != "" || len(addrs) == 0) && len(h.resolved) > 0: // the addresses from before are used on
		case failure != "":
			h.nameError = failure
		case len(addrs) == 0:
			h.nameError = "no address"
		default:
			h.resolved = make([]netip.Addr, 0, len(addrs))
			for _, a := range addrs {
				if a = a.Unmap(); !slices.Contains(h.resolved, a) && len(h.resolved) < addrsMax {
					h.resolved = append(h.resolved, a)
				}
			}
		}
		r.s.schedule(h, now)
		r.stir()
	}
	r.naming--
}
