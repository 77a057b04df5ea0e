package crawl

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"

	"github.com/zeebo/xxh3"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/folder/exchange"
	"mercator/pkg/folder/shard"
)

// Verified is the result of Verify: what it read, and the damage found.
type Verified struct {
	Checkpoints int      `json:"checkpoints"`
	Files       int      `json:"files"`
	Bytes       int64    `json:"bytes"`
	Ledgers     int      `json:"ledgers"`      // found balanced
	RecordFiles int      `json:"record_files"` // under rounds/, whole and as the ledger says
	Lost        []string `json:"lost_rounds"`  // closed, with a checkpoint that names files, and without any; Problems has them too
	Aside       []string `json:"set_aside"`    // likewise, but TidyRounds has the files in rounds/undone, and puts them back
	Problems    []string `json:"problems"`

	Needed []string   `json:"-"` // damaged or missing files of stores that the crawl's state needs
	Spare  []string   `json:"-"` // likewise, but only other checkpoints need them
	Gaps   int        `json:"-"` // ledgers that do not balance
	Output string     `json:"-"` // a kept output of the open round that is damaged or missing
	Longer []LongFile `json:"-"` // files with bytes after their end, which are whole without these
	Repair bool       `json:"-"` // a pointer is lost, damaged or old, which Repair makes anew
	Other  string     `json:"-"` // release that reads a file which this one cannot; "": there is no such file
	Sound  uint64     `json:"-"` // the newest checkpoint without such a file; 0: none
}

// LongFile is a file that is longer than it was made.
type LongFile struct {
	Path   string
	Length int64 // length that it should have
}

// Verify checks a whole crawl, and goes on after a problem:
//
//   - each checkpoint and manifest is whole, and each manifest is the one that its checkpoint bound;
//   - each file of each of these generations has its length and checksum (of a growing file, its first bytes);
//   - the ledger of each round balances, and chains from stage to stage;
//   - what each store noted of the round is what the round's ledger says;
//   - record files kept under rounds/ are whole, hold the rows that the ledger says, and are of
//     the epoch in which the round was closed that the crawl went on from, and none is missing that its checkpoint names.
//
// "mckpt verify" adds three checks of its own: crawl.toml, fetch/BATCH, and URLs of the frontier that the set of
// URLs has not. "mfrontier check" compares the frontier's counts with its queues.
//
// An error means that it could not go on.
func (c *Crawl) Verify(ctx context.Context) (*Verified, error) {
	v := newVerifier(ctx, c)
	v.Lost, v.Aside, v.Problems = []string{}, []string{}, []string{} // in JSON lists, also when they are empty
	cur, numbers, err := v.readCheckpoints()
	if err != nil {
		return nil, err
	}
	if _, err := c.newest(); errors.Is(err, fault.Corrupt) {
		v.problem(err)
		v.Repair = true
	} else if err != nil {
		return nil, err
	}
	v.missing(cur, numbers)
	stores, err := c.folders()
	if err != nil {
		return nil, err
	}
	if v.parts, err = v.shards(cur, stores); err != nil {
		return nil, err
	}
	for _, n := range numbers {
		v.checkpoint(n)
	}
	if n := cur.Checkpoint; n > 0 && !slices.Contains(numbers, n) {
		v.needed(checkpointPath(c.dir, n), n)
	}
	for n := cur.Checkpoint; ; n = v.bound[n] {
		if _, ok := v.bound[n]; !ok {
			break
		}
		k, err := v.read(n)
		if err != nil {
			return nil, err
		}
		if k == nil {
			continue
		}
		v.closed[k.Txn] = closedRound{epochText(k.Epoch), k.Number}
		lost, aside, err := v.gone(k)
		if err != nil {
			return nil, err
		}
		if lost {
			v.Lost = append(v.Lost, k.Txn)
		} else if aside {
			v.Aside = append(v.Aside, k.Txn)
		}
	}
	slices.Reverse(v.Lost)
	slices.Reverse(v.Aside)
	if len(v.Lost) > 0 {
		v.problem(&fault.Error{File: c.roundsPath(), Found: "all files of " + firstOf(v.Lost) + " are missing: deleted, or moved elsewhere", Want: "those that their checkpoints name"})
	}
	if len(v.Aside) > 0 {
		v.problem(&fault.Error{File: c.roundsPath(undoneDir), Found: "the files of " + firstOf(v.Aside) + ", which count", Want: "them in " + c.roundsPath()})
	}
	if k := v.now; k != nil && cur.Map != k.Map {
		v.problem(&fault.Error{File: c.path("CURRENT"), Place: "map", Found: fmt.Sprintf("version %d", cur.Map), Want: fmt.Sprintf("%d, as checkpoint %d says", k.Map, k.Number)})
	}
	if k := v.now; k != nil && (cur.Txn != k.Txn || !maps.Equal(cur.Stores, k.generations())) {
		v.problem(&fault.Error{File: c.path("CURRENT"), Place: "stores", Found: fmt.Sprintf("round %q, %d stores", cur.Txn, len(cur.Stores)),
			Want: fmt.Sprintf("round %q and the generations of checkpoint %d", k.Txn, k.Number)})
	}
	for _, s := range stores {
		if made, err := s.Made(); made || err != nil || shardOf(s) < len(v.parts) { // else of a change to more shards that was killed
			v.store(s)
		}
	}
	steps := []func() error{v.regular, v.contents}
	for _, part := range v.parts {
		steps = append(steps, func() error { return v.recordFiles(part) })
	}
	steps = append(steps, v.exchanges)
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	if err := cmp.Or(context.Cause(ctx), v.failed); err != nil {
		return nil, err
	}
	for n := range v.bound {
		if n > v.Sound && !v.broken[n] {
			v.Sound = n
		}
	}
	return &v.Verified, nil
}

