package shard

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"mercator/formats/spectest"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

func vectors(t *testing.T) []spectest.Vector {
	edited := func(edit func(*Map)) []byte {
		m, err := New(4)
		must.OK(t, err)
		edit(m)
		data, err := m.Encode()
		must.OK(t, err)
		return data
	}
	bad := func(name string, data []byte, says string) spectest.Vector {
		return spectest.Vector{Name: "bad/" + name, Bytes: data, Class: fault.Corrupt, Says: says}
	}
	four := edited(func(*Map) {})
	later := edited(func(m *Map) { m.Version = 2; m.Owners[7] = 3 })
	versioned := func(version string, data []byte) []byte {
		return bytes.Replace(data, data[:len(magic)+2], []byte(magic+" "+version), 1)
	}
	grown := edited(func(m *Map) { *m = *m.Next(m.Grow(6)); m.Version = 3 })
	another := spectest.Vector{Name: "bad/R5-version-3.map", Bytes: versioned("3", four), Class: fault.Version, Says: "mercator-map version 3, want 2"}
	return []spectest.Vector{
		{Name: "good/four.map", Bytes: four, Gives: string(four)},
		{Name: "good/moved.map", Bytes: later, Gives: string(later)},
		{Name: "good/grown.map", Bytes: grown, Gives: string(grown)},
		bad("R1-version-0.map", edited(func(m *Map) { m.Version = 0 }), "version: 0, want 1 or more"),
		bad("R2-no-shards.map", edited(func(m *Map) { m.Shards = 0 }), "shards: 0, want 1 to 512"),
		bad("R2-513-shards.map", edited(func(m *Map) { m.Shards = 513 }), "shards: 513, want 1 to 512"),
		bad("R3-one-bucket-short.map", edited(func(m *Map) { m.Owners = m.Owners[1:] }), "owners: 4095 buckets, want 4096"),
		bad("R4-owner.map", edited(func(m *Map) { m.Owners[5] = 4 }), "bucket 5: shard 4, want 0 to 3"),
		bad("R4-owner-below-0.map", edited(func(m *Map) { m.Owners[5] = -1 }), "bucket 5: shard -1, want 0 to 3"),
		another,
		bad("R6-none.map", versioned("2", four), "documents: 0, want 1 to 3"),
		bad("R6-below-0.map", edited(func(m *Map) { m.Documents = -1 }), "documents: -1, want 1 to 3"),
		bad("R6-all.map", edited(func(m *Map) { m.Documents = 4 }), "documents: 4, want 1 to 3"),
		bad("R6-in-version-1.map", versioned("1", grown), "documents: 4, want none in version 1"),
	}
}

// example is the page's map, with the middle of its owners left out.
func example(four []byte) string {
	line, body, _ := strings.Cut(string(four), "\n")
	return "    " + line + "\n    " + body[:60] + " … " + body[len(body)-20:]
}

// TestSpec holds the reader to SPEC.md and its vectors.
func TestSpec(t *testing.T) {
	all := vectors(t)
	spectest.Check(t, spectest.Format{
		Vectors: all,
		Regions: map[string]string{"example": example(all[0].Bytes)},
		Every:   97, // another format's checksum holds the file
		Read: func(_ testing.TB, name string, file []byte) (string, error) {
			m, err := Decode(name, file)
			if err != nil {
				return "", err
			}
			again, err := m.Encode()
			return string(again), err
		},
	})
}

func FuzzDecode(f *testing.F) {
	m, err := New(3)
	must.OK(f, err)
	data, err := m.Encode()
	must.OK(f, err)
	_, body, _ := strings.Cut(string(data), "\n")
	f.Add(1, body)
	f.Add(2, strings.Replace(body, "}", `,"documents":2}`, 1))
	f.Fuzz(func(t *testing.T, version int, body string) {
		data := fmt.Sprintf("%s %d %d %s\n%s", magic, version, len(body), store.Sum([]byte(body)), body)
		m, err := Decode("MAP", []byte(data))
		if err != nil {
			return
		}
		again, err := m.Encode()
		must.OK(t, err)
		if once, err := Decode("MAP", again); err != nil || !reflect.DeepEqual(once, m) {
			t.Fatalf("%v, %v, want %v", once, err, m)
		}
	})
}

