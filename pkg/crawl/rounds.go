package crawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/folder/shard"
)

// The stage files of a round are no state of a store: a driver keeps them in rounds/rN, with an
// empty file epoch.E, which says that they were made in epoch E of the crawl.

// epochPrefix begins the name of the file that says which epoch a round's files are of.
const epochPrefix = "epoch."

// undoneDir, in rounds, takes the files of rounds that abandon or restore has undone: rN.E.
const undoneDir = "undone"

// BeginRound makes the folder of a round's files, in the present epoch, and returns it.
func (c *Crawl) BeginRound(round string) (string, error) {
	cur, err := c.current()
	if err != nil {
		return "", err
	}
	return c.beginRound(round, cur.Epoch)
}

// BeginShardRound makes the folders of a round's files of a shard, and of the whole crawl, which hold what shards exchange.
// Many may do so at once. Whoever is first sets aside the files of a round of that name that was undone.
func (c *Crawl) BeginShardRound(ctx context.Context, n int, round string) (ofShard, ofCrawl string, err error) {
	cur, err := c.current()
	if err != nil {
		return "", "", err
	}
	begun := func() bool {
		made, _, err := c.madeIn(round)
		return err == nil && made == epochText(cur.Epoch)
	}
	if ofCrawl = c.roundsPath(round); !begun() {
		err = c.locked(ctx, "round "+round, func(now store.Current) error {
			if cur = now; begun() {
				return nil
			}
			if _, err := c.tidyRounds(now); err != nil {
				return err
			}
			_, err := c.beginRound(round, cur.Epoch)
			return err
		})
	}
	if err == nil {
		ofShard, err = c.part(shard.Name(n)).beginRound(round, cur.Epoch)
	}
	return ofShard, ofCrawl, err
}

// beginRound makes the folder, and the file that names its epoch.
func (c *Crawl) beginRound(round string, epoch uint64) (string, error) {
	dir := c.roundsPath(round)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", err
	}
	old, err := filepath.Glob(filepath.Join(QuoteGlob(dir), epochPrefix+"*"))
	if err != nil {
		return "", err
	}
	name := epochPrefix + epochText(epoch)
	for _, file := range old {
		if filepath.Base(file) != name {
			if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return "", err
			}
		}
	}
	return dir, os.WriteFile(filepath.Join(dir, name), nil, 0o666)
}

// QuoteGlob is a pattern that matches a path alone.
func QuoteGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// TidyRounds keeps under rounds/ the files of the rounds that count: it moves the files of rounds that abandon or restore has
// undone to rounds/undone/rN.EPOCH, so that no later round takes them for its own, and puts back the files of rounds that a later
// restore has taken again. It tells Options.Warn, in a line for each direction, and returns the number of the next round, as NextRound does.
// Shards have files in rounds/ of their own. Each move is a rename, so a process that is killed leaves what the next call finishes.
func (c *Crawl) TidyRounds(ctx context.Context) (next uint64, err error) {
	err = c.locked(ctx, "mckpt rounds", func(cur store.Current) error {
		next, err = c.tidyRounds(cur)
		return err
	})
	if c.fs == durable.OS { // what exports have left beside the folder when they were killed
		if dir, e := filepath.Abs(c.dir); e == nil {
			durable.RemoveLeftovers(dir, func(name string) bool {
				rest, ours := strings.CutPrefix(name, filepath.Base(dir))
				return ours && (strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "-"))
			})
		}
	}
	return next, err
}

// tidyRounds is TidyRounds for who has the lock.
func (c *Crawl) tidyRounds(cur store.Current) (next uint64, err error) {
	if next, err = c.NextRound(); err != nil {
		return 0, err
	}
	var parts []*Crawl
	if cur.Map > 0 {
		shards, err := c.shardFolders() // also those from before which the crawl was restored
		if err != nil {
			return 0, err
		}
		for _, n := range shards {
			parts = append(parts, c.part(shard.Name(n)))
		}
	}
	parts = append(parts, c) // of shards: what they exchanged
	aside, back := map[string]bool{}, map[string]bool{}
	for _, part := range parts {
		if err := part.tidyPart(cur, next, aside, back); err != nil {
			return 0, err
		}
	}
	if len(aside) > 0 {
		c.warn(&fault.Error{File: c.roundsPath(), Found: "files that do not count were moved to rounds/undone: " + rangeOf(aside)})
	}
	if len(back) > 0 {
		c.warn(&fault.Error{File: c.roundsPath(), Found: "files that count again were moved back from rounds/undone: " + rangeOf(back)})
	}
	return next, nil
}