func newVerifier(ctx context.Context, c *Crawl) *verifier {
	return &verifier{c: c, ctx: ctx, files: map[string][]claim{}, bound: map[uint64]uint64{}, damaged: map[string]bool{}, broken: map[uint64]bool{}, rounds: map[roundKey][]uint64{}, closed: map[string]closedRound{}}
}

// bind reads a checkpoint, and takes what its manifests say of files.
func (v *verifier) bind(number uint64) error {
	k, err := readCheckpoint(v.c.fs, v.c.dir, number)
	if err != nil {
		return err
	}
	v.bound[number] = k.Parent
	for _, ks := range k.Stores {
		s := v.c.folder(ks.Name)
		m, err := bound(s, ks, number)
		if err != nil {
			return err
		}
		v.claims(s, m, number)
	}
	v.before = number
	return nil
}

// readCheckpoints reads CURRENT, and the checkpoint and the list of checkpoints that belong to it: again where a commit came in between.
func (v *verifier) readCheckpoints() (cur store.Current, numbers []uint64, err error) {
	for {
		if cur, err = v.c.current(); err != nil {
			return cur, nil, err
		}
		v.current, v.now = cur.Checkpoint, nil
		if k, err := readCheckpoint(v.c.fs, v.c.dir, cur.Checkpoint); err == nil { // checkpoint tells of an error
			v.now = k
		}
		if numbers, err = checkpointNumbers(v.c.fs, v.c.dir, cur); err != nil {
			return cur, nil, err
		}
		after, err := v.c.current()
		if err != nil || after.Last == cur.Last && after.Epoch == cur.Epoch && after.Forgotten == cur.Forgotten {
			return cur, numbers, err
		}
	}
}

// read reads a checkpoint, also a second time: they are too many to be held. It is nil without an error if gc, or the commit of a round,
// has forgotten the checkpoint since Verify began. The current one, which the next commit may forget, is held.
func (v *verifier) read(number uint64) (*Checkpoint, error) {
	if v.now != nil && number == v.current {
		return v.now, nil
	}
	k, err := readCheckpoint(v.c.fs, v.c.dir, number)
	if errors.Is(err, fs.ErrNotExist) && v.forgotten(number) {
		return nil, nil
	}
	return k, err
}

// forgotten reports whether a checkpoint is forgotten by now.
func (v *verifier) forgotten(number uint64) bool {
	cur, err := v.c.current()
	return err == nil && cur.Forgotten.Has(number)
}

// gone reports whether a shard, or a crawl without any, has no files of a round though the round's checkpoint names some: they are lost, or set aside.
func (v *verifier) gone(k *Checkpoint) (lost, aside bool, err error) {
	for _, part := range v.parts {
		if len(k.filesOf(part.under)) == 0 {
			continue
		}
		epoch := epochText(k.Epoch)
		there, err := durable.Exists(v.c.fs, part.roundsPath(k.Txn))
		if err != nil {
			return false, false, err
		}
		if made := ""; there {
			if made, _, err = part.madeIn(k.Txn); err != nil || made == "" || made == epoch {
				continue // problems of files that are there are reported for each
			}
		}
		kept, err := durable.Exists(v.c.fs, part.undonePath(k.Txn, epoch))
		if err != nil {
			return false, false, err
		}
		aside, lost = aside || kept, lost || !kept && !there
	}
	return lost, aside, nil
}

