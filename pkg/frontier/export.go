package frontier

import (
	"context"

	"mercator/formats/record"
	"mercator/pkg/folder/stage"
)

// ExportColumns are the further columns of the rows of Export; nil if there are none.
func (f *Frontier) ExportColumns() (*record.Schema, error) {
	s, _, err := f.current()
	if err != nil {
		return nil, err
	}
	return s.policy.columns(), nil
}

// Export is the body of stage "mfrontier export". It puts out the rows of EachExported,
// with ExportColumns.
func (f *Frontier) Export(ctx context.Context, b *stage.Batch[record.URL, record.URL]) error {
	return f.EachExported(ctx, func(u *record.URL) error { return b.Make("pending", u) })
}

// EachExported calls fn for each URL that is to be added to a new frontier of the same
// policy for it to be as this one, but for what is known of hosts and domains, the credit of the lambda
// page, and what has finished: in the order of EachURL, but
// what is in flight in that in which it was served; of policy walk the start set, by number,
// since where walks stand is chance.
func (f *Frontier) EachExported(ctx context.Context, fn func(*record.URL) error) error {
	s, _, err := f.current()
	if err != nil {
		return err
	}
	if runs := s.policy.starts(); runs != nil {
		return eachEntry(ctx, f.st, runs, func(e *Entry) error { return fn(&e.URL) })
	}
	put := func(q queue, e *Entry) error {
		s.policy.export(q, e)
		return fn(&e.URL)
	}
	// What is in flight lies in flightKey; it goes out as it was served, ahead of all that waits.
	flying := s.layout.sorter(smallSort)
	defer flying.Close()
	written := false
	writeFlying := func() error {
		if written {
			return nil
		}
		written = true
		return eachRow(flying, func(e *Entry) error { return put(queueFlight, e) })
	}
	err = f.each(ctx, s, func(q queue, e *Entry) error {
		if q == queueFlight {
			return addRow(flying, s.policy.order(e), e)
		}
		if err := writeFlying(); err != nil {
			return err
		}
		return put(q, e)
	})
	if err != nil {
		return err
	}
	return writeFlying()
}
