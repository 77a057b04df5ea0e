package crawl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/folder/bodies"
	"mercator/pkg/folder/exchange"
	"mercator/pkg/folder/shard"
)

// roundEnd finds the frontier's transaction that ends a round: the update, or the add, raise or release if no batch was
// taken. Its ledger holds the ledger of the whole round. If there is no such transaction, missing names it.
func roundEnd(m *store.Manifest, txn string) (end *store.Done, missing string) {
	missing = fmt.Sprintf("no update or add of %q", txn)
	batch := false
	for i := range m.Done {
		d := &m.Done[i]
		if d.Txn != txn {
			continue
		}
		switch d.Verb {
		case "update":
			return d, ""
		case "add", "raise", "release", shard.MoveVerb:
			end = d
		case "next":
			batch = true
		}
	}
	if batch { // closed now, it could never land
		return nil, fmt.Sprintf("no update of %q, whose batch is out", txn)
	}
	return end, missing
}

// Commit closes the round txn by a checkpoint: every store's generation, and the
// round's ledger. It refuses (fault.Conflict) unless the frontier committed update
// of that name, or add, raise or release if it took no batch, and every store in its ledger committed the round. Made is
// false if the round was closed before; k then holds its name, and its number if
// that checkpoint is not forgotten.
//
// With interval, the checkpoint before the new one is forgotten if it was made
// less than that after the one before it; the first checkpoint stays.
func (c *Crawl) Commit(ctx context.Context, txn string, now time.Time, interval time.Duration) (k *Checkpoint, made bool, err error) {
	return c.commitWith(ctx, txn, now, interval, 0)
}

// commitWith is Commit, with another version of the bucket map unless that is 0.
func (c *Crawl) commitWith(ctx context.Context, txn string, now time.Time, interval time.Duration, version uint64) (k *Checkpoint, made bool, err error) {
	if err := store.CheckTxn(txn); err != nil {
		return nil, false, err
	}
	err = c.locked(ctx, "mckpt commit "+txn, func(cur store.Current) error {
		stores, unlock, err := c.lockStores(ctx, "mckpt commit "+txn)
		if err != nil {
			return err
		}
		defer unlock()
		if version > 0 {
			if _, err := shard.ReadVersion(c.fs, c.dir, version); err != nil {
				return err
			}
			cur.Map = version
		}
		k, made, err = c.commit(cur, stores, txn, now, version > 0)
		thin := false
		if err == nil && made {
			thin, err = c.thin(cur, k, interval)
		}
		var syncs []func() error
		if err == nil && made {
			var file *durable.Atomic
			if k, file, err = c.write(k); file != nil {
				defer file.Abort()
				syncs = []func() error{file.Seal, func() error { return c.fs.SyncDir(filepath.Dir(file.Name())) }}
			}
		}
		if err != nil {
			if is, e := c.current(); e == nil && cur.Map > 0 && (is.Epoch != cur.Epoch || is.Last != cur.Last || is.Checkpoint != cur.Checkpoint) {
				return store.CurrentChanged(c.dir, err) // some stores were of before, some of after
			}
			return err
		}
		if !made {
			c.removeParts(cur, k.Number)
			return nil
		}
		next := cur
		next.Checkpoint, next.Txn, next.Stores, next.Last = k.Number, k.Txn, k.generations(), k.Number
		for n := cur.Last + 1; n < k.Number; n++ {
			next.Forgotten = next.Forgotten.With(n) // of commits that lost or died
		}
		if thin {
			next.Forgotten = next.Forgotten.With(k.Parent)
		}
		if err := store.WriteCurrent(c.fs, c.dir, next, syncs...); err != nil {
			return err
		}
		if parts, err := c.parts(); err == nil {
			for _, part := range parts {
				part.removeCut(txn)
			}
		}
		c.removeParts(cur, k.Parent, k.Number) // of the parent those that a kill has left
		for _, s := range k.Stores {
			if s.Kind == "fetch" {
				_ = bodies.Remove(c.fs, c.path(filepath.FromSlash(s.Name))) // what stays goes with the next round
			}
		}
		if thin {
			err = c.fs.Remove(checkpointPath(c.dir, k.Parent))
		}
		return err
	})
	return k, made, err
}

