package resolve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/pkg/fingerprint"
)

func testEntry(i int) entry {
	return entry{Addr: fmt.Sprintf("127.0.0.%d,::1", i%256), Error: "x", CNAME: "alias.test", Server: "127.0.0.1:53", Family: "4", Expires: testNow.Add(time.Duration(i) * time.Microsecond)}
}

func TestTable(t *testing.T) {
	tb := newTable(4 << 20)
	n := 0
	for e := testEntry(n); tb.put(uint64(n), fmt.Sprintf("host%d.test", n), &e); e = testEntry(n) {
		n++
	}
	if size := tb.used*chunkSize + len(tb.index)*8; n < 20_000 || size > 5<<20 {
		t.Errorf("%d names in %d bytes of 4 MiB", n, size)
	}
	for i := range n {
		if got, ok := tb.get(uint64(i), fmt.Sprintf("host%d.test", i)); !ok || got != testEntry(i) {
			t.Fatalf("host%d.test: %+v %v", i, got, ok)
		}
	}
	if _, ok := tb.get(1, "other.test"); ok {
		t.Error("a name that was not put in was found")
	}
	if !tb.seeded {
		t.Error("names whose FP64 are alike stand far from where they are looked for")
	}
	tb.reset()
	if _, ok := tb.get(1, "host1.test"); ok || tb.names != 0 {
		t.Error("an emptied table still has a name")
	}
}

// TestTableInOrder: names that are expected, and come in a cache file's order, need no other
// hash, however full the index is.
func TestTableInOrder(t *testing.T) {
	tb := newTable(8 << 20)
	e := testEntry(1)
	const names = 49_000 // of 65,536 places
	tb.expect(names)
	for i := range names {
		if key := uint64(i) * ((1<<64 - 1) / names); !tb.put(key, fmt.Sprintf("host%d.test", i), &e) {
			t.Fatalf("no room for %d names", i)
		}
	}
	if len(tb.index) != 1<<16 || tb.seeded {
		t.Errorf("%d names: an index of %d places, seeded: %t", tb.names, len(tb.index), tb.seeded)
	}
}

// TestEntries holds a set of several runs of several levels against a map. Keys are alike
// in a thousand names, as they can be made on purpose; some names are put in again.
func TestEntries(t *testing.T) {
	s := newEntries(0) // one chunk
	defer s.Close()
	s.mem.limit = 0
	key := func(i int) uint64 {
		if i%10 == 3 {
			return 1 << 63
		}
		return fingerprint.OfString(fmt.Sprint(i))
	}
	want := map[string]entry{}
	put := func(i, version int) {
		t.Helper()
		name, e := fmt.Sprintf("host%d.test", i), testEntry(i+version)
		if err := s.put(key(i), name, &e); err != nil {
			t.Fatal(err)
		}
		want[name] = e
	}
	const names = 40_000
	for i := range names {
		put(i, 0)
		if i%7 == 0 {
			put(i/2, 1)
		}
	}
	levels := map[int]int{}
	for _, r := range s.runs {
		levels[r.level]++
	}
	if len(levels) < 2 {
		t.Fatalf("runs of levels %v: too few for this test", levels)
	}
	for i := range names {
		name := fmt.Sprintf("host%d.test", i)
		if got, ok, err := s.get(key(i), name); err != nil || !ok || got != want[name] {
			t.Fatalf("%s: %+v %v %v, want %+v", name, got, ok, err, want[name])
		}
	}
	for _, k := range []uint64{0, 1 << 63, 1<<64 - 1} {
		if _, ok, err := s.get(k, "nowhere.test"); ok || err != nil {
			t.Errorf("a name that was not put in: %v %v", ok, err)
		}
	}
	var last item
	n := 0
	err := s.each(func(it item) error {
		if last != nil && last.compare(it.key(), it.name()) >= 0 {
			t.Fatalf("%s does not follow %s", it.name(), last.name())
		}
		if it.entry() != want[string(it.name())] {
			t.Fatalf("%s: %+v", it.name(), it.entry())
		}
		last = append(last[:0], it...)
		n++
		return nil
	})
	if err != nil || n != len(want) {
		t.Errorf("%d names of %d, %v", n, len(want), err)
	}
}

