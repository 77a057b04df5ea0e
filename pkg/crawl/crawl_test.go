package crawl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

func openStore(t *testing.T, fsys durable.FS, name string) *store.Store {
	t.Helper()
	s, err := store.Open("/c/"+name, kindOf(name), 1, store.Options{FS: fsys})
	must.OK(t, err)
	return s
}

func testCrawl(t *testing.T) *crashtest.FS {
	t.Helper()
	fsys := crashtest.New()
	must.OK(t, newCrawl(fsys))
	return fsys
}

func TestOpen(t *testing.T) {
	fsys := testCrawl(t)
	opt := store.Options{FS: fsys, Maker: "murlset create"}
	for _, test := range []struct {
		dir, kind   string
		version     int
		class       fault.Class
		found, hint string
	}{
		{"/c/none", "urls", 1, fault.Usage, "no store here", "the crawl has /c/urls"},
		{"/none", "urls", 1, fault.Usage, "no store here", ": murlset create /none;"},
		{"/c/urls", "frontier", 1, fault.WrongKind, "a store of kind urls", ""},
		{"/c/urls", "urls", 2, fault.Version, "urls store version 1, want 2", ""},
		{"/c/urls", "urls", 1, "", "", ""},
	} {
		t.Run(fmt.Sprint(test.dir, " ", test.class), func(t *testing.T) {
			_, err := store.Open(test.dir, test.kind, test.version, opt)
			if test.class == "" {
				must.OK(t, err)
			} else if !errors.Is(err, test.class) || !strings.Contains(err.Error(), test.found) || !strings.Contains(fault.HintOf(err), test.hint) {
				t.Errorf("%s %s %d: %v (%s)", test.dir, test.kind, test.version, err, fault.HintOf(err))
			}
		})
	}
	if err := store.Create("/c/urls", "urls", 1, map[string]string{"p": "2"}, opt); !errors.Is(err, fault.Usage) {
		t.Errorf("other params: %v", err)
	}
	must.OK(t, fsys.Remove("/c/urls/HEAD"), store.Create("/c/urls", "urls", 1, map[string]string{"p": "1"}, opt))
	wholeRound(t, fsys, "r1")
	must.OK(t, fsys.Remove("/c/urls/HEAD"))
	if _, err := store.Open("/c/urls", "urls", 1, opt); !errors.Is(err, fault.Corrupt) {
		t.Errorf("a store that changed and lost its HEAD: %v", err)
	}
	if err := store.Create("/c/urls", "urls", 1, map[string]string{"p": "1"}, opt); !errors.Is(err, fault.Corrupt) {
		t.Errorf("Create over it: %v", err)
	}
}

func TestLookup(t *testing.T) {
	fsys := testCrawl(t)
	s := openStore(t, fsys, "urls")
	expect := func(verb, txn string, found bool, class fault.Class, text string) {
		t.Helper()
		_, ok, err := s.Lookup(verb, txn)
		if ok != found || class == "" && err != nil || class != "" && (!errors.Is(err, class) || !strings.Contains(err.Error(), text)) {
			t.Errorf("%s %s: found %v, error %v", verb, txn, ok, err)
		}
	}
	for _, bad := range []string{"-r", ".r", "a b", "a/b", strings.Repeat("a", 65), "r\n"} {
		expect("new", bad, false, fault.Usage, "--txn")
	}
	expect("new", "r1", false, "", "")
	must.OK(t, change(fsys, "/c/urls", "new", "r1"))
	expect("new", "r1", true, "", "")
	expect("add", "r1", false, "", "")
	expect("new", "r2", false, fault.Conflict, `round "r1" is open`)
	expect("new", "", false, fault.Conflict, `round "r1" is open`)
	must.OK(t, change(fsys, "/c/frontier", "update", "r1"), commit(fsys, "r1"))
	expect("new", "r1", true, "", "")
	expect("add", "r1", false, fault.Conflict, `round "r1" was closed by checkpoint 1`)
	expect("new", "", false, "", "")
	expect("new", "r2", false, "", "")
	must.OK(t, change(fsys, "/c/urls", "new", "r2"))
	expect("new", "r1", false, fault.Conflict, `round "r1" was closed by checkpoint 1`)
	must.OK(t, abandon(fsys))
	expect("new", "r1", false, fault.Conflict, `round "r1" was closed by checkpoint 1`) // its output is gone
	expect("new", "r2", false, "", "")
	if _, done, err := s.Begin(ctx, "new", "r1"); done != nil || !errors.Is(err, fault.Conflict) {
		t.Errorf("begin r1: %v %v", done, err)
	}
	must.OK(t, change(fsys, "/c/urls", "new", "r2"))
	if _, done, err := s.Begin(ctx, "new", "r2"); done == nil || err != nil {
		t.Errorf("begin r2 again: %v %v", done, err)
	}
}