// removeParts deletes what shards have exchanged in rounds that checkpoints closed; 0 is none. The rounds are closed: an error is a warning.
func (c *Crawl) removeParts(cur store.Current, checkpoints ...uint64) {
	for _, number := range checkpoints {
		if number == 0 || cur.Map == 0 {
			continue
		}
		k, err := readCheckpoint(c.fs, c.dir, number)
		if err == nil {
			err = exchange.RemoveParts(c.fs, c.roundsPath(k.Txn), k.Exchanges)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.warn(&fault.Error{File: c.roundsPath(), Found: fmt.Sprintf("files that the shards exchanged before checkpoint %d were not deleted", number), Err: err})
		}
	}
}

// partRound is the part of a round in one shard, or the round in a crawl without shards.
type partRound struct {
	view     *Crawl
	frontier *store.Store
	end      *store.Done
	missing  string        // if there is no end
	moved    record.Ledger // ledger of a move, from the shard's stores
	closed   bool
}

// commit makes the checkpoint. moves says that cur has the map of a move.
func (c *Crawl) commit(cur store.Current, stores []*store.Store, txn string, now time.Time, moves bool) (*Checkpoint, bool, error) {
	k := &Checkpoint{Number: cur.Last + 1, Parent: cur.Checkpoint, Epoch: cur.Epoch, Txn: txn, Made: now.UTC().Format(time.RFC3339), Map: cur.Map}
	r, err := c.readStores(k, stores)
	if err != nil {
		return nil, false, err
	}
	if !r.open && slices.ContainsFunc(r.parts, func(p partRound) bool { return p.closed }) { // and so in all shards that there were
		return &Checkpoint{Number: findCheckpoint(c.fs, c.dir, cur.Checkpoint, txn), Txn: txn}, false, nil
	}
	ledgers, err := c.ledgersOf(k, r, moves)
	if err != nil {
		return nil, false, err
	}
	for i, p := range r.parts {
		files, err := p.view.roundFiles(txn)
		if err != nil {
			return nil, false, err
		}
		if cur.Map == 0 {
			k.Files = files
		} else {
			k.Shards[i].Files = files
		}
	}
	var before Totals
	if k.Parent > 0 {
		parent, err := readCheckpoint(c.fs, c.dir, k.Parent)
		if err != nil {
			return nil, false, err
		}
		before = parent.Totals
	}
	if k.Totals = before; !moves { // which fetches nothing
		k.Totals = before.with(ledgers...)
	}
	return k, true, nil
}

// storesRound is what the stores of a crawl say of a round.
type storesRound struct {
	parts     []partRound
	byName    map[string]*store.Store
	committed map[string]bool // stores that committed the round
	open      bool            // the round, in some store
}

// readStores settles the stores, and lists them in k. It refuses stores of another round, and of no shard.
func (c *Crawl) readStores(k *Checkpoint, stores []*store.Store) (*storesRound, error) {
	n := 0
	if k.Map > 0 {
		m, err := shard.ReadVersion(c.fs, c.dir, k.Map)
		if err != nil {
			return nil, err
		}
		n = m.Shards
	}
	views := c.partsOf(n)
	r := &storesRound{parts: make([]partRound, len(views)), byName: map[string]*store.Store{}, committed: map[string]bool{}}
	at := map[string]*partRound{}
	for i, view := range views {
		r.parts[i].view = view
		at[view.under] = &r.parts[i]
	}
	for _, s := range stores {
		v, err := s.Settle()
		if err != nil {
			return nil, err
		}
		name := s.NameInCrawl()
		r.byName[name] = s
		part := at[s.Shard()]
		if part == nil {
			if spare, err := c.isSpare(shardOf(s)); err != nil {
				return nil, err
			} else if spare {
				continue
			}
			return nil, &fault.Error{Class: fault.Conflict, File: s.Dir(), Found: "a store that belongs to no shard", Want: fmt.Sprintf("%s, as version %d of the bucket map says", countShards(len(r.parts)), k.Map),
				Hint: "move it elsewhere"}
		}
		switch round := v.Open(); round {
		case k.Txn:
			r.open = true
		case "":
		default:
			return nil, notCommitted(s, k.Txn, fmt.Sprintf("round %q is open", round), "commit it: "+fault.Quote("mckpt", "commit", c.dir, "--txn", round)+"; or give it up: "+fault.Quote("mckpt", "abandon", c.dir))
		}
		for i := range v.Counts.Done {
			if v.Counts.Done[i].Txn == k.Txn {
				r.committed[name] = true
				if v.Counts.Done[i].Verb == shard.MoveVerb {
					part.moved.Joined = append(part.moved.Joined, v.Counts.Done[i].Ledger.Joined...)
				}
			}
		}
		if v.Newest.Kind == "frontier" {
			part.frontier = s
			part.end, part.missing = roundEnd(v.Counts, k.Txn)
			_, before, err := s.FindName(v.Counts, k.Txn)
			if err != nil {
				return nil, err
			}
			part.closed = before || part.end != nil && part.end.Generation <= v.Base
		}
		sum, err := s.ManifestSum(v.Counts.Generation)
		if err != nil {
			return nil, err
		}
		k.Stores = append(k.Stores, CheckpointStore{Name: s.NameInCrawl(), Kind: v.Newest.Kind, Generation: v.Counts.Generation, Sum: sum})
	}
	return r, nil
}

