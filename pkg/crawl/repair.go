package crawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/folder/shard"
)

// Repaired lists the pointers that Repair made anew.
type Repaired struct {
	Heads   []RepairedHead `json:"heads"`
	Current string         `json:"current,omitempty"` // damage of CURRENT that was repaired; "": CURRENT is unchanged

	// Of a CURRENT that was made anew.
	Checkpoint uint64      `json:"checkpoint"`
	Txn        string      `json:"txn,omitempty"`
	Epoch      uint64      `json:"epoch"`
	Chosen     bool        `json:"chosen"`              // the caller chose the checkpoint
	Forgotten  store.Spans `json:"forgotten,omitempty"` // checkpoints that have no file, and count as forgotten
}

// RepairedHead is a HEAD that was made anew.
type RepairedHead struct {
	Store      string `json:"store"`
	Was        string `json:"was"` // the damage of the store
	Generation uint64 `json:"generation"`
}

// Repair makes anew the pointers of a crawl that are lost, damaged or old: HEAD of each store, from its manifests, and CURRENT, from the
// checkpoints and from what the newest manifests say that they were built on. It changes nothing else. Each file is replaced whole, CURRENT last, so that the same
// call goes on after a kill.
//
// CURRENT names the checkpoint on which the stores stand, in their epoch: an open round stays open. Where no whole checkpoint is the one, it
// is refused (fault.Corrupt) unless to, which is not nil, names a checkpoint to go on from; then the epoch is a new one, and what was done since that checkpoint is given up.
func (c *Crawl) Repair(ctx context.Context, to *uint64) (done *Repaired, err error) {
	if err := c.unfinished(); err != nil {
		return nil, err
	}
	if _, err := store.ReadCurrent(c.fs, c.dir); errors.Is(err, fs.ErrNotExist) && c.lost() == nil {
		_, err := c.current() // says what the folder is
		return nil, err
	}
	lock, err := store.Lock(ctx, c.fs, c.path(store.LockFile), "mckpt repair", c.opt.LockWait)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	under, err := c.storesOfShards()
	if err != nil {
		return nil, err
	}
	stores, err := c.foldersUnder(under)
	if err != nil {
		return nil, err
	}
	for _, s := range stores {
		l, err := s.Lock(ctx, "mckpt repair")
		if err != nil {
			return nil, err
		}
		defer func(l io.Closer) { _ = l.Close() }(l) // nothing was written through it
	}
	e, err := c.evidence(stores)
	if err != nil {
		return nil, err
	}
	done = &Repaired{Heads: []RepairedHead{}}
	next, was, err := c.currentAnew(e, to, done)
	if err != nil {
		return nil, err
	}
	for _, s := range stores {
		name := s.NameInCrawl()
		least := uint64(1)
		for _, n := range e.numbers {
			if k := e.whole[n]; k != nil && k.of(name) != nil {
				least = max(least, k.of(name).Generation)
			}
		}
		made, was, err := s.RepairHead(max(least, e.current.Stores[name]))
		if err != nil {
			return nil, err
		}
		if made > 0 {
			done.Heads = append(done.Heads, RepairedHead{name, was.Error(), made})
		}
	}
	if was == nil {
		return done, nil
	}
	if was, err = store.SetAside(c.fs, c.path(store.CurrentFile), was); err != nil {
		return nil, err
	}
	done.Current = was.Error()
	return done, store.WriteCurrent(c.fs, c.dir, next)
}

// evidence has what a crawl folder tells of its state without HEAD.
type evidence struct {
	current store.Current // as far as it can be read
	broken  error         // why it cannot
	numbers []uint64      // of the files of checkpoints
	whole   map[uint64]*Checkpoint
	newest  map[string]*store.Manifest // of each store: the manifest of the highest number, if it is whole
	epoch   uint64                     // the highest that anything was made in
	last    uint64                     // the highest checkpoint that a store knows, or that has a file
}

