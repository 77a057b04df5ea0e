package exchange

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/folder/shard"
)

const dir = "/c/rounds/r12/x"

func newMap(t testing.TB, shards int) *shard.Map {
	m, err := shard.New(shards)
	must.OK(t, err)
	return m
}

// list is rows as an input. Its ledger balances.
type list[T record.Row] struct {
	rows   []T
	schema record.Schema
	sum    record.RowHasher[T]
}

func (l *list[T]) Read(row *T) error {
	if len(l.rows) == 0 {
		return io.EOF
	}
	*row, l.rows = l.rows[0], l.rows[1:]
	l.sum.Add(row)
	return nil
}
func (l *list[T]) Schema() *record.Schema { return &l.schema }
func (l *list[T]) Trailer() record.Trailer {
	rows, hash := l.sum.Sum()
	s := record.Stage{Name: "test", Txn: "r12", Out: rows, OutHash: hash.String()}
	if rows > 0 {
		s.Made = []record.Count{{Reason: "test", N: rows}}
	}
	return record.Trailer{Verified: true, Rows: rows, Hash: hash, Txn: l.schema.Txn, Epoch: l.schema.Epoch, Ledger: record.Ledger{Stages: []record.Stage{s}}}
}

func input[T record.Row](kind record.Kind, rows []T) *list[T] {
	return &list[T]{rows: rows, schema: record.Schema{Kind: kind, Txn: "r12", Epoch: "2", Now: 7}}
}

func idOf(shards int, by string) ID {
	return ID{Exchange: "x", Round: "r12", Epoch: 2, Map: 1, Shards: shards, By: by}
}

func split(fsys durable.FS, m *shard.Map, by string, from int) Split {
	return Split{FS: fsys, Dir: dir, ID: idOf(m.Shards, by), From: from, Map: m, Memory: 1 << 20}
}

// gather reads all rows for a receiver.
func gather[T record.Row](fsys durable.FS, id ID, to int) (rows []T, t record.Trailer, err error) {
	in, err := Receive(fsys, dir, id, to)
	if err != nil {
		return nil, t, err
	}
	g, err := Rows[T](in)
	if err != nil {
		return nil, t, err
	}
	for {
		var row T
		if err = g.Read(&row); err == io.EOF {
			return rows, g.Trailer(), nil
		} else if err != nil {
			return nil, t, err
		}
		rows = append(rows, row)
	}
}

func someLinks(rnd *rand.Rand, n int) []record.Link {
	rows := make([]record.Link, n)
	for i := range rows {
		rows[i] = record.Link{SrcURL: fmt.Sprintf("http://s.test/%d", i), Key: rnd.Uint64(), URL: fmt.Sprintf("http://h.test/%x", rnd.Uint64()), Host: "h.test", Text: strings.Repeat("t", rnd.IntN(40))}
	}
	return rows
}

func someFetches(rnd *rand.Rand, n int) []record.Fetch {
	rows := make([]record.Fetch, n)
	for i := range rows {
		rows[i] = record.Fetch{Key: rnd.Uint64(), URL: fmt.Sprintf("http://h.test/%x", i), Host: "h.test", Role: record.RolePage, Outcome: record.OutcomeFetched,
			Addr: []string{"", "192.0.2.7", "192.0.2.8"}[i%3], ContentFP: []uint64{0, rnd.Uint64(), 9}[rnd.IntN(3)],
			WARCFilename: []string{"", "crawl-s001-000002-1.warc.gz", "crawl-s999-000002-1.warc.gz", "docs-20261130-s001-000002-1.warc.gz", "crawl-000002-1.warc.gz"}[rnd.IntN(5)]}
	}
	return rows
}