// A round with a batch in flight is not closed by an add: its update could not come any more.
func TestCommitNeedsUpdate(t *testing.T) {
	fsys := testCrawl(t)
	must.OK(t, change(fsys, "/c/frontier", "next", "r1"), change(fsys, "/c/urls", "new", "r1"), change(fsys, "/c/frontier", "add", "r1"))
	if err := commit(fsys, "r1"); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), `no update of "r1", whose batch is out`) {
		t.Error(err)
	}
	must.OK(t, change(fsys, "/c/frontier", "update", "r1"), commit(fsys, "r1"), change(fsys, "/c/urls", "new", "r2"), change(fsys, "/c/frontier", "add", "r2"), commit(fsys, "r2"))
}

// grow appends to a growing file as its owner does, and syncs it.
func grow(t *testing.T, s *store.Store, name, text string) int64 {
	t.Helper()
	must.OK(t, durable.MkdirAll(s.FS(), s.Path("warc")))
	f, err := s.FS().OpenFile(s.Path(name)+".open", os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	must.OK(t, err)
	_, err = f.Write([]byte(text))
	must.OK(t, err, f.Sync(), s.FS().SyncDir(s.Path("warc")))
	st, err := f.Stat()
	must.OK(t, err, f.Close())
	return st.Size()
}

func TestGrowing(t *testing.T) {
	fsys := testCrawl(t)
	s := openStore(t, fsys, "modules/tags")
	begin := func(txn string) *store.Tx {
		t.Helper()
		tx, done, err := s.Begin(ctx, "tags", txn)
		if err != nil || done != nil {
			t.Fatal(done, err)
		}
		return tx
	}
	journaled := func(tx *store.Tx, want string) {
		t.Helper()
		if names, err := tx.Journaled(); err != nil || strings.Join(names, " ") != want {
			t.Fatalf("journaled %q, %v, want %q", names, err, want)
		}
	}
	restart := func() {
		fsys = fsys.AfterCrash(crashtest.LoseAll)
		s = openStore(t, fsys, "modules/tags")
	}
	// A dead transaction's file is there for its next run,
	tx := begin("r1")
	first, err := tx.Journal("warc/", ".warc")
	must.OK(t, err)
	grow(t, s, first, "one")
	restart()
	tx = begin("r1")
	journaled(tx, first)
	second, err := tx.Journal("warc/", ".warc")
	must.OK(t, err)
	if second == first {
		t.Fatal("a name was given twice")
	}
	grow(t, s, second, "two")
	restart()
	// and for nobody else's, which gets other names.
	tx = begin("r2")
	journaled(tx, "")
	third, err := tx.Journal("warc/", ".warc")
	must.OK(t, err)
	if third == first || third == second {
		t.Fatalf("%s was given twice", third)
	}
	for _, gone := range []string{first, second} {
		if _, err := s.OpenFile(gone); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%s is still there: %v", gone, err)
		}
	}
	// A committed one has a length, and stays where a tail follows it.
	tx.Put(store.Entry{Path: third, Role: "warc", Length: grow(t, s, third, "abc"), Sum: store.Sum([]byte("abc")), Growing: true})
	_, err = tx.Commit(0, "", record.Ledger{})
	must.OK(t, err)
	grow(t, s, third, "tail")
	must.OK(t, change(fsys, "/c/urls", "new", "r2"), change(fsys, "/c/frontier", "update", "r2"), commit(fsys, "r2"))
	tx = begin("r3")
	e := tx.Base().File(third)
	if e == nil || e.Length != 3 || e.Epoch != tx.Epoch() {
		t.Fatalf("%+v", e)
	}
	fourth, err := tx.Journal("warc/", ".warc")
	must.OK(t, err)
	grow(t, s, fourth, "four")
	tx.Abort()
	// After abandon it is of an older epoch, and what was journaled is gone.
	must.OK(t, abandon(fsys))
	tx = begin("r3")
	journaled(tx, "")
	if e := tx.Base().File(third); e == nil || e.Epoch == tx.Epoch() {
		t.Fatalf("%+v", e)
	}
	if fifth, err := tx.Journal("warc/", ".warc"); err != nil || fifth == fourth {
		t.Fatal(fifth, err)
	}
	tx.Abort()
	// Finished, it loses its suffix; older generations see their part of it.
	must.OK(t, fsys.Rename(s.Path(third)+".open", s.Path(third)), fsys.SyncDir(s.Path("warc")))
	c, err := Open("/c", Options{FS: fsys})
	must.OK(t, err)
	if v, err := c.Verify(ctx); err != nil || len(v.Problems) > 0 {
		t.Fatal(err, v)
	}
	f, err := fsys.OpenFile(s.Path(third), os.O_RDWR, 0)
	must.OK(t, err)
	_, err = f.WriteAt([]byte("X"), 1)
	must.OK(t, err)
	if v, err := c.Verify(ctx); err != nil || len(v.Problems) != 1 || !strings.Contains(v.Problems[0], "bytes 0 to 3") {
		t.Fatal(err, v)
	}
}

