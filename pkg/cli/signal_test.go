package cli

import (
	"testing"
	"time"
)

// TestSameSignal: two signals of one moment, as timeout(1) sends them, are one.
func TestSameSignal(t *testing.T) {
	first := time.Unix(1_700_000_000, 0)
	for later, want := range map[time.Duration]bool{0: true, time.Millisecond: true, 299 * time.Millisecond: true, 300 * time.Millisecond: false, time.Minute: false} {
		t.Run(later.String(), func(t *testing.T) {
			if got := sameSignal(first, first.Add(later)); got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}
