package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strconv"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
)

// Kind, Version and Verb of modules' stores, and the role of the one file in them.
const (
	Kind      = "module"
	Version   = 1
	Verb      = "process"
	roleState = "state"
)

// keyFailures counts, in a store's manifest, the changes in which the module failed.
const keyFailures = "failures"

// ErrFailed is wrapped by the errors of a State that are its module's own fault: a
// program that ends badly, or hangs. They cost the module this change of its state,
// and nobody else anything.
var ErrFailed = errors.New("module failed")

// Stateful is a Module that can keep a state over a whole crawl. It is folded from
// the findings, so that it does not depend on threads.
type Stateful interface {
	Module
	// Begin starts a change from the state so far: the bytes that the last change
	// wrote, none at first. It is called before New. Txn names the change.
	Begin(ctx context.Context, old io.Reader, txn string) (State, error)
}

// State is one change of a module's state. One goroutine.
type State interface {
	// Add takes a finding of a document, by its URL checksum. They come in the
	// order of the documents.
	Add(key uint64, f Finding) error
	// Write writes the new state, all of it.
	Write(ctx context.Context, out io.Writer) error
	// Close gives up what was not written. ctx may have ended.
	Close(ctx context.Context)
}

// CreateStore makes the store of a module's state, named as the module.
func CreateStore(dir string, opt store.Options) error {
	name := filepath.Base(filepath.Clean(dir))
	if err := CheckName(name); err != nil {
		return &fault.Error{Class: fault.Usage, File: dir, Err: err}
	}
	return store.Create(dir, Kind, Version, nil, opt)
}

// Change is one batch's change of a module's store.
//
// Nothing is held open or locked until Commit, and nothing is changed before. One
// goroutine.
type Change struct {
	store  *store.Store
	txn    string
	done   *store.Done // the change has been made before
	base   string      // path of the file that the state began from
	state  State
	failed error
}

// moduleOf is the module that a store is of, by the name of its folder.
func moduleOf(s *store.Store) string { return path.Base(s.Name()) }

// OpenChange begins a change of the store in dir, named txn, by the module of
// the selection. If txn has been committed there, the change is Done.
func OpenChange(ctx context.Context, dir string, m Stateful, txn string, opt store.Options) (*Change, error) {
	s, err := store.Open(dir, Kind, Version, opt)
	if err != nil {
		return nil, err
	}
	if name := moduleOf(s); name != m.Name() {
		return nil, &fault.Error{Class: fault.WrongKind, File: dir, Found: "the store of module " + name, Want: "that of " + m.Name()}
	}
	c := &Change{store: s, txn: txn}
	done, found, err := s.Lookup(Verb, txn)
	if err != nil {
		return nil, err
	}
	if found {
		c.done = done
		return c, nil
	}
	now, err := s.Current()
	if err != nil {
		return nil, err
	}
	old, close, err := OpenState(s, now)
	if err != nil {
		return nil, err
	}
	defer close()
	if e := stateFile(now); e != nil {
		c.base = e.Path
	}
	c.state, err = m.Begin(ctx, old, txn)
	if err = c.fail(ctx, err); err != nil {
		var f *fault.Error
		if !errors.As(err, &f) {
			return nil, &fault.Error{File: s.Path(c.base), Err: err}
		}
		if f.File == "" {
			f.File = s.Path(c.base)
		}
		return nil, err
	}
	return c, nil
}

// Done says that the change was committed before: the module need not run again.
func (c *Change) Done() bool { return c.done != nil }

// Dir is the folder of a program that keeps state, between its begin and its commit; "" of other modules.
func (c *Change) Dir() string { return Dir(c.state) }

// Dir is the folder of a program that keeps state; "" of other modules.
func Dir(s State) string {
	if f, ok := s.(*folder); ok {
		return f.dir
	}
	return ""
}

// Failed is why the state stays as it was, or nil.
func (c *Change) Failed() error { return c.failed }

// fail notes a failure of the module's own, and returns all other errors.
func (c *Change) fail(ctx context.Context, err error) error {
	if err == nil || !errors.Is(err, ErrFailed) {
		return err
	}
	if ended := context.Cause(ctx); ended != nil {
		return ended
	}
	if c.failed == nil {
		c.failed = err
	}
	return nil
}

// Add takes a finding of the module.
func (c *Change) Add(ctx context.Context, key uint64, f Finding) error {
	if c.Done() || c.failed != nil {
		return nil
	}
	return c.fail(ctx, c.state.Add(key, f))
}

