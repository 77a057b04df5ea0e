package frontier

import (
	"context"
	"math"

	"mercator/formats/record"
	"mercator/pkg/folder/stage"
)

// addNew adds rows. If a row's URL waits already, it gets the row's priority, if that is higher, and the row is dropped: no URL waits twice.
func (c *change) addNew(ctx context.Context, b *stage.Batch[record.URL, record.URL], o AddOptions) error {
	l := c.newLookup(toAdd, b.Schema())
	if err := c.spool(ctx, b.Read, o.Prioritizer, l.seek); err != nil {
		return err
	}
	if err := c.beginAdd(ctx, o.Txn, "add"); err != nil {
		return err
	}
	return l.findWaiting(ctx, c.found)
}

// An Add with AddOptions.Again queues URLs once more. A row with a URL that waits or is in flight is dropped, and so is
// a second row of one URL. A parked URL is put back in place of its row. All others wait like new ones, without the
// failures that they had; no limit of new URLs drops them. A row says in column "was" which outcome its URL had. That
// is taken back: a URL counts once, however often it is fetched.

// addAgain reads the rows, begins the change, and queues the URLs that do not wait.
func (c *change) addAgain(ctx context.Context, b *stage.Batch[record.URL, record.URL], o AddOptions) error {
	l := c.newLookup(toAgain, b.Schema())
	err := eachRead(ctx, b.Read, func(u *record.URL) error {
		if !fits(u) {
			b.Drop(dropRange)
			return nil
		}
		u.Attempt, u.Due = 0, 0
		return l.seek(u)
	})
	if err != nil {
		return err
	}
	if err := c.beginAdd(ctx, o.Txn, "add"); err != nil {
		return err
	}
	ranks, err := o.Prioritizer.ranked(c.policy.priorities(), c.found)
	if err != nil {
		return err
	}
	defer ranks.close()
	if err := l.findWaiting(ctx, func(u *record.URL) error {
		if err := c.takeBack(u); err != nil {
			return err
		}
		return ranks.addURL(ctx, u)
	}); err != nil {
		return err
	}
	c.limits = Limits{}
	return ranks.rankRest(ctx)
}

// takeBack takes back the outcome that a URL had. One without, or with an outcome that no URL here has, counts as a new one.
func (c *change) takeBack(u *record.URL) error {
	n, was := &c.s.Counts, u.Extra.Text(record.WasColumn)
	if !n.takeBack(was) {
		return nil
	}
	n.Finished--
	n.Discovered--
	const less = math.MaxUint64 // by one
	ev := Host{Key: hostKey(u.Host), Host: u.Host, Discovered: less, Finished: less}
	if was == record.OutcomeFetched || was == record.OutcomeNotModified {
		ev.Fetched = less
	}
	return addRow(c.events, ev.Key, &ev)
}