// TestEntriesInOrder: what comes in a cache file's order becomes one run, whose index has a
// bound.
func TestEntriesInOrder(t *testing.T) {
	s := newEntries(0)
	defer s.Close()
	e := testEntry(1)
	const names = 30_000
	for i := range names {
		if err := s.put(uint64(i), fmt.Sprintf("host%d.test", i), &e); err != nil {
			t.Fatal(err)
		}
		if len(s.runs) > 0 && s.runs[0].size == blockSize {
			s.runs[0].size = 1 // so that blocks are many
		}
	}
	if err := s.flush(); err != nil {
		t.Fatal(err)
	}
	r := s.runs[0]
	if len(s.runs) != 1 || s.mem.names != 0 || len(r.blocks) < 1000 {
		t.Fatalf("%d runs, %d names in memory, %d blocks", len(s.runs), s.mem.names, len(r.blocks))
	}
	w := r.extend()
	for i := names; r.size < 4; i++ { // each time it doubles, blocks become half as many
		if err := w.add(appendItem(nil, uint64(i), fmt.Sprintf("host%d.test", i), &e)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	if len(r.blocks) > maxBlocks/2+1 {
		t.Errorf("%d blocks of %d bytes", len(r.blocks), r.size)
	}
	for i := range maxBlocks / 2 {
		if _, ok, err := s.get(uint64(i), fmt.Sprintf("host%d.test", i)); !ok || err != nil {
			t.Fatalf("host%d.test: %v %v", i, ok, err)
		}
	}
}

func TestParseEntry(t *testing.T) {
	for _, e := range []entry{
		{Addr: "127.0.0.1", Expires: testNow},
		{Addr: "127.0.0.1,::1", Expires: testNow.Add(123456 * time.Microsecond), CNAME: "a.test", Server: "127.0.0.1:53"},
		{Addr: "127.0.0.1", Expires: testNow, Family: "4"},
		{Expires: testNow, Error: "nxdomain"},
		{Addr: "127.0.0.1", Expires: testNow, CNAME: `od"d\.<test>`, Server: "é"},
	} {
		value, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parseEntry(string(value)); err != nil || got != e {
			t.Errorf("%s: %+v, %v", value, got, err)
		}
		if own, err := e.appendTo(nil); err != nil || !bytes.Equal(own, value) {
			t.Errorf("%s, want %s, %v", own, value, err)
		}
	}
}

var rfc3339 = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$`)

func FuzzParseTime(f *testing.F) {
	for _, s := range []string{"2026-01-02T03:04:05Z", "2026-02-29T03:04:05Z", "2024-02-29T23:59:59.999999999Z", "2026-01-02T03:04:05.1+01:00",
		"2026-01-02T03:04:60Z", "2026-01-02T24:00:00Z", "2026-13-02T03:04:05Z", "2026-00-00T03:04:05Z", "2026-01-02T03:04:05.Z", "2026-01-02T03:04:05.0123456789Z",
		"2026-01-02T03:04:05,5Z", "0000-01-01T00:00:00Z", "2026-01-02t03:04:05Z", "2026-01-02T03:04:05", "2026-01-02T3:04:05Z", "-001-01-02T03:04:05Z", "Z", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want, err := time.Parse(time.RFC3339Nano, s)
		valid := err == nil && rfc3339.MatchString(s)
		if got, err := parseTime(s); (err == nil) != valid || valid && got != want {
			t.Errorf("%q: %v, %v; want %v, valid: %v", s, got, err, want, valid)
		}
	})
}

// FuzzParseEntry: the quick way takes nothing that the other one refuses or reads in another
// way, and what is taken is written again as it is read.
func FuzzParseEntry(f *testing.F) {
	for _, s := range []string{`{"addr":"127.0.0.1","expires":"2026-01-02T03:04:05Z"}`, `{}`, `{"x":1}`, `{"addr":"\u0031"}`, `{,"addr":"1"}`, `{"addr":"1",}`, `{"expires":"2026-01-02T03:04:05Z"`,
		`{"addr":"127.0.0.1""expires":"2026-01-02T03:04:05Z"}`, `{"addr":"127.0.0.1","expires":"2026-01-02T03:04:05Z","cname":"\t"}`, `{"ADDR":"127.0.0.1","expires":"2026-01-02T03:04:05Z"}`,
		`{"expires":"2026-01-02T03:04:05Z","addr":"127.0.0.1","more":[1]}`, `{"expires":"2026-01-02T03:04:05Z","error":"nxdomain","addr":null}`, "null"} {
		f.Add(s)
	}
	for _, v := range cacheVectors(f) {
		r, err := record.NewReader[record.Module](bytes.NewReader(v.Bytes), record.ReaderOptions{})
		for row := (record.Module{}); err == nil; f.Add(row.Value) {
			err = r.Read(&row)
		}
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := parseEntry(s)
		if want, wantErr := parseAnyEntry(s); (err == nil) != (wantErr == nil) || err == nil && e != want {
			t.Fatalf("%q: %+v, %v; want %+v, %v", s, e, err, want, wantErr)
		}
		if err != nil {
			return
		}
		value, err := e.appendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := parseEntry(string(value)); err != nil || again != e {
			t.Errorf("%q is written as %s: %+v, %v", s, value, again, err)
		}
	})
}
