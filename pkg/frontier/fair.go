package frontier

import (
	"context"

	"mercator/formats/record"
	"mercator/pkg/fingerprint"
)

// fair is fair service by virtual time, which policies embed: hosts take turns, each as often as it
// can be contacted. A URL's key is its front queue and its place.
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

func (fair) line(host string) uint64 { return hostKey(host) }

func (fair) level(*Entry) uint8 { return 0 }

func (fair) due(s *state, e *Entry, before map[uint8]uint64) { s.takeTurn(e, 0, before) }

// takeTurn puts a URL that was due into a front queue, as many places behind V as its line has
// such URLs before it.
func (s *state) takeTurn(e *Entry, level uint8, before map[uint8]uint64) {
	e.Key, e.Place = keyOf(level, s.V[level]+before[level]), 0
	before[level]++
}

// served: Place becomes what the URL is put back by.
func (fair) served(s *state, e *Entry) {
	level := levelOf(e.Key)
	s.V[level] = max(s.V[level], placeOf(e.Key))
	e.Place = e.Key
}

func (fair) order(e *Entry) uint64 { return e.Place }

func (fair) taken(*state, record.Time, []uint64, uint64) {}

func (fair) found(c *change, u *record.URL) error { return c.arrive(u) }

func (fair) link(*change, *record.Link) error { return nil }

func (fair) judged(*record.Fetch, *outcome, record.Time) {}

func (fair) ended(*change, *Entry, *outcome) (bool, error) { return false, nil }

// waits puts a URL back to its old place, ahead of the rest of its host, or lets it wait for its time.
func (fair) waits(c *change, e *Entry, o *outcome) error {
	place := e.Place
	e.Place = 0
	switch {
	case o.verdict == park:
		return c.park(e, parkedAs(o.outcome))
	case e.URL.Due != 0:
		return addRow(c.later, uint64(e.URL.Due), e)
	}
	return addRow(c.queue, place, e)
}

func (fair) landed(context.Context, *change) error { return nil }

func (fair) arrive(c *change, h *Host, a *arrival) error { return c.takePlace(h, a, 0) }

func (fair) settle(context.Context, *change) error { return nil }

func (fair) barren(context.Context, files, Judge) error { return nil }

func (fair) raised(*Entry, uint8) {}

func (fair) moved(string, uint64) {}

func (fair) passed(*Entry, bool) {}

func (fair) kept() any { return nil }

func (fair) files() [][]run { return nil }

func (fair) stat() PolicyStat { return nil }

func (fair) check(context.Context, *Frontier, *state) (each func(queue, *Entry), end func() error) {
	return func(queue, *Entry) {}, func() error { return nil }
}

func (fair) columns() *record.Schema { return nil }

func (fair) export(queue, *Entry) {}

func (fair) recall(*Entry) {}

func (fair) starts() []run { return nil }

// takePlace queues a new URL of host h behind the others of it, or lets it wait for its time.
func (c *change) takePlace(h *Host, a *arrival, level uint8) error {
	if a.due != 0 {
		return c.later.add(uint64(a.due), a.row)
	}
	return c.queue.add(keyOf(level, nextPlace(h, level, c.s.V[level], turn(h))), a.row)
}

// turn is how many places lie between two URLs of a host: one for each second that it
// takes for a contact and the delay after it, as far as that is known. So a host
// has turns as often as it can take them, and what slow hosts cannot take does not pile up
// in front of the others (weighted fair queueing). A place once given stays: a host that
// turns out slow keeps the turns of its URLs that were found before.
func turn(h *Host) uint64 {
	const second = 1_000_000
	return min(max((h.DurationUS+h.DelayUS+second/2)/second, 1), maxTurn)
}

// maxTurn is five minutes: hosts that ask for more are put off by mfetch.
const maxTurn = 300

// nextPlace is the end of the host's queue: v = max(V, last + turn).
func nextPlace(h *Host, level uint8, v, turn uint64) uint64 {
	i := 0
	for i < len(h.Last) && h.Last[i].Level < level {
		i++
	}
	if i == len(h.Last) || h.Last[i].Level != level {
		h.Last = append(h.Last, LevelPlace{})
		copy(h.Last[i+1:], h.Last[i:])
		h.Last[i] = LevelPlace{Level: level, Place: v}
		return v
	}
	h.Last[i].Place = max(v, h.Last[i].Place+turn)
	return h.Last[i].Place
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

// random is the n-th number of a seed: SplitMix64 (Steele, Lea
// and Flood, 2014), any number of which can be had without those before it.
func random(seed, n uint64) uint64 { return mix(seed + (n+1)*0x9e3779b97f4a7c15) }

// unit makes such a number one of [0, 1).
func unit(bits uint64) float64 { return float64(bits>>11) / (1 << 53) }

// mix is SplitMix64's bijection, whose values look random.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// hostKey is what the host table is sorted by: the first eight bytes of SHA-256.
// FP64 would not do: who has a domain can make names below it by the thousand
// that have one FP64, since it is linear.
var hostKey = fingerprint.SHA256
