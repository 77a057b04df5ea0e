package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/crawl"
)

// trailer is the end of a round's input, which depends on its name.
func trailer(txn string) record.Trailer {
	var sum record.RowHasher[record.Fetch]
	sum.Add(&record.Fetch{URL: txn})
	rows, hash := sum.Sum()
	return record.Trailer{Verified: true, Rows: rows, Hash: hash, Ledger: record.Ledger{Stages: []record.Stage{
		{Name: "mfetch", Txn: txn, Made: []record.Count{{Reason: "page", N: rows}}, Out: rows, OutHash: hash.String()}}}}
}

// change makes one round's change: each round finds its own name and "all" once.
func change(dir string, m Stateful, txn string, opt store.Options) error {
	ctx := context.Background()
	c, err := OpenChange(ctx, dir, m, txn, opt)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	for _, key := range []string{txn, "all"} {
		if err := c.Add(ctx, 1, Finding{Key: key, Value: "2"}); err != nil {
			return err
		}
	}
	if err := c.Commit(ctx, "test module", trailer(txn)); err != nil {
		return err
	}
	return c.Failed()
}

func stateOf(t *testing.T, dir string, opt store.Options) string {
	t.Helper()
	var b bytes.Buffer
	_, err := CopyState(&b, dir, opt)
	must.OK(t, err)
	return b.String()
}

