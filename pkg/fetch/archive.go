package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/web/httpmsg"
)

// openSuffix ends the name of a WARC file that still grows.
const openSuffix = ".open"

const roleWARC = "warc"

// statePlaces is the state that says which records for an index the archive has: a warc.Places.
const statePlaces = "places"

// archive is the WARC files of the store while a round writes to them.
//
//   - What a committed generation counts of a file is never changed.
//   - A group of records (response, request, metadata) stands in one file.
//   - A file of an older epoch is left alone: another checkpoint may need its tail.
//   - In a shard, what an earlier attempt may write to is not changed: see lease.go.
//
// One goroutine writes. Reading what was recovered is safe beside that.
type archive struct {
	st      *store.Store
	tx      *store.Tx
	fs      durable.FS
	codec   warc.Codec
	enc     warc.Encoder
	prefix  string // of the names of new files
	sizeMax int64
	round   warc.Round
	about   []warc.Field
	now     func() time.Time

	name   string // of the file that is written, relative to the store
	f      durable.File
	w      *warc.Writer
	closed []string // complete since the round began
	taken  []string // of earlier attempts at the round: what counts of them is sound

	saved  *savedRows
	sound  map[string]int64 // by file, how much of it is committed or was recovered
	places *warc.Places     // of all records for an index; nil: not known, as an older version began
}

// openArchive recovers what the transaction had written before a crash, cuts the
// rest, and is then ready to append.
func openArchive(st *store.Store, tx *store.Tx, opt *Options, round warc.Round) (_ *archive, err error) {
	a := &archive{
		st: st, tx: tx, fs: st.FS(), codec: opt.Codec, enc: warc.Encoder{Codec: opt.Codec, BlockDigest: opt.Digests}, prefix: cmp.Or(opt.WARCPrefix, warc.DefaultPrefix), sizeMax: opt.WARCSize,
		round: round, about: opt.About, now: opt.Now, saved: newSavedRows(st.Dir()), sound: map[string]int64{},
	}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	for _, e := range tx.Base().Files {
		if e.Role == roleWARC {
			a.sound[e.Path] = e.Length
		}
	}
	if places, ok := placesOf(tx.Base()); ok {
		a.places = &places
	}
	if tx.Fenced() {
		err = a.openFenced()
	} else {
		err = a.openAlone()
	}
	if err != nil {
		return nil, err
	}
	if a.f == nil {
		if err := a.beginFile(); err != nil {
			return nil, err
		}
	}
	return a, a.writeInfo()
}

// openAlone is openArchive when no other process can be at work, since the store's lock is held.
func (a *archive) openAlone() error {
	var last string // the open file that is appended to
	for _, e := range a.tx.Base().Files {
		if e.Role != roleWARC || e.Epoch != a.tx.Epoch() || !e.Growing {
			continue
		}
		if err := a.recover(e.Path, e.Length); err != nil {
			return err
		}
		last = e.Path
	}
	journaled, err := a.tx.Journaled()
	if err != nil {
		return err
	}
	for _, name := range journaled {
		if err := a.recover(name, 0); err != nil {
			return err
		}
		if last != "" {
			a.closed = append(a.closed, last)
		}
		last = name
	}
	if err := a.saved.sortContacts(); err != nil || last == "" {
		return err
	}
	ok, err := a.reopen(last)
	if err == nil && !ok {
		a.closed = append(a.closed, last)
	}
	return err
}

// find returns the path on disk of a file of the store: NAME.open or NAME.
func (a *archive) find(name string) (path string, size int64, err error) {
	for _, suffix := range [...]string{openSuffix, ""} {
		path = a.st.Path(name) + suffix
		fi, err := a.fs.Stat(path)
		if err == nil {
			return path, fi.Size(), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", 0, err
		}
	}
	return "", 0, fs.ErrNotExist
}

// findFrom is find for a file with that number of committed bytes.
func (a *archive) findFrom(name string, committed int64) (path string, size int64, err error) {
	path, size, err = a.find(name)
	if errors.Is(err, fs.ErrNotExist) {
		err = &fault.Error{Class: fault.Corrupt, File: a.st.Path(name), Found: "the file is missing", Want: fmt.Sprintf("%d bytes", committed), Err: err}
	} else if err == nil && size < committed {
		err = &fault.Error{Class: fault.Truncated, File: path, Found: fmt.Sprintf("%d bytes", size), Want: fmt.Sprintf("%d", committed)}
	}
	return path, size, err
}

