package frontier

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mercator/formats/record"
	runfile "mercator/formats/run"
	"mercator/formats/spectest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
)

func someEntries(n int) []Entry {
	rng := rand.New(rand.NewPCG(1, 2))
	var rows []Entry
	key := uint64(0)
	for i := range n {
		host := fmt.Sprintf("host%d.example.org", rng.IntN(50))
		u := record.URL{URL: fmt.Sprintf("https://%s/dir%d/page-%d.html?id=%d", host, rng.IntN(20), i, rng.IntN(1e6)), Host: host, Depth: uint16(i)}
		u.Key = fingerprint.URLKey(u.Host, u.URL)
		switch rng.IntN(8) {
		case 0:
			u.Host = "other.test:8080"
		case 1:
			u.Key = rng.Uint64()
		case 2:
			u.Via, u.ETag, u.LastModified, u.LastContentFP = "http://via.test/", `"e"`, "then", rng.Uint64()
		case 3:
			u.Addr, u.AddrExpires, u.AddrError, u.Score, u.Due, u.Discovered = "127.0.0.1,::1", 1<<50, "timeout", -1.5, -1, 1
		case 4:
			u.URL, u.Priority, u.Attempt = "no-scheme", 255, 255
		}
		e := Entry{Key: key, VirtualTime: rng.Uint64() >> rng.IntN(64), URL: u}
		if i%3 != 1 {
			e.Visit = Visit{Visits: uint32(i + 1), Changes: rng.Uint32N(9), ObservedUS: rng.Uint64(), Last: record.Time(1<<50 + rng.Int64N(1<<40)), Gone: uint8(i), Until: record.Time(i&2) << 50, Broken: uint8(i & 1)}
		}
		key += uint64(rng.IntN(3))
		rows = append(rows, e)
	}
	return rows
}

func someHosts(n int) []Host {
	rng := rand.New(rand.NewPCG(3, 4))
	var rows []Host
	for i := range n {
		h := Host{Key: rng.Uint64(), Host: fmt.Sprintf("h%d.test", i), Contacts: 1, LastContact: 7, ParkedUntil: record.Time(i) << 50, Addr: "127.0.0.1"}
		for _, x := range h.numbers() {
			*x = rng.Uint64() >> rng.IntN(64)
		}
		for l := range rng.IntN(4) {
			h.Last = append(h.Last, LevelTime{uint8(l * 85), rng.Uint64()})
		}
		rows = append(rows, h)
	}
	return rows
}

func someDomains(n int) []Domain {
	rng := rand.New(rand.NewPCG(9, 10))
	var rows []Domain
	for i := range n {
		d := Domain{Key: rng.Uint64(), Domain: fmt.Sprintf("d%d.test", i), Round: rng.Uint64N(99), Used: rng.Uint64N(9), Many: i%50 == 49}
		for s := uint32(0); !d.Many && len(d.Sources) < i*7%MaxSources; s++ {
			d.Sources = append(d.Sources, s<<24|uint32(i))
		}
		rows = append(rows, d)
	}
	return rows
}

var ignoreExtra = cmpopts.IgnoreUnexported(record.Extra{})

func sameRow[T any, P rowOf[T]](t *testing.T, key uint64, want P) {
	t.Helper()
	got := P(new(T))
	payload := want.Append([]byte("before"))
	err := got.Parse(key, payload[len("before"):])
	clear(payload) // it is another's again
	if err != nil || !reflect.DeepEqual(want, got) {
		t.Fatal(err, cmp.Diff(want, got, ignoreExtra))
	}
}

// What is appended is parsed as it was.
func TestPayloads(t *testing.T) {
	for _, e := range someEntries(1000) {
		sameRow(t, e.Key, &e)
		payload := replace(nil, e.Append(nil), 1<<50)
		e.VirtualTime = 1 << 50
		if !bytes.Equal(payload, e.Append(nil)) {
			t.Fatal("a place that was replaced")
		}
	}
	for _, h := range someHosts(1000) {
		sameRow(t, h.Key, &h)
	}
	for _, d := range someDomains(300) {
		sameRow(t, d.Key, &d)
	}
	for _, r := range []Row{&Entry{}, &Host{}, &Domain{}} {
		if err := r.Parse(1, nil); !errors.Is(err, fault.Corrupt) {
			t.Errorf("%T of no bytes: %v", r, err)
		}
	}
}

// Columns that queues do not keep are not written.
func TestNoFurtherColumns(t *testing.T) {
	u := record.URL{URL: "http://a.test/", Host: "a.test", Extra: visitColumns.Extra(func(string) uint64 { return 7 })}
	with := Entry{URL: u}
	u.Extra = record.Extra{}
	without := Entry{URL: u}
	if !bytes.Equal(with.Append(nil), without.Append(nil)) {
		t.Error("the row has further columns")
	}
}

// A row that does not decode is told with its file and key.
func TestBadRow(t *testing.T) {
	err := parseRow(new(Host), 7, []byte{1}, "hosts/x.run")
	var e *fault.Error
	if !errors.As(err, &e) || e.File != "hosts/x.run" || e.Place != "key 7" || e.Class != fault.Corrupt {
		t.Error(err)
	}
}

func runOf(t testing.TB, kind string, payloads ...[]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := runfile.NewWriter(&b, kind)
	for i, payload := range payloads {
		must.OK(t, w.Add(uint64(i), payload))
	}
	must.OK(t, w.Close())
	return b.Bytes()
}

