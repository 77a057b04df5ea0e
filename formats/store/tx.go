package store

import (
	"bufio"
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
	"time"

	"github.com/zeebo/xxh3"

	"mercator/formats/record"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
)

// Tx is a change that has begun and holds the lock. One goroutine uses it; each
// NewFile may have another.
type Tx struct {
	s         *Store
	v         *View
	verb      string
	txn       string
	lock      io.Closer
	journal   journal
	serial    uint64
	drops     map[string]bool
	puts      map[string]Entry
	state     map[string]string
	files     []*NewFile
	output    string
	ended     bool
	placed    bool // new files may have their names
	published bool

	// In a shard: see attempts.go.
	attempt *Attempt
	claimed time.Time
	before  []Attempt // earlier attempts that may be at work still
	earlier []string  // growing files of earlier attempts at this transaction

	standing []uint64 // generations when the change began; outside of shards
}

// journal is the content of JOURNAL-G, or JOURNAL-G.K of attempt K: the growing files of the transaction that is
// to make generation G, which no manifest knows yet. Once there is one, nobody reads it.
type journal struct {
	Generation uint64   `json:"generation"` // generation that the transaction will make
	Epoch      uint64   `json:"epoch"`
	Verb       string   `json:"verb"`
	Txn        string   `json:"txn"`
	Serial     uint64   `json:"serial"` // the next one
	Names      []string `json:"names,omitempty"`
}

// lockPoll is how often a busy lock is tried again.
const lockPoll = 50 * time.Millisecond

