package crawl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

var ctx = context.Background()

// losses are the ways in which a crash is survived.
var losses = []crashtest.Loss{crashtest.LoseAll, crashtest.KeepAll, 2, 3}

// long asks for the long forms: each call of the file system with all losses. The short ones take the losses in turn.
var long = os.Getenv("MERCATOR_LONG") != ""

// lossesAt are the losses of the crash at a call, which is one of the calls that are tried one after the other.
func lossesAt(call int) []crashtest.Loss {
	if long {
		return losses
	}
	return losses[(call-1)%len(losses):][:1]
}

// clone copies a file system.
func clone(fsys *crashtest.FS) *crashtest.FS { return fsys.AfterCrash(crashtest.KeepAll) }

var testStores = []string{"frontier", "urls", "modules/tags"}

// newCrawl makes a crawl folder /c.
func newCrawl(fsys durable.FS) error {
	opt := Options{FS: fsys}
	_, err := Init("/c", []byte("# none\n"), nil, func(string) error {
		for _, name := range testStores {
			if err := store.Create("/c/"+name, kindOf(name), 1, map[string]string{"p": "1"}, opt.stores()); err != nil {
				return err
			}
		}
		return nil
	}, opt)
	return err
}

func kindOf(name string) string {
	if strings.Contains(name, "modules/") {
		return "module"
	}
	return path.Base(name)
}

// ledger is the ledger of a round of the test: urls, then frontier.
func ledger(txn string) record.Ledger { return ledgerOf("", txn) }

// ledgerOf makes the ledger of a shard.
func ledgerOf(under, txn string) record.Ledger {
	h := fmt.Sprintf("%032x", len(txn))
	return record.Ledger{Stages: []record.Stage{
		{Name: "murlset new", Store: path.Join(under, "urls"), Txn: txn, Made: []record.Count{{Reason: "text", N: 3}}, Out: 3, OutHash: h},
		{Name: "mfrontier update", Store: path.Join(under, "frontier"), Txn: txn, In: 3, InHash: h, Consumed: 3},
	}}
}

// change commits a transaction that makes a run, an output, contact times and a
// value, and drops the oldest of three runs.
func change(fsys durable.FS, dir, verb, txn string) error {
	s, err := store.Open(dir, kindOf(strings.TrimPrefix(dir, "/c/")), 1, store.Options{FS: fsys})
	if err != nil {
		return err
	}
	return changeStore(s, verb, txn)
}

func changeStore(s *store.Store, verb, txn string) error {
	return changeWith(s, verb, txn, ledgerOf(s.Shard(), txn))
}

func changeWith(s *store.Store, verb, txn string, ledger record.Ledger) error {
	t, done, err := s.Begin(ctx, verb, txn)
	if err != nil || done != nil {
		return err
	}
	defer t.Abort()
	write := func(prefix, role string) *store.NewFile {
		if err != nil {
			return nil
		}
		f, cerr := t.Create(prefix, ".txt", role)
		if cerr != nil {
			err = cerr
			return nil
		}
		_, err = fmt.Fprintf(f, "%s %s %s\n", role, verb, txn)
		return f
	}
	write("runs/", "run")
	if out := write("", store.RoleOutput); out != nil {
		t.Keep(out)
	}
	if contacts := write("contacts/", "contacts"); contacts != nil {
		contacts.Sticky()
	}
	if err != nil {
		return err
	}
	for _, e := range t.Base().WithRole("contacts") {
		t.Drop(e.Path)
	}
	if runs := t.Base().WithRole("run"); len(runs) == 3 {
		t.Drop(runs[0].Path)
	}
	t.SetState("last", txn)
	_, err = t.Commit(3, "", ledger)
	return err
}

func commit(fsys durable.FS, txn string) error {
	c, err := Open("/c", Options{FS: fsys})
	if err == nil {
		_, _, err = c.Commit(ctx, txn, time.Unix(0, 0), 0)
	}
	return err
}

func abandon(fsys durable.FS) error {
	c, err := Open("/c", Options{FS: fsys})
	if err == nil {
		_, err = c.Abandon(ctx)
	}
	return err
}

func restore(fsys durable.FS, n uint64) error {
	c, err := Open("/c", Options{FS: fsys})
	if err == nil {
		err = c.Restore(ctx, n)
	}
	return err
}

func gc(fsys durable.FS, keep int) error {
	c, err := Open("/c", Options{FS: fsys})
	if err == nil {
		_, _, err = c.GC(ctx, keep)
	}
	return err
}

