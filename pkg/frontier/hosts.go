package frontier

import (
	"context"
	"io"

	"mercator/formats/segment"
	"mercator/pkg/durable"
	"mercator/pkg/fingerprint"
)

// hostTable looks hosts up in ascending order of their fingerprints. Runs are
// read forward only, and only where a host that is asked for can be.
type hostTable struct {
	runs []*hostRun // newest first
}

type hostRun struct {
	file durable.File
	scan *segment.Scanner[segment.Host]
	row  segment.Host
	any  bool // row is set
	done bool
}

// openHosts opens the table of runs, which stand oldest first.
func openHosts(fs files, runs []run) (*hostTable, error) {
	t := &hostTable{}
	for i := len(runs) - 1; i >= 0; i-- {
		r, file, err := openRun[segment.Host](fs, runs[i].Path)
		if err != nil {
			t.close()
			return nil, err
		}
		t.runs = append(t.runs, &hostRun{file: file, scan: r.Scan(runs[i].From)})
	}
	return t, nil
}

func (t *hostTable) close() {
	for _, r := range t.runs {
		r.file.Close()
	}
}

// find fills h with the state of the host of that fingerprint, and reports
// whether there is one. Fingerprints must ascend from call to call.
func (t *hostTable) find(order uint64, h *segment.Host) (bool, error) {
	for _, r := range t.runs {
		if !r.done && (!r.any || r.row.Order < order) {
			switch err := r.scan.Seek(order, &r.row); {
			case err == io.EOF:
				r.done, r.any = true, false
			case err != nil:
				return false, err
			default:
				r.any = true
			}
		}
		if r.any && r.row.Order == order {
			*h = r.row
			h.Last = append([]segment.LevelPlace(nil), h.Last...)
			return true, nil
		}
	}
	return false, nil
}

// hosts brings the host table up to date with events and new URLs, and gives
// the new URLs their places. Hosts of equal FP64 share one row.
func (c *change) hosts(ctx context.Context, old []run) error {
	events, err := c.events.sorted()
	if err != nil {
		return err
	}
	fresh, err := c.fresh.sorted()
	if err != nil || fresh.done && events.done {
		return err
	}
	table, err := openHosts(c.st, old)
	if err != nil {
		return err
	}
	defer table.close()
	w, err := newRun[segment.Host](c.tx, "hosts/", "hosts", 0)
	if err != nil {
		return err
	}
	for !events.done || !fresh.done {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		order := events.key
		if events.done || !fresh.done && fresh.key < order {
			order = fresh.key
		}
		var h segment.Host
		if _, err := table.find(order, &h); err != nil {
			return err
		}
		h.Order = order
		for ; !events.done && events.key == order; err = events.take() {
			if err != nil {
				return err
			}
			var ev segment.Host
			if err := segment.DecodeRow(events.row, &ev); err != nil {
				return err
			}
			absorb(&h, &ev)
		}
		if err != nil {
			return err
		}
		for ; !fresh.done && fresh.key == order; err = fresh.take() {
			if err != nil {
				return err
			}
			if err := c.place(&h, fresh.row); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		if err := w.add(&h); err != nil {
			return err
		}
	}
	r, err := w.finish()
	c.s.Hosts = append(c.s.Hosts, r)
	return err
}

// place queues a new URL of host h.
func (c *change) place(h *segment.Host, row []byte) error {
	var e segment.Entry
	if err := segment.DecodeRow(row, &e); err != nil {
		return err
	}
	h.Host = e.URL.Host
	h.Discovered++
	c.s.Counts.Discovered++
	c.s.Counts.Pending++
	if e.URL.Due != 0 {
		return c.wait(&e)
	}
	level := c.s.level(e.URL.Priority)
	e.Order, e.Place = orderOf(level, nextPlace(h, level, c.s.V[level])), 0
	return addRow(c.queue, e.Order, &e)
}

// nextPlace is the end of the host's queue: v = max(V, last + 1).
func nextPlace(h *segment.Host, level uint8, v uint64) uint64 {
	i := 0
	for i < len(h.Last) && h.Last[i].Level < level {
		i++
	}
	if i == len(h.Last) || h.Last[i].Level != level {
		h.Last = append(h.Last, segment.LevelPlace{})
		copy(h.Last[i+1:], h.Last[i:])
		h.Last[i] = segment.LevelPlace{Level: level, Place: v}
		return v
	}
	h.Last[i].Place = max(v, h.Last[i].Place+1)
	return h.Last[i].Place
}

// absorb adds an event to a host's state. Events come in the
// order of the outcomes, which is that of the contacts.
func absorb(h, ev *segment.Host) {
	h.Host = ev.Host
	h.Finished += ev.Finished
	h.Fetched += ev.Fetched
	h.Retried += ev.Retried
	h.Deferred += ev.Deferred
	h.Dead += ev.Dead
	h.ParkedUntil = max(h.ParkedUntil, ev.ParkedUntil)
	if ev.Contacts == 0 {
		return
	}
	if h.Contacts == 0 {
		h.DurationUS = ev.DurationUS
	} else {
		// An eighth for the newest, as TCP smooths round-trip times (RFC 6298).
		h.DurationUS = (7*h.DurationUS + ev.DurationUS) / 8
	}
	h.Contacts += ev.Contacts
	h.DelayUS = ev.DelayUS
	h.LastContact = max(h.LastContact, ev.LastContact)
	h.Addr = ev.Addr
	if ev.Failures == 0 {
		h.Failures = 0
	} else {
		h.Failures += ev.Failures
	}
}

// Host returns the state of a host; found is false if the frontier never had a
// URL of it.
func (f *Frontier) Host(host string) (h segment.Host, found bool, err error) {
	s, _, err := f.current()
	if err != nil {
		return h, false, err
	}
	table, err := openHosts(f.st, s.Hosts)
	if err != nil {
		return h, false, err
	}
	defer table.close()
	found, err = table.find(fingerprint.OfString(host), &h)
	return h, found && h.Host == host, err
}

// eachHost calls fn for every host, by fingerprint.
func eachHost(ctx context.Context, fs files, runs []run, fn func(*segment.Host) error) error {
	m := newMerger[segment.Host](fs, runs)
	defer m.close()
	var t ticker
	for {
		var h segment.Host
		err := m.next(&h)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = t.err(ctx)
		}
		if err != nil {
			return err
		}
		if order, more := m.order(); more && order == h.Order {
			continue // a newer run has the host too
		}
		if err := fn(&h); err != nil {
			return err
		}
	}
}
