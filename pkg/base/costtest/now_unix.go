//go:build unix

package costtest

import (
	"time"

	"golang.org/x/sys/unix"
)

// now is the processor time of this thread.
func now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}
