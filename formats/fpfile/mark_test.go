package fpfile

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"mercator/pkg/fingerprint"
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
				if err != nil {
					t.Fatal(err)
				}
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
					if err := it.Mark(probes[lo:hi], got[lo:hi]); err != nil {
						t.Fatal(err)
					}
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
				inMemory, err := OpenBytes(encode(t, keys), "x.fps")
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range []*Reader{r, inMemory} {
					answers := slices.Clone(answers)
					if err := r.ContainsAll(mixed, answers); err != nil {
						t.Fatal(err)
					}
					for i, j := range order {
						if answers[i] != want[j] {
							t.Fatalf("ContainsAll: %016x is %v", mixed[i], answers[i])
						}
						if got, err := r.Contains(mixed[i]); err != nil || (got || before[j]) != want[j] {
							t.Fatalf("Contains(%016x) = %v, %v", mixed[i], got, err)
						}
					}
				}
				got = slices.Clone(before)
				if err := inMemory.All().Mark(probes, got); err != nil || !slices.Equal(got, want) {
					t.Fatalf("Mark in memory: %v", err)
				}
			})
		}
	}
}

func TestAppendRange(t *testing.T) {
	rnd := rand.New(rand.NewPCG(17, 18))
	for name, keys := range shapes() {
		r, err := open(encode(t, keys))
		if err != nil {
			t.Fatal(err)
		}
		probes := probesOf(keys, 1+len(keys)/20, rnd)
		for range 50 {
			lo, hi := probes[rnd.IntN(len(probes))], probes[rnd.IntN(len(probes))]
			got, err := r.AppendRange([]uint64{7}, lo, hi)
			if err != nil {
				t.Fatal(err)
			}
			want := []uint64{7}
			for _, k := range keys {
				if lo <= k && k <= hi {
					want = append(want, k)
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%s: AppendRange(%016x, %016x) gives %d keys, want %d", name, lo, hi, len(got)-1, len(want)-1)
			}
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
				if err := w.AddKeys(rest[:n]); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
				if len(rest) > 0 && rnd.IntN(2) == 0 {
					w.Add(rest[0])
					rest = rest[1:]
				}
			}
			if err := w.Finish(); err != nil {
				t.Fatal(err)
			}
			if w.Count() != uint64(len(keys)) || !bytes.Equal(b.Bytes(), want) {
				t.Errorf("%s, %d workers: another file", name, workers)
			}
		}
	}
}
