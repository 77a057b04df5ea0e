package store

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

// nodeFS is a file system as seen by a machine with locks that hold for nobody. Before its call number `at`, of those that change
// something, it calls do, and if that says so the machine is dead from there on.
type nodeFS struct {
	durable.FS
	calls, at int
	do        func() (dies bool)
	dead      bool
}

type noLock struct{}

func (noLock) Close() error { return nil }

func (n *nodeFS) Lock(name, owner string) (io.Closer, error) { return noLock{}, n.change() }

var errDead = errors.New("the machine is dead")

func (n *nodeFS) change() error {
	if n.calls++; n.calls == n.at {
		n.dead = n.do()
	}
	if n.dead {
		return errDead
	}
	return nil
}

func (n *nodeFS) OpenFile(name string, flag int, perm fs.FileMode) (durable.File, error) {
	if flag&os.O_CREATE == 0 {
		return n.FS.OpenFile(name, flag, perm)
	}
	if err := n.change(); err != nil {
		return nil, err
	}
	f, err := n.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return nodeFile{f, n}, nil
}

func (n *nodeFS) Link(a, b string) error {
	if err := n.change(); err != nil {
		return err
	}
	return n.FS.Link(a, b)
}

func (n *nodeFS) Rename(a, b string) error {
	if err := n.change(); err != nil {
		return err
	}
	return n.FS.Rename(a, b)
}

func (n *nodeFS) Remove(name string) error {
	if err := n.change(); err != nil {
		return err
	}
	return n.FS.Remove(name)
}

func (n *nodeFS) SyncDir(name string) error {
	if err := n.change(); err != nil {
		return err
	}
	return n.FS.SyncDir(name)
}

// nodeFile is a file that was made on it.
type nodeFile struct {
	durable.File
	n *nodeFS
}

