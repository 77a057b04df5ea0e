package run

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"mercator/formats/spectest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

type row struct {
	key     uint64
	payload string
}

func encode(t testing.TB, rows []row, options ...func(*Writer)) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b, "test")
	for _, o := range options {
		o(w)
	}
	for _, r := range rows {
		must.OK(t, w.Add(r.key, []byte(r.payload)))
	}
	if err := w.Close(); err != nil || w.Rows() != uint64(len(rows)) {
		t.Fatal(w.Rows(), err)
	}
	return b.Bytes()
}

func blocks(bytes, rows int) func(*Writer) { return func(w *Writer) { w.Blocks(bytes, rows) } }

func open(t testing.TB, b []byte) *Reader {
	t.Helper()
	r, err := Open(bytes.NewReader(b), int64(len(b)), "test.run", "test")
	must.OK(t, err)
	return r
}

func decode(b []byte) ([]row, error) { return decodeNamed(b, "test.run") }

func decodeNamed(b []byte, name string) (rows []row, err error) {
	r, err := Open(bytes.NewReader(b), int64(len(b)), name, "test")
	if err != nil {
		return nil, err
	}
	if err := r.Verify(); err != nil {
		return nil, err
	}
	s := r.Scan(Start)
	for {
		key, payload, err := s.Next()
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, row{key, string(payload)})
	}
}

// sample makes rows: some have equal keys, and some have no payload.
func sample(n int) (rows []row) {
	rng := rand.New(rand.NewPCG(1, 2))
	key := uint64(0)
	for i := range n {
		if i%2 > 0 {
			key += rng.Uint64() >> 16 >> rng.IntN(48)
		}
		text := fmt.Sprintf("https://host%d.example.org/dir%d/page-%d.html", rng.IntN(50), rng.IntN(20), i)
		rows = append(rows, row{key, text[:rng.IntN(len(text)+1)]})
	}
	return rows
}

// Sizes around the ends of blocks and pages, packed and plain.
func TestRoundTrip(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 700, 40_000} {
		want := sample(n)
		for name, options := range map[string][]func(*Writer){
			"":           nil,
			"plain":      {(*Writer).Plain},
			"two rows":   {blocks(1<<20, 2)},
			"one byte":   {blocks(1, 8)},
			"512 KiB":    {blocks(1<<30, 1<<30)},
			"plain tiny": {(*Writer).Plain, blocks(0, 0)},
		} {
			b := encode(t, want, options...)
			got, err := decode(b)
			if err != nil || !slices.Equal(want, got) {
				t.Fatal(n, name, len(got), err)
			}
			r := open(t, b)
			if r.Rows() != uint64(n) || r.Kind() != "test" || n > 0 && (r.First() != want[0].key || r.Last() != want[n-1].key) {
				t.Fatal(n, name, r.Rows(), r.First(), r.Last())
			}
		}
	}
}

// The ends of what a key can be, and payloads that do not fit a block that is packed.
func TestExtremes(t *testing.T) {
	want := []row{{0, ""}, {0, strings.Repeat("a", MaxPacked)}, {1, "b"}, {math.MaxUint64, strings.Repeat("c", 3*MaxPacked)}, {math.MaxUint64, ""}}
	b := encode(t, want)
	if got, err := decode(b); err != nil || !slices.Equal(want, got) {
		t.Fatal(len(got), err)
	}
	s := open(t, b).Scan(Start)
	if key, payload, err := s.Seek(2); err != nil || key != math.MaxUint64 || len(payload) != 3*MaxPacked {
		t.Error(key, len(payload), err)
	}
}

// A payload stays as it is when others are read, and appending to it changes no other.
func TestPayloadStays(t *testing.T) {
	want := sample(3000)
	for _, ahead := range []bool{false, true} {
		s := open(t, encode(t, want, blocks(4<<10, 1<<20))).Scan(Start)
		if ahead {
			s.ReadAhead()
		}
		var all [][]byte
		for {
			_, payload, err := s.Next()
			if err == io.EOF {
				break
			}
			must.OK(t, err)
			_ = append(payload, "overwritten"...)
			all = append(all, payload)
		}
		for i := range want {
			if string(all[i]) != want[i].payload {
				t.Fatalf("row %d: %q, want %q", i, all[i], want[i].payload)
			}
		}
	}
}

