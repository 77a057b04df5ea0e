package bloom

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
)

// TestOneEncoding: a set added at once or in parts, in any order of parts, is the
// same file.
func TestOneEncoding(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	keys := make([]uint64, 5000)
	for i := range keys {
		keys[i] = rnd.Uint64()
	}
	want := must(3, keys...)
	for range 5 {
		rnd.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		cut := rnd.IntN(len(keys))
		old, err := open(must(3, keys[:cut]...))
		if err != nil {
			t.Fatal(err)
		}
		var f buffer
		if _, err := Write(&f, 0, 0, old, places(keys[cut:])); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(f.b, want) {
			t.Fatalf("parts of %d and %d make another file", cut, len(keys)-cut)
		}
	}
}

func TestWriteRefusesDescending(t *testing.T) {
	list := []uint64{1 << 63, 0}
	_, err := Write(&buffer{}, 0, 2, nil, func() (uint64, error) {
		if len(list) == 0 {
			return 0, io.EOF
		}
		p := list[0]
		list = list[1:]
		return p, nil
	})
	if err == nil {
		t.Error("places in descending order are written")
	}
}

// TestRates: the rate of false drops is what the formula expects, and what the
// header counts, at many fills; a full filter is no error.
func TestRates(t *testing.T) {
	for _, perKey := range []int{24, 12, 8, 2, 1} {
		t.Run(fmt.Sprint(perKey), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(uint64(perKey), 2))
			const pages = 8
			keys := make([]uint64, pages*PageBits/perKey)
			for i := range keys {
				keys[i] = rnd.Uint64N(1<<48) | 0xabcd<<48 // one host's
			}
			r, err := open(must(pages, keys...))
			if err != nil {
				t.Fatal(err)
			}
			others := make([]uint64, 400_000)
			for i := range others {
				others[i] = rnd.Uint64N(1<<48) | 0xabcd<<48
			}
			seen := make([]bool, len(others))
			if err := r.ContainsAll(others, seen); err != nil {
				t.Fatal(err)
			}
			got := 0
			for _, yes := range seen {
				if yes {
					got++
				}
			}
			rate, expected := float64(got)/float64(len(others)), Expected(uint64(len(keys)), pages)
			t.Logf("%d bits a key: %.4f %% of false drops, expected %.4f, counted %.4f", perKey, 100*rate, 100*expected, 100*r.Rate)
			for _, want := range []float64{expected, r.Rate} {
				if diff := rate - want; diff > 0.1*want+1e-4 || -diff > 0.1*want+1e-4 {
					t.Errorf("rate %g, want %g", rate, want)
				}
			}
		})
	}
}

// FuzzOpen: no input panics; what passes the check can be asked and extended.
func FuzzOpen(f *testing.F) {
	for _, v := range vectors() {
		f.Add(v.Bytes, uint64(1))
	}
	f.Fuzz(func(t *testing.T, b []byte, key uint64) {
		r, err := open(b)
		if err != nil || r.Check(nil) != nil {
			return
		}
		var out buffer
		if _, err := Write(&out, 0, 0, r, places([]uint64{key})); err != nil {
			t.Fatal(err)
		}
		if held, err := decode(out.b, "x.bloom", key); err != nil || len(held) != 1 {
			t.Fatalf("%v, %v", held, err)
		}
	})
}
