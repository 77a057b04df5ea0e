// Package costtest measures work in processor time of the thread that does it, so that tests can bound the work and do not depend on what
// else runs on the machine. Tests alone import it.
package costtest

import (
	"runtime"
	"testing"
	"time"
)

// Of is the processor time that f takes on its goroutine; what other goroutines do does not count.
func Of(f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := now()
	f()
	return now() - before
}

const (
	factor = 4 // of the longer input to the shorter
	most   = 7 // times the shorter one's work that the longer one may take; with the square of the length it takes 16 times
	free   = 2 * time.Millisecond
	tries  = 60
)

// Linear fails the test if work grows faster than its input. input makes what takes n to a piece of work; pieces of n and of 4n are done
// in turn until the least times of both agree with that.
func Linear(t testing.TB, n int, input func(n int) (work func())) {
	t.Helper()
	short, long := input(n), input(factor*n)
	least, longest := time.Duration(1<<62), time.Duration(1<<62) // of the short and of the long piece
	for range tries {
		least, longest = min(least, Of(short)), min(longest, Of(long))
		if longest <= most*least+free {
			return
		}
	}
	t.Errorf("%d times the input takes %v of processor time, want at most %v: %d times the %v of the input", factor, longest, most*least+free, most, least)
}