// storeState is what a store says of itself: the contents of its files, its
// values and names, without numbers and file names.
func storeState(fsys durable.FS, name string) (string, error) {
	s, err := store.Open("/c/"+name, kindOf(name), 1, store.Options{FS: fsys})
	if err != nil {
		return "", err
	}
	m, err := s.Current()
	if err != nil {
		return "", err
	}
	var lines []string
	for _, e := range m.Files {
		if e.Role == store.RoleNames || e.Role == store.RoleOutput {
			continue
		}
		f, err := s.OpenFile(e.Path)
		if err != nil {
			return "", err
		}
		b, err := io.ReadAll(io.NewSectionReader(f, 0, e.Length))
		if err != nil {
			return "", err
		}
		if e.Sum != "" && store.Sum(b) != e.Sum {
			return "", fmt.Errorf("%s: checksum of %q", e.Path, b)
		}
		lines = append(lines, string(b))
	}
	sort.Strings(lines)
	for _, d := range m.Done {
		lines = append(lines, "done "+d.Verb+" "+d.Txn)
	}
	return strings.Join(append(lines, "last "+m.State["last"]), ";"), nil
}

// crawlState is the state of all stores and of CURRENT.
func crawlState(t *testing.T, fsys durable.FS) string {
	t.Helper()
	c, err := Open("/c", Options{FS: fsys})
	must.OK(t, err)
	st, err := c.State()
	must.OK(t, err)
	lines := []string{fmt.Sprintf("epoch %d checkpoint %d rounds %q", st.Epoch, st.Checkpoint, st.Rounds)}
	for _, of := range st.Stores {
		s, err := storeState(fsys, of.Name)
		must.OK(t, err)
		lines = append(lines, of.Name+": "+s)
	}
	return strings.Join(lines, "\n")
}

// wholeRound runs and commits a round.
func wholeRound(t *testing.T, fsys durable.FS, txn string) {
	t.Helper()
	must.OK(t, change(fsys, "/c/urls", "new", txn), change(fsys, "/c/modules/tags", "tags", txn), change(fsys, "/c/frontier", "update", txn), commit(fsys, txn))
}

// TestCrash stops at every file-system call of every kind of change. What a
// restart finds is the state before or the one after, and the same command then
// ends in the one after. A change that said it was done is done.
func TestCrash(t *testing.T) {
	twoRounds := func(t *testing.T, fsys *crashtest.FS) {
		wholeRound(t, fsys, "r1")
		wholeRound(t, fsys, "r2")
	}
	openRound := func(t *testing.T, fsys *crashtest.FS) {
		twoRounds(t, fsys)
		must.OK(t, change(fsys, "/c/urls", "new", "r3"), change(fsys, "/c/frontier", "next", "r3"), change(fsys, "/c/frontier", "update", "r3"))
	}
	for _, test := range []struct {
		name  string
		setup func(t *testing.T, fsys *crashtest.FS)
		run   func(fsys durable.FS) error
		again string // a store change that must work afterwards
	}{
		{"the first change of a store", func(*testing.T, *crashtest.FS) {}, func(fsys durable.FS) error { return change(fsys, "/c/urls", "new", "r1") }, "r1"},
		{"a change that opens a round", twoRounds, func(fsys durable.FS) error { return change(fsys, "/c/urls", "new", "r3") }, "r3"},
		{"a change within a round", openRound, func(fsys durable.FS) error { return change(fsys, "/c/modules/tags", "tags", "r3") }, "r3"},
		{"a change without a name", twoRounds, func(fsys durable.FS) error { return change(fsys, "/c/urls", "new", "") }, "r3"},
		{"a checkpoint", openRound, func(fsys durable.FS) error { return commit(fsys, "r3") }, "r4"},
		{"abandon", openRound, abandon, "r3"},
		{"a change after abandon", func(t *testing.T, fsys *crashtest.FS) {
			openRound(t, fsys)
			must.OK(t, abandon(fsys))
		}, func(fsys durable.FS) error { return change(fsys, "/c/urls", "new", "r3") }, "r3"},
		{"restore", openRound, func(fsys durable.FS) error { return restore(fsys, 1) }, "r2"},
		{"a change after restore", func(t *testing.T, fsys *crashtest.FS) {
			openRound(t, fsys)
			must.OK(t, restore(fsys, 0))
		}, func(fsys durable.FS) error { return change(fsys, "/c/frontier", "update", "r1") }, "r1"},
		{"gc", func(t *testing.T, fsys *crashtest.FS) {
			twoRounds(t, fsys)
			wholeRound(t, fsys, "r3")
			wholeRound(t, fsys, "r4")
		}, func(fsys durable.FS) error { return gc(fsys, 2) }, "r5"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			base := crashtest.New()
			must.OK(t, newCrawl(base))
			test.setup(t, base)
			crashEverywhere(t, base, test.name, test.run, test.again)
		})
	}
}

