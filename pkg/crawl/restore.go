package crawl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/folder/shard"
)

// Abandon gives up what was done since the current checkpoint: the open round,
// and changes without a name. Contact times stay. It returns what the crawl stood at.
func (c *Crawl) Abandon(ctx context.Context) (before *State, err error) {
	err = c.locked(ctx, "mckpt abandon", func(cur store.Current) error {
		if before, err = c.State(); err != nil {
			return err
		}
		if err := c.complete(cur.Checkpoint, nil, nil); err != nil {
			return err
		}
		cur.Epoch++
		if err := store.WriteCurrent(c.fs, c.dir, cur); err != nil {
			return err
		}
		c.tidy(ctx)
		return nil
	})
	return before, err
}

// tidy lets the stores follow at once after abandon or restore, and deletes what that left without a use. It is
// done as far as may be: a store that another process holds, or that is damaged, follows at its next change, and
// keeps its garbage until gc.
func (c *Crawl) tidy(ctx context.Context) {
	stores, err := c.Stores()
	if err != nil {
		return
	}
	views := map[*store.Store]*store.View{}
	for _, s := range stores {
		lock, err := store.Lock(ctx, c.fs, s.Path(store.LockFile), "mckpt", 0)
		if err != nil {
			continue
		}
		defer lock.Close() // nothing was written through it
		if v, err := s.Settle(); err == nil {
			views[s] = v
		}
	}
	cur, err := c.current() // of shards another machine may have changed it
	if err != nil {
		return
	}
	bound, err := c.bound(cur)
	if err != nil {
		return
	}
	for _, s := range stores {
		if v := views[s]; v != nil {
			_, _ = s.Collect(v, bound[s.NameInCrawl()])
		}
	}
}

// bound lists the generations of each store that checkpoints bind.
func (c *Crawl) bound(cur store.Current) (map[string][]uint64, error) {
	numbers, err := checkpointNumbers(c.fs, c.dir, cur)
	if err != nil {
		return nil, err
	}
	if n := cur.Checkpoint; n > 0 && !slices.Contains(numbers, n) { // its file is lost: what it binds is not to be deleted
		numbers = append(numbers, n)
	}
	all := map[string][]uint64{}
	for _, n := range numbers {
		k, err := readCheckpoint(c.fs, c.dir, n)
		if err != nil {
			return nil, err
		}
		for _, s := range k.Stores {
			all[s.Name] = append(all[s.Name], s.Generation)
		}
	}
	return all, nil
}

// Restore lets the crawl go on from a checkpoint, 0 being the empty crawl. What
// was done since is given up, but for contact times; later checkpoints stay and
// can be restored too. A checkpoint that is not complete is refused. The files under rounds/ follow, as TidyRounds moves them: if the process
// is killed before that is done, the same Restore or TidyRounds does it, and Verify names the rounds.
//
// A newest generation that is damaged is no hindrance: its number stays used, and the checkpoint's
// content is published above it, with the checkpoint's own sticky files.
// Options.Warn is told.
func (c *Crawl) Restore(ctx context.Context, number uint64) error {
	return c.locked(ctx, "mckpt restore", func(cur store.Current) error {
		var k *Checkpoint
		if number > 0 {
			var err error
			if k, err = c.checkpoint(cur, number); err != nil {
				return err
			}
		}
		over := map[*store.Store]*store.Manifest{}
		if err := c.complete(number, k, func(s *store.Store, m *store.Manifest, damage error) error {
			above, err := s.Unused()
			if err != nil {
				return err
			}
			next := *m
			next.Parent, next.Base = m.Generation, m.Generation
			next.Generation = above
			next.Epoch = cur.Epoch + 1
			over[s] = &next
			c.warn(fmt.Errorf("%w; the store goes on from the checkpoint's manifest, with its contact times; delete the damaged one: %s", damage, fault.Quote("mckpt", "gc", c.dir)+" --keep N"))
			return nil
		}); err != nil {
			return err
		}
		cur.Epoch++
		cur.Checkpoint, cur.Txn, cur.Stores = number, "", nil
		if k != nil {
			cur.Txn, cur.Stores, cur.Map = k.Txn, k.generations(), k.Map
		}
		if err := store.WriteCurrent(c.fs, c.dir, cur); err != nil {
			return err
		}
		// Until this is done, the store is refused, and restore can be run again.
		for s, m := range over {
			if err := s.Publish(m); err != nil {
				return err
			}
		}
		c.tidy(ctx)
		if _, err := c.tidyRounds(cur); err != nil {
			return &fault.Error{Err: err, Hint: fmt.Sprintf("the crawl stands at checkpoint %d, but files of its rounds are in rounds/undone; put them back: %s", number, fault.Quote("mckpt", "rounds", c.dir))}
		}
		return nil
	})
}

