package crawl

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"mercator/formats/store"
	"mercator/pkg/base/fault"
)

// Checkpoint reads one; a forgotten one, or one that never was, is fault.Usage.
func (c *Crawl) Checkpoint(number uint64) (*Checkpoint, error) {
	cur, err := c.current()
	if err != nil {
		return nil, err
	}
	return c.checkpoint(cur, number)
}

// Current is the checkpoint that the crawl goes on from; nil for the empty crawl.
func (c *Crawl) Current() (*Checkpoint, error) {
	cur, err := c.current()
	if err != nil || cur.Checkpoint == 0 {
		return nil, err
	}
	return readCheckpoint(c.fs, c.dir, cur.Checkpoint)
}

func (c *Crawl) checkpoint(cur store.Current, number uint64) (*Checkpoint, error) {
	if number > 0 && number <= cur.Last && !cur.Forgotten.Has(number) {
		k, err := readCheckpoint(c.fs, c.dir, number)
		if errors.Is(err, fs.ErrNotExist) && number != cur.Checkpoint {
			err = c.deleted(number, number)
		}
		return k, err
	}
	e := &fault.Error{Class: fault.Usage, File: c.dir, Found: fmt.Sprintf("there is no checkpoint %d", number), Err: fs.ErrNotExist}
	if number > 0 && number <= cur.Last {
		e.Found = fmt.Sprintf("checkpoint %d has been forgotten", number)
	}
	numbers, err := checkpointNumbers(c.fs, c.dir, cur)
	if err != nil {
		return nil, err
	}
	e.Hint = fmt.Sprintf("those that can be restored, %s: %s", strings.ReplaceAll(strings.TrimSuffix("0,"+string(store.SpansOf(numbers)), ","), ",", ", "), fault.Quote("mckpt", "list", c.dir))
	return nil, e
}

// Find is the number of a checkpoint that is given as its number or by the round that it closed. After a restore there may be
// several of a round: it is the one that the crawl went on from or, where that is none, the only one.
func (c *Crawl) Find(text string) (uint64, error) {
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n, nil
	}
	var of []uint64
	var rounds []string
	err := c.List(func(k *Checkpoint) error {
		rounds = append(rounds, k.Txn)
		if k.Txn == text {
			of = append(of, k.Number)
		}
		return nil
	})
	if err != nil || len(of) == 1 {
		return append(of, 0)[0], err
	}
	var at uint64
	err = c.Back(func(k *Checkpoint) error {
		if k.Txn == text {
			at = k.Number
		}
		return nil
	})
	if err != nil || at > 0 {
		return at, err
	}
	rounds = slices.DeleteFunc(rounds, func(name string) bool { return fault.Distance(text, name) > 1 }) // numbers are like all others
	e := &fault.Error{Class: fault.Usage, File: c.dir, Found: fmt.Sprintf("no checkpoint closes a round %q", text), Want: "a number, or a round", Hint: fault.DidYouMean(text, rounds)}
	if closed, err := c.Closed(text); err == nil && closed {
		e.Found, e.Hint = fmt.Sprintf("the checkpoint of round %q has been forgotten", text), ""
	}
	if len(of) > 1 {
		e.Found, e.Want = fmt.Sprintf("round %q was closed by checkpoints %s", text, strings.ReplaceAll(strings.Trim(fmt.Sprint(of), "[]"), " ", ", ")), "the number of one of them"
	}
	if e.Hint == "" {
		e.Hint = "see all: " + fault.Quote("mckpt", "list", c.dir)
	}
	return 0, e
}

// List reads all checkpoints that exist, in order of number, one at a time.
func (c *Crawl) List(each func(*Checkpoint) error) error {
	cur, err := c.current()
	if err != nil {
		return err
	}
	numbers, err := checkpointNumbers(c.fs, c.dir, cur)
	if err != nil {
		return err
	}
	for _, n := range numbers {
		k, err := readCheckpoint(c.fs, c.dir, n)
		if err != nil {
			return err
		}
		if err := each(k); err != nil {
			return err
		}
	}
	return nil
}

