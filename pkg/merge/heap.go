package merge

// Heap is a binary heap: its first element comes before all others. If no two elements are equal, their order out
// does not depend on their order in. (container/heap allocates for each element.)
type Heap[T any] struct {
	before func(a, b *T) bool
	all    []T
}

// NewHeap returns an empty heap.
func NewHeap[T any](before func(a, b *T) bool) Heap[T] { return Heap[T]{before: before} }

// Len is the number of elements.
func (h *Heap[T]) Len() int { return len(h.all) }

// First is the first element, where there is one. Whoever changes it calls Fix.
func (h *Heap[T]) First() *T { return &h.all[0] }

// Push adds an element.
func (h *Heap[T]) Push(x T) {
	h.all = append(h.all, x)
	for i := len(h.all) - 1; i > 0 && h.before(&h.all[i], &h.all[(i-1)/2]); i = (i - 1) / 2 {
		h.all[i], h.all[(i-1)/2] = h.all[(i-1)/2], h.all[i]
	}
}

// Pop takes the first element away.
func (h *Heap[T]) Pop() T {
	first, last := h.all[0], len(h.all)-1
	h.all[0] = h.all[last]
	clear(h.all[last:]) // what it points to may go
	h.all = h.all[:last]
	h.Fix()
	return first
}

// Fix moves the first element, which may have changed, to where it belongs.
func (h *Heap[T]) Fix() {
	all := h.all
	for i := 0; ; {
		least := i
		for k := 2*i + 1; k <= 2*i+2 && k < len(all); k++ {
			if h.before(&all[k], &all[least]) {
				least = k
			}
		}
		if least == i {
			return
		}
		all[i], all[least] = all[least], all[i]
		i = least
	}
}