// TestInterval: commits within an interval leave one checkpoint of it, and the first.
func TestInterval(t *testing.T) {
	fsys := testCrawl(t)
	c, err := Open("/c", Options{FS: fsys})
	must.OK(t, err)
	for i := range 10 {
		txn := fmt.Sprintf("r%d", i)
		must.OK(t, change(fsys, "/c/urls", "new", txn), change(fsys, "/c/frontier", "update", txn))
		_, made, err := c.Commit(ctx, txn, time.Unix(int64(i)*600, 0), 25*time.Minute)
		if err != nil || !made {
			t.Fatal(made, err)
		}
	}
	var kept []string
	must.OK(t, c.List(func(k *Checkpoint) error {
		kept = append(kept, k.Txn)
		return nil
	}))
	if got := strings.Join(kept, " "); got != "r0 r3 r6 r9" {
		t.Errorf("kept %s", got)
	}
	if n, err := c.NextRound(); err != nil || n != 10 {
		t.Errorf("next round %d, %v", n, err)
	}
	must.OK(t, c.Restore(ctx, 4), gc(fsys, 1))
	if n, err := c.NextRound(); err != nil || n != 4 {
		t.Errorf("next round after restore %d, %v", n, err)
	}
}

// TestNextRoundForgotten: rounds of other names are passed over where the checkpoints of r1, r2 are forgotten.
func TestNextRoundForgotten(t *testing.T) {
	fsys := testCrawl(t)
	c, err := Open("/c", Options{FS: fsys})
	must.OK(t, err)
	next := func(want uint64) {
		t.Helper()
		if n, err := c.NextRound(); err != nil || n != want {
			t.Errorf("next round %d, %v, want %d", n, err, want)
		}
	}
	next(0)
	for _, txn := range []string{"add1", "seed", "add2", "add3"} {
		wholeRound(t, fsys, txn)
		next(1)
	}
	must.OK(t, gc(fsys, 1))
	next(1)
	for _, txn := range []string{"r1", "r2", "add7", "again8", "add9"} {
		wholeRound(t, fsys, txn)
	}
	must.OK(t, gc(fsys, 2))
	next(3)
	if seeded, err := c.Closed("seed"); err != nil || !seeded {
		t.Errorf("seeds in: %v, %v", seeded, err)
	}
	must.OK(t, change(fsys, "/c/frontier", "next", "r3"))
	next(3)
	must.OK(t, abandon(fsys))
	next(3)
	wholeRound(t, fsys, "r3")
	next(4)
	must.OK(t, restore(fsys, 9))
	next(3)
}

// TestCommitRefuses names the store that did not commit.
func TestCommitRefuses(t *testing.T) {
	fsys := testCrawl(t)
	must.OK(t, change(fsys, "/c/frontier", "update", "r1"))
	if err := commit(fsys, "r1"); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), `/c/urls: round "r1" is not committed here`) {
		t.Error(err)
	}
	must.OK(t, change(fsys, "/c/urls", "new", "r2"))
	if err := commit(fsys, "r1"); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), `/c/urls: round "r2" is open`) {
		t.Error(err)
	}
	must.OK(t, abandon(fsys), change(fsys, "/c/frontier", "update", "r1"), change(fsys, "/c/urls", "new", "r1"), commit(fsys, "r1"))
}

