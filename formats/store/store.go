package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/release"
)

// LockFile is the file of a store, and of a crawl folder, that is locked for a change.
const LockFile = "LOCK"

// MoveVerb is the verb of the transactions in which stores give buckets to other shards and take others in.
const MoveVerb = "move"

// The store's own files.
const (
	HeadFile       = "HEAD"
	journalPrefix  = "JOURNAL-" // followed by the generation of its transaction; of attempt K > 0 also by a dot and K
	manifestPrefix = "MANIFEST-"
	OpenSuffix     = ".open" // of a growing file that its owner is still writing
)

// Options of Create and Open.
type Options struct {
	FS       durable.FS    // nil: durable.OS
	LockWait time.Duration // how long a busy lock is awaited; 0: fail at once (commands pass 70 s)
	Maker    string        // the command that makes such a store, for a hint: "murlset create"; may be ""
}

func (o Options) fs() durable.FS {
	if o.FS == nil {
		return durable.OS
	}
	return o.FS
}

// Store is an opened store folder. It holds nothing open. Many goroutines may use it.
type Store struct {
	fs   durable.FS
	dir  string
	abs  string // dir, whatever the working directory
	kind string
	wait time.Duration
	last atomic.Pointer[Manifest] // last result of newest: a generation stays as it is
}

// head is the content of HEAD.
type head struct {
	Generation uint64 `json:"generation"`
}

// Create makes a store. That there is one already of the same kind and params
// is not an error (idempotent); one of another kind or params, or a file, is fault.Usage.
func Create(dir, kind string, version int, params map[string]string, opt Options) error {
	s := Folder(dir, opt)
	s.kind = kind
	if err := s.notFile(); err != nil {
		return err
	}
	c, _, err := s.current()
	if err != nil {
		return err
	}
	if err := s.Lost(c); err != nil {
		return err
	}
	if err := durable.MkdirAll(s.fs, dir); err != nil {
		return err
	}
	first := &Manifest{Kind: kind, Version: version, Generation: 1, Base: 1, Epoch: c.Epoch, Params: params}
	data, err := first.Encode()
	if err != nil {
		return err
	}
	err = durable.LinkFile(s.fs, s.ManifestPath(1), data)
	if errors.Is(err, fs.ErrExist) {
		have, err := s.At(1)
		if err != nil {
			return err
		}
		if have.Kind != kind || !maps.Equal(have.Params, params) {
			return &fault.Error{Class: fault.Usage, File: dir, Found: "there is already a store of " + describe(have.Kind, have.Params),
				Want: describe(kind, params), Hint: "name another folder"}
		}
	} else if err != nil {
		return err
	}
	// Only a store that never changed can lack its pointer.
	if ok, err := durable.Exists(s.fs, s.Path(HeadFile)); ok || err != nil {
		return err
	}
	if list, err := s.Generations(); err != nil {
		return err
	} else if len(list) > 1 {
		return s.noHead()
	}
	return s.writeHead(1)
}

// Lost refuses a store without manifests if c, the crawl's CURRENT, names a generation of it.
func (s *Store) Lost(c Current) error {
	want := c.Stores[s.NameInCrawl()]
	if want == 0 {
		return nil
	}
	if list, err := s.Generations(); len(list) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return &fault.Error{Class: fault.Corrupt, File: s.dir, Found: "no store here", Want: fmt.Sprintf("generation %d, as checkpoint %d says", want, c.Checkpoint), Hint: s.HintMissing()}
}

func (s *Store) notFile() error {
	if st, err := s.fs.Stat(s.dir); err == nil && !st.IsDir() {
		return &fault.Error{Class: fault.Usage, File: s.dir, Found: "a file", Want: "the folder of a store of kind " + s.kind}
	}
	return nil
}

func describe(kind string, params map[string]string) string {
	if len(params) == 0 {
		return "kind " + kind
	}
	return fmt.Sprintf("kind %s with %s", kind, ParamsText(params))
}

// ParamsText writes what a store was created with for people: "policy=fifo workers=256",
// sorted by name.
func ParamsText(params map[string]string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(params)) {
		list = append(list, name+"="+params[name])
	}
	return strings.Join(list, " ")
}

