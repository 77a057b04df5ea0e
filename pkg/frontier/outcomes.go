package frontier

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"mercator/formats/record"
	runfile "mercator/formats/run"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/trace"
)

// outcome is the outcome of a URL in flight, with its verdict.
type outcome struct {
	verdict verdict
	attempt uint8
	due     record.Time
	outcome string
	url     string
	host    string
	open    bool   // the policy may queue the URL again, whatever the verdict
	note    []byte // the policy's note about the URL
}

func (o *outcome) append(b []byte) []byte {
	open := byte(0)
	if o.open {
		open = 1
	}
	b = append(b, byte(o.verdict), o.attempt, open)
	b = binary.AppendUvarint(b, uint64(o.due))
	for _, s := range []string{o.outcome, o.url, o.host} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return append(b, o.note...)
}

// decode is the reverse of append, for bytes that this process wrote.
func (o *outcome) decode(b []byte) {
	o.verdict, o.attempt, o.open = verdict(b[0]), b[1], b[2] == 1
	due, n := binary.Uvarint(b[3:])
	b = b[3+n:]
	o.due = record.Time(due)
	for _, s := range []*string{&o.outcome, &o.url, &o.host} {
		size, n := binary.Uvarint(b)
		*s = string(b[n:][:size])
		b = b[n+int(size):]
	}
	o.note = slices.Clone(b)
}

// readOutcomes reads the outcomes to their verified end; epoch is the crawl's epoch
// when they were made. Page rows go to pages, judged, or to byHost those whose verdict depends on their host; what all rows tell about
// hosts goes to the events.
func (c *change) readOutcomes(ctx context.Context, o UpdateOptions, now record.Time, pages, byHost *sorter) (n uint64, epoch string, err error) {
	in, err := o.Outcomes()
	if err != nil {
		return 0, "", err
	}
	err = eachRead(ctx, in.Read, func(row *record.Fetch) error {
		if max(len(row.URL), len(row.Host), len(row.Addr)) > maxString {
			return &fault.Error{Class: fault.Conflict, File: "outcomes", Found: "a URL, host or address of more than 65535 bytes", Want: "URLs of the batch in flight"}
		}
		ev := contact(row)
		if row.Role != record.RoleRobots && row.Role != record.RoleAgain && row.Role != record.RoleLogin {
			n++
			v, due := o.Retries.judge(row, row.Attempt, now)
			out := outcome{verdict: v, attempt: row.Attempt, due: max(due, 0), outcome: row.Outcome, url: row.URL, host: row.Host}
			c.policy.judged(row, &out, now)
			var err error
			if out.mayBeOutage() && (byHost.rows > 0 || out.outcome != record.OutcomeDeferred) { // what is deferred ahead of all failures is so for another reason
				c.buf = out.append(c.buf[:0])
				err = byHost.addPayload(ev.Key, c.buf)
			} else {
				err = c.keepVerdict(&out, &ev, pages)
			}
			if err != nil {
				return err
			}
		}
		return addRow(c.events, ev.Key, &ev)
	})
	if err != nil {
		return 0, "", err
	}
	return n, in.Trailer().Epoch, ofRound("outcomes", in.Trailer(), o.Txn)
}

// keepVerdict gives an outcome to pages, with a verdict that stands, and counts it in its host's event.
func (c *change) keepVerdict(o *outcome, ev *Host, pages *sorter) error {
	if o.open || !o.verdict.final() {
		c.returning++
	}
	if !o.open {
		verdictOf(ev, o.verdict, o.outcome)
	}
	c.buf = o.append(c.buf[:0])
	return pages.addPayload(flightKey(o.host, o.url), c.buf)
}

// ofRound refuses a side input of another round, or with a gap in its ledger.
func ofRound(name string, t record.Trailer, txn string) error {
	if !t.Verified {
		return &fault.Error{Class: fault.Conflict, File: name, Found: "a stream without trailer", Want: "one that a stage of this round ended"}
	}
	if t.Txn != txn {
		return &fault.Error{Class: fault.Conflict, File: name, Found: fmt.Sprintf("records of transaction %q", t.Txn), Want: fmt.Sprintf("%q", txn),
			Hint: "records made by mcat get the name of those that they were made from with --like"}
	}
	return t.Ledger.Balance()
}

