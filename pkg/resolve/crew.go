package resolve

import (
	"sync"
	"sync/atomic"
)

// crew is a number of goroutines that take work. There are as many as there is work for, and
// a few that wait for some: the stacks of all would be most of what a batch takes, and most
// of what the garbage collector reads. One whose work turns out to be late goes on with that
// alone, and another takes its place, as long as less than size have been replaced.
type crew[W any] struct {
	work    chan W // to be closed by who gives it
	running sync.WaitGroup

	do       func(w W, late func())
	places   chan struct{} // has one for each that has not been replaced
	replaced chan struct{} // and for each that has
	idle     atomic.Int32
}

const maxIdle = 64

// newCrew makes a crew of size goroutines at most, none of which is there yet. What do does
// with a piece of work may call late in any goroutine, and more than once, before do returns.
func newCrew[W any](size int, do func(w W, late func())) *crew[W] {
	return &crew[W]{work: make(chan W), do: do, places: make(chan struct{}, size), replaced: make(chan struct{}, size)}
}

// give has a piece of work done. It waits until somebody takes it.
func (c *crew[W]) give(w W) {
	if !c.offer(w) {
		c.work <- w
	}
}

// offer gives a piece of work to one who waits for some. If it says that there is none, work
// takes the piece when somebody has time, or a goroutine that is new.
func (c *crew[W]) offer(w W) bool {
	select {
	case c.work <- w:
		return true
	default:
	}
	select {
	case c.places <- struct{}{}:
		c.running.Go(c.run)
	default:
	}
	return false
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
	for {
		w, ok := c.next()
		if !ok {
			<-c.places
			return
		}
		if c.do(w, late); replaced {
			<-c.replaced
			return
		}
	}
}

// next takes a piece of work. It says false if there is none, and enough others wait.
func (c *crew[W]) next() (w W, ok bool) {
	select {
	case w, ok = <-c.work:
		return w, ok
	default:
	}
	defer c.idle.Add(-1)
	if c.idle.Add(1) > maxIdle {
		return w, false
	}
	w, ok = <-c.work
	return w, ok
}