// TestAbandonedMeanwhile: a change that began before an abandon does not commit.
func TestAbandonedMeanwhile(t *testing.T) {
	fsys := testCrawl(t)
	tx, _, err := openStore(t, fsys, "urls").Begin(ctx, "new", "r1")
	must.OK(t, err, abandon(fsys))
	if _, err := tx.Commit(0, "", record.Ledger{}); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "abandoned") {
		t.Error(err)
	}
	must.OK(t, change(fsys, "/c/urls", "new", "r1"))
}

// TestNothingChanged: a change without a name in which nothing changes makes no generation; one
// with a name does, since the name is kept.
func TestNothingChanged(t *testing.T) {
	fsys := testCrawl(t)
	s := openStore(t, fsys, "urls")
	before, err := s.Current()
	must.OK(t, err)
	for i, txn := range []string{"", "r1"} {
		tx, _, err := s.Begin(ctx, "new", txn)
		must.OK(t, err)
		_, err = tx.Commit(0, "", record.Ledger{})
		must.OK(t, err)
		m, err := s.Current()
		must.OK(t, err)
		if m.Generation != before.Generation+uint64(i) {
			t.Errorf("generation %d after a change named %q, %d before", m.Generation, txn, before.Generation)
		}
	}
}

// TestGCRemovesLeftovers: what a commit that was killed left in the crawl's own folders goes.
func TestGCRemovesLeftovers(t *testing.T) {
	fsys := testCrawl(t)
	left := []string{"/c/.CURRENT.7-1.tmp", "/c/checkpoints/.000001.7-2.tmp"}
	for _, name := range append(left, "/c/.notes.7-3.tmp") {
		f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666)
		must.OK(t, err)
		_, err = f.Write([]byte("12345"))
		must.OK(t, err, f.Close())
	}
	c, err := Open("/c", Options{FS: fsys})
	must.OK(t, err)
	_, freed, err := c.GC(ctx, 1)
	if err != nil || freed != (store.Freed{Files: 2, Bytes: 10}) {
		t.Errorf("%+v, %v", freed, err)
	}
	for _, name := range left {
		if ok, err := durable.Exists(fsys, name); ok || err != nil {
			t.Errorf("%s is still there", name)
		}
	}
	if ok, err := durable.Exists(fsys, "/c/.notes.7-3.tmp"); !ok || err != nil {
		t.Error("an output that somebody writes is gone")
	}
}

// TestVerifyTellsWhatItReads: every byte is told, and a file of many is left when ctx ends.
func TestVerifyTellsWhatItReads(t *testing.T) {
	fsys := testCrawl(t)
	s := openStore(t, fsys, "urls")
	tx, _, err := s.Begin(ctx, "new", "")
	must.OK(t, err)
	f, err := tx.Create("runs/", ".fps", "run")
	must.OK(t, err)
	_, err = f.Write(make([]byte, 4<<20))
	must.OK(t, err)
	_, err = tx.Commit(0, "", record.Ledger{})
	must.OK(t, err)
	told := int64(0)
	stopped, cancel := context.WithCancel(ctx)
	each := func(int64) {}
	c, err := Open("/c", Options{FS: fsys, Progress: func(n int64) { told += n; each(n) }})
	must.OK(t, err)
	if v, err := c.Verify(ctx); err != nil || len(v.Problems) > 0 || v.Bytes < 4<<20 || told < v.Bytes {
		t.Errorf("%+v, %v: told of %d bytes", v, err, told)
	}
	told, each = 0, func(int64) { cancel() }
	if _, err := c.Verify(stopped); !errors.Is(err, context.Canceled) || told > 1<<20 {
		t.Errorf("stopped at once, and %d bytes were read: %v", told, err)
	}
}