// crashEverywhere stops a change of a crawl at every call.
func crashEverywhere(t *testing.T, base *crashtest.FS, what string, run func(durable.FS) error, again string) {
	t.Helper()
	c, err := Open("/c", Options{FS: base})
	must.OK(t, err)
	stores, err := c.Stores()
	must.OK(t, err)
	before := crawlState(t, base)
	ended := clone(base)
	must.OK(t, run(ended))
	after := crawlState(t, ended)
	for n := 1; ; n++ {
		fsys := clone(base)
		fsys.CrashAt(n)
		err := run(fsys)
		crashed := fsys.Crashed()
		for _, loss := range lossesAt(n) {
			found := fsys.AfterCrash(loss)
			state := crawlState(t, found)
			if state != after && (state != before || err == nil) {
				t.Fatalf("call %d, loss %d, error %v: a third state:\n%s\nbefore:\n%s\nafter:\n%s", n, loss, err, state, before, after)
			}
			// abandon and restore raise the epoch each time they are run.
			if state != after || !strings.HasPrefix(what, "abandon") && !strings.HasPrefix(what, "restore") && what != "a change without a name" {
				if err := run(found); err != nil {
					t.Fatalf("call %d, loss %d: run again: %v", n, loss, err)
				}
				if state := crawlState(t, found); state != after {
					t.Fatalf("call %d, loss %d: run again:\n%s\nwant:\n%s", n, loss, state, after)
				}
			}
			for _, s := range stores {
				if err := change(found, s.Dir(), "more", again); err != nil {
					t.Fatalf("call %d, loss %d: next change of %s: %v", n, loss, s.Dir(), err)
				}
			}
			if c, err := Open("/c", Options{FS: found}); err != nil {
				t.Fatal(err)
			} else if v, err := c.Verify(ctx); err != nil || len(v.Problems) > 0 {
				t.Fatalf("call %d, loss %d: verify: %v %v", n, loss, err, v)
			}
		}
		if !crashed {
			break
		}
	}
}

// TestCrashInit stops the making of a crawl folder at every call.
func TestCrashInit(t *testing.T) {
	for n := 1; ; n++ {
		fsys := crashtest.New()
		fsys.CrashAt(n)
		err := newCrawl(fsys)
		for _, loss := range losses {
			found := fsys.AfterCrash(loss)
			if _, oerr := Open("/c", Options{FS: found}); err == nil && oerr != nil {
				t.Fatalf("call %d, loss %d: %v", n, loss, oerr)
			} else if oerr == nil {
				crawlState(t, found) // a folder with CURRENT is complete
			}
			must.OK(t, newCrawl(found))
			wholeRound(t, found, "r1")
		}
		if !fsys.Crashed() {
			return
		}
	}
}