// notCommitted is the error of a store where the round is not as commit needs it.
func notCommitted(s *store.Store, txn, found, hint string) error {
	return &fault.Error{Class: fault.Conflict, File: s.Dir(), Found: found, Want: fmt.Sprintf("round %q committed", txn), Hint: hint}
}

// ledgersOf writes the ledgers of the round into k, and gives these and those of what shards exchanged. It refuses a round that
// has not ended in each shard, or whose ledgers name a store that did not commit it.
func (c *Crawl) ledgersOf(k *Checkpoint, r *storesRound, moves bool) ([]record.Ledger, error) {
	again := fmt.Sprintf("run the round's commands again with --txn %s; those that committed only repeat their output", k.Txn)
	for i := range r.parts {
		p := &r.parts[i]
		if p.frontier == nil {
			return nil, &fault.Error{Class: fault.Conflict, File: filepath.Join(c.dir, filepath.FromSlash(p.view.under)), Found: "no frontier store", Hint: "make it: " + fault.Quote("mckpt", "init", c.dir)}
		}
		if p.end == nil {
			return nil, notCommitted(p.frontier, k.Txn, p.missing, again)
		}
		switch {
		case (p.end.Verb == shard.MoveVerb) != moves:
			return nil, notCommitted(p.frontier, k.Txn, fmt.Sprintf("%q %ss buckets between shards", k.Txn, shard.MoveVerb), c.endMove())
		case moves:
			k.Shards = append(k.Shards, ShardRound{Shard: i, Ledger: p.moved})
		case k.Map == 0:
			k.Ledger = p.end.Ledger
		default:
			k.Shards = append(k.Shards, ShardRound{Shard: i, Ledger: p.end.Ledger})
		}
	}
	ledgers := k.Ledgers()
	if err := shard.CheckMoved(ledgers); err != nil {
		return nil, err
	}
	if k.Map > 0 {
		exchanged, err := c.exchanged(k)
		if err != nil {
			return nil, err
		}
		ledgers = append(ledgers, exchanged...)
	}
	for _, name := range ledgerStores(ledgers...) {
		switch s := r.byName[name]; {
		case s == nil:
			return nil, &fault.Error{Class: fault.Conflict, File: c.dir, Found: fmt.Sprintf("no store %q, which the ledger of round %q names", name, k.Txn),
				Hint: "a crawl's stores lie in its own folder"}
		case !r.committed[name]:
			return nil, notCommitted(s, k.Txn, fmt.Sprintf("round %q is not committed here", k.Txn), again)
		}
	}
	return ledgers, nil
}

// write makes the file of k, which is a checkpoint once CURRENT names it. Before that the caller syncs file, unless it is nil, and its folder.
func (c *Crawl) write(k *Checkpoint) (is *Checkpoint, file *durable.Atomic, err error) {
	if k.Map > 0 {
		is, err = c.number(k)
		return is, nil, err
	}
	data, err := store.Seal(magic, k)
	if err != nil {
		return nil, nil, err
	}
	file, err = durable.Create(c.fs, checkpointPath(c.dir, k.Number))
	if err != nil {
		return nil, nil, err
	}
	if _, err = file.Write(data); err == nil {
		// A file of this number can only be of a commit that died before CURRENT
		// named it: it never was a checkpoint.
		err = file.Show()
	}
	if err != nil {
		file.Abort()
		return nil, nil, err
	}
	return k, file, nil
}

