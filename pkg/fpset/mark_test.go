package fpset

import (
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
	"mercator/pkg/folder/stage"
)

// slow is an input of fetch rows that come one by one.
type slow struct {
	rows chan record.Fetch
	sum  record.RowHasher[record.Fetch]
}

func (s *slow) Read(row *record.Fetch) error {
	r, ok := <-s.rows
	if !ok {
		return io.EOF
	}
	*row = r
	s.sum.Add(row)
	return nil
}

func (s *slow) Schema() *record.Schema {
	return &record.Schema{Kind: record.KindFetch, Txn: "r1"}
}

func (s *slow) Trailer() record.Trailer {
	n, hash := s.sum.Sum()
	return record.Trailer{Verified: true, Rows: n, Hash: hash, Txn: "r1", Ledger: record.Ledger{Stages: []record.Stage{
		{Name: "mfetch", Txn: "r1", Made: []record.Count{{Reason: "page", N: n}}, Out: n, OutHash: hash.String()},
	}}}
}

// pipeSink is one end of a pipe, as package cli makes it of standard output.
type pipeSink struct{ io.Writer }

func (pipeSink) Options() record.WriterOptions {
	return record.WriterOptions{Name: "pipe", Level: record.Stored, FlushAfter: time.Second}
}
func (pipeSink) Publish() error { return nil }
func (pipeSink) Abort()         {}

func page(n int) record.Fetch {
	body := fmt.Sprintf("page %d", n%2)
	return record.Fetch{URL: fmt.Sprintf("http://a.test/%d", n), Host: "a.test", Key: uint64(n), Role: record.RolePage,
		Outcome: record.OutcomeFetched, Status: 200, BodyLength: int64(len(body)), ContentFP: fingerprint.OfString(body)}
}

// Down a pipe with a writer that stalls, rows go on within two seconds: a quarter that
// they wait for company, and one that the stream waits for a fuller batch.
func TestMarkOnAPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // its clock moves on when all wait
		st := newStore(t, nil)
		r, w := io.Pipe()
		defer r.Close()
		in := &slow{rows: make(chan record.Fetch, 3)}
		done := make(chan error, 1)
		go func() {
			spec := stage.Spec{Name: "mfpset mark", Verb: "mark", Store: st, Txn: "r1"}
			_, err := stage.Run(context.Background(), spec, in, []stage.Output{pipeSink{w}}, func(ctx context.Context, b *stage.Batch[record.Fetch, record.Fetch]) error {
				_, err := Mark(ctx, st, b, 8<<20, Options{}, func(int64) {})
				return err
			})
			w.Close()
			done <- err
		}()
		start := time.Now()
		in.rows <- page(0)
		in.rows <- page(1)
		in.rows <- page(2)
		rows, err := record.NewReader[record.Fetch](r, record.ReaderOptions{Name: "pipe"})
		must.OK(t, err)
		next := func(n int, duplicate bool) {
			var row record.Fetch
			must.OK(t, rows.Read(&row))
			if row.Key != uint64(n) || row.Duplicate != duplicate {
				t.Errorf("row %d: %+v, want duplicate %v", n, row, duplicate)
			}
		}
		next(0, false)
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("the first row came after %v", d)
		}
		next(1, false)
		next(2, true)
		in.rows <- page(3)
		close(in.rows)
		next(3, true)
		var row record.Fetch
		if err := rows.Read(&row); err != io.EOF {
			t.Fatal(err)
		}
		must.OK(t, <-done)
		if err := rows.Trailer().Ledger.Balance(); err != nil {
			t.Error(err)
		}
	})
}
