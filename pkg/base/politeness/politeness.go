// Package politeness says how long a host is left alone after a contact, by a crawl's
// own rules. Package fetch keeps them, and plans of package frontier foresee what it does.
package politeness

import "time"

// Rules are a crawl's own for a host; what servers ask for comes on top.
type Rules struct {
	MinDelay    time.Duration // least gap after a contact
	DelayFactor float64       // gap as a multiple of the contact's duration, if that is longer
	MaxDelay    time.Duration // longest gap of our own making

	HostConnections int     // connections at a time to a host of one's own; each keeps the gaps. 0: 1
	Window          *Window // when contacts begin; nil: at any time
	NoRobots        bool    // robots.txt is asked for, and does not count: a person's own host
}

// Policy is which hosts have which rules.
type Policy struct {
	Rules                                    // of all hosts
	Hosts        func(host string, r *Rules) // sets the rules of a host; nil: all hosts have the same
	HostsLongest time.Duration               // the longest gap that Hosts gives any
}

// Of are the rules of a host.
func (p *Policy) Of(host string) Rules {
	r := p.Rules
	if p.Hosts != nil {
		p.Hosts(host, &r)
	}
	return r
}

// Unknown is the gap after a contact that nothing is known of.
func (p *Policy) Unknown() time.Duration { return max(p.Longest(), p.HostsLongest) }

// After is the gap that is left after a contact of that duration, both in microseconds.
func (r Rules) After(contact int64) int64 {
	d := max(r.MinDelay.Microseconds(), int64(r.DelayFactor*float64(contact)))
	return min(d, max(r.MaxDelay, r.MinDelay).Microseconds())
}

// Longest is the longest gap that is left after a contact of any duration.
func (r Rules) Longest() time.Duration {
	if r.DelayFactor == 0 {
		return r.MinDelay
	}
	return max(r.MinDelay, r.MaxDelay)
}

// Default are the rules of a crawl that says nothing.
var Default = Rules{MinDelay: time.Second, DelayFactor: 10, MaxDelay: 30 * time.Second}

// LongestGap is the longest gap that is waited for within a batch: who asks for more is
// left alone until a later one.
const LongestGap = 5 * time.Minute

// LongestWait is the longest wait that a server is granted by default: who asks for more
// (Crawl-delay, Retry-After) is parked.
const LongestWait = 24 * time.Hour

// KeepRobots is how long the rules of a robots.txt hold before it is asked for again (RFC 9309
// section 2.4).
const KeepRobots = 24 * time.Hour