// number makes the file of k in a crawl of several shards: under its number, or a higher one where another commit has
// made a file. That one may be at work on another machine: its file is taken if it says the same, and else left alone.
func (c *Crawl) number(k *Checkpoint) (*Checkpoint, error) {
	for ; ; k.Number++ {
		data, err := store.Seal(magic, k)
		if err != nil {
			return nil, err
		}
		err = durable.LinkFile(c.fs, checkpointPath(c.dir, k.Number), data)
		if err == nil {
			return k, nil
		}
		if errors.Is(err, fs.ErrNotExist) { // a gc has deleted the temporary file
			err = store.CurrentChanged(c.dir, err)
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		have, err := readCheckpoint(c.fs, c.dir, k.Number)
		if err != nil && fault.ClassOf(err) == "" && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err == nil {
			made := k.Made
			k.Made = have.Made
			same, err := store.Seal(magic, k)
			if err != nil {
				return nil, err
			}
			if there, err := store.Seal(magic, have); err == nil && bytes.Equal(same, there) {
				return have, nil
			}
			k.Made = made
		}
	}
}

// TimesFile has the times that the commands of a round took, and is in the folder of the round's files. It is no part of a checkpoint, since who closes a round writes to it
// afterwards.
const TimesFile = "times.json"

// roundFiles lists what a pipeline keeps of a round.
func (c *Crawl) roundFiles(txn string) (files []RoundFile, err error) {
	dir := c.roundsPath(txn)
	list, err := c.fs.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		if e.Type().IsRegular() && store.CheckPath(e.Name()) && e.Name() != TimesFile { // no unpublished file, which begins with a dot
			f, err := roundFile(c.fs, filepath.Join(dir, e.Name()), func(in io.Reader) io.Reader { return in })
			if err != nil {
				return nil, err
			}
			files = append(files, f)
		}
	}
	slices.SortFunc(files, func(a, b RoundFile) int { return strings.Compare(a.Name, b.Name) })
	return files, nil
}

// roundFile reads a file, by way of read, for its length and sum.
func roundFile(fsys durable.FS, path string, read func(io.Reader) io.Reader) (RoundFile, error) {
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return RoundFile{}, err
	}
	defer f.Close()
	hash := xxh3.New()
	n, err := io.Copy(hash, read(f))
	return RoundFile{Name: filepath.Base(path), Length: n, Sum: store.HexSum(hash)}, err
}

// ledgerStores lists the stores that ledgers name, each once, in order.
func ledgerStores(ledgers ...record.Ledger) []string {
	var names []string
	var add func(l record.Ledger)
	add = func(l record.Ledger) {
		for _, j := range l.Joined {
			add(j)
		}
		for _, st := range l.Stages {
			for _, name := range append([]string{st.Store}, st.Stores...) {
				if name != "" && !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	for _, l := range ledgers {
		add(l)
	}
	return names
}

// thin reports whether k's parent goes: it was made less than interval after the checkpoint
// kept before it. One that has none before it stays.
func (c *Crawl) thin(cur store.Current, k *Checkpoint, interval time.Duration) (bool, error) {
	if interval <= 0 {
		return false, nil
	}
	numbers, err := checkpointNumbers(c.fs, c.dir, cur)
	if err != nil {
		return false, err
	}
	i, ok := slices.BinarySearch(numbers, k.Parent)
	if !ok || i == 0 {
		return false, nil
	}
	parent, err := readCheckpoint(c.fs, c.dir, k.Parent)
	if err != nil {
		return false, err
	}
	before, err := readCheckpoint(c.fs, c.dir, numbers[i-1])
	if err != nil {
		return false, err
	}
	return parent.time().Sub(before.time()) < interval, nil
}

func (k *Checkpoint) time() time.Time {
	t, _ := time.Parse(time.RFC3339, k.Made) // check has seen its shape
	return t
}
