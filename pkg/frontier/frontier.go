// Package frontier keeps the URLs that are still to be fetched: Mercator's URL
// frontier, on disk, as sorted runs.
//
// # A URL's life
//
// Add and Update put a URL at the end of its host's queue: it gets a place, v =
// max(V, last place of its host + 1), where V is the place that the last batch
// reached. So place p holds one URL of each host that has as many waiting: the
// frontier serves hosts in turn, and the 10^7 URLs of one host lie far back
// where nobody reads them (fair queueing by virtual time; Demers, Keshav and
// Shenker, 1989). Each front queue has its own places; 0 is served first.
//
// Next takes the lowest places as a batch, which then is in flight. Update reads
// one outcome for each URL in flight. It ends the URL, or puts it off (deferred:
// it goes back to its old place, ahead of the rest of its host), or queues it
// again for a later time (a failure that may pass, with back-off and a limit).
// What has a time waits in a queue by time and gets a place when Next finds it due.
//
// # What holds
//
//   - Every URL that went in has exactly one final outcome or is still there:
//     discovered = pending + in flight + finished.
//   - Within one host and priority, URLs come out in the order in which they went in.
//   - A round reads and writes what its batch needs, not what the frontier holds:
//     runs are read from where the last round stopped, hosts are found through the
//     runs' indexes, and runs are merged 24 at a time, so a URL is rewritten
//     log24(rounds) times.
//   - Memory does not depend on the number of URLs or hosts.
//   - Every change is one transaction of formats/store.
//
// Nothing here reads the clock or draws random numbers.
package frontier

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"

	"mercator/formats/record"
	"mercator/formats/segment"
	"mercator/formats/store"
	"mercator/pkg/fault"
)

// Kind and Version of the store.
const (
	Kind    = "frontier"
	Version = "1.0"
)

// Queues is the number of front queues, Mercator's K, where none is given.
const Queues = 3

// maxQueues leaves room for a level in a place's top byte.
const maxQueues = segment.MaxLevels

// Policy says in which order URLs are served.
type Policy struct {
	Name  string
	About string
}

// Policies lists the policies that Create knows.
func Policies() []Policy {
	return []Policy{{"priority", "K front queues, strictly by priority (0 first); within a queue hosts in turn, within a host first in, first out."}}
}

// Params are fixed when a frontier is created.
type Params struct {
	Policy string // a name of Policies; "": "priority"
	Queues int    // front queues, 1 to 256; 0: Queues. URLs of higher priority numbers share the last
}

// Create makes a frontier store. It is no error if the same is there already.
func Create(dir string, p Params, opt store.Options) error {
	if p.Policy == "" {
		p.Policy = Policies()[0].Name
	}
	if p.Queues == 0 {
		p.Queues = Queues
	}
	if p.Queues < 1 || p.Queues > maxQueues {
		return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("%d front queues", p.Queues), Want: fmt.Sprintf("1 to %d", maxQueues)}
	}
	known := false
	for _, q := range Policies() {
		known = known || q.Name == p.Policy
	}
	if !known {
		return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("unknown policy %q", p.Policy), Hint: `"mfrontier policies" lists those there are`}
	}
	return store.Create(dir, Kind, Version, map[string]string{"policy": p.Policy, "queues": fmt.Sprint(p.Queues)}, opt)
}

// Frontier is an opened frontier store.
type Frontier struct {
	st *store.Store
}

// Open opens the frontier store in dir.
func Open(dir string, opt store.Options) (*Frontier, error) {
	st, err := store.Open(dir, Kind, Version, opt)
	if err != nil {
		return nil, err
	}
	return New(st), nil
}

// New makes a Frontier of an opened store of the kind Kind.
func New(st *store.Store) *Frontier { return &Frontier{st: st} }

// Store is the store that Open opened.
func (f *Frontier) Store() *store.Store { return f.st }

