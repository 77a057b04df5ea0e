package frontier

import (
	"context"
	"io"
)

// readRows is how many rows are read before they are taken.
const readRows = 256

// eachRead gives take the rows of an input, up to its end. Another goroutine reads and decodes the
// next rows meanwhile: when eachRead returns, it has ended. A row is take's until it returns.
func eachRead[T any](ctx context.Context, read func(*T) error, take func(*T) error) error {
	full, spare := make(chan []T, 2), make(chan []T, 2)
	spare <- make([]T, readRows)
	spare <- make([]T, readRows)
	var end error // of the reading
	go func() {
		defer close(full)
		for rows := range spare {
			n := 0
			for n < readRows && end == nil {
				if end = read(&rows[n]); end == nil {
					n++
				}
			}
			if full <- rows[:n]; end != nil {
				return
			}
		}
	}()
	var err error
	var t ticker
	for rows := range full {
		for i := 0; i < len(rows) && err == nil; i++ {
			if err = t.err(ctx); err == nil {
				err = take(&rows[i])
			}
		}
		if err != nil {
			close(spare)
			for range full { // until the goroutine has ended
			}
			return err
		}
		spare <- rows[:readRows]
	}
	if end == io.EOF {
		return nil
	}
	return end
}
