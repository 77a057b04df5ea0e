package fpset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mercator/formats/fpfile"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
)

// config is everything that answers must not depend on.
type config struct {
	opt   Options
	mem   int64
	micro int
}

func randomConfig(rnd *rand.Rand) config {
	pick := func(v ...int64) int64 { return v[rnd.IntN(len(v))] }
	return config{
		opt:   Options{Workers: 1 + rnd.IntN(3)},
		mem:   pick(0, 100_000, 1<<20),
		micro: int(pick(1, 2, 37, 1000, 8192)),
	}
}

// world is a set beside the map that it must equal.
type world struct {
	t     *testing.T
	rnd   *rand.Rand
	st    *store.Store
	known map[uint64]bool
	draw  func() uint64
}

func (w *world) keys(most int) []uint64 {
	keys := make([]uint64, w.rnd.IntN(most))
	for i := range keys {
		keys[i] = w.draw()
	}
	return keys
}

// mark marks keys in one change, and compares the answers.
func (w *world) mark(c config, keys []uint64) {
	got, err := markAll(w.st, "", keys, c.micro, c.mem, c.opt)
	if err != nil {
		w.t.Fatalf("%+v: %v", c, err)
	}
	for i, k := range keys {
		if got[i] != w.known[k] {
			w.t.Fatalf("%+v: key %d, %016x, is marked %v", c, i, k, got[i])
		}
		w.known[k] = true
	}
}

// add adds keys from a file of text, a fingerprint file, or both.
func (w *world) add(c config, keys []uint64) {
	dir := w.t.TempDir()
	cut := w.rnd.IntN(len(keys) + 1)
	var text strings.Builder
	for _, k := range keys[:cut] {
		fmt.Fprintf(&text, "%016x\n", k)
	}
	txt, fps := filepath.Join(dir, "a.txt"), filepath.Join(dir, "b.fps")
	f, err := os.Create(fps)
	if err != nil {
		w.t.Fatal(err)
	}
	fw := fpfile.NewWriter(f, fingerprint.Polynomial)
	rest := slices.Compact(slices.Sorted(slices.Values(keys[cut:])))
	if err := errors.Join(os.WriteFile(txt, []byte(text.String()), 0o666), fw.AddKeys(rest), fw.Finish(), f.Close()); err != nil {
		w.t.Fatal(err)
	}
	in, err := OpenInputs([]string{txt, fps}, false, fingerprint.Polynomial, nil, c.mem)
	if err != nil {
		w.t.Fatal(err)
	}
	defer CloseInputs(in)
	got, err := Add(context.Background(), w.st, "", in, c.opt)
	if err != nil {
		w.t.Fatalf("%+v: %v", c, err)
	}
	distinct := map[uint64]bool{}
	fresh := uint64(0)
	for _, k := range keys {
		if !w.known[k] {
			fresh++
		}
		distinct[k], w.known[k] = true, true
	}
	if got.Distinct != uint64(len(distinct)) || got.Fresh != fresh {
		w.t.Fatalf("%+v: %+v, want %d keys and %d new ones", c, got, len(distinct), fresh)
	}
}

// test asks for keys in random order, by Test and by ContainsAll.
func (w *world) test(c config, keys []uint64) {
	set, err := LoadCurrent(w.st, c.opt)
	if err != nil {
		w.t.Fatal(err)
	}
	defer set.Close()
	n, at, all := 0, 0, true
	err = Test(context.Background(), set, Query[uint64]{
		Next: func(k *uint64) error {
			if n == len(keys) {
				return io.EOF
			}
			*k = keys[n]
			n++
			return nil
		},
		Key: func(k *uint64) uint64 { return *k },
		Answer: func(k *uint64, seen bool) error {
			if *k != keys[at] || seen != w.known[*k] {
				return fmt.Errorf("answer %d: %016x is seen: %v", at, *k, seen)
			}
			at++
			all = all && seen
			return nil
		},
	})
	if all == errors.Is(err, fault.No) || err != nil && !errors.Is(err, fault.No) || at != len(keys) {
		w.t.Fatalf("%+v: test: %v after %d of %d", c, err, at, len(keys))
	}
	for rest := keys; len(rest) > 0; {
		some := rest[:min(len(rest), c.micro)]
		rest = rest[len(some):]
		seen := make([]bool, len(some))
		if err := set.ContainsAll(some, seen); err != nil {
			w.t.Fatal(err)
		}
		for i, k := range some {
			if seen[i] != w.known[k] {
				w.t.Fatalf("%+v: ContainsAll: %016x is %v", c, k, seen[i])
			}
		}
	}
}

// TestRandom plays random operations, each under a random configuration: answers
// and set are the same as a map's.
func TestRandom(t *testing.T) {
	draws := map[string]func(*rand.Rand) uint64{
		"uniform":   func(r *rand.Rand) uint64 { return r.Uint64N(30000) * 0x9e3779b97f4a7c15 },
		"clustered": func(r *rand.Rand) uint64 { return r.Uint64N(7)<<48 | r.Uint64N(5000)*0x9e3779b97f4a7c15>>16 },
		"dense":     func(r *rand.Rand) uint64 { return r.Uint64N(20000) - 10000 }, // around 0 and 2⁶⁴−1
	}
	for _, name := range slices.Sorted(maps.Keys(draws)) {
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("%s/%d", name, seed), func(t *testing.T) {
				t.Parallel()
				rnd := rand.New(rand.NewPCG(seed, 77))
				w := &world{t: t, rnd: rnd, st: newStore(t, nil), known: map[uint64]bool{}, draw: func() uint64 { return draws[name](rnd) }}
				for range 25 {
					c := randomConfig(rnd)
					switch rnd.IntN(4) {
					case 0:
						w.add(c, w.keys(4000))
					case 1:
						w.test(c, w.keys(3000))
					default:
						w.mark(c, w.keys(4000))
					}
				}
				if got := keysOf(t, w.st); !slices.Equal(got, slices.Sorted(maps.Keys(w.known))) {
					t.Errorf("the set has %d keys, want %d", len(got), len(w.known))
				}
			})
		}
	}
}
