//go:build unix

package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/crawl"
)

// memory is a remote that breaks at a call or at a file. It then keeps the first half of the file.
type memory struct {
	files map[string][]byte
	steps int // until it breaks; below 0: never
	half  bool
	moved func() // is called before the next put
	read  func() // is called before a part is next read
}

var errBroken = errors.New("the line is dead")

func (m *memory) step() error {
	m.steps--
	if m.steps == 0 {
		return errBroken
	}
	return nil
}

func (m *memory) list(context.Context) (map[string]int64, error) {
	if err := m.step(); err != nil {
		return nil, err
	}
	if len(m.files) == 0 {
		return nil, nil
	}
	list := map[string]int64{}
	for name, b := range m.files {
		list[name] = int64(len(b))
	}
	return list, nil
}

func (m *memory) put(_ context.Context, dir string, names []string) error {
	if m.moved != nil {
		m.moved()
		m.moved = nil
	}
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		if err := m.step(); err != nil {
			if m.half {
				m.files[name] = b[:len(b)/2]
			}
			return err
		}
		if have, ok := m.files[name]; ok && len(have) == len(b) && bytes.Equal(have, b) {
			return fmt.Errorf("%s was sent again", name)
		}
		m.files[name] = b
	}
	return nil
}

func (m *memory) get(_ context.Context, names []string, dir string) error {
	if m.read != nil && !listShape().MatchString(names[0]) {
		m.read()
		m.read = nil
	}
	for _, name := range names {
		if err := m.step(); err != nil {
			return err
		}
		b, ok := m.files[name]
		if !ok {
			return fmt.Errorf("no file %s", name)
		}
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(path, b, 0o666); err != nil {
			return err
		}
	}
	return nil
}

func (m *memory) remove(_ context.Context, names []string) error {
	for _, name := range names {
		if err := m.step(); err != nil {
			return err
		}
		delete(m.files, name)
	}
	return nil
}

// whole is the number of the snapshot that counts, all of which must be there.
func (m *memory) whole(t *testing.T) uint64 {
	t.Helper()
	names := slices.Sorted(maps.Keys(m.files))
	for _, name := range slices.Backward(names) {
		if !listShape().MatchString(name) {
			continue
		}
		l, err := decode(name, m.files[name])
		if err != nil {
			continue // of a push that broke
		}
		for object, length := range l.objects() {
			if b := m.files[object]; int64(len(b)) != length || store.Sum(b) != object[len(object)-32:] {
				t.Fatalf("snapshot %d lacks %s", l.Number, object)
			}
		}
		return l.Number
	}
	return 0
}

func (m *memory) clone() *memory { return &memory{files: maps.Clone(m.files)} }

// testCrawl is a crawl of one store, with a file that grows.
type testCrawl struct {
	t   *testing.T
	dir string
	c   *crawl.Crawl
}

func newTestCrawl(t *testing.T) *testCrawl {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "crawl")
	c, err := crawl.Init(dir, nil, []byte("# none\n"), func(dir string) error {
		return store.Create(filepath.Join(dir, "frontier"), "frontier", 1, nil, store.Options{})
	}, crawl.Options{})
	must.OK(t, err)
	return &testCrawl{t, dir, c}
}

// pushed is a crawl of one round, and the remote that has it.
func pushed(t *testing.T) (*testCrawl, *memory) {
	t.Helper()
	c, m := newTestCrawl(t), &memory{files: map[string][]byte{}}
	c.round("r1")
	_, err := Push(t.Context(), c.c, "remote", options(m))
	must.OK(t, err)
	return c, m
}