// trial sends rows of 1 to 9 shards, and compares what comes with a plain sort by owner.
func trial[T record.Row](t *testing.T, kind record.Kind, by string, some func(rnd *rand.Rand, n int) []T, want func(m *shard.Map, from int, row *T) int) {
	for shards := 1; shards <= 9; shards++ {
		rnd := rand.New(rand.NewPCG(uint64(shards), 1))
		m := newMap(t, shards)
		sent := make([][]T, shards)
		most := 500
		if shards == 2 {
			most = 9000
		}
		var before []byte
		for _, memory := range []int64{1 << 20, 64 << 20} { // in several runs, and in one
			fsys := crashtest.New()
			for from := range shards {
				if len(sent[from]) == 0 && from%4 != 3 { // one in four sends nothing
					sent[from] = some(rnd, 1+rnd.IntN(most))
				}
				s := split(fsys, m, by, from)
				s.Memory = memory
				_, err := Run(t.Context(), s, input(kind, slices.Clone(sent[from])))
				must.OK(t, err)
				again, err := Run(t.Context(), s, input(kind, slices.Clone(sent[from])))
				must.OK(t, err)
				if b, err := ReadManifest(fsys, dir, s.ID, from); err != nil || !reflect.DeepEqual(b, again) {
					t.Fatalf("%v: a repeated split has another manifest", err)
				}
			}
			for to := range shards {
				var expect []T
				for from, rows := range sent {
					for i := range rows {
						if row := rows[i]; want(m, from, &row) == to {
							expect = append(expect, row)
						}
					}
				}
				got, end, err := gather[T](fsys, idOf(shards, by), to)
				must.OK(t, err)
				must.OK(t, end.Ledger.Balance())
				if len(got) != len(expect) || formsOf(got) != formsOf(expect) {
					t.Fatalf("%s by %s, %d shards: shard %d got %d rows, want %d, or others", kind, by, shards, to, len(got), len(expect))
				}
				if end.Rows != uint64(len(expect)) || end.Txn != "r12" || end.Epoch != "2" || len(end.Ledger.Stages) != 1 {
					t.Fatalf("trailer %+v", end)
				}
			}
			files := allFiles(t, fsys, shards)
			if before != nil && !bytes.Equal(before, files) {
				t.Fatalf("%s by %s, %d shards: other bytes with other memory", kind, by, shards)
			}
			before = files
		}
	}
}

func formsOf[T record.Row](rows []T) string {
	var b []byte
	for i := range rows {
		b = record.AppendRow(b, &rows[i])
	}
	return string(b)
}

func read(t testing.TB, fsys durable.FS, path string) []byte {
	b, err := durable.ReadFile(fsys, path, 64<<20)
	must.OK(t, err)
	return b
}

func allFiles(t testing.TB, fsys durable.FS, shards int) (all []byte) {
	for from := range shards {
		all = append(all, read(t, fsys, PartsPath(dir, from))...)
		all = append(all, read(t, fsys, ManifestPath(dir, from))...)
	}
	return all
}

// Every row that was sent comes to its owner, once, in order; the same bytes whatever the memory; a repeated split changes nothing.
func TestExchange(t *testing.T) {
	trial(t, record.KindLink, ByHost, someLinks, func(m *shard.Map, _ int, r *record.Link) int { return m.Of(r.Key) })
	trial(t, record.KindFetch, ByHost, someFetches, func(m *shard.Map, _ int, r *record.Fetch) int { return m.Of(r.Key) })
	trial(t, record.KindFetch, ByDocument, someFetches, func(m *shard.Map, from int, r *record.Fetch) int {
		if r.ContentFP == 0 {
			return from
		}
		return m.Of(r.ContentFP)
	})
	trial(t, record.KindFetch, ByAddress, someFetches, func(m *shard.Map, _ int, r *record.Fetch) int {
		if strings.Contains(r.WARCFilename, "-s001-") && m.Shards > 1 {
			return 1
		}
		if r.Addr == "" {
			return m.Of(r.Key)
		}
		return m.OfAddress(r.Addr)
	})
}

