package frontier

import (
	"context"

	"mercator/formats/record"
	"mercator/pkg/base/fingerprint"
)

// fair is fair service by virtual time, which policies embed: hosts take turns, each as often as it
// can be contacted. A URL's key is its front queue and its virtual time.
type fair struct{}

func (fair) queues() int { return 1 }

func (fair) priorities() int { return 1 }

// choose is strict: the first queue that is ready.
func (fair) choose(_ uint64, ready func(queue int) bool) int {
	if ready(0) {
		return 0
	}
	return -1
}

func (fair) fairnessGroup(host string) uint64 { return hostKey(host) }

func (fair) level(*Entry) uint8 { return 0 }

func (fair) due(s *state, e *Entry, before map[uint8]uint64) { s.takeTurn(e, 0, before) }

// takeTurn puts a due URL into a front queue. Its virtual time is V plus the number of due URLs
// of its fairness group before it.
func (s *state) takeTurn(e *Entry, level uint8, before map[uint8]uint64) {
	e.Key, e.VirtualTime = keyOf(level, s.V[level]+before[level]), 0
	before[level]++
}

// served keeps the URL's key, by which it may be put back.
func (fair) served(s *state, e *Entry) {
	level := levelOf(e.Key)
	s.V[level] = max(s.V[level], virtualTimeOf(e.Key))
	e.VirtualTime = e.Key
}

func (fair) order(e *Entry) uint64 { return e.VirtualTime }

func (fair) taken(*state, record.Time, []uint64, uint64) {}

func (fair) found(c *change, u *record.URL) error { return c.arrive(u) }

func (fair) link(*change, *record.Link) error { return nil }

func (fair) judged(*record.Fetch, *outcome, record.Time) {}

func (fair) ended(*change, *Entry, *outcome) (bool, error) { return false, nil }

// waits puts a URL back at its old virtual time, ahead of the rest of its host, or lets it wait until it is due.
func (fair) waits(c *change, e *Entry, o *outcome) error {
	key := e.VirtualTime
	e.VirtualTime = 0
	switch {
	case o.verdict == park:
		return c.park(e, parkedAs(o.outcome))
	case e.URL.Due != 0:
		return addRow(c.later, uint64(e.URL.Due), e)
	}
	return addRow(c.queue, key, e)
}

func (fair) outcomesApplied(context.Context, *change) error { return nil }

func (fair) arrive(c *change, h *Host, a *arrival) error { return c.queueLast(h, a, 0) }

func (fair) settle(context.Context, *change) error { return nil }

func (fair) allRefused(context.Context, files, Judge) error { return nil }

func (fair) raised(*Entry, uint8) {}

func (fair) moved(*Entry) {}

func (fair) passed(*Entry, hooks) {}

func (fair) kept() any { return nil }

func (fair) files() [][]run { return nil }

func (fair) stat() PolicyStat { return nil }

func (fair) check(context.Context, *Frontier, *state) (each func(queue, *Entry), end func() error) {
	return func(queue, *Entry) {}, func() error { return nil }
}

func (fair) columns() *record.Schema { return nil }

func (fair) export(queue, *Entry) {}

func (fair) importRow(*Entry) {}

func (fair) starts() []run { return nil }

// queueLast queues a new URL of host h behind the host's others, or lets it wait until it is due.
func (c *change) queueLast(h *Host, a *arrival, level uint8) error {
	if a.due != 0 {
		return c.later.addPayload(uint64(a.due), a.row)
	}
	return c.queue.addPayload(keyOf(level, nextVirtualTime(h, level, c.s.V[level], turn(h))), a.row)
}

// turn is the virtual time between two URLs of a host: one for each second that a contact and
// the delay after it take, as far as the host is known. So a host has turns as
// often as it can take them, and URLs of slow hosts do not pile up in front of the
// others (weighted fair queueing). A URL keeps its virtual time: if a host
// turns out to be slow, only URLs found from then on get longer turns.
func turn(h *Host) uint64 {
	const second = 1_000_000
	return min(max((h.DurationUS+h.DelayUS+second/2)/second, 1), maxTurn)
}

// maxTurn is five minutes: hosts that ask for more are put off by mfetch.
const maxTurn = 300

// nextVirtualTime is the virtual time of the host's next URL: max(V, last + turn).
func nextVirtualTime(h *Host, level uint8, v, turn uint64) uint64 {
	i := 0
	for i < len(h.Last) && h.Last[i].Level < level {
		i++
	}
	if i == len(h.Last) || h.Last[i].Level != level {
		h.Last = append(h.Last, LevelTime{})
		copy(h.Last[i+1:], h.Last[i:])
		h.Last[i] = LevelTime{Level: level, VirtualTime: v}
		return v
	}
	h.Last[i].VirtualTime = max(v, h.Last[i].VirtualTime+turn)
	return h.Last[i].VirtualTime
}

// weighted draws one of several front queues.
type weighted struct {
	fair
	seed   uint64
	weight []float64 // of a front queue that is so many behind the first that is ready
}

func (w *weighted) queues() int { return len(w.weight) }

func (w *weighted) choose(draw uint64, ready func(queue int) bool) int {
	sum := 0.0
	first := -1
	for k := range w.weight {
		if ready(k) {
			if first < 0 {
				first = k
			}
			sum += w.weight[k-first]
		}
	}
	if first < 0 {
		return -1
	}
	at := unit(random(w.seed, draw)) * sum
	last := first
	for k := first; k < len(w.weight); k++ {
		if !ready(k) {
			continue
		}
		if last = k; at < w.weight[k-first] {
			break
		}
		at -= w.weight[k-first]
	}
	return last
}

// random returns the n-th number of a seed by SplitMix64 (Steele, Lea and
// Flood, 2014), which needs none of the numbers before it.
func random(seed, n uint64) uint64 { return mix(seed + (n+1)*0x9e3779b97f4a7c15) }

// unit makes such a number one of [0, 1).
func unit(bits uint64) float64 { return float64(bits>>11) / (1 << 53) }

// mix is the bijection of SplitMix64: its values look random.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// hostKey returns the key that the host table is sorted by: the first eight bytes of SHA-256.
// FP64 would not do: who has a domain can make names below it by the thousand
// that have one FP64, since it is linear.
var hostKey = fingerprint.SHA256
