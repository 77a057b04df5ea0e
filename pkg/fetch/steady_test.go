package fetch

import (
	"testing"
	"time"
	"unsafe"
)

// TestSteady: a clock that is set back in a batch goes on, and one that is set forward is followed.
func TestSteady(t *testing.T) {
	const second = 1 << 30 // in the first word of a time that has a monotonic reading, too
	begin, ahead := time.Now(), int64(0)
	at := func(elapsed time.Duration) time.Time {
		now := begin.Add(elapsed)
		*(*uint64)(unsafe.Pointer(&now)) += uint64(ahead * second)
		return now
	}
	var elapsed time.Duration
	clock := steady(func() time.Time { return at(elapsed) })
	for _, step := range []struct{ ahead, want int64 }{{0, 1}, {-86400, 2}, {-86400, 3}, {-86399, 4}, {0, 5}, {60, 66}, {0, 67}} {
		ahead = step.ahead
		elapsed += time.Second
		if got := clock().Round(0).Sub(begin.Round(0)); got != time.Duration(step.want)*time.Second {
			t.Errorf("after %v, %d s ahead: %v, want %d s", elapsed, step.ahead, got, step.want)
		}
	}
}
