package fetch

import (
	"sync"
	"time"
)

// steady is a clock for one batch. Where now is set back, it goes on from where it was, by the monotonic clock: due times of the
// batch are then as far away as before. The next batch finds contacts that ended after its own now (scheduler.load).
func steady(now func() time.Time) func() time.Time {
	var mu sync.Mutex
	base := now()
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		t := now()
		if on := base.Add(t.Sub(base)); t.UnixNano() < on.UnixNano() {
			return on
		}
		base = t
		return t
	}
}