func (c *Crawl) evidence(stores []*store.Store) (*evidence, error) {
	e := &evidence{whole: map[uint64]*Checkpoint{}, newest: map[string]*store.Manifest{}}
	var err error
	if e.current, err = store.ReadCurrent(c.fs, c.dir); errors.Is(err, fs.ErrNotExist) {
		err = &fault.Error{Class: fault.Corrupt, File: c.path(store.CurrentFile), Found: "missing"}
	}
	if err != nil && !store.Damaged(err) {
		return nil, err
	}
	if e.broken = err; err != nil {
		e.current = store.Current{}
	}
	e.epoch, e.last = e.current.Epoch, e.current.Last
	if e.numbers, err = store.CheckpointFiles(c.fs, c.dir); err != nil {
		return nil, err
	}
	for _, n := range e.numbers {
		k, err := readCheckpoint(c.fs, c.dir, n)
		if err == nil {
			e.whole[n] = k
			e.epoch = max(e.epoch, k.Epoch)
		} else if !store.Damaged(err) {
			return nil, err
		}
	}
	for _, s := range stores {
		list, err := s.Generations()
		if err != nil {
			return nil, err
		}
		if len(list) == 0 {
			continue
		}
		m, err := s.At(list[len(list)-1])
		if err == nil {
			var closedBy map[string]uint64
			if _, closedBy, err = s.Names(m); err == nil {
				for _, n := range closedBy {
					e.last = max(e.last, n)
				}
			}
			e.newest[s.NameInCrawl()] = m
			e.epoch = max(e.epoch, m.Epoch)
		}
		if err != nil && !store.Damaged(err) {
			return nil, err
		}
	}
	return e, c.epochsOfRounds(e)
}

