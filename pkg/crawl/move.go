package crawl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/folder/shard"
)

// Mover moves what the stores of a kind have of buckets.
type Mover struct {
	Kind  string // kind of the store, and its name in each shard
	Check func(st *store.Store) error
	Move  func(ctx context.Context, st *store.Store, m *shard.Move) error
}

// Moving is a move that was begun and is not closed.
type Moving struct {
	Txn string
	Map *shard.Map
}

// Moving looks for a move that was begun; nil if there is none.
func (c *Crawl) Moving() (*Moving, error) {
	stores, err := c.Stores()
	if err != nil {
		return nil, err
	}
	for _, s := range stores {
		v, err := s.Look()
		if err != nil {
			return nil, err
		}
		for _, d := range v.Counts.Done {
			if d.Generation > v.Base && d.Verb == shard.MoveVerb {
				m, err := c.mapOf(d)
				return &Moving{d.Txn, m}, err
			}
		}
	}
	return nil, nil
}

// mapOf is the map that a store's part of a move was made by.
func (c *Crawl) mapOf(d store.Done) (*shard.Map, error) {
	versions, err := c.mapVersions()
	if err != nil {
		return nil, err
	}
	for _, version := range versions {
		if m, err := shard.ReadVersion(c.fs, c.dir, version); err == nil { // a damaged one is not it
			if data, err := m.Encode(); err == nil && store.Sum(data) == d.InHash {
				return m, nil
			}
		}
	}
	return nil, &fault.Error{Class: fault.Corrupt, File: c.dir, Found: fmt.Sprintf("no bucket map of %q, which was begun", d.Txn), Want: "MAP-NNNNNN with checksum " + d.InHash,
		Hint: "give the move up: " + fault.Quote("mckpt", "abandon", c.dir)}
}

// mapVersion reads the name of a file of the bucket map.
func mapVersion(name string) (version uint64, ok bool) {
	digits, is := strings.CutPrefix(name, "MAP-")
	version, err := strconv.ParseUint(digits, 10, 64)
	return version, is && err == nil && filepath.Base(shard.File("", version)) == name
}

// mapVersions are those with a file, in order.
func (c *Crawl) mapVersions() (versions []uint64, err error) {
	list, err := c.fs.ReadDir(c.dir)
	for _, e := range list {
		if version, ok := mapVersion(e.Name()); ok {
			versions = append(versions, version)
		}
	}
	slices.Sort(versions)
	return versions, err
}

// Move gives buckets other owners, which may be shards that the crawl has not yet: these are made. Under a new version of the bucket map it moves what the stores of movers have of them, and
// closes this as a round of its own, move1 and so on, by a checkpoint. CURRENT's rename is the move. A kill before leaves a round open, and
// the same again finishes it; it can be given up, too.
//
// Between rounds alone: an open round is fault.Conflict.
func (c *Crawl) Move(ctx context.Context, owners []int, movers []Mover, now time.Time) (*Checkpoint, error) {
	begun, err := c.Moving()
	if err != nil {
		return nil, err
	}
	if begun == nil {
		if begun, err = c.beginMove(ctx, owners, movers); err != nil {
			return nil, err
		}
	} else if !slices.Equal(begun.Map.Owners, owners) {
		return nil, &fault.Error{Class: fault.Conflict, File: c.dir, Found: fmt.Sprintf("%q, which was begun, moves other buckets", begun.Txn), Want: "none that is under way",
			Hint: c.endMove()}
	}
	return c.FinishMove(ctx, begun, movers, now)
}

// endMove is the hint for a round, such as a move, that has to end first.
func (c *Crawl) endMove() string {
	return "finish it: " + fault.Quote("mcrawl", "run", c.dir) + "; or give it up: " + fault.Quote("mckpt", "abandon", c.dir)
}

// beginMove checks that a move can be made, and writes its map.
func (c *Crawl) beginMove(ctx context.Context, owners []int, movers []Mover) (*Moving, error) {
	st, err := c.State()
	if err != nil {
		return nil, err
	}
	refuse := func(found, hint string) error {
		return &fault.Error{Class: fault.Conflict, File: c.dir, Found: found, Want: "a crawl between two rounds", Hint: hint}
	}
	switch {
	case len(st.Rounds) > 0:
		return nil, refuse(fmt.Sprintf("round %q is open", st.Rounds[0]), c.endMove())
	case st.Checkpoint == 0:
		return nil, refuse("the empty crawl", "put the seeds in: "+fault.Quote("mcrawl", "run", c.dir))
	}
	for _, s := range st.Stores {
		moves := slices.ContainsFunc(movers, func(m Mover) bool { return m.Kind == s.Kind })
		if !moves {
			continue
		}
		if slices.Contains(st.Changed, s.Name) {
			return nil, refuse(s.Name+", which was changed without a round", "close a round with it: "+fault.Quote("mcrawl", "run", c.dir, "--rounds", "N"))
		}
		for _, m := range movers {
			if m.Kind == s.Kind {
				if err := m.Check(c.folder(s.Name)); err != nil {
					return nil, err
				}
			}
		}
	}
	begun := new(Moving)
	if begun.Txn, err = c.nextMove(); err != nil {
		return nil, err
	}
	return begun, c.locked(ctx, begun.Txn, func(cur store.Current) (err error) {
		begun.Map, err = c.writeMap(cur, owners)
		return err
	})
}