// verifier holds some hundred bytes of a checkpoint: there is one for each round.
type verifier struct {
	Verified
	c       *Crawl
	ctx     context.Context
	parts   []*Crawl               // the shards, or c alone
	files   map[string][]claim     // by path on the file system
	bound   map[uint64]uint64      // parents of whole checkpoints, by number
	before  uint64                 // the checkpoint that was read before this one
	now     *Checkpoint            // checkpoint of the crawl when Verify began; nil: none, or it is damaged
	damaged map[string]bool        // manifests with a problem that is noted; by path
	current uint64                 // number of now
	broken  map[uint64]bool        // checkpoints that need a damaged file
	rounds  map[roundKey][]uint64  // checkpoints of closed rounds; one without an epoch may be any of its name
	closed  map[string]closedRound // the rounds that the crawl's state stands on, by name
	lastOf  uint64                 // checkpoint of the ledgers in last
	last    []record.Ledger        // ledgers that were read last
	failed  error                  // no file could be opened
}

// roundKey names a round: after a restore there may be several of a name.
type roundKey struct{ txn, epoch string }

type closedRound struct {
	epoch      string
	checkpoint uint64
}

// claim has what the generations of consecutive checkpoints, or the current generation, say of a file.
type claim struct {
	said
	first, last uint64 // checkpoints; 0: the current generation
}

type said struct {
	length    int64
	sum, link [16]byte // link: of a chained sum
	growing   bool
	has       uint8 // hasSum, hasLink, isOutput, isSecret
}

const (
	hasSum = 1 << iota
	hasLink
	isOutput
	isSecret
)

func (c claim) who() string {
	if c.first == 0 {
		return "the current generation"
	}
	return fmt.Sprintf("checkpoint %d", c.first)
}

// watched is in. It reports bytes to Options.Progress, and ends when ctx does.
func (v *verifier) watched(in io.Reader) io.Reader { return verifyReader{v, in} }

type verifyReader struct {
	v  *verifier
	in io.Reader
}

func (r verifyReader) Read(p []byte) (int, error) {
	if err := context.Cause(r.v.ctx); err != nil {
		return 0, err
	}
	n, err := r.in.Read(p)
	if tell := r.v.c.opt.Progress; tell != nil {
		tell(int64(n))
	}
	return n, err
}

// problem notes an error, once; one of this machine ends Verify.
func (v *verifier) problem(err error) {
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, fs.ErrPermission) { // which is no damage
		v.failed = cmp.Or(v.failed, err)
		return
	}
	if v.Other == "" && errors.Is(err, fault.Version) {
		v.Other = fault.HintOf(err)
	}
	if text := err.Error(); !slices.Contains(v.Problems, text) {
		v.Problems = append(v.Problems, text)
	}
}

// shards are the views of the shards of the map, or where that is missing or damaged of those that are there. Every shard must
// have the stores that another has, and there must be no other.
func (v *verifier) shards(cur store.Current, stores []*store.Store) ([]*Crawl, error) {
	if cur.Map == 0 {
		return []*Crawl{v.c}, nil
	}
	there, err := v.c.shardFolders()
	if err != nil {
		return nil, err
	}
	parts, err := v.c.parts()
	if err != nil {
		v.problem(err)
		parts = nil
		for _, n := range there {
			parts = append(parts, v.c.part(shard.Name(n)))
		}
	}
	for _, n := range there {
		if n < len(parts) || err != nil {
			continue
		}
		if spare, err := v.c.isSpare(n); err != nil {
			return nil, err
		} else if !spare {
			v.problem(&fault.Error{File: shard.Dir(v.c.dir, n), Found: "the folder of a shard", Want: fmt.Sprintf("%s, as version %d of the bucket map says", countShards(len(parts)), cur.Map)})
		}
	}
	has, names := map[string]bool{}, map[string]bool{}
	for _, s := range stores {
		of := s.Shard()
		if of == "" {
			v.problem(&fault.Error{File: s.Dir(), Found: "a store that belongs to no shard", Want: "all stores in shards"})
			continue
		}
		has[s.NameInCrawl()] = true
		names[strings.TrimPrefix(s.NameInCrawl(), of)] = true
	}
	for _, part := range parts {
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if !has[part.under+name] {
				v.problem(&fault.Error{File: v.c.folder(part.under + name).Dir(), Found: "missing", Want: "a store, as other shards have"})
			}
		}
	}
	return parts, nil
}

// missing reports checkpoints that have no file and were not forgotten.
func (v *verifier) missing(cur store.Current, numbers []uint64) {
	next := uint64(1)
	to := func(n uint64) { // all before n are to be there
		if next < n {
			v.problem(v.c.deleted(next, n-1))
		}
		next = max(next, n+1)
	}
	for _, n := range append(numbers, cur.Last+1) {
		cur.Forgotten.Each(func(first, last uint64) bool {
			if next <= first && first < n {
				to(first)
				next = last + 1
			}
			return first < n
		})
		to(n)
	}
}