// Within is the folder of the store of a kind in a crawl folder that has one; any other
// folder is itself.
func Within(dir, kind string, opt Options) string {
	in := filepath.Join(dir, kind)
	if ok, err := durable.Exists(opt.fs(), filepath.Join(in, HeadFile)); ok && err == nil && IsCrawl(dir, opt) {
		return in
	}
	return dir
}

// Open opens dir, which must hold a store of the kind, or be a crawl folder that has one:
// fault.Usage with the hint which command makes one, fault.WrongKind, fault.Version.
func Open(dir, kind string, version int, opt Options) (*Store, error) {
	dir = Within(dir, kind, opt)
	s := Folder(dir, opt)
	s.kind = kind
	if err := s.notFile(); err != nil {
		return nil, err
	}
	ok, err := durable.Exists(s.fs, s.Path(HeadFile))
	if err != nil {
		return nil, err
	}
	if !ok {
		if list, err := s.Generations(); err == nil && len(list) > 0 && list[len(list)-1] > 1 {
			return nil, s.noHead()
		}
		c, err := ReadCurrent(s.fs, dir)
		if err == nil && c.Map > 0 {
			return nil, &fault.Error{Class: fault.Usage, File: dir, Found: "a crawl of several shards", Want: "the folder of one",
				Hint: fmt.Sprintf("name it: %s", filepath.Join(dir, ShardsDir, "000", kind))}
		}
		if err == nil {
			if err := Folder(filepath.Join(dir, kind), opt).Lost(c); err != nil {
				return nil, err
			}
		}
		if IsCrawl(dir, opt) {
			return nil, &fault.Error{Class: fault.Usage, File: dir, Found: "a crawl folder without a store of kind " + kind, Want: "a crawl folder that has one, or the store"}
		}
		if err := MissingCurrent(s.fs, dir); err != nil {
			return nil, err
		}
		whole := dir
		if filepath.Base(filepath.Clean(dir)) == kind {
			whole = filepath.Dir(filepath.Clean(dir))
		}
		hint := "make a whole crawl folder: " + fault.Quote("mckpt", "init", whole)
		if opt.Maker != "" {
			hint = "make it: " + fault.Quote(append(strings.Fields(opt.Maker), dir)...) + "; or " + hint
		}
		c, outside, err := s.current()
		if err == nil {
			err = s.Lost(c)
		}
		if errors.Is(err, fault.Corrupt) {
			return nil, err
		}
		if root := s.Root(); c.Map > 0 {
			if shards, err := s.fs.ReadDir(filepath.Join(root, ShardsDir)); err == nil && len(shards) > 0 {
				hint = fmt.Sprintf("the crawl has %s to %s", filepath.Join(root, ShardsDir, shards[0].Name(), kind), filepath.Join(root, ShardsDir, shards[len(shards)-1].Name(), kind))
			}
		} else if made, _ := durable.Exists(s.fs, filepath.Join(root, kind, HeadFile)); !outside && err == nil && made {
			hint = "the crawl has " + filepath.Join(root, kind)
		}
		return nil, &fault.Error{Class: fault.Usage, File: dir, Found: "no store here", Want: "a store of kind " + kind, Hint: hint}
	}
	m, err := s.Newest()
	if err != nil {
		return nil, err
	}
	if m.Kind != kind {
		return nil, &fault.Error{Class: fault.WrongKind, File: dir, Found: "a store of kind " + m.Kind, Want: "kind " + kind}
	}
	if m.Version != version {
		return nil, otherVersion(release.OfStore(kind), dir, "", kind+" store", strconv.Itoa(m.Version), version)
	}
	return s, nil
}

// Folder is the store in dir, of any kind and version, without a look at it.
func Folder(dir string, opt Options) *Store {
	return &Store{fs: opt.fs(), dir: dir, abs: absolute(dir), wait: opt.LockWait}
}

// Made reports whether the store is whole: false for one that is being made, an error for
// one that lost its pointer.
func (s *Store) Made() (bool, error) {
	if ok, err := durable.Exists(s.fs, s.Path(HeadFile)); ok || err != nil {
		return ok, err
	}
	list, err := s.Generations()
	if err == nil && len(list) > 0 && list[len(list)-1] > 1 {
		err = s.noHead()
	}
	return false, err
}

