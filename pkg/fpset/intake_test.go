package fpset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mercator/pkg/base/must"
)

// schedule gives the numbers 0, 1, … at times after the start, then err.
func schedule(err error, at ...time.Duration) func(*int) error {
	start, n := time.Now(), 0
	return func(row *int) error {
		if n == len(at) {
			return err
		}
		time.Sleep(time.Until(start.Add(at[n])))
		*row = n
		n++
		return nil
	}
}

// A row waits for company no longer than it may, a full batch not at all, and what
// came before an error goes on.
func TestIntake(t *testing.T) {
	broken := errors.New("broken")
	s := time.Second
	for name, c := range map[string]struct {
		in   *intake[int]
		next func() func(*int) error
		want string // each batch, and when it went on
		err  error
	}{
		"slow":       {&intake[int]{rows: 10, wait: s}, func() func(*int) error { return schedule(io.EOF, 0, s/10, 5*s, 20*s) }, "[0 1]@1s [2]@6s [3]@20s ", nil},
		"full":       {&intake[int]{rows: 2, wait: s}, func() func(*int) error { return schedule(io.EOF, 0, 0, 0, 0, 0) }, "[0 1]@0s [2 3]@0s [4]@0s ", nil},
		"by size":    {&intake[int]{rows: 9, bytes: 5, wait: s, size: func(n *int) int { return *n }}, func() func(*int) error { return schedule(io.EOF, 0, 0, 0, 0, 0, 0) }, "[0 1 2 3]@0s [4 5]@0s ", nil},
		"an error":   {&intake[int]{rows: 9, wait: s}, func() func(*int) error { return schedule(broken, 0, s/2) }, "[0 1]@500ms ", broken},
		"none":       {&intake[int]{rows: 9, wait: s}, func() func(*int) error { return schedule(io.EOF) }, "", nil},
		"one at all": {&intake[int]{rows: 1, wait: s}, func() func(*int) error { return schedule(io.EOF, 0, 2*s) }, "[0]@0s [1]@2s ", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, got := time.Now(), ""
				err := c.in.run(t.Context(), c.next(), func(rows []int) error {
					got += fmt.Sprintf("%v@%v ", rows, time.Since(start))
					return nil
				})
				if got != c.want || err != c.err {
					t.Errorf("%s%v, want %s%v", got, err, c.want, c.err)
				}
			})
		})
	}
}

// While a batch is worked on, no more rows are read than may wait; and the end of
// the work ends the reading.
func TestIntakeAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var read atomic.Int64
		next := func(row *int) error {
			*row = int(read.Add(1))
			return nil
		}
		stop := errors.New("enough")
		in := &intake[int]{rows: 100, ahead: 10, wait: time.Second}
		var all []int
		err := in.run(t.Context(), next, func(rows []int) error {
			before := read.Load()
			time.Sleep(time.Minute)
			synctest.Wait()
			// The batch; what may wait; and the row that finds no room.
			if n := read.Load(); n > int64(len(all)+len(rows)+10+1) {
				t.Errorf("%d rows read, of which %d were handed on", n, before)
			}
			if all = append(all, rows...); len(all) >= 1000 {
				return stop
			}
			return nil
		})
		if err != stop {
			t.Error(err)
		}
		for i, n := range all {
			if n != i+1 {
				t.Fatalf("row %d is %d", i, n)
			}
		}
	})
}

// A context that ends ends the run, also while nothing comes.
func TestIntakeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("signal")
		ctx, cancel := context.WithCancelCause(t.Context())
		block := make(chan struct{})
		time.AfterFunc(time.Second, func() { cancel(cause) })
		in := &intake[int]{rows: 9, wait: time.Minute}
		err := in.run(ctx, func(*int) error { <-block; return io.EOF }, func([]int) error { return nil })
		if err != cause {
			t.Errorf("%v, want %v", err, cause)
		}
		close(block)
	})
}

// Test answers a slow asker within a second of the first question.
func TestSlowAsker(t *testing.T) {
	st := newStore(t, nil)
	_, err := markAll(st, "", []uint64{0}, 1, 0, Options{})
	must.OK(t, err)
	set, err := LoadCurrent(st, Options{})
	must.OK(t, err)
	defer set.Close()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var late []time.Duration
		Test(t.Context(), set, Query[int]{
			Next:   schedule(io.EOF, 0, time.Second/2, time.Minute),
			Key:    func(n *int) uint64 { return uint64(*n) },
			Answer: func(n *int, seen bool) error { late = append(late, time.Since(start)); return nil },
		})
		if want := []time.Duration{testWait, testWait, time.Minute}; !slices.Equal(late, want) {
			t.Errorf("answers at %v, want %v", late, want)
		}
	})
}
