package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mercator/formats/record"
	"mercator/formats/spectest"
	"mercator/pkg/fault"
	"mercator/pkg/fingerprint"
)

var ignoreExtra = cmpopts.IgnoreUnexported(record.Extra{})

func encode[T Row](t testing.TB, rows []T) []byte {
	t.Helper()
	return encodeWith(t, 0, rows)
}

func decode[T Row](b []byte) ([]T, error) { return decodeNamed[T](b, "test.seg") }

func decodeNamed[T Row](b []byte, name string) ([]T, error) {
	r, err := Open[T](bytes.NewReader(b), int64(len(b)), name)
	if err != nil {
		return nil, err
	}
	if err := r.Verify(); err != nil {
		return nil, err
	}
	var rows []T
	s := r.Scan(Start)
	for {
		var row T
		if err := s.Next(&row); err == io.EOF {
			return rows, nil
		} else if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
}

func entries(n int) []Entry {
	rng := rand.New(rand.NewPCG(1, 2))
	var rows []Entry
	order := uint64(0)
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
		}
		if u.Host != "other.test:8080" && rng.IntN(8) > 0 {
			u.Key = fingerprint.URLKey(u.Host, u.URL)
		}
		order += uint64(rng.IntN(3))
		rows = append(rows, Entry{Key: order, Place: rng.Uint64N(9), URL: u})
	}
	return rows
}

// visited gives two of three rows a visit.
func visited(rows []Entry) []Entry {
	rng := rand.New(rand.NewPCG(7, 8))
	for i := range rows {
		if i%3 != 1 {
			rows[i].Visit = Visit{Visits: uint32(i + 1), Changes: rng.Uint32N(9), ObservedUS: rng.Uint64(), Last: record.Time(1<<50 + rng.Int64N(1<<40)), Gone: uint8(i), Until: record.Time(i&2) << 50, Broken: uint8(i & 1)}
		}
	}
	return rows
}

// encodeVisits writes rows with all features.
func encodeVisits(t testing.TB, rows []Entry) []byte {
	t.Helper()
	return encodeWith(t, Visits|Promises, rows)
}