func (s *Store) noHead() error {
	return &fault.Error{Class: fault.Corrupt, File: s.Path(HeadFile), Found: "missing", Want: "the number of the newest generation",
		Err: fs.ErrNotExist, Hint: s.hintHead()}
}

// Dir is the store's folder, as given to Open.
func (s *Store) Dir() string { return s.dir }

// Name returns the store's name in ledgers: the base name of the folder, and within a shard its name in the crawl.
func (s *Store) Name() string {
	if s.Shard() != "" {
		return s.NameInCrawl()
	}
	return filepath.Base(s.abs)
}

// Kind is the store's kind, as given to Open.
func (s *Store) Kind() string { return s.kind }

// FS is the file system that the store is on.
func (s *Store) FS() durable.FS { return s.fs }

// Path is the place of a file of the store on the file system.
func (s *Store) Path(rel string) string { return filepath.Join(s.dir, filepath.FromSlash(rel)) }

func absolute(dir string) string {
	if a, err := filepath.Abs(dir); err == nil {
		return a
	}
	return dir
}

// ManifestPath is the file of a generation's manifest.
func (s *Store) ManifestPath(generation uint64) string {
	return s.Path(fmt.Sprintf("%s%06d", manifestPrefix, generation))
}

// At returns the manifest of a generation that still exists. Others may share its slices and maps: these are not to be changed.
func (s *Store) At(generation uint64) (*Manifest, error) {
	return readManifest(s.fs, s.ManifestPath(generation), generation)
}

// ManifestSum is the checksum of a manifest's whole file, by which a checkpoint binds it.
func (s *Store) ManifestSum(generation uint64) (string, error) {
	data, err := durable.ReadFile(s.fs, s.ManifestPath(generation), MaxFile)
	return Sum(data), err
}

// newHead is a HEAD that is not published yet.
func (s *Store) newHead(generation uint64) (*durable.Atomic, error) {
	data, err := Seal(magicHead, head{generation})
	if err != nil {
		return nil, err
	}
	a, err := durable.Create(s.fs, s.Path(HeadFile))
	if err != nil {
		return nil, err
	}
	if _, err := a.Write(data); err != nil {
		a.Abort()
		return nil, err
	}
	return a, nil
}

func (s *Store) writeHead(generation uint64) error {
	a, err := s.newHead(generation)
	if err != nil {
		return err
	}
	return s.pointed(a.Commit())
}

// pointed is err, what publishing a HEAD gave, or nil if it does no harm.
func (s *Store) pointed(err error) error {
	if errors.Is(err, fs.ErrNotExist) && s.fenced() {
		// Another machine has deleted the temporary file. Newest does without, but for a store's first.
		if ok, _ := durable.Exists(s.fs, s.Path(HeadFile)); ok {
			return nil
		}
	}
	return err
}

// Point writes the HEAD of a store that was copied without it.
func (s *Store) Point(newest uint64) error { return s.writeHead(newest) }

func (s *Store) readHead() (head, error) {
	file := s.Path(HeadFile)
	data, err := durable.ReadFile(s.fs, file, MaxFile)
	var h head
	if err == nil {
		h, err = decodeHead(file, data)
	}
	if e := (*fault.Error)(nil); errors.As(err, &e) && e.Class != fault.Version {
		e.Hint = s.hintHead()
	}
	return h, err
}

func decodeHead(file string, data []byte) (head, error) {
	var h head
	err := Unseal(file, magicHead, data, &h)
	if err == nil && (h.Generation == 0 || h.Generation > MaxGeneration) {
		err = &fault.Error{Class: fault.Corrupt, File: file, Place: "generation", Found: strconv.FormatUint(h.Generation, 10), Want: fmt.Sprintf("1 to %d", uint64(MaxGeneration))}
	}
	return h, err
}

// Generations lists the generations that have a manifest, in order.
func (s *Store) Generations() ([]uint64, error) {
	list, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	return s.generationsIn(list), nil
}

func (s *Store) generationsIn(list []fs.DirEntry) (gens []uint64) {
	for _, e := range list {
		digits, ok := strings.CutPrefix(e.Name(), manifestPrefix)
		if !ok || len(digits) < 6 || len(digits) > 6 && digits[0] == '0' { // not as ManifestPath writes it
			continue
		}
		if g, err := strconv.ParseUint(digits, 10, 64); err == nil && g > 0 {
			gens = append(gens, g)
		}
	}
	return sorted(gens)
}