// All url rows of a host go to the owner of one of its addresses, with that and the owner's other addresses only, whatever
// was attempted before. Each address is the one of some hosts.
func TestAddresses(t *testing.T) {
	m := newMap(t, 4)
	addrs := []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5", "2001:db8::1"}
	rows := []record.URL{{Key: 1 << 63, URL: "http://b.test/", Host: "b.test", AddrError: "nxdomain"}}
	for i := range 120 {
		host := fmt.Sprintf("a%d.test", i/3)
		rows = append(rows, record.URL{Key: 1 << 63, URL: fmt.Sprintf("http://%s/%d", host, i), Host: host, Addr: strings.Join(addrs, ","), Attempt: uint8(i % 3)})
	}
	fsys := crashtest.New()
	for from := range 4 {
		in := input(record.KindURL, rows[:0])
		if from == 1 {
			in = input(record.KindURL, rows)
		}
		_, err := Run(t.Context(), split(fsys, m, ByAddress, from), in)
		must.OK(t, err)
	}
	chosen, hosts, several := map[string]bool{}, map[string]string{}, false
	for to := range 4 {
		got, _, err := gather[record.URL](fsys, idOf(4, ByAddress), to)
		must.OK(t, err)
		for _, r := range got {
			if r.Host == "b.test" {
				if to != m.Of(1<<63) {
					t.Errorf("a row without address went to shard %d", to)
				}
				continue
			}
			first, _, _ := strings.Cut(r.Addr, ",")
			want := []string{first}
			for _, a := range addrs {
				if a != first && m.OfAddress(a) == m.OfAddress(first) {
					want = append(want, a)
				}
			}
			chosen[first], several = true, several || len(want) > 1
			if to != m.OfAddress(first) || r.Addr != strings.Join(want, ",") {
				t.Errorf("%s: shard %d got %s, want %s", r.URL, to, r.Addr, want)
			}
			if before := hosts[r.Host]; before != "" && before != r.Addr {
				t.Errorf("%s: %s, and another row of the host %s", r.URL, r.Addr, before)
			}
			hosts[r.Host] = r.Addr
		}
	}
	if len(hosts) != 40 || len(chosen) != len(addrs) || !several {
		t.Errorf("%d hosts, %d addresses chosen, an owner of two: %v", len(hosts), len(chosen), several)
	}
}

// Refused addresses are chosen only where a host has no other.
func TestRefusedAddresses(t *testing.T) {
	m := newMap(t, 4)
	s := split(crashtest.New(), m, ByAddress, 0)
	s.Refused = netip.Addr.IsLoopback
	for _, c := range []struct{ addr, from string }{
		{"127.0.0.1,192.0.2.1,127.0.0.2,192.0.2.2", "192.0.2.1,192.0.2.2"},
		{"127.0.0.1,127.0.0.2", "127.0.0.1,127.0.0.2"},
		{"not an address,127.0.0.2", "not an address"},
	} {
		t.Run(c.addr, func(t *testing.T) {
			for i := range 20 {
				row := record.URL{Host: fmt.Sprintf("h%d.test", i), Addr: c.addr}
				to := s.choose(&row)
				for addr := range strings.SplitSeq(row.Addr, ",") {
					if !slices.Contains(strings.Split(c.from, ","), addr) || m.OfAddress(addr) != to {
						t.Errorf("of %s shard %d got %s", c.addr, to, row.Addr)
					}
				}
			}
		})
	}
}

// links is an exchange of links among three shards.
func links(t testing.TB, fsys durable.FS) (*shard.Map, ID) {
	m := newMap(t, 3)
	for from := range 3 {
		_, err := Run(t.Context(), split(fsys, m, ByHost, from), input(record.KindLink, someLinks(rand.New(rand.NewPCG(5, uint64(from))), 20)))
		must.OK(t, err)
	}
	return m, idOf(3, ByHost)
}

func put(t testing.TB, fsys durable.FS, path string, data []byte) {
	must.OK(t, durable.WriteFile(fsys, path, data))
}