// Commit publishes the new state, or, if the module failed, the old one, and counts
// that. in is the trailer of the batch's input: a change that was committed before must
// have seen the same rows. stage is the name in the ledger.
func (c *Change) Commit(ctx context.Context, stage string, in record.Trailer) error {
	if c.Done() {
		return c.same(in)
	}
	defer c.Close(ctx)
	// The new state lies in a file without a name until the lock is held.
	spool, err := durable.TempFile("")
	if err != nil {
		return err
	}
	defer spool.Close()
	if c.failed == nil {
		if err := c.fail(ctx, c.state.Write(ctx, spool)); err != nil {
			return err
		}
	}
	tx, done, err := c.store.Begin(ctx, Verb, c.txn)
	if err != nil {
		return err
	}
	if done != nil {
		c.done = done
		return c.same(in)
	}
	defer tx.Abort()
	if err := c.check(tx, in); err != nil {
		return err
	}
	if c.failed != nil {
		n, err := failuresOf(c.store, tx.Base())
		if err != nil {
			return err
		}
		tx.SetState(keyFailures, strconv.FormatUint(n+1, 10))
	} else if err := ReplaceState(tx, spool); err != nil {
		return err
	}
	ledger := in.Ledger
	ledger.Stages = append(ledger.Stages[:len(ledger.Stages):len(ledger.Stages)], record.Stage{
		Name: stage + " " + moduleOf(c.store), Txn: c.txn, In: in.Rows, InHash: in.Hash.String(), Consumed: in.Rows,
	})
	_, err = tx.Commit(in.Rows, in.Hash.String(), ledger)
	return err
}

// check refuses a change to another state than this one began from, and rows of
// another epoch.
func (c *Change) check(tx *store.Tx, in record.Trailer) error {
	base := ""
	if e := stateFile(tx.Base()); e != nil {
		base = e.Path
	}
	if base != c.base {
		return &fault.Error{Class: fault.Conflict, File: c.store.Dir(), Found: "another process has changed the state", Want: "the state of the start", Hint: "run the stage again"}
	}
	if epoch := strconv.FormatUint(tx.Epoch(), 10); tx.InCrawl() && in.Epoch != "" && in.Epoch != epoch {
		return &fault.Error{Class: fault.Conflict, File: "input", Found: "records of epoch " + in.Epoch + " of the crawl", Want: "epoch " + epoch,
			Hint: "abandon or restore has undone the round that made them: make them again"}
	}
	return nil
}

// same refuses other input than the committed change had.
func (c *Change) same(in record.Trailer) error {
	if hash := in.Hash.String(); hash != c.done.InHash {
		return &fault.Error{Class: fault.Conflict, File: "input", Found: fmt.Sprintf("rows %d, hash %s", in.Rows, hash),
			Want: fmt.Sprintf("rows %d, hash %s, which transaction %q of %s has committed", c.done.InRows, c.done.InHash, c.txn, c.store.Dir()),
			Hint: "give other input another --txn name"}
	}
	return nil
}

// Close gives the change up, unless it was committed.
func (c *Change) Close(ctx context.Context) {
	if c.state != nil {
		c.state.Close(ctx)
		c.state = nil
	}
}

// ReplaceState puts what state has from its start in the place of a store's state.
func ReplaceState(tx *store.Tx, state io.ReadSeeker) error {
	if _, err := state.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return WriteState(tx, func(to io.Writer) error { _, err := io.Copy(to, state); return err })
}

// WriteState puts what write writes in the place of a store's state.
func WriteState(tx *store.Tx, write func(to io.Writer) error) error {
	f, err := tx.Create("state/", ".state", roleState)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if old := stateFile(tx.Base()); old != nil {
		tx.Drop(old.Path)
	}
	return nil
}

func stateFile(m *store.Manifest) *store.Entry {
	for i := range m.Files {
		if m.Files[i].Role == roleState {
			return &m.Files[i]
		}
	}
	return nil
}

// OpenState opens the state of a generation: empty, where there is none.
func OpenState(s *store.Store, m *store.Manifest) (r io.Reader, close func(), err error) {
	e := stateFile(m)
	if e == nil {
		return eof{}, func() {}, nil
	}
	f, err := s.OpenSummed(*e)
	if err != nil {
		return nil, nil, err
	}
	return f, func() { f.Close() }, nil // was read only
}

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// CopyState writes a module's present state, as its module writes it: lines of text of
// built-in modules, a tar archive of programs. failures is how many changes are missing
// from it.
func CopyState(out io.Writer, dir string, opt store.Options) (failures uint64, err error) {
	s, err := store.Open(dir, Kind, Version, opt)
	if err != nil {
		return 0, err
	}
	m, err := s.Current()
	if err != nil {
		return 0, err
	}
	in, close, err := OpenState(s, m)
	if err != nil {
		return 0, err
	}
	defer close()
	if failures, err = failuresOf(s, m); err != nil {
		return 0, err
	}
	_, err = io.Copy(out, in)
	return failures, err
}

// failuresOf is how many changes are missing from a state.
func failuresOf(s *store.Store, m *store.Manifest) (uint64, error) {
	text := m.State[keyFailures]
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, &fault.Error{Class: fault.Corrupt, File: s.Dir(), Place: "state " + keyFailures, Found: strconv.Quote(text), Want: "a number"}
	}
	return n, nil
}
