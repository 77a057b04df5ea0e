package crawl

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/folder/exchange"
	"mercator/pkg/folder/shard"
)

// initMap is the bucket map of a folder that Init makes or completes; nil without shards.
func (c *Crawl) initMap() (*shard.Map, error) {
	first := shard.File(c.dir, 1)
	m, err := shard.Read(c.fs, c.dir)
	made := err == nil // there is a CURRENT
	if errors.Is(err, fault.Usage) {
		// A folder that is not complete, or was not begun.
		if m, err = shard.ReadVersion(c.fs, c.dir, 1); errors.Is(err, fs.ErrNotExist) {
			m, err = nil, nil
		}
	}
	if err != nil {
		return nil, err
	}
	is := 0
	if m != nil {
		is = m.Shards
	}
	if c.opt.Shards > 0 && c.opt.Shards != is && (m != nil || made) {
		return nil, &fault.Error{Class: fault.Usage, File: c.dir, Found: fmt.Sprintf("a crawl of %s", countShards(is)), Want: countShards(c.opt.Shards),
			Hint: hintShards(c.dir, is, c.opt.Shards)}
	}
	if m != nil || c.opt.Shards == 0 {
		return m, nil
	}
	if m, err = shard.New(c.opt.Shards); err != nil {
		return nil, err
	}
	data, err := m.Encode()
	if err != nil {
		return nil, err
	}
	if err := durable.LinkFile(c.fs, first, data); errors.Is(err, fs.ErrExist) { // another has made it meanwhile
		return c.initMap()
	} else if err != nil {
		return nil, err
	}
	return m, nil
}

// hintShards says how a crawl comes to another number of shards.
func hintShards(dir string, is, want int) string {
	hint := "name another folder"
	if is > 0 && is < want {
		hint += ", or add shards: " + fault.Quote("mcrawl", "reshard", dir, fmt.Sprint(want))
	}
	return hint
}

func countShards(n int) string {
	switch n {
	case 0:
		return "no shards"
	case 1:
		return "1 shard"
	}
	return fmt.Sprintf("%d shards", n)
}

// Shards is how many the crawl has; 0 if it is not cut into shards.
func (c *Crawl) Shards() (int, error) {
	m, err := shard.Read(c.fs, c.dir)
	if m == nil || err != nil {
		return 0, err
	}
	return m.Shards, nil
}

// parts are the views of the shards, in order; of a crawl without shards it is c alone.
func (c *Crawl) parts() ([]*Crawl, error) {
	n, err := c.Shards()
	if err != nil {
		return nil, err
	}
	return c.partsOf(n), nil
}

// partsOf is parts of so many shards.
func (c *Crawl) partsOf(n int) []*Crawl {
	if n == 0 || c.under != "" {
		return []*Crawl{c}
	}
	parts := make([]*Crawl, n)
	for i := range parts {
		parts[i] = c.part(shard.Name(i))
	}
	return parts
}

// part is the view of a shard, or of a crawl without any ("").
func (c *Crawl) part(under string) *Crawl {
	part := *c
	part.under = under
	return &part
}

// roundsPath is a file in rounds/, of the shard or of the whole crawl.
func (c *Crawl) roundsPath(elem ...string) string {
	return filepath.Join(append([]string{c.dir, filepath.FromSlash(c.under), roundsDir}, elem...)...)
}

// frontier is the frontier that knows the names of the rounds: of several shards the first, since a commit closes a
// round in all.
func (c *Crawl) frontier() (*store.Store, error) {
	cur, err := c.current()
	if err != nil {
		return nil, err
	}
	under := c.under
	if cur.Map > 0 && under == "" {
		under = shard.Name(0)
	}
	return c.folder(filepath.Join(under, "frontier")), nil
}

// storesUnder lists the folders that hold stores: the crawl folder, the folder of each shard that exists, whatever the
// map says, and the modules folder in each of these.
func (c *Crawl) storesUnder() ([]string, error) {
	cur, err := c.current()
	if err != nil || cur.Map == 0 {
		return []string{"", store.ModulesDir}, err
	}
	return c.storesOfShards()
}