// What is missing, cut, or of something else ends a gather with exit code 3, which names it.
func TestBadParts(t *testing.T) {
	for _, c := range []struct {
		name, says string
		spoil      func(fsys *crashtest.FS, m *shard.Map)
	}{
		{"no part", "001.run: missing", func(fsys *crashtest.FS, _ *shard.Map) { must.OK(t, fsys.Remove(PartsPath(dir, 1))) }},
		{"no manifest", "001.json: missing", func(fsys *crashtest.FS, _ *shard.Map) { must.OK(t, fsys.Remove(ManifestPath(dir, 1))) }},
		{"manifest of another round", `000.json: body: round "r11", want "r12"`, func(fsys *crashtest.FS, m *shard.Map) {
			s := split(fsys, m, ByHost, 0)
			s.ID.Round = "r11"
			in := input(record.KindLink, []record.Link{})
			in.schema.Txn = "r11"
			_, err := Run(t.Context(), s, in)
			must.OK(t, err)
		}},
		{"manifest of another epoch", `000.json: body: epoch "3", want "2"`, func(fsys *crashtest.FS, m *shard.Map) {
			s := split(fsys, m, ByHost, 0)
			s.ID.Epoch = 3
			in := input(record.KindLink, []record.Link{})
			in.schema.Epoch = "3"
			_, err := Run(t.Context(), s, in)
			must.OK(t, err)
		}},
		{"manifest of another map", `000.json: body: bucket map "2", want "1"`, func(fsys *crashtest.FS, m *shard.Map) {
			s := split(fsys, m, ByHost, 0)
			s.ID.Map = 2
			must.OK(t, fsys.Remove(ManifestPath(dir, 0)))
			_, err := Run(t.Context(), s, input(record.KindLink, []record.Link{}))
			must.OK(t, err)
		}},
		{"parts of other rows", "001.run: part 2: ", func(fsys *crashtest.FS, m *shard.Map) {
			other := crashtest.New()
			for seed := uint64(6); ; seed++ { // of the same length
				_, err := Run(t.Context(), split(other, m, ByHost, 1), input(record.KindLink, someLinks(rand.New(rand.NewPCG(seed, 1)), 20)))
				must.OK(t, err)
				parts := read(t, other, PartsPath(dir, 1))
				if len(parts) == len(read(t, fsys, PartsPath(dir, 1))) {
					put(t, fsys, PartsPath(dir, 1), parts)
					return
				}
				must.OK(t, other.Remove(ManifestPath(dir, 1)))
			}
		}},
		{"manifest twice", `001.json: body: sender "0", want "1"`, func(fsys *crashtest.FS, _ *shard.Map) {
			put(t, fsys, ManifestPath(dir, 1), read(t, fsys, ManifestPath(dir, 0)))
		}},
		{"manifest that differs", "001.run: part 2: ", func(fsys *crashtest.FS, m *shard.Map) {
			b, err := ReadManifest(fsys, dir, idOf(3, ByHost), 1)
			must.OK(t, err)
			b.Parts[2].Hash = strings.Repeat("0", 32)
			data, err := store.Seal(magic, b)
			must.OK(t, err)
			put(t, fsys, ManifestPath(dir, 1), data)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := crashtest.New()
			m, id := links(t, fsys)
			c.spoil(fsys, m)
			_, _, err := gather[record.Link](fsys, id, 2)
			if fault.ClassOf(err).ExitCode() != 3 || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want exit code 3 and %q", c.name, err, c.says)
			}
			if hint := fault.HintOf(err); strings.Contains(c.says, ".run") && !strings.Contains(hint, "mcrawl stages /c") {
				t.Errorf("%s: hint %q", c.name, hint)
			}
		})
	}
	fsys := crashtest.New()
	_, id := links(t, fsys)
	parts, path := read(t, fsys, PartsPath(dir, 1)), PartsPath(dir, 1)
	want, _, err := gather[record.Link](fsys, id, 2)
	must.OK(t, err)
	refused := 0
	for i := range parts { // damage that leaves the length
		flipped := bytes.Clone(parts)
		flipped[i] ^= 16
		put(t, fsys, path, flipped)
		got, _, err := gather[record.Link](fsys, id, 2)
		if err == nil && formsOf(got) == formsOf(want) {
			continue // it is in the part of another shard, or in the index
		}
		if refused++; err == nil || !strings.HasPrefix(fault.HintOf(err), "remove it: rm "+path+"; then ") {
			t.Fatalf("byte %d: %v, hint %q", i, err, fault.HintOf(err))
		}
	}
	if refused < len(parts)/2 {
		t.Errorf("damage at %d of %d bytes was refused", refused, len(parts))
	}
}

