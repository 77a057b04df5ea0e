package crawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/folder/shard"
)

// GC forgets all but the newest keep checkpoints, and the current one, and
// deletes what no generation left needs. It refuses while a round is open. Before it forgets any it reads every file of those that stay, as Verify does, and
// refuses where one is damaged: what it would forget may be all that there is to go back to.
func (c *Crawl) GC(ctx context.Context, keep int) (forgotten []uint64, freed store.Freed, err error) {
	if keep < 1 {
		return nil, freed, &fault.Error{Class: fault.Usage, Place: "--keep", Found: fmt.Sprint(keep), Want: "1 or more"}
	}
	looked, err := c.sound(ctx, keep)
	if err != nil {
		return nil, freed, err
	}
	err = c.locked(ctx, "mckpt gc", func(cur store.Current) error {
		stores, unlock, err := c.lockStores(ctx, "mckpt gc")
		if err != nil {
			return err
		}
		defer unlock()
		views := make([]*store.View, len(stores))
		for i, s := range stores {
			if views[i], err = s.Settle(); err != nil {
				return err
			}
			if views[i].Open() != "" {
				return s.RoundOpen("gc", views[i])
			}
		}
		numbers, err := checkpointNumbers(c.fs, c.dir, cur)
		if err != nil {
			return err
		}
		// A checkpoint goes before what it needs.
		forgotten = toForget(numbers, cur, keep)
		if len(forgotten) > 0 && (looked.Epoch != cur.Epoch || looked.Last != cur.Last || looked.Forgotten != cur.Forgotten) {
			forgotten = nil
			return store.CurrentChanged(c.dir, nil)
		}
		for _, n := range forgotten {
			cur.Forgotten = cur.Forgotten.With(n)
		}
		if len(forgotten) > 0 {
			if err := store.WriteCurrent(c.fs, c.dir, cur); err != nil {
				return err
			}
			for _, v := range views {
				v.Current = cur
			}
		}
		bound, err := c.bound(cur)
		if err != nil {
			return err
		}
		for i, s := range stores {
			f, err := s.Collect(views[i], bound[s.NameInCrawl()])
			if err != nil {
				return err
			}
			freed.Files += f.Files
			freed.Bytes += f.Bytes
		}
		return c.removeLeftovers(cur, &freed)
	})
	return forgotten, freed, err
}

// toForget lists the checkpoints that are neither the current one nor of the newest.
func toForget(numbers []uint64, cur store.Current, keep int) (old []uint64) {
	for i, n := range numbers {
		if i < len(numbers)-keep && n != cur.Checkpoint {
			old = append(old, n)
		}
	}
	return old
}

