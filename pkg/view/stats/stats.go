// Package stats counts what the record files of a crawl say: the statistics that Heydon and Najork (1999, section 5) and
// Najork and Heydon (SRC-RR-173, 2001, section 5) publish of their crawls, by status, media type, size, server and time.
//
// # Invariants
//
//   - Rows of role page are counted, and of those only the ones that are an attempt: deferred and parked URLs are not.
//   - Memory is bounded: tables of names have a limit each, beyond which names are counted as Other; hosts and the
//     history of pages are sorted in temporary files.
//   - The same rows in the same order give the same statistics.
package stats

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mercator/formats/record"
)

// Limits of the tables.
const (
	maxNames = 1000  // distinct media types, and top-level domains
	maxText  = 100   // bytes of a media type
	maxHosts = 16384 // hosts in memory before they are sorted in a file
	TopHosts = 1000  // hosts that Stats lists by pages
	TopWorst = 100   // hosts that Stats lists by errors, and by duration
	maxSlots = 240   // of the timeline
)

// Other is the name that counts what has no place in a table.
const Other = "(other)"

// Stats are the statistics of a crawl. Times are RFC 3339 in UTC.
type Stats struct {
	First string `json:"first,omitempty"` // start of the first attempt
	Last  string `json:"last,omitempty"`  // end of the last one

	Attempts  uint64         `json:"attempts"`        // to fetch a page
	Robots    uint64         `json:"robots_contacts"` // for a robots.txt
	Outcomes  []record.Count `json:"outcomes"`        // of attempts, the most frequent first
	Statuses  []record.Count `json:"statuses"`        // of replies, likewise
	Documents uint64         `json:"documents"`       // replies with status 200 to 299
	Bytes     int64          `json:"bytes"`           // of their decoded bodies
	Truncated uint64         `json:"truncated"`       // of the documents

	Duplicates     uint64 `json:"duplicates"` // documents with content that another URL had before
	DuplicateBytes int64  `json:"duplicate_bytes"`

	Types     []Type   `json:"types"`        // of the documents, the most frequent first
	Sizes     []Bin    `json:"sizes"`        // of the documents: decoded bytes, in powers of two
	Durations []Bin    `json:"durations_us"` // of contacts: microseconds, in powers of two
	Depths    []Bin    `json:"depths"`       // of the documents: links from a seed
	Domains   []Domain `json:"domains"`      // top-level domains, the one with most servers first

	Servers uint64 `json:"servers"`    // hosts that replied
	Hosts   uint64 `json:"hosts"`      // with a page that was asked for, or could not be
	Largest []Host `json:"host_table"` // hosts by documents, the 1,000 largest
	Failing []Host `json:"failing"`    // hosts by errors, the first 100
	Slowest []Host `json:"slowest"`    // hosts with three replies or more, by the mean duration of a contact, the first 100

	Timeline []Slot   `json:"timeline"`          // equal spans of time from first to last
	SlotS    float64  `json:"timeline_slot_s"`   // their length in seconds
	Growth   []Growth `json:"growth"`            // by checkpoint
	Changes  *Changes `json:"changes,omitempty"` // nil: no page was fetched twice
	Times    *Times   `json:"times,omitempty"`   // nil: of no round
	Focus    *Focus   `json:"focus,omitempty"`   // nil: the crawl is not focused
}

// Type is a media type.
type Type struct {
	Name      string `json:"type"` // without parameters; "" if the server sent none
	Documents uint64 `json:"documents"`
	Bytes     int64  `json:"bytes"`
}

// Bin counts values from From to To, inclusive.
type Bin struct {
	From int64  `json:"from"`
	To   int64  `json:"to"`
	N    uint64 `json:"n"`
}

// Domain is a top-level domain, "(address)" for hosts that are IP addresses, "(none)" for names without a dot.
type Domain struct {
	Name      string `json:"domain"`
	Servers   uint64 `json:"servers"` // servers that replied
	Documents uint64 `json:"documents"`
	Bytes     int64  `json:"bytes"`
}

// Slot is a span of the timeline.
type Slot struct {
	Start   string `json:"start"`
	Replies uint64 `json:"replies"`
	Errors  uint64 `json:"errors"` // attempts without a reply
	Bytes   int64  `json:"bytes"`
}

// Growth is the size of the URL space when a checkpoint was made.
type Growth struct {
	Checkpoint uint64 `json:"checkpoint"`
	Round      string `json:"round"`
	Made       string `json:"made"`
	Known      uint64 `json:"known"` // URLs that the URL-seen test let through
	Taken      uint64 `json:"taken"` // into batches, each as often as it was
}

// Collector takes the rows of a crawl in the order of its rounds.
type Collector struct {
	s         Stats
	outcomes  map[string]uint64
	statuses  map[string]uint64
	types     *table
	domains   *table
	sizes     bins
	durations bins
	depths    map[int64]uint64
	times     timeline
	hosts     hosts
	first     record.Time
	last      record.Time
	rounds    rounds
	again     bool // a page was fetched twice

	// Topic, where it is set, says which topic a document is about, and whether it is relevant.
	Topic func(r *record.Fetch) (topic string, relevant bool)
}