// A part or manifest that was cut at any byte is never taken for whole.
func TestCuts(t *testing.T) {
	fsys := crashtest.New()
	_, id := links(t, fsys)
	for _, path := range []string{PartsPath(dir, 1), ManifestPath(dir, 1)} {
		whole := read(t, fsys, path)
		for n := range whole {
			put(t, fsys, path, whole[:n])
			if _, _, err := gather[record.Link](fsys, id, 2); fault.ClassOf(err).ExitCode() != 3 || !strings.Contains(err.Error(), path) {
				t.Fatalf("%s cut to %d bytes: %v, want exit code 3", path, n, err)
			} else if hint := fault.HintOf(err); path == ManifestPath(dir, 1) && !strings.HasPrefix(hint, "remove it: rm "+path) {
				t.Fatalf("%s cut to %d bytes: hint %q", path, n, hint)
			}
		}
		put(t, fsys, path, whole)
	}
	if _, _, err := gather[record.Link](fsys, id, 2); err != nil {
		t.Error(err)
	}
}

// Rows of another round or epoch, kinds without the key, and other rows than those that were sent are refused, and
// nothing that was there changes. A part that was lost is made again.
func TestSplitRefuses(t *testing.T) {
	fsys := crashtest.New()
	m, _ := links(t, fsys)
	before := allFiles(t, fsys, 3)
	s := split(fsys, m, ByHost, 1)
	try := func(what string, class fault.Class, by string, edit func(l *list[record.Link])) {
		in := input(record.KindLink, someLinks(rand.New(rand.NewPCG(5, 1)), 20))
		edit(in)
		s := s
		s.ID.By = by
		if _, err := Run(t.Context(), s, in); fault.ClassOf(err) != class {
			t.Errorf("%s: %v, want %s", what, err, class)
		}
	}
	try("another round", fault.Conflict, ByHost, func(l *list[record.Link]) { l.schema.Txn = "r11" })
	try("another epoch", fault.Conflict, ByHost, func(l *list[record.Link]) { l.schema.Epoch = "1" })
	try("links by document", fault.Usage, ByDocument, func(*list[record.Link]) {})
	try("links by address", fault.Usage, ByAddress, func(*list[record.Link]) {})
	try("no such key", fault.Usage, "colour", func(*list[record.Link]) {})
	try("fewer rows", fault.Conflict, ByHost, func(l *list[record.Link]) { l.rows = l.rows[1:] })
	moved, ended := s, t.Context()
	moved.ID.Map = 2
	if _, err := Run(ended, moved, input(record.KindLink, someLinks(rand.New(rand.NewPCG(5, 1)), 20))); fault.ClassOf(err) != fault.Conflict || !strings.Contains(fault.HintOf(err), "the round is closed") {
		t.Errorf("after a move: %v", err)
	}
	if !bytes.Equal(before, allFiles(t, fsys, 3)) {
		t.Fatal("a refused split changed something")
	}
	ended, stop := context.WithCancel(ended)
	stop()
	must.OK(t, fsys.Remove(ManifestPath(dir, 1)))
	if _, err := Run(ended, s, input(record.KindLink, someLinks(rand.New(rand.NewPCG(5, 1)), 20))); !errors.Is(err, context.Canceled) {
		t.Errorf("a split that was to end: %v", err)
	}
	if _, err := ReadManifest(fsys, dir, s.ID, 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the manifest of a split that has ended: %v", err)
	}
	try("again", "", ByHost, func(*list[record.Link]) {})
	must.OK(t, fsys.Remove(PartsPath(dir, 1)))
	try("a lost part", "", ByHost, func(*list[record.Link]) {})
	if !bytes.Equal(before, allFiles(t, fsys, 3)) {
		t.Error("a part that was made again has other bytes")
	}
}

