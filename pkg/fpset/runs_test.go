package fpset

import (
	"testing"

	"mercator/formats/store"
)

// TestRunsByAge: a run of a later attempt has a longer name, and is no younger for it.
func TestRunsByAge(t *testing.T) {
	want := []string{"runs/000009-1000000.fps", "runs/000010-2.fps", "runs/000010-10.fps", "runs/1000000-0.fps"}
	m := new(store.Manifest)
	for _, i := range []int{2, 0, 3, 1} {
		m.Files = append(m.Files, store.Entry{Path: want[i], Role: roleRun})
	}
	for i, e := range runsOf(m) {
		if e.Path != want[i] {
			t.Errorf("run %d is %s, want %s", i, e.Path, want[i])
		}
	}
}