// newestNumber is the highest number that a generation has by HEAD, or by the manifests in the folder.
func (s *Store) newestNumber() (uint64, error) {
	list, err := s.Generations()
	if err != nil {
		return 0, err
	}
	h, err := s.readHead()
	return max(h.Generation, slices.Max(append(list, 1))), err
}

// Newest returns the newest generation, whether it counts or not. A generation
// is published by the link of its manifest; HEAD, written after it, is only
// where to begin looking, so that a pointer that came late or never does no harm.
// In a shard another machine may write an old one much later, after manifests went: there the folder is searched too.
func (s *Store) Newest() (*Manifest, error) {
	m, _, err := s.newest()
	return m, err
}

// newest is Newest, and the generation that HEAD names.
func (s *Store) newest() (m *Manifest, head uint64, err error) {
	h, err := s.readHead()
	if errors.Is(err, fs.ErrNotExist) {
		if _, lost := s.Made(); lost != nil {
			err = lost
		}
	}
	if err != nil {
		return nil, 0, err
	}
	head = h.Generation
	if s.fenced() {
		if h.Generation, err = s.newestNumber(); err != nil {
			return nil, 0, err
		}
	}
	for g := h.Generation; ; g++ {
		if ok, err := durable.Exists(s.fs, s.ManifestPath(g+1)); err != nil {
			return nil, 0, err
		} else if !ok {
			if m := s.last.Load(); m != nil && m.Generation == g {
				return m, head, nil
			}
			m, err := s.At(g)
			if g == h.Generation && errors.Is(err, fs.ErrNotExist) {
				err = &fault.Error{Class: fault.Corrupt, File: s.Path(HeadFile), Found: fmt.Sprintf("generation %d, and no %s", g, s.ManifestPath(g)),
					Want: "the number of a generation that is there", Err: err, Hint: s.HintMissing()}
				if list, e := s.Generations(); e == nil && len(list) > 0 && list[len(list)-1] > g {
					err = &fault.Error{Err: fmt.Errorf("%w%w", err, errOldHead), Hint: s.hintHead()}
				}
			}
			if err == nil {
				s.last.Store(m)
			}
			return m, head, err
		}
	}
}

// errOldHead: there are manifests above that which HEAD names and which is gone.
var errOldHead = oldHead{}

type oldHead struct{}

func (oldHead) Error() string { return "" }

// OldHead reports whether err is of a HEAD that repair makes anew, though it can be read: higher manifests are there than the one that it names and that is gone.
func OldHead(err error) bool { return errors.Is(err, errOldHead) }

// Unused is the number of a generation above all that there were.
func (s *Store) Unused() (uint64, error) {
	newest, err := s.newestNumber()
	return newest + 1, err
}

// View is a store's state at one moment.
type View struct {
	Newest  *Manifest // the newest generation
	Counts  *Manifest // the one that counts: Newest, or one made from the checkpoint's
	Current Current   // zero outside a crawl folder
	Base    uint64    // the checkpoint's generation: what is above it belongs to the open round
	Outside bool      // not in a crawl folder

	head uint64 // generation that HEAD names
}

// Open is the name of the open round, or "". Outside a crawl folder no
// round stays open: the next name closes it.
func (v *View) Open() string { return v.open().Txn }

// open is a transaction of the open round; of none it has no name.
func (v *View) open() Done {
	if !v.Outside {
		for _, d := range v.Counts.Done {
			if d.Generation > v.Base {
				return d
			}
		}
	}
	return Done{}
}

// closed reports whether d belongs to a closed round once txn is asked for.
func (v *View) closed(d *Done, txn string) bool {
	if v.Outside {
		return d.Txn != txn
	}
	return d.Generation <= v.Base
}

// Look reads the state. Writers may be at work: what they replaced in between
// is read again.
func (s *Store) Look() (*View, error) {
	const tries = 20
	for i := 1; ; i++ {
		v, err := s.lookOnce()
		if err == nil || i == tries || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errMoved) {
			return v, err
		}
		time.Sleep(time.Duration(i) * time.Millisecond)
	}
}