// A scan can go on from the position before any row.
func TestPositions(t *testing.T) {
	want := sample(3000)
	r := open(t, encode(t, want, blocks(4<<10, 1<<20)))
	s := r.Scan(Start)
	for i := range want {
		p := s.Position()
		if key, err := s.Peek(); err != nil || key != want[i].key || s.Position() != p && s.Position().Row != 0 {
			t.Fatal(i, key, err)
		}
		_, _, err := s.Next()
		must.OK(t, err)
		if i%97 != 0 {
			continue
		}
		if key, payload, err := r.Scan(p).Next(); err != nil || key != want[i].key || string(payload) != want[i].payload {
			t.Fatal(i, p, err)
		}
	}
	if _, _, err := r.Scan(s.Position()).Next(); err != io.EOF {
		t.Fatal(err)
	}
	for _, p := range []Position{{Offset: headerSize, Row: 1 << 20}, {Offset: 1 << 40}, {Offset: headerSize + 1}} {
		t.Run(fmt.Sprint(p.Offset), func(t *testing.T) {
			if _, _, err := r.Scan(p).Next(); !errors.Is(err, fault.Corrupt) {
				t.Error(p, err)
			}
		})
	}
	if _, _, err := r.Scan(Position{Offset: s.Position().Offset, Row: 1}).Next(); !errors.Is(err, fault.Corrupt) {
		t.Error(err)
	}
}

// Rows that are passed over leave the others as they are, read ahead or not, over more blocks than a page has.
func TestPass(t *testing.T) {
	rows := sample(60_000)
	b := encode(t, rows, blocks(4<<10, 1<<20))
	r := open(t, b)
	if r.t.blocks <= pageEntries {
		t.Fatalf("%d blocks do not fill a page", r.t.blocks)
	}
	rng := rand.New(rand.NewPCG(7, 8))
	for step := 1; step < 60_000; step *= 3 {
		s := r.Scan(Start)
		if step%2 == 1 {
			s.ReadAhead()
		}
		for at := 0; ; at++ {
			if to := at + rng.IntN(step); to < len(rows) && rows[to].key > 0 {
				key := rows[to].key - rng.Uint64N(2)
				for at < to && rows[at].key < key {
					at++
				}
				if got, err := s.Pass(key); err != nil || got != rows[at].key {
					t.Fatal(step, at, got, err)
				}
			}
			if p := s.Position(); at%11 == 0 && at < len(rows) {
				if _, payload, err := r.Scan(p).Next(); err != nil || string(payload) != rows[at].payload {
					t.Fatal(step, at, p, err)
				}
			}
			key, payload, err := s.Next()
			if at == len(rows) && err == io.EOF {
				break
			}
			if err != nil || key != rows[at].key || string(payload) != rows[at].payload {
				t.Fatal(step, at, key, err)
			}
			if step == 1 && at > 5000 {
				break
			}
		}
		s.Stop()
	}
	if _, _, err := r.Scan(Start).Seek(r.Last() + 1); err != io.EOF {
		t.Error(err)
	}
	if _, _, err := open(t, encode(t, nil)).Scan(Start).Seek(0); err != io.EOF {
		t.Error(err)
	}
}