func (f nodeFile) Write(p []byte) (int, error) {
	if err := f.n.change(); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

func (f nodeFile) Sync() error {
	if err := f.n.change(); err != nil {
		return err
	}
	return f.File.Sync()
}

// change is a transaction in two parts, so that others may come in between.
type change struct {
	tx   *Tx
	grew string // name of its growing file
}

// begin is the first part. It takes over what earlier attempts wrote to growing files: nothing of it is changed.
func (c *change) begin(s *Store, verb, by string) (done *Done, err error) {
	if c.tx, done, err = s.Begin(ctx, verb, "r1"); c.tx == nil {
		return done, err
	}
	names, err := c.tx.Journaled()
	for _, name := range names {
		if err != nil {
			return nil, err
		}
		var data []byte
		if data, err = durable.ReadFile(s.fs, s.Path(name)+OpenSuffix, 1<<20); err == nil {
			c.tx.Put(Entry{Path: name, Role: "warc", Length: int64(len(data)), Sum: Sum(data), Growing: true})
		}
	}
	if err == nil {
		c.grew, err = c.tx.Journal("crawl-", ".warc")
	}
	if err == nil {
		err = c.grow(s, by)
	}
	return nil, c.tx.Because(err)
}

// grow appends to the growing file and enters it.
func (c *change) grow(s *Store, by string) error {
	f, err := s.fs.OpenFile(s.Path(c.grew)+OpenSuffix, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write([]byte(by)); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	data, err := durable.ReadFile(s.fs, s.Path(c.grew)+OpenSuffix, 1<<20)
	c.tx.Put(Entry{Path: c.grew, Role: "warc", Length: int64(len(data)), Sum: Sum(data), Growing: true})
	return err
}

// end is the second part.
func (c *change) end(s *Store, by string) error {
	defer c.tx.Abort()
	f, err := c.tx.Create("outputs/x-", ".txt", RoleOutput)
	if err == nil {
		_, err = f.Write([]byte(by))
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = c.grow(s, by)
	}
	if err == nil {
		c.tx.Keep(f)
		_, err = c.tx.Commit(0, "", record.Ledger{})
	}
	return c.tx.Because(err)
}

// whole makes a change until it is done, as a person does who runs a command again, and returns the output that it has.
func whole(t *testing.T, s *Store, verb, by string) (output string) {
	t.Helper()
	for range 3 {
		var c change
		done, err := c.begin(s, verb, by)
		if done != nil {
			return checkNewest(t, s, verb)
		}
		if err == nil {
			err = c.end(s, by)
		}
		if err != nil && !errors.Is(err, fault.Busy) && !errors.Is(err, fault.Superseded) {
			t.Fatal(err)
		}
	}
	t.Fatalf("%s of %s is not done", verb, by)
	return ""
}

// checkNewest checks the files of the generation that counts: each has its bytes. It returns what the output of verb holds.
func checkNewest(t *testing.T, s *Store, verb string) (output string) {
	t.Helper()
	m, err := s.Current()
	must.OK(t, err)
	for _, e := range m.Files {
		f, err := s.OpenFile(e.Path)
		must.OK(t, err)
		data := make([]byte, e.Length)
		if n, err := f.ReadAt(data, 0); int64(n) != e.Length || Sum(data) != e.Sum {
			t.Fatalf("%s is %d bytes with sum %s, want %+v: %v", e.Path, n, Sum(data), e, err)
		}
		must.OK(t, f.Close())
	}
	for _, d := range m.Done {
		if d.Verb != verb {
			continue
		}
		f, err := s.OpenFile(d.Output)
		must.OK(t, err)
		data, err := io.ReadAll(f)
		must.OK(t, err, f.Close())
		output = string(data)
	}
	return output
}

// shardStore makes the store of a shard on a file system.
func shardStore(t *testing.T) *crashtest.FS {
	t.Helper()
	disk := crashtest.New()
	must.OK(t, durable.MkdirAll(disk, "/d"), WriteCurrent(disk, "/d", Current{Map: 1}),
		Create("/d/shard/007/fetch", "fetch", 1, nil, Options{FS: disk}))
	return disk
}

func on(t *testing.T, disk durable.FS) *Store {
	t.Helper()
	s, err := Open("/d/shard/007/fetch", "fetch", 1, Options{FS: disk})
	must.OK(t, err)
	return s
}

// TestTwoAttempts: where locks hold for nobody, a second attempt at a change begins before any step of the first, and is
// done before any later one, or after the first has ended. One of the two makes the generation; the
// other is told, and when it is run again, it finds that made. What a third finds is whole.
func TestTwoAttempts(t *testing.T) {
	first := func(at, then int) (steps int, won [2]bool) {
		disk := shardStore(t)
		other := on(t, &nodeFS{FS: disk})
		var b change
		var done *Done
		step := 0
		second := func() bool {
			var err error
			if step++; step == 1 {
				if done, err = b.begin(other, "fetch", "B"); err != nil {
					t.Fatalf("the second begins before step %d: %v", at, err)
				}
			}
			if step == 2 && done == nil {
				err = b.end(other, "B")
				if won[1] = err == nil; err != nil && !errors.Is(err, fault.Superseded) && !errors.Is(err, fault.Busy) {
					t.Fatalf("steps %d, %d: the second: %v", at, then, err)
				}
			}
			return false
		}
		node := &nodeFS{FS: disk, at: at, do: second}
		node.do = func() bool {
			node.at = then
			second()
			if then == at {
				second()
			}
			return false
		}
		s := on(t, node)
		node.calls = 0
		var a change
		doneA, err := a.begin(s, "fetch", "A")
		if err == nil && doneA == nil {
			err = a.end(s, "A")
			won[0] = err == nil
		}
		if err != nil && !errors.Is(err, fault.Superseded) && !errors.Is(err, fault.Busy) {
			t.Fatalf("steps %d, %d: the first: %v", at, then, err)
		}
		steps = node.calls
		node.at = 0
		for step < 2 {
			second()
		}
		if won[0] == won[1] {
			t.Fatalf("steps %d, %d: the first has won: %v, the second: %v", at, then, won[0], won[1])
		}
		want := map[bool]string{true: "A", false: "B"}[won[0]]
		for _, s := range []*Store{s, other} {
			if got := whole(t, s, "fetch", "C"); got != want {
				t.Fatalf("steps %d, %d: the output is of %q, want %q", at, then, got, want)
			}
		}
		whole(t, s, "more", "C")
		checkNewest(t, s, "more")
		v, err := s.Settle()
		must.OK(t, err)
		_, err = s.Collect(v, nil)
		must.OK(t, err)
		checkNewest(t, s, "more")
		return steps, won
	}
	steps, _ := first(0, 0)
	if steps < 20 {
		t.Fatalf("%d steps", steps)
	}
	wins := map[[2]bool]int{}
	for at := 1; at <= steps; at++ {
		for then := at; then <= steps+1; then++ {
			_, won := first(at, then)
			wins[won]++
		}
	}
	if wins[[2]bool{true, false}] == 0 || wins[[2]bool{false, true}] == 0 {
		t.Errorf("who won: %v", wins)
	}
}

// TestLongSuspended: an attempt is suspended before any of its steps, and meanwhile others make its generation and more, and their manifests go.
// When it wakes it changes nothing that counts, and does not take itself for done, unless it had committed before.
func TestLongSuspended(t *testing.T) {
	lost, kept := 0, 0
	for at := 1; ; at++ {
		disk := shardStore(t)
		after := on(t, disk)
		node := &nodeFS{FS: disk, at: at}
		slept := false
		node.do = func() bool {
			slept = true
			for _, verb := range []string{"fetch", "b", "c", "d", "e"} {
				whole(t, after, verb, "B")
			}
			return false
		}
		s := on(t, node)
		node.calls = 0
		var a change
		done, err := a.begin(s, "fetch", "A")
		if err == nil && done == nil {
			err = a.end(s, "A")
		}
		if !slept {
			break
		}
		got := checkNewest(t, after, "fetch")
		switch {
		case err == nil && (done != nil) == (got == "A"):
			t.Fatalf("step %d: done before: %v, the output is of %q", at, done != nil, got)
		case err == nil && done == nil:
			kept++
		case err != nil && !errors.Is(err, fault.Superseded) && !errors.Is(err, fault.Busy):
			t.Fatalf("step %d: %v", at, err)
		case err != nil:
			lost++
		}
		m, err := after.Newest()
		must.OK(t, err)
		if m.Generation != 6 {
			t.Fatalf("step %d: generation %d counts, want 6", at, m.Generation)
		}
		whole(t, after, "f", "B")
		checkNewest(t, after, "e")
	}
	if lost < 10 || kept == 0 {
		t.Errorf("%d attempts lost, %d had committed", lost, kept)
	}
}

// TestSuccessor: an attempt dies at any step, alone or with the disk. The next one takes over, and nothing is
// changed of what the first had written until it has published.
func TestSuccessor(t *testing.T) {
	for at := 1; ; at++ {
		for crash := range 4 {
			loss := crashtest.Loss(crash) // of the disk; the last: it does not crash
			disk := shardStore(t)
			died := false
			node := &nodeFS{FS: disk, at: at, do: func() bool { died = true; return true }}
			s := on(t, node)
			node.calls = 0
			var a change
			done, err := a.begin(s, "fetch", "A")
			if err == nil && done == nil {
				err = a.end(s, "A")
			}
			if !died {
				must.OK(t, err)
				return
			}
			after := disk
			if crash < 3 {
				after = disk.AfterCrash(loss)
			}
			next := on(t, after)
			got := whole(t, next, "fetch", "B")
			if again := whole(t, next, "fetch", "C"); again != got || got != "A" && got != "B" {
				t.Fatalf("step %d, loss %d: the output is of %q, then of %q", at, loss, got, again)
			}
			whole(t, next, "more", "C")
			m, err := next.Current()
			must.OK(t, err)
			must.OK(t, next.walk(nil, func(rel string) error {
				if g := generationIn(rel); g > 0 && m.File(strings.TrimSuffix(rel, OpenSuffix)) == nil && !strings.HasPrefix(rel, manifestPrefix) {
					return fmt.Errorf("step %d, loss %d: %s is of no use", at, loss, rel)
				}
				return nil
			}))
		}
	}
}

// TestNothingIsTouched: until a successor publishes, each file that stood there when it began is as it was.
func TestNothingIsTouched(t *testing.T) {
	disk := shardStore(t)
	s := on(t, disk)
	whole(t, s, "next", "A")
	node := &nodeFS{FS: disk}
	var a, b change
	_, err := a.begin(on(t, node), "fetch", "A")
	must.OK(t, err)
	f, err := a.tx.Create("outputs/y-", ".txt", RoleOutput)
	must.OK(t, err)
	_, err = f.Write([]byte("A"))
	must.OK(t, err, f.Close())
	node.dead = true
	before := map[string]string{}
	look := func(each func(rel, data string)) {
		must.OK(t, s.walk(nil, func(rel string) error {
			data, err := durable.ReadFile(disk, s.Path(rel), 1<<20)
			each(rel, string(data))
			return err
		}))
	}
	look(func(rel, data string) { before[rel] = data })
	lastLook := 0
	watched := &nodeFS{FS: disk}
	watched.do = func() bool {
		if _, err := watched.Stat(s.ManifestPath(3)); err == nil {
			return false
		}
		lastLook++
		now := map[string]string{}
		look(func(rel, data string) { now[rel] = data })
		for rel, data := range before {
			if now[rel] != data && rel != LockFile {
				t.Errorf("%s was changed", rel)
			}
		}
		watched.at++
		return false
	}
	watched.at = 1
	s = on(t, watched)
	_, err = b.begin(s, "fetch", "B")
	must.OK(t, err)
	must.OK(t, b.end(s, "B"))
	if lastLook < 10 {
		t.Fatalf("%d looks", lastLook)
	}
	if m, err := s.Current(); err != nil || len(m.WithRole("warc")) != 3 {
		t.Errorf("%v, %+v", err, m.Files)
	}
}

// TestAttemptsTell: who takes over is named, who may be at work still is known, and who has given up is not waited for.
func TestAttemptsTell(t *testing.T) {
	disk := shardStore(t)
	s := on(t, &nodeFS{FS: disk})
	tx := func() *Tx {
		tx, _, err := s.Begin(ctx, "fetch", "r1")
		must.OK(t, err)
		return tx
	}
	a := tx()
	if list, _ := a.Before(); len(list) != 0 || a.Succeeds() || !a.Fenced() || a.Superseded() != nil {
		t.Errorf("the first: %v, %v", list, a.Superseded())
	}
	b := tx()
	if list, claimed := b.Before(); len(list) != 1 || list[0].Process != durable.Self() || claimed.IsZero() || !b.Succeeds() {
		t.Errorf("the second: %v", list)
	}
	if err := a.Superseded(); !errors.Is(err, fault.Superseded) || !strings.Contains(err.Error(), "attempt 0 at generation 2 was taken over by "+durable.Self().String()) || fault.HintOf(err) == "" {
		t.Error(err)
	}
	a.Abort()
	b.Abort()
	c := tx()
	if list, _ := c.Before(); len(list) != 0 {
		t.Errorf("the third waits for %v", list)
	}
	must.OK(t, disk.Remove(s.Path(c.attempt.file())))
	if err := c.Superseded(); !errors.Is(err, fault.Busy) {
		t.Error(err)
	}
	c.Abort()
	// One of another machine may live.
	far := Attempt{Generation: 2, Number: 7, Process: durable.Process{Host: "node9", Boot: "another", PID: 42}}
	data, err := Seal(magicAttempt, &far)
	must.OK(t, err, durable.WriteFile(disk, s.Path(far.file()), data))
	d := tx()
	if list, _ := d.Before(); d.attempt.Number != 8 || len(list) != 1 || list[0].String() != "process 42 on node9" {
		t.Errorf("attempt %d, before it %v", d.attempt.Number, list)
	}
	d.Abort()
	// A damaged one stops the next, and says what to do.
	must.OK(t, durable.WriteFile(disk, s.Path(far.file()), data[:len(data)-4]))
	if _, _, err := s.Begin(ctx, "fetch", "r1"); !errors.Is(err, fault.Truncated) || !strings.Contains(fault.HintOf(err), "remove the file") {
		t.Errorf("%v, hint %q", err, fault.HintOf(err))
	}
	if err := s.CheckJournal(2); !errors.Is(err, fault.Truncated) {
		t.Error(err)
	}
}

// TestNoAttempts: a store that is not of a shard pays nothing for this: none of the calls of a change is for such a file.
func TestNoAttempts(t *testing.T) {
	disk := crashtest.New()
	must.OK(t, durable.MkdirAll(disk, "/d"), WriteCurrent(disk, "/d", Current{}), Create("/d/fetch", "fetch", 1, nil, Options{FS: disk}))
	seen := &seenFS{FS: disk}
	s, err := Open("/d/fetch", "fetch", 1, Options{FS: seen})
	must.OK(t, err)
	seen.calls = nil
	var c change
	_, err = c.begin(s, "fetch", "A")
	must.OK(t, err)
	must.OK(t, c.end(s, "A"))
	if all := strings.Join(seen.calls, "\n"); len(seen.calls) != callsOfChange || strings.Contains(all, attemptPrefix) {
		t.Errorf("%d calls, want %d:\n%s", len(seen.calls), callsOfChange, all)
	}
	// The commit waits for the disk twice: for what durable.Parallel syncs, and for the link.
	var waits []string
	for _, call := range seen.calls {
		if kind, name, _ := strings.Cut(call, " "); strings.HasPrefix(kind, "sync") {
			waits = append(waits, kind+" "+cmp.Or(durable.TempOf(name), name))
		}
	}
	want := "sync x-000002-1.txt, syncdir outputs, sync MANIFEST-000002, sync HEAD, syncdir fetch"
	if have := strings.Join(waits, ", "); !strings.HasSuffix(have, want) {
		t.Errorf("it waits for %s; want %s in the end", have, want)
	}
}

// callsOfChange is how many calls the change of TestNoAttempts makes of its file system.
const callsOfChange = 38

// seenFS notes the calls.
type seenFS struct {
	durable.FS
	calls []string
}

func (f *seenFS) note(call, name string) { f.calls = append(f.calls, call+" "+path.Base(name)) }

func (f *seenFS) OpenFile(name string, flag int, perm fs.FileMode) (durable.File, error) {
	f.note("open", name)
	file, err := f.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return seenFile{file, f}, nil
}
func (f *seenFS) Link(a, b string) error   { f.note("link", b); return f.FS.Link(a, b) }
func (f *seenFS) Rename(a, b string) error { f.note("rename", b); return f.FS.Rename(a, b) }
func (f *seenFS) Remove(name string) error { f.note("remove", name); return f.FS.Remove(name) }
func (f *seenFS) ReadDir(name string) ([]fs.DirEntry, error) {
	f.note("list", name)
	return f.FS.ReadDir(name)
}
func (f *seenFS) Stat(name string) (fs.FileInfo, error) { f.note("stat", name); return f.FS.Stat(name) }
func (f *seenFS) SyncDir(name string) error             { f.note("syncdir", name); return f.FS.SyncDir(name) }
func (f *seenFS) Lock(name, owner string) (io.Closer, error) {
	f.note("lock", name)
	return f.FS.Lock(name, owner)
}

type seenFile struct {
	durable.File
	f *seenFS
}

func (f seenFile) Sync() error { f.f.note("sync", f.Name()); return f.File.Sync() }

// TestCurrentSwaps: of two that replace the CURRENT of a crawl of shards, one at any step of the other, none replaces what it does
// not know.
func TestCurrentSwaps(t *testing.T) {
	for at := 1; ; at++ {
		disk := shardStore(t)
		slept, both := false, false
		write := func(fsys durable.FS) error {
			c, err := ReadCurrent(fsys, "/d")
			must.OK(t, err)
			c.Last++
			c.Epoch++
			return WriteCurrent(fsys, "/d", c)
		}
		node := &nodeFS{FS: disk, at: at}
		node.do = func() bool {
			slept = true
			if err := write(disk); err != nil {
				t.Fatalf("step %d: the second: %v", at, err)
			}
			both = true
			return false
		}
		err := write(node)
		if !slept {
			break
		}
		c, errRead := ReadCurrent(disk, "/d")
		must.OK(t, errRead)
		made := c.Last // by how many it was replaced
		if err == nil && both && made != 2 || err != nil && (!errors.Is(err, fault.Busy) || made != 1) {
			t.Fatalf("step %d: %v, and CURRENT was replaced %d times", at, err, made)
		}
	}
}