func encodeWith[T Row](t testing.TB, features Features, rows []T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter[T](&b, "test", features)
	for i := range rows {
		if err := w.Add(&rows[i]); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := w.Finish(); err != nil || n != uint64(len(rows)) {
		t.Fatal(n, err)
	}
	return b.Bytes()
}

// spread gives each host a spread of durations.
func spread(rows []Host) []Host {
	for i := range rows {
		rows[i].SpreadUS = uint64(i) << (i % 50)
	}
	return rows
}

func hosts(n int) []Host {
	rng := rand.New(rand.NewPCG(3, 4))
	var rows []Host
	order := uint64(0)
	for i := range n {
		order += rng.Uint64N(1 << 40)
		h := Host{Key: order, Host: fmt.Sprintf("h%d.test", i), Discovered: rng.Uint64N(1e6), Contacts: 1, DurationUS: 5, LastContact: 7, Addr: "127.0.0.1"}
		for l := range rng.IntN(4) {
			h.Last = append(h.Last, LevelPlace{uint8(l * 3), rng.Uint64()})
		}
		rows = append(rows, h)
	}
	return rows
}

func domains(n int) []Domain {
	rng := rand.New(rand.NewPCG(9, 10))
	var rows []Domain
	order := uint64(0)
	for i := range n {
		order += rng.Uint64N(1 << 40)
		d := Domain{Key: order, Domain: fmt.Sprintf("d%d.test", i), Round: rng.Uint64N(99), Used: rng.Uint64N(9), Many: i%50 == 49}
		for s := uint32(0); !d.Many && len(d.Sources) < i*7%MaxSources; s++ {
			d.Sources = append(d.Sources, s<<24|uint32(i))
		}
		rows = append(rows, d)
	}
	return rows
}

// Sources that do not ascend, and more than there may be.
func TestDomainsRefused(t *testing.T) {
	for _, d := range []Domain{
		{Sources: []uint32{2, 2}}, {Sources: []uint32{2, 1}}, {Sources: make([]uint32, MaxSources)}, {Sources: []uint32{1}, Many: true},
	} {
		if err := NewWriter[Domain](io.Discard, "x", 0).Add(&d); !errors.Is(err, fault.Usage) {
			t.Errorf("%+v: %v", d, err)
		}
	}
	var rows RowCoder[Domain]
	for name, row := range map[string][]byte{ // order, domain, linked by, gaps, round, used
		"one twice":     {0, 0, 2, 1, 0, 0, 0},
		"past 32 bits":  {0, 0, 2, 0xff, 0xff, 0xff, 0xff, 0x0f, 1, 0, 0},
		"more than 256": {0, 0, 0x81, 2, 0, 0},
	} {
		var d Domain
		if err := rows.Decode(row, &d); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
}

// Sizes around the ends of blocks and pages.
// unlike is cmp.Diff, at less cost where nothing differs.
func unlike[T Row](want, got []T) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	return cmp.Diff(want, got, ignoreExtra, cmpopts.EquateEmpty())
}

func TestRoundTrip(t *testing.T) {
	for _, n := range []int{0, 1, 2, 700, 40_000} {
		want := entries(n)
		got, err := decode[Entry](encode(t, want))
		if err != nil {
			t.Fatal(n, err)
		}
		if d := unlike(want, got); d != "" {
			t.Fatal(n, d)
		}
		want = visited(want)
		if got, err = decode[Entry](encodeVisits(t, want)); err != nil {
			t.Fatal(n, err)
		}
		if d := unlike(want, got); d != "" {
			t.Fatal(n, d)
		}
		for features, wantHosts := range map[Features][]Host{0: hosts(n), Spreads: spread(hosts(n))} {
			gotHosts, err := decode[Host](encodeWith(t, features, wantHosts))
			if err != nil {
				t.Fatal(n, err)
			}
			if d := unlike(wantHosts, gotHosts); d != "" {
				t.Fatal(n, d)
			}
		}
		wantDomains := domains(min(n, 5000))
		gotDomains, err := decode[Domain](encode(t, wantDomains))
		if err != nil {
			t.Fatal(n, err)
		}
		if d := unlike(wantDomains, gotDomains); d != "" {
			t.Fatal(n, d)
		}
	}
}

func TestRowAlone(t *testing.T) {
	var rows RowCoder[Entry]
	for _, e := range visited(entries(100)) {
		var got Entry
		if err := rows.Decode(rows.Append(nil, &e), &got); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(e, got, ignoreExtra); d != "" {
			t.Fatal(d)
		}
	}
	var e Entry
	if err := rows.Decode([]byte{1, 2}, &e); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
}

// copied is what Peek and Copy make of a segment; of each so many rows the last goes by Next and Add, 0: none.
func copied[T Row](b []byte, next int) ([]byte, error) {
	r, err := Open[T](bytes.NewReader(b), int64(len(b)), "test.seg")
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := NewWriter[T](&out, "copy", r.Features())
	s := r.Scan(Start)
	for n := 1; ; n++ {
		order, err := s.Peek()
		switch {
		case err != nil:
		case next > 0 && n%next == 0:
			var row T
			if err = s.Next(&row); err == nil {
				err = w.Add(&row)
			}
		default:
			err = w.Copy(s)
		}
		if err == io.EOF {
			_, err = w.Finish()
			return out.Bytes(), err
		}
		if err != nil {
			return nil, err
		}
		if order != w.last {
			return nil, fmt.Errorf("copied a row of order %d, want %d", w.last, order)
		}
	}
}

// added is what Next and Add make of it, which is what Copy must do.
func added[T Row](b []byte) ([]byte, error) {
	r, err := Open[T](bytes.NewReader(b), int64(len(b)), "test.seg")
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := NewWriter[T](&out, "copy", r.Features())
	s := r.Scan(Start)
	for {
		var row T
		err := s.Next(&row)
		if err == nil {
			err = w.Add(&row)
		}
		if err == io.EOF {
			_, err = w.Finish()
			return out.Bytes(), err
		}
		if err != nil {
			return nil, err
		}
	}
}

// sameCopy compares the two.
func sameCopy[T Row](t *testing.T, b []byte) {
	t.Helper()
	want, wantErr := added[T](b)
	for _, next := range []int{0, 3} {
		got, err := copied[T](b, next)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) || !bytes.Equal(got, want) {
			t.Fatalf("copied: %d bytes, %v; row by row: %d bytes, %v", len(got), err, len(want), wantErr)
		}
	}
}