// TestVerifyWithoutSecrets: a file that is secret may be missing, and no other. One that is there is read.
func TestVerifyWithoutSecrets(t *testing.T) {
	for _, c := range []struct {
		name     string
		secret   bool
		damage   func(fsys durable.FS, path string) error
		problems int
	}{
		{"secret and missing", true, func(fsys durable.FS, path string) error { return fsys.Remove(path) }, 0},
		{"missing", false, func(fsys durable.FS, path string) error { return fsys.Remove(path) }, 1},
		{"secret and damaged", true, func(fsys durable.FS, path string) error { return durable.WriteFile(fsys, path, []byte("other")) }, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := testCrawl(t)
			s := openStore(t, fsys, "urls")
			tx, _, err := s.Begin(ctx, "new", "")
			must.OK(t, err)
			f, err := tx.Create("secret-", ".bin", "secret")
			must.OK(t, err)
			if c.secret {
				must.OK(t, f.Secret())
			}
			_, err = f.Write([]byte("bytes"))
			must.OK(t, err)
			_, err = tx.Commit(0, "", record.Ledger{})
			must.OK(t, err)
			must.OK(t, c.damage(fsys, s.Path(f.Path())))
			cr, err := Open("/c", Options{FS: fsys})
			must.OK(t, err)
			if v, err := cr.Verify(ctx); err != nil || len(v.Problems) != c.problems {
				t.Errorf("%v, %v, want %d problems", v.Problems, err, c.problems)
			}
		})
	}
}

// fewFiles is a file system that opens only so many files.
type fewFiles struct {
	durable.FS
	left int
}

func (f *fewFiles) OpenFile(name string, flag int, perm fs.FileMode) (durable.File, error) {
	if f.left--; f.left < 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EMFILE}
	}
	return f.FS.OpenFile(name, flag, perm)
}

// TestVerifyFewFiles: a file that this machine cannot open for want of open files is not damaged.
func TestVerifyFewFiles(t *testing.T) {
	fsys := testCrawl(t)
	rounds(t, fsys, 1, 2, 0)
	keep(t, fsys, "r2", "0")
	few := 0
	for whole := false; !whole; few++ {
		c, err := Open("/c", Options{FS: fsys})
		must.OK(t, err)
		c.fs = &fewFiles{fsys, few}
		c.opt.FS = c.fs
		v, err := c.Verify(ctx)
		if whole = err == nil; whole && len(v.Problems) > 0 || !whole && !errors.Is(err, syscall.EMFILE) {
			t.Fatalf("%d files: %+v, %v", few, v, err)
		}
	}
	if few < 20 {
		t.Errorf("%d files were enough", few)
	}
}