// tidyPart moves the files of a shard, or of a crawl without any, and notes the rounds that it moved.
func (c *Crawl) tidyPart(cur store.Current, next uint64, aside, back map[string]bool) error {
	list, err := c.fs.ReadDir(c.roundsPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	rounds, err := c.kept(cur)
	if err != nil {
		return err
	}
	counts := map[string]string{} // the epoch of each closed round's files; "" where that is not known
	for _, r := range rounds {
		if !r.open {
			counts[r.name] = ""
			if r.first == r.last {
				counts[r.name] = epochText(r.first)
			}
		}
	}
	moved := false
	for _, e := range list {
		if e.IsDir() && e.Name() != undoneDir {
			c.removeCut(e.Name())
		}
		want, closed := counts[e.Name()]
		if !e.IsDir() || e.Name() == undoneDir || closed && want == "" {
			continue
		}
		made, empty, err := c.madeIn(e.Name())
		if err != nil {
			return err
		}
		if empty {
			continue // beginRound may be making it
		}
		n, isRound := roundNumber(e.Name())
		if closed && made != "" && made != want || !closed && made != epochText(cur.Epoch) && (made != "" || isRound && n >= next) {
			if err := c.setAside(e.Name(), made); err != nil {
				return err
			}
			moved, aside[e.Name()] = true, true
		}
	}
	for _, r := range rounds {
		if counts[r.name] == "" {
			continue
		}
		from, to := c.undonePath(r.name, counts[r.name]), c.roundsPath(r.name)
		if there, err := durable.Exists(c.fs, to); there || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		if err := c.fs.Rename(from, to); err == nil {
			moved, back[r.name] = true, true
		} else if !errors.Is(err, fs.ErrNotExist) { // else the crawl keeps no files of it
			return err
		}
	}
	if !moved {
		return nil
	}
	return errors.Join(c.fs.SyncDir(c.roundsPath()), c.fs.SyncDir(c.roundsPath(undoneDir)))
}

// removeCut removes, from the folder of a round, files that were not whole when their writers were killed.
func (c *Crawl) removeCut(round string) {
	if c.fs == durable.OS { // only files of the real file system belong to a process
		durable.RemoveLeftovers(c.roundsPath(round, "any"), func(string) bool { return true })
	}
}

func (c *Crawl) warn(err error) {
	if c.opt.Warn != nil {
		c.opt.Warn(err)
	}
}

// rangeOf is how many rounds there are, and from which to which.
func rangeOf(rounds map[string]bool) string {
	var others []string
	lowest, highest := uint64(math.MaxUint64), uint64(0)
	for name := range rounds {
		if n, isRound := roundNumber(name); isRound {
			lowest, highest = min(lowest, n), max(highest, n)
		} else {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	var parts []string
	if lowest == highest {
		parts = append(parts, fmt.Sprintf("r%d", lowest))
	} else if lowest < highest {
		parts = append(parts, fmt.Sprintf("r%d to r%d", lowest, highest))
	}
	if len(others) > 0 {
		parts = append(parts, firstOf(others))
	}
	if len(rounds) == 1 {
		return "round " + parts[0]
	}
	return fmt.Sprintf("%d rounds (%s)", len(rounds), strings.Join(parts, ", "))
}

// Back calls each for the checkpoints that the crawl went on from, the current one first, as far
// as they are kept: which came before a forgotten one is not known.
func (c *Crawl) Back(each func(*Checkpoint) error) error {
	cur, err := c.current()
	if err != nil {
		return err
	}
	for at := cur.Checkpoint; at > 0; {
		k, err := c.checkpoint(cur, at)
		if errors.Is(err, fs.ErrNotExist) || at != cur.Checkpoint && store.Damaged(err) { // Verify tells of it
			return nil
		}
		if err == nil {
			err = each(k)
		}
		if err != nil {
			return err
		}
		at = k.Parent
	}
	return nil
}

// roundNumber returns the number in a name such as r1.
func roundNumber(name string) (uint64, bool) { return numbered(name, "r") }

// numbered returns the number in a name of prefix and number.
func numbered(name, prefix string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, prefix)
	n, err := strconv.ParseUint(digits, 10, 53)
	return n, ok && err == nil
}

// madeIn returns the epoch in which a round's files were made, from the folder's mark or, in a folder made by hand, from its records;
// "" if neither says. empty: there are no files.
func (c *Crawl) madeIn(round string) (epoch string, empty bool, err error) {
	list, err := c.fs.ReadDir(c.roundsPath(round))
	if errors.Is(err, fs.ErrNotExist) {
		return "", true, nil
	}
	for _, e := range list {
		if of, ok := strings.CutPrefix(e.Name(), epochPrefix); ok {
			epoch = of
		}
	}
	for _, e := range list {
		if epoch == "" && err == nil && e.Type().IsRegular() && strings.HasSuffix(e.Name(), recordSuffix) {
			epoch, err = c.epochOf(c.roundsPath(round, e.Name()))
		}
	}
	return epoch, len(list) == 0, err
}

// undonePath is where the files of a round go that does not count.
func (c *Crawl) undonePath(round, epoch string) string {
	return c.roundsPath(undoneDir, round+"."+epoch)
}

// setAside moves a round's files.
func (c *Crawl) setAside(round, epoch string) error {
	to := c.undonePath(round, cmp.Or(epoch, "unknown"))
	for n, free := 2, to; ; n++ {
		there, err := durable.Exists(c.fs, to)
		if err != nil {
			return err
		}
		if !there {
			break
		}
		to = fmt.Sprintf("%s-%d", free, n)
	}
	if err := durable.MkdirAll(c.fs, filepath.Dir(to)); err != nil {
		return err
	}
	return c.fs.Rename(c.roundsPath(round), to)
}