func TestWriterRefuses(t *testing.T) {
	w := NewWriter(io.Discard, "test")
	must.OK(t, w.Add(2, nil))
	if err := w.Add(1, nil); !errors.Is(err, fault.Corrupt) {
		t.Error(err)
	}
	if err := w.Add(3, nil); !errors.Is(err, fault.Corrupt) {
		t.Error("an error does not stick:", err)
	}
	if err := w.Close(); !errors.Is(err, fault.Corrupt) {
		t.Error("an error does not stick:", err)
	}
	for _, kind := range []string{"", "Queue", "a_b", "seventeen-letters"} {
		if err := NewWriter(io.Discard, kind).Close(); !errors.Is(err, fault.Usage) {
			t.Errorf("kind %q: %v", kind, err)
		}
	}
	if err := NewWriter(io.Discard, "sixteen-letters-").Close(); err != nil {
		t.Error(err)
	}
	if err := NewWriter(failing{}, "test").Close(); err != io.ErrClosedPipe {
		t.Error(err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// A reader of any kind tells which it is.
func TestKind(t *testing.T) {
	b := encode(t, sample(3))
	r, err := Open(bytes.NewReader(b), int64(len(b)), "x", "")
	if err != nil || r.Kind() != "test" {
		t.Error(err)
	}
}

// A file of many blocks that is cut at any byte, or has any bit flipped, is refused. (TestSpec does so to the vectors.)
func TestDamage(t *testing.T) {
	b := encode(t, sample(60), blocks(600, 1<<20))
	for n := range b {
		if _, err := decode(b[:n]); err == nil || fault.ClassOf(err) == "" {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
	for bit := range len(b) * 8 {
		c := bytes.Clone(b)
		c[bit/8] ^= 1 << (bit % 8)
		if _, err := decode(c); err == nil || fault.ClassOf(err) == "" {
			t.Fatalf("bit %d: %v", bit, err)
		}
	}
}

// What a block says of itself makes a reader allocate no more than 1 MiB or than the file has.
func TestMemory(t *testing.T) {
	file := encode(t, sample(3))
	for _, sizes := range [][2]uint32{{1 << 30, 1 << 30}, {maxStored, maxStored}, {math.MaxUint32, math.MaxUint32}, {20, 1 << 30}} {
		t.Run(fmt.Sprint(sizes), func(t *testing.T) {
			for codec := range uint32(2) {
				b := bytes.Clone(file)
				binary.LittleEndian.PutUint32(b[headerSize+4:], codec)
				binary.LittleEndian.PutUint32(b[headerSize+8:], sizes[0])
				binary.LittleEndian.PutUint32(b[headerSize+12:], sizes[1])
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, _, err := open(t, b).Scan(Start).Next()
				runtime.ReadMemStats(&after)
				if got := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, fault.Corrupt) || got > 2*MaxPacked {
					t.Errorf("%d of codec %d: %d bytes taken, %v", sizes, codec, got, err)
				}
			}
		})
	}
}

// The vectors are made of one good file: two blocks, of two rows and one.
func vectors(t testing.TB) (all []spectest.Vector) {
	three := []row{{5, "one"}, {6, "two"}, {6, "three"}}
	file := encode(t, three, blocks(1<<10, 2))
	good := func(name string, rows []row, options ...func(*Writer)) {
		// zstd may give other bytes in another version.
		all = append(all, spectest.Vector{Name: "good/" + name, Bytes: encode(t, rows, options...), Loose: name == "04-zstd", Gives: fmt.Sprintf("%d rows", len(rows))})
	}
	good("01-empty", nil)
	good("02-example", example)
	good("03-blocks", three, blocks(1<<10, 2))
	good("04-zstd", sample(200))
	good("05-plain", sample(20), (*Writer).Plain)
	bad := func(name string, class fault.Class, says string, b []byte) {
		all = append(all, spectest.Vector{Name: "bad/" + name, Bytes: b, Class: class, Says: says})
	}
	const second = headerSize + blockHead + 10 // the second block; the first has two rows of five bytes
	const page = second + blockHead + 7
	const dir = page + pageHead + 2*entrySize + 4
	end := len(file)
	change := func(from, to int, fn func(b []byte)) []byte { // what lies between gets its checksum again
		b := bytes.Clone(file)
		fn(b[from:to])
		if to > from {
			copy(b[to-4:to], seal(bytes.Clone(b[from : to-4]))[to-4-from:])
		}
		return b
	}
	flip := func(at int) []byte {
		b := bytes.Clone(file)
		b[at] ^= 1
		return b
	}
	set := func(at int, v byte) func([]byte) { return func(b []byte) { b[at] = v } }
	put := func(at int, v uint32) func([]byte) {
		return func(b []byte) { binary.LittleEndian.PutUint32(b[at:], v) }
	}
	header := func(fn func([]byte)) []byte { return change(0, headerSize, fn) }
	trail := func(at int, v byte) []byte { return change(end-trailerSize, end, set(at, v)) }
	inPage := func(fn func([]byte)) []byte { return change(page, dir, fn) }
	inDir := func(fn func([]byte)) []byte { return change(dir, end-trailerSize, fn) }
	// A changed block keeps its length, so that the rest of the file stays right but for the sum.
	inBlock := func(from, to int, fn func(b []byte)) []byte {
		b := bytes.Clone(file)
		k := b[from:to]
		fn(k)
		crc := seal(append(bytes.Clone(k[:36]), k[blockHead:]...))
		copy(k[36:40], crc[len(crc)-4:])
		return b
	}
	one := func(fn func(b []byte)) []byte { return inBlock(headerSize, second, fn) }
	two := func(fn func(b []byte)) []byte { return inBlock(second, page, fn) }

	bad("R01-short", fault.Truncated, "want a run's header", file[:headerSize-1])
	bad("R02-magic", fault.WrongKind, `"XSORTRUN"`, header(set(0, 'X')))
	bad("R03-header-sum", fault.Corrupt, "header: its checksum", flip(headerSize-1))
	bad("R04-version", fault.Version, "a run of version 2", header(put(8, 2)))
	bad("R05-kind-letters", fault.Corrupt, `kind "Test"`, header(set(12, 'T')))
	bad("R05-kind-empty", fault.Corrupt, `kind ""`, header(put(12, 0)))
	bad("R05-kind-zeros", fault.Corrupt, `kind "test\x00\x00a"`, header(set(18, 'a')))
	bad("R06-other-kind", fault.WrongKind, "a run of best, want one of test", header(set(12, 'b')))
	bad("R07-no-trailer", fault.Truncated, "no trailer", file[:end-trailerSize])
	bad("R08-trailer-sum", fault.Corrupt, "trailer: its checksum", flip(end-1))
	bad("R09-blocks", fault.Corrupt, "in 9 blocks", trail(8, 9))
	bad("R09-rows", fault.Corrupt, "1 rows in 2 blocks", trail(16, 1))
	bad("R09-directory", fault.Corrupt, "directory at byte 3", trail(24, 3))
	bad("R09-keys", fault.Corrupt, "keys 9 to 6, want counts", trail(32, 9))
	bad("R10-block-magic", fault.Corrupt, `"XBLK"`, one(set(0, 'X')))
	bad("R10-page-magic", fault.Corrupt, `"XPAG"`, inPage(set(0, 'X')))
	bad("R11-codec", fault.Version, "codec 2", one(put(4, 2)))
	bad("R12-packed-size", fault.Corrupt, "10 bytes stored for 1048577", one(func(b []byte) { put(4, codecZstd)(b); put(12, MaxPacked+1)(b) }))
	bad("R12-stored-size", fault.Corrupt, "stored for 1074790401", one(func(b []byte) { put(8, maxStored+1)(b); put(12, maxStored+1)(b) }))
	bad("R12-stored-above-raw", fault.Corrupt, "11 bytes stored for 10", one(put(8, 11)))
	bad("R12-stored-below-raw", fault.Corrupt, "10 bytes stored for 11", one(put(12, 11)))
	bad("R13-no-rows", fault.Corrupt, "0 rows in 10 bytes", one(put(16, 0)))
	bad("R13-many-rows", fault.Corrupt, "6 rows in 10 bytes", one(put(16, 6)))
	bad("R14-keys", fault.Corrupt, "keys 7 to 6, 10 bytes", one(put(20, 7)))
	bad("R14-into-directory", fault.Corrupt, "522 bytes, want a block within", one(func(b []byte) { put(8, 522)(b); put(12, 522)(b) }))
	bad("R15-block-sum", fault.Corrupt, "block at byte 32: checksum", flip(headerSize+36))
	bad("R16-zstd", fault.Corrupt, "a zstd frame", one(put(4, codecZstd)))
	bad("R17-row", fault.Corrupt, "row 1 does not decode", one(set(blockHead+6, 4)))
	bad("R17-bytes-left", fault.Corrupt, "row 0 does not decode", two(set(blockHead+1, 4)))
	bad("R18-first", fault.Corrupt, "row 0 of key 6, want", one(set(blockHead, 1)))
	bad("R18-last", fault.Corrupt, "row 1 of key 5, want", one(set(blockHead+5, 0)))
	bad("R18-above", fault.Corrupt, "row 1 of key 7, want", one(set(blockHead+5, 2)))
	bad("R19-descending", fault.Corrupt, "a first key 4, want at least 6", two(put(20, 4)))
	bad("R20-page-sum", fault.Corrupt, "index at byte 129: its checksum", flip(page+9))
	bad("R20-page-count", fault.Corrupt, "514 entries", inPage(set(5, 2)))
	bad("R20-directory-magic", fault.Corrupt, `"XDIR"`, inDir(set(0, 'X')))
	bad("R21-page-entries", fault.Corrupt, "do not describe the blocks", inPage(set(16, 1)))
	bad("R21-directory-entries", fault.Corrupt, "do not describe the pages", inDir(set(16, 1)))
	bad("R22-rows", fault.Corrupt, ", last key 6, want 2, 2, ", trail(16, 2))
	bad("R22-sum", fault.Corrupt, ", last key 6, want 2, 3, ", trail(48, 2))
	bad("R22-last", fault.Corrupt, ", 7", trail(40, 7))
	return all
}

var example = []row{{5, "a.test"}, {261, ""}}

// TestSpec holds the reader to SPEC.md and its vectors.
func TestSpec(t *testing.T) {
	spectest.Check(t, spectest.Format{
		Ext:     ".run",
		Vectors: vectors(t),
		Read: func(_ testing.TB, name string, file []byte) (string, error) {
			rows, err := decodeNamed(file, name)
			return fmt.Sprintf("%d rows", len(rows)), err
		},
		Example: encode(t, example),
	})
}

func FuzzRead(f *testing.F) {
	spectest.Seeds(f, vectors(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = resealed(b)
		rows, err := decode(b)
		if r, openErr := Open(bytes.NewReader(b), int64(len(b)), "x", ""); openErr == nil {
			_, _, _ = r.Scan(Start).Seek(r.Last()) // damage need not be noticed
		}
		if err != nil {
			return
		}
		again, err := decode(encode(t, rows))
		if err != nil || !reflect.DeepEqual(rows, again) {
			t.Fatal(len(rows), len(again), err)
		}
		for i := 0; i < len(rows); i += 1 + i/4 {
			first := slices.IndexFunc(rows, func(r row) bool { return r.key == rows[i].key })
			if key, payload, err := open(t, b).Scan(Start).Seek(rows[i].key); err != nil || key != rows[i].key || string(payload) != rows[first].payload {
				t.Fatal(key, payload, err)
			}
		}
	})
}

// resealed makes the checksums of the header, the first block and the trailer right, so that
// fuzzing reaches what lies behind them.
func resealed(b []byte) []byte {
	b = bytes.Clone(b)
	if len(b) < headerSize+blockHead+trailerSize {
		return b
	}
	copy(b[headerSize-4:], seal(bytes.Clone(b[:headerSize-4]))[headerSize-4:headerSize])
	n := int(binary.LittleEndian.Uint32(b[headerSize+8:]))
	if n > len(b)-headerSize-blockHead {
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
	copy(tr[trailerSize-4:], seal(bytes.Clone(tr[:trailerSize-4]))[trailerSize-4:])
	return b
}