// errMoved: the store is of a later epoch than CURRENT, which was read before it.
var errMoved = errors.New("epoch")

func (s *Store) lookOnce() (*View, error) {
	c, outside, err := s.current()
	if err != nil {
		return nil, err
	}
	m, head, err := s.newest()
	if err != nil {
		return nil, err
	}
	v := &View{head: head, Newest: m, Counts: m, Current: c, Base: c.base(s.NameInCrawl()), Outside: outside}
	switch {
	case outside:
	case m.Epoch > c.Epoch:
		return nil, &fault.Error{Class: fault.Corrupt, File: s.dir, Place: fmt.Sprintf("generation %d", m.Generation),
			Found: fmt.Sprintf("epoch %d", m.Epoch), Want: fmt.Sprintf("at most %d, as the crawl's CURRENT says", c.Epoch), Err: errMoved, Hint: HintCurrent(s.Root())}
	case m.Generation < v.Base:
		return nil, &fault.Error{Class: fault.Corrupt, File: s.dir, Found: fmt.Sprintf("newest generation %d", m.Generation),
			Want: fmt.Sprintf("%d or later, as checkpoint %d says", v.Base, c.Checkpoint), Hint: s.hintHead()}
	case m.Epoch == c.Epoch && m.Generation > v.Base && m.Base != v.Base: // an old copy of CURRENT
		return nil, &fault.Error{Class: fault.Corrupt, File: filepath.Join(s.Root(), CurrentFile), Found: fmt.Sprintf("generation %d of %s", v.Base, s.NameInCrawl()),
			Want: fmt.Sprintf("%d, on which generation %d was made", m.Base, m.Generation), Err: errMoved, Hint: HintCurrent(s.Root())}
	case m.Epoch < c.Epoch && m.Generation != v.Base:
		if v.Counts, err = s.At(v.Base); err != nil {
			return nil, err
		}
		v.Counts = v.Counts.WithSticky(m)
	}
	return v, nil
}

// WithSticky returns m with the sticky files of newest in place of its own.
func (m *Manifest) WithSticky(newest *Manifest) *Manifest {
	n := *m
	n.Files = nil
	for _, e := range m.Files {
		if !e.Sticky {
			n.Files = append(n.Files, e)
		}
	}
	for _, e := range newest.Files {
		if e.Sticky {
			n.Files = append(n.Files, e)
		}
	}
	sortFiles(n.Files)
	return &n
}

// Changed reports whether the store holds something else than at the checkpoint. A new generation
// alone is no change: the first command after abandon or restore makes one of the checkpoint's.
func (s *Store) Changed(v *View) (bool, error) {
	if v.Counts.Generation == v.Base {
		return false, nil
	}
	base, err := s.At(v.Base)
	if err != nil {
		return false, err
	}
	same := base.WithSticky(v.Counts)
	same.Generation, same.Parent, same.Base, same.Epoch = v.Counts.Generation, v.Counts.Parent, v.Counts.Base, v.Counts.Epoch
	want, err := same.Encode()
	if err != nil {
		return false, err
	}
	got, err := v.Counts.Encode()
	return !bytes.Equal(got, want), err
}

// Current returns the manifest that counts now. For a store of an older epoch inside a
// crawl folder, this is the manifest of the checkpoint's generation. Readers need no lock. Others
// get the same one: it is not to be changed.
func (s *Store) Current() (*Manifest, error) {
	v, err := s.Look()
	if err != nil {
		return nil, err
	}
	return v.Counts, nil
}

// Lookup finds the transaction (verb, txn) of this store, without the lock.
// found: it has committed, and its output is there. If its output is gone, the
// error is fault.Conflict and names the checkpoint. While another round is open,
// every name but that round's is fault.Conflict too.
func (s *Store) Lookup(verb, txn string) (done *Done, found bool, err error) {
	v, err := s.Look()
	if err != nil {
		return nil, false, err
	}
	d, err := s.lookup(v, verb, txn)
	return d, d != nil, err
}