// State is the current state of a crawl folder.
type State struct {
	Epoch      uint64       `json:"epoch"`
	Checkpoint uint64       `json:"checkpoint"`        // checkpoint that the crawl goes on from; 0: the empty crawl
	Txn        string       `json:"txn,omitempty"`     // the round that this one closed
	Rounds     []string     `json:"rounds,omitempty"`  // open rounds: one, unless commands ran with different names
	Changed    []string     `json:"changed,omitempty"` // stores that changed since the checkpoint, with a round or without a name
	Stores     []StoreState `json:"stores"`
}

// StoreState is one store in it.
type StoreState struct {
	Name       string   `json:"name"`
	Kind       string   `json:"kind"`
	Generation uint64   `json:"generation"` // the current one
	Files      int      `json:"files"`
	Bytes      int64    `json:"bytes"`
	Round      string   `json:"round,omitempty"`     // name of the open round in this store
	Committed  []string `json:"committed,omitempty"` // verbs that the open round has committed
}

// State reads it without a lock.
func (c *Crawl) State() (*State, error) {
	cur, err := c.current()
	if err != nil {
		return nil, err
	}
	st := &State{Epoch: cur.Epoch, Checkpoint: cur.Checkpoint}
	if cur.Checkpoint > 0 {
		k, err := readCheckpoint(c.fs, c.dir, cur.Checkpoint)
		if err != nil {
			return nil, err
		}
		st.Txn = k.Txn
	}
	stores, err := c.Stores()
	if err != nil {
		return nil, err
	}
	for _, s := range stores {
		v, err := s.Look()
		if err != nil {
			return nil, err
		}
		one := StoreState{Name: s.NameInCrawl(), Kind: v.Counts.Kind, Generation: v.Counts.Generation, Files: len(v.Counts.Files)}
		for _, e := range v.Counts.Files {
			one.Bytes += e.Length
		}
		changed, err := s.Changed(v)
		if err != nil {
			return nil, err
		}
		if changed {
			st.Changed = append(st.Changed, one.Name)
		}
		one.Round = v.Open()
		for _, d := range v.Counts.Done {
			if d.Txn == one.Round {
				one.Committed = append(one.Committed, d.Verb)
			}
		}
		if one.Round != "" && !slices.Contains(st.Rounds, one.Round) {
			st.Rounds = append(st.Rounds, one.Round)
		}
		st.Stores = append(st.Stores, one)
	}
	return st, nil
}

// Lost names the stores that the current checkpoint binds and that are not there, at the cost of a stat a store. What needs them refuses
// to work; other commands do not notice.
func (c *Crawl) Lost() (lost []error) {
	cur, err := c.current()
	if err != nil {
		return nil // who reads more of the crawl says why
	}
	for _, name := range slices.Sorted(maps.Keys(cur.Stores)) {
		s := c.folder(name)
		if made, err := s.Made(); made && err == nil {
			continue
		}
		if err := s.Lost(cur); err != nil {
			lost = append(lost, err)
		}
	}
	return lost
}

// NextRound is the number of the next round, where rounds are named r1, r2, …: one above all
// that were closed in the crawl as it is now, whether their checkpoints are forgotten or not.
// Without any it is 1, and 0 for the empty crawl. Other names are passed over.
func (c *Crawl) NextRound() (next uint64, err error) {
	cur, err := c.current()
	if err != nil || cur.Checkpoint == 0 {
		return 0, err
	}
	frontier, err := c.frontier()
	if err != nil {
		return 0, err
	}
	look, err := frontier.Look()
	if err != nil {
		return 0, err
	}
	names, _, err := frontier.Names(look.Counts)
	if err != nil {
		return 0, err
	}
	next = 1
	for _, name := range names {
		if n, ok := roundNumber(name); ok && name != look.Open() {
			next = max(next, n+1)
		}
	}
	return next, nil
}