// Rows of every kind are copied as they stand, and damage is met as by Next.
func TestCopy(t *testing.T) {
	for _, n := range []int{0, 1, 3000} {
		sameCopy[Entry](t, encode(t, entries(n)))
		sameCopy[Entry](t, encodeVisits(t, visited(entries(n))))
		sameCopy[Host](t, encode(t, hosts(n)))
		sameCopy[Host](t, encodeWith(t, Spreads, spread(hosts(n))))
		sameCopy[Domain](t, encode(t, domains(n)))
	}
	var b []byte
	for rows := visited(entries(15)); len(rows) > 0; rows = rows[3:] {
		b = encodeVisits(t, rows[:3])
		if codec := binary.LittleEndian.Uint32(b[headerSize+4:]); codec != codecStored {
			t.Fatalf("codec %d: damage would not reach the columns", codec)
		}
		for at := headerSize + 20; at < len(b)-trailerSize; at++ {
			for _, flip := range []byte{1, 0x80, 0xff} {
				damaged := bytes.Clone(b)
				damaged[at] ^= flip
				sameCopy[Entry](t, resealed(damaged))
			}
		}
	}
	// A segment without a feature is copied to one that has it, and not the other way round.
	rows := entries(3)
	b = encode(t, rows)
	for _, c := range []struct {
		from []byte
		to   Features
		want error
	}{{b, Visits, nil}, {encodeVisits(t, visited(entries(3))), 0, fault.Usage}} {
		r, err := Open[Entry](bytes.NewReader(c.from), int64(len(c.from)), "test.seg")
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		w, s := NewWriter[Entry](&out, "copy", c.to), r.Scan(Start)
		for err = w.Copy(s); err == nil; err = w.Copy(s) {
		}
		if c.want != nil {
			if !errors.Is(err, c.want) {
				t.Error(err)
			}
			continue
		}
		if _, ferr := w.Finish(); err != io.EOF || ferr != nil || !bytes.Equal(out.Bytes(), encodeWith(t, Visits, rows)) {
			t.Error(err, ferr)
		}
	}
}

