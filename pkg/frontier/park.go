package frontier

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/politeness"
	"mercator/pkg/folder/stage"
)

// parking are the outcomes after which a URL is parked: outcomes of settings, which only the user
// changes, and last a server's request for a longer wait than it is granted. A parked URL
// is pending, but no crawl waits for it: it comes back when its server wants it, or by Release.
var parking = [asParked + 1]string(append(record.OutcomesOfSettings[:], record.OutcomeParked))

const asParked = len(record.OutcomesOfSettings) // index of the last one in parking

// never is the due time of a URL that waits for Release.
const never = math.MaxInt64

// parkKey is the order of a parked URL; due is 0 if only Release puts it back.
func parkKey(due record.Time) uint64 { return uint64(cmp.Or(due, never)) }

// Parks reports whether URLs are parked after an outcome.
func Parks(outcome string) bool { return slices.Contains(parking[:], outcome) }

// parkedAs is the list of an outcome with the verdict park.
func parkedAs(outcome string) int {
	if i := slices.Index(parking[:], outcome); i >= 0 {
		return i
	}
	return asParked // a reply with Retry-After
}

// park puts a URL into a list of parked ones.
func (c *change) park(e *Entry, i int) error {
	if c.parked[i] == nil {
		c.parked[i] = c.sorter(smallSort / int64(len(parking)))
	}
	return addRow(c.parked[i], parkKey(e.URL.Due), e)
}

// addParked adds a run to each list that there are rows for.
func (s *state) addParked(tx *store.Tx, lists []*sorter) error {
	for i, rows := range lists {
		if rows == nil || rows.rows == 0 {
			continue
		}
		r, err := writeRun(tx, rows, "parked/", "parked")
		if err != nil {
			return err
		}
		s.Parked[i] = append(s.Parked[i], r)
	}
	return nil
}

// longest is the longest delay that an update gives a URL which is not parked.
func (o *UpdateOptions) longest() record.Time {
	d := max(o.Retries.Delay, o.Retries.MaxDelay, cmp.Or(o.Retries.LongestWait, politeness.LongestWait))
	if o.Dead.After > 0 {
		d = max(d, o.Dead.Delay, o.Dead.MaxDelay)
	}
	return record.Time(d.Microseconds())
}

// Parked counts parked URLs of one outcome.
type Parked struct {
	Outcome string `json:"outcome"`
	URLs    uint64 `json:"urls"`
	Due     string `json:"due,omitempty"` // when the first of them comes back by itself, RFC 3339
}

func (s *state) parkedURLs() (all []Parked) {
	for i, runs := range s.Parked {
		if n := rowsOf(runs); n > 0 {
			p := Parked{Outcome: parking[i], URLs: n}
			if due := firstOf(runs); due < never {
				p.Due = timeText(due)
			}
			all = append(all, p)
		}
	}
	return all
}

// Parked counts the parked URLs, by outcome, and names the host of one; "" if there are none.
func (f *Frontier) Parked() (all []Parked, host string, err error) {
	s, _, err := f.current()
	if err != nil {
		return nil, "", err
	}
	for _, runs := range s.Parked {
		if len(runs) > 0 && host == "" {
			var e Entry
			m := newMerger(f.st, runs[:1])
			defer m.close()
			if err := m.next(&e); err != nil {
				return nil, "", err
			}
			host = e.URL.Host
		}
	}
	return s.parkedURLs(), host, nil
}

// ReleaseOptions say which parked URLs are put back.
type ReleaseOptions struct {
	Txn     string // may be ""
	Outcome string // "": all
	Host    string // "": all
}

// Check refuses an outcome after which no URL is parked.
func (o ReleaseOptions) Check() error {
	if o.Outcome != "" && !slices.Contains(parking[:], o.Outcome) {
		return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("URLs parked as %q", o.Outcome), Want: strings.Join(parking[:], ", ")}
	}
	return nil
}

// Release is the body of stage "mfrontier release": it makes parked URLs due at the round's
// time, and returns how many.
func (f *Frontier) Release(ctx context.Context, b *stage.Batch[record.URL, record.URL], o ReleaseOptions) (released uint64, err error) {
	if err := o.Check(); err != nil {
		return 0, err
	}
	if err := checkNow(b.Now()); err != nil {
		return 0, err
	}
	tx, err := b.Begin(ctx)
	if err != nil {
		return 0, err
	}
	s, err := f.load(tx.Base())
	if err == nil {
		err = s.beside(f.st, tx, o.Txn, "release")
	}
	if err != nil {
		return 0, err
	}
	late := s.layout.sorter(smallSort)
	defer late.Close()
	for i, runs := range s.Parked {
		if o.Outcome != "" && o.Outcome != parking[i] {
			continue
		}
		var left [len(parking)]*sorter
		left[i] = s.layout.sorter(smallSort)
		defer left[i].Close()
		if err := eachEntry(ctx, f.st, runs, func(e *Entry) error {
			if o.Host != "" && o.Host != e.URL.Host {
				return addRow(left[i], e.Key, e)
			}
			e.URL.Due = b.Now()
			return addRow(late, uint64(e.URL.Due), e)
		}); err != nil {
			return 0, err
		}
		if uint64(left[i].rows) == rowsOf(runs) {
			continue // none was of the host
		}
		for _, r := range runs {
			tx.Drop(r.Path)
		}
		s.Parked[i] = nil
		if err := s.addParked(tx, left[:]); err != nil {
			return 0, err
		}
		s.Rewritten += uint64(left[i].rows)
	}
	released = uint64(late.rows)
	switch {
	case released == 0 && o.Txn == "":
		return 0, stage.Unchanged
	case released > 0:
		r, err := writeRun(tx, late, "later/", "later")
		if err != nil {
			return 0, err
		}
		s.Later = append(s.Later, r)
		s.Rewritten += released
	}
	return released, s.save(tx)
}