// sound reads what GC is to keep, without a lock: fault.Corrupt if something is damaged. It reads nothing if none is to be forgotten. GC
// is refused if the crawl has changed since.
func (c *Crawl) sound(ctx context.Context, keep int) (cur store.Current, err error) {
	if cur, err = c.newest(); err != nil {
		return cur, err
	}
	numbers, err := checkpointNumbers(c.fs, c.dir, cur)
	if err != nil {
		return cur, err
	}
	old := toForget(numbers, cur, keep)
	if len(old) == 0 {
		return cur, nil
	}
	stores, err := c.Stores()
	if err != nil {
		return cur, err
	}
	v := newVerifier(ctx, c)
	v.current = cur.Checkpoint
	for _, s := range stores { // first, since it may refuse
		look, err := s.Look()
		if err != nil {
			return cur, err
		}
		if look.Open() != "" {
			return cur, s.RoundOpen("gc", look)
		}
		v.claims(s, look.Counts, 0)
	}
	var damage error
	if n := cur.Checkpoint; n > 0 && !slices.Contains(numbers, n) {
		numbers = append(numbers, n) // its file is lost
		slices.Sort(numbers)
	}
	for _, n := range numbers {
		if slices.Contains(old, n) {
			continue
		}
		if err := v.bind(n); err != nil {
			v.problem(err)
			v.broken[n] = true
			damage = cmp.Or(damage, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.files)) {
		bad, err := v.content(name)
		if err != nil && !errors.Is(err, errLonger) && (!errors.Is(err, fs.ErrNotExist) || v.missed(name)) {
			v.problem(err)
			v.note(name, bad)
			damage = cmp.Or(damage, err)
		}
		if err := cmp.Or(context.Cause(ctx), v.failed); err != nil {
			return cur, err
		}
	}
	if v.parts, err = v.shards(cur, stores); err != nil {
		return cur, err
	}
	for n := cur.Checkpoint; slices.Contains(numbers, n) && !slices.Contains(old, n); n = v.bound[n] {
		err := v.roundSound(n)
		if err := cmp.Or(context.Cause(ctx), v.failed); err != nil {
			return cur, err
		}
		if err != nil {
			v.broken[n] = true
			damage = cmp.Or(damage, err)
		}
	}
	if damage == nil {
		return cur, v.failed
	}
	if now, err := c.current(); err == nil && (now.Epoch != cur.Epoch || now.Last != cur.Last || now.Forgotten != cur.Forgotten) {
		return cur, store.CurrentChanged(c.dir, nil)
	}
	refused := &fault.Error{Class: fault.Corrupt, Err: damage, Found: damage.Error() + "; nothing was forgotten",
		Hint: "see all that is damaged, and what to do: " + fault.Quote("mckpt", "verify", c.dir)}
	if !v.broken[0] && !v.broken[cur.Checkpoint] {
		refused.Hint = "put it back from a copy"
		if newest := slices.Max(slices.Collect(maps.Keys(v.broken))); newest < numbers[len(numbers)-1] {
			i, _ := slices.BinarySearch(numbers, newest+1)
			refused.Hint += ", or keep only those that came after it: " + fault.Quote("mckpt", "gc", c.dir, "--keep", fmt.Sprint(len(numbers)-i))
		}
	}
	return cur, refused
}

// roundSound reads the record files that a checkpoint names of its round, and returns what is wrong with the first that is damaged or missing. Rounds
// that are gone as a whole were moved elsewhere, and files of another epoch are not the checkpoint's: both pass.
func (v *verifier) roundSound(number uint64) (damage error) {
	if _, ok := v.bound[number]; !ok {
		return nil // damage of the checkpoint is told
	}
	k, err := v.read(number)
	if err != nil {
		v.problem(err)
		return err
	}
	if k == nil {
		return nil // forgotten meanwhile: then gc is refused
	}
	for _, part := range v.parts {
		if there, err := durable.Exists(v.c.fs, part.roundsPath(k.Txn)); err == nil && !there {
			continue
		}
		if epoch, _, err := part.madeIn(k.Txn); err == nil && epoch != "" && epoch != epochText(k.Epoch) {
			continue
		}
		for _, want := range k.filesOf(part.under) {
			path := part.roundsPath(k.Txn, want.Name)
			have, err := roundFile(v.c.fs, path, v.watched)
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				err = want.differs(path, have, err, number)
			}
			if err != nil {
				v.problem(err)
				damage = cmp.Or(damage, err)
			}
		}
	}
	return damage
}

// removeLeftovers deletes forgotten checkpoints, bucket maps that no checkpoint names, and unpublished files of CURRENT and of checkpoints,
// which are of commands that were killed: others hold the lock for them.
func (c *Crawl) removeLeftovers(cur store.Current, freed *store.Freed) error {
	maps, err := c.mapsNeeded(cur)
	if err != nil {
		return err
	}
	for _, under := range []string{"", checkpointsDir} {
		list, err := c.fs.ReadDir(c.path(under))
		if err != nil {
			return err
		}
		for _, e := range list {
			unpublished := durable.IsTemp(e.Name()) && (under != "" || (strings.HasPrefix(e.Name(), ".CURRENT.") || strings.HasPrefix(e.Name(), ".MAP-"))) // others may be of an output that is being written
			n, err := strconv.ParseUint(e.Name(), 10, 64)
			gone := under != "" && err == nil && cur.Forgotten.Has(n)
			version, isMap := mapVersion(e.Name())
			// A map above CURRENT's stays: it may belong to a move on another machine, which this lock does not keep out.
			if isMap = isMap && under == "" && !maps[version] && version < cur.Map; !unpublished && !gone && !isMap {
				continue
			}
			info, err := e.Info()
			if err == nil {
				err = c.fs.Remove(c.path(filepath.Join(under, e.Name())))
			}
			if errors.Is(err, fs.ErrNotExist) {
				continue // a gc on another machine was quicker
			}
			if err != nil {
				return err
			}
			if unpublished || isMap {
				freed.Files++
				freed.Bytes += info.Size()
			}
		}
	}
	return nil
}

// mapsNeeded are the versions of the bucket map that count, that a checkpoint names, or that tell of spare shards.
func (c *Crawl) mapsNeeded(cur store.Current) (map[uint64]bool, error) {
	numbers, err := checkpointNumbers(c.fs, c.dir, cur)
	if err != nil {
		return nil, err
	}
	needed := map[uint64]bool{cur.Map: true}
	for _, n := range numbers {
		k, err := readCheckpoint(c.fs, c.dir, n)
		if err != nil {
			return nil, err
		}
		needed[k.Map] = true
	}
	versions, err := c.mapVersions()
	if err != nil {
		return nil, err
	}
	is, err := c.Shards()
	for _, version := range versions {
		if m, err := shard.ReadVersion(c.fs, c.dir, version); err == nil && m.Shards > is {
			needed[version] = true
		}
	}
	return needed, err
}