// complete refuses a checkpoint from which the crawl could not go on: each store's manifest must be
// the one that it binds, and each file of it be there, be readable and have its length. What
// is in the files Verify reads. k is the checkpoint of the number, nil if it was not read yet. damaged, if
// not nil, is called for each damaged newest generation, with the store's manifest at the checkpoint.
func (c *Crawl) complete(number uint64, k *Checkpoint, damaged func(s *store.Store, m *store.Manifest, err error) error) (err error) {
	if number > 0 && k == nil {
		if k, err = readCheckpoint(c.fs, c.dir, number); err != nil {
			return err
		}
	}
	stores, err := c.folders()
	if err != nil {
		return err
	}
	if k != nil && k.Map > 0 {
		if _, err := shard.ReadVersion(c.fs, c.dir, k.Map); err != nil {
			return err
		}
	}
	if k != nil {
		for _, ks := range k.Stores {
			if _, err := bound(c.folder(ks.Name), ks, number); err != nil {
				return err
			}
		}
	}
	for _, s := range stores {
		newest, lost := s.Newest()
		if errors.Is(lost, fs.ErrNotExist) {
			made, e := s.Made()
			if e != nil { // it has lost its HEAD
				return e
			}
			if !made && (k == nil || k.of(s.NameInCrawl()) == nil) {
				continue // one that is being made
			}
		}
		if lost != nil && (damaged == nil || !errors.Is(lost, fault.Corrupt) && !errors.Is(lost, fault.Truncated) && !errors.Is(lost, fault.WrongKind)) {
			return lost
		}
		generation := uint64(1)
		if k != nil && k.of(s.NameInCrawl()) != nil {
			generation = k.of(s.NameInCrawl()).Generation
		}
		m, err := s.At(generation)
		if err != nil {
			return err
		}
		if lost == nil {
			if lost = checkSticky(s, newest); lost != nil && (damaged == nil || !store.Damaged(lost)) {
				return lost
			}
		}
		if lost == nil {
			m = m.WithSticky(newest)
		} else if err := damaged(s, m, lost); err != nil {
			return err
		}
		if err := s.PresentAll(m); err != nil {
			return err
		}
	}
	return nil
}

// checkSticky reads the sticky files of a generation, which are small.
func checkSticky(s *store.Store, m *store.Manifest) error {
	for _, e := range m.Files {
		if e.Sticky {
			if err := s.CheckFile(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// bound is the manifest that a checkpoint binds.
func bound(s *store.Store, ks CheckpointStore, number uint64) (*store.Manifest, error) {
	sum, err := s.ManifestSum(ks.Generation)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &fault.Error{Class: fault.Corrupt, File: s.ManifestPath(ks.Generation), Found: "missing", Want: fmt.Sprintf("the manifest that checkpoint %d binds", number), Err: fs.ErrNotExist, Hint: s.HintMissing()}
	}
	if err != nil {
		return nil, err
	}
	if sum != ks.Sum {
		return nil, &fault.Error{Class: fault.Corrupt, File: s.ManifestPath(ks.Generation), Found: "checksum " + sum, Want: fmt.Sprintf("%s, as checkpoint %d says", ks.Sum, number)}
	}
	return s.At(ks.Generation)
}

// deleted is the error of checkpoints that have no file and were not forgotten.
func (c *Crawl) deleted(first, last uint64) error {
	found := "missing"
	if last > first {
		found = fmt.Sprintf("missing, with all to %d", last)
	}
	return &fault.Error{Class: fault.Corrupt, File: checkpointPath(c.dir, first), Found: found, Want: "the file of each checkpoint that gc has kept", Err: fs.ErrNotExist,
		Hint: "put it back from a copy, or go on without: it is needed to go back to it, and for nothing else"}
}