// Wherever a split is killed, its parts count all or not at all, and the same split again ends with the same bytes. So it is
// when the folder has the parts and manifest of an epoch that was undone.
func TestCrash(t *testing.T) {
	m := newMap(t, 3)
	rows := someLinks(rand.New(rand.NewPCG(5, 1)), 20)
	run := func(fsys durable.FS, from int, epoch string, rows []record.Link) error {
		s := split(fsys, m, ByHost, from)
		in := input(record.KindLink, slices.Clone(rows))
		if in.schema.Epoch = epoch; epoch == "1" {
			s.ID.Epoch = 1
		}
		_, err := Run(t.Context(), s, in)
		return err
	}
	for _, old := range []bool{false, true} {
		start := crashtest.New()
		for _, from := range []int{0, 2} {
			must.OK(t, run(start, from, "2", rows))
		}
		if old {
			must.OK(t, run(start, 1, "1", rows[:7]))
		}
		good := start.AfterCrash(crashtest.KeepAll)
		calls := good.Calls()
		must.OK(t, run(good, 1, "2", rows))
		calls = good.Calls() - calls
		want := allFiles(t, good, 3)
		if calls < 10 {
			t.Fatalf("%d calls", calls)
		}
		for n := range calls {
			for _, loss := range []crashtest.Loss{crashtest.LoseAll, crashtest.KeepAll, 2, 3} {
				fsys := start.AfterCrash(crashtest.KeepAll)
				fsys.CrashAt(n + 1)
				err := run(fsys, 1, "2", rows)
				left := fsys.AfterCrash(loss)
				if _, berr := ReadManifest(left, dir, idOf(3, ByHost), 1); berr == nil {
					if got := allFiles(t, left, 3); !bytes.Equal(got, want) {
						t.Fatalf("old %v, crash at call %d: a manifest, and not all of its parts", old, n+1)
					}
				} else if _, _, gerr := gather[record.Link](left, idOf(3, ByHost), 2); fault.ClassOf(gerr).ExitCode() != 3 || err == nil {
					t.Fatalf("old %v, crash at call %d: split %v, gather %v, want exit code 3", old, n+1, err, gerr)
				} else if !errors.Is(berr, fs.ErrNotExist) && !errors.Is(berr, errOther) {
					t.Fatalf("old %v, crash at call %d: %v", old, n+1, berr)
				}
				must.OK(t, run(left, 1, "2", rows))
				if !bytes.Equal(allFiles(t, left, 3), want) {
					t.Fatalf("old %v, crash at call %d: other bytes when run again", old, n+1)
				}
			}
		}
	}
}

// counted counts the files that are open.
type counted struct {
	durable.FS
	open int
}

type countedFile struct {
	durable.File
	fs *counted
}

func (c *counted) OpenFile(name string, flag int, perm fs.FileMode) (durable.File, error) {
	f, err := c.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	c.open++
	return &countedFile{f, c}, nil
}

func (f *countedFile) Close() error {
	f.fs.open--
	return f.File.Close()
}

// No file stays open: neither of what was read to its end, nor of what was left, nor of what is damaged.
func TestClose(t *testing.T) {
	disk := crashtest.New()
	_, id := links(t, disk)
	fsys := &counted{FS: disk}
	for _, rows := range []int{0, 1, 1000} {
		in, err := Receive(fsys, dir, id, 2)
		must.OK(t, err)
		g, err := Rows[record.Link](in)
		must.OK(t, err)
		var row record.Link
		for n := 0; n < rows && err == nil; n++ {
			err = g.Read(&row)
		}
		if must.OK(t, g.Close()); fsys.open != 0 {
			t.Errorf("%d files open after %d rows", fsys.open, rows)
		}
	}
	data := read(t, disk, PartsPath(dir, 0))
	data[0]++
	put(t, disk, PartsPath(dir, 0), data)
	in, err := Receive(fsys, dir, id, 2)
	must.OK(t, err)
	if _, err := Rows[record.Link](in); err == nil || fsys.open != 0 {
		t.Errorf("%d files open after %v", fsys.open, err)
	}
}