// exampleEntry is the entry of the example in SPEC.md.
func exampleEntry() Entry {
	u := record.URL{URL: "http://a.test/", Host: "a.test"}
	u.Key = fingerprint.URLKey(u.Host, u.URL)
	return Entry{VirtualTime: 5, URL: u}
}

func vectors(t testing.TB) (all []spectest.Vector) {
	good := func(name, kind string, rows ...Row) {
		var payloads [][]byte
		for _, r := range rows {
			payloads = append(payloads, r.Append(nil))
		}
		all = append(all, spectest.Vector{Name: "good/" + name, Bytes: runOf(t, kind, payloads...), Gives: fmt.Sprintf("%d rows", len(rows))})
	}
	plain, visited := exampleEntry(), exampleEntry()
	visited.Visit = Visit{Visits: 3, Changes: 1, ObservedUS: 172_800_000_000, Last: 1_700_000_000_000_000, Gone: 1, Until: 1_700_086_400_000_000, Broken: 4}
	given := exampleEntry()
	given.URL.Host, given.URL.Key = "b.test", 1
	hosts, domains := someHosts(2), someDomains(3)
	good("01-queue", KindQueue, &plain, &visited, &given)
	good("02-hosts", KindHosts, &hosts[0], &hosts[1])
	good("03-domains", KindDomains, &domains[0], &domains[1], &domains[2])
	bad := func(name, kind, says string, payload []byte) {
		all = append(all, spectest.Vector{Name: "bad/" + name, Bytes: runOf(t, kind, payload), Class: fault.Corrupt, Says: says + " that does not decode"})
	}
	set := func(b []byte, at int, to ...byte) []byte { // puts other bytes in the place of one
		return append(append(bytes.Clone(b[:at]), to...), b[at+1:]...)
	}
	row := func(change func(u *record.URL)) []byte { // a payload with another row
		u := record.URL{URL: plain.URL.URL}
		change(&u)
		return record.AppendRow([]byte{5, 0}, &u)
	}
	entry := plain.Append(nil)
	url := func(name string, b []byte) { bad(name, KindQueue, "a URL", b) }
	url("R01-cut", entry[:len(entry)-1])
	url("R01-bytes-left", append(bytes.Clone(entry), 0))
	url("R01-flags", set(entry, 1, allFlags+1))
	url("R01-host", row(func(u *record.URL) { u.Host = "a.test" }))
	url("R01-key", row(func(u *record.URL) { u.Key = plain.URL.Key }))
	url("R01-visit", set(entry, 1, hasVisit, 0, 0, 0, 0, 0, 0, 0))
	url("R01-visit-range", set(entry, 1, hasVisit, 0xff, 0xff, 0xff, 0xff, 0x1f, 0, 0, 0, 0, 0, 0))
	h := Host{Host: "a.test", Last: []LevelTime{{1, 2}, {3, 4}}}
	host := h.Append(nil)
	table := func(name string, b []byte) { bad(name, KindHosts, "a host", b) }
	table("R02-cut", host[:len(host)-1])
	table("R02-bytes-left", append(bytes.Clone(host), 1, 0))
	table("R02-bytes", append(bytes.Clone(host), 0))
	table("R02-bytes-range", binary.AppendUvarint(bytes.Clone(host), 1<<63))
	table("R02-text", set(host, 0, 0x7f))
	table("R02-queues", set(host, len(host)-5, 0x81, 0x02))
	table("R02-queue-twice", set(host, len(host)-2, 1))
	d := Domain{Domain: "a.test", Sources: []uint32{2, 5}}
	domain := d.Append(nil)
	site := func(name string, b []byte) { bad(name, KindDomains, "a domain", b) }
	site("R03-cut", domain[:len(domain)-1])
	site("R03-bytes-left", append(bytes.Clone(domain), 0))
	site("R03-sources", set(domain, 7, 0x81, 0x02))
	site("R03-source-range", set(domain, 9, 0xff, 0xff, 0xff, 0xff, 0x0f))
	site("R03-source-twice", set(domain, 9, 0))
	return all
}

// TestSpec holds the reader to SPEC.md and its vectors.
func TestSpec(t *testing.T) {
	example := exampleEntry()
	spectest.Check(t, spectest.Format{
		Ext:     ".run",
		Vectors: vectors(t),
		Read: func(_ testing.TB, name string, file []byte) (string, error) {
			r, err := runfile.Open(bytes.NewReader(file), int64(len(file)), name, "")
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%d rows", r.Rows()), verifyRun(r, name)
		},
		Example: example.Append(nil),
	})
}

// Whatever is parsed is appended as it was, but for numbers that were longer than need be.
func FuzzPayload(f *testing.F) {
	for _, v := range vectors(f) {
		r, err := runfile.Open(bytes.NewReader(v.Bytes), int64(len(v.Bytes)), v.Name, "")
		must.OK(f, err)
		for s := r.Scan(runfile.Start); ; {
			_, payload, err := s.Next()
			if err == io.EOF {
				break
			}
			f.Add(payload)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, kind := range []string{KindQueue, KindHosts, KindDomains} {
			row, again := NewRow(kind), NewRow(kind)
			if row.Parse(1, b) != nil {
				continue
			}
			if e, ok := row.(*Entry); ok && e.URL.Score != e.URL.Score {
				continue // not a number equals nothing
			}
			if err := again.Parse(1, row.Append(nil)); err != nil || !reflect.DeepEqual(row, again) {
				t.Fatal(err, cmp.Diff(row, again, ignoreExtra))
			}
		}
	})
}
