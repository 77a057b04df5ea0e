package frontier

import (
	"context"
	"math"

	"mercator/formats/record"
	"mercator/pkg/stage"
)

// Columns of exported URLs that url records do not have otherwise. Add knows them.
const (
	columnVisits   = "visits"
	columnChanges  = "changes"
	columnObserved = "observed_us"
	columnVisited  = "last_visit"
	columnGone     = "gone"
	columnUntil    = "promised_until"
	columnBroken   = "promises_broken"
	columnCredit   = "credit"
)

var (
	visitColumns  = record.NewSchema(record.KindURL, record.Column{Name: columnVisits}, record.Column{Name: columnChanges}, record.Column{Name: columnObserved}, record.Column{Name: columnVisited, Time: true}, record.Column{Name: columnGone}, record.Column{Name: columnUntil, Time: true}, record.Column{Name: columnBroken})
	creditColumns = record.NewSchema(record.KindURL, record.Column{Name: columnCredit})
)

// further is the schema of what the policy keeps of a URL besides its record; nil: nothing.
func (p *policy) further() *record.Schema {
	switch {
	case p.revisit != nil:
		return visitColumns
	case p.tax > 0:
		return creditColumns
	}
	return nil
}

// ExportColumns are the further columns of the rows of Export; nil if there are none.
func (f *Frontier) ExportColumns() (*record.Schema, error) {
	s, _, err := f.current()
	if err != nil {
		return nil, err
	}
	return s.policy.further(), nil
}

// Export is the body of stage "mfrontier export", whose output has ExportColumns: the
// rows of EachExported.
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
	if s.Walk != nil {
		return eachEntry(ctx, f.st, s.Walk.Starts, func(e *Entry) error { return fn(&e.URL) })
	}
	columns := s.policy.further()
	put := func(q queue, e *Entry) error {
		switch {
		case s.policy.revisit != nil && e.Visit.Visits > 0:
			e.URL.Extra = visitExtra(columns, &e.Visit)
		case s.Credit != nil:
			credit := s.creditOf(q, e)
			e.URL.Extra = columns.Extra(func(string) uint64 { return credit })
		}
		return fn(&e.URL)
	}
	// What is in flight lies in flightKey; it goes out as it was served, ahead of all that waits.
	flying := s.layout.sorter(smallSort)
	defer flying.Close()
	landed := false
	land := func() error {
		if landed {
			return nil
		}
		landed = true
		return eachRow(flying, func(e *Entry) error { return put(queueFlight, e) })
	}
	err = f.each(ctx, s, func(q queue, e *Entry) error {
		switch {
		case q == queueFlight && s.Credit != nil:
			return addRow(flying, s.policy.creditKey(e), e)
		case q == queueFlight:
			return addRow(flying, e.Place, e)
		}
		if err := land(); err != nil {
			return err
		}
		return put(q, e)
	})
	if err != nil {
		return err
	}
	return land()
}

func visitExtra(s *record.Schema, v *Visit) record.Extra {
	return s.Extra(func(name string) uint64 {
		switch name {
		case columnVisits:
			return uint64(v.Visits)
		case columnChanges:
			return uint64(v.Changes)
		case columnObserved:
			return v.ObservedUS
		case columnVisited:
			return uint64(v.Last)
		case columnGone:
			return uint64(v.Gone)
		case columnUntil:
			return uint64(v.Until)
		}
		return uint64(v.Broken)
	})
}

// visitOf is the reverse of visitExtra, for any row: nothing in it is more than visits
// lead to.
func (p *schedule) visitOf(x record.Extra) (v Visit) {
	number := func(name string, most uint64) uint64 {
		n, _ := x.Number(name)
		return min(n, most)
	}
	when := func(name string) record.Time {
		n, _ := x.Number(name)
		return max(record.Time(n), 0)
	}
	v.Visits = uint32(number(columnVisits, math.MaxUint32))
	if v.Visits == 0 {
		return v
	}
	v.Changes = uint32(number(columnChanges, enough-1))
	v.ObservedUS = number(columnObserved, p.mostObserved(v.Changes))
	v.Last = when(columnVisited)
	v.Gone = uint8(number(columnGone, uint64(p.gone-1))) // a page that is gone for good does not wait
	v.Until = when(columnUntil)
	v.Broken = uint8(number(columnBroken, math.MaxUint8))
	return v
}

// recall takes from a row that is added what an export has of it.
func (c *change) recall(u *record.URL, a *arrival) {
	switch {
	case c.adds == nil:
	case c.adds.revisit != nil:
		v := c.adds.revisit.visitOf(u.Extra)
		if c.entry.Visit = v; v.Visits > 0 {
			a.class = 1 + uint8(c.adds.revisit.class(&v))
		}
	case c.adds.tax > 0:
		a.credit, a.given = u.Extra.Number(columnCredit)
	}
}