// Counts are the frontier's books, in URLs: Discovered = Pending + InFlight + Finished.
type Counts struct {
	Discovered uint64         `json:"discovered"`
	Pending    uint64         `json:"pending"`
	InFlight   uint64         `json:"in_flight"`
	Finished   uint64         `json:"finished"`
	Retried    uint64         `json:"retried"`  // failed attempts that were queued again
	Deferred   uint64         `json:"deferred"` // times that a URL was put off untried
	Dead       uint64         `json:"dead"`     // finished because no attempt was left
	Outcomes   []record.Count `json:"outcomes"` // of the finished, sorted by outcome
}

func (c *Counts) outcome(name string) {
	i := sort.Search(len(c.Outcomes), func(i int) bool { return c.Outcomes[i].Reason >= name })
	if i == len(c.Outcomes) || c.Outcomes[i].Reason != name {
		c.Outcomes = append(c.Outcomes, record.Count{})
		copy(c.Outcomes[i+1:], c.Outcomes[i:])
		c.Outcomes[i] = record.Count{Reason: name}
	}
	c.Outcomes[i].N++
}

// state is what changes from generation to generation, besides the files. It
// stands as JSON in the manifest, under stateKey.
type state struct {
	Counts   Counts   `json:"counts"`
	V        []uint64 `json:"v"`     // for each front queue, the place that the last batch reached
	Ready    [][]run  `json:"ready"` // for each front queue, oldest run first
	Later    []run    `json:"later"` // by due time
	Hosts    []run    `json:"hosts"` // by FP64 of the host; a newer run's row replaces an older one's
	InFlight *flight  `json:"in_flight,omitempty"`
}

const stateKey = "frontier"

// run is a segment of the store and how far it was read.
type run struct {
	Path string           `json:"path"`
	Tier int              `json:"tier"` // how often its rows were merged
	Rows uint64           `json:"rows"` // left
	From segment.Position `json:"from"` // of the first row left
	Head uint64           `json:"head"` // its order
}

// flight is the batch that is in flight: a segment sorted by flightOrder.
type flight struct {
	Path string      `json:"path"`
	Rows uint64      `json:"rows"`
	Txn  string      `json:"txn"`
	Now  record.Time `json:"now"`
}

func load(m *store.Manifest) (*state, error) {
	var queues int
	if _, err := fmt.Sscan(m.Params["queues"], &queues); err != nil || queues < 1 || queues > maxQueues {
		return nil, &fault.Error{Class: fault.Corrupt, Place: fmt.Sprintf("generation %d", m.Generation), Found: fmt.Sprintf("%q front queues", m.Params["queues"]), Want: fmt.Sprintf("1 to %d", maxQueues)}
	}
	s := &state{V: make([]uint64, queues), Ready: make([][]run, queues)}
	text, ok := m.State[stateKey]
	if !ok {
		return s, nil
	}
	if err := json.Unmarshal([]byte(text), s); err != nil || len(s.V) != queues || len(s.Ready) != queues {
		return nil, &fault.Error{Class: fault.Corrupt, Place: fmt.Sprintf("generation %d", m.Generation), Found: "a frontier state that does not decode", Err: err}
	}
	return s, nil
}

func (s *state) save(tx *store.Tx) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	tx.SetState(stateKey, string(b))
	return nil
}

// level is the front queue of a priority.
func (s *state) level(priority uint8) uint8 { return uint8(min(int(priority), len(s.V)-1)) }

// A queue's rows are ordered by level and place, in one number.
const placeBits = 56

func orderOf(level uint8, place uint64) uint64 { return uint64(level)<<placeBits | place }
func levelOf(order uint64) uint8               { return uint8(order >> placeBits) }
func placeOf(order uint64) uint64              { return order & (1<<placeBits - 1) }

// ticker looks at a context once in many rows.
type ticker struct{ n uint32 }

func (t *ticker) err(ctx context.Context) error {
	if t.n++; t.n%4096 != 0 {
		return nil
	}
	return context.Cause(ctx)
}

// current reads the state that counts now.
func (f *Frontier) current() (*state, *store.Manifest, error) {
	m, err := f.st.Current()
	if err != nil {
		return nil, nil, err
	}
	s, err := load(m)
	return s, m, err
}