// TestClaims: verify holds what checkpoints say of a file once for all that follow each other and say the same.
func TestClaims(t *testing.T) {
	v := &verifier{files: map[string][]claim{}}
	s := store.Folder("/c/urls", store.Options{})
	one := &store.Manifest{Files: []store.Entry{{Path: "runs/000002-0.fps", Role: "run", Length: 7, Sum: strings.Repeat("ab", 16)}}}
	other := &store.Manifest{Files: []store.Entry{{Path: "runs/000002-0.fps", Role: "run", Length: 8, Sum: strings.Repeat("cd", 16)}}}
	for n, m := range []*store.Manifest{1: one, 2: one, 4: one, 5: {}, 6: one, 7: one, 8: other} { // 3 was forgotten, 5 is of another line
		if m == nil {
			continue
		}
		v.claims(s, m, uint64(n))
		v.before = uint64(n)
	}
	v.claims(s, other, 0)
	got := ""
	for _, c := range v.files["/c/urls/runs/000002-0.fps"] {
		got += fmt.Sprintf("%d bytes: %d to %d\n", c.length, c.first, c.last)
	}
	if want := "7 bytes: 1 to 4\n7 bytes: 6 to 7\n8 bytes: 8 to 8\n8 bytes: 0 to 0\n"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestVerifyFarNumbers: the numbers of two checkpoints may be far apart.
func TestVerifyFarNumbers(t *testing.T) {
	fsys := testCrawl(t)
	rounds(t, fsys, 1, 5, 0)
	c, err := Open("/c", Options{FS: fsys})
	must.OK(t, err)
	cur, err := c.current()
	must.OK(t, err)
	cur.Last, cur.Forgotten = 1<<40-1, "6-1099511627775"
	must.OK(t, store.WriteCurrent(fsys, "/c", cur))
	rounds(t, fsys, 6, 6, 0)
	s := openStore(t, fsys, "urls")
	m, err := s.Current()
	must.OK(t, err)
	run := s.Path(m.WithRole("run")[0].Path)
	must.OK(t, durable.WriteFile(fsys, run, []byte("merc")))
	v, err := c.Verify(ctx)
	if err != nil || !slices.Equal(v.Needed, []string{run}) || v.Sound == 0 || v.Sound > 5 {
		t.Errorf("%+v, %v; want %s, which the current checkpoint needs", v, err, run)
	}
}

// A folder that cannot be made leaves nothing, and the corrected command makes it.
func TestWhole(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "a", "crawl")
	fill := func(fail error) func(string) error {
		return func(dir string) error {
			if err := os.MkdirAll(filepath.Join(dir, "urls"), 0o777); err != nil {
				return err
			}
			return fail
		}
	}
	full := errors.New("no space left")
	if err := Whole(t.Context(), dir, fill(full)); !errors.Is(err, full) {
		t.Errorf("%v, want the error", err)
	}
	if list, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(list) > 0 {
		t.Errorf("left %v, %v", list, err)
	}
	for range 2 {
		if err := Whole(t.Context(), dir, fill(nil)); err != nil {
			t.Error(err)
		}
	}
	// What is there already is nobody's to remove.
	if err := Whole(t.Context(), dir, fill(full)); !errors.Is(err, full) {
		t.Errorf("%v, want the error", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "urls")); err != nil {
		t.Error(err)
	}
	// One that was empty is empty again, and what a killed process left goes.
	bare := filepath.Join(parent, "bare")
	must.OK(t, os.Mkdir(bare, 0o777))
	if err := Whole(t.Context(), bare, fill(full)); !errors.Is(err, full) {
		t.Errorf("%v, want the error", err)
	}
	if list, err := os.ReadDir(bare); err != nil || len(list) > 0 {
		t.Errorf("left %v, %v", list, err)
	}
	old := filepath.Join(parent, "a", ".next.new.123", "old")
	must.OK(t, os.MkdirAll(old, 0o777))
	next := filepath.Join(parent, "a", "next")
	if err := Whole(t.Context(), next, fill(nil)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(next, "old")); err == nil {
		t.Error("the new folder has what a killed process left")
	}
	if list, err := os.ReadDir(filepath.Dir(next)); err != nil || len(list) != 2 {
		t.Errorf("%v, %v, want the two crawls alone", list, err)
	}
	must.OK(t, os.Remove(bare))
	// Of several that make a crawl in an empty folder, or in none, one does, and the others wait until it is whole.
	for _, there := range []bool{true, false} {
		crawl := filepath.Join(parent, "a", fmt.Sprint("raced", there))
		if there {
			must.OK(t, os.Mkdir(crawl, 0o777))
		}
		var ready, done sync.WaitGroup
		var made, filled atomic.Int32
		const racers = 8
		ready.Add(racers)
		for i := range racers {
			done.Go(func() {
				ready.Done()
				ready.Wait()
				taken, err := New(t.Context(), crawl, func(dir string) error {
					filled.Add(1)
					return errors.Join(os.MkdirAll(filepath.Join(dir, checkpointsDir), 0o777), os.MkdirAll(filepath.Join(dir, fmt.Sprint("store", i)), 0o777),
						os.WriteFile(filepath.Join(dir, fmt.Sprint("store", i), "HEAD"), nil, 0o666), os.WriteFile(filepath.Join(dir, "CURRENT"), fmt.Append(nil, i), 0o666))
				})
				if err != nil {
					t.Error(err)
				}
				if !taken {
					made.Add(1)
				}
				if _, err := os.Stat(filepath.Join(crawl, "CURRENT")); err != nil {
					t.Error(err)
				}
			})
		}
		done.Wait()
		list, err := os.ReadDir(crawl)
		current, currentErr := os.ReadFile(filepath.Join(crawl, "CURRENT"))
		if _, err := os.Stat(filepath.Join(crawl, fmt.Sprintf("store%s", current))); err != nil || made.Load() != 1 || filled.Load() != 1 {
			t.Errorf("%d made it, %d began to; of the one that did: %v", made.Load(), filled.Load(), err)
		}
		if err != nil || currentErr != nil || len(list) != 3 {
			t.Errorf("%v, %v, %v", list, err, currentErr)
		}
		must.OK(t, os.RemoveAll(crawl))
	}
	// Somebody else is quicker.
	other := filepath.Join(parent, "other")
	err := Whole(t.Context(), other, func(dir string) error {
		if dir != other {
			if err := fill(nil)(other); err != nil {
				return err
			}
		}
		return fill(nil)(dir)
	})
	if list, readErr := os.ReadDir(parent); err != nil || readErr != nil || len(list) != 2 {
		t.Errorf("%v, %v, %v", err, list, readErr)
	}
}