// round makes one that adds to a growing file, and closes it.
func (c *testCrawl) round(txn string) {
	t := c.t
	t.Helper()
	s, err := store.Open(filepath.Join(c.dir, "frontier"), "frontier", 1, store.Options{})
	must.OK(t, err)
	tx, _, err := s.Begin(t.Context(), "add", txn)
	must.OK(t, err)
	var e store.Entry
	if list := tx.Base().WithRole("warc"); len(list) > 0 {
		e = list[0]
	} else {
		e.Path, err = tx.Journal("a-", ".warc")
		must.OK(t, err)
	}
	f, err := os.OpenFile(s.Path(e.Path)+store.OpenSuffix, os.O_CREATE|os.O_RDWR, 0o666)
	must.OK(t, err)
	must.OK(t, f.Truncate(e.Length))
	chain := store.NewChain()
	_, err = f.WriteAt(bytes.Repeat([]byte(txn), 1+100_000*len(c.rounds())), e.Length)
	must.OK(t, err)
	data, err := os.ReadFile(f.Name())
	must.OK(t, err)
	must.OK(t, f.Close())
	_, _ = chain.Write(data)
	tx.Put(store.Entry{Path: e.Path, Role: "warc", Growing: true, Length: chain.Length(), Sum: chain.Sum(), Link: chain.Link()})
	run, err := tx.Create("runs/", ".txt", "run")
	must.OK(t, err)
	fmt.Fprintf(run, "%s\n", txn)
	_, err = tx.Commit(0, "", record.Ledger{})
	must.OK(t, err)
	dir, err := c.c.BeginRound(txn)
	must.OK(t, err, os.WriteFile(filepath.Join(dir, "kept.txt"), []byte(txn), 0o666))
	_, _, err = c.c.Commit(t.Context(), txn, time.Unix(0, 0), 0)
	must.OK(t, err)
	// A tail that no generation has.
	f, err = os.OpenFile(s.Path(e.Path)+store.OpenSuffix, os.O_APPEND|os.O_WRONLY, 0o666)
	must.OK(t, err)
	_, _ = f.WriteString("in flight")
	must.OK(t, f.Close())
}

func (c *testCrawl) rounds() []string {
	names, err := c.c.Rounds()
	must.OK(c.t, err)
	return names
}

func options(m *memory) Options { return Options{Now: time.Unix(0, 0), remote: m} }

func none(string, string, uint64) error { return nil }

// same compares the bytes that count of a pulled crawl.
func (c *testCrawl) same(dir string) {
	t := c.t
	t.Helper()
	inv, err := c.c.Inventory(t.Context())
	must.OK(t, err)
	for _, f := range inv.Files {
		want, err := os.ReadFile(filepath.Join(c.dir, f.OnDisk))
		must.OK(t, err)
		got, err := os.ReadFile(filepath.Join(dir, f.OnDisk))
		must.OK(t, err)
		if !bytes.Equal(got, want[:f.Length]) {
			t.Errorf("%s: %d bytes, which are not the crawl's %d", f.OnDisk, len(got), f.Length)
		}
	}
	pulled, err := crawl.Open(dir, crawl.Options{})
	must.OK(t, err)
	v, err := pulled.Verify(t.Context())
	must.OK(t, err)
	if len(v.Problems) > 0 {
		t.Errorf("verify: %q", v.Problems)
	}
}

// TestBroken breaks a push at each call and each file, whole or halved: the snapshot before or the new one is there, nothing that
// is there is sent again, and the next push ends the work. Then it breaks a pull in the same way.
func TestBroken(t *testing.T) {
	c := newTestCrawl(t)
	c.round("r1")
	first := &memory{files: map[string][]byte{}}
	_, err := Push(t.Context(), c.c, "remote", options(first))
	must.OK(t, err)
	if n := first.whole(t); n != 1 {
		t.Fatalf("snapshot %d", n)
	}
	c.round("r2")
	c.round("r3")
	must.OK(t, os.WriteFile(filepath.Join(c.dir, "crawl.toml"), []byte("# other\n"), 0o666))
	broken := 0
	for step := 1; ; step++ {
		m := first.clone()
		m.steps, m.half = step, step%2 == 0
		_, err := Push(t.Context(), c.c, "remote", options(m))
		n := m.whole(t)
		if err == nil {
			if n != 2 {
				t.Fatalf("snapshot %d", n)
			}
			break
		}
		broken++
		if !errors.Is(err, errBroken) || n != 1 && n != 2 {
			t.Fatalf("step %d: %v, snapshot %d", step, err, n)
		}
		m.steps = -1
		done, err := Push(t.Context(), c.c, "remote", options(m))
		must.OK(t, err)
		if n := m.whole(t); n != done.Snapshot || done.Checkpoint != 3 {
			t.Fatalf("step %d: snapshot %d, of checkpoint %d", step, n, done.Checkpoint)
		}
		objects := 0
		for name := range m.files {
			if ours().MatchString(name) && !listShape().MatchString(name) {
				objects++
			}
		}
		l, err := decode("list", m.files[listName(done.Snapshot)])
		must.OK(t, err)
		if len(m.files) != objects+1 || len(l.objects()) != objects {
			t.Errorf("step %d: %d files are left, want %d and a list", step, len(m.files), len(l.objects()))
		}
		first.steps = -1
	}
	if broken < 12 {
		t.Errorf("a push has %d steps only", broken)
	}

	m := first.clone()
	_, err = Push(t.Context(), c.c, "remote", options(m))
	must.OK(t, err)
	broken = 0
	dir := filepath.Join(t.TempDir(), "pulled")
	for step := 1; ; step += 2 { // each goes on with what is there
		m.steps = step
		_, err := Pull(t.Context(), "remote", dir, none, options(m))
		if err == nil {
			break
		}
		broken++
		if !errors.Is(err, errBroken) || store.IsCrawl(dir, store.Options{}) {
			t.Fatalf("step %d: %v", step, err)
		}
	}
	if broken < 3 {
		t.Errorf("a pull broke %d times", broken)
	}
	c.same(dir)
}