// recover keeps whole groups of this round behind the committed part of a file
// and cuts what follows.
func (a *archive) recover(name string, committed int64) error {
	path, size, err := a.findFrom(name, committed)
	if err != nil || size == committed {
		return err
	}
	f, err := a.fs.OpenFile(path, os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	keep, err := a.scan(f, name, committed, size)
	if err != nil {
		return err
	}
	a.sound[name] = keep
	if keep < size {
		if err := f.Truncate(keep); err != nil {
			return err
		}
		return f.Sync()
	}
	return nil
}

// scan finds the groups of this round in file[from:to] and returns where the
// last whole one ends. A group that refers to a payload which was cut away is
// not whole: its URL is fetched again, with all behind it. Records refer to what
// stands before them, in this file or in one that was recovered earlier.
func (a *archive) scan(f durable.File, name string, from, to int64) (keep int64, err error) {
	if a.round.Txn == "" {
		return from, nil
	}
	index := len(a.saved.files)
	r := warc.NewReader(io.NewSectionReader(f, from, to-from), warc.ReaderOptions{Name: name, Offset: from, Verify: a.codec == warc.None})
	defer r.Close()
	keep = from
	group := from
	var response func() // enters the group's, when it is whole
	for {
		rec, err := r.Next()
		if err != nil {
			if fault.ClassOf(err) == "" && err != io.EOF {
				return 0, err
			}
			break // the tail is cut or damaged here
		}
		var out warc.Outcome
		whole, mine := false, true
		switch rec.Type {
		case warc.TypeInfo:
			var round warc.Round
			if round, whole, err = warc.ReadRound(rec); err == nil && whole {
				mine = round.Txn == a.round.Txn && round.Epoch == a.round.Epoch
			}
		case warc.TypeRevisit:
			if file, offset, refers := rec.Original(); refers {
				mine = offset < a.sound[file] || file == name && offset < keep
			}
		case warc.TypeResource:
			_, whole, err = warc.ReadHostname(rec)
		case warc.TypeMetadata:
			out, whole, err = warc.ReadOutcome(rec)
			mine = out.Round.Txn == a.round.Txn && out.Round.Epoch == a.round.Epoch
		}
		if err == nil && mine {
			err = r.Finish()
		}
		if err != nil || !mine {
			if err != nil && fault.ClassOf(err) == "" {
				return 0, err
			}
			break
		}
		if !whole {
			switch rec.Type {
			case warc.TypeResponse, warc.TypeRevisit, warc.TypeResource:
				offset, length, plain := rec.Offset, r.Good()-rec.Offset, rec.Plain()
				response = func() { a.place(name, offset, length, plain) }
			}
			continue
		}
		if response != nil {
			response()
			response = nil
		}
		keep = r.Good()
		if out.Row.Role != "" {
			if err := a.saved.addContact(out.Row.Role, out.Row.URL, index, group); err != nil {
				return 0, err
			}
		}
		group = keep
	}
	a.saved.files = append(a.saved.files, name)
	return keep, nil
}

// reopen goes on with a file, unless it is complete, or of another codec or prefix.
func (a *archive) reopen(name string) (bool, error) {
	path := a.st.Path(name) + openSuffix
	fi, err := a.fs.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if prefix, _ := warc.ParseName(name); fi.Size() >= a.sizeMax || prefix != a.prefix || !strings.HasSuffix(name, a.codec.Suffix()) {
		a.name = name
		return true, a.finishFile(path)
	}
	f, err := a.fs.OpenFile(path, os.O_RDWR, 0o644)
	if err != nil {
		return false, err
	}
	if _, err := f.Seek(fi.Size(), io.SeekStart); err != nil {
		f.Close()
		return false, err
	}
	a.f, a.name, a.w = f, name, warc.NewWriter(f, fi.Size())
	return true, nil
}

// beginFile starts a file under a name that was never used.
func (a *archive) beginFile() error {
	_, shard := path.Split(a.st.Shard())
	name, err := a.tx.Journal(warc.NamePrefix(a.prefix, shard), a.codec.Suffix())
	if err != nil {
		return err
	}
	f, err := a.fs.OpenFile(a.st.Path(name)+openSuffix, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	a.f, a.name, a.w = f, name, warc.NewWriter(f, 0)
	return a.fs.SyncDir(a.st.Dir())
}

// writeInfo writes the warcinfo record that starts this round in the file, at once,
// so that a process that dies from here on leaves a trace.
func (a *archive) writeInfo() error {
	if _, _, err := a.w.Write(warc.NewInfo(a.name, a.now(), a.round, a.about), a.enc); err != nil {
		return err
	}
	return a.w.Flush()
}

// finishFile gives a complete file its name. In a shard the next batch does: by then this one has published, and nobody copies the file.
func (a *archive) finishFile(path string) error {
	f := a.f
	if f == nil {
		var err error
		if f, err = a.fs.OpenFile(path, os.O_RDWR, 0o644); err != nil {
			return err
		}
	}
	if err := f.Sync(); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	a.closed = append(a.closed, a.name)
	a.f, a.w, a.name = nil, nil, ""
	if a.tx.Fenced() {
		return nil
	}
	if err := a.fs.Rename(path, strings.TrimSuffix(path, openSuffix)); err != nil {
		return err
	}
	return a.fs.SyncDir(a.st.Dir())
}

// append adds a group and returns where it begins. A full file is completed
// before: the rows of what stands in it have been emitted by then or are in it.
func (a *archive) append(g *group) (name string, offset int64, err error) {
	if a.w.Offset() > 0 && a.w.Offset()+int64(len(g.b)) > a.sizeMax {
		if err := a.w.Flush(); err != nil {
			return "", 0, err
		}
		if err := a.finishFile(a.st.Path(a.name) + openSuffix); err != nil {
			return "", 0, err
		}
		if err := a.beginFile(); err != nil {
			return "", 0, err
		}
		if err := a.writeInfo(); err != nil {
			return "", 0, err
		}
	}
	offset, _, err = a.w.Append(g.b)
	if g.length > 0 {
		a.place(a.name, offset, g.length, g.plain)
	}
	return a.name, offset, err
}

// place enters a record that an index has.
func (a *archive) place(name string, offset, length int64, plain bool) {
	if a.places != nil {
		a.places.Add(name, offset, length, plain)
	}
}

// placesOf returns the places of indexed records that a generation's manifest has. ok is false if it has WARC files without places.
func placesOf(m *store.Manifest) (p warc.Places, ok bool) {
	if text, said := m.State[statePlaces]; said {
		return warc.ParsePlaces(text)
	}
	return p, len(m.WithRole(roleWARC)) == 0
}

// commit makes everything durable and enters it into the transaction.
func (a *archive) commit(ctx context.Context) error {
	if err := a.w.Flush(); err != nil {
		return err
	}
	synced := make(chan error, 1) // it waits for the disk while the sums are made
	go func() { synced <- a.f.Sync() }()
	if err := a.addToManifest(ctx); err != nil {
		<-synced
		return err
	}
	return <-synced
}

// addToManifest enters the files into the transaction.
func (a *archive) addToManifest(ctx context.Context) error {
	if a.places != nil {
		a.tx.SetState(statePlaces, a.places.String())
	}
	for _, name := range append(append(a.closed, a.taken...), a.name) {
		e := store.Entry{Path: name, Role: roleWARC, Growing: name == a.name || slices.Contains(a.taken, name)}
		end := int64(-1)
		if name != a.name && e.Growing {
			end = a.sound[name]
		}
		var err error
		e.Length, e.Sum, e.Link, err = a.sumFile(ctx, name, end)
		if err != nil {
			return err
		}
		a.tx.Put(e)
	}
	return nil
}

// sumFile returns length, sum and link of the first bytes of a file, to its end if that is below 0. It reads what this round
// added, and of what was committed before the last MiB at most; that it checks.
func (a *archive) sumFile(ctx context.Context, name string, end int64) (length int64, sum, link string, err error) {
	path, size, err := a.find(name)
	if err != nil {
		return 0, "", "", err
	}
	if end < 0 {
		end = size
	}
	f, err := a.fs.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return 0, "", "", err
	}
	defer f.Close()
	chain := store.NewChain()
	before := a.tx.Base().File(name)
	if before != nil {
		if chain, err = store.ResumeChain(*before); err != nil {
			return 0, "", "", err
		}
	}
	add := func(end int64) error {
		_, err := io.Copy(chain, ctxReader{ctx, io.NewSectionReader(f, chain.Length(), end-chain.Length())})
		return err
	}
	if before != nil {
		if err := add(before.Length); err != nil {
			return 0, "", "", err
		}
		if chain.Sum() != before.Sum {
			return 0, "", "", &fault.Error{Class: fault.Corrupt, File: path, Place: fmt.Sprintf("before byte %d", before.Length), Found: "checksum " + chain.Sum(), Want: before.Sum,
				Hint: a.st.HintMissing()}
		}
	}
	if err := add(end); err != nil {
		return 0, "", "", err
	}
	return chain.Length(), chain.Sum(), chain.Link(), nil
}

// ctxReader ends when its context does.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c ctxReader) Read(p []byte) (int, error) {
	if err := context.Cause(c.ctx); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// close lets go of the file. What was not committed stays for the next run.
func (a *archive) close() {
	a.saved.close()
	if a.f != nil {
		a.f.Close()
	}
}

// Group is the records of one contact, read back.
type Group struct {
	Row      record.Fetch // with its place
	file     io.ReaderAt
	whole    bool // there is a response with its payload, and no revisit
	document bool // the response is the document itself, no HTTP
}

// Body reads at most max bytes of the decoded body.
func (g *Group) Body(max int64) (body []byte, err error) {
	if g.Row.WARCLength == 0 || max == 0 {
		return nil, nil
	}
	r := readers.Get().(*warc.Reader)
	defer readers.Put(r)
	rec, err := r.At(g.file, g.Row.WARCFilename, g.Row.WARCOffset, g.Row.WARCLength)
	if err != nil {
		return nil, err
	}
	if g.document {
		return io.ReadAll(io.LimitReader(rec.Block, max))
	}
	m, err := httpmsg.Open(rec.Block)
	if err != nil {
		return nil, nil // what is no HTTP has no body
	}
	decoded := httpmsg.NewBody(&m.Head, m.Payload, max)
	defer decoded.Close()
	return io.ReadAll(decoded)
}

// head reads the head of the reply; nil: it is none of HTTP.
func (g *Group) head() (*httpmsg.Head, error) {
	r := readers.Get().(*warc.Reader)
	defer readers.Put(r)
	rec, err := r.At(g.file, g.Row.WARCFilename, g.Row.WARCOffset, g.Row.WARCLength)
	if err != nil {
		return nil, err
	}
	m, err := httpmsg.Open(rec.Block)
	if err != nil {
		return nil, nil
	}
	return &m.Head, nil
}

// robotsText returns the start of a robots.txt, up to robotsTextMax bytes: the part that was parsed when it was fetched.
func (g *Group) robotsText() ([]byte, error) {
	return g.Body(min(g.Row.BodyLength, robotsTextMax))
}

// load reads the group that begins at s, and the text of a robots.txt.
func (a *archive) load(s savedRow) (g *Group, robots []byte, err error) {
	name := a.saved.files[s.file]
	f, err := a.st.OpenFile(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	g, err = ReadGroup(f, name, s.off)
	if err == nil && g.Row.Role == record.RoleRobots {
		robots, err = g.robotsText()
	}
	return g, robots, err
}

// readers serve one after the other: a Reader's memory is more than most groups are long.
var readers = sync.Pool{New: func() any { return warc.NewReader(nil, warc.ReaderOptions{}) }}

// ReadGroup reads one contact's records, which begin at offset of file, and rebuilds the
// row with its place in the file of that name. The group's bodies are read from file.
func ReadGroup(file io.ReaderAt, name string, offset int64) (*Group, error) {
	r := readers.Get().(*warc.Reader)
	defer readers.Put(r)
	rec, err := r.At(file, name, offset, 0)
	g := &Group{file: file}
	var at, end int64
	for ; ; rec, err = r.Next() {
		if err != nil {
			return nil, err
		}
		switch rec.Type {
		case warc.TypeResponse, warc.TypeRevisit, warc.TypeResource:
			if err := r.Finish(); err != nil {
				return nil, err
			}
			g.whole, g.document = rec.Type == warc.TypeResponse, rec.Type == warc.TypeResource
			at, end = rec.Offset, r.Good()
		case warc.TypeMetadata:
			out, ok, err := warc.ReadOutcome(rec)
			if err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
			g.Row = out.Row
			if end > 0 {
				g.Row.WARCFilename, g.Row.WARCOffset, g.Row.WARCLength = name, at, end-at
			}
			return g, nil
		}
	}
}