// contact returns the facts that a row holds about its host.
func contact(o *record.Fetch) Host {
	ev := Host{Key: hostKey(o.Host), Host: o.Host, ParkedUntil: max(o.RetryAfter, 0), Bytes: uint64(max(o.BodyLength, 0))}
	if o.Addr == "" || o.FetchTime <= 0 {
		return ev
	}
	ev.Contacts, ev.Addr = 1, o.Addr
	ev.DurationUS = uint64(max(o.DurationUS, 0))
	if o.Role != record.RoleRobots { // between contacts for robots.txt its Crawl-delay is not known yet
		ev.DelayUS = uint64(max(o.RequiredDelayUS, 0))
	}
	ev.LastContact = o.FetchTime + record.Time(ev.DurationUS)
	switch o.Outcome {
	case record.OutcomeFetched, record.OutcomeNotModified:
	case record.OutcomeTLS: // it answered, in plain HTTP or with a certificate that is not valid
	default:
		ev.Failures = 1
	}
	return ev
}

// verdictOf adds a page's verdict to its host's event.
func verdictOf(ev *Host, v verdict, outcome string) {
	switch v {
	case again:
		ev.Retried = 1
	case putOff, park:
		ev.Deferred = 1
	default:
		ev.Finished = 1
		if outcome == record.OutcomeFetched || outcome == record.OutcomeNotModified {
			ev.Fetched = 1
		}
		if v == giveUp {
			ev.Dead = 1
		}
	}
}

// flightKey is the key that sorts the batch in flight and its outcomes. It is not
// the url_key: anyone can make thousands of URLs of one url_key, which a set with a
// polynomial of its own lets through, and a page can link to all of them.
func flightKey(host, url string) uint64 {
	var room [512]byte
	b := append(append(room[:0], host...), 0) // in no host
	h := sha256.Sum256(append(b, url...))
	return binary.BigEndian.Uint64(h[:])
}

// applyOutcomes gives each URL of the batch in flight its outcome. Both are read in the order of flightKey, so
// that the first difference shows.
func (c *change) applyOutcomes(ctx context.Context, outcomes *sorter) error {
	fl := c.s.InFlight
	r, file, err := openRun(c.st, fl.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	rows, err := outcomes.sorted()
	if err != nil {
		return err
	}
	m := matcher{rows: rows}
	scan := r.Scan(runfile.Start)
	var t ticker
	var e Entry
	for {
		key, payload, err := scan.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = parseRow(&e, key, payload, fl.Path)
		}
		if err == nil {
			err = t.err(ctx)
		}
		if err != nil {
			return err
		}
		o, err := m.match(&e)
		if err != nil {
			return err
		}
		if err := c.applyVerdict(&e, &o); err != nil {
			return err
		}
	}
	if err := m.checkAllMatched(); err != nil {
		return err
	}
	c.tx.Drop(fl.Path)
	c.s.Counts.InFlight -= fl.all()
	c.s.InFlight = nil
	return c.finishRefused(ctx, fl)
}

// finishRefused finishes the URLs that went out of the queues with the batch because a rule refused them.
func (c *change) finishRefused(ctx context.Context, fl *flight) error {
	err := eachEntry(ctx, c.st, fl.Refused, func(e *Entry) error {
		o := outcome{verdict: finish, outcome: record.OutcomeRefused, url: e.URL.URL, host: e.URL.Host}
		c.policy.judged(&record.Fetch{URL: o.url, Host: o.host, Outcome: o.outcome}, &o, c.now)
		if !o.open {
			ev := Host{Key: hostKey(o.host), Host: o.host}
			verdictOf(&ev, o.verdict, o.outcome)
			if err := addRow(c.events, ev.Key, &ev); err != nil {
				return err
			}
		}
		return c.applyVerdict(e, &o)
	})
	for _, r := range fl.Refused {
		c.tx.Drop(r.Path)
	}
	return err
}

