package driver

import (
	"fmt"
	"slices"
	"testing"
)

// Rounds before a person asked for something do not count as dry ones.
func TestRoundsSinceAsked(t *testing.T) {
	names := []string{"seed", "r1", "raise1", "r2", "add3", "r3", "raise3", "r4"}
	for most, want := range map[uint64][]string{1: {"r4"}, 2: {"r4", "r3"}, 3: {"r4", "r3"}} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			if got := roundsSinceAsked(names, most); !slices.Equal(got, want) {
				t.Errorf("%d: %q, want %q", most, got, want)
			}
		})
	}
	if got := roundsSinceAsked(names[:4], 3); !slices.Equal(got, []string{"r2", "r1"}) {
		t.Errorf("%q", got)
	}
	if got := roundsSinceAsked(append(names, "again5"), 3); len(got) > 0 {
		t.Errorf("%q", got)
	}
}