// storesOfShards is storesUnder of a crawl that has shards, or may have.
func (c *Crawl) storesOfShards() ([]string, error) {
	under := []string{"", store.ModulesDir}
	shards, err := c.shardFolders()
	for _, n := range shards {
		under = append(under, shard.Name(n), filepath.Join(shard.Name(n), store.ModulesDir))
	}
	return under, err
}

// shardFolders lists the numbers of the shards that have a folder.
func (c *Crawl) shardFolders() (numbers []int, err error) {
	list, err := c.fs.ReadDir(c.path(store.ShardsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range list {
		if _, n, ok := store.ShardAt(c.path(filepath.Join(store.ShardsDir, e.Name()))); ok {
			numbers = append(numbers, n)
		}
	}
	return numbers, err
}

// shardOf is the number of the shard that a store is of; -1 of one outside of shards.
func shardOf(s *store.Store) int {
	if n, ok := numbered(s.Shard(), store.ShardsDir+"/"); ok {
		return int(n)
	}
	return -1
}

// isSpare reports whether the folder of a shard above those that count is one of a bucket map that does not: of a change to more shards that was killed or
// given up, or from before which the crawl was restored. What is in it does not count.
func (c *Crawl) isSpare(n int) (bool, error) {
	versions, err := c.mapVersions()
	for _, version := range versions {
		if m, err := shard.ReadVersion(c.fs, c.dir, version); err == nil && 0 <= n && n < m.Shards {
			return true, nil
		}
	}
	return false, err
}

// exchanged binds the exchanges of the round that a checkpoint is to close: k has its ledgers already. It returns the
// ledgers of what was sent.
func (c *Crawl) exchanged(k *Checkpoint) ([]record.Ledger, error) {
	side := make([]record.Ledger, len(k.Shards))
	for i := range k.Shards {
		var err error
		if side[i].Joined, err = c.part(shard.Name(i)).sideLedgers(k.Txn); err != nil {
			return nil, err
		}
	}
	r := c.exchangesOf(k, side)
	var err error
	if k.Exchanges, err = exchange.Bind(r); err != nil {
		return nil, err
	}
	return c.sent(k)
}

// exchangesOf is a round of a checkpoint, as package exchange looks at it. side are the ledgers of further streams that each
// shard read.
func (c *Crawl) exchangesOf(k *Checkpoint, side []record.Ledger) exchange.Round {
	r := exchange.Round{FS: c.fs, Dir: c.roundsPath(k.Txn), Txn: k.Txn, Epoch: k.Epoch, Map: k.Map, Shards: len(k.Shards)}
	for i, l := range k.Ledgers() {
		r.Ledgers = append(r.Ledgers, record.Ledger{Joined: append([]record.Ledger{l}, side[i].Joined...)})
	}
	return r
}

// sideLedgers returns the ledgers of the record files that a shard keeps of a round. The frontier's ledger follows only the
// links; outcomes reach it as a file.
func (c *Crawl) sideLedgers(txn string) (ledgers []record.Ledger, err error) {
	list, err := c.fs.ReadDir(c.roundsPath(txn))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range list {
		if !e.Type().IsRegular() || durable.IsTemp(e.Name()) || !strings.HasSuffix(e.Name(), recordSuffix) {
			continue
		}
		file := c.roundsPath(txn, e.Name())
		f, err := c.fs.OpenFile(file, os.O_RDONLY, 0)
		if err != nil {
			return nil, err
		}
		t, err := record.ReadTrailer(f, record.ReaderOptions{Name: file})
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		ledgers = append(ledgers, t.Ledger)
	}
	return ledgers, nil
}

// sent are the ledgers of the manifests of a checkpoint's exchanges: of each, up to where its rows were sent.
func (c *Crawl) sent(k *Checkpoint) (ledgers []record.Ledger, err error) {
	for _, e := range k.Exchanges {
		for from := range k.Shards {
			b, err := exchange.ReadManifest(c.fs, filepath.Join(c.roundsPath(k.Txn), e.Name),
				exchange.ID{Exchange: e.Name, Round: k.Txn, Epoch: k.Epoch, Map: k.Map, Shards: len(k.Shards)}, from)
			if err != nil {
				return nil, err
			}
			ledgers = append(ledgers, b.Ledger)
		}
	}
	return ledgers, nil
}
