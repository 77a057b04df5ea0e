package crawl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/folder/exchange"
	"mercator/pkg/folder/shard"
)

// rowsOf are rows that a stage of a shard made.
type rowsOf[T record.Row] struct {
	rows   []T
	schema record.Schema
	stage  record.Stage
	sum    record.RowHasher[T]
}

func (l *rowsOf[T]) Read(row *T) error {
	if len(l.rows) == 0 {
		return io.EOF
	}
	*row, l.rows = l.rows[0], l.rows[1:]
	l.sum.Add(row)
	return nil
}

func (l *rowsOf[T]) Schema() *record.Schema { return &l.schema }

func (l *rowsOf[T]) Trailer() record.Trailer {
	n, hash := l.sum.Sum()
	s := l.stage
	s.Made, s.Out, s.OutHash = []record.Count{{Reason: "test", N: n}}, n, hash.String()
	return record.Trailer{Verified: true, Rows: n, Hash: hash, Txn: l.schema.Txn, Epoch: l.schema.Epoch, Ledger: record.Ledger{Stages: []record.Stage{s}}}
}

// exchanged sends rows among two shards, and returns what each received, with its ledger.
func exchanged[T record.Row](t *testing.T, fsys durable.FS, name, txn string, kind record.Kind, rows func(n int) []T) (got [2][]T, ledgers [2]record.Ledger) {
	t.Helper()
	m, err := shard.New(2)
	must.OK(t, err)
	id := exchange.ID{Exchange: name, Round: txn, Map: 1, Shards: 2, By: exchange.ByHost}
	dir := "/c/rounds/" + txn + "/" + name
	for n := range 2 {
		in := &rowsOf[T]{rows: rows(n), schema: record.Schema{Kind: kind, Txn: txn, Epoch: "0"}, stage: record.Stage{Name: "mextract", Store: shard.Name(n) + "/urls", Txn: txn}}
		_, err := exchange.Run(t.Context(), exchange.Split{FS: fsys, Dir: dir, ID: id, From: n, Map: m, Memory: 1 << 20}, in)
		must.OK(t, err)
	}
	for n := range 2 {
		in, err := exchange.Receive(fsys, dir, id, n)
		must.OK(t, err)
		g, err := exchange.Rows[T](in)
		must.OK(t, err)
		var row T
		for err = g.Read(&row); err == nil; err = g.Read(&row) {
			got[n] = append(got[n], row)
		}
		if err != io.EOF {
			t.Fatal(err)
		}
		ledgers[n] = g.Trailer().Ledger
		came := ledgers[n].Stages[0]
		ledgers[n].Stages = append(ledgers[n].Stages, record.Stage{Name: "mmerge gather " + name, Txn: txn, In: came.Out, InHash: came.OutHash, Passed: came.Out, Out: came.Out, OutHash: came.OutHash})
	}
	return got, ledgers
}

// exchangingRound runs a round in which two shards exchange links, and outcomes, which the frontier reads beside them.
func exchangingRound(t *testing.T, fsys durable.FS, txn string) {
	t.Helper()
	_, links := exchanged(t, fsys, "links", txn, record.KindLink, func(n int) []record.Link {
		return []record.Link{{Key: 1, URL: "http://a.test/", Host: "a.test"}, {Key: 1 << 63, URL: fmt.Sprintf("http://b.test/%d", n), Host: "b.test"}}
	})
	rows, outcomes := exchanged(t, fsys, "outcomes", txn, record.KindFetch, func(n int) []record.Fetch {
		return []record.Fetch{{Key: uint64(n) << 63, URL: "http://a.test/", Host: "a.test", Role: record.RolePage, Outcome: record.OutcomeFetched}}
	})
	for n := range 2 {
		under := shard.Name(n)
		var b bytes.Buffer
		w, err := record.NewWriter[record.Fetch](&b, record.WriterOptions{Txn: txn, Epoch: "0"})
		must.OK(t, err)
		for i := range rows[n] {
			must.OK(t, w.Write(&rows[n][i]))
		}
		_, err = w.Commit(outcomes[n])
		dir := "/c/" + under + "/rounds/" + txn
		must.OK(t, err, durable.MkdirAll(fsys, dir), durable.WriteFile(fsys, dir+"/outcomes.arrows.zst", b.Bytes()))

		in := links[n].Stages[0]
		ledger := record.Ledger{Stages: []record.Stage{in, links[n].Stages[1],
			{Name: "murlset new", Store: under + "/urls", Txn: txn, In: in.Out, InHash: in.OutHash, Passed: in.Out, Out: in.Out, OutHash: in.OutHash},
			{Name: "mfrontier update", Store: under + "/frontier", Txn: txn, In: in.Out, InHash: in.OutHash, Consumed: in.Out}}}
		for verb, name := range map[string]string{"new": "urls", "update": "frontier"} {
			s, err := store.Open("/c/"+under+"/"+name, name, 1, store.Options{FS: fsys})
			must.OK(t, err)
			l := ledger
			if verb == "new" {
				l.Stages = l.Stages[:3]
			}
			must.OK(t, changeWith(s, verb, txn, l))
		}
	}
}

