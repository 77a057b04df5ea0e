package frontier

import (
	"context"
	"strings"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/folder/stage"
)

// Raise is the body of stage "mfrontier raise". A waiting URL gets the priority and the score of its row, if the priority is higher (a lower
// number) or the score is, and moves to the front queue of that priority, behind the others of its host.
// A URL that waits for a time, or for the budget of its domain, goes on waiting for it. Rows of other URLs are dropped.
// It returns how many URLs it raised. All that waits is read once, and files with URLs that leave their queue are
// written again.
func (f *Frontier) Raise(ctx context.Context, b *stage.Batch[record.URL, record.URL], txn string) (raised uint64, err error) {
	s, err := f.checkRaise()
	if err != nil {
		return 0, err
	}
	c := newChange(f, b, s.policy)
	defer c.close()
	c.adds = true
	l := c.newLookup(toRaise, b.Schema())
	if err := eachRead(ctx, b.Read, l.seek); err != nil {
		return 0, err
	}
	if err := c.beginAdd(ctx, txn, "raise"); err != nil {
		return 0, err
	}
	if err := l.findWaiting(ctx, nil); err != nil { // gives nothing
		return 0, err
	}
	if l.raised == 0 && txn == "" {
		return 0, stage.Unchanged
	}
	return l.raised, c.finish(ctx)
}

// CheckRaise refuses a frontier with a policy that has no front queues by priority. Raise does, too, but a transaction that was
// committed is repeated without it.
func (f *Frontier) CheckRaise() error {
	_, err := f.checkRaise()
	return err
}

const toOther = `"mfrontier export OLD | mfrontier add NEW" brings the URLs into a frontier with other parameters`

func (f *Frontier) checkRaise() (*state, error) {
	s, _, err := f.current()
	if err != nil {
		return nil, err
	}
	switch p := s.policy; {
	case !p.ranks:
		return nil, &fault.Error{Class: fault.Usage, Found: "higher priorities for policy " + p.name, Want: "policy " + strings.Join(policiesWith(func(a about) bool { return a.ranks }), ", "), Hint: toOther}
	case p.priorities() == 1:
		return nil, &fault.Error{Class: fault.Usage, Found: "higher priorities for policy " + p.name + " with one front queue", Want: "several front queues", Hint: toOther}
	}
	return s, nil
}
