package fetch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mercator/formats/record"
)

// Progress is a line of "mfetch --progress json": how a batch stands.
type Progress struct {
	Command     string           `json:"command"`     // "mfetch"
	Done        int64            `json:"done"`        // URLs that have their row
	Total       int64            `json:"total"`       // URLs of the batch, as far as it was read
	Outcomes    map[string]int64 `json:"outcomes"`    // outcomes of the URLs in Done
	Robots      int64            `json:"robots"`      // contacts for a robots.txt
	Bytes       int64            `json:"bytes"`       // received
	Connections int              `json:"connections"` // in use
	Hosts       int              `json:"hosts"`       // with URLs left
	Waits       []Holding        `json:"waits,omitempty"`
	Bound       float64          `json:"bound_by_politeness_s"` // time in which a connection was free, but no host with URLs left might be contacted yet
	Names       float64          `json:"names_s,omitempty"`     // sum of the times of name look-ups by mfetch itself
	Held        time.Time        `json:"held_until,omitzero"`   // after an unclean stop no host is contacted before this time
	Earlier     int64            `json:"earlier,omitempty"`     // replies to earlier attempts at the batch
	Elapsed     float64          `json:"elapsed_s"`
}

// Add takes in how the part of another shard stands.
func (p *Progress) Add(q Progress) {
	outcomes := maps.Clone(p.Outcomes)
	if outcomes == nil {
		outcomes = map[string]int64{}
	}
	for name, n := range q.Outcomes {
		outcomes[name] += n
	}
	p.Command, p.Outcomes = q.Command, outcomes
	p.Done, p.Total, p.Robots, p.Bytes = p.Done+q.Done, p.Total+q.Total, p.Robots+q.Robots, p.Bytes+q.Bytes
	p.Connections, p.Hosts = p.Connections+q.Connections, p.Hosts+q.Hosts
	p.Bound, p.Elapsed = max(p.Bound, q.Bound), max(p.Elapsed, q.Elapsed)
	p.Names, p.Earlier = p.Names+q.Names, p.Earlier+q.Earlier
	if q.Held.After(p.Held) {
		p.Held = q.Held
	}
	p.Waits = append(slices.Clone(p.Waits), q.Waits...)
	slices.SortStableFunc(p.Waits, func(a, b Holding) int { return cmp.Compare(b.End, a.End) })
	p.Waits = p.Waits[:min(len(p.Waits), longest)]
}

// Replies is how many of the URLs that are done were answered.
func (p *Progress) Replies() int64 {
	return p.Outcomes[record.OutcomeFetched] + p.Outcomes[record.OutcomeNotModified]
}

// String is the line for people.
func (p *Progress) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d URLs, %.1f/s, %d replies, %.1f MB", p.Done, p.Total, float64(p.Done)/max(p.Elapsed, 1e-6), p.Replies(), float64(p.Bytes)/1e6)
	for _, name := range slices.Sorted(maps.Keys(p.Outcomes)) {
		if name != record.OutcomeFetched && name != record.OutcomeNotModified {
			fmt.Fprintf(&b, ", %s %d", name, p.Outcomes[name])
		}
	}
	fmt.Fprintf(&b, "; %d connections, %d hosts", p.Connections, p.Hosts)
	if len(p.Waits) > 0 {
		w := p.Waits[0]
		fmt.Fprintf(&b, "; longest %s: %d left, one each %v, %v", w.Host, w.Left, span(w.Gap), span(w.End))
	}
	return b.String()
}

// span is a time in seconds as a reader wants it.
func span(s float64) time.Duration {
	d := time.Duration(s * float64(time.Second))
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}
