package frontier

import (
	"context"
	"time"

	"mercator/formats/record"
)

// A host that answered before and cannot be connected to has an outage: that is a failure of the host, and no attempt of
// its URLs. They wait for Retries.Delay and as long as the host has been silent, so that the wait doubles from try to try. A host that has
// been silent for longer than longestOutage is taken to be gone: its URLs are judged one by one.
const (
	longestOutage = 2 * time.Hour
	outageWait    = 15 * time.Minute // the longest wait between two tries
)

// mayBeOutage reports whether a row may be due to an outage of its host. Of URLs that were put off it is known by another row of the host.
func (o *outcome) mayBeOutage() bool {
	switch o.outcome {
	case record.OutcomeConnect, record.OutcomeRobotsUnreachable, record.OutcomeDNS:
		return o.verdict == again || o.verdict == giveUp
	case record.OutcomeDeferred:
		return o.verdict == putOff
	}
	return false
}

// outage is until when the URLs of a host wait that was tried at t; 0: it has no outage.
func (r Retries) outage(h *Host, o *outcome, t record.Time) record.Time {
	attempts, delay := r.MaxAttempts, r.Delay
	if r.Of != nil {
		attempts, delay = r.Of(o.url, o.host)
	}
	silent := t - h.LastContact
	if attempts == 1 || h.Contacts <= h.Failures || h.Failures == 0 && o.outcome != record.OutcomeDNS || silent > record.Time(longestOutage.Microseconds()) {
		return 0
	}
	longest := record.Time(min(outageWait, r.MaxDelay).Microseconds())
	if rest := h.ParkedUntil - t; rest > 0 && rest <= longest { // tried before its time, since no other host had URLs
		return h.ParkedUntil
	}
	return t + min(record.Time(delay.Microseconds())+max(silent, 0), longest)
}

// onTrial reports whether a host has an outage and is to be tried again at now: one URL is enough for that.
func (h *Host) onTrial(now record.Time) bool {
	return h.Failures > 1 && h.Contacts > h.Failures && h.ParkedUntil > h.LastContact && now-h.LastContact <= record.Time(longestOutage.Microseconds())
}

// judgeHosts gives the verdicts in rows, which are by hostKey, to pages: URLs of hosts with an outage are put off. It needs the state
// that the hosts have after the batch.
func (c *change) judgeHosts(ctx context.Context, r Retries, rows, pages *sorter) error {
	if rows.rows == 0 {
		return nil
	}
	judged, err := rows.sorted()
	if err != nil {
		return err
	}
	events, err := c.events.sorted()
	if err != nil {
		return err
	}
	defer func(was *sorter) { was.Close(); rows.Close() }(c.events) // others need the memory
	c.events = c.sorter(smallSort)
	table := openTable(c.st, c.s.Hosts)
	defer table.close()
	var group hostGroup
	var ev Host
	var o outcome
	for !events.done { // each row has an event
		if err := context.Cause(ctx); err != nil {
			return err
		}
		order, tried := events.key, record.Time(0)
		failed := false // a host of this key did, before URLs of it were put off
		if !judged.done && judged.key == order {
			o.decode(judged.row)
			failed = o.outcome != record.OutcomeDeferred
		}
		if failed {
			if group, err = find(table, order, group[:0]); err != nil {
				return err
			}
		}
		for !events.done && events.key == order {
			if err := c.events.addPayload(order, events.row); err != nil {
				return err
			}
			if failed {
				if err := ev.Parse(order, events.row); err != nil {
					return err
				}
				h, err := group.host([]byte(ev.Host))
				if err != nil {
					return err
				}
				ev.ParkedUntil = 0 // what politeness asks for
				absorb(h, &ev)
				tried = max(tried, ev.LastContact)
			}
			if err := events.takeRow(); err != nil {
				return err
			}
		}
		if tried == 0 {
			tried = c.now
		}
		for down := ""; !judged.done && judged.key == order; {
			o.decode(judged.row)
			ev = Host{Key: order, Host: o.host}
			if o.outcome != record.OutcomeDeferred {
				down = o.host
			}
			if failed && down == o.host {
				h, err := group.host([]byte(o.host))
				if err != nil {
					return err
				}
				if until := r.outage(h, &o, tried); until > 0 {
					o.verdict, o.open, o.due, ev.ParkedUntil = putOff, false, max(o.due, until), until
				}
			}
			if !o.open {
				verdictOf(&ev, o.verdict, o.outcome)
			}
			if o.open || !o.verdict.final() {
				c.returning++
			}
			if err := addRow(c.events, order, &ev); err != nil {
				return err
			}
			if err := pages.addPayload(flightKey(o.host, o.url), o.append(nil)); err != nil {
				return err
			}
			if err := judged.takeRow(); err != nil {
				return err
			}
		}
	}
	return nil
}