// oracle is the state of tags after the rounds.
func oracle(rounds ...string) string {
	if len(rounds) == 0 {
		return ""
	}
	lines := []string{fmt.Sprintf("all\t%d\t%d\n", len(rounds), 2*len(rounds))}
	for _, r := range rounds {
		lines = append(lines, r+"\t1\t2\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// newCrawl makes a crawl folder /c of a frontier and a module.
func newCrawl(t *testing.T, fsys durable.FS) *crawl.Crawl {
	t.Helper()
	opt := store.Options{FS: fsys}
	c, err := crawl.Init("/c", []byte("# none\n"), nil, func(string) error {
		return errors.Join(store.Create("/c/frontier", "frontier", 1, nil, opt), CreateStore("/c/modules/tags", opt))
	}, crawl.Options{FS: fsys})
	must.OK(t, err)
	return c
}

// frontier commits the round's update with a ledger that names the module's store.
func frontier(fsys durable.FS, txn string) error {
	s, err := store.Open("/c/frontier", "frontier", 1, store.Options{FS: fsys})
	if err != nil {
		return err
	}
	tx, done, err := s.Begin(context.Background(), "update", txn)
	if err != nil || done != nil {
		return err
	}
	defer tx.Abort()
	in := trailer(txn)
	ledger := in.Ledger
	ledger.Stages = append(ledger.Stages,
		record.Stage{Name: "mextract", Stores: []string{"modules/tags"}, Txn: txn, In: in.Rows, InHash: in.Hash.String(), Consumed: in.Rows},
		record.Stage{Name: "mfrontier update", Store: "frontier", Txn: txn})
	_, err = tx.Commit(0, "", ledger)
	return err
}

func commit(c *crawl.Crawl, txn string) error {
	_, _, err := c.Commit(context.Background(), txn, time.Unix(1, 0), 0)
	return err
}

// A module's store goes with the crawl: into checkpoints, and back with them.
func TestStateInCrawl(t *testing.T) {
	fsys := crashtest.New()
	c := newCrawl(t, fsys)
	opt := store.Options{FS: fsys}
	const dir = "/c/modules/tags"
	state := func(want ...string) {
		t.Helper()
		if got := stateOf(t, dir, opt); got != oracle(want...) {
			t.Fatalf("state %q, want that of %v", got, want)
		}
	}
	round := func(txn string) {
		t.Helper()
		must.OK(t, change(dir, tagsModule{}, txn, opt), frontier(fsys, txn), commit(c, txn))
	}
	round("r1")
	must.OK(t, change(dir, tagsModule{}, "r1", opt)) // the same pipe again, after the commit
	state("r1")

	// commit asks for the module's store
	must.OK(t, frontier(fsys, "r2"))
	if err := commit(c, "r2"); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("committed without the module: %v", err)
	}
	must.OK(t, change(dir, tagsModule{}, "r2", opt), change(dir, tagsModule{}, "r2", opt), commit(c, "r2"))
	state("r1", "r2")

	// given up, and done again
	must.OK(t, change(dir, tagsModule{}, "r3", opt))
	state("r1", "r2", "r3")
	_, err := c.Abandon(context.Background())
	must.OK(t, err)
	state("r1", "r2")
	round("r3")
	must.OK(t, c.Restore(context.Background(), 1))
	state("r1")
	round("r4")
	state("r1", "r4")
	v, err := c.Verify(context.Background())
	if err != nil || len(v.Problems) > 0 {
		t.Errorf("verify: %v, %v", v.Problems, err)
	}
	_, _, err = c.GC(context.Background(), 1)
	must.OK(t, err)
	state("r1", "r4")
	if v, err = c.Verify(context.Background()); err != nil || len(v.Problems) > 0 {
		t.Errorf("verify after gc: %v, %v", v.Problems, err)
	}

	// another process was faster
	a, err := OpenChange(context.Background(), dir, tagsModule{}, "r5", opt)
	must.OK(t, err, change(dir, tagsModule{}, "r5", opt), a.Commit(context.Background(), "test module", trailer("r5")))
	b, err := OpenChange(context.Background(), dir, tagsModule{}, "r5", opt)
	if err != nil || !b.Done() {
		t.Fatalf("done %v, %v", b.Done(), err)
	}
	if err := b.Commit(context.Background(), "test module", trailer("other")); !errors.Is(err, fault.Conflict) {
		t.Errorf("other rows: %v", err)
	}

	// rows of an epoch that is undone
	must.OK(t, c.Restore(context.Background(), 4))
	late, err := OpenChange(context.Background(), dir, tagsModule{}, "r5", opt)
	must.OK(t, err)
	in := trailer("r5")
	in.Epoch = "1"
	if err := late.Commit(context.Background(), "test module", in); !errors.Is(err, fault.Conflict) {
		t.Errorf("rows of an undone epoch: %v", err)
	}
}

// A store that its module's ledger contradicts is found by verify.
func TestVerifyComparesInput(t *testing.T) {
	fsys := crashtest.New()
	c := newCrawl(t, fsys)
	opt := store.Options{FS: fsys}
	ch, err := OpenChange(context.Background(), "/c/modules/tags", tagsModule{}, "r1", opt)
	must.OK(t, err, ch.Commit(context.Background(), "test module", trailer("other")), frontier(fsys, "r1"), commit(c, "r1"))
	v, err := c.Verify(context.Background())
	if err != nil || len(v.Problems) != 1 || !strings.Contains(v.Problems[0], "/c/modules/tags") {
		t.Errorf("problems %q, %v", v.Problems, err)
	}
}

// The machine stops at every call of the file system, in a round of a built-in
// module and of a program: what is found is the old state or the new one, and the
// same round again, or another after it was given up, gives what an oracle says.
func TestCrashAtEveryCall(t *testing.T) {
	appends := &Exec{ModuleName: "tags", Command: `test "$MERCATOR_EVENT" != commit || cut -f 2 >> "$MERCATOR_MODULE_DIR/all"`}
	list := func(rounds ...string) (s string) {
		for _, r := range rounds {
			s += r + "\nall\n"
		}
		return s
	}
	for name, kind := range map[string]struct {
		m    Stateful
		want func(rounds ...string) string
		read func(state string) string
		step int
	}{
		"totals": {tagsModule{}, oracle, func(s string) string { return s }, 1},
		"program": {appends, list, func(s string) string {
			dir := t.TempDir()
			must.OK(t, unpack(dir, strings.NewReader(s), MaxStateFiles))
			return readFile(t, dir+"/all")
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			const dir = "/c/modules/tags"
			base := crashtest.New()
			c := newCrawl(t, base)
			opt := store.Options{FS: base}
			must.OK(t, change(dir, kind.m, "r1", opt), frontier(base, "r1"), commit(c, "r1"))
			whole := base.AfterCrash(crashtest.KeepAll)
			whole.CrashAt(0)
			must.OK(t, change(dir, kind.m, "r2", store.Options{FS: whole}))
			calls := whole.Calls()
			for n := 1; n <= calls; n += kind.step {
				trial := base.AfterCrash(crashtest.KeepAll)
				trial.CrashAt(n)
				crashed := change(dir, kind.m, "r2", store.Options{FS: trial})
				for _, loss := range []crashtest.Loss{crashtest.LoseAll, crashtest.KeepAll, crashtest.Loss(1000 + n)} {
					fsys := trial.AfterCrash(loss)
					opt := store.Options{FS: fsys}
					switch got := kind.read(stateOf(t, dir, opt)); {
					case got == kind.want("r1", "r2"):
					case got != kind.want("r1"):
						t.Fatalf("call %d of %d: neither the old state nor the new one: %q", n, calls, got)
					case crashed == nil:
						t.Fatalf("call %d of %d: reported done, and lost", n, calls)
					}
					given := fsys.AfterCrash(crashtest.KeepAll)
					must.OK(t, change(dir, kind.m, "r2", opt), frontier(fsys, "r2"))
					c, err := crawl.Open("/c", crawl.Options{FS: opt.FS})
					must.OK(t, err, commit(c, "r2"))
					if got := kind.read(stateOf(t, dir, opt)); got != kind.want("r1", "r2") {
						t.Fatalf("call %d of %d, again: %q", n, calls, got)
					}
					opt = store.Options{FS: given}
					c, err = crawl.Open("/c", crawl.Options{FS: opt.FS})
					must.OK(t, err)
					_, err = c.Abandon(context.Background())
					must.OK(t, err)
					must.OK(t, change(dir, kind.m, "r3", opt))
					if got := kind.read(stateOf(t, dir, opt)); got != kind.want("r1", "r3") {
						t.Fatalf("call %d of %d, given up: %q", n, calls, got)
					}
				}
			}
			t.Logf("%d calls", calls)
		})
	}
}

func TestStateRefused(t *testing.T) {
	opt := store.Options{FS: crashtest.New()}
	must.OK(t, CreateStore("/tags", opt), CreateStore("/tags", opt))
	if err := CreateStore("/Tags", opt); !errors.Is(err, fault.Usage) {
		t.Error(err)
	}
}

// An end from outside is no failure of the module.
func TestInterruptedCommit(t *testing.T) {
	opt := store.Options{FS: crashtest.New()}
	must.OK(t, CreateStore("/tags", opt))
	ctx, cancel := context.WithCancel(context.Background())
	e := &Exec{ModuleName: "tags", Command: `test "$MERCATOR_EVENT" = begin || exec sleep 60`, Limits: ExecLimits{Timeout: time.Second}}
	c, err := OpenChange(ctx, "/tags", e, "r1", opt)
	must.OK(t, err)
	time.AfterFunc(100*time.Millisecond, cancel)
	if err := c.Commit(ctx, "test module", trailer("r1")); !errors.Is(err, context.Canceled) || c.Failed() != nil {
		t.Errorf("%v, failed %v", err, c.Failed())
	}
	if got := stateOf(t, "/tags", opt); got != "" {
		t.Errorf("state %q", got)
	}
}

// What a program leaves comes back as it was.
func TestPack(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	e := &Exec{Command: `cd "$1" && mkdir -p d/e && printf x > d/f && printf '#!/bin/sh' > run && chmod +x run && touch empty`}
	e.Command = strings.ReplaceAll(e.Command, "$1", from)
	_, err := e.run(context.Background(), time.Minute, strings.NewReader(""), nil)
	must.OK(t, err)
	var one, two bytes.Buffer
	must.OK(t, pack(&one, from), unpack(to, bytes.NewReader(one.Bytes()), MaxStateFiles), pack(&two, to))
	if !bytes.Equal(one.Bytes(), two.Bytes()) || one.Len() == 0 {
		t.Error("the copy's archive differs")
	}
	if readFile(t, to+"/d/f") != "x" {
		t.Error("d/f")
	}
	if err := unpack(t.TempDir(), bytes.NewReader(one.Bytes()[:700]), MaxStateFiles); err == nil {
		t.Error("an archive that is cut short passes")
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	must.OK(t, err)
	return string(b)
}

// TestStateOfShard: in a shard of a crawl the module is the folder's, too, and the ledger names it.
func TestStateOfShard(t *testing.T) {
	dir := t.TempDir()
	_, err := crawl.Init(dir, nil, nil, func(dir string) error { return CreateStore(dir+"/modules/tags", store.Options{}) }, crawl.Options{Shards: 2})
	must.OK(t, err)
	in := dir + "/shard/001/modules/tags"
	must.OK(t, change(in, tagsModule{}, "r1", store.Options{}))
	s, err := store.Open(in, Kind, Version, store.Options{})
	must.OK(t, err)
	m, err := s.Current()
	must.OK(t, err)
	if stages := m.Done[0].Ledger.Stages; stages[len(stages)-1].Name != "test module tags" {
		t.Errorf("%+v", stages)
	}
}
