package simweb

import (
	"net/http"
	"strconv"
	"time"
)

// Lives are the mean times between two changes of the pages of a changing web
// (Config.Changing). Each holds for the same number of pages; 0: these never change.
var Lives = [...]time.Duration{5 * time.Minute, 15 * time.Minute, time.Hour, 4 * time.Hour, 64 * time.Hour, 128 * time.Hour, 256 * time.Hour, 512 * time.Hour, 0}

// Ending is when the time of a changing web ends, and with it the changes; before 1970
// there are none either.
var Ending = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)

// Change is the change of a page around a time.
type Change struct {
	Mean time.Duration // between two changes; 0: it never changes
	Last time.Time     // change at that time or before; zero: none
	Next time.Time     // change after it; zero: none
}

// Change tells when the page of a target on a host changes, around now: at the times
// of a Poisson process of its own, which are drawn from the seed like all else; on some
// hosts every second. ok is false for what is not such a page.
func (w *Web) Change(host, target string, now time.Time) (c Change, ok bool) {
	h, ok := w.parseHost(host)
	if !ok {
		return c, false
	}
	r := w.resolve(h, target)
	switch {
	case w.changes(r):
		return w.change(r, now), true
	case w.Changing && position(h) == posChanging && r.kind == kindPage:
		second := now.Truncate(time.Second)
		return Change{time.Second, second, second.Add(time.Second)}, true
	}
	return c, false
}

// changes reports whether a resource is a page that may change at a rate of its own.
func (w *Web) changes(r resource) bool {
	return w.Changing && (r.kind == kindPage || r.kind == kindListed) && position(r.host) != posChanging
}

// A page's time is cut into spans of eventsPerSpan mean lives. How many changes a span
// has is drawn from the Poisson distribution, and when they are from the uniform one:
// so any stretch of time is known without those before it.
const eventsPerSpan = 4

// poisson[n] is the chance of at most n changes in a span, in 32-bit fixed point; of
// more than the last there are none.
var poisson = [...]uint64{78665070, 393325350, 1022645910, 1861739991, 2700834071, 3372109335, 3819626178, 4075350088,
	4203212044, 4260039579, 4282770593, 4291036417, 4293791691, 4294639468, 4294881690, 4294946282}

func (w *Web) change(r resource, now time.Time) (c Change) {
	r.host = origin(r.host)
	seed := w.dice(saltChange, r)
	if c.Mean = Lives[seed.below(len(Lives))]; c.Mean == 0 {
		return c
	}
	span := int64(eventsPerSpan * c.Mean)
	at := int64(0)
	switch {
	case !now.Before(Ending):
		at = Ending.UnixNano()
	case now.Unix() >= 0:
		at = now.UnixNano()
	}
	var last, next int64
	for i := at / span; last == 0 && i >= 0; i-- {
		w.eachChange(seed, i, span, func(t int64) {
			if t <= at && t > last {
				last = t
			}
		})
	}
	for i := at / span; next == 0; i++ {
		w.eachChange(seed, i, span, func(t int64) {
			if t > at && (next == 0 || t < next) {
				next = t
			}
		})
	}
	if last > 0 {
		c.Last = time.Unix(0, last)
	}
	c.Next = time.Unix(0, next)
	return c
}

// eachChange calls fn for the changes in the i-th span, in any order.
func (w *Web) eachChange(seed dice, i, span int64, fn func(nanos int64)) {
	d := dice(mix(uint64(seed) ^ mix(uint64(i)+1)))
	u := d.roll() >> 32
	for n := 0; n < len(poisson) && u >= poisson[n]; n++ {
		fn(i*span + int64(d.below(int(span))))
	}
}

// What a page says of its changes, by two bits of its own: an entity tag, the time of
// the last change, both, or nothing; and by some more how long it stays: every fourth
// truly, every tenth falsely (3/4 of an eighth), as maximum age or as date.
func (w *Web) tells(r resource) (etag, modified, until, lies, dates bool) {
	r.host = origin(r.host)
	d := w.dice(saltTells, r)
	x := d.roll()
	return x&1 != 0, x&2 != 0, x&12 == 0, x&12 != 0 && x&112 == 0, x&128 != 0
}

// What false statements say of pages that change.
const falseAge = 365 * 24 * time.Hour

// live sets q, and what is said of its page, to the state of now.
func (w *Web) live(r resource, q *Request, now time.Time) {
	c := w.change(r, now)
	if !c.Last.IsZero() {
		q.Variant = uint64(c.Last.UnixNano())
	}
	etag, modified, until, lies, dates := w.tells(r)
	q.NoETag = !etag
	if modified {
		if q.Modified = c.Last; c.Last.IsZero() {
			q.Modified = time.Unix(0, 0)
		}
	}
	switch changes := !c.Next.IsZero(); {
	case until && changes:
		q.Freshness = freshness(now, min(c.Next.Sub(now), c.Mean), dates)
	case lies && changes:
		q.Freshness = freshness(now, falseAge, dates)
	case lies:
		q.Freshness = freshness(now, 0, dates)
	}
}

// freshness gives the fields that say that a reply stays for so long.
func freshness(now time.Time, stays time.Duration, dates bool) string {
	if !dates {
		return "Cache-Control: max-age=" + strconv.Itoa(int(stays/time.Second)) + "\r\n"
	}
	now = now.UTC()
	return "Date: " + now.Format(http.TimeFormat) + "\r\nExpires: " + now.Add(stays).Format(http.TimeFormat) + "\r\n"
}
