package crawl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"mercator/formats/store"
	"mercator/pkg/durable"
	"mercator/pkg/fault"
)

// GC forgets all but the newest keep checkpoints, and the current one, and
// deletes what no generation left needs. It refuses while a round is open.
func (c *Crawl) GC(ctx context.Context, keep int) (forgotten []uint64, freed store.Freed, err error) {
	if keep < 1 {
		return nil, freed, &fault.Error{Class: fault.Usage, Place: "--keep", Found: fmt.Sprint(keep), Want: "1 or more"}
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
		for i, n := range numbers {
			if i < len(numbers)-keep && n != cur.Checkpoint {
				cur.Forgotten = cur.Forgotten.With(n)
				forgotten = append(forgotten, n)
			}
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
			// One above CURRENT's may be of a move on another machine, whose locks do not hold for this one.
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

// mapsNeeded are the versions of the bucket map that count, or that a checkpoint names.
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
	return needed, nil
}