// A row that a RowCoder encoded goes into a segment as it does decoded.
func TestAddCoded(t *testing.T) {
	rows := visited(entries(3000))
	for i := range rows { // not all have a visit
		if i%3 > 0 {
			rows[i].Visit = Visit{}
		}
	}
	var out bytes.Buffer
	w := NewWriter[Entry](&out, "coded", Visits|Promises)
	var coder RowCoder[Entry]
	for _, e := range rows {
		order, place := e.Key, e.Place
		e.Key, e.Place = 0, 0
		b := coder.Append(nil, &e)
		if err := w.AddCoded(order, place, b); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil || !bytes.Equal(out.Bytes(), encodeVisits(t, rows)) {
		t.Errorf("other bytes than those of Add: %v", err)
	}
	e := rows[1] // without visit
	e.Key, e.Place = 0, 0
	b := coder.Append(nil, &e)
	for n := range b {
		w := NewWriter[Entry](io.Discard, "cut", 0)
		if err := w.AddCoded(1, 0, b[:n]); !errors.Is(err, fault.Corrupt) {
			t.Errorf("cut to %d of %d bytes: %v", n, len(b), err)
		}
	}
	if err := NewWriter[Entry](io.Discard, "long", 0).AddCoded(1, 0, append(b, 0)); !errors.Is(err, fault.Corrupt) {
		t.Error("a byte behind it:", err)
	}
	if err := NewWriter[Host](io.Discard, "hosts", 0).AddCoded(1, 0, b); !errors.Is(err, fault.Usage) {
		t.Error("into a table of hosts:", err)
	}
}

// A file of before there were promises is copied into one that has room for them.
func TestCopyOfOlderVersion(t *testing.T) {
	want := visitedExample()
	b := encodeWith(t, Visits, want)
	r, err := Open[Entry](bytes.NewReader(b), int64(len(b)), "test.seg")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := NewWriter[Entry](&out, "copy", Visits|Promises)
	s := r.Scan(Start)
	for err == nil {
		err = w.Copy(s)
	}
	if _, end := w.Finish(); err != io.EOF || end != nil {
		t.Fatal(err, end)
	}
	got, err := decode[Entry](out.Bytes())
	if d := cmp.Diff(want, got, ignoreExtra); err != nil || d != "" {
		t.Error(err, d)
	}
}

// A scan can go on from the position before any row.
func TestPositions(t *testing.T) {
	want := visited(entries(3000))
	b := encodeVisits(t, want)
	r, err := Open[Entry](bytes.NewReader(b), int64(len(b)), "test.seg")
	if err != nil {
		t.Fatal(err)
	}
	s := r.Scan(Start)
	for i := range want {
		p := s.Position()
		var row Entry
		if err := s.Next(&row); err != nil {
			t.Fatal(err)
		}
		if i%97 != 0 {
			continue
		}
		if err := r.Scan(p).Next(&row); err != nil || row.URL.URL != want[i].URL.URL {
			t.Fatal(i, p, err)
		}
	}
	var row Entry
	if err := r.Scan(s.Position()).Next(&row); err != io.EOF {
		t.Fatal(err)
	}
	if err := r.Scan(Position{Offset: headerSize, Row: MaxBlockRows}).Next(&row); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
	if err := r.Scan(Position{Offset: 1 << 40}).Next(&row); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
}

func TestSeek(t *testing.T) {
	rows := hosts(300_000) // more than a page of blocks
	b := encode(t, rows)
	r, err := Open[Host](bytes.NewReader(b), int64(len(b)), "test.seg")
	if err != nil {
		t.Fatal(err)
	}
	if r.t.blocks <= pageEntries {
		t.Fatalf("%d blocks do not fill a page", r.t.blocks)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for _, step := range []int{1, 50, 5000, 90_000} {
		s := r.Scan(Start)
		at := 0
		for at < len(rows) {
			order := rows[at].Key - rng.Uint64N(2) // itself, or just before
			var row Host
			if err := s.Seek(order, &row); err != nil || row.Key != rows[at].Key {
				t.Fatal(step, at, row.Key, rows[at].Key, err)
			}
			at += 1 + rng.IntN(step)
			if step == 1 && at > 5000 {
				break
			}
		}
	}
	var row Host
	if err := r.Scan(Start).Seek(r.Last()+1, &row); err != io.EOF {
		t.Fatal(err)
	}
}

// Rows that are passed over leave the others as they are, read ahead or not, and a
// copy of what comes next too.
func TestPass(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	number := func() uint64 { // of any length, often 0
		return rng.Uint64() >> rng.IntN(64) >> rng.IntN(64)
	}
	rows := hosts(6000)
	for i := range rows {
		h := &rows[i]
		h.Host = strings.Repeat("x", rng.IntN(300)*rng.IntN(2)) + h.Host
		h.Key = rows[max(i-rng.IntN(2), 0)].Key
		for _, x := range []*uint64{&h.Discovered, &h.Finished, &h.Contacts, &h.Failures, &h.DurationUS, &h.DelayUS, &h.SpreadUS} {
			*x = number()
		}
		h.LastContact, h.ParkedUntil, h.Addr = record.Time(number()), record.Time(number()), strings.Repeat("1", rng.IntN(20)*rng.IntN(2))
	}
	var out bytes.Buffer
	w := NewWriter[Host](&out, "test.seg", Spreads)
	w.Blocks(4<<10, MaxBlockRows)
	for i := range rows {
		if err := w.Add(&rows[i]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	r, err := Open[Host](bytes.NewReader(out.Bytes()), int64(out.Len()), "test.seg")
	if err != nil {
		t.Fatal(err)
	}
	for step := 1; step < 3000; step *= 3 {
		s := r.Scan(Start)
		if step%2 == 1 {
			s.ReadAhead()
		}
		for at := 0; ; at++ {
			if to := at + rng.IntN(step); to < len(rows) {
				order := rows[to].Key - rng.Uint64N(2)
				for at < to && rows[at].Key < order {
					at++
				}
				if got, err := s.Pass(order); err != nil || got != rows[at].Key {
					t.Fatal(step, at, got, err)
				}
			}
			if p := s.Position(); at%11 == 0 {
				var row Host
				if err := r.Scan(p).Next(&row); at < len(rows) && (err != nil || row.Host != rows[at].Host) {
					t.Fatal(step, at, p, err)
				}
			}
			var row Host
			err := s.Next(&row)
			if at == len(rows) && err == io.EOF {
				break
			}
			if err != nil || !reflect.DeepEqual(rows[at], row) {
				t.Fatal(step, at, err, cmp.Diff(rows[at], row))
			}
		}
		s.Stop()
	}
	var copied bytes.Buffer
	w = NewWriter[Host](&copied, "copied.seg", Spreads)
	s := r.Scan(Start)
	var want []Host
	for at := 100; at < len(rows); at += 100 {
		if _, err := s.Pass(rows[at-1].Key + 1); err != nil {
			t.Fatal(err)
		}
		for ; rows[at].Key == rows[at-1].Key; at++ {
		}
		want = append(want, rows[at])
		if err := w.Copy(s); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	if got, err := decode[Host](copied.Bytes()); err != nil || !reflect.DeepEqual(want, got) {
		t.Fatal(err, cmp.Diff(want, got))
	}
}

func TestWriterRefuses(t *testing.T) {
	w := NewWriter[Entry](io.Discard, "x", 0)
	if err := w.Add(&Entry{Key: 2}); err != nil {
		t.Fatal(err)
	}
	if err := w.Add(&Entry{Key: 1}); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
	if _, err := w.Finish(); err == nil {
		t.Fatal("an error does not stick")
	}
	w = NewWriter[Entry](io.Discard, "x", 0)
	if err := w.Add(&Entry{URL: record.URL{Via: strings.Repeat("x", MaxString+1)}}); !errors.Is(err, fault.Usage) {
		t.Fatal(err)
	}
	w = NewWriter[Entry](io.Discard, "x", 0)
	if err := w.Add(&Entry{Visit: Visit{Gone: 1}}); !errors.Is(err, fault.Usage) {
		t.Fatal(err)
	}
	if _, err := NewWriter[Host](io.Discard, "x", Visits).Finish(); !errors.Is(err, fault.Usage) {
		t.Fatal(err)
	}
	if _, err := NewWriter[Entry](io.Discard, "x", Spreads).Finish(); !errors.Is(err, fault.Usage) {
		t.Fatal(err)
	}
	if err := NewWriter[Host](io.Discard, "x", 0).Add(&Host{SpreadUS: 1}); !errors.Is(err, fault.Usage) {
		t.Fatal(err)
	}
}

// A file cut at any byte, or with one bit flipped, is refused.
func TestDamage(t *testing.T) {
	b := encodeVisits(t, visited(entries(40)))
	for n := range b {
		if _, err := decode[Entry](b[:n]); err == nil || fault.ClassOf(err) == "" {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
	for bit := range len(b) * 8 {
		c := bytes.Clone(b)
		c[bit/8] ^= 1 << (bit % 8)
		if _, err := decode[Entry](c); err == nil || fault.ClassOf(err) == "" {
			t.Fatalf("bit %d: %v", bit, err)
		}
	}
}

// The vectors are made of one good file of three rows.
func vectors(t testing.TB) (all []spectest.Vector) {
	three := []Entry{example(5), example(6), example(6)}
	three[1].URL.URL, three[2].URL.URL = "http://a.test/1", "http://a.test/2"
	for i := range three {
		three[i].URL.Key = fingerprint.URLKey(three[i].URL.Host, three[i].URL.URL)
	}
	file := encode(t, three)
	good := func(name string, b []byte, rows int) {
		all = append(all, spectest.Vector{Name: "good/" + name, Bytes: b, Loose: name == "04-zstd", Gives: fmt.Sprintf("%d rows", rows)}) // zstd may give other bytes in another version
	}
	good("01-empty", encode[Entry](t, nil), 0)
	good("02-example", encode(t, []Entry{example(5)}), 1)
	good("03-three", file, 3)
	good("04-zstd", encode(t, entries(200)), 200)
	good("05-visits", encodeWith(t, Visits, visitedExample()), 2)
	good("06-domains", encode(t, domains(3)), 3)
	good("07-spreads", encodeWith(t, Spreads, spread(hosts(3))), 3)
	good("08-promises", encodeVisits(t, promisedExample()), 2)
	bad := func(name string, class fault.Class, says string, b []byte) {
		all = append(all, spectest.Vector{Name: "bad/" + name, Bytes: b, Class: class, Says: says})
	}
	end := len(file)
	block := file[headerSize:]
	size := int(blockHead + binary.LittleEndian.Uint32(block[8:]))
	page := headerSize + size
	change := func(fn func(b []byte) []byte) []byte { return fn(bytes.Clone(file)) }
	reseal := func(b []byte, from, to int) { copy(b[to-4:to], seal(bytes.Clone(b[from : to-4]))[to-4-from:]) }
	header := func(at int, v byte) []byte {
		return change(func(b []byte) []byte { b[at] = v; reseal(b, 0, headerSize); return b })
	}
	trail := func(at int, v byte) []byte {
		return change(func(b []byte) []byte { b[end-trailerSize+at] = v; reseal(b, end-trailerSize, end); return b })
	}
	// A changed block keeps its length, so that the rest of the file stays right but for the sum.
	inBlock := func(fn func(b []byte)) []byte {
		return change(func(b []byte) []byte {
			k := b[headerSize : headerSize+size]
			fn(k)
			crc := seal(append(bytes.Clone(k[:36]), k[blockHead:]...))
			copy(k[36:40], crc[len(crc)-4:])
			return b
		})
	}
	put := func(at int, v uint32) func([]byte) {
		return func(b []byte) { binary.LittleEndian.PutUint32(b[at:], v) }
	}
	bad("R01-short", fault.Truncated, "want a segment header", file[:headerSize-1])
	bad("R02-magic", fault.WrongKind, `"XSEGMENT"`, header(0, 'X'))
	bad("R03-header-sum", fault.Corrupt, "header: its checksum", change(func(b []byte) []byte { b[12] ^= 1; return b }))
	bad("R04-major", fault.Version, "segment version 2.0", header(8, 2))
	bad("R05-features", fault.Version, "unknown feature bits 02", header(11, 2))
	bad("R06-kind", fault.WrongKind, "a table of hosts, want a queue", header(10, 2))
	bad("R07-no-trailer", fault.Truncated, "no trailer", file[:end-trailerSize])
	bad("R08-trailer-sum", fault.Corrupt, "trailer: its checksum", change(func(b []byte) []byte { b[end-1] ^= 1; return b }))
	bad("R09-trailer-reserved", fault.Corrupt, "reserved bytes", trail(52, 1))
	bad("R10-trailer-counts", fault.Corrupt, "in 9 blocks", trail(8, 9))
	bad("R10-directory", fault.Corrupt, "directory at byte 3", trail(24, 3))
	bad("R10-orders", fault.Corrupt, "orders 9 to 6, want counts", trail(32, 9))
	bad("R11-block-magic", fault.Corrupt, `"XBLK"`, inBlock(func(b []byte) { b[0] = 'X' }))
	bad("R12-codec", fault.Version, "codec 2", inBlock(put(4, 2)))
	bad("R13-block-size", fault.Corrupt, "stored for 1048577", inBlock(put(12, MaxBlockRaw+1)))
	bad("R13-stored-above-raw", fault.Corrupt, "122 bytes stored for 121", inBlock(func(b []byte) { b[8]++ }))
	bad("R13-stored-below-raw", fault.Corrupt, "121 bytes stored for 122", inBlock(func(b []byte) { b[12]++ }))
	bad("R14-many-rows", fault.Corrupt, "8193 rows, want", inBlock(put(16, MaxBlockRows+1)))
	bad("R14-block-rows", fault.Corrupt, "0 rows, want 1", inBlock(put(16, 0)))
	bad("R15-block-range", fault.Corrupt, "orders 7 to 6, 121 bytes", inBlock(put(20, 7)))
	bad("R15-into-directory", fault.Corrupt, "633 bytes, want a block within", inBlock(func(b []byte) { b[9], b[13] = 2, 2 }))
	bad("R16-block-sum", fault.Corrupt, "block at byte 16: checksum", change(func(b []byte) []byte { b[headerSize+36] ^= 1; return b }))
	bad("R17-zstd", fault.Corrupt, "a zstd frame", inBlock(put(4, codecZstd)))
	bad("R18-columns", fault.Corrupt, "runs past", inBlock(func(b []byte) { b[blockHead] = 0x7f }))
	// The third column, after 1+3 and 1+3 bytes, holds the flags.
	bad("R19-row", fault.Corrupt, "row 0 does not decode", inBlock(func(b []byte) { b[blockHead+9] = allFlags + 1 }))
	bad("R19-bytes-left", fault.Corrupt, "row 1 does not decode", inBlock(func(b []byte) { binary.LittleEndian.PutUint32(b[16:], 2) }))
	bad("R20-order", fault.Corrupt, "row 2 of order 5, want", inBlock(func(b []byte) { b[blockHead+3] = 1 })) // the third order is one below the second's
	bad("R20-first", fault.Corrupt, "row 0 of order 5, want", inBlock(put(20, 4)))
	bad("R20-last", fault.Corrupt, "row 2 of order 6, want", inBlock(put(28, 7)))
	bad("R21-page-sum", fault.Corrupt, "index at byte 177: its checksum", change(func(b []byte) []byte { b[page+9] ^= 1; return b }))
	bad("R11-page-magic", fault.Corrupt, `"XPAG"`, change(func(b []byte) []byte { b[page] = 'X'; reseal(b, page, page+pageHead+entrySize+4); return b }))
	bad("R21-page-count", fault.Corrupt, "513 entries", change(func(b []byte) []byte { b[page+5] = 2; reseal(b, page, page+pageHead+entrySize+4); return b }))
	bad("R21-directory-magic", fault.Corrupt, `"XDIR"`, change(func(b []byte) []byte {
		d := page + pageHead + entrySize + 4
		b[d] = 'X'
		reseal(b, d, d+pageHead+entrySize+4)
		return b
	}))
	bad("R22-directory-entries", fault.Corrupt, "do not describe the pages", change(func(b []byte) []byte {
		d := page + pageHead + entrySize + 4
		b[d+16] ^= 1
		reseal(b, d, d+pageHead+entrySize+4)
		return b
	}))
	bad("R22-page-entries", fault.Corrupt, "do not describe the blocks", change(func(b []byte) []byte { b[page+16] ^= 1; reseal(b, page, page+pageHead+entrySize+4); return b }))
	bad("R23-rows", fault.Corrupt, "3 rows, checksum 1966cba1, last order 6, want 1, 2", trail(16, 2))
	bad("R23-sum", fault.Corrupt, "want 1, 3, 1966cb02", trail(48, 2))
	bad("R23-last", fault.Corrupt, "1966cba1, 7", trail(40, 7))
	return all
}

// TestSpec holds the reader to SPEC.md and its vectors.
func TestSpec(t *testing.T) {
	spectest.Check(t, spectest.Format{
		Ext:     ".seg",
		Vectors: vectors(t),
		Read: func(_ testing.TB, name string, file []byte) (string, error) {
			n, err := 0, error(nil)
			switch name {
			case "good/06-domains.seg":
				n, err = count[Domain](file, name)
			case "good/07-spreads.seg":
				n, err = count[Host](file, name)
			default:
				n, err = count[Entry](file, name)
			}
			return fmt.Sprintf("%d rows", n), err
		},
		Example: encode(t, []Entry{example(5)}),
	})
}

func count[T Row](file []byte, name string) (int, error) {
	rows, err := decodeNamed[T](file, name)
	return len(rows), err
}

// visitedExample are a URL that was visited and one that was not.
func visitedExample() []Entry {
	rows := []Entry{example(5), example(6)}
	rows[0].Visit = Visit{Visits: 3, Changes: 1, ObservedUS: 172_800_000_000, Last: 1_700_000_000_000_000, Gone: 1}
	return rows
}

// promisedExample are a URL whose page was to stay as it is, and one that was not visited.
func promisedExample() []Entry {
	rows := visitedExample()
	rows[0].Visit.Until, rows[0].Visit.Broken = 1_700_086_400_000_000, 4
	return rows
}

// A visit that is said to be there and is not, one in a segment without the feature,
// and a feature that the kind does not have.
func TestVisitsRefused(t *testing.T) {
	rows := visitedExample()[:1]
	rows[0].Visit = Visit{Broken: 1}
	b := encodeVisits(t, rows)
	n := int(binary.LittleEndian.Uint32(b[headerSize+8:]))
	zero := bytes.Clone(b)
	zero[headerSize+blockHead+n-1] = 0 // the last column: Broken
	if _, err := decode[Entry](resealed(zero)); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
	b = encode(t, []Entry{example(5)})
	b[headerSize+blockHead+5] = hasVisit // the third column, after two of one byte
	if _, err := decode[Entry](resealed(b)); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
	b = encode(t, hosts(1))
	b[11] = byte(Visits)
	if _, err := decode[Host](resealed(b)); !errors.Is(err, fault.Version) {
		t.Error(err)
	}
	b = encode(t, []Entry{example(5)})
	b[11] = byte(Promises) // without visits
	if _, err := decode[Entry](resealed(b)); !errors.Is(err, fault.Version) {
		t.Error(err)
	}
	for _, v := range []Visit{{Visits: 1, Until: 1}, {Visits: 1, Broken: 1}} {
		rows[0].Visit = v
		w := NewWriter[Entry](io.Discard, "test", Visits)
		if err := w.Add(&rows[0]); !errors.Is(err, fault.Usage) {
			t.Errorf("%+v without its feature: %v", v, err)
		}
	}
}

func example(order uint64) Entry {
	u := record.URL{URL: "http://a.test/", Host: "a.test"}
	u.Key = fingerprint.URLKey(u.Host, u.URL)
	return Entry{Key: order, URL: u}
}

func FuzzRead(f *testing.F) {
	spectest.Seeds(f, vectors(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		if all, err := decode[Domain](resealed(b)); err == nil {
			if again, err := decode[Domain](encode(t, all)); err != nil || !cmp.Equal(all, again, cmpopts.EquateEmpty()) {
				t.Fatal(cmp.Diff(all, again), err)
			}
		}
		samePass(t, resealed(b))
		sameCopy[Entry](t, resealed(b))
		rows, err := decode[Entry](resealed(b))
		if err != nil {
			return
		}
		again, err := decode[Entry](encodeVisits(t, rows))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(rows, again, ignoreExtra, cmpopts.EquateEmpty(), cmpopts.EquateNaNs()); d != "" {
			t.Fatal(d)
		}
	})
}

// samePass fails if a table of hosts that can be read whole gives other rows behind those that were passed over.
func samePass(t *testing.T, b []byte) {
	all, whole := decode[Host](b)
	r, err := Open[Host](bytes.NewReader(b), int64(len(b)), "test.seg")
	if err != nil {
		return
	}
	var row Host
	_ = r.Scan(Start).Seek(r.Last(), &row) // damage need not be noticed
	if whole != nil || r.Verify() != nil {
		return
	}
	for i := 0; i < len(all); i += 1 + i/4 {
		first := slices.IndexFunc(all, func(h Host) bool { return h.Key == all[i].Key })
		if err := r.Scan(Start).Seek(all[i].Key, &row); err != nil || !reflect.DeepEqual(all[first], row) {
			t.Fatal(err, cmp.Diff(all[first], row))
		}
	}
}

// resealed makes the checksums of the first block and the trailer right, so that
// fuzzing reaches what lies behind them.
func resealed(b []byte) []byte {
	b = bytes.Clone(b)
	if len(b) < headerSize+blockHead+trailerSize {
		return b
	}
	copy(b[12:16], seal(bytes.Clone(b[:12]))[12:])
	n := int(binary.LittleEndian.Uint32(b[headerSize+8:]))
	if n < 0 || n > len(b)-headerSize-blockHead {
		return b
	}
	k := b[headerSize:]
	crc := seal(append(bytes.Clone(k[:36]), k[blockHead:blockHead+n]...))
	copy(k[36:40], crc[len(crc)-4:])
	tr := b[len(b)-trailerSize:]
	if binary.LittleEndian.Uint64(tr[8:]) == 1 {
		sum := seal(bytes.Clone(k[36:40]))
		copy(tr[48:52], sum[4:])
	}
	copy(tr[60:], seal(bytes.Clone(tr[:60]))[60:])
	return b
}

// sameCoded compares what AddCoded makes of a row with what Decode and Add do.
func sameCoded(t *testing.T, b []byte) {
	t.Helper()
	if len(b) < 2 || b[0]|b[1] != 0 {
		return
	}
	write := func(add func(w *Writer[Entry]) error) ([]byte, error) {
		var out bytes.Buffer
		w := NewWriter[Entry](&out, "coded", Visits|Promises)
		if err := add(w); err != nil {
			return nil, err
		}
		_, err := w.Finish()
		return out.Bytes(), err
	}
	want, wantErr := write(func(w *Writer[Entry]) error {
		var e Entry
		if err := new(RowCoder[Entry]).Decode(b, &e); err != nil {
			return err
		}
		e.Key, e.Place = 7, 3
		return w.Add(&e)
	})
	got, err := write(func(w *Writer[Entry]) error { return w.AddCoded(7, 3, b) })
	if fmt.Sprint(err) != fmt.Sprint(wantErr) || !bytes.Equal(got, want) {
		t.Fatalf("coded: %d bytes, %v; decoded: %d bytes, %v", len(got), err, len(want), wantErr)
	}
}

// What a row tells that no reader would take is not written either.
func TestAddCodedRefusesWhatDecodeDoes(t *testing.T) {
	var coder RowCoder[Entry]
	rows := visited(entries(15))
	for i := range rows {
		rows[i].Key, rows[i].Place = 0, 0
		if i%2 == 0 {
			rows[i].Visit = Visit{}
		}
		b := coder.Append(nil, &rows[i])
		sameCoded(t, b)
		for at := 2; at < len(b); at++ {
			for _, flip := range []byte{1, 2, 0x80, 0xff, b[at]} {
				damaged := bytes.Clone(b)
				damaged[at] ^= flip
				sameCoded(t, damaged)
				sameCoded(t, slices.Insert(damaged, at, 0xff))
			}
		}
	}
	e := Entry{URL: record.URL{URL: "http://a.test/", Host: "a.test", Key: 1}} // a key that is given, though it is derived
	b := coder.Append(nil, &e)
	key := binary.LittleEndian.AppendUint64(nil, 1)
	derived := binary.LittleEndian.AppendUint64(nil, fingerprint.URLKey(e.URL.Host, e.URL.URL))
	sameCoded(t, bytes.Replace(b, key, derived, 1))
}

func FuzzRow(f *testing.F) {
	var rows RowCoder[Entry]
	var hosts RowCoder[Host]
	for _, e := range visited(entries(20)) {
		f.Add(rows.Append(nil, &e))
		e.Key, e.Place, e.Visit = 0, 0, Visit{}
		f.Add(rows.Append(nil, &e))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		sameCoded(t, b)
		var e, again Entry
		if rows.Decode(b, &e) == nil {
			if err := rows.Decode(rows.Append(nil, &e), &again); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(e, again, ignoreExtra, cmpopts.EquateNaNs()); d != "" {
				t.Fatal(d)
			}
		}
		var h Host
		if hosts.Decode(b, &h) == nil && len(h.Last) > MaxLevels {
			t.Fatal(len(h.Last))
		}
	})
}
