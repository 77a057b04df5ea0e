package crawl

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"mercator/formats/store"
	"mercator/pkg/fault"
	"mercator/pkg/shard"
)

// The stage files of a round are no state of a store: a driver keeps them in rounds/rN, with an
// empty file epoch.E, which says that they were made in epoch E of the crawl. Nothing here
// syncs: who is killed leaves what the next call puts right.

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
// Many may do so at once.
func (c *Crawl) BeginShardRound(n int, round string) (ofShard, ofCrawl string, err error) {
	cur, err := c.current()
	if err == nil {
		ofCrawl, err = c.beginRound(round, cur.Epoch)
	}
	if err == nil {
		ofShard, err = c.part(shard.Name(n)).beginRound(round, cur.Epoch)
	}
	return ofShard, ofCrawl, err
}

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

// TidyRounds keeps under rounds/ the stage files of the rounds that count: it moves those of
// rounds that abandon or restore has undone to rounds/undone/rN.EPOCH, and tells Options.Warn,
// so that no later round takes them for its own. It puts back those of rounds that a later
// restore has taken again. It returns the number of the next round, as NextRound does. Shards have files in rounds/ of their own.
func (c *Crawl) TidyRounds() (next uint64, err error) {
	cur, err := c.current()
	if err != nil {
		return 0, err
	}
	if next, err = c.NextRound(); err != nil {
		return 0, err
	}
	parts, err := c.parts()
	if err != nil {
		return 0, err
	}
	if cur.Map > 0 {
		parts = append(parts, c) // what they exchanged
	}
	for _, part := range parts {
		if err := part.tidyRounds(cur, next); err != nil {
			return 0, err
		}
	}
	return next, nil
}

func (c *Crawl) tidyRounds(cur store.Current, next uint64) error {
	list, err := os.ReadDir(c.roundsPath())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range list {
		n, isRound := roundNumber(e.Name())
		if !isRound || n < next || !e.IsDir() {
			continue
		}
		epoch, err := c.madeIn(e.Name())
		if err == nil && epoch != epochText(cur.Epoch) {
			err = c.setAside(e.Name(), epoch)
		}
		if err != nil {
			return err
		}
	}
	rounds, err := c.kept(cur)
	if err != nil {
		return err
	}
	for _, r := range rounds {
		if _, isRound := roundNumber(r.name); isRound && !r.open && r.first == r.last {
			if err := c.tidyClosed(r.name, epochText(r.first)); err != nil {
				return err
			}
		}
	}
	return nil
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
		if errors.Is(err, fs.ErrNotExist) {
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

// tidyClosed exchanges the files of a round that was closed in an epoch for those of that epoch.
func (c *Crawl) tidyClosed(round, epoch string) error {
	made, err := c.madeIn(round)
	if err != nil {
		return err
	}
	dir := c.roundsPath(round)
	if made != "" && made != epoch {
		if err := c.setAside(round, made); err != nil {
			return err
		}
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = os.Rename(c.roundsPath(undoneDir, round+"."+epoch), dir)
	if errors.Is(err, fs.ErrNotExist) { // the crawl keeps no files of it
		return nil
	}
	return err
}

// roundNumber is that of r1, r2, …
func roundNumber(name string) (uint64, bool) { return numbered(name, "r") }

// numbered is the number in a name that is a prefix and a number.
func numbered(name, prefix string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, prefix)
	n, err := strconv.ParseUint(digits, 10, 53)
	return n, ok && err == nil
}

// madeIn is the epoch in which a round's files were made; "" where they do not say.
func (c *Crawl) madeIn(round string) (epoch string, err error) {
	list, err := c.fs.ReadDir(c.roundsPath(round))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	for _, e := range list {
		if of, ok := strings.CutPrefix(e.Name(), epochPrefix); ok {
			epoch = of
		}
	}
	return epoch, err
}

// setAside moves a round's files; those of the same round and epoch, which it made again, go.
func (c *Crawl) setAside(round, epoch string) error {
	if epoch == "" {
		epoch = "unknown"
	}
	from, to := c.roundsPath(round), c.roundsPath(undoneDir, round+"."+epoch)
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	if c.opt.Warn != nil {
		c.opt.Warn(&fault.Error{File: from, Found: fmt.Sprintf("its files are not of the round that counts: moved to %s", to)})
	}
	return nil
}
