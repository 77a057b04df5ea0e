package frontier

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"mercator/pkg/fault"
	"mercator/pkg/merge"
)

// What the back queues of a batch take of memory. A URL more is read when one has left.
const (
	maxBackQueues = 1 << 16
	maxHeld       = 4 << 20 // bytes of back queues and of the URLs that stand in them
	queueBytes    = 192     // of a queue, with its places in a heap and a map
	waitingBytes  = 128     // of a URL, beside its row
	maxResting    = 1 << 16 // hosts that have no queue and may not be contacted yet
	minSweep      = 1 << 10
	maxSpare      = 1 << 10 // bytes of a URL whose memory serves another
)

// parseBackQueues takes apart what Params.BackQueues says: a number, for each connection
// ("C"), for each front queue ("K") or in all ("").
func parseBackQueues(text string) (n int, each string, err error) {
	digits := text
	for _, each = range []string{"C", "K", ""} {
		var found bool
		if digits, found = strings.CutSuffix(text, each); found {
			break
		}
	}
	n, err = strconv.Atoi(digits)
	if err != nil || n < 0 || n > maxBackQueues {
		err = &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("%q back queues", text), Want: fmt.Sprintf("a number up to %d, or one for each connection (3C) or front queue (3K)", maxBackQueues)}
	}
	return n, each, err
}

// backQueues is how many back queues a batch goes through: as text says, or else as the
// frontier was created.
func (p *policy) backQueues(text string, connections int) (int, error) {
	if text == "" {
		if text = p.back; text == "" || connections == 0 {
			return 0, nil
		}
	}
	n, each, err := parseBackQueues(text)
	switch {
	case err != nil || n == 0:
		return 0, err
	case p.name != priority:
		return 0, &fault.Error{Class: fault.Usage, Found: "back queues for policy " + p.name, Want: "none, or policy " + priority}
	case connections < 1:
		return 0, &fault.Error{Class: fault.Usage, Found: "back queues without connections", Want: "at least 1"}
	case each == "C":
		n *= min(connections, maxBackQueues/n+1) // no product is beyond 32 bits
	case each == "K":
		n *= p.queues
	}
	return min(n, maxBackQueues), nil
}

// pace is how a host is served: how long a contact takes, the gap after it, and the
// time from the batch's begin to the first contact.
type pace struct{ contact, gap, wait time.Duration }

// drawn is a URL that the front queues gave. Its bytes are the taker's until it takes the next.
type drawn struct {
	decision
	row []byte // as it stands in trial.rows
}

// backQueues are Mercator's (Manning, Raghavan and Schütze, Introduction to
// Information Retrieval, section 20.2.3): URLs that were drawn from the front
// queues wait in them until politeness lets their hosts be contacted.
//
//   - A queue holds URLs of one host, first in, first out. No host has two queues.
//   - When a queue is empty it is refilled by draws: what is drawn of a host that has a
//     queue goes there, and the first URL of another host ends the search.
//   - The URL that is served next is that of the queue whose host may be contacted
//     earliest; of several, that of the queue that was filled first.
//
// The clock is simulated: so many connections are at work, each contact takes
// what its host needs, and leaves the host alone for the gap after it.
type backQueues struct {
	most   int // queues
	free   int // connections
	draw   func() (drawn, bool, error)
	ended  bool // draw has no more
	now    time.Duration
	filled uint64 // queues so far
	held   int    // bytes of the queues and in them
	byHost map[uint64]*backQueue
	rest   merge.Heap[*backQueue] // those that are not contacted, by the time from which they may be: the next-contact heap
	busy   merge.Heap[*backQueue] // those that are, by the time when that ends
	gone   resting
	served *waiting // whose bytes are the taker's
	spare  *waiting // for URLs to come, with their bytes
}

// backQueue is one; it is empty only while its last URL is fetched.
type backQueue struct {
	host        uint64
	first, last *waiting
	at          time.Duration
	gap         time.Duration // after the contact that is under way
	number      uint64
}

// waiting is a URL in a back queue.
type waiting struct {
	drawn
	next *waiting
}

func (u *waiting) bytes() int { return waitingBytes + len(u.row) }

