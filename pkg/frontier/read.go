package frontier

import (
	"context"
	"io"

	"mercator/formats/record"
)

// What is read before it is taken, twice: this many rows, or fewer when they reach this many bytes.
const (
	readRows  = 256
	readBytes = 256 << 10
)

// heldBytes returns the memory that a row refers to, in bytes.
func heldBytes(row any) int {
	switch r := row.(type) {
	case *record.URL:
		return len(r.URL) + len(r.Host) + len(r.Via) + len(r.Addr) + len(r.AddrError) + len(r.ETag) + len(r.LastModified) + len(r.X)
	case *record.Fetch:
		return len(r.URL) + len(r.Host) + len(r.Via) + len(r.Addr) + len(r.ETag) + len(r.LastModified) + len(r.RedirectURL) + len(r.Error) + len(r.X) + len(r.Body)
	case *record.Link:
		return len(r.SrcURL) + len(r.URL) + len(r.Host) + len(r.Text)
	}
	return 0
}

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
			for held := 0; n < readRows && held < readBytes && end == nil; {
				if end = read(&rows[n]); end == nil {
					held += heldBytes(&rows[n])
					n++
				}
			}
			clear(rows[n:]) // of before
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