// TestSpread: every key has one owner, all own their share of the buckets, and addresses that lie
// side by side, as those of a network do, are spread too.
func TestSpread(t *testing.T) {
	for _, shards := range []int{1, 4, 7, 16, Max} {
		m, err := New(shards)
		must.OK(t, err)
		count := make([]int, shards)
		for b := range uint64(Buckets) {
			n := m.Of(b<<52 | 0x123456789)
			if n != int(b*uint64(shards)>>12) {
				t.Fatalf("bucket %d of %d shards: %d", b, shards, n)
			}
			count[n]++
		}
		for n, c := range count {
			if c < Buckets/shards || c > Buckets/shards+1 {
				t.Errorf("shard %d of %d has %d buckets", n, shards, c)
			}
		}
	}
	m, err := New(16)
	must.OK(t, err)
	count := make([]int, 16)
	for i := range 2560 {
		count[m.OfAddress(fmt.Sprintf("10.1.%d.%d", i/256, i%256))]++
	}
	for n, c := range count {
		if c < 110 || c > 210 {
			t.Errorf("shard %d has %d of 2560 addresses, want about 160", n, c)
		}
	}
	for _, n := range []int{0, -1, Max + 1} {
		if _, err := New(n); !errors.Is(err, fault.Usage) {
			t.Errorf("%d shards: %v", n, err)
		}
	}
}

// TestGrow: new shards get their share of the buckets, an equal part of each shard's, and no documents. All else stays where it was.
func TestGrow(t *testing.T) {
	for _, test := range []struct{ from, to int }{{1, 2}, {2, 3}, {3, 5}, {16, 17}, {511, 512}, {1, Max}} {
		t.Run(fmt.Sprintf("%d to %d", test.from, test.to), func(t *testing.T) {
			m, err := New(test.from)
			must.OK(t, err)
			next := m.Next(m.Grow(test.to))
			if next.Shards != test.to || next.Documents != test.from {
				t.Fatalf("%d shards, %d with documents", next.Shards, next.Documents)
			}
			count := make([]int, test.to)
			for b, owner := range next.Owners {
				count[owner]++
				if owner != m.Owners[b] && owner < test.from {
					t.Fatalf("bucket %d goes from shard %d to %d", b, m.Owners[b], owner)
				}
				if key := uint64(b) << 52; next.OfDocument(key) != m.OfDocument(key) {
					t.Fatalf("documents of bucket %d move", b)
				}
			}
			for n, c := range count {
				if share := Buckets / test.to; c < share-1 || c > share+2 {
					t.Errorf("shard %d has %d buckets, want about %d", n, c, share)
				}
			}
			if again := next.Next(next.Owners); again.Shards != test.to || again.Documents != test.from {
				t.Errorf("after a move: %d shards, %d with documents", again.Shards, again.Documents)
			}
		})
	}
}

// TestRead: the version that CURRENT names counts, whole and of that number, or the crawl is refused.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	if _, err := Read(durable.OS, dir); !errors.Is(err, fault.Usage) {
		t.Fatalf("no crawl folder: %v", err)
	}
	write := func(c store.Current) {
		t.Helper()
		must.OK(t, store.WriteCurrent(durable.OS, dir, c))
	}
	write(store.Current{})
	if m, err := Read(durable.OS, dir); m != nil || err != nil {
		t.Fatalf("a crawl without shards: %v, %v", m, err)
	}
	m, err := New(7)
	must.OK(t, err)
	data, err := m.Encode()
	must.OK(t, err)
	for _, version := range []uint64{1, 2} {
		must.OK(t, os.WriteFile(File(dir, version), data, 0o666))
	}
	write(store.Current{Map: 1})
	if got, err := Read(durable.OS, dir); err != nil || !reflect.DeepEqual(got, m) {
		t.Fatalf("%v, %v", got, err)
	}
	write(store.Current{Map: 2})
	if _, err := Read(durable.OS, dir); !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "MAP-000002: version: 1, want 2") {
		t.Errorf("a map under another name: %v", err)
	}
	write(store.Current{Map: 3})
	if _, err := Read(durable.OS, dir); !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "MAP-000003: missing") {
		t.Errorf("no map: %v", err)
	}
}

// TestAt: folders of shards and stores in them, but not what only looks like them.
func TestAt(t *testing.T) {
	dir := t.TempDir()
	if _, ok := At(Dir(dir, 7)); ok {
		t.Error("a shard's folder outside a crawl")
	}
	must.OK(t, store.CreateCurrent(durable.OS, dir, 1))
	inner := filepath.Join(dir, "shard", "008") // a crawl folder that happens to lie there
	must.OK(t, os.MkdirAll(inner, 0o777), store.CreateCurrent(durable.OS, inner, 0))
	for path, want := range map[string]int{
		"": -1, "urls": -1, "modules/tags": -1, "shard": -1, "shard/7": -1, "shard/512": -1, "shard/abc": -1,
		"shard/007": 7, "shard/007/urls": 7, "shard/511/modules/tags": 511, "shard/008/urls": -1,
	} {
		t.Run(path, func(t *testing.T) {
			n, ok := At(filepath.Join(dir, path))
			if ok != (want >= 0) || ok && n != want {
				t.Errorf("%s: %d %v, want %d", path, n, ok, want)
			}
		})
	}
}