// Lock takes a lock file, waiting at most wait: then fault.Busy, naming who has it.
func Lock(ctx context.Context, fsys durable.FS, file, what string, wait time.Duration) (io.Closer, error) {
	host, _ := os.Hostname() // for the message only
	deadline := time.Now().Add(wait)
	for {
		lock, err := fsys.Lock(file, fmt.Sprintf("process %d on %s since %s (%s)", os.Getpid(), host, time.Now().UTC().Format(time.RFC3339), what))
		if err == nil || !errors.Is(err, durable.ErrLocked) {
			return lock, err
		}
		left := time.Until(deadline)
		if left <= 0 {
			owner := durable.Owner(fsys, file)
			if owner == "" {
				owner = "another process"
			}
			return nil, &fault.Error{Class: fault.Busy, File: filepath.Dir(file), Found: "held by " + owner, Err: err,
				Hint: "wait for it to end, or give a longer --lock-wait"}
		}
		timer := time.NewTimer(min(left, lockPoll))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// Lock takes the store's lock for what, waiting LockWait.
func (s *Store) Lock(ctx context.Context, what string) (io.Closer, error) {
	return Lock(ctx, s.fs, s.Path(LockFile), what, s.wait)
}

// Begin takes the store's lock (waiting LockWait, then fault.Busy naming the
// holder), moves a store of an older epoch to the checkpoint's generation,
// looks (verb, txn) up again, and removes what a crashed change left behind.
// If it has committed meanwhile, Begin returns (nil, done, nil) and holds nothing.
// txn "" is a change of its own: refused while a round is open.
func (s *Store) Begin(ctx context.Context, verb, txn string) (*Tx, *Done, error) {
	lock, err := s.Lock(ctx, strings.TrimSpace(verb+" "+txn))
	if err != nil {
		return nil, nil, err
	}
	t, done, err := s.beginTx(lock, verb, txn)
	if t == nil {
		_ = lock.Close() // nothing was written through it
	}
	return t, done, err
}

func (s *Store) beginTx(lock io.Closer, verb, txn string) (*Tx, *Done, error) {
	for {
		v, err := s.settled()
		if err != nil {
			return nil, nil, err
		}
		if done, err := s.lookup(v, verb, txn); done != nil || err != nil {
			return nil, done, err
		}
		t := &Tx{s: s, v: v, verb: verb, txn: txn, lock: lock,
			drops: map[string]bool{}, puts: map[string]Entry{}, state: map[string]string{}}
		again := false
		if s.fenced() {
			again, err = t.claim()
		} else {
			err = t.takeOver()
		}
		if err != nil {
			return nil, nil, err
		}
		if !again {
			return t, nil, nil
		}
	}
}

// takeOver goes on with the journal of a run that died, if it was of the same transaction, and removes what others left.
// Nobody else is at work: the lock is held.
func (t *Tx) takeOver() (err error) {
	next := t.Generation()
	if t.journal, err = t.s.readJournal(next, 0); err != nil {
		return err
	}
	mine := journal{Generation: next, Epoch: t.Epoch(), Verb: t.verb, Txn: t.txn}
	switch {
	case t.journal.Generation == 0: // there is none
		t.journal = mine
	case !t.journal.of(&mine):
		// Another transaction's files go, but their names stay used.
		mine.Serial = t.journal.Serial
		if len(t.journal.Names) > 0 {
			if err := t.writeJournal(mine); err != nil {
				return err
			}
		}
		t.journal = mine
	}
	t.earlier = t.journal.Names
	t.serial = t.journal.Serial
	t.standing, err = t.s.removeLeftovers(t.journal)
	return err
}

// of reports whether a journal is of the same transaction as another, which can go on with it.
func (j *journal) of(other *journal) bool {
	return other.Txn != "" && j.Epoch == other.Epoch && j.Verb == other.Verb && j.Txn == other.Txn
}

// Settle brings a store to a state that a change can start from: HEAD names the
// newest generation, and that one counts. The lock is held.
func (s *Store) Settle() (*View, error) {
	v, err := s.settled()
	if err == nil && !s.fenced() { // in a shard Newest searches the folder
		var all []uint64
		if all, err = s.Generations(); err == nil {
			err = s.reached(all, v.Newest.Generation)
		}
	}
	return v, err
}

// settled is Settle without a look at whether HEAD leads to the highest manifest.
func (s *Store) settled() (*View, error) {
	for tries := 1; ; tries++ {
		v, err := s.settle()
		if tries == settles || !errors.Is(err, errMade) {
			return v, err
		}
	}
}

const settles = 3 // tries, where another machine makes the same generation

// errMade is the cause where a generation to be published is there.
var errMade = errors.New("made by another process")

func (s *Store) settle() (*View, error) {
	v, err := s.Look()
	if err != nil {
		return nil, err
	}
	if v.head != v.Newest.Generation {
		// The writer of that generation stopped between link and pointer; the
		// link may not be on the disk yet.
		if err := s.fs.SyncDir(s.dir); err != nil {
			return nil, err
		}
		if err := s.writeHead(v.Newest.Generation); err != nil {
			return nil, err
		}
	}
	if !v.Outside && v.Newest.Epoch != v.Current.Epoch {
		next := *v.Counts
		next.Parent = v.Counts.Generation
		next.Base = v.Base
		next.Generation = v.Newest.Generation + 1
		next.Epoch = v.Current.Epoch
		if err := s.Publish(&next); err != nil {
			return nil, err
		}
		v.Newest, v.Counts = &next, &next
	}
	return v, nil
}

// reached refuses a newest generation that is not the highest of all in the folder: an old copy of HEAD does not lead over manifests
// that were deleted, and the change would use a number again.
func (s *Store) reached(all []uint64, newest uint64) error {
	if len(all) == 0 || all[len(all)-1] <= newest {
		return nil
	}
	return &fault.Error{Class: fault.Corrupt, File: s.Path(HeadFile), Found: fmt.Sprintf("generation %d, from which %d is reached", newest, newest),
		Want: fmt.Sprintf("the way to %d, which is there", all[len(all)-1]), Hint: s.hintHead()}
}

// Publish makes m the newest generation.
func (s *Store) Publish(m *Manifest) error {
	_, err := s.publish(m, nil, nil)
	return err
}

// publish is Publish, and reports whether m is the newest generation, as it may be in spite of an error. First it makes the calls of
// syncs, which make durable what m names. In a shard it then calls look, if not nil, for a last look at whether to go on.
//
// The new HEAD reaches the disk with the folder's next sync, which comes with the next link. Until then the HEAD on the disk
// names the generation before m. Newest begins there and finds m, even if the manifest of that generation is damaged.
func (s *Store) publish(m *Manifest, syncs []func() error, look func() error) (published bool, err error) {
	data, err := m.Encode()
	if err != nil {
		return false, err
	}
	a, err := durable.Create(s.fs, s.ManifestPath(m.Generation))
	if err != nil {
		return false, err
	}
	defer a.Abort()
	if _, err := a.Write(data); err != nil {
		return false, err
	}
	pointer, err := s.newHead(m.Generation)
	if err != nil {
		return false, err
	}
	defer pointer.Abort()
	if err := durable.Parallel(s.fs, append(syncs, a.Seal, pointer.Seal)); err != nil {
		return false, err
	}
	fenced := s.fenced()
	if fenced {
		if err := s.lastLook(m.Generation, look); err != nil {
			return false, err
		}
	}
	err = a.Link()
	if errors.Is(err, fs.ErrExist) || fenced && errors.Is(err, fs.ErrNotExist) { // not there: who made it has deleted ours
		return false, s.made(m.Generation)
	}
	if err != nil {
		return false, err
	}
	return true, s.pointed(pointer.Place())
}

// lastLook refuses to publish a generation if there is one of its number or later.
func (s *Store) lastLook(generation uint64, look func() error) error {
	if look != nil {
		if err := look(); err != nil {
			return err
		}
	}
	newest, err := s.newestNumber()
	if err == nil && newest >= generation {
		err = s.made(generation)
	}
	return err
}

// made is the error of who comes too late with a generation. In a shard the other may be an attempt at the same
// transaction: then the command, run again, has only to repeat its output.
func (s *Store) made(generation uint64) error {
	e := &fault.Error{Class: fault.Conflict, File: s.dir, Found: fmt.Sprintf("generation %d was made by another process", generation), Err: errMade,
		Hint: "run the command again"}
	if s.fenced() {
		e.Class = fault.Busy
	}
	return e
}

func journalName(generation, attempt uint64) string {
	name := fmt.Sprintf("%s%06d", journalPrefix, generation)
	if attempt > 0 {
		name += fmt.Sprintf(".%d", attempt)
	}
	return name
}

// CheckJournal refuses a damaged journal of a generation to come, or one of its attempts.
func (s *Store) CheckJournal(generation uint64) error {
	_, err := s.readJournal(generation, 0)
	if err != nil || !s.fenced() {
		return err
	}
	list, err := s.attempts()
	for _, a := range list {
		if a.Generation == generation && err == nil {
			if _, err = s.readAttempt(a); err == nil {
				_, err = s.readJournal(generation, a.Number)
			} else if errors.Is(err, fs.ErrNotExist) {
				err = nil // it has committed meanwhile
			}
		}
	}
	return err
}

// readJournal reads the journal of an attempt at the generation to come. It returns the zero journal if there is none.
func (s *Store) readJournal(generation, attempt uint64) (journal, error) {
	file := s.Path(journalName(generation, attempt))
	data, err := durable.ReadFile(s.fs, file, MaxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return journal{}, nil
	}
	var j journal
	if err == nil {
		j, err = decodeJournal(file, data)
	}
	if err == nil && j.Generation != generation {
		err = &fault.Error{Class: fault.Corrupt, File: file, Place: "generation", Found: strconv.FormatUint(j.Generation, 10), Want: strconv.FormatUint(generation, 10)}
	}
	if Damaged(err) {
		return j, &fault.Error{Err: err, Hint: "remove the file, then run the command again, which does the work of the interrupted run anew: " + fault.Quote("rm", file)}
	}
	return j, err
}

func decodeJournal(file string, data []byte) (journal, error) {
	var j journal
	if err := Unseal(file, magicJournal, data, &j); err != nil {
		return j, err
	}
	for _, name := range j.Names {
		if !CheckPath(name) {
			return j, &fault.Error{Class: fault.Corrupt, File: file, Place: "names", Found: "path " + strconv.Quote(clip(name)), Want: "a path inside the store"}
		}
	}
	return j, nil
}

func (t *Tx) writeJournal(j journal) error {
	data, err := Seal(magicJournal, j)
	if err != nil {
		return err
	}
	attempt := uint64(0)
	if t.attempt != nil {
		attempt = t.attempt.Number
	}
	return durable.WriteFile(t.s.fs, t.s.Path(journalName(j.Generation, attempt)), data)
}

// Base is the generation that the change starts from; it is not to be changed.
func (t *Tx) Base() *Manifest { return t.v.Counts }

// Epoch is the crawl's epoch, 0 outside a crawl folder.
func (t *Tx) Epoch() uint64 { return t.v.Current.Epoch }

// InCrawl reports whether the store lies in a crawl folder.
func (t *Tx) InCrawl() bool { return !t.v.Outside }

// Generation is the number that the change will have.
func (t *Tx) Generation() uint64 { return t.v.Newest.Generation + 1 }

// name makes a name that was never used.
func (t *Tx) name(prefix, suffix string) (string, error) {
	made := fmt.Sprintf("%06d-%d", t.Generation(), t.serial)
	name := prefix + made + suffix
	if generation, serial := numbers(name); generation+"-"+serial != made || !CheckPath(name) || !FreePrefix(name) || !strings.HasPrefix(suffix, ".") {
		return "", fmt.Errorf("store %s: %q, %q do not make a file name", t.s.dir, prefix, suffix)
	}
	if t.attempt != nil && t.serial >= (t.attempt.Number+1)*serials {
		return "", fmt.Errorf("store %s: a change of more than %d files", t.s.dir, serials)
	}
	t.serial++
	return name, nil
}

// Create opens a new file under a name never used before: prefix, the next
// generation's number, a serial number, suffix ("runs/000017-0.fps"). It joins
// the next generation with role when the change commits.
func (t *Tx) Create(prefix, suffix, role string) (*NewFile, error) {
	name, err := t.name(prefix, suffix)
	if err != nil {
		return nil, err
	}
	a, err := durable.CreateAll(t.s.fs, t.s.Path(name))
	if err != nil {
		return nil, err
	}
	f := &NewFile{path: name, role: role, file: a, buf: bufio.NewWriterSize(a, 16<<10), hash: xxh3.New()}
	t.files = append(t.files, f)
	return f, nil
}

// Journal reserves a name, like Create's, for a growing file that the caller
// writes itself (as NAME or NAME.open) and declares with Put. The reservation is
// on the disk before Journal returns, and the file outlives a crash of this
// transaction: the next Begin of the same one in the same epoch finds it in
// Journaled, any other removes it. The name is not given again.
func (t *Tx) Journal(prefix, suffix string) (string, error) {
	name, err := t.name(prefix, suffix)
	if err != nil {
		return "", err
	}
	if err := durable.MkdirAll(t.s.fs, filepath.Dir(t.s.Path(name))); err != nil {
		return "", err
	}
	t.journal.Names = append(t.journal.Names, name)
	t.journal.Serial = t.serial
	return name, t.writeJournal(t.journal)
}

// Journaled lists the files that earlier runs of this transaction reserved with
// Journal, and wrote; oldest first. Where the change Succeeds another attempt, that may write to them still.
func (t *Tx) Journaled() ([]string, error) {
	var found []string
	for _, name := range t.earlier {
		for _, on := range []string{name, name + OpenSuffix} {
			if ok, err := durable.Exists(t.s.fs, t.s.Path(on)); err != nil {
				return nil, err
			} else if ok {
				found = append(found, name)
				break
			}
		}
	}
	return found, nil
}

// Drop leaves a file of Base out of the next generation. It is deleted when no
// generation that a checkpoint or reader needs holds it.
func (t *Tx) Drop(path string) { t.drops[path] = true }

// Put adds or replaces an entry for a file that the caller itself wrote and
// synced (a growing WARC file).
func (t *Tx) Put(e Entry) { t.puts[e.Path] = e }

// SetState changes a small value.
func (t *Tx) SetState(key, value string) { t.state[key] = value }

// Keep names the file (made with Create, role "output") as this transaction's output.
func (t *Tx) Keep(f *NewFile) { t.output = f.path }

// Undone is fault.Conflict if the crawl was abandoned, restored or committed since the change began: it cannot be committed any more.
func (t *Tx) Undone() error {
	if c, outside, err := t.s.current(); err != nil {
		return err
	} else if c.Epoch != t.v.Current.Epoch || c.Checkpoint != t.v.Current.Checkpoint || outside != t.v.Outside {
		return &fault.Error{Class: fault.Conflict, File: t.s.dir, Found: "the crawl was abandoned, restored or committed meanwhile", Hint: "run the command again"}
	}
	return nil
}

// Commit syncs all new files, publishes the next generation, and unlocks. After
// an error the change has either not happened, or has: the next Begin tells. A change
// without a name in which nothing changes is none: the generation stays as it is.
func (t *Tx) Commit(inRows uint64, inHash string, l record.Ledger) (*Manifest, error) {
	defer t.Abort()
	if t.ended {
		return nil, fmt.Errorf("store %s: the change has ended", t.s.dir)
	}
	if err := t.Undone(); err != nil {
		return nil, err
	}
	base := t.Base()
	if t.txn == "" && len(t.files)+len(t.puts)+len(t.drops)+len(t.state)+len(t.journal.Names) == 0 {
		return base, nil
	}
	next := &Manifest{Kind: base.Kind, Version: base.Version, Params: base.Params, State: base.State,
		Generation: t.Generation(), Parent: base.Generation, Base: t.v.Base, Epoch: t.Epoch(), Done: base.Done}
	if len(t.state) > 0 {
		next.State = map[string]string{}
		for k, v := range base.State {
			next.State[k] = v
		}
		for k, v := range t.state {
			next.State[k] = v
		}
	}
	if t.txn != "" {
		if err := t.retire(next); err != nil {
			return nil, err
		}
		next.Done = append(slices.Clone(next.Done), Done{Verb: t.verb, Txn: t.txn, Generation: next.Generation, Epoch: next.Epoch,
			InRows: inRows, InHash: inHash, Output: t.output, Ledger: l})
	}
	syncs, err := t.place(next)
	if err != nil {
		return nil, err
	}
	if t.published, err = t.s.publish(next, syncs, t.Superseded); err != nil {
		return nil, err
	}
	t.v.Newest, t.v.Counts = next, next
	t.sweep(base, next)
	return next, nil
}

// retire takes the transactions of closed rounds out of next's list: their
// outputs go, their names into a file of role "names".
func (t *Tx) retire(next *Manifest) error {
	var kept []Done
	var lines strings.Builder
	for i := range next.Done {
		d := &next.Done[i]
		if !t.v.closed(d, t.txn) {
			kept = append(kept, *d)
			continue
		}
		if d.Output != "" {
			t.drops[d.Output] = true
		}
		lines.WriteString(nameLine(d, t.v.closedBy(d.Txn)))
	}
	next.Done = kept
	if lines.Len() == 0 {
		return nil
	}
	// Files of names double in size, the newest last: each name is copied
	// once per doubling, and there are few files.
	var merge []Entry
	size := int64(lines.Len())
	names := t.Base().WithRole(RoleNames)
	sort.Slice(names, func(i, j int) bool { return names[i].Born < names[j].Born })
	for i := len(names) - 1; i >= 0 && names[i].Length-int64(len(namesMagic)) <= 2*size; i-- {
		merge = append(merge, names[i])
		size += names[i].Length - int64(len(namesMagic))
	}
	f, err := t.Create("names/", ".names", RoleNames)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(f, namesMagic); err != nil {
		return err
	}
	for i := len(merge) - 1; i >= 0; i-- {
		err := t.s.readNames(merge[i], func(line []byte) error {
			_, err := fmt.Fprintf(f, "%s\n", line)
			return err
		})
		if err != nil {
			return err
		}
		t.Drop(merge[i].Path)
	}
	_, err = io.WriteString(f, lines.String())
	return err
}

// WithRole lists the files of a role.
func (m *Manifest) WithRole(role string) []Entry {
	var list []Entry
	for _, e := range m.Files {
		if e.Role == role {
			list = append(list, e)
		}
	}
	return list
}

// place gives the new files their names and fills next.Files. The caller makes the calls of syncs before it publishes next. Until then
// no manifest names the files, and a crash may leave them damaged for the next Begin to delete. To sync them under their
// temporary names would be one wait more for the disk: that for the names, before the manifest has its own.
func (t *Tx) place(next *Manifest) (syncs []func() error, err error) {
	for path := range t.drops {
		if t.Base().File(path) == nil {
			return nil, fmt.Errorf("store %s: dropped %s, which generation %d does not hold", t.s.dir, path, t.Base().Generation)
		}
	}
	for _, e := range t.Base().Files {
		if put, ok := t.puts[e.Path]; ok {
			put.Born, put.Epoch = e.Born, e.Epoch
			t.puts[e.Path] = put
		} else if !t.drops[e.Path] {
			next.Files = append(next.Files, e)
		}
	}
	for _, e := range t.puts {
		if e.Born == 0 {
			e.Born, e.Epoch = next.Generation, next.Epoch
		}
		next.Files = append(next.Files, e)
	}
	in := map[string]bool{}
	t.placed = true
	for _, f := range t.files {
		e, err := f.entry()
		if err == nil {
			err = f.file.Show()
		}
		if err != nil {
			return nil, err
		}
		syncs = append(syncs, f.file.Seal)
		in[filepath.Dir(t.s.Path(e.Path))] = true
		e.Born, e.Epoch = next.Generation, next.Epoch
		next.Files = append(next.Files, e)
	}
	sortFiles(next.Files)
	for _, dir := range slices.Sorted(maps.Keys(in)) {
		syncs = append(syncs, func() error { return t.s.fs.SyncDir(dir) })
	}
	return syncs, nil
}

func sortFiles(list []Entry) {
	sort.Slice(list, func(i, j int) bool { return list[i].Path < list[j].Path })
}

func sorted(list []uint64) []uint64 {
	slices.Sort(list)
	return list
}

// Abort removes new files and unlocks. After Commit it does nothing. An attempt leaves the files that have their names to
// removeAttempts.
func (t *Tx) Abort() {
	if t.ended {
		return
	}
	t.ended = true
	for _, f := range t.files {
		f.file.Abort()
	}
	switch {
	case t.published:
	case t.attempt != nil:
		t.endAttempt()
	case t.placed:
		t.unplace()
	}
	_ = t.lock.Close() // the end of the process unlocks too
}

// unplace removes the new files of a commit that failed after they had their names, or the space of a full disk would stay
// taken until the next Begin. An error that came with the link may have published them.
func (t *Tx) unplace() {
	if made, err := durable.Exists(t.s.fs, t.s.ManifestPath(t.Generation())); made || err != nil {
		return
	}
	for _, f := range t.files {
		_ = t.s.remove(f.path) // the next Begin removes what stays
	}
}

// NewFile is a file being written. It serves one goroutine.
type NewFile struct {
	path   string
	role   string
	file   *durable.Atomic
	buf    *bufio.Writer
	hash   *xxh3.Hasher
	length int64
	patch  bool // WriteAt was used: the running sum is not the file's
	sticky bool
	secret bool
}

// Write appends p.
func (f *NewFile) Write(p []byte) (int, error) {
	n, err := f.buf.Write(p)
	_, _ = f.hash.Write(p[:n])
	f.length += int64(n)
	return n, err
}

// WriteAt overwrites bytes that were written before.
func (f *NewFile) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 || off+int64(len(p)) > f.length {
		return 0, fmt.Errorf("%s: write of %d bytes at %d, outside the %d written", f.path, len(p), off, f.length)
	}
	if err := f.buf.Flush(); err != nil {
		return 0, err
	}
	f.patch = true
	return f.file.WriteAt(p, off)
}

// Path is the name that the file will have, relative to the store.
func (f *NewFile) Path() string { return f.path }

// Sticky marks the file as one that abandon and restore do not take back.
func (f *NewFile) Sticky() { f.sticky = true }

// Secret marks the file as one that nobody but its owner may read, and that a copy goes on without.
func (f *NewFile) Secret() error {
	f.secret = true
	if on, ok := f.file.File().(interface{ Chmod(fs.FileMode) error }); ok { // nothing stands in it yet
		return on.Chmod(0o600)
	}
	return nil
}

// Close flushes. The file is synced and gets its name when the change commits.
func (f *NewFile) Close() error { return f.buf.Flush() }

// Open opens the bytes written so far, for reading them back before the commit.
func (f *NewFile) Open() (io.ReaderAt, int64, error) {
	return f.file.File(), f.length, f.buf.Flush()
}

// entry ends the writing, and says what a manifest has of the file.
func (f *NewFile) entry() (Entry, error) {
	if err := f.buf.Flush(); err != nil {
		return Entry{}, err
	}
	if f.patch {
		f.hash.Reset()
		if _, err := io.Copy(f.hash, io.NewSectionReader(f.file.File(), 0, f.length)); err != nil {
			return Entry{}, err
		}
	}
	return Entry{Path: f.path, Role: f.role, Length: f.length, Sum: HexSum(f.hash), Sticky: f.sticky, Secret: f.secret}, nil
}

// HexSum is a checksum as it stands in manifests.
func HexSum(h *xxh3.Hasher) string {
	s := h.Sum128().Bytes()
	return hex.EncodeToString(s[:])
}
