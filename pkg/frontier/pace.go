package frontier

import (
	"fmt"
	"math"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/politeness"
)

// Politeness is the politeness that mfetch keeps between contacts, by its flags.
type Politeness struct {
	politeness.Policy
	AddrDelay   time.Duration
	Connections int           // at least 1
	KeepRobots  time.Duration // for how long a robots.txt holds; 0: politeness.KeepRobots
	Duration    time.Duration // assumed of a contact with a host that was never contacted
}

// connections is how many contacts mfetch makes at a time with a host that has these rules.
func (p *Politeness) connections(own politeness.Rules) int {
	return max(1, min(own.HostConnections, p.Connections))
}

// DefaultPoliteness has the defaults of the flags of mfetch and mfrontier.
var DefaultPoliteness = Politeness{Policy: politeness.Policy{Rules: politeness.Default}, AddrDelay: 500 * time.Millisecond, Connections: 256, KeepRobots: politeness.KeepRobots, Duration: 500 * time.Millisecond}

const (
	maxConnections = 100_000
	maxFactor      = 1_000_000 // bounds the gaps, so that they stay numbers
)

// Check refuses what mfetch refuses, too.
func (p Politeness) Check() error {
	usage := func(found, want string) error { return &fault.Error{Class: fault.Usage, Found: found, Want: want} }
	if p.Duration > longest*time.Microsecond {
		return usage(fmt.Sprintf("contacts of %v", p.Duration), fmt.Sprintf("at most %v", longest*time.Microsecond))
	}
	for _, d := range []time.Duration{p.MinDelay, p.MaxDelay, p.AddrDelay, p.Duration} {
		if d < 0 {
			return usage(fmt.Sprintf("a delay of %v", d), "0s or more")
		}
	}
	switch {
	case !(p.DelayFactor >= 0 && p.DelayFactor <= maxFactor):
		return usage(fmt.Sprintf("a gap of %v times a contact", p.DelayFactor), fmt.Sprintf("0 to %d", maxFactor))
	case p.Connections < 1 || p.Connections > maxConnections:
		return usage(fmt.Sprintf("%d connections", p.Connections), fmt.Sprintf("1 to %d", maxConnections))
	}
	return nil
}

// normal are the middles of 16 parts of the standard normal distribution.
var normal = func() (z [16]float64) {
	for i := range z {
		z[i] = math.Sqrt2 * math.Erfinv((2*float64(i)+1)/float64(len(z))-1)
	}
	return z
}()

// meanDelay is the mean of the gaps that mfetch leaves by rules of its own after contacts of a mean duration and
// deviation, which are taken to be log-normal. The gap after the mean is another: the gaps have a least and a longest.
func meanDelay(own politeness.Rules, contact, spread time.Duration) (mean time.Duration) {
	delay := func(d time.Duration) time.Duration {
		return time.Duration(own.After(d.Microseconds())) * time.Microsecond
	}
	if contact == 0 || spread == 0 {
		return delay(contact)
	}
	square := math.Log1p(math.Pow(float64(spread)/float64(contact), 2))
	for _, z := range normal {
		d := float64(contact) * math.Exp(z*math.Sqrt(square)-square/2)
		mean += delay(time.Duration(min(d, float64(longest*time.Microsecond)))) / time.Duration(len(normal))
	}
	return mean
}

// pace is how a host is served: how long a contact takes, the gap after it, and the
// time from the batch's begin to the first contact.
type pace struct {
	contact, gap, wait time.Duration
	over               uint64      // connections, each with these contacts and gaps; 0: one
	opens              record.Time // when its window does; 0: it is open
}

// pace is how a host is to be served in a batch that begins at now; 0: at any time.
func (p *Politeness) pace(h *Host, now record.Time) pace {
	out, spread := pace{contact: p.Duration}, time.Duration(0)
	if h.Contacts > 0 {
		out.contact = time.Duration(min(h.DurationUS, longest)) * time.Microsecond
		spread = time.Duration(min(h.SpreadUS, longest)) * time.Microsecond
	}
	own := p.Of(h.Host)
	out.gap = meanDelay(own, out.contact, spread)
	// Before, it may have been longer: Crawl-delay, Retry-After.
	out.gap = max(out.gap, min(time.Duration(min(h.DelayUS, longest))*time.Microsecond, politeness.LongestGap))
	if n := p.connections(own); n > 1 && time.Duration(min(h.DelayUS, longest))*time.Microsecond <= own.Longest() { // else the server asked for a wait
		out.over = uint64(n)
	} else if h.Addr != "" {
		out.gap = max(out.gap, p.AddrDelay) // its own contacts are with that address too
	}
	if now > 0 {
		until := h.ParkedUntil // as a server asked for, too (Retry-After)
		if h.Contacts > 0 {
			until = max(until, min(h.LastContact, now)+record.Time(out.gap.Microseconds()))
		}
		until = max(until, now)
		if own.Window != nil {
			if opens := record.TimeOf(own.Window.Opens(until.Go())); opens > until {
				until, out.opens = opens, opens
			}
		}
		out.wait = times(uint64(until-now), time.Microsecond)
	}
	return out
}

// each is how many of n contacts each connection makes, at most.
func (p pace) each(n uint64) uint64 {
	over := max(p.over, 1)
	return n/over + min(n%over, 1)
}

// took is how long n contacts take, from the batch's begin.
func (p pace) took(n uint64) time.Duration {
	n = p.each(n)
	if n == 0 {
		return p.wait
	}
	return later(p.wait, later(times(n, p.contact), times(n-1, p.gap)))
}

// latest is when the first of n contacts with a host must begin, so that all have
// ended after a time.
func (p pace) latest(n int, end time.Duration) time.Duration {
	return max(end-times(p.each(uint64(n)), later(p.contact, p.gap)), 0)
}

// times is n times d, or the longest duration there is.
func times(n uint64, d time.Duration) time.Duration {
	if d > 0 && n > uint64(math.MaxInt64/d) {
		return math.MaxInt64
	}
	return time.Duration(n) * d
}

// later is a sum of durations, none of them negative: the longest there is, if it is longer.
func later(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