func (v *verifier) checkpoint(number uint64) {
	k, err := v.read(number)
	if err != nil {
		v.problem(err)
		v.needed(checkpointPath(v.c.dir, number), number)
	}
	if k == nil {
		return
	}
	v.Checkpoints++
	ledgers := v.ledgers(k)
	for _, key := range []roundKey{{k.Txn, ""}, {k.Txn, epochText(k.Epoch)}} {
		v.rounds[key] = append(v.rounds[key], number)
	}
	v.bound[number] = k.Parent
	file := checkpointPath(v.c.dir, number)
	if k.Map > 0 {
		if _, err := shard.ReadVersion(v.c.fs, v.c.dir, k.Map); err != nil {
			v.problem(err)
		}
	}
	if err := shard.CheckMoved(k.Ledgers()); err != nil {
		v.problem(&fault.Error{File: file, Err: err})
	}
	for i, l := range k.Ledgers() {
		place := fmt.Sprintf("round %q", k.Txn)
		if k.Map > 0 {
			place += ", " + shard.Name(i)
		}
		v.balance(file, place, l)
	}
	for _, ks := range k.Stores {
		s := v.c.folder(ks.Name)
		m, err := bound(s, ks, number)
		if errors.Is(err, fs.ErrNotExist) && v.forgotten(number) {
			break
		}
		if err != nil {
			v.problem(err)
			v.damaged[s.ManifestPath(ks.Generation)] = true
			v.needed(s.ManifestPath(ks.Generation), number)
			continue
		}
		v.claims(s, m, number)
		for _, d := range m.Done {
			if d.Txn == k.Txn {
				v.noted(s, m, d, ledgers)
			}
		}
	}
	v.before = number
}

// ledgers returns the ledgers of a round and of the exchanges between its shards.
func (v *verifier) ledgers(k *Checkpoint) []record.Ledger {
	ledgers := k.Ledgers()
	if sent, err := v.c.sent(k); err == nil { // else the files are elsewhere, of an undone round, or exchanges tells what is wrong
		ledgers = append(ledgers, sent...)
	}
	return ledgers
}

// ledgersOf returns the ledgers of a checkpoint that was read before.
func (v *verifier) ledgersOf(number uint64) ([]record.Ledger, error) {
	if v.lastOf != number {
		k, err := v.read(number)
		if err != nil {
			return nil, err
		}
		v.lastOf, v.last = number, nil
		if k != nil {
			v.last = v.ledgers(k)
		}
	}
	return v.last, nil
}

// store checks all manifests, and the generation that counts now.
func (v *verifier) store(s *store.Store) {
	list, err := s.Generations()
	if err != nil {
		v.problem(err)
		return
	}
	if len(list) == 0 || list[0] != 1 {
		v.problem(&fault.Error{File: s.ManifestPath(1), Found: "missing", Want: "the first generation, which is never deleted"})
	}
	kind := ""
	for _, g := range list {
		m, err := s.At(g)
		switch {
		case errors.Is(err, fs.ErrNotExist) || v.damaged[s.ManifestPath(g)]: // a writer's, meanwhile; or told already
		case err != nil:
			v.problem(err)
		case kind != "" && m.Kind != kind:
			v.problem(&fault.Error{File: s.ManifestPath(g), Found: "kind " + m.Kind, Want: kind + ", as in generations before"})
		default:
			kind = m.Kind
		}
	}
	if made, err := s.Made(); err != nil || !made {
		if err == nil {
			err = &fault.Error{Class: fault.Corrupt, File: s.Path("HEAD"), Found: "missing", Want: "the number of the newest generation"}
		}
		v.problem(err)
		v.Repair = true
		return
	}
	look, err := s.Look()
	n := len(list)
	if err != nil {
		if !v.toldOf(err) {
			v.problem(err)
		}
		switch e := (*fault.Error)(nil); {
		case !errors.As(err, &e):
		case store.OldHead(err):
			v.Repair = true
		case errors.Is(err, fs.ErrNotExist), n > 0 && e.File == s.ManifestPath(list[n-1]): // the newest manifest is lost or damaged
			v.needed(e.File, 0)
		case e.File == s.Path("HEAD") || e.File == v.c.path(store.CurrentFile) || e.File == s.Dir():
			v.Repair = true
		}
		return
	}
	if n > 0 && list[n-1] > look.Newest.Generation {
		v.Repair = true
		v.problem(&fault.Error{File: s.Path("HEAD"), Found: fmt.Sprintf("generation %d, from which %d is reached", look.Newest.Generation, look.Newest.Generation),
			Want: fmt.Sprintf("the way to %d, which is there", list[n-1])})
	}
	m := look.Counts
	v.claims(s, m, 0)
	if look.Newest.Epoch == look.Current.Epoch { // else the journal is as obsolete as the change
		if err := s.CheckJournal(look.Newest.Generation + 1); err != nil {
			v.problem(err)
		}
	}
	for _, d := range m.Done {
		if d.Generation <= look.Base && look.Current.Checkpoint > 0 {
			continue
		}
		v.balance(s.ManifestPath(m.Generation), d.Verb+" "+d.Txn, d.Ledger)
		if e := m.File(d.Output); e != nil && s.Spent(m, *e) && v.holds(s.Path(e.Path)) { // else the next round has begun meanwhile
			v.problem(&fault.Error{File: s.Path(e.Path), Found: "missing", Want: fmt.Sprintf("the kept output of %s %s, a round that is open", d.Verb, d.Txn)})
			v.Output = cmp.Or(v.Output, s.Path(e.Path))
		}
	}
}