// TestExchangesOfCheckpoint: a commit binds what the shards exchanged, and counts each stage once. It refuses a round in
// which something is missing, and verify notices what is missing later.
func TestExchangesOfCheckpoint(t *testing.T) {
	base := testShards(t)
	exchangingRound(t, base, "r1")
	part, manifest := "/c/rounds/r1/links/000.run", "/c/rounds/r1/links/001.json"
	outcomes := "/c/shard/001/rounds/r1/outcomes.arrows.zst"
	for _, file := range []string{part, manifest, outcomes} {
		fsys := clone(base)
		must.OK(t, fsys.Remove(file))
		want := file + ": missing"
		if file == outcomes {
			want = "/c/rounds/r1/outcomes: shard 1: 1 rows sent, and no ledger of a stage that received them"
		}
		if err := commit(fsys, "r1"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without %s: %v, want %s", file, err, want)
		}
	}
	fsys := clone(base)
	exchanged(t, fsys, "back", "r1", record.KindURL, func(n int) []record.URL { return []record.URL{{Key: uint64(n) << 63}} })
	if err := commit(fsys, "r1"); !errors.Is(err, fault.No) || !strings.Contains(err.Error(), "/c/rounds/r1/back: shard 0: 1 rows sent, and no ledger") {
		t.Errorf("nobody received: %v", err)
	}

	fsys = clone(base)
	parts := func(fsys *crashtest.FS) (n int) {
		t.Helper()
		for _, dir := range []string{"/c/rounds/r1/links", "/c/rounds/r1/outcomes"} {
			list, err := fsys.ReadDir(dir)
			must.OK(t, err)
			for _, e := range list {
				if strings.HasSuffix(e.Name(), ".run") {
					n++
				}
			}
		}
		return n
	}
	if n := parts(fsys); n != 4 {
		t.Fatalf("%d files of parts", n)
	}
	must.OK(t, commit(fsys, "r1"))
	if n := parts(fsys); n != 0 {
		t.Errorf("%d files of parts are left", n)
	}
	// What a kill has left goes with the same commit, or the next.
	for _, next := range []string{"r1", "r2"} {
		left := clone(fsys)
		must.OK(t, durable.WriteFile(left, part, []byte("left")))
		if next == "r2" {
			exchangingRound(t, left, next)
		}
		must.OK(t, commit(left, next))
		if n := parts(left); n != 0 {
			t.Errorf("%d files of parts are left by the commit of %s", n, next)
		}
	}
	c, err := Open("/c", Options{FS: fsys})
	must.OK(t, err)
	k, err := c.Current()
	must.OK(t, err)
	if len(k.Exchanges) != 2 || k.Exchanges[0].Name != "links" || k.Exchanges[1].Name != "outcomes" || len(k.Exchanges[0].Manifests) != 2 {
		t.Errorf("%+v", k.Exchanges)
	}
	totals := map[string]uint64{}
	for _, s := range k.Totals.Stages {
		totals[s.Name] = max(s.In, s.Out)
	}
	if totals["mextract"] != 6 || totals["exchange links"] != 4 || totals["murlset new"] != 4 || totals["mmerge split"] != 6 || totals["mfrontier update"] != 4 {
		t.Errorf("%v", totals)
	}
	verify := func(fsys *crashtest.FS) []string {
		t.Helper()
		c, err := Open("/c", Options{FS: fsys})
		must.OK(t, err)
		v, err := c.Verify(ctx)
		must.OK(t, err)
		return v.Problems
	}
	if p := verify(fsys); len(p) > 0 {
		t.Errorf("%q", p)
	}
	read := func(file string) []byte {
		data, err := durable.ReadFile(fsys, file, 1<<20)
		must.OK(t, err)
		return data
	}
	flipped := func(file string) []byte {
		data := read(file)
		data[len(data)/2] ^= 4
		return data
	}
	for _, c := range []struct {
		file string
		data []byte // nil: none
		says string
	}{
		{manifest, nil, "missing"},
		{manifest, read(manifest)[:100], "line 1"},
		{manifest, flipped(manifest), "checksum"},
		{manifest, read("/c/rounds/r1/links/000.json"), `body: sender "0", want "1"`},
	} {
		t.Run(c.says, func(t *testing.T) {
			damaged := clone(fsys)
			must.OK(t, damaged.Remove(c.file))
			if c.data != nil {
				must.OK(t, durable.WriteFile(damaged, c.file, c.data))
			}
			if p := verify(damaged); !slices.ContainsFunc(p, func(p string) bool { return strings.HasPrefix(p, c.file+": ") && strings.Contains(p, c.says) }) {
				t.Errorf("%s, %d bytes: %q, want %q", c.file, len(c.data), p, c.says)
			}
		})
	}
	// Other rows, sent again as it should be: the checkpoint alone knows.
	other := clone(fsys)
	must.OK(t, removeAll(other, "/c/rounds/r1/links"))
	exchanged(t, other, "links", "r1", record.KindLink, func(n int) []record.Link { return []record.Link{{Key: 1}, {Key: 1 << 63}} })
	if p := verify(other); len(p) < 2 || !strings.HasPrefix(p[0], "/c/rounds/r1/links/000.json: checksum") {
		t.Errorf("%q", p)
	}
	// What the shards exchanged may be deleted when the round is closed.
	gone := clone(fsys)
	must.OK(t, removeAll(gone, "/c/rounds/r1"))
	if p := verify(gone); len(p) > 0 {
		t.Errorf("%q", p)
	}
	crashEverywhere(t, base, "a checkpoint", func(fsys durable.FS) error { return commit(fsys, "r1") }, "r2")
}

