package frontier

import (
	"encoding/binary"

	"mercator/pkg/web/canon"
)

// limits count the URLs of a batch by host and registered domain.
type limits struct {
	perHost, perDomain int
	hosts, domains     map[uint64]int32 // by hostKey
}

func newLimits(o NextOptions) *limits {
	return &limits{o.PerHost, o.PerDomain, map[uint64]int32{}, map[uint64]int32{}}
}

// admit reports whether another URL of host is within the limits, and counts it.
func (l *limits) admit(host string) bool {
	var h, d uint64
	if l.perHost > 0 {
		if h = hostKey(host); int(l.hosts[h]) == l.perHost {
			return false
		}
	}
	if l.perDomain > 0 {
		if d = hostKey(canon.RegisteredDomain(host)); int(l.domains[d]) == l.perDomain {
			return false
		}
		l.domains[d]++
	}
	if l.perHost > 0 {
		l.hosts[h]++
	}
	return true
}

// overLook times a batch's size is the most that is read to find URLs of hosts below their share.
const overLook = 4

// reserve has URLs of hosts that have their share of the batch already. The batch takes them only if it would
// be too small without. nil: hosts have no share.
type reserve struct {
	rows  *sorter        // URLs in order of service, each behind its key
	share int            // most URLs of a host
	most  int            // most rows
	taken map[uint64]int // URLs in the batch, by hostKey
	buf   []byte
}

// reserve makes the reserve of a batch of n URLs. A batch by time has none; nor has one of more than MaxCapped URLs,
// since hosts are counted in memory.
func (p *picker) reserve(o NextOptions, n int) *reserve {
	share := p.s.policy.share
	if share == 0 || o.For > 0 || n > MaxCapped {
		return nil
	}
	return &reserve{rows: p.sorter(smallSort), share: (o.N + share - 1) / share, most: (overLook - 1) * n, taken: map[uint64]int{}}
}

func (r *reserve) full() bool { return r != nil && r.rows.rows >= r.most }

// wants reports whether a host has its share of the batch, and counts its URL if it has not.
func (r *reserve) wants(host string) bool {
	if r == nil {
		return false
	}
	h := hostKey(host)
	if r.taken[h] == r.share {
		return true
	}
	r.taken[h]++
	return false
}

func (r *reserve) keep(e *Entry) error {
	r.buf = e.Append(binary.AppendUvarint(r.buf[:0], e.Key))
	return r.rows.addPayload(uint64(r.rows.rows), r.buf)
}

func (r *reserve) each(fn func(*Entry) error) error {
	if r == nil {
		return nil
	}
	rows, err := r.rows.sorted()
	var e Entry
	for err == nil && !rows.done {
		key, n := binary.Uvarint(rows.row)
		if err = e.Parse(key, rows.row[n:]); err == nil {
			if err = fn(&e); err == nil {
				err = rows.takeRow()
			}
		}
	}
	return err
}