// A process that is killed at any rename leaves nothing that the next one does not finish or remove.
func TestNewKilled(t *testing.T) {
	fill := func(text string) func(string) error {
		return func(dir string) error {
			return errors.Join(os.MkdirAll(filepath.Join(dir, checkpointsDir), 0o777), os.MkdirAll(filepath.Join(dir, "urls", "d"), 0o777),
				os.WriteFile(filepath.Join(dir, "crawl.toml"), []byte(text), 0o666), os.WriteFile(filepath.Join(dir, "CURRENT"), nil, 0o666))
		}
	}
	if dir := os.Getenv("CRAWL_TEST_KILLED"); dir != "" { // the process that is killed
		after, err := strconv.Atoi(os.Getenv("CRAWL_TEST_RENAMES"))
		must.OK(t, err)
		rename = func(from, to string) error {
			if after--; after < 0 {
				self, err := os.FindProcess(os.Getpid())
				must.OK(t, err, self.Kill())
				select {}
			}
			return os.Rename(from, to)
		}
		_, err = New(t.Context(), dir, fill("killed"))
		must.OK(t, err)
		return
	}
	for _, renames := range []int{5, 1} { // into a folder that is there, and beside one that is not
		for after := range renames + 1 {
			parent := t.TempDir()
			dir := filepath.Join(parent, "c")
			if renames > 1 {
				must.OK(t, os.Mkdir(dir, 0o777))
			}
			killed := exec.Command(os.Args[0], "-test.run=^TestNewKilled$")
			killed.Env = append(os.Environ(), "CRAWL_TEST_KILLED="+dir, fmt.Sprint("CRAWL_TEST_RENAMES=", after))
			if err := killed.Run(); (err == nil) != (after == renames) {
				t.Fatalf("%d of %d renames: %v", after, renames, err)
			}
			list, _ := filepath.Glob(filepath.Join(dir, "[^.]*"))
			if slices.Contains(list, filepath.Join(dir, "CURRENT")) && len(list) < 4 {
				t.Errorf("killed after %d of %d renames: CURRENT is there, of %v", after, renames, list)
			}
			taken, newErr := New(t.Context(), dir, fill("next"))
			want := "killed"
			if after == 0 {
				want = "next"
			}
			text, _ := os.ReadFile(filepath.Join(dir, "crawl.toml"))
			if newErr != nil || taken != (after > 0) || string(text) != want {
				t.Errorf("killed after %d of %d renames: %v, %v, %q", after, renames, taken, newErr, text)
			}
			all, err := os.ReadDir(dir)
			around, _ := os.ReadDir(parent)
			if err != nil || len(all) != 4 || len(around) != 1 {
				t.Errorf("killed after %d of %d renames: %v in %v", after, renames, all, around)
			}
		}
	}
	// A file of somebody else's is not replaced.
	dir := t.TempDir()
	must.OK(t, fill("killed")(filepath.Join(dir, wholeName)), os.WriteFile(filepath.Join(dir, "crawl.toml"), []byte("mine"), 0o666))
	_, err := New(t.Context(), dir, fill("next"))
	if text, _ := os.ReadFile(filepath.Join(dir, "crawl.toml")); !errors.Is(err, fault.Usage) || string(text) != "mine" {
		t.Errorf("%v, %q", err, text)
	}
}

// The lock file goes with each holder, and yet there is one holder at a time.
func TestLockNew(t *testing.T) {
	dir := t.TempDir()
	var held atomic.Int32
	var done sync.WaitGroup
	for range 8 {
		done.Go(func() {
			for range 500 {
				unlock, err := lockNew(t.Context(), dir, filepath.Join(dir, "lock"))
				if err != nil {
					t.Error(err)
					return
				}
				if n := held.Add(1); n != 1 {
					t.Errorf("%d hold the lock", n)
				}
				held.Add(-1)
				unlock()
			}
		})
	}
	done.Wait()
}
