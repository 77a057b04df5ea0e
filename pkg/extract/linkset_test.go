package extract

import (
	"testing"

	"mercator/pkg/web/linkkind"
)

// TestLargePageIsForgotten: the memory of a page of very many links goes, also where their hash table went before.
func TestLargePageIsForgotten(t *testing.T) {
	s := linkSet{room: 1 << 20}
	s.reset()
	for i := range 2 * idleSlots {
		ref := string([]byte{byte(i), byte(i >> 8)})
		_, hash, slot := s.find(linkkind.A, ref, false)
		s.put(linkkind.A, ref, false, hash, slot)
	}
	s.slots = nil
	if s.reset(); cap(s.all) > idleSlots {
		t.Errorf("room for %d links stays, want at most %d", cap(s.all), idleSlots)
	}
}