// TestTails: of a growing file only what was added is sent, of an unchanged crawl nothing; a part that is gone is sent again.
func TestTails(t *testing.T) {
	c := newTestCrawl(t)
	c.round("r1")
	m := &memory{files: map[string][]byte{}}
	push := func() *Done {
		t.Helper()
		done, err := Push(t.Context(), c.c, "remote", options(m))
		must.OK(t, err)
		m.whole(t)
		return done
	}
	push()
	for i := 2; i < 15; i++ { // beyond 1 MiB, where a chain has a link
		before := len(m.files)
		c.round(fmt.Sprintf("r%d", i))
		inv, err := c.c.Inventory(t.Context())
		must.OK(t, err)
		at := slices.IndexFunc(inv.Files, func(f crawl.CrawlFile) bool { return f.Grows })
		done := push()
		if whole := inv.Files[at].Length; done.CopiedSize >= whole && i > 4 || before >= len(m.files) {
			t.Errorf("round %d: %d bytes were sent of a file of %d", i, done.CopiedSize, whole)
		}
		if done := push(); done.Copied != 0 || done.Snapshot != uint64(i) {
			t.Errorf("nothing new: %+v", done)
		}
	}
	l, err := decode("list", m.files[listName(14)])
	must.OK(t, err)
	for _, f := range l.Files {
		if f.Link != "" {
			if len(f.Parts) != 14 {
				t.Errorf("%d parts", len(f.Parts))
			}
			delete(m.files, object(f.Path, f.Parts[5]))
		}
	}
	if done := push(); done.Copied != 1 {
		t.Errorf("a lost part: %+v", done)
	}

	dir := filepath.Join(t.TempDir(), "pulled")
	_, err = Pull(t.Context(), "remote", dir, none, options(m))
	must.OK(t, err)
	c.same(dir)

	// What gc deletes while it is sent is no error: the crawl has gone on.
	c.round("r15")
	m.moved = func() {
		c.round("r16")
		c.round("r17")
		_, _, err := c.c.GC(t.Context(), 1)
		must.OK(t, err)
	}
	if done := push(); done.Round != "r17" {
		t.Errorf("after a gc: %+v", done)
	}

	// A part that is another one on the disk of the crawl is noticed, and nothing of it is sent.
	path := filepath.Join(c.dir, "frontier", "a-000002-0.warc"+store.OpenSuffix)
	c.round("r18")
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must.OK(t, err)
	info, err := f.Stat()
	must.OK(t, err)
	_, err = f.WriteAt([]byte("x"), info.Size()-100)
	must.OK(t, err)
	must.OK(t, f.Close())
	if _, err := Push(t.Context(), c.c, "remote", options(m)); !errors.Is(err, fault.Corrupt) {
		t.Errorf("a damaged tail: %v", err)
	}
	if n := m.whole(t); n != 15 {
		t.Errorf("snapshot %d", n)
	}
}

