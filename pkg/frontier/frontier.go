package frontier

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sort"

	"mercator/formats/record"
	runfile "mercator/formats/run"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
)

// Kind and Version of the store.
const (
	Kind    = "frontier"
	Version = 3
)

// Frontier is an opened frontier store.
type Frontier struct {
	st     *store.Store
	layout layout
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
func New(st *store.Store) *Frontier { return &Frontier{st: st, layout: layoutDefault} }

// Store is the store that Open opened.
func (f *Frontier) Store() *store.Store { return f.st }

// Counts are the frontier's counts of URLs: Discovered = Pending + InFlight + Finished. Outcomes are of Finished + MovedOut -
// MovedIn + TakenBack URLs.
type Counts struct {
	Discovered uint64         `json:"discovered"`
	Pending    uint64         `json:"pending"`
	InFlight   uint64         `json:"in_flight"`
	Finished   uint64         `json:"finished"`
	Retried    uint64         `json:"retried"`          // failed attempts that were queued again
	Deferred   uint64         `json:"deferred"`         // times that a URL was put off or parked
	Dead       uint64         `json:"dead"`             // times that a URL was finished because no attempt was left
	Visits     uint64         `json:"visits,omitempty"` // visits by policy revisit: the URL was queued for the next one
	Outcomes   []record.Count `json:"outcomes"`         // outcomes of finished URLs, sorted by name
	// MovedOut counts finished URLs of hosts that went to other shards: Outcomes here has their outcomes.
	MovedOut uint64 `json:"moved_out,omitempty"`
	// MovedIn counts finished URLs of hosts that came from other shards: Outcomes there has their outcomes.
	MovedIn uint64 `json:"moved_in,omitempty"`
	// TakenBack are outcomes that other shards count, of URLs that came from them and were queued again.
	TakenBack []record.Count `json:"taken_back,omitempty"`
}

func (c *Counts) outcome(name string) { c.Outcomes = counted(c.Outcomes, name) }

// counted adds one of a name to a list in order of name.
func counted(list []record.Count, name string) []record.Count {
	i := sort.Search(len(list), func(i int) bool { return list[i].Reason >= name })
	if i == len(list) || list[i].Reason != name {
		list = slices.Insert(list, i, record.Count{Reason: name})
	}
	list[i].N++
	return list
}

func sumOf(list []record.Count) (n uint64) {
	for _, c := range list {
		n += c.N
	}
	return n
}

// takeBack takes back an outcome; false if no URL here has it.
func (c *Counts) takeBack(name string) bool {
	i := slices.IndexFunc(c.Outcomes, func(o record.Count) bool { return o.Reason == name })
	switch {
	case i >= 0:
		if c.Outcomes[i].N--; c.Outcomes[i].N == 0 {
			c.Outcomes = slices.Delete(c.Outcomes, i, i+1)
		}
	case name != "" && c.MovedIn > sumOf(c.TakenBack):
		c.TakenBack = counted(c.TakenBack, name)
	default:
		return false
	}
	return true
}

// state is the part of a frontier that changes from generation to generation, besides the files. The
// manifest has it as JSON, under stateKey.
type state struct {
	Counts   Counts   `json:"counts"`
	V        []uint64 `json:"v"`     // for each front queue, the highest virtual time that was served
	Draws    uint64   `json:"draws"` // draws of a front queue, by all batches so far
	Ready    [][]run  `json:"ready"` // for each front queue, oldest run first
	Later    []run    `json:"later"` // URLs that wait for a time, by due time
	Hosts    []run    `json:"hosts"` // hosts by hostKey; rows of a newer run replace older rows of the same key
	InFlight *flight  `json:"in_flight,omitempty"`
	// Dead are the dead hosts, by hostKey; their rows say until when each is left alone.
	Dead []run `json:"dead,omitempty"`
	// DeadUntil is the latest time until which a dead host is left alone.
	DeadUntil record.Time `json:"dead_until,omitempty"`
	// Parked are the parked URLs by due time, a list for each outcome of parking.
	Parked [len(parking)][]run `json:"parked,omitzero"`
	// Longest is the longest delay that a waiting URL was ever given; 0: not known.
	Longest record.Time `json:"longest_delay,omitempty"`
	// Clock is the time of the latest batch; 0: not known.
	Clock record.Time `json:"clock,omitempty"`
	// Domains is the table of registered domains, by hostKey.
	Domains []run `json:"domains,omitempty"`
	// Held are the URLs over the budgets of their domains, by the round that they are held for.
	Held []run `json:"held,omitempty"`
	// Round counts the updates with budgets.
	Round uint64 `json:"round,omitempty"`
	// Rewritten counts how often a waiting URL was written again: when runs were
	// merged, and when a batch passed it over.
	Rewritten uint64 `json:"rewritten"`
	Merges    uint64 `json:"merges,omitempty"` // merges that have begun
	// Policy is the saved state of the policy.
	Policy json.RawMessage `json:"policy,omitempty"`

	policy *policy
	layout layout
}

const stateKey = "frontier"

// run is a file of the store and how far it was read.
type run struct {
	Path string           `json:"path"`
	Tier int              `json:"tier"` // how often its rows were merged, or will have been when Merge is done
	Rows uint64           `json:"rows"` // rows left
	From runfile.Position `json:"from"` // position of the first row left
	Head uint64           `json:"head"` // key of the first row left
	// Chain is the number of the merge that wrote the run as one of its pieces; 0: none. See run.sequence.
	Chain uint64 `json:"chain,omitempty"`
	// Merge is the number of the merge that reads the run as a source; 0: none.
	Merge uint64 `json:"merge,omitempty"`
	// Fresh: the run is of hosts, and all have an unknown speed. No older run knows more, since
	// each newer row of a host repeats its speed.
	Fresh bool `json:"fresh,omitempty"`
}

// flight is the batch that is in flight: a run sorted by flightKey.
type flight struct {
	Path string      `json:"path"`
	Rows uint64      `json:"rows"`
	Txn  string      `json:"txn"`
	Now  record.Time `json:"now"`
	Head uint64      `json:"head,omitempty"`
	// Refused are URLs that a rule of the filter refused, sorted by flightKey. They are not in the batch, and the update
	// finishes them.
	Refused []run `json:"refused,omitempty"`
}

// all is the number of URLs in flight, with the refused ones.
func (fl *flight) all() uint64 { return fl.Rows + rowsOf(fl.Refused) }

// runs are the runs of the URLs in flight.
func (fl *flight) runs() []run {
	switch {
	case fl == nil:
		return nil
	case fl.Rows == 0:
		return fl.Refused
	}
	return append([]run{{Path: fl.Path, Rows: fl.Rows, From: runfile.Start, Head: fl.Head}}, fl.Refused...)
}

func (f *Frontier) load(m *store.Manifest) (*state, error) {
	p, err := policyOf(m)
	if err != nil {
		return nil, err
	}
	return f.loadFor(m, p)
}

// loadFor gives the policy the state of a manifest, in place of what it had.
func (f *Frontier) loadFor(m *store.Manifest, p *policy) (*state, error) {
	s := &state{V: make([]uint64, p.queues()), Ready: make([][]run, p.queues()), policy: p, layout: f.layout}
	kept := p.kept()
	if kept != nil {
		reflect.ValueOf(kept).Elem().SetZero()
	}
	text, ok := m.State[stateKey]
	if !ok {
		return s, nil
	}
	err := json.Unmarshal([]byte(text), s)
	if err == nil && kept != nil {
		err = json.Unmarshal(s.Policy, kept)
	}
	if c, ok := p.hooks.(interface{ sound() error }); err == nil && ok {
		err = c.sound()
	}
	if err != nil || len(s.V) != p.queues() || len(s.Ready) != p.queues() || (kept != nil) != (s.Policy != nil) {
		return nil, &fault.Error{Class: fault.Corrupt, Place: fmt.Sprintf("generation %d", m.Generation), Found: "a frontier state that does not decode", Err: err}
	}
	return s, nil
}

func (s *state) save(tx *store.Tx) error {
	var err error
	if kept := s.policy.kept(); kept != nil {
		if s.Policy, err = json.Marshal(kept); err != nil {
			return err
		}
	}
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	tx.SetState(stateKey, string(b))
	return nil
}

// A queue's rows are ordered by level and virtual time, in one number.
const virtualTimeBits = 56

func keyOf(level uint8, time uint64) uint64 { return uint64(level)<<virtualTimeBits | time }
func levelOf(order uint64) uint8            { return uint8(order >> virtualTimeBits) }
func virtualTimeOf(order uint64) uint64     { return order & (1<<virtualTimeBits - 1) }

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
	s, err := f.load(m)
	return s, m, err
}
