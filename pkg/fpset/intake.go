package fpset

import (
	"context"
	"io"
	"sync"
	"time"
)

// intake reads beside, while the batch before is worked on, and hands what it read
// on in batches: when one is full, or when its first has waited long enough.
type intake[T any] struct {
	rows  int           // rows that fill a batch
	ahead int           // rows read at most while a batch is worked on; 0: a whole batch
	bytes int           // bytes that fill a batch, too
	size  func(*T) int  // nil: all rows are small
	wait  time.Duration // longest that the first row waits for company

	mu    sync.Mutex
	room  sync.Cond // the batch was taken
	news  chan struct{}
	batch []T
	held  int   // bytes of batch
	busy  bool  // with the batch before
	err   error // error that ended reading
	stop  bool
}

// full reports whether the batch waits for no more. mu is held.
func (in *intake[T]) full() bool {
	return len(in.batch) >= in.rows || in.size != nil && in.held >= in.bytes
}

// waits reports whether reading has to wait. mu is held.
func (in *intake[T]) waits() bool {
	return in.full() || in.busy && in.ahead > 0 && len(in.batch) >= in.ahead
}

// run calls each with all that next returns until io.EOF, in order. The slice is
// used again when each has returned.
func (in *intake[T]) run(ctx context.Context, next func(*T) error, each func([]T) error) error {
	in.room.L = &in.mu
	in.news = make(chan struct{}, 1)
	defer func() {
		in.mu.Lock()
		in.stop = true
		in.mu.Unlock()
		in.room.Signal()
	}()
	go in.read(next)
	var old []T
	timer := time.NewTimer(in.wait)
	timer.Stop()
	for late := false; ; late = false {
		select {
		case <-in.news:
		case <-timer.C:
			late = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		in.mu.Lock()
		if !late && !in.full() && in.err == nil {
			in.mu.Unlock()
			timer.Reset(in.wait) // the first row of a batch is there
			continue
		}
		batch, err := in.batch, in.err
		in.batch, in.held, in.busy = old[:0], 0, true
		in.mu.Unlock()
		in.room.Signal()
		timer.Stop()
		if len(batch) > 0 {
			if err := each(batch); err != nil {
				return err
			}
		}
		clear(batch) // lets go of what rows hold
		in.mu.Lock()
		in.busy = false
		in.mu.Unlock()
		in.room.Signal()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		old = batch
	}
}

func (in *intake[T]) read(next func(*T) error) {
	var row, zero T
	for {
		row = zero // it shares nothing with the row before
		err := next(&row)
		in.mu.Lock()
		for err == nil && in.waits() && !in.stop {
			in.room.Wait()
		}
		if in.stop {
			in.mu.Unlock()
			return
		}
		if err == nil {
			in.batch = append(in.batch, row)
			if in.size != nil {
				in.held += in.size(&in.batch[len(in.batch)-1])
			}
		}
		in.err = err
		tell := err != nil || len(in.batch) == 1 || in.full()
		in.mu.Unlock()
		if tell {
			select {
			case in.news <- struct{}{}:
			default: // one waits to be read already
			}
		}
		if err != nil {
			return
		}
	}
}