// TestFilledMeanwhile: a file that the last checkpoint holds in part may be filled and sealed by the round after it: its first bytes are
// pushed, and a pull makes a crawl of them that goes on; its next push sends what was added.
func TestFilledMeanwhile(t *testing.T) {
	for name, rounds := range map[string]int{"first push": 1, "checkpoints with several lengths": 4} {
		t.Run(name, func(t *testing.T) {
			c, m := newTestCrawl(t), &memory{files: map[string][]byte{}}
			for i := range rounds {
				c.round(fmt.Sprintf("r%d", i+1))
			}
			path := filepath.Join(c.dir, "frontier", "a-000002-0.warc")
			must.OK(t, os.Rename(path+store.OpenSuffix, path))
			_, err := Push(t.Context(), c.c, "remote", options(m))
			must.OK(t, err)
			m.whole(t)
			inv, err := c.c.Inventory(t.Context())
			must.OK(t, err)
			f := inv.Files[slices.IndexFunc(inv.Files, func(f crawl.CrawlFile) bool { return f.Grows })]
			want, err := os.ReadFile(path)
			must.OK(t, err)

			dir := filepath.Join(t.TempDir(), "pulled")
			_, err = Pull(t.Context(), "remote", dir, none, options(m))
			must.OK(t, err)
			got, err := os.ReadFile(filepath.Join(dir, f.Path+store.OpenSuffix))
			if must.OK(t, err); !bytes.Equal(got, want[:f.Length]) || int64(len(want)) <= f.Length {
				t.Errorf("pulled %d bytes, want the first %d of %d", len(got), f.Length, len(want))
			}
			folder, err := crawl.Open(dir, crawl.Options{})
			must.OK(t, err)
			if v, err := folder.Verify(t.Context()); err != nil || len(v.Problems) > 0 {
				t.Errorf("verify of the pulled crawl: %+v, %v", v, err)
			}
			pulled := &testCrawl{t, dir, folder}
			pulled.round(fmt.Sprintf("r%d", rounds+1))
			_, err = Push(t.Context(), folder, "remote", options(m))
			must.OK(t, err)
			again := filepath.Join(t.TempDir(), "again")
			_, err = Pull(t.Context(), "remote", again, none, options(m))
			must.OK(t, err)
			pulled.same(again)
		})
	}
}

// TestSealedWhileCopied: a file that gets its last name after the list was made is found under that.
func TestSealedWhileCopied(t *testing.T) {
	c, m := newTestCrawl(t), &memory{files: map[string][]byte{}}
	c.round("r1")
	inv, err := c.c.Inventory(t.Context())
	must.OK(t, err)
	path := filepath.Join(c.dir, "frontier", "a-000002-0.warc")
	must.OK(t, os.Rename(path+store.OpenSuffix, path))
	to, end, err := begin(t.Context(), c.dir, "remote", "test", options(m))
	must.OK(t, err)
	defer end()
	for _, f := range inv.Files {
		file, err := to.file(t.Context(), f, nil)
		if err != nil || f.Sum != "" && (file.Length != f.Length || file.Sum != f.Sum) {
			t.Errorf("%s: %+v, %v", f.OnDisk, file, err)
		}
	}
}