// nextMove is a name that no move had.
func (c *Crawl) nextMove() (string, error) {
	frontier, err := c.frontier()
	if err != nil {
		return "", err
	}
	look, err := frontier.Look()
	if err != nil {
		return "", err
	}
	names, _, err := frontier.Names(look.Counts)
	last := uint64(0)
	for _, name := range names {
		digits, is := strings.CutPrefix(name, shard.MoveVerb)
		if n, err := strconv.ParseUint(digits, 10, 64); is && err == nil {
			last = max(last, n)
		}
	}
	return fmt.Sprintf("%s%d", shard.MoveVerb, last+1), err
}

// writeMap writes a map of these owners, of a version that no map had. One that a killed move has left serves again.
func (c *Crawl) writeMap(cur store.Current, owners []int) (*shard.Map, error) {
	old, err := shard.ReadVersion(c.fs, c.dir, cur.Map)
	if err != nil {
		return nil, err
	}
	versions, err := c.mapVersions()
	if err != nil {
		return nil, err
	}
	last := versions[len(versions)-1]
	next := old.Next(owners)
	if left, err := shard.ReadVersion(c.fs, c.dir, last); err == nil && last > cur.Map {
		if next.Version = last; reflect.DeepEqual(left, next) {
			return left, nil
		}
	}
	next.Version = last + 1
	data, err := next.Encode()
	if err == nil {
		_, err = shard.Decode(shard.File(c.dir, next.Version), data)
	}
	if err != nil {
		return nil, err
	}
	err = durable.LinkFile(c.fs, shard.File(c.dir, next.Version), data)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) { // not there: a gc has deleted the temporary file
		err = store.CurrentChanged(c.dir, err)
	}
	return next, err
}

// makeShard makes the stores of a new shard, empty, with the parameters of the first shard's.
func (c *Crawl) makeShard(n int) error {
	stores, err := c.Stores()
	if err != nil {
		return err
	}
	for _, s := range stores {
		name, ofFirst := strings.CutPrefix(s.NameInCrawl(), shard.Name(0)+"/")
		if !ofFirst {
			continue
		}
		m, err := s.At(1)
		if err != nil {
			return err
		}
		if err := store.Create(filepath.Join(shard.Dir(c.dir, n), filepath.FromSlash(name)), m.Kind, m.Version, m.Params, c.opt.stores()); err != nil {
			return err
		}
	}
	return nil
}

// FinishMove makes what is not made of a move, and closes it.
func (c *Crawl) FinishMove(ctx context.Context, begun *Moving, movers []Mover, now time.Time) (*Checkpoint, error) {
	old, err := shard.Read(c.fs, c.dir)
	if err != nil {
		return nil, err
	}
	for n := old.Shards; n < begun.Map.Shards; n++ {
		if err := c.makeShard(n); err != nil {
			return nil, err
		}
	}
	for n := range begun.Map.Shards {
		for _, mover := range movers {
			m := &shard.Move{Old: old, New: begun.Map, Shard: n, Txn: begun.Txn, Base: func(other int) (*store.Store, *store.Manifest, error) {
				s := c.folder(filepath.Join(shard.Name(other), mover.Kind))
				look, err := s.Look()
				if err != nil {
					return nil, nil, err
				}
				base, err := s.At(look.Base)
				return s, base, err
			}}
			// Also a store that has none of the buckets takes part, so that the round is closed in it.
			if err := mover.Move(ctx, c.folder(filepath.Join(shard.Name(n), mover.Kind)), m); err != nil {
				return nil, m.Because(err)
			}
		}
	}
	k, made, err := c.commitWith(ctx, begun.Txn, now, 0, begun.Map.Version)
	if err == nil && !made {
		err = &fault.Error{Class: fault.Conflict, File: c.dir, Found: fmt.Sprintf("%q was closed meanwhile", begun.Txn)}
	}
	return k, err
}