// New returns a Collector that takes about mem bytes for what it sorts.
func New(mem int64) *Collector {
	return &Collector{outcomes: map[string]uint64{}, statuses: map[string]uint64{}, types: newTable(), domains: newTable(),
		depths: map[int64]uint64{}, times: newTimeline(), hosts: newHosts(mem), rounds: newRounds()}
}

// Again reports whether any page was fetched twice: then Stats.Changes need the rows once more.
func (c *Collector) Again() bool { return c.again }

// replied reports whether the row has a reply of the server.
func replied(r *record.Fetch) bool {
	return r.Outcome == record.OutcomeFetched || r.Outcome == record.OutcomeNotModified
}

// document reports whether the row has a document.
func document(r *record.Fetch) bool {
	return r.Outcome == record.OutcomeFetched && r.Status >= 200 && r.Status < 300
}

// failed reports whether the row is an attempt that a server or the network let fail.
func failed(r *record.Fetch) bool {
	switch r.Outcome {
	case record.OutcomeRobotsDenied, record.OutcomeAddress, record.OutcomeDenied, record.OutcomeScheme, record.OutcomePort:
		return false
	}
	return !replied(r) || r.Status >= 500
}

// Add counts a row. Its strings are not kept.
func (c *Collector) Add(r *record.Fetch) error {
	c.rounds.contacts += float64(r.DurationUS) / 1e6
	if r.Role == record.RoleRobots {
		c.s.Robots++
		return nil
	}
	if !r.OfPage() || r.Outcome == record.OutcomeDeferred || r.Outcome == record.OutcomeParked {
		return nil
	}
	c.s.Attempts++
	c.outcomes[r.Outcome]++
	doc := document(r)
	end := r.FetchTime + record.Time(r.DurationUS)
	if r.FetchTime > 0 {
		if c.first == 0 || r.FetchTime < c.first {
			c.first = r.FetchTime
		}
		c.last = max(c.last, end)
		c.times.addContact(r.FetchTime, replied(r), r.BodyLength)
	}
	if replied(r) {
		c.statuses[statusText(r.Status)]++
		c.durations.add(r.DurationUS)
		c.again = c.again || r.LastContentFP != 0 || r.Outcome == record.OutcomeNotModified
	}
	if doc {
		c.s.Documents++
		c.s.Bytes += r.BodyLength
		if r.Truncated != "" {
			c.s.Truncated++
		}
		if r.Duplicate {
			c.s.Duplicates++
			c.s.DuplicateBytes += r.BodyLength
		}
		t := c.types.at(r.MIME)
		t.documents++
		t.bytes += r.BodyLength
		d := c.domains.at(topLevel(r.Host))
		d.documents++
		d.bytes += r.BodyLength
		c.sizes.add(r.BodyLength)
		c.depths[int64(r.Depth)]++
		if c.Topic != nil {
			c.rounds.focused = true
			c.rounds.yield.Fetched++
			if topic, relevant := c.Topic(r); relevant {
				c.rounds.yield.Relevant++
				c.rounds.topics.at(topic).documents++
			}
		}
	}
	return c.hosts.addRow(r)
}

func statusText(status uint16) string {
	return fmt.Sprintf("%03d", status)
}

// End gives the statistics, and ends the Collector. added is the error of adding.
func (c *Collector) End(added error) (*Stats, error) {
	s := &c.s
	err := c.hosts.eachHost(added, func(h *Host) {
		s.Hosts++
		if h.Replies > 0 {
			s.Servers++
			c.domains.at(topLevel(h.Name)).servers++
		}
		c.hosts.rank(h)
	})
	if err != nil {
		return nil, err
	}
	s.Largest, s.Failing, s.Slowest = c.hosts.largest.rows(), c.hosts.failing.rows(), c.hosts.slowest.rows()
	s.First, s.Last = timeText(c.first), timeText(c.last)
	s.Outcomes, s.Statuses = Counts(c.outcomes), Counts(c.statuses)
	for _, n := range c.types.list(func(g *group) uint64 { return g.documents }) {
		s.Types = append(s.Types, Type{n.name, n.documents, n.bytes})
	}
	for _, n := range c.domains.list(func(g *group) uint64 { return g.servers }) {
		s.Domains = append(s.Domains, Domain{n.name, n.servers, n.documents, n.bytes})
	}
	s.Sizes, s.Durations = c.sizes.list(), c.durations.list()
	for depth, n := range c.depths {
		s.Depths = append(s.Depths, Bin{depth, depth, n})
	}
	slices.SortFunc(s.Depths, func(a, b Bin) int { return cmp.Compare(a.From, b.From) })
	s.Timeline, s.SlotS = c.times.list()
	if c.rounds.result(s); s.Times != nil {
		s.Times.SpanS = float64(c.last-c.first) / 1e6
	}
	return s, nil
}

// timeText is a time as text; "" for none.
func timeText(t record.Time) string {
	if t == 0 {
		return ""
	}
	return t.Go().Format("2006-01-02T15:04:05.000Z")
}

// Counts lists counts that are not 0, the largest first.
func Counts(m map[string]uint64) []record.Count {
	list := []record.Count{}
	for reason, n := range m {
		if n > 0 {
			list = append(list, record.Count{Reason: reason, N: n})
		}
	}
	slices.SortFunc(list, func(a, b record.Count) int {
		return cmp.Or(cmp.Compare(b.N, a.N), strings.Compare(a.Reason, b.Reason))
	})
	return list
}
