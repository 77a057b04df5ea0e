package crawl

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sort"
	"strconv"
	"strings"

	"mercator/formats/store"
	"mercator/pkg/fault"
)

// Checkpoint reads one; a forgotten one, or one that never was, is fault.Usage.
func (c *Crawl) Checkpoint(number uint64) (*Checkpoint, error) {
	cur, err := c.current()
	if err != nil {
		return nil, err
	}
	return c.checkpoint(cur, number)
}

func (c *Crawl) checkpoint(cur store.Current, number uint64) (*Checkpoint, error) {
	if number > 0 && number <= cur.Last && !cur.Forgotten.Has(number) {
		k, err := readCheckpoint(c.fs, c.dir, number)
		if errors.Is(err, fs.ErrNotExist) {
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
	e.Hint = fmt.Sprintf("%q shows those that can be restored: %s", "mckpt list "+c.dir, strings.ReplaceAll(strings.TrimSuffix("0,"+string(store.SpansOf(numbers)), ","), ",", ", "))
	return nil, e
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

// State is what a crawl folder stands at.
type State struct {
	Epoch      uint64       `json:"epoch"`
	Checkpoint uint64       `json:"checkpoint"`        // that it goes on from; 0: the empty crawl
	Txn        string       `json:"txn,omitempty"`     // the round that this one closed
	Rounds     []string     `json:"rounds,omitempty"`  // open rounds: one, unless commands ran with different names
	Changed    []string     `json:"changed,omitempty"` // stores that changed since the checkpoint, with a round or without a name
	Stores     []StoreState `json:"stores"`
}

// StoreState is one store in it.
type StoreState struct {
	Name       string   `json:"name"`
	Kind       string   `json:"kind"`
	Generation uint64   `json:"generation"` // that counts
	Files      int      `json:"files"`
	Bytes      int64    `json:"bytes"`
	Round      string   `json:"round,omitempty"`     // open in this store
	Committed  []string `json:"committed,omitempty"` // its verbs
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

// NextRound is the number of the round that comes after the current checkpoint,
// where rounds are named r1, r2, … and "seed" counts as r0; 0 if no checkpoint
// holds the seeds yet. Other names are passed over.
func (c *Crawl) NextRound() (uint64, error) {
	cur, err := c.current()
	if err != nil {
		return 0, err
	}
	numbers, err := checkpointNumbers(c.fs, c.dir, cur)
	if err != nil {
		return 0, err
	}
	for at := cur.Checkpoint; at > 0; {
		k, err := readCheckpoint(c.fs, c.dir, at)
		if errors.Is(err, fs.ErrNotExist) {
			// A forgotten one: the one before it by number.
			i := sort.Search(len(numbers), func(i int) bool { return numbers[i] >= at })
			if i == 0 {
				break
			}
			at = numbers[i-1]
			continue
		}
		if err != nil {
			return 0, err
		}
		if k.Txn == "seed" {
			return 1, nil
		}
		if digits, ok := strings.CutPrefix(k.Txn, "r"); ok {
			if n, err := strconv.ParseUint(digits, 10, 53); err == nil {
				return n + 1, nil
			}
		}
		at = k.Parent
	}
	if cur.Checkpoint > 0 {
		return 1, nil
	}
	return 0, nil
}