// epochsOfRounds looks at the names of what drivers keep: the last round may have been begun in an epoch in which no store was changed yet.
func (c *Crawl) epochsOfRounds(e *evidence) error {
	list, err := c.fs.ReadDir(c.roundsPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, round := range list {
		if !round.IsDir() {
			continue
		}
		files, err := c.fs.ReadDir(c.roundsPath(round.Name()))
		if err != nil {
			return err
		}
		for _, f := range files {
			name, _ := strings.CutPrefix(f.Name(), epochPrefix)
			if round.Name() == undoneDir {
				name = strings.TrimPrefix(path.Ext(f.Name()), ".")
			}
			if n, err := strconv.ParseUint(name, 10, 53); err == nil {
				e.epoch = max(e.epoch, n)
			}
		}
	}
	return err
}

// old says why a CURRENT that is whole is from before what the stores and the checkpoints say; nil if it is not.
func (c *Crawl) old(e *evidence) error {
	for name, m := range e.newest {
		base := max(e.current.Stores[name], 1)
		if m.Epoch > e.current.Epoch || m.Epoch == e.current.Epoch && m.Generation > base && m.BuiltOn() != base {
			return &fault.Error{Class: fault.Corrupt, File: c.path(store.CurrentFile), Found: fmt.Sprintf("epoch %d, generation %d of %s", e.current.Epoch, base, name),
				Want: fmt.Sprintf("epoch %d, generation %d, as generation %d says", m.Epoch, m.BuiltOn(), m.Generation)}
		}
	}
	for _, n := range slices.Backward(e.numbers) {
		if k := e.whole[n]; k != nil && k.Parent > e.current.Last {
			return &fault.Error{Class: fault.Corrupt, File: c.path(store.CurrentFile), Found: fmt.Sprintf("last checkpoint %d", e.current.Last), Want: fmt.Sprintf("%d or later: %s goes on from it", k.Parent, checkpointPath(c.dir, n))}
		}
	}
	return nil
}

// currentAnew is the CURRENT that is to be, and what is wrong with the one that is; nil if nothing is.
func (c *Crawl) currentAnew(e *evidence, to *uint64, done *Repaired) (next store.Current, was, err error) {
	if was = cmp.Or(e.broken, c.old(e)); was == nil {
		if to != nil {
			return next, nil, &fault.Error{Class: fault.Usage, Place: "--checkpoint", Found: "CURRENT is sound", Want: "no checkpoint to choose", Hint: "go back: " + fault.Quote("mckpt", "restore", c.dir, fmt.Sprint(*to))}
		}
		return next, nil, nil
	}
	at, ok := e.stands()
	if to != nil {
		at = *to
		if err := c.chosen(e, at); err != nil {
			return next, was, err
		}
		e.epoch++
	} else if !ok {
		found := "no checkpoint is whole"
		hint := "put the newest one back from a copy, and run the same command again"
		for _, n := range slices.Backward(e.numbers) {
			if c.chosen(e, n) == nil {
				found = fmt.Sprintf("the stores stand on no checkpoint that is whole; %d is the newest that is", n)
				hint += ", or give up what was done since: " + fault.Quote("mckpt", "repair", c.dir, "--checkpoint", fmt.Sprint(n))
				break
			}
		}
		return next, was, &fault.Error{Class: fault.Corrupt, File: c.path(checkpointsDir), Found: found, Want: "the one that CURRENT named", Hint: hint}
	}
	next = store.Current{Epoch: e.epoch, Checkpoint: at, Last: max(e.last, at)}
	if k := e.whole[at]; k != nil {
		next.Txn, next.Stores, next.Map = k.Txn, k.generations(), k.Map
	} else if there, err := durable.Exists(c.fs, shard.File(c.dir, 1)); err != nil {
		return next, was, err
	} else if there {
		next.Map = 1
	}
	for _, n := range e.numbers {
		if k := e.whole[n]; n > at && k != nil && k.Parent == at && c.present(k) != nil {
			continue // of a commit that died, and was given up since
		}
		next.Last = max(next.Last, n)
	}
	var gone []uint64
	for n := uint64(1); n <= next.Last; n++ {
		if _, there := slices.BinarySearch(e.numbers, n); !there {
			gone = append(gone, n)
			if !e.current.Forgotten.Has(n) {
				done.Forgotten = done.Forgotten.With(n)
			}
		}
	}
	next.Forgotten = store.SpansOf(gone)
	done.Checkpoint, done.Txn, done.Epoch, done.Chosen = at, next.Txn, next.Epoch, to != nil
	return next, was, nil
}

// stands finds the whole checkpoint on which the stores stand, the newest if there are several: each store that is of the last epoch was made in it, or was built
// on its generation. 0 is the empty crawl.
func (e *evidence) stands() (at uint64, ok bool) {
	last := uint64(0)
	for _, m := range e.newest {
		last = max(last, m.Epoch)
	}
	fits := func(k *Checkpoint) bool {
		any := false
		for name, m := range e.newest {
			if m.Epoch != last {
				continue
			}
			generation := uint64(1)
			if of := k.of(name); of != nil {
				generation = of.Generation
			}
			if m.Generation != generation && m.BuiltOn() != generation {
				return false
			}
			any = true
		}
		return any
	}
	for _, n := range slices.Backward(e.numbers) {
		if k := e.whole[n]; k != nil && fits(k) {
			return n, true
		}
	}
	return 0, fits(&Checkpoint{})
}

// chosen refuses a checkpoint that is not whole.
func (c *Crawl) chosen(e *evidence, number uint64) error {
	if number == 0 {
		return nil
	}
	k := e.whole[number]
	if k == nil {
		_, err := readCheckpoint(c.fs, c.dir, number)
		return err
	}
	return c.present(k)
}

// present refuses a checkpoint if one of its manifests or files is missing.
func (c *Crawl) present(k *Checkpoint) error {
	for _, ks := range k.Stores {
		s := c.folder(ks.Name)
		m, err := bound(s, ks, k.Number)
		if err != nil {
			return err
		}
		if err := s.PresentAll(m); err != nil {
			return err
		}
	}
	return nil
}