func newBackQueues(queues, connections int, draw func() (drawn, bool, error)) *backQueues {
	return &backQueues{most: queues, free: connections, draw: draw, byHost: map[uint64]*backQueue{}, rest: merge.NewHeap(sooner), busy: merge.NewHeap(sooner), gone: resting{until: map[uint64]time.Duration{}}}
}

// fill draws until each queue holds a host.
func (b *backQueues) fill() error {
	for len(b.byHost) < b.most && b.held < maxHeld && !b.ended {
		d, more, err := b.draw()
		if err != nil {
			return err
		}
		if !more {
			b.ended = true
			break
		}
		u := b.spare
		if u == nil {
			u = new(waiting)
		} else {
			b.spare, u.next = u.next, nil
		}
		u.decision, u.row = d.decision, append(u.row[:0], d.row...)
		b.held += u.bytes()
		q := b.byHost[d.host]
		if q == nil {
			b.filled++
			b.held += queueBytes
			q = &backQueue{host: d.host, number: b.filled, first: u}
			q.at = max(b.now, d.wait, b.gone.until[q.host])
			b.byHost[q.host] = q
			b.rest.Push(q)
		} else if q.first == nil {
			q.first = u
		} else {
			q.last.next = u
		}
		q.last = u
	}
	return nil
}

// next is the URL that is served next, at the time b.now; false after the last.
func (b *backQueues) next() (d drawn, more bool, err error) {
	if u := b.served; u != nil {
		if b.served = nil; cap(u.row) <= maxSpare {
			u.next, b.spare = b.spare, u
		}
	}
	for {
		if err := b.fill(); err != nil {
			return drawn{}, false, err
		}
		switch {
		case b.rest.Len() > 0 && b.free > 0 && (b.busy.Len() == 0 || (*b.rest.First()).at <= max(b.now, (*b.busy.First()).at)):
			q := b.rest.Pop()
			u := q.first
			if q.first = u.next; q.first == nil {
				q.last = nil // u is the taker's
			}
			b.held -= u.bytes()
			b.now = max(b.now, q.at)
			b.free--
			q.at, q.gap = later(b.now, u.contact), u.gap
			b.busy.Push(q)
			b.served = u
			return u.drawn, true, nil
		case b.busy.Len() > 0:
			q := b.busy.Pop()
			b.now = max(b.now, q.at)
			b.free++
			q.at = later(q.at, q.gap)
			if q.first != nil {
				b.rest.Push(q)
				continue
			}
			delete(b.byHost, q.host)
			b.held -= queueBytes
			b.gone.add(q.host, q.at, b.now)
		default:
			return drawn{}, false, nil
		}
	}
}

// resting are hosts that have no queue, until when each is to be left alone. Beyond
// maxResting the half with the shortest times is forgotten: these may come too early in
// the order, and mfetch waits in their place.
type resting struct {
	until map[uint64]time.Duration
	sweep int // the number of hosts at which those whose time has passed are looked for
}

func (r *resting) add(host uint64, at, now time.Duration) {
	if at <= now {
		delete(r.until, host)
		return
	}
	r.until[host] = at
	if len(r.until) < r.sweep {
		return
	}
	maps.DeleteFunc(r.until, func(_ uint64, at time.Duration) bool { return at <= now })
	if n := len(r.until); n > maxResting/2 {
		last := slices.Sorted(maps.Values(r.until))[n-maxResting/2-1]
		maps.DeleteFunc(r.until, func(_ uint64, at time.Duration) bool { return at <= last })
	}
	r.sweep = max(2*len(r.until), minSweep)
}

// sooner compares by time, then by which was filled first.
func sooner(q, r **backQueue) bool {
	return (*q).at < (*r).at || (*q).at == (*r).at && (*q).number < (*r).number
}

// latest is when the first of n contacts with a host must begin, so that all have
// ended after a time.
func (p pace) latest(n int, end time.Duration) time.Duration {
	if each := p.contact + p.gap; n > 0 && each > 0 && time.Duration(n) > math.MaxInt64/each {
		return 0
	}
	return max(end-time.Duration(n)*(p.contact+p.gap), 0)
}
