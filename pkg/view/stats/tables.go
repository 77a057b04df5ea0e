package stats

import (
	"cmp"
	"math/bits"
	"net/netip"
	"slices"
	"strings"
	"time"

	"mercator/formats/record"
)

// group counts what has one name.
type group struct {
	name               string
	servers, documents uint64
	bytes              int64
}

// table counts by name, up to maxNames of them.
type table struct{ of map[string]*group }

func newTable() *table { return &table{of: map[string]*group{}} }

// at is the group of a name, or that of Other.
func (t *table) at(name string) *group {
	if len(name) > maxText {
		name = Other
	}
	g := t.of[name]
	if g == nil {
		if len(t.of) >= maxNames {
			name = Other
			g = t.of[name]
		}
		if g == nil {
			g = &group{name: strings.Clone(name)}
			t.of[g.name] = g
		}
	}
	return g
}

// list has the groups with the largest key first, then with most documents.
func (t *table) list(key func(*group) uint64) (list []*group) {
	for _, g := range t.of {
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b *group) int {
		return cmp.Or(cmp.Compare(key(b), key(a)), cmp.Compare(b.documents, a.documents), strings.Compare(a.name, b.name))
	})
	return list
}

// topLevel is the top-level domain of a host, which may have a port. See Domain.
func topLevel(host string) string {
	if _, err := netip.ParseAddrPort(host); err == nil || strings.HasPrefix(host, "[") {
		return "(address)"
	}
	name, _, _ := strings.Cut(host, ":")
	if _, err := netip.ParseAddr(name); err == nil {
		return "(address)"
	}
	name = strings.TrimSuffix(name, ".")
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		return "(none)"
	}
	return name[dot+1:]
}

// bins count values by powers of two: the bin b > 0 has those of b bits.
type bins [64]uint64

func (b *bins) add(v int64) { b[bits.Len64(uint64(max(v, 0)))%64]++ }

// list leaves out empty bins before the first and after the last that is not.
func (b *bins) list() (list []Bin) {
	for i, n := range b {
		if n == 0 && len(list) == 0 {
			continue
		}
		bin := Bin{0, 0, n}
		if i > 0 {
			bin.From, bin.To = 1<<(i-1), 1<<(i-1)*2-1
		}
		list = append(list, bin)
	}
	for len(list) > 0 && list[len(list)-1].N == 0 {
		list = list[:len(list)-1]
	}
	return list
}

// timeline counts by equal spans of time. The span doubles when there are too many.
type timeline struct {
	width time.Duration
	slots map[int64]*Slot // by number of the span since 1970
}

func newTimeline() timeline { return timeline{time.Second, map[int64]*Slot{}} }

func (t *timeline) addContact(at record.Time, replied bool, bytes int64) {
	n := int64(at) / t.width.Microseconds()
	s := t.slots[n]
	for s == nil && len(t.slots) >= maxSlots {
		t.widen()
		n = int64(at) / t.width.Microseconds()
		s = t.slots[n]
	}
	if s == nil {
		s = new(Slot)
		t.slots[n] = s
	}
	s.plus(replied, bytes)
}

func (s *Slot) plus(replied bool, bytes int64) {
	if replied {
		s.Replies++
	} else {
		s.Errors++
	}
	s.Bytes += bytes
}

// widen doubles the length of the spans.
func (t *timeline) widen() {
	wide := map[int64]*Slot{}
	for n, s := range t.slots {
		if w := wide[n>>1]; w != nil {
			w.Replies, w.Errors, w.Bytes = w.Replies+s.Replies, w.Errors+s.Errors, w.Bytes+s.Bytes
		} else {
			wide[n>>1] = s
		}
	}
	t.width, t.slots = 2*t.width, wide
}

// list has all spans from the first to the last, also those in which nothing was done, maxSlots at most.
func (t *timeline) list() ([]Slot, float64) {
	if len(t.slots) == 0 {
		return nil, 0
	}
	var first, last int64
	for {
		first, last = 1<<62, -1
		for n := range t.slots {
			first, last = min(first, n), max(last, n)
		}
		if last-first < maxSlots {
			break
		}
		t.widen()
	}
	list := make([]Slot, 0, last-first+1)
	for n := first; n <= last; n++ {
		var s Slot
		if have := t.slots[n]; have != nil {
			s = *have
		}
		s.Start = timeText(record.Time(n * t.width.Microseconds()))
		list = append(list, s)
	}
	return list, t.width.Seconds()
}
