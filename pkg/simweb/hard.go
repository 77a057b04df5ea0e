package simweb

import (
	"strings"
	"sync/atomic"
	"time"
)

// Positions in a block of what Config.Hard adds.
const (
	posCrawlDelay = 2 // Crawl-delay: 1
	posChanging   = 3 // pages change every second
	posDeep       = 4 // links without end: /deep/0/, /deep/1/, …
	posSlow       = 5 // replies after 200 ms to 2 s
	posDown       = 6 // robots.txt is 503 for the first three requests
	posBusy       = 9 // 429 with Retry-After: 1 for requests within 100 ms of the last
)

// Hard is the part of a web that depends on time and on earlier requests. Its
// memory is two words a host. What a crawl owes it is not a set of URLs but
// that it waits as told, ends by its own limits, and loses nothing.
type Hard struct {
	web   *Web
	hosts []hostState
}

type hostState struct {
	last   atomic.Int64 // time of the last request, in nanoseconds
	robots atomic.Int64 // requests for robots.txt
}

// NewHard returns a state in which no request has come yet.
func (w *Web) NewHard() *Hard { return &Hard{web: w, hosts: make([]hostState, w.Hosts)} }

// Respond is Web.Respond at a time: it says how long to wait before the reply
// is sent.
func (h *Hard) Respond(scratch []byte, q *Request, now time.Time) (Response, time.Duration) {
	host, ok := h.web.parseHost(q.Host)
	if !ok {
		return h.web.Respond(scratch, q), 0
	}
	state := &h.hosts[host]
	last := state.last.Swap(now.UnixNano())
	var delay time.Duration
	switch position(host) {
	case posChanging:
		q.Variant = uint64(now.Unix())
	case posSlow:
		d := h.web.dice(saltReply, resource{host: host, n: int32(len(q.Target))})
		delay = 200*time.Millisecond + time.Duration(d.below(1800))*time.Millisecond
	case posDown:
		if q.Target == "/robots.txt" && state.robots.Add(1) <= 3 {
			return Response{Status: 503}, 0
		}
	case posBusy:
		if now.UnixNano()-last < int64(100*time.Millisecond) {
			return Response{Status: 429, RetryAfter: 1}, 0
		}
	}
	if r := h.web.resolve(host, q.Target); h.web.changes(r) {
		h.web.live(r, q, now)
	}
	return h.web.Respond(scratch, q), delay
}

// NameDelay is how long the name server of a hard web thinks: mostly not at
// all, for one host in five up to a second.
func (w *Web) NameDelay(name string) time.Duration {
	host, ok := w.parseHost(strings.TrimSuffix(name, "."))
	d := w.dice(saltHost, resource{host: host, v: 1})
	if !ok || d.below(5) != 0 {
		return 0
	}
	return time.Duration(d.below(1000)) * time.Millisecond
}
