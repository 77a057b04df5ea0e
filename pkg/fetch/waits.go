package fetch

import (
	"fmt"
	"time"
)

// A wait is announced when it begins, if it will take sayWait or more, and then every sayAgain.
const (
	sayWait  = 5 * time.Second
	sayAgain = 30 * time.Second
)

// announcer prints the reason why a batch waits.
type announcer struct {
	begun int    // visits when it last looked
	since micros // since when visits are no more
	said  micros // when it told that last; 0: not yet
}

// text returns the line to print now; "" for none. The caller holds runner.mu.
func (a *announcer) text(r *runner, now micros) string {
	if r.visits != a.begun {
		a.begun, a.since, a.said = r.visits, now, 0
	}
	if a.said > 0 && now-a.said < us(sayAgain) {
		return ""
	}
	text := r.waits(now, a.since)
	if text != "" {
		a.said = now
	}
	return text
}

// waits returns the reason why nothing was begun since then. The caller holds r.mu.
func (r *runner) waits(now, since micros) string {
	if len(r.workers) > 0 {
		if now-since < us(sayWait) {
			return ""
		}
		first, began := "", now
		for h, w := range r.workers {
			if first == "" || w.began < began {
				first, began = h.name, w.began
			}
		}
		return fmt.Sprintf("waiting for %s, until its time-out: contacted at %s, no whole reply yet%s", clean(first), timeText(began), others(len(r.workers)-1))
	}
	if r.reason != "" || len(r.s.ready) > 0 || len(r.s.times) == 0 || r.s.times[0].host == nil || r.s.times[0].at-since < us(sayWait) {
		return ""
	}
	h, why := r.s.times[0].host, ""
	gap := (time.Duration(h.required) * time.Microsecond).Round(time.Millisecond)
	switch {
	case r.s.holdFrom > 0 && h.next == r.s.holdEnd():
		why = Unrecorded
	case h.due(now) > h.next:
		why = "its window is " + h.polite.Window.String()
	case h.timeouts > 0:
		why = "it did not reply in time"
	case h.fails > 0:
		why = fmt.Sprintf("%d contacts in a row failed", h.fails)
	case h.crawlDelay > 0 && h.required == h.crawlDelay:
		why = fmt.Sprintf("its Crawl-delay is %v", gap)
	default:
		why = fmt.Sprintf("the gap after its last contact is %v", gap)
	}
	return fmt.Sprintf("waiting for %s until %s: %s%s", clean(h.name), timeText(r.s.times[0].at), why, others(len(r.s.hosts)-1))
}

// others counts the hosts that are waited for, too.
func others(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return " (and for one other host)"
	}
	return fmt.Sprintf(" (and for %d other hosts)", n)
}
