package merge

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Whatever is pushed, changed and popped: the least comes first.
func TestHeap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	h := NewHeap(func(a, b *int) bool { return *a < *b })
	var want []int
	for range 3000 {
		switch n := rng.IntN(1000); {
		case rng.IntN(5) < 3:
			h.Push(n)
			want = append(want, n)
		case len(want) == 0:
		case n%2 == 0:
			*h.First() = n
			h.Fix()
			want[0] = n
		default:
			if got := h.Pop(); got != want[0] {
				t.Fatalf("%d, want %d", got, want[0])
			}
			want = want[1:]
		}
		slices.Sort(want)
		if h.Len() != len(want) || len(want) > 0 && *h.First() != want[0] {
			t.Fatalf("%d elements, want %v", h.Len(), want)
		}
	}
	if len(want) < 100 {
		t.Fatal("too few were left for the deep part of the heap to be tried")
	}
}