// TestDiskFull fills the disk at every size: the change fails with ENOSPC and
// nothing is half-published; with room again it ends.
func TestDiskFull(t *testing.T) {
	base := crashtest.New()
	must.OK(t, newCrawl(base))
	wholeRound(t, base, "r1")
	before := crawlState(t, base)
	ended := clone(base)
	wholeRound(t, ended, "r2")
	after := crawlState(t, ended)
	run := func(fsys durable.FS) error {
		for _, step := range []func() error{
			func() error { return change(fsys, "/c/urls", "new", "r2") },
			func() error { return change(fsys, "/c/modules/tags", "tags", "r2") },
			func() error { return change(fsys, "/c/frontier", "update", "r2") },
			func() error { return commit(fsys, "r2") },
		} {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	}
	full := 0
	for space := int64(0); ; space += 397 {
		fsys := clone(base)
		fsys.SetSpace(space)
		err := run(fsys)
		if err == nil {
			break
		}
		full++
		if space == 0 && crawlState(t, fsys) != before {
			t.Fatal("a full disk changed the state")
		}
		fsys.SetSpace(-1)
		must.OK(t, run(fsys))
		if state := crawlState(t, fsys); state != after {
			t.Fatalf("space %d: %s\nwant:\n%s", space, state, after)
		}
	}
	if full < 5 {
		t.Fatalf("the disk was full %d times only", full)
	}
}

// TestCommitCloses: a commit that fails on a full disk, wherever it is, leaves no file open, and in checkpoints only its own, which
// the next commit writes over.
func TestCommitCloses(t *testing.T) {
	disk := crashtest.New()
	must.OK(t, newCrawl(disk), change(disk, "/c/urls", "new", "r1"), change(disk, "/c/modules/tags", "tags", "r1"), change(disk, "/c/frontier", "update", "r1"))
	fsys := &openFS{FS: disk, open: map[durable.File]string{}}
	full := 0
	for room := int64(0); ; room += 100 {
		disk.SetSpace(room)
		err := commit(fsys, "r1")
		disk.SetSpace(-1)
		if len(fsys.open) > 0 {
			t.Errorf("%v, and open stays %v", err, fsys.open)
		}
		list, e := disk.ReadDir("/c/checkpoints")
		must.OK(t, e)
		if len(list) > 1 || len(list) == 1 && list[0].Name() != "000001" {
			t.Errorf("%v, and in checkpoints stay %v", err, list)
		}
		if err == nil {
			break
		}
		full++
	}
	if full < 10 {
		t.Errorf("the disk was full %d times only", full)
	}
}

// openFS knows which files are open.
type openFS struct {
	durable.FS
	open map[durable.File]string
}

func (o *openFS) OpenFile(name string, flag int, perm fs.FileMode) (durable.File, error) {
	f, err := o.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	is := &openFile{f, o}
	o.open[is] = name
	return is, nil
}

type openFile struct {
	durable.File
	fs *openFS
}

func (f *openFile) Close() error {
	delete(f.fs.open, f)
	return f.File.Close()
}

// model has what the stores should say.
type model struct {
	stores map[string]modelStore
}

// rounds lists the open rounds.
func (m model) rounds() (open []string) {
	for _, name := range testStores {
		if r := m.stores[name].round; r != "" && !slices.Contains(open, r) {
			open = append(open, r)
		}
	}
	return open
}

type modelStore struct {
	round  string // open
	runs   []string
	last   string
	names  []string // transactions of this round and earlier ones
	recent []string // "verb txn", the open round's and the last closed one's
}

// change adds a transaction. The transactions of the closed round go then.
func (s *modelStore) change(verb, txn string) {
	if s.round == "" {
		s.recent = nil
	}
	s.round = txn
	s.names = append(s.names, txn)
	s.recent = append(slices.Clone(s.recent), verb+" "+txn)
	if len(s.runs) == 3 {
		s.runs = s.runs[1:]
	}
	s.runs = append(slices.Clone(s.runs), fmt.Sprintf("run %s %s\n", verb, txn))
	s.last = txn
}

func (m model) clone() model {
	c := model{stores: map[string]modelStore{}}
	for k, s := range m.stores {
		s.runs, s.names, s.recent = slices.Clone(s.runs), slices.Clone(s.names), slices.Clone(s.recent)
		c.stores[k] = s
	}
	return c
}

// TestModel runs random changes, commits, abandons, restores and clean-ups, with
// a loss of all that was not synced after each, and compares with a model.
func TestModel(t *testing.T) {
	verbs := map[string]string{"frontier": "update", "urls": "new", "modules/tags": "tags"}
	for seed := uint64(1); seed <= 30; seed++ {
		rng := rand.New(rand.NewPCG(seed, 1))
		fsys := crashtest.New()
		must.OK(t, newCrawl(fsys))
		now := model{stores: map[string]modelStore{}}
		checkpoints := map[uint64]model{0: now.clone()}
		current, last, epoch, rounds := uint64(0), uint64(0), 0, 0
		contacts := map[string]string{}
		names := []string{}
		var log []string
		for step := 0; step < 40; step++ {
			what := ""
			switch op := rng.IntN(20); {
			case op < 11: // a change of a store
				name := testStores[rng.IntN(len(testStores))]
				s := now.stores[name]
				txn := s.round
				if open := now.rounds(); txn == "" && len(open) > 0 && rng.IntN(10) > 0 {
					txn = open[0]
				}
				if txn == "" || rng.IntN(8) == 0 {
					rounds++
					txn = fmt.Sprintf("r%d", rounds)
					if len(names) > 0 && rng.IntN(4) == 0 {
						txn = names[rng.IntN(len(names))]
					}
				}
				what = "change " + name + " " + txn
				err := change(fsys, "/c/"+name, verbs[name], txn)
				repeated := slices.Contains(s.recent, verbs[name]+" "+txn)
				refused := s.round != "" && s.round != txn || s.round == "" && slices.Contains(s.names, txn)
				// A closed round's output serves until the next change of its store.
				if repeated {
					refused = err != nil && s.round != txn
				}
				if refused != (err != nil) || err != nil && !errors.Is(err, fault.Conflict) {
					t.Fatalf("seed %d: %v\n%s: refused %v, got %v", seed, log, what, refused, err)
				}
				if err != nil || repeated {
					break
				}
				s.change(verbs[name], txn)
				names = append(names, txn)
				contacts[name] = fmt.Sprintf("contacts %s %s\n", verbs[name], txn)
				now.stores[name] = s
			case op < 14:
				open := now.rounds()
				if len(open) == 0 {
					break
				}
				txn := open[rng.IntN(len(open))]
				what = "commit " + txn
				ready := len(open) == 1
				for _, name := range []string{"urls", "frontier"} {
					ready = ready && slices.Contains(now.stores[name].recent, verbs[name]+" "+txn)
				}
				err := commit(fsys, txn)
				if ready != (err == nil) {
					t.Fatalf("seed %d: %v\n%s: ready %v, got %v", seed, log, what, ready, err)
				}
				if ready {
					last++
					current = last
					for name, s := range now.stores {
						s.round = ""
						now.stores[name] = s
					}
					checkpoints[last] = now.clone()
				}
			case op < 16:
				what = "abandon"
				must.OK(t, abandon(fsys))
				epoch++
				now = checkpoints[current].clone()
			case op < 18:
				n := uint64(rng.IntN(int(last) + 1))
				what = fmt.Sprint("restore ", n)
				m, ok := checkpoints[n]
				if err := restore(fsys, n); ok != (err == nil) {
					t.Fatalf("seed %d: %v\n%s: %v", seed, log, what, err)
				}
				if ok {
					current = n
					epoch++
					now = m.clone()
				}
			case op < 20:
				keep := 1 + rng.IntN(3)
				what = fmt.Sprint("gc ", keep)
				err := gc(fsys, keep)
				if (err == nil) != (len(now.rounds()) == 0) {
					t.Fatalf("seed %d: %v\n%s: %v", seed, log, what, err)
				}
				if err == nil {
					var numbers []uint64
					for n := range checkpoints {
						if n > 0 {
							numbers = append(numbers, n)
						}
					}
					slices.Sort(numbers)
					for i, n := range numbers {
						if i < len(numbers)-keep && n != current {
							delete(checkpoints, n)
						}
					}
				}
			}
			log = append(log, what)
			fsys = fsys.AfterCrash(crashtest.LoseAll)
			c, err := Open("/c", Options{FS: fsys})
			must.OK(t, err)
			st, err := c.State()
			must.OK(t, err)
			if st.Epoch != uint64(epoch) || st.Checkpoint != current || !slices.Equal(sortedStrings(st.Rounds), sortedStrings(now.rounds())) {
				t.Fatalf("seed %d: %v\ncrawl %+v, want epoch %d, checkpoint %d, rounds %q", seed, log, st, epoch, current, now.rounds())
			}
			for _, name := range testStores {
				s := now.stores[name]
				lines := slices.Clone(s.runs)
				if contacts[name] != "" {
					lines = append(lines, contacts[name])
				}
				sort.Strings(lines)
				for _, d := range s.recent {
					lines = append(lines, "done "+d)
				}
				want := strings.Join(append(lines, "last "+s.last), ";")
				if got, err := storeState(fsys, name); err != nil || got != want {
					t.Fatalf("seed %d: %v\n%s: %v\ngot  %q\nwant %q", seed, log, name, err, got, want)
				}
			}
			if v, err := c.Verify(ctx); err != nil || len(v.Problems) > 0 {
				t.Fatalf("seed %d: %v\nverify: %v %v", seed, log, err, v)
			}
		}
	}
}

// TestTwoWriters: the second waits, and then is told who holds the store.
func TestTwoWriters(t *testing.T) {
	dir := t.TempDir() + "/urls"
	must.OK(t, store.Create(dir, "urls", 1, nil, store.Options{}))
	open := func(wait time.Duration) *store.Store {
		s, err := store.Open(dir, "urls", 1, store.Options{LockWait: wait})
		must.OK(t, err)
		return s
	}
	first, _, err := open(0).Begin(ctx, "new", "r1")
	must.OK(t, err)
	if _, _, err := open(0).Begin(ctx, "new", "r2"); !errors.Is(err, fault.Busy) || !strings.Contains(err.Error(), fmt.Sprintf("held by process %d on ", os.Getpid())) || !strings.Contains(err.Error(), "new r1") {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if _, _, err := open(time.Minute).Begin(short, "new", "r2"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		second, done, err := open(time.Minute).Begin(ctx, "new", "r1")
		if err == nil && (done == nil || second != nil) {
			err = errors.New("the second writer did not see the first one's commit")
		}
		got <- err
	}()
	time.Sleep(20 * time.Millisecond)
	_, err = first.Commit(0, "", record.Ledger{})
	must.OK(t, err)
	must.OK(t, <-got)
}

func sortedStrings(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}
