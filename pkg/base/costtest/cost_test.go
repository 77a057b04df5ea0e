package costtest

import (
	"fmt"
	"slices"
	"testing"
)

// failed is a test that is expected to fail.
type failed struct {
	testing.TB
	said string
}

func (f *failed) Helper() {}
func (f *failed) Errorf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
}

var sink int

func TestLinear(t *testing.T) {
	count := func(n int) func() {
		return func() {
			for i := range n {
				sink += i ^ sink
			}
		}
	}
	for name, c := range map[string]struct {
		steps func(n int) int
		fails bool
	}{
		"no work": {func(int) int { return 0 }, false},
		"as long": {func(n int) int { return 10_000 * n }, false},
		"squared": {func(n int) int { return 2 * n * n }, true},
	} {
		t.Run(name, func(t *testing.T) {
			var f failed
			Linear(&f, 500, func(n int) func() { return count(c.steps(n)) })
			if (f.said != "") != c.fails {
				t.Errorf("said %q, want a failure: %v", f.said, c.fails)
			}
		})
	}
}

// What the machine does meanwhile does not count.
func TestOf(t *testing.T) {
	list := make([]int, 1<<20)
	for i := range list {
		list[i] = i * 7919 % len(list)
	}
	done := make(chan struct{})
	got := Of(func() {
		go func() {
			defer close(done)
			slices.Sort(list)
		}()
		<-done
	})
	if all := Of(func() { slices.SortFunc(list, func(a, b int) int { return b - a }) }); got > all {
		t.Errorf("%v counted of another goroutine's work, want less than %v", got, all)
	}
}