// isOf reports whether o is the outcome of a URL in flight.
func (o *outcome) isOf(e *Entry) bool { return o.url == e.URL.URL && o.host == e.URL.Host }

// matcher finds the outcome of each URL in flight, in flightKey.
type matcher struct {
	rows  *peeker
	key   uint64
	aside []outcome // outcomes of other URLs with the same key
}

// maxAside bounds the outcomes that are kept for URLs of one key: more come only
// if the batch has a URL as often.
const maxAside = 1024

func (m *matcher) match(e *Entry) (outcome, error) {
	if e.Key != m.key {
		if err := m.leftover(); err != nil {
			return outcome{}, err
		}
		m.key = e.Key
	}
	// Walks may visit a URL twice in a batch, with one of them for the second time.
	exact := func(o outcome) bool { return o.isOf(e) && o.attempt == e.URL.Attempt }
	at := slices.IndexFunc(m.aside, exact)
	for at < 0 && !m.rows.done && m.rows.key == m.key && len(m.aside) < maxAside {
		var o outcome
		o.decode(m.rows.row)
		if err := m.rows.takeRow(); err != nil {
			return outcome{}, err
		}
		if m.aside = append(m.aside, o); exact(o) {
			at = len(m.aside) - 1
		}
	}
	if at < 0 {
		at = slices.IndexFunc(m.aside, func(o outcome) bool { return o.isOf(e) })
	}
	if at >= 0 {
		o := m.aside[at]
		m.aside = slices.Delete(m.aside, at, at+1)
		return o, nil
	}
	if err := m.leftover(); err != nil {
		return outcome{}, err
	}
	if !m.rows.done && m.rows.key < m.key {
		return outcome{}, m.checkAllMatched()
	}
	return outcome{}, notTheBatch("no outcome for " + e.URL.URL)
}

// leftover refuses outcomes of the last key that no URL in flight has claimed.
func (m *matcher) leftover() error {
	if len(m.aside) == 0 {
		return nil
	}
	return notTheBatch(fmt.Sprintf("an outcome for %s, which is not in flight", m.aside[0].url))
}

// checkAllMatched refuses outcomes that are left when all URLs in flight have theirs.
func (m *matcher) checkAllMatched() error {
	if err := m.leftover(); err != nil || m.rows.done {
		return err
	}
	var o outcome
	o.decode(m.rows.row)
	return notTheBatch(fmt.Sprintf("an outcome for %s, which is not in flight or has one already", o.url))
}

func notTheBatch(found string) error {
	return &fault.Error{Class: fault.Conflict, File: "outcomes", Found: found, Want: "exactly one outcome for each URL in flight"}
}

// verdicts are the names of verdicts in a trace.
var verdicts = [...]string{finish: "done", again: "to be tried again", putOff: "put off", giveUp: "given up", park: "parked"}

// dueText says when a URL is due, if it has a time.
func dueText(due record.Time) string {
	if due <= 0 {
		return ""
	}
	return ", due " + timeText(due)
}

// applyVerdict finishes a URL, or queues it again, by its verdict.
func (c *change) applyVerdict(e *Entry, o *outcome) error {
	n := &c.s.Counts
	if trace.On(e.URL.URL) {
		trace.Say("mfrontier", e.URL.URL, "%s in attempt %d: %s%s", o.outcome, e.URL.Attempt+1, verdicts[o.verdict], dueText(o.due))
	}
	switch o.verdict {
	case again:
		n.Retried++
		e.URL.Attempt++
	case putOff, park:
		n.Deferred++
	default:
		if back, err := c.policy.ended(c, e, o); back || err != nil {
			return err
		}
		n.Finished++
		n.outcome(o.outcome)
		if o.verdict == giveUp {
			n.Dead++
		}
		return nil
	}
	n.Pending++
	e.URL.Due = o.due
	return c.policy.waits(c, e, o)
}
