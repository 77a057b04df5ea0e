package store

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"

	"mercator/pkg/durable"
	"mercator/pkg/fault"
)

// The store's own files.
const (
	headFile       = "HEAD"
	lockFile       = "LOCK"
	journalPrefix  = "JOURNAL-" // and the generation that its transaction will make
	manifestPrefix = "MANIFEST-"
	openSuffix     = ".open" // of a growing file that its owner is still writing
)

// Options of Create and Open.
type Options struct {
	FS       durable.FS        // nil: durable.OS
	Progress func(bytes int64) // is told what Crawl.Verify reads; may be nil
	Warn     func(err error)   // is told of damage that Crawl.Restore passes by; may be nil
	LockWait time.Duration     // how long a busy lock is awaited; 0: fail at once (commands pass 70 s)
}

func (o Options) fs() durable.FS {
	if o.FS == nil {
		return durable.OS
	}
	return o.FS
}

// Store is an opened store folder. It holds nothing open. Many goroutines may use it.
type Store struct {
	fs      durable.FS
	dir     string
	kind    string
	version string
	wait    time.Duration
	last    atomic.Pointer[Manifest] // that newest returned: a generation stays as it is
}

// head is the content of HEAD.
type head struct {
	Generation uint64 `json:"generation"`
}

// Create makes a store. That there is one already of the same kind and params
// is not an error (idempotent); one of another kind or params, or a file, is fault.Usage.
func Create(dir, kind, version string, params map[string]string, opt Options) error {
	s := &Store{fs: opt.fs(), dir: dir, kind: kind, version: version, wait: opt.LockWait}
	if err := s.notFile(); err != nil {
		return err
	}
	if err := durable.MkdirAll(s.fs, dir); err != nil {
		return err
	}
	c, _, err := s.crawl()
	if err != nil {
		return err
	}
	first := &Manifest{Kind: kind, Version: version, Generation: 1, Base: 1, Epoch: c.Epoch, Params: params}
	data, err := first.Encode()
	if err != nil {
		return err
	}
	err = durable.LinkFile(s.fs, s.manifestPath(1), data)
	if errors.Is(err, fs.ErrExist) {
		have, err := s.manifest(1)
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
	if ok, err := exists(s.fs, s.Path(headFile)); ok || err != nil {
		return err
	}
	if list, err := s.generations(); err != nil {
		return err
	} else if len(list) > 1 {
		return s.noHead()
	}
	return s.writeHead(1)
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

// makers are the commands that make a store of each kind.
var makers = map[string]string{
	"urls": "murlset create", "frontier": "mfrontier create", "fetch": "mfetch create",
	"dns": "mresolve create", "content": "mfpset create", "module": "mextract create",
}

// Open opens dir, which must hold a store of the kind: fault.Usage with the
// hint which command makes one, fault.WrongKind, fault.Version.
func Open(dir, kind, version string, opt Options) (*Store, error) {
	s := &Store{fs: opt.fs(), dir: dir, kind: kind, version: version, wait: opt.LockWait}
	if err := s.notFile(); err != nil {
		return nil, err
	}
	ok, err := exists(s.fs, s.Path(headFile))
	if err != nil {
		return nil, err
	}
	if !ok {
		if list, err := s.generations(); err == nil && len(list) > 0 && list[len(list)-1] > 1 {
			return nil, s.noHead()
		}
		if IsCrawl(dir, opt) {
			e := &fault.Error{Class: fault.Usage, File: dir, Found: "a crawl folder", Want: "a store of kind " + kind}
			if ok, err := exists(s.fs, filepath.Join(dir, kind, headFile)); ok && err == nil {
				e.Hint = "name the store in it: " + filepath.Join(dir, kind)
			}
			return nil, e
		}
		hint := `make a whole crawl folder with "mckpt init CRAWL"`
		if maker := makers[kind]; maker != "" {
			hint = fmt.Sprintf("make it with %q, or a whole crawl folder with %q", maker+" "+dir, "mckpt init CRAWL")
		}
		return nil, &fault.Error{Class: fault.Usage, File: dir, Found: "no store here", Want: "a store of kind " + kind, Hint: hint}
	}
	m, err := s.newest()
	if err != nil {
		return nil, err
	}
	if m.Kind != kind {
		return nil, &fault.Error{Class: fault.WrongKind, File: dir, Found: "a store of kind " + m.Kind, Want: "kind " + kind}
	}
	have, _, _ := parseVersion(m.Version) // Manifest.check has seen its shape
	want, _, ok := parseVersion(version)
	if !ok {
		return nil, fmt.Errorf("store version %q: want major.minor", version)
	}
	if have != want {
		return nil, newerVersion(dir, "", kind+" store", m.Version, want)
	}
	return s, nil
}

func (s *Store) noHead() error {
	return &fault.Error{Class: fault.Corrupt, File: s.Path(headFile), Found: "missing", Want: "the number of the newest generation",
		Hint: `"mckpt verify" tells which generations are whole`}
}

// Dir is the store's folder, as given to Open.
func (s *Store) Dir() string { return s.dir }

// Name is the base name of the folder: what ledgers call the store.
func (s *Store) Name() string { return filepath.Base(absolute(s.dir)) }

// Kind is the store's kind.
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

// crawlDir is the folder of the crawl that a store in dir would belong to: the
// one above, or for modules/NAME the one above that.
func crawlDir(dir string) string {
	up := filepath.Dir(absolute(dir))
	if filepath.Base(up) == modulesDir {
		up = filepath.Dir(up)
	}
	return up
}

// crawl reads the state of the crawl that the store belongs to; outside is true
// if it belongs to none.
func (s *Store) crawl() (c current, outside bool, err error) {
	c, err = readCurrent(s.fs, crawlDir(s.dir))
	if errors.Is(err, fs.ErrNotExist) {
		return current{}, true, nil
	}
	return c, false, err
}

// CrawlDir is the folder of the crawl that the store lies in, or "".
func (s *Store) CrawlDir() string {
	if dir := crawlDir(s.dir); IsCrawl(dir, Options{FS: s.fs}) {
		return dir
	}
	return ""
}

// nameInCrawl is how checkpoints call the store: "urls", "modules/NAME".
func (s *Store) nameInCrawl() string {
	rel, err := filepath.Rel(crawlDir(s.dir), absolute(s.dir))
	if err != nil {
		return s.Name()
	}
	return filepath.ToSlash(rel)
}

func (s *Store) manifestPath(generation uint64) string {
	return s.Path(fmt.Sprintf("%s%06d", manifestPrefix, generation))
}

func (s *Store) manifest(generation uint64) (*Manifest, error) {
	return readManifest(s.fs, s.manifestPath(generation), generation)
}

func (s *Store) writeHead(generation uint64) error {
	data, err := seal(magicHead, head{generation})
	if err != nil {
		return err
	}
	return durable.WriteFile(s.fs, s.Path(headFile), data)
}

func (s *Store) readHead() (head, error) {
	file := s.Path(headFile)
	data, err := durable.ReadFile(s.fs, file, maxHeader+maxBody)
	if err != nil {
		return head{}, err
	}
	return decodeHead(file, data)
}

func decodeHead(file string, data []byte) (head, error) {
	var h head
	err := unseal(file, magicHead, data, &h)
	if err == nil && (h.Generation == 0 || h.Generation > maxGeneration) {
		err = &fault.Error{Class: fault.Corrupt, File: file, Place: "generation", Found: strconv.FormatUint(h.Generation, 10), Want: fmt.Sprintf("1 to %d", uint64(maxGeneration))}
	}
	return h, err
}

// generations lists the generations whose manifests exist, in order.
func (s *Store) generations() ([]uint64, error) {
	list, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var gens []uint64
	for _, e := range list {
		digits, ok := strings.CutPrefix(e.Name(), manifestPrefix)
		if g, err := strconv.ParseUint(digits, 10, 64); ok && err == nil && g > 0 && e.Name() == filepath.Base(s.manifestPath(g)) {
			gens = append(gens, g)
		}
	}
	return sorted(gens), nil
}

// newest returns the newest generation, whether it counts or not. A generation
// is published by the link of its manifest; HEAD, written after it, is only
// where to begin looking, so that a pointer that came late or never does no harm.
func (s *Store) newest() (*Manifest, error) {
	h, err := s.readHead()
	if err != nil {
		return nil, err
	}
	for g := h.Generation; ; g++ {
		if ok, err := exists(s.fs, s.manifestPath(g+1)); err != nil {
			return nil, err
		} else if !ok {
			if m := s.last.Load(); m != nil && m.Generation == g {
				return m, nil
			}
			m, err := s.manifest(g)
			if g == h.Generation && errors.Is(err, fs.ErrNotExist) {
				err = &fault.Error{Class: fault.Corrupt, File: s.Path(headFile), Found: fmt.Sprintf("generation %d, and no %s", g, s.manifestPath(g)),
					Want: "the number of a generation that is there", Err: err}
			}
			if err == nil {
				s.last.Store(m)
			}
			return m, err
		}
	}
}

// view is a store's state at one moment.
type view struct {
	newest  *Manifest // the newest generation
	counts  *Manifest // the one that counts: newest, or one made from the checkpoint's
	crawl   current   // zero outside a crawl folder
	base    uint64    // the checkpoint's generation: what is above it belongs to the open round
	outside bool      // not in a crawl folder
}

// openRound is the name of the open round, or "". Outside a crawl folder no
// round stays open: the next name closes it.
func (v *view) openRound() string {
	if v.outside {
		return ""
	}
	for _, d := range v.counts.Done {
		if d.Generation > v.base {
			return d.Txn
		}
	}
	return ""
}

// closed reports whether d belongs to a closed round once txn is asked for.
func (v *view) closed(d *Done, txn string) bool {
	if v.outside {
		return d.Txn != txn
	}
	return d.Generation <= v.base
}

// look reads the state. Writers may be at work: what they replaced in between
// is read again.
func (s *Store) look() (*view, error) {
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

func (s *Store) lookOnce() (*view, error) {
	c, outside, err := s.crawl()
	if err != nil {
		return nil, err
	}
	m, err := s.newest()
	if err != nil {
		return nil, err
	}
	v := &view{newest: m, counts: m, crawl: c, base: 1, outside: outside}
	if v.outside {
		return v, nil
	}
	if v.base, err = c.generation(s.fs, crawlDir(s.dir), s.nameInCrawl()); err != nil {
		return nil, err
	}
	switch {
	case m.Epoch > c.Epoch:
		return nil, &fault.Error{Class: fault.Corrupt, File: s.dir, Place: fmt.Sprintf("generation %d", m.Generation),
			Found: fmt.Sprintf("epoch %d", m.Epoch), Want: fmt.Sprintf("at most %d, as the crawl's CURRENT says", c.Epoch), Err: errMoved}
	case m.Generation < v.base:
		return nil, &fault.Error{Class: fault.Corrupt, File: s.dir, Found: fmt.Sprintf("newest generation %d", m.Generation),
			Want: fmt.Sprintf("%d or later, as checkpoint %d says", v.base, c.Checkpoint)}
	case m.Epoch < c.Epoch && m.Generation != v.base:
		if v.counts, err = s.manifest(v.base); err != nil {
			return nil, err
		}
		v.counts = v.counts.withSticky(m)
	}
	return v, nil
}

// withSticky returns m with the sticky files of newest in place of its own.
func (m *Manifest) withSticky(newest *Manifest) *Manifest {
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

// Current returns the manifest that counts now: inside a crawl folder, of a store
// of an older epoch, that of the checkpoint's generation. Readers need no lock. Others
// get the same one: it is not to be changed.
func (s *Store) Current() (*Manifest, error) {
	v, err := s.look()
	if err != nil {
		return nil, err
	}
	return v.counts, nil
}

// At returns the manifest of a generation that still exists.
func (s *Store) At(generation uint64) (*Manifest, error) { return s.manifest(generation) }

// OpenFile opens a file of the store for reading. A growing file is found under
// NAME or NAME.open. One that is missing is fault.Corrupt.
func (s *Store) OpenFile(path string) (durable.File, error) {
	if !checkPath(path) {
		return nil, &fault.Error{Class: fault.Corrupt, File: s.dir, Found: "path " + strconv.Quote(clip(path)), Want: "a path inside the store"}
	}
	// The owner may rename NAME.open to NAME between the first two tries.
	var first error
	for _, name := range []string{path, path + openSuffix, path} {
		f, err := s.fs.OpenFile(s.Path(name), os.O_RDONLY, 0)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		if first == nil {
			first = err
		}
	}
	return nil, &fault.Error{Class: fault.Corrupt, File: s.Path(path), Found: "no file", Want: "the file that the manifest names", Err: first,
		Hint: `run the command again; if it is missing still, go back with "mckpt restore"`}
}

// OpenSummed opens a file of a manifest to be read from its first byte to its last. Where it ends it refuses one that is
// not as the manifest says: fault.Truncated, or fault.Corrupt. It is not for growing files.
func (s *Store) OpenSummed(e Entry) (io.ReadCloser, error) {
	f, err := s.OpenFile(e.Path)
	if err != nil {
		return nil, err
	}
	return &summed{file: f, path: s.Path(e.Path), want: e, hash: xxh3.New()}, nil
}

type summed struct {
	file   durable.File
	path   string
	want   Entry
	hash   *xxh3.Hasher
	length int64
}

func (r *summed) Read(b []byte) (int, error) {
	n, err := r.file.ReadAt(b[:min(int64(len(b)), r.want.Length-r.length)], r.length)
	r.length += int64(n)
	_, _ = r.hash.Write(b[:n]) // never fails
	switch {
	case r.length < r.want.Length && err == io.EOF:
		return n, r.refuse(fault.Truncated, fmt.Sprintf("byte %d", r.length), "its end", fmt.Sprintf("%d bytes", r.want.Length))
	case r.length < r.want.Length:
		return n, err
	}
	if more, _ := r.file.ReadAt(make([]byte, 1), r.length); more > 0 {
		return n, r.refuse(fault.Corrupt, fmt.Sprintf("byte %d", r.length), "more bytes", fmt.Sprintf("%d", r.want.Length))
	}
	if have := hexSum(r.hash); have != r.want.Sum {
		return n, r.refuse(fault.Corrupt, "whole file", "checksum "+have, r.want.Sum)
	}
	return n, io.EOF
}

func (r *summed) refuse(class fault.Class, place, found, want string) error {
	return &fault.Error{Class: class, File: r.path, Place: place, Found: found, Want: want + ", as in the manifest", Hint: `go back with "mckpt restore"`}
}

func (r *summed) Close() error { return r.file.Close() }

// Lookup says what (verb, txn) is to this store now, without the lock.
// found: it has committed, and its output is there. One that has committed and
// whose output is gone is fault.Conflict naming the checkpoint; while another
// round is open every name but that round's is fault.Conflict too.
func (s *Store) Lookup(verb, txn string) (done *Done, found bool, err error) {
	v, err := s.look()
	if err != nil {
		return nil, false, err
	}
	d, err := s.lookup(v, verb, txn)
	return d, d != nil, err
}

func (s *Store) lookup(v *view, verb, txn string) (*Done, error) {
	open := v.openRound()
	if txn == "" {
		if open != "" {
			return nil, s.roundOpen("a change without --txn", open)
		}
		return nil, nil
	}
	if err := CheckTxn(txn); err != nil {
		return nil, err
	}
	var sameRound *Done
	for i := range v.counts.Done {
		d := &v.counts.Done[i]
		if d.Txn != txn {
			continue
		}
		sameRound = d
		if d.Verb != verb {
			continue
		}
		if d.Output != "" {
			gone := v.counts.File(d.Output) == nil
			if !gone {
				ok, err := exists(s.fs, s.Path(d.Output))
				if err != nil {
					return nil, err
				}
				gone = !ok
			}
			if gone {
				return nil, s.outputGone(verb, txn, s.closedBy(v, txn))
			}
		}
		return d, nil
	}
	if sameRound != nil && v.closed(sameRound, txn) {
		return nil, s.outputGone(verb, txn, s.closedBy(v, txn))
	}
	if checkpoint, found, err := s.findName(v.counts, txn); err != nil {
		return nil, err
	} else if found {
		return nil, s.outputGone(verb, txn, checkpoint)
	}
	if open != "" && open != txn {
		return nil, s.roundOpen(fmt.Sprintf("transaction %q", txn), open)
	}
	return nil, nil
}

func (s *Store) roundOpen(what, open string) error {
	return &fault.Error{Class: fault.Conflict, File: s.dir, Found: fmt.Sprintf("round %q is open", open), Want: "none for " + what,
		Hint: fmt.Sprintf(`run its commands with --txn %s to the end and close it with "mckpt commit CRAWL --txn %s", or give it up with "mckpt abandon CRAWL"`, open, open)}
}

func (s *Store) outputGone(verb, txn string, checkpoint uint64) error {
	e := &fault.Error{Class: fault.Conflict, File: s.dir, Hint: "give the new work a name of its own"}
	if checkpoint == 0 {
		e.Found = fmt.Sprintf("round %q is closed; %s %q cannot be repeated", txn, verb, txn)
	} else {
		e.Found = fmt.Sprintf("round %q was closed by checkpoint %d; %s %q cannot be repeated", txn, checkpoint, verb, txn)
		if before, ok := s.before(checkpoint); ok {
			e.Hint += fmt.Sprintf(", or go back before it with %q", fmt.Sprintf("mckpt restore CRAWL %d", before))
		}
	}
	return e
}

// before is the checkpoint that another was built on; false if either is forgotten.
func (s *Store) before(checkpoint uint64) (uint64, bool) {
	k, err := readCheckpoint(s.fs, crawlDir(s.dir), checkpoint)
	if err != nil {
		return 0, false
	}
	ok, err := exists(s.fs, checkpointPath(crawlDir(s.dir), k.Parent))
	return k.Parent, k.Parent == 0 || ok && err == nil
}

// closedBy finds the checkpoint that closed a round, 0 if it is not known.
func (s *Store) closedBy(v *view, txn string) uint64 {
	if v.outside {
		return 0
	}
	return findCheckpoint(s.fs, crawlDir(s.dir), v.crawl.Checkpoint, txn)
}

// A file of role "names" is a first line, and for each transaction
// "verb TAB name TAB generation TAB checkpoint".
const namesMagic = "mercator-store-names 1.0"

// nameLine is a line of it; checkpoint is 0 where none closed the round.
func nameLine(d *Done, checkpoint uint64) string {
	return fmt.Sprintf("%s\t%s\t%d\t%d\n", d.Verb, d.Txn, d.Generation, checkpoint)
}

// findName looks for a transaction's name among those of closed rounds.
func (s *Store) findName(m *Manifest, txn string) (checkpoint uint64, found bool, err error) {
	for _, e := range m.Files {
		if e.Role != RoleNames {
			continue
		}
		err := s.readNames(e, func(line []byte) error {
			name, n, err := parseName(line)
			if name == txn {
				checkpoint, found = n, true
			}
			return err
		})
		if found || err != nil {
			return checkpoint, found, err
		}
	}
	return 0, false, nil
}

// readNames calls each with every line of a names file, and then checks its sum.
func (s *Store) readNames(e Entry, each func(line []byte) error) error {
	f, err := s.OpenFile(e.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	return decodeNames(s.Path(e.Path), f, e.Sum, each)
}

const maxNameLine = 256 // bytes

func decodeNames(file string, in io.Reader, sum string, each func(line []byte) error) error {
	corrupt := func(place string, err error) error {
		return &fault.Error{Class: fault.Corrupt, File: file, Place: place, Err: err}
	}
	hash := xxh3.New()
	scan := bufio.NewScanner(io.TeeReader(in, hash))
	scan.Buffer(nil, maxNameLine)
	n := 0
	for scan.Scan() {
		n++
		place := fmt.Sprintf("line %d", n)
		if n == 1 {
			if scan.Text() != namesMagic {
				return corrupt(place, fmt.Errorf("%q, want %q", clip(scan.Text()), namesMagic))
			}
			continue
		}
		if err := each(scan.Bytes()); err != nil {
			return corrupt(place, err)
		}
	}
	if err := scan.Err(); errors.Is(err, bufio.ErrTooLong) {
		return corrupt(fmt.Sprintf("line %d", n+1), fmt.Errorf("no end of line within %d bytes", maxNameLine))
	} else if err != nil {
		return err
	}
	if have := hexSum(hash); have != sum {
		return corrupt("whole file", fmt.Errorf("checksum %s, want %s", have, sum))
	}
	return nil
}

// parseName reads a line of a names file.
func parseName(line []byte) (txn string, checkpoint uint64, err error) {
	field := bytes.Split(line, []byte("\t"))
	if len(field) != 4 {
		return "", 0, fmt.Errorf("%d fields, want 4", len(field))
	}
	checkpoint, err = strconv.ParseUint(string(field[3]), 10, 64)
	return string(field[1]), checkpoint, err
}
