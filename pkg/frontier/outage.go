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
	silent := t - h.LastContact // below 0: the clock was turned back
	if attempts == 1 || h.Contacts <= h.Failures || h.Failures == 0 && o.outcome != record.OutcomeDNS || max(silent, -silent) > record.Time(longestOutage.Microseconds()) {
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

// judgeHosts gives the outcomes in rows, which are by hostKey, to pages with their verdicts: URLs of hosts with an outage are put off. It needs
// the state that the hosts have after the batch, so it passes over the events of all hosts.
func (c *change) judgeHosts(ctx context.Context, r Retries, rows, pages *sorter) error {
	if rows.rows == 0 {
		return nil
	}
	events, err := c.events.sorted()
	if err != nil {
		return err
	}
	defer func(was *sorter) { was.Close(); rows.Close() }(c.events) // others need the memory
	c.events = c.sorter(smallSort)
	j := hostJudge{change: c, retries: r, pages: pages, table: openTable(c.st, c.s.Hosts)}
	defer j.table.close()
	j.rows, err = rows.sorted()
	for err == nil && !events.done { // each outcome has an event
		if err = context.Cause(ctx); err == nil {
			err = j.judgeGroup(events)
		}
	}
	return err
}

// hostJudge gives their verdicts to the URLs that may have met an outage.
type hostJudge struct {
	*change
	retries Retries
	rows    *peeker // outcomes, by hostKey
	pages   *sorter // the same, judged
	table   *table  // hosts before the batch
	group   hostGroup
	o       outcome // of the next row
	ev      Host
}

// judgeGroup takes the events and outcomes of the hosts of the next key.
func (j *hostJudge) judgeGroup(events *peeker) (err error) {
	key, tried := events.key, record.Time(0)
	for err == nil && j.more(key) && j.o.outcome == record.OutcomeDeferred { // before a failure, and so for another reason
		err = j.handOn(0)
	}
	failed := err == nil && j.more(key)
	if failed {
		j.group, err = find(j.table, key, j.group[:0])
	}
	for err == nil && !events.done && events.key == key {
		if err = j.events.addPayload(key, events.row); err == nil && failed {
			err = j.absorb(key, events.row)
			tried = max(tried, j.ev.LastContact)
		}
		if err == nil {
			err = events.takeRow()
		}
	}
	if tried == 0 {
		tried = j.now
	}
	for err == nil && j.more(key) {
		h, lookErr := j.group.host([]byte(j.o.host))
		if lookErr != nil {
			return lookErr
		}
		err = j.handOn(j.retries.outage(h, &j.o, tried))
	}
	return err
}

// absorb adds an event to its host of the group, without the wait that politeness asks for.
func (j *hostJudge) absorb(key uint64, event []byte) error {
	if err := j.ev.Parse(key, event); err != nil {
		return err
	}
	h, err := j.group.host([]byte(j.ev.Host))
	if err == nil {
		j.ev.ParkedUntil = 0
		absorb(h, &j.ev)
	}
	return err
}

// more reports whether the next outcome is of a host of that key, and decodes it.
func (j *hostJudge) more(key uint64) bool {
	if j.rows.done || j.rows.key != key {
		return false
	}
	j.o.decode(j.rows.row)
	return true
}

// handOn hands on the next outcome. until is when the outage of its host is looked at again; 0: it has none.
func (j *hostJudge) handOn(until record.Time) error {
	o, ev := &j.o, Host{Key: j.rows.key, Host: j.o.host, ParkedUntil: until}
	if until > 0 {
		o.verdict, o.open, o.due = putOff, false, max(o.due, until)
	}
	if err := j.keepVerdict(o, &ev, j.pages); err != nil {
		return err
	}
	if err := addRow(j.events, ev.Key, &ev); err != nil {
		return err
	}
	return j.rows.takeRow()
}
