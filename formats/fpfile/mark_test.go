package fpfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
)

// probesOf are keys of the set, their neighbours, and others, in ascending order.
func probesOf(keys []uint64, every int, rnd *rand.Rand) []uint64 {
	probes := []uint64{0, 1, 1<<64 - 1}
	for _, k := range keys {
		if rnd.IntN(every) == 0 {
			probes = append(probes, k, k-1, k+1, rnd.Uint64())
		}
	}
	slices.Sort(probes)
	return probes
}

// TestMark compares Mark and ContainsAll with binary search, for batches of
// every density, given at once and in parts; answers of before stay.
func TestMark(t *testing.T) {
	for name, keys := range shapes() {
		for _, every := range []int{1, 3, 40, 1000} {
			t.Run(fmt.Sprintf("%s/%d", name, every), func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(13, uint64(every)))
				r, err := open(encode(t, keys))
				must.OK(t, err)
				probes := probesOf(keys, every, rnd)
				want := make([]bool, len(probes))
				before := make([]bool, len(probes))
				for i, p := range probes {
					_, want[i] = slices.BinarySearch(keys, p)
					before[i] = rnd.IntN(8) == 0
					want[i] = want[i] || before[i]
				}
				bothWays(func(way string) {
					got := slices.Clone(before)
					if err := r.All().Mark(probes, got); err != nil || !slices.Equal(got, want) {
						t.Fatalf("Mark at once, %s: %v", way, err)
					}
				})
				got := slices.Clone(before)
				it := r.All()
				for lo := 0; lo < len(probes); {
					hi := min(len(probes), lo+rnd.IntN(50))
					must.OK(t, it.Mark(probes[lo:hi], got[lo:hi]))
					lo = hi
				}
				if !slices.Equal(got, want) {
					t.Fatal("Mark in parts")
				}
				order := rnd.Perm(len(probes))
				mixed, answers := make([]uint64, len(probes)), make([]bool, len(probes))
				for i, j := range order {
					mixed[i], answers[i] = probes[j], before[j]
				}
				bothWays(func(way string) {
					answers := slices.Clone(answers)
					must.OK(t, r.ContainsAll(mixed, answers))
					for i, j := range order {
						if answers[i] != want[j] {
							t.Fatalf("ContainsAll, %s: %016x is %v", way, mixed[i], answers[i])
						}
						if got, err := contains(r, mixed[i]); err != nil || (got || before[j]) != want[j] {
							t.Fatalf("Contains(%016x), %s: %v, %v", mixed[i], way, got, err)
						}
					}
				})
			})
		}
	}
}

// TestOneEncoding: a set has one encoding, however its keys are added.
func TestOneEncoding(t *testing.T) {
	rnd := rand.New(rand.NewPCG(19, 20))
	for name, keys := range shapes() {
		want := encode(t, keys)
		for workers := range 4 {
			var b bytes.Buffer
			w := NewWriter(&b, fingerprint.Polynomial)
			w.SetWorkers(workers)
			for rest := keys; len(rest) > 0; {
				n := min(len(rest), rnd.IntN(9000))
				must.OK(t, w.AddKeys(rest[:n]))
				rest = rest[n:]
				if len(rest) > 0 && rnd.IntN(2) == 0 {
					w.Add(rest[0])
					rest = rest[1:]
				}
			}
			must.OK(t, w.Finish())
			if w.Count() != uint64(len(keys)) || !bytes.Equal(b.Bytes(), want) {
				t.Errorf("%s, %d workers: another file", name, workers)
			}
		}
	}
}

// TestFlipsOnEveryPath flips bits of blocks: whatever reads the block finds it.
func TestFlipsOnEveryPath(t *testing.T) {
	keys := shapes()["hosts"]
	b := encode(t, keys)
	r, err := open(b)
	must.OK(t, err)
	rnd := rand.New(rand.NewPCG(31, 32))
	paths := map[string]func(key uint64) error{
		"ContainsAll": func(key uint64) error { return r.ContainsAll([]uint64{key}, make([]bool, 1)) },
		"Mark":        func(key uint64) error { return r.All().Mark([]uint64{key}, make([]bool, 1)) },
		"Range":       func(key uint64) error { _, err := r.Range(key, key); return err },
		"Check":       func(uint64) error { return r.Check(nil) },
	}
	for range 300 {
		key := keys[rnd.IntN(len(keys))]
		k, err := r.find(key)
		must.OK(t, err)
		off, n := r.geo.block(k)
		bit := 8*off + rnd.Int64N(8*n)
		b[bit/8] ^= 1 << (bit % 8)
		for name, path := range paths {
			if err := path(key); !errors.Is(err, fault.Corrupt) {
				t.Fatalf("bit %d of byte %d flipped, %s: %v", bit%8, bit/8, name, err)
			}
		}
		b[bit/8] ^= 1 << (bit % 8)
	}
	for name, path := range paths {
		if err := path(keys[0]); err != nil {
			t.Errorf("nothing flipped, %s: %v", name, err)
		}
	}
}

// TestMarkReads: blocks that cannot be hit are not read, those that lie together
// are read at once, and no more than the read-ahead is.
func TestMarkReads(t *testing.T) {
	keys := shapes()["uniform"]
	b := encode(t, keys)
	c := &lockedReader{ReaderAt: bytes.NewReader(b)}
	r, err := Open(c, int64(len(b)), "x.fps")
	must.OK(t, err)
	r.SetReadAhead(8 * BlockSize)
	it := r.All()
	ends := []uint64{keys[0], keys[len(keys)-1]}
	for range 2 { // the first reads the index page, too
		c.reset()
		must.OK(t, it.Mark(ends, make([]bool, 2)))
	}
	if c.calls != 2 || c.most > BlockSize {
		t.Errorf("two distant keys took %d reads, up to %d bytes", c.calls, c.most)
	}
	c.reset()
	seen := make([]bool, len(keys))
	if err := it.Mark(keys, seen); err != nil || slices.Contains(seen, false) {
		t.Fatalf("all keys: %v", err)
	}
	if c.most > 8*BlockSize || c.calls > int(r.Blocks())/8+2 {
		t.Errorf("all %d blocks took %d reads, up to %d bytes", r.Blocks(), c.calls, c.most)
	}
}

// lockedReader is a countingReader for several goroutines.
type lockedReader struct {
	io.ReaderAt
	lock        sync.Mutex
	calls, most int
}

func (c *lockedReader) reset() { c.calls, c.most = 0, 0 }

func (c *lockedReader) ReadAt(b []byte, off int64) (int, error) {
	c.lock.Lock()
	c.calls++
	c.most = max(c.most, len(b))
	c.lock.Unlock()
	return c.ReaderAt.ReadAt(b, off)
}
