package fpfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"mercator/formats/spectest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
)

func encode(t testing.TB, keys []uint64) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b, fingerprint.Polynomial)
	for _, k := range keys {
		must.OK(t, w.Add(k))
	}
	must.OK(t, w.Finish())
	return b.Bytes()
}

func open(b []byte) (*Reader, error) { return Open(bytes.NewReader(b), int64(len(b)), "x.fps") }

// decode reads and checks a whole file.
func decode(b []byte) ([]uint64, error) { return decodeNamed(b, "x.fps") }

func decodeNamed(b []byte, name string) ([]uint64, error) {
	r, err := Open(bytes.NewReader(b), int64(len(b)), name)
	if err != nil {
		return nil, err
	}
	if err := r.Check(nil); err != nil {
		return nil, err
	}
	keys := []uint64{}
	for it := r.All(); ; {
		k, err := it.Next()
		if err == io.EOF {
			return keys, nil
		}
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
}

// shapes are sets of different density and clustering.
func shapes() map[string][]uint64 {
	rnd := rand.New(rand.NewPCG(1, 2))
	draw := func(n int, f func(i int) uint64) []uint64 {
		v := make([]uint64, n)
		for i := range v {
			v[i] = f(i)
		}
		slices.Sort(v)
		return slices.Compact(v)
	}
	return map[string][]uint64{
		"empty":      {},
		"zero":       {0},
		"max":        {1<<64 - 1},
		"both ends":  {0, 1<<64 - 1},
		"neighbours": {1<<64 - 3, 1<<64 - 2, 1<<64 - 1},
		"dense":      draw(20000, func(i int) uint64 { return uint64(i) }),
		"powers":     draw(64, func(i int) uint64 { return 1 << i }),
		"uniform":    draw(30000, func(int) uint64 { return rnd.Uint64() }),
		"one host":   draw(10000, func(int) uint64 { return 0xabcd<<48 | rnd.Uint64()>>16 }),
		"hosts": draw(30000, func(int) uint64 {
			return uint64(rnd.ExpFloat64()*3)*0x9e37_0000_0000_0000 | rnd.Uint64()>>16
		}),
		"outlier": append(draw(5000, func(i int) uint64 { return uint64(i) * 3 }), 1<<63),
	}
}

func TestRoundTrip(t *testing.T) {
	for name, keys := range shapes() {
		t.Run(name, func(t *testing.T) {
			b := encode(t, keys)
			got, err := decode(b)
			must.OK(t, err)
			if !slices.Equal(got, keys) {
				t.Fatalf("%d keys came back as %d others", len(keys), len(got))
			}
			r, _ := open(b)
			first, ok := r.First()
			last, _ := r.Last()
			if ok != (len(keys) > 0) || ok && (first != keys[0] || last != keys[len(keys)-1]) {
				t.Errorf("First %x %v, Last %x", first, ok, last)
			}
			if r.Count() != uint64(len(keys)) || r.Polynomial() != fingerprint.Polynomial {
				t.Errorf("Count %d, Polynomial %x", r.Count(), r.Polynomial())
			}
		})
	}
}

// TestSizes tries every number of keys around one, two and three blocks.
func TestSizes(t *testing.T) {
	all := shapes()["uniform"]
	for _, base := range []int{1, 1300, 2650, 3950} {
		for n := max(0, base-40); n < base+40; n++ {
			got, err := decode(encode(t, all[:n]))
			if err != nil || !slices.Equal(got, all[:n]) {
				t.Fatalf("%d keys: %d came back, %v", n, len(got), err)
			}
		}
	}
}

func TestLookups(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for name, keys := range shapes() {
		t.Run(name, func(t *testing.T) {
			b := encode(t, keys)
			r, err := open(b)
			must.OK(t, err)
			probes := []uint64{0, 1, 1<<64 - 1, rnd.Uint64(), rnd.Uint64()}
			for _, k := range keys {
				if len(keys) < 100 || rnd.IntN(50) == 0 {
					probes = append(probes, k, k-1, k+1)
				}
			}
			for _, p := range probes {
				_, want := slices.BinarySearch(keys, p)
				if got, err := contains(r, p); err != nil || got != want {
					t.Fatalf("Contains(%016x) = %v, %v, want %v", p, got, err, want)
				}
			}
			for range 20 {
				lo, hi := probes[rnd.IntN(len(probes))], probes[rnd.IntN(len(probes))]
				it, err := r.Range(lo, hi)
				must.OK(t, err)
				got := []uint64{}
				for {
					v, err := it.Block()
					if err == io.EOF {
						break
					}
					must.OK(t, err)
					got = append(got, v...)
				}
				i, _ := slices.BinarySearch(keys, lo)
				j, found := slices.BinarySearch(keys, hi)
				if found {
					j++
				}
				if want := keys[i:max(i, j)]; !slices.Equal(got, want) {
					t.Fatalf("Range(%016x, %016x): %d keys, want %d", lo, hi, len(got), len(want))
				}
			}
		})
	}
}

// countingReader counts calls and the largest one.
type countingReader struct {
	io.ReaderAt
	calls, most int
}

func (c *countingReader) ReadAt(b []byte, off int64) (int, error) {
	c.calls++
	c.most = max(c.most, len(b))
	return c.ReaderAt.ReadAt(b, off)
}

// contains asks for one key.
func contains(r *Reader, key uint64) (bool, error) {
	seen := make([]bool, 1)
	err := r.ContainsAll([]uint64{key}, seen)
	return seen[0], err
}

// contains asks a block for a key, which may be any.
func (v *block) contains(key uint64) bool {
	return key >= v.first && v.holds(key-v.first, new(cursor))
}

func TestReads(t *testing.T) {
	keys := shapes()["uniform"]
	b := encode(t, keys)
	c := &countingReader{ReaderAt: bytes.NewReader(b)}
	r, err := Open(c, int64(len(b)), "x.fps")
	must.OK(t, err)
	if _, err := contains(r, keys[0]); err != nil { // loads the index page
		t.Fatal(err)
	}
	for _, k := range keys[:200] {
		*c = countingReader{ReaderAt: c.ReaderAt}
		contains(r, k*7919)
		if c.calls > 1 || c.most > BlockSize {
			t.Fatalf("a lookup read %d times, up to %d bytes", c.calls, c.most)
		}
	}
	r.SetReadAhead(4 * BlockSize)
	*c = countingReader{ReaderAt: c.ReaderAt}
	for it := r.All(); err == nil; {
		_, err = it.Block()
	}
	if err != io.EOF || c.most > 4*BlockSize || c.calls > int(r.Blocks())/4+4 {
		t.Errorf("%d reads up to %d bytes for %d blocks, %v", c.calls, c.most, r.Blocks(), err)
	}
}

// TestManyPages has a file of three index pages.
func TestManyPages(t *testing.T) {
	var keys []uint64
	rnd := rand.New(rand.NewPCG(7, 8))
	var k uint64
	for range 2 * pageBlocks * 1650 {
		k += 1 + rnd.Uint64N(1<<41)
		keys = append(keys, k)
	}
	b := encode(t, keys)
	r, err := open(b)
	must.OK(t, err)
	if r.geo.pages() < 3 {
		t.Fatalf("%d blocks, %d index pages: too few for this test", r.geo.blocks, r.geo.pages())
	}
	must.OK(t, r.Check(nil))
	for range 20000 {
		i := rnd.IntN(len(keys))
		if ok, err := contains(r, keys[i]); !ok || err != nil {
			t.Fatalf("key %d: %v, %v", i, ok, err)
		}
	}
	// An entry that reaches into the next page's range, with right checksums (R18).
	off, n := r.geo.page(0)
	le.PutUint64(b[off+n-8:], r.root[1])
	le.PutUint32(b[off:], checksum(b[off+4:off+n]))
	if _, err := decode(b); !errors.Is(err, fault.Corrupt) {
		t.Errorf("pages that overlap: %v", err)
	}
}

// TestExactPage has exactly as many blocks as one index page holds, and one more.
func TestExactPage(t *testing.T) {
	for _, blocks := range []int64{pageBlocks, pageBlocks + 1} {
		var b bytes.Buffer
		w := NewWriter(&b, 1)
		// Blocks of consecutive numbers are full by count.
		for k := uint64(0); k < uint64(blocks)*maxKeys; k++ {
			must.OK(t, w.Add(k))
		}
		must.OK(t, w.Finish())
		r, err := open(b.Bytes())
		must.OK(t, err)
		if r.Blocks() != blocks {
			t.Fatalf("%d blocks, want %d", r.Blocks(), blocks)
		}
		must.OK(t, r.Check(nil))
	}
}

func TestOrder(t *testing.T) {
	for _, keys := range [][]uint64{{5, 5}, {5, 4}, {0, 0}} {
		t.Run(fmt.Sprint(keys), func(t *testing.T) {
			w := NewWriter(io.Discard, 1)
			w.Add(keys[0])
			if err := w.Add(keys[1]); !errors.Is(err, fault.Corrupt) {
				t.Errorf("Add(%d) after %d: %v", keys[1], keys[0], err)
			}
			if err := w.Finish(); err == nil {
				t.Error("Finish after a refused key succeeded")
			}
			w = NewWriter(io.Discard, 1)
			err := w.AddKeys(keys)
			if !errors.Is(err, fault.Corrupt) || w.Count() != 1 {
				t.Errorf("AddKeys(%d): %v, %d added", keys, err, w.Count())
			}
		})
	}
}

// failAfter accepts n bytes.
type failAfter struct{ n int }

var errFull = errors.New("disk full")

func (f *failAfter) Write(b []byte) (int, error) {
	if f.n -= len(b); f.n < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestWriteErrors(t *testing.T) {
	keys := shapes()["uniform"][:3000]
	size := len(encode(t, keys))
	for n := 0; n < size; n += 997 {
		w := NewWriter(&failAfter{n}, 1)
		for _, k := range keys {
			w.Add(k)
		}
		if err := w.Finish(); !errors.Is(err, errFull) {
			t.Fatalf("room for %d of %d bytes: Finish = %v", n, size, err)
		}
	}
}

// TestCuts cuts a file at every byte: it is refused on open.
func TestCuts(t *testing.T) {
	b := encode(t, shapes()["uniform"][:3000])
	for n := range b {
		_, err := open(b[:n])
		if !errors.Is(err, fault.Truncated) {
			t.Fatalf("cut at %d of %d: %v", n, len(b), err)
		}
	}
	if _, err := open(append(slices.Clone(b), 0)); !errors.Is(err, fault.Truncated) {
		t.Errorf("one byte more: %v", err)
	}
}

// TestFlips flips single bits: each is found.
func TestFlips(t *testing.T) {
	b := encode(t, shapes()["uniform"][:3000])
	rnd := rand.New(rand.NewPCG(9, 10))
	flip := func(bit int) {
		b[bit/8] ^= 1 << (bit % 8)
		if _, err := decode(b); fault.ClassOf(err).ExitCode() != 3 {
			t.Fatalf("bit %d of byte %d flipped: %v", bit%8, bit/8, err)
		}
		b[bit/8] ^= 1 << (bit % 8)
	}
	for range 3000 {
		flip(rnd.IntN(8 * len(b)))
	}
	for bit := range 8 * headerSize {
		flip(bit)
		flip(8*len(b) - 1 - bit)
	}
}

// TestDensity holds the size to 1.03 × the bound of (64 − log₂ n + 1.443) bits.
func TestDensity(t *testing.T) {
	rnd := rand.New(rand.NewPCG(11, 12))
	keys := make([]uint64, 1<<18)
	for i := range keys {
		keys[i] = rnd.Uint64()
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	got := float64(8*len(encode(t, keys))) / float64(len(keys))
	if bound := 64 - 18 + 1.443; got > 1.03*bound {
		t.Errorf("%.3f bits a key, want at most 1.03 × %.3f", got, bound)
	}
}

func FuzzReader(f *testing.F) {
	spectest.Seeds(f, vectors())
	f.Add(encode(f, shapes()["both ends"]))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := open(b)
		if err != nil {
			return
		}
		contains(r, 1<<40)
		it, err := r.Range(1000, 1<<50)
		if err == nil {
			it.Next()
		}
		probes := []uint64{0, 1000, 1 << 40, 1<<64 - 1}
		r.ContainsAll(probes, make([]bool, len(probes)))
		r.All().Mark(probes, make([]bool, len(probes)))
		keys, err := decode(b)
		if err != nil {
			if c := fault.ClassOf(err); c.ExitCode() != 3 {
				t.Fatalf("class %q: %v", c, err)
			}
			return
		}
		again, err := decode(encode(t, keys))
		if err != nil || !slices.Equal(again, keys) {
			t.Fatalf("accepted, but %d keys come back as %d, %v", len(keys), len(again), err)
		}
		for _, k := range keys {
			if ok, err := contains(r, k); !ok || err != nil {
				t.Fatalf("Contains(%016x) = %v, %v", k, ok, err)
			}
		}
		bothWays(func(way string) {
			for name, f := range map[string]func([]uint64, []bool) error{"Mark": r.All().Mark, "ContainsAll": r.ContainsAll} {
				seen := make([]bool, len(keys))
				if err := f(keys, seen); err != nil || slices.Contains(seen, false) {
					t.Fatalf("%s, %s: %v", name, way, err)
				}
			}
		})
	})
}

// FuzzBlock gives the block decoder bytes that have the right checksum.
func FuzzBlock(f *testing.F) {
	for _, keys := range shapes() {
		if n := min(len(keys), 300); n > 0 {
			b := make([]byte, blockBytes(n, keys[n-1]-keys[0], bestWidth(n, keys[n-1]-keys[0])))
			encodeBlock(b, keys[:n])
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < blockHeader || len(b) > BlockSize {
			return
		}
		b = slices.Clone(b)
		le.PutUint32(b, checksum(b[4:]))
		v, bad := parseBlock(b)
		if bad != nil {
			return
		}
		v.contains(v.first + 1)
		v.contains(1<<64 - 1)
		var keys []uint64
		bothWays(func(way string) {
			got, flaw := v.appendKeys(nil, new(places))
			if way != "as detected" && (!slices.Equal(got, keys) || (flaw == nil) != (bad == nil) || flaw != nil && *flaw != *bad) {
				t.Fatalf("%s: %d keys, %v, otherwise %d, %v", way, len(got), flaw, len(keys), bad)
			}
			keys, bad = got, flaw
		})
		// Searches keep to the block whatever its keys.
		var probes []uint64
		for _, k := range keys {
			probes = append(probes, k, k+1)
		}
		if bad != nil || v.first+uint64(2*len(keys)) < v.first {
			probes = nil
			for i := range uint64(64) {
				probes = append(probes, v.first+i, v.first|1<<i)
			}
		}
		slices.Sort(probes)
		probes = probes[lowerFrom(probes, v.first):]
		bothWays(func(way string) {
			seen := make([]bool, len(probes))
			v.mark(probes, seen, new(places))
			for i, p := range probes {
				if _, want := slices.BinarySearch(keys, p); bad == nil && seen[i] != want {
					t.Fatalf("%s: %016x is marked %v", way, p, seen[i])
				}
			}
		})
		if bad != nil {
			return
		}
		for i, k := range keys {
			if i > 0 && k <= keys[i-1] {
				t.Fatalf("key %d is %x after %x", i, k, keys[i-1])
			}
			if !v.contains(k) {
				t.Fatalf("key %d, %x, is not found", i, k)
			}
		}
	})
}

func Example() {
	var file bytes.Buffer
	w := NewWriter(&file, fingerprint.Polynomial)
	for _, k := range []uint64{1, 5, 1 << 40} {
		w.Add(k)
	}
	if err := w.Finish(); err != nil {
		fmt.Println(err)
	}
	r, err := Open(bytes.NewReader(file.Bytes()), int64(file.Len()), "three.fps")
	if err != nil {
		fmt.Println(err)
		return
	}
	seen := make([]bool, 2) // for 5 and 6
	if err := r.ContainsAll([]uint64{5, 6}, seen); err != nil {
		fmt.Println(err)
	}
	fmt.Println(r.Count(), seen)
	// Output: 3 [true false]
}

// TestAddKeysAtTheLimit: the block that would be one too many is refused, and so is
// what comes after, with keys waiting and without.
func TestAddKeysAtTheLimit(t *testing.T) {
	keys := make([]uint64, 1<<14)
	for i := range keys {
		keys[i] = uint64(i) << 50
	}
	for _, waiting := range []int{0, 1, maxKeys} {
		w := NewWriter(io.Discard, fingerprint.Polynomial)
		must.OK(t, w.AddKeys(keys[:waiting]))
		w.geo.blocks = maxBlocks
		if err := w.AddKeys(keys[waiting:]); !errors.Is(err, fault.Usage) {
			t.Errorf("%d waiting: %v, want a usage error", waiting, err)
		}
		if err := w.Finish(); !errors.Is(err, fault.Usage) {
			t.Errorf("%d waiting: Finish: %v, want a usage error", waiting, err)
		}
	}
}