// TestRoundFiles: the copy never loses a file of a closed round that its checkpoint names, whatever became of it in the crawl. One that is damaged
// before it was ever copied is refused, and one that is gone by then is told.
func TestRoundFiles(t *testing.T) {
	for name, damage := range map[string]func(kept string) error{
		"flipped":   func(kept string) error { return os.WriteFile(kept, []byte("rX"), 0o666) },
		"cut":       func(kept string) error { return os.Truncate(kept, 1) },
		"exchanged": func(kept string) error { return os.WriteFile(kept, []byte("of another round"), 0o666) },
		"deleted":   os.Remove,
		"all gone":  func(kept string) error { return os.RemoveAll(filepath.Dir(filepath.Dir(kept))) },
		"a folder":  func(kept string) error { return errors.Join(os.Remove(kept), os.Mkdir(kept, 0o777)) },
		"a FIFO":    func(kept string) error { return errors.Join(os.Remove(kept), syscall.Mkfifo(kept, 0o666)) },
	} {
		t.Run(name, func(t *testing.T) {
			c, m := pushed(t)
			c.round("r2")
			_, err := Push(t.Context(), c.c, "remote", options(m))
			must.OK(t, err)
			gone := !slices.Contains([]string{"flipped", "cut", "exchanged"}, name)
			must.OK(t, damage(filepath.Join(c.dir, "rounds", "r1", "kept.txt")))
			for _, check := range []bool{false, true} {
				opt := options(m)
				opt.Check = check
				done, err := Push(t.Context(), c.c, "remote", opt)
				must.OK(t, err)
				if len(done.Lost) > 0 || slices.Contains(done.Kept, "rounds/r1/kept.txt") != gone {
					t.Errorf("%+v", done)
				}
			}
			m.whole(t)
			dir := filepath.Join(t.TempDir(), "pulled")
			_, err = Pull(t.Context(), "remote", dir, none, options(m))
			must.OK(t, err)
			if b, err := os.ReadFile(filepath.Join(dir, "rounds", "r1", "kept.txt")); err != nil || string(b) != "r1" {
				t.Errorf("%q came back, %v", b, err)
			}

			// The copy has none of it yet.
			before := maps.Clone(m.files)
			c.round("r3")
			must.OK(t, damage(filepath.Join(c.dir, "rounds", "r3", "kept.txt")))
			done, err := Push(t.Context(), c.c, "remote", options(m))
			switch {
			case gone && (err != nil || !slices.Contains(done.Lost, "rounds/r3/kept.txt")):
				t.Errorf("%+v, %v", done, err)
			case !gone && (!errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "rounds/r3/kept.txt")):
				t.Errorf("%v, want that the file is damaged", err)
			}
			m.whole(t)
			for name, b := range before {
				if !listShape().MatchString(name) && strings.HasPrefix(name, "rounds/") && !bytes.Equal(m.files[name], b) {
					t.Errorf("the copy lost %s", name)
				}
			}

			// Who moved rounds away on purpose, as a whole, forgets their checkpoints; then the copy follows.
			if gone {
				must.OK(t, os.RemoveAll(filepath.Join(c.dir, "rounds", "r3")))
				_, _, err := c.c.GC(t.Context(), 1)
				must.OK(t, err)
				_, err = Push(t.Context(), c.c, "remote", options(m))
				must.OK(t, err)
				for name := range m.files {
					if strings.HasPrefix(name, "rounds/r1/kept.txt@") {
						t.Errorf("%s is still there", name)
					}
				}
			}
		})
	}
}

// TestRestoredMeanwhile: what a restore and a new round put in the place of a file that is about to be copied is no damage.
func TestRestoredMeanwhile(t *testing.T) {
	c, m := pushed(t)
	c.round("r2")
	m.read = func() { // after the inventory
		must.OK(t, c.c.Restore(t.Context(), 1))
		_, err := c.c.TidyRounds(t.Context())
		must.OK(t, err)
		dir, err := c.c.BeginRound("r2")
		must.OK(t, err, os.WriteFile(filepath.Join(dir, "kept.txt"), []byte("another"), 0o666))
	}
	opt := options(m)
	opt.Check = true
	done, err := Push(t.Context(), c.c, "remote", opt)
	must.OK(t, err)
	if m.read != nil || done.Checkpoint != 1 || m.whole(t) != 2 {
		t.Errorf("%+v", done)
	}
}

// TestSilentRsync: where a program says nothing of use, the error and its hint do.
func TestSilentRsync(t *testing.T) {
	for exit, want := range map[string]struct{ remote, text string }{"11": {"host:copy", "a full disk?"}, "24": {"rsync://host/module/copy", "use chroot = no"}} {
		t.Run(exit, func(t *testing.T) {
			bin := t.TempDir()
			must.OK(t, os.WriteFile(filepath.Join(bin, "rsync"), []byte("#!/bin/sh\nexit "+exit+"\n"), 0o777))
			t.Setenv("PATH", bin)
			own := t.TempDir()
			lock, err := os.Create(filepath.Join(own, "lock"))
			must.OK(t, err)
			defer lock.Close()
			r, err := openRemote(want.remote, own, lock)
			must.OK(t, err)
			if _, err = r.list(t.Context()); err == nil || !strings.Contains(err.Error()+fault.HintOf(err), want.text) {
				t.Fatalf("%v, want %s", err, want.text)
			}
		})
	}
}
