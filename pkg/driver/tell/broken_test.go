package tell

import (
	"testing"

	"mercator/pkg/merge"
)

// TestDistinct: a page counts once, also if its links do not follow one another.
func TestDistinct(t *testing.T) {
	s := merge.NewSorter(1<<20, "")
	defer s.Close()
	for _, key := range []uint64{7, 0, 7, 9, 0} {
		if err := s.Add(key, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := distinct(s); n != 3 || err != nil {
		t.Errorf("%d, %v; want 3", n, err)
	}
}
