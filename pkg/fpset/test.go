package fpset

import (
	"context"
	"time"

	"mercator/pkg/base/fault"
)

// A Query is a run of tests of keys that each stand for something: a line, a URL.
type Query[T any] struct {
	Next   func(*T) error                  // the next thing; io.EOF after the last
	Key    func(*T) uint64                 // the key of a thing
	Size   func(*T) int                    // bytes that a thing holds; nil: few
	Answer func(thing *T, seen bool) error // is called in order of arrival
	Flush  func() error                    // is called when answers are not to wait longer; may be nil
}

// Limits of a batch of tests.
const (
	testRows  = 1 << 19
	testBytes = 4 << 20
	testWait  = time.Second
)

// Test answers whether each is in the set, within about a second of its arrival,
// and says at the end fault.No if one was not.
func Test[T any](ctx context.Context, set Set, q Query[T]) error {
	var keys []uint64
	var known table
	a := asker{sweep: set.Sweep}
	all := true
	in := &intake[T]{rows: testRows, bytes: testBytes, size: q.Size, wait: testWait}
	err := in.run(ctx, q.Next, func(things []T) error {
		keys = keys[:0]
		for i := range things {
			keys = append(keys, q.Key(&things[i]))
		}
		distinct, seen, err := a.ask(keys)
		if err != nil {
			return err
		}
		known.reset()
		for i, k := range distinct {
			if seen[i] {
				known.put(k)
			}
		}
		for i, k := range keys {
			seen := known.has(k)
			all = all && seen
			if err := q.Answer(&things[i], seen); err != nil {
				return err
			}
		}
		if q.Flush != nil {
			return q.Flush()
		}
		return nil
	})
	if err == nil && !all {
		err = fault.No
	}
	return err
}

// Word is "seen" or "unseen", as the verb test prints it.
func Word(seen bool) string {
	if seen {
		return "seen"
	}
	return "unseen"
}
