package resolve

import "sync"

// crew is a number of goroutines that take work. One whose work turns out to be late goes on
// with that alone, and another takes its place, as long as less than size have been replaced.
type crew[W any] struct {
	work    chan W // to be closed by who gives it
	running sync.WaitGroup

	do       func(w W, late func())
	size     int
	hired    int
	replaced chan struct{} // has one for each
}

// newCrew makes a crew of size goroutines at most, none of which is there yet; a queue of
// work waits for them. What do does with a piece of work may call late in any goroutine, and
// more than once, before do returns.
func newCrew[W any](size, queue int, do func(w W, late func())) *crew[W] {
	return &crew[W]{work: make(chan W, queue), do: do, size: size, replaced: make(chan struct{}, size)}
}

// hire adds goroutines for so many pieces of work. One goroutine calls it.
func (c *crew[W]) hire(n int) {
	for ; n > 0 && c.hired < c.size; n-- {
		c.hired++
		c.running.Go(c.run)
	}
}

func (c *crew[W]) run() {
	var mu sync.Mutex
	replaced := false
	late := func() {
		mu.Lock()
		defer mu.Unlock()
		if replaced {
			return
		}
		select {
		case c.replaced <- struct{}{}:
			replaced = true
			c.running.Go(c.run)
		default:
		}
	}
	for w := range c.work {
		if c.do(w, late); replaced {
			<-c.replaced
			return
		}
	}
}