// toldOf reports whether a problem is noted already for the file of an error.
func (v *verifier) toldOf(err error) bool {
	var f *fault.Error
	var p *fs.PathError
	if errors.As(err, &p) && v.damaged[p.Path] {
		return true
	}
	return errors.As(err, &f) && v.damaged[f.File]
}

// regular reports what is neither a file nor a folder where one belongs.
func (v *verifier) regular() error {
	var down func(dir string, depth int) error
	look := func(path string, depth int) error {
		st, err := v.c.fs.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			v.problem(err)
			return nil
		case st.IsDir():
			return down(path, depth)
		case !st.Mode().IsRegular():
			v.problem(durable.NotRegular(path, st.Mode()))
		}
		return nil
	}
	down = func(dir string, depth int) error {
		list, err := v.c.fs.ReadDir(dir)
		if err != nil || depth == store.MaxDepth {
			return err
		}
		for _, e := range list {
			if e.Type().IsRegular() {
				continue
			}
			if err := look(filepath.Join(dir, e.Name()), depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	stores, err := v.c.folders()
	if err != nil {
		return err
	}
	ours := []string{v.c.path(store.LockFile), v.c.path(DriverFile), v.c.path(configFile), v.c.path(checkpointsDir), v.c.path(roundsDir)}
	for _, s := range stores {
		ours = append(ours, s.Dir())
	}
	for _, part := range v.parts {
		if part.under != "" {
			ours = append(ours, part.roundsPath())
		}
	}
	for _, path := range ours {
		if err := look(path, 0); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) claims(s *store.Store, m *store.Manifest, checkpoint uint64) {
	for _, e := range m.Files {
		name := s.Path(e.Path)
		if s.Spent(m, e) {
			continue
		}
		says := said{length: e.Length, growing: e.Growing}
		for _, x := range []struct {
			text string
			to   *[16]byte
			bit  uint8
		}{{e.Sum, &says.sum, hasSum}, {e.Link, &says.link, hasLink}} {
			if x.text != "" {
				says.has |= x.bit
				_, _ = hex.Decode(x.to[:], []byte(x.text)) // a manifest with another text is refused
			}
		}
		if e.Role == store.RoleOutput {
			says.has |= isOutput
		}
		if e.Secret {
			says.has |= isSecret
		}
		list := v.files[name]
		if n := len(list) - 1; n >= 0 && checkpoint > 0 && list[n].last == v.before && list[n].said == says {
			list[n].last = checkpoint
			continue
		}
		v.files[name] = append(list, claim{says, checkpoint, checkpoint})
	}
}

func (v *verifier) balance(file, place string, l record.Ledger) {
	if err := l.Balance(); err != nil {
		v.problem(&fault.Error{File: file, Place: place, Found: err.Error()})
		v.Gaps++
		return
	}
	v.Ledgers++
}

// noted compares what a store wrote down of a transaction with the round's ledger.
func (v *verifier) noted(s *store.Store, m *store.Manifest, d store.Done, ledgers []record.Ledger) {
	if d.Verb == shard.MoveVerb {
		for _, j := range d.Ledger.Joined {
			v.noted(s, m, store.Done{Verb: "of", Txn: d.Txn, Ledger: j}, ledgers)
		}
	}
	if len(d.Ledger.Stages) == 0 {
		return
	}
	own := d.Ledger.Stages[len(d.Ledger.Stages)-1]
	var same []record.Stage
	var by *record.Stage
	for _, l := range ledgers {
		same = append(same, findStages(l, own.Name, own.Store)...)
		if by == nil {
			by = stageOf(l, s.NameInCrawl())
		}
	}
	if len(same) > 0 && !anyEqual(same, own) {
		v.problem(&fault.Error{File: s.ManifestPath(m.Generation), Place: d.Verb + " " + d.Txn,
			Found: describeStage(own), Want: describeStage(same[0]) + ", as the round's ledger says"})
	}
	// A module's store notes what its stage read.
	if by != nil && (by.In != d.InRows || by.InHash != d.InHash) {
		v.problem(&fault.Error{File: s.ManifestPath(m.Generation), Place: d.Verb + " " + d.Txn,
			Found: fmt.Sprintf("in %d rows %s", d.InRows, d.InHash), Want: describeStage(*by) + ", as the round's ledger says"})
	}
}

// stageOf is the stage that lists a store among its further ones, or nil.
func stageOf(l record.Ledger, name string) *record.Stage {
	for i := range l.Stages {
		if slices.Contains(l.Stages[i].Stores, name) {
			return &l.Stages[i]
		}
	}
	return nil
}

// findStages lists the stages of a name and store in a ledger.
func findStages(l record.Ledger, name, store string) []record.Stage {
	var found []record.Stage
	for _, j := range l.Joined {
		found = append(found, findStages(j, name, store)...)
	}
	for _, st := range l.Stages {
		if st.Name == name && st.Store == store {
			found = append(found, st)
		}
	}
	return found
}

func anyEqual(list []record.Stage, st record.Stage) bool {
	for _, o := range list {
		if o.Out == st.Out && o.OutHash == st.OutHash && o.In == st.In && o.InHash == st.InHash {
			return true
		}
	}
	return false
}

func describeStage(st record.Stage) string {
	return fmt.Sprintf("%s: in %d rows %s, out %d rows %s", st.Name, st.In, st.InHash, st.Out, st.OutHash)
}

// contents reads every file once, up to the longest length that is claimed.
func (v *verifier) contents() error {
	names := make([]string, 0, len(v.files))
	for name := range v.files {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if err := context.Cause(v.ctx); err != nil {
			return err
		}
		if bad, err := v.content(name); err != nil {
			if errors.Is(err, fs.ErrNotExist) && !v.missed(name) {
				continue
			}
			v.problem(err)
			switch {
			case errors.Is(err, errLonger):
			case v.files[name][0].has&isOutput != 0:
				v.Output = cmp.Or(v.Output, name)
			default:
				v.note(name, bad)
			}
		}
	}
	return nil
}

// note notes which checkpoints need a file that is damaged from bad bytes on.
func (v *verifier) note(name string, bad int64) {
	var of []uint64
	for _, c := range v.files[name] {
		if c.length < bad {
			continue
		}
		if c.first == 0 {
			of = append(of, 0)
		}
		of = append(of, v.among(c)...)
	}
	v.needed(name, of...)
}

// among lists the whole checkpoints of a claim. Its numbers may be far apart: those between were forgotten.
func (v *verifier) among(c claim) (numbers []uint64) {
	for n := range v.bound {
		if c.first <= n && n <= c.last {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// missed reports whether a file that is gone is still needed. It is not if it was an output, which was there when the generation
// was read, and is deleted when its round is closed; nor if it is secret; nor if a change or gc has come since, and neither a checkpoint nor the current generation has it.
func (v *verifier) missed(name string) bool {
	for _, c := range v.files[name] {
		switch {
		case c.has&(isOutput|isSecret) != 0:
		case c.first == 0:
			if v.holds(name) {
				return true
			}
		case slices.ContainsFunc(v.among(c), func(n uint64) bool { return !v.forgotten(n) }):
			return true
		}
	}
	return false
}

// holds reports whether the generation of a store that counts now holds a file.
func (v *verifier) holds(name string) bool {
	stores, err := v.c.folders()
	if err != nil {
		return true
	}
	for _, s := range stores {
		rel, within := strings.CutPrefix(name, s.Dir()+string(filepath.Separator))
		if !within {
			continue
		}
		if look, err := s.Look(); err != nil || look.Counts.File(filepath.ToSlash(rel)) != nil {
			return true
		}
	}
	return false
}

// needed notes which checkpoints need a damaged file; 0 is the current generation.
func (v *verifier) needed(name string, by ...uint64) {
	for _, n := range by {
		v.broken[n] = true
	}
	if slices.Contains(by, 0) || slices.Contains(by, v.current) {
		v.Needed = append(v.Needed, name)
	} else {
		v.Spare = append(v.Spare, name)
	}
}

// content reads a file. An error is of all claims of at least bad bytes.
func (v *verifier) content(name string) (bad int64, err error) {
	claims := v.files[name]
	sort.SliceStable(claims, func(i, j int) bool { return claims[i].length < claims[j].length })
	s := store.Folder(filepath.Dir(name), v.c.opt.stores())
	f, err := s.OpenFile(filepath.Base(name))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, &fault.Error{File: name, Found: "missing", Want: fmt.Sprintf("%d bytes, as %s says", claims[0].length, claims[0].who()), Err: err}
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	v.Files++
	hash, chain := xxh3.New(), store.NewChain()
	var at int64
	whole := int64(-1) // the length of a file that grows no more
	for _, c := range claims {
		if !c.growing {
			whole = c.length
		}
		if st.Size() < c.length {
			return c.length, &fault.Error{File: name, Found: fmt.Sprintf("%d bytes", st.Size()), Want: fmt.Sprintf("%d, as %s says", c.length, c.who())}
		}
		n, err := io.Copy(io.MultiWriter(hash, chain), v.watched(io.NewSectionReader(f, at, c.length-at)))
		v.Bytes += n
		at += n
		if err != nil {
			return c.length, err
		}
		sum := store.HexSum(hash)
		if c.has&hasLink != 0 {
			sum = chain.Sum()
			if link, want := chain.Link(), hex.EncodeToString(c.link[:]); link != want {
				return c.length, &fault.Error{File: name, Place: fmt.Sprintf("whole MiB of bytes 0 to %d", c.length), Found: "checksum " + link, Want: fmt.Sprintf("%s, as %s says", want, c.who())}
			}
		}
		if want := hex.EncodeToString(c.sum[:]); c.has&hasSum != 0 && sum != want {
			return c.length, &fault.Error{File: name, Place: fmt.Sprintf("bytes 0 to %d", c.length), Found: "checksum " + sum, Want: fmt.Sprintf("%s, as %s says", want, c.who())}
		}
	}
	if last := claims[len(claims)-1]; whole >= 0 && st.Size() > last.length {
		v.Longer = append(v.Longer, LongFile{name, last.length})
		return last.length, &fault.Error{File: name, Found: fmt.Sprintf("%d bytes", st.Size()), Want: fmt.Sprintf("%d, as %s says; these are whole", last.length, last.who()), Err: errLonger}
	}
	return 0, nil
}

const recordSuffix = ".arrows.zst"

// recordFiles checks what pipelines keep in rounds/NAME/.
func (v *verifier) recordFiles(part *Crawl) error {
	rounds, err := v.c.fs.ReadDir(part.roundsPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, r := range rounds {
		if !r.IsDir() {
			continue
		}
		files, err := v.c.fs.ReadDir(part.roundsPath(r.Name()))
		if err != nil {
			return err
		}
		another := false // the files are another epoch's: the pipelines exchange them
		whole := map[string]bool{}
		for _, f := range files {
			if err := context.Cause(v.ctx); err != nil {
				return err
			}
			path := part.roundsPath(r.Name(), f.Name())
			if durable.IsTemp(f.Name()) || !strings.HasSuffix(f.Name(), recordSuffix) {
				whole[f.Name()] = true
				continue
			}
			if err := v.recordFile(path, r.Name()); err != nil {
				v.problem(err)
				another = another || errors.Is(err, errAnotherEpoch)
				continue
			}
			whole[f.Name()] = true
			v.RecordFiles++
		}
		if c, ok := v.closed[r.Name()]; ok && !another {
			v.roundFiles(part, r.Name(), c.checkpoint, whole)
		}
	}
	return nil
}

// exchanges checks what the shards sent each other in the rounds that the crawl's state stands on, as far as that is still
// in rounds/.
func (v *verifier) exchanges() error {
	if slices.Contains(v.parts, v.c) {
		return nil // no shards
	}
	for _, round := range slices.Sorted(maps.Keys(v.closed)) {
		if there, err := durable.Exists(v.c.fs, v.c.roundsPath(round)); err == nil && !there {
			continue
		}
		k, err := v.read(v.closed[round].checkpoint)
		if err != nil {
			return err
		}
		if k == nil || len(k.Exchanges) == 0 {
			continue
		}
		side := make([]record.Ledger, len(k.Shards))
		for i := range side {
			var err error
			if side[i].Joined, err = v.c.part(shard.Name(i)).sideLedgers(round); err != nil {
				v.problem(err) // told already, if the file is damaged
			}
		}
		exchange.Verify(v.c.exchangesOf(k, side), k.Exchanges, v.problem)
	}
	return context.Cause(v.ctx)
}

// errLonger: all that generations say of a file holds, and there is more behind it.
var errLonger = errors.New("bytes after the end")

var errAnotherEpoch = errors.New("records of another epoch")

// roundFiles compares the files of a closed round that are whole with what its checkpoint
// says of them, and misses those that are gone.
func (v *verifier) roundFiles(part *Crawl, round string, checkpoint uint64, whole map[string]bool) {
	k, err := v.read(checkpoint)
	if err != nil {
		v.problem(err)
	}
	if k == nil {
		return
	}
	for _, want := range k.filesOf(part.under) {
		path := part.roundsPath(round, want.Name)
		if ok, err := durable.Exists(v.c.fs, path); err == nil && !ok {
			v.problem(want.differs(path, RoundFile{}, fs.ErrNotExist, checkpoint))
			continue
		}
		if !whole[want.Name] {
			continue // told already
		}
		have, err := roundFile(v.c.fs, path, v.watched)
		if err == nil {
			err = want.differs(path, have, nil, checkpoint)
		}
		if err != nil {
			v.problem(err)
		}
	}
}

// differs says what is wrong with a file that a checkpoint names; gone: that it is not there.
func (want RoundFile) differs(path string, have RoundFile, gone error, checkpoint uint64) error {
	switch {
	case gone != nil:
		return &fault.Error{File: path, Found: "missing", Want: fmt.Sprintf("%d bytes, as checkpoint %d says", want.Length, checkpoint)}
	case have != want:
		return &fault.Error{File: path, Found: fmt.Sprintf("%d bytes, checksum %s", have.Length, have.Sum),
			Want: fmt.Sprintf("%d, %s, as checkpoint %d says", want.Length, want.Sum, checkpoint)}
	}
	return nil
}

func (v *verifier) recordFile(name, round string) error {
	f, err := v.c.fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	trailer, err := drain(v.watched(f), name)
	if err != nil {
		return err
	}
	if !trailer.Verified {
		return &fault.Error{File: name, Place: "end", Found: "no trailer", Want: "the rows' hash and their ledger"}
	}
	l := trailer.Ledger
	if err := l.Balance(); err != nil {
		return &fault.Error{File: name, Place: "trailer", Found: err.Error()}
	}
	if len(l.Stages) == 0 {
		return &fault.Error{File: name, Place: "trailer", Found: "no ledger", Want: "those of the stage that wrote it"}
	}
	if trailer.Txn != "" && trailer.Txn != round {
		return &fault.Error{File: name, Found: fmt.Sprintf("records of round %q", trailer.Txn), Want: fmt.Sprintf("those of %q", round)}
	}
	own := l.Stages[len(l.Stages)-1]
	if own.Out != trailer.Rows || own.OutHash != trailer.Hash.String() {
		return &fault.Error{File: name, Place: "trailer", Found: fmt.Sprintf("%d rows %s", trailer.Rows, trailer.Hash), Want: describeStage(own) + ", as its ledger says"}
	}
	if c, ok := v.closed[trailer.Txn]; ok && trailer.Epoch != "" && trailer.Epoch != c.epoch {
		return &fault.Error{File: name, Place: fmt.Sprintf("round %q", trailer.Txn), Found: "records of epoch " + trailer.Epoch + " of the crawl",
			Want: fmt.Sprintf("epoch %s, in which checkpoint %d closed the round", c.epoch, c.checkpoint), Err: errAnotherEpoch}
	}
	var same []record.Stage
	for _, number := range v.rounds[roundKey{trailer.Txn, trailer.Epoch}] {
		ledgers, err := v.ledgersOf(number)
		if err != nil {
			return err
		}
		for _, ledger := range ledgers {
			same = append(same, findStages(ledger, own.Name, own.Store)...)
		}
	}
	if len(same) > 0 && !anyEqual(same, own) {
		return &fault.Error{File: name, Place: fmt.Sprintf("round %q, stage %q", trailer.Txn, own.Name),
			Found: fmt.Sprintf("%d rows %s", trailer.Rows, trailer.Hash), Want: fmt.Sprintf("%d rows %s, as the round's ledger says", same[0].Out, same[0].OutHash)}
	}
	return nil
}

// drain reads a record stream of any kind to its end.
func drain(in io.Reader, name string) (record.Trailer, error) {
	src, err := record.Open(in, record.ReaderOptions{Name: name})
	if err != nil {
		return record.Trailer{}, err
	}
	switch kind := src.Kind(); kind {
	case record.KindURL:
		return drainRows[record.URL](src)
	case record.KindFetch:
		return drainRows[record.Fetch](src)
	case record.KindLink:
		return drainRows[record.Link](src)
	case record.KindModule:
		return drainRows[record.Module](src)
	default:
		return record.Trailer{}, &fault.Error{Class: fault.WrongKind, File: name, Found: fmt.Sprintf("kind %q", kind)}
	}
}

func drainRows[T record.Row](src *record.Source) (record.Trailer, error) {
	r, err := record.Rows[T](src)
	if err != nil {
		return record.Trailer{}, err
	}
	if err := record.Each(r, func(*T) error { return nil }); err != nil {
		return record.Trailer{}, err
	}
	return r.Trailer(), nil
}

func epochText(n uint64) string { return strconv.FormatUint(n, 10) }