// TestManifestsOfOtherStores: every store that a manifest names has committed the round.
func TestManifestsOfOtherStores(t *testing.T) {
	fsys := testShards(t)
	must.OK(t, store.Create("/c/shard/001/dns", "dns", 1, nil, store.Options{FS: fsys}), store.Create("/c/shard/000/dns", "dns", 1, nil, store.Options{FS: fsys}))
	exchangingRound(t, fsys, "r1")
	m, err := shard.New(2)
	must.OK(t, err)
	for n := range 2 {
		in := &rowsOf[record.URL]{schema: record.Schema{Kind: record.KindURL, Txn: "r1", Epoch: "0"}, stage: record.Stage{Name: "mresolve", Store: shard.Name(n) + "/dns", Txn: "r1"}}
		in.rows = []record.URL{{Key: uint64(n) << 63}}
		_, err := exchange.Run(t.Context(), exchange.Split{FS: fsys, Dir: "/c/rounds/r1/links2", ID: exchange.ID{Exchange: "links2", Round: "r1", Map: 1, Shards: 2, By: exchange.ByHost}, From: n, Map: m, Memory: 1 << 20}, in)
		must.OK(t, err)
	}
	// It was received, as a file in the shard says.
	for n := range 2 {
		in, err := exchange.Receive(fsys, "/c/rounds/r1/links2", exchange.ID{Exchange: "links2", Round: "r1", Map: 1, Shards: 2, By: exchange.ByHost}, n)
		must.OK(t, err)
		g, err := exchange.Rows[record.URL](in)
		must.OK(t, err)
		var row record.URL
		for err = g.Read(&row); err == nil; err = g.Read(&row) {
		}
		var b bytes.Buffer
		w, err := record.NewWriter[record.Fetch](&b, record.WriterOptions{Txn: "r1", Epoch: "0"})
		must.OK(t, err)
		_, err = w.Commit(g.Trailer().Ledger)
		must.OK(t, err, durable.WriteFile(fsys, "/c/"+shard.Name(n)+"/rounds/r1/fetched.arrows.zst", b.Bytes()))
	}
	if err := commit(fsys, "r1"); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), `/c/shard/000/dns: round "r1" is not committed here`) {
		t.Error(err)
	}
	must.OK(t, change(fsys, "/c/shard/000/dns", "resolve", "r1"), change(fsys, "/c/shard/001/dns", "resolve", "r1"), commit(fsys, "r1"))
}
