package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
)

// In a shard another process, on another machine, may take a batch over while this one lives (see formats/store/attempts.go).
// So that servers are not asked by two, a process makes contacts only while it has looked, leaseTime ago at most,
// that nobody has taken over, and its successor makes its first one when the lease and the longest
// contact after it have passed. Both measure on their own clocks.
const (
	leaseTime = 3 * time.Second
	leaseLook = time.Second // from one look to the next
)

// lease is a process's right to contact servers.
type lease struct {
	tx *store.Tx // nil: nobody can take over

	mu    sync.Mutex
	until time.Time
}

// renew renews the lease, unless somebody has taken over.
func (l *lease) renew() error {
	began := time.Now()
	err := l.tx.Superseded()
	if err == nil {
		l.mu.Lock()
		l.until = began.Add(leaseTime)
		l.mu.Unlock()
	}
	return err
}

// left is for how long the lease holds.
func (l *lease) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Until(l.until)
}

// keep renews the lease until ctx ends. It returns an error when somebody has taken over, or the store cannot
// be read for so long that nobody knows.
func (l *lease) keep(ctx context.Context) error {
	return watch(ctx, func() error {
		if err := l.renew(); err != nil && (lost(err) || l.left() <= 0) {
			return err
		}
		return nil
	})
}

// watch looks again and again, until ctx ends or a look returns an error.
func watch(ctx context.Context, look func() error) error {
	t := time.NewTicker(leaseLook)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		if err := look(); err != nil {
			return err
		}
	}
}

// keepEpoch returns an error when abandon or restore has undone the round: servers are not to be asked for what nobody keeps.
func keepEpoch(ctx context.Context, tx *store.Tx) error {
	return watch(ctx, func() error {
		if err := tx.Undone(); errors.Is(err, fault.Conflict) {
			return err
		}
		return nil
	})
}

// lost reports whether an error of a look says that another has the work.
func lost(err error) bool { return errors.Is(err, fault.Superseded) || errors.Is(err, fault.Busy) }

// await waits until the lease holds, as it does when the store answers.
func (l *lease) await(ctx context.Context) error {
	for l.tx != nil && l.left() <= 0 {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(leaseTime / 50):
		}
	}
	return nil
}

// awaitOthers waits until earlier attempts make no contact any more that may be at work still.
func (r *runner) awaitOthers(ctx context.Context, tx *store.Tx) error {
	others, claimed := tx.Before()
	left := time.Until(claimed.Add(leaseTime + r.opt.ContactTime))
	if len(others) == 0 || left <= 0 {
		return nil
	}
	var names []string
	for _, a := range others {
		names = append(names, a.String())
	}
	r.warn("waiting %v: %s may still contact servers", left.Round(time.Second), strings.Join(names, ", "))
	over := time.NewTimer(left)
	defer over.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-over.C:
			return nil
		case <-time.After(leaseLook):
			if err := tx.Superseded(); lost(err) {
				return err
			}
		}
	}
}

// takeOver keeps whole groups of this round that an earlier attempt wrote behind the committed part of a file, as they stand
// now. The attempt may be at work still: the file is not changed, and what it writes from now on does not count.
func (a *archive) takeOver(name string, committed int64) error {
	path, size, err := a.findFrom(name, committed)
	if err != nil || size == committed {
		return err
	}
	f, err := a.st.OpenFile(name)
	if err != nil {
		return err
	}
	defer f.Close()
	keep, err := a.scan(f, name, committed, size)
	if err != nil {
		return err
	}
	a.sound[name] = keep
	if keep == committed {
		return nil
	}
	a.taken = append(a.taken, name)
	if err := f.Sync(); err != nil {
		return &fault.Error{File: path, Err: err}
	}
	return nil
}

// openFenced does the work of openArchive in a shard. The newest file that grows is of the process that has published the last
// generation, which has ended: the first attempt goes on with it. All others may be written to by
// processes that were superseded: they get their names as copies, and a new file is begun.
func (a *archive) openFenced() error {
	var newest *store.Entry
	var others []*store.Entry
	for i := range a.tx.Base().Files {
		e := &a.tx.Base().Files[i]
		switch {
		case e.Role != roleWARC || e.Epoch != a.tx.Epoch() || !e.Growing:
		case newest == nil || store.MadeBefore(newest.Path, e.Path):
			if newest != nil {
				others = append(others, newest)
			}
			newest = e
		default:
			others = append(others, e)
		}
	}
	if err := a.nameFull(); err != nil {
		return err
	}
	for _, e := range others {
		if err := sealCopy(a.st, e.Path, e.Length); err != nil {
			return err
		}
		a.closed = append(a.closed, e.Path)
	}
	again := ""
	if newest != nil {
		_, size, err := a.findFrom(newest.Path, newest.Length)
		if err != nil {
			return err
		}
		if !a.tx.Succeeds() && size == newest.Length {
			again = newest.Path
		} else if err := a.takeOver(newest.Path, newest.Length); err != nil {
			return err
		}
	}
	journaled, err := a.tx.Journaled()
	if err != nil {
		return err
	}
	for _, name := range journaled {
		if err := a.takeOver(name, 0); err != nil {
			return err
		}
	}
	if err := a.saved.sortContacts(); err != nil || again == "" {
		return err
	}
	ok, err := a.reopen(again)
	if err == nil && !ok {
		a.closed = append(a.closed, again)
	}
	return err
}

// nameFull gives the full files of the last generation their names. Whoever is at work with the store reads both.
func (a *archive) nameFull() error {
	list, err := a.fs.ReadDir(a.st.Dir())
	if err != nil {
		return err
	}
	named := false
	for _, entry := range list {
		name, open := strings.CutSuffix(entry.Name(), openSuffix)
		if e := a.tx.Base().File(name); !open || e == nil || e.Role != roleWARC || e.Growing {
			continue
		}
		if err := a.fs.Rename(a.st.Path(entry.Name()), a.st.Path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		named = true
	}
	if !named {
		return nil
	}
	return a.fs.SyncDir(a.st.Dir())
}

// sealCopy gives the first bytes of a growing file its name, as a copy: a process may have the file open that was
// superseded. It can be done again, and by two at once.
func sealCopy(st *store.Store, name string, length int64) error {
	path := st.Path(name) + openSuffix
	from, err := st.FS().OpenFile(path, 0, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has its name
	}
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := durable.Create(st.FS(), st.Path(name))
	if err != nil {
		return err
	}
	defer to.Abort()
	if n, err := io.Copy(to, io.NewSectionReader(from, 0, length)); err != nil {
		return err
	} else if n < length {
		return &fault.Error{Class: fault.Truncated, File: path, Found: fmt.Sprintf("%d bytes", n), Want: fmt.Sprintf("%d", length)}
	}
	if err := to.Commit(); err != nil {
		return err
	}
	if err := st.FS().Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return st.FS().SyncDir(filepath.Dir(path))
}