func (s *Store) lookup(v *View, verb, txn string) (*Done, error) {
	open := v.Open()
	if txn == "" {
		if open != "" {
			return nil, s.RoundOpen("a change without --txn", v)
		}
		return nil, nil
	}
	if err := CheckTxn(txn); err != nil {
		return nil, err
	}
	var sameRound *Done
	for i := range v.Counts.Done {
		d := &v.Counts.Done[i]
		if d.Txn != txn {
			continue
		}
		sameRound = d
		if d.Verb != verb {
			continue
		}
		if d.Output != "" {
			gone := v.Counts.File(d.Output) == nil
			if !gone {
				ok, err := durable.Exists(s.fs, s.Path(d.Output))
				if err != nil {
					return nil, err
				}
				gone = !ok
			}
			if gone && open == txn && !v.closed(d, txn) {
				return nil, s.openOutputGone(d)
			}
			if gone {
				return nil, s.outputGone(verb, txn, v.closedBy(txn))
			}
		}
		return d, nil
	}
	if sameRound != nil && v.closed(sameRound, txn) {
		return nil, s.outputGone(verb, txn, v.closedBy(txn))
	}
	if checkpoint, found, err := s.FindName(v.Counts, txn); err != nil {
		return nil, err
	} else if found {
		return nil, s.outputGone(verb, txn, checkpoint)
	}
	if open != "" && open != txn {
		return nil, s.RoundOpen(fmt.Sprintf("transaction %q", txn), v)
	}
	return nil, nil
}

// RoundOpen is the error of what cannot be done while a round is open.
func (s *Store) RoundOpen(what string, v *View) error {
	open := v.open()
	root := s.Root()
	hint := "run its commands to the end with " + fault.Quote("--txn", open.Txn) + ", then close it: " + fault.Quote("mckpt", "commit", root, "--txn", open.Txn)
	if open.Verb == MoveVerb {
		hint = "finish it: " + fault.Quote("mcrawl", "run", root)
	}
	hint += "; or give it up: " + fault.Quote("mckpt", "abandon", root)
	return &fault.Error{Class: fault.Conflict, File: s.dir, Found: fmt.Sprintf("round %q is open", open.Txn), Want: "none for " + what, Hint: hint}
}

// openOutputGone is the error of a kept output of the open round that is lost.
func (s *Store) openOutputGone(d *Done) error {
	return &fault.Error{Class: fault.Corrupt, File: s.Path(d.Output), Found: "missing", Want: fmt.Sprintf("the kept output of %s %s, a round that is open", d.Verb, d.Txn),
		Hint: "put it back from a copy, or drop the round and make it again: " + fault.Quote("mckpt", "abandon", s.Root())}
}

func (s *Store) outputGone(verb, txn string, checkpoint uint64) error {
	e := &fault.Error{Class: fault.Conflict, File: s.dir, Hint: "give the new work a name of its own; or go back before it, to one of these checkpoints: " + fault.Quote("mckpt", "list", s.Root())}
	if checkpoint == 0 {
		e.Found = fmt.Sprintf("round %q is closed; %s %q cannot be repeated", txn, verb, txn)
	} else {
		e.Found = fmt.Sprintf("round %q was closed by checkpoint %d; %s %q cannot be repeated", txn, checkpoint, verb, txn)
	}
	return e
}

// HintMissing returns the hint for a store, or a file of a store, that is missing or damaged.
func (s *Store) HintMissing() string {
	if s.CrawlDir() != "" {
		return "see all that is missing or damaged, and what to do: " + fault.Quote("mckpt", "verify", s.Root())
	}
	return "put it back from a copy"
}

// hintHead returns the hint for a HEAD that is lost, damaged or old.
func (s *Store) hintHead() string {
	if dir := s.repairable(); dir != "" {
		return "make it anew: " + fault.Quote("mckpt", "repair", dir)
	}
	return s.HintMissing()
}

// repairable is the crawl folder that the store lies in, also one that has lost CURRENT; "" outside of one.
func (s *Store) repairable() string {
	if s.CrawlDir() != "" || MissingCurrent(s.fs, s.Root()) != nil {
		return s.Root()
	}
	return ""
}

// closedBy is the checkpoint that closed a round, 0 where it is not the current one.
func (v *View) closedBy(txn string) uint64 {
	if !v.Outside && v.Current.Txn == txn {
		return v.Current.Checkpoint
	}
	return 0
}
