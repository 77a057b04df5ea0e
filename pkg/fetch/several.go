package fetch

import "mercator/pkg/base/fingerprint"

// A person may allow a host several connections at a time: politeness.Rules.HostConnections. Such a host has a host for each of
// them; these share a party, and so the queue. A connection that comes to its turn takes the first URL of the queue into its hand,
// and gives it back if it made no contact for it.
//
//   - Each connection keeps the gaps of our own making by itself, as connections of Colly, wget2 and Heritrix's parallel queues do:
//     with a gap of a second, eight connections make eight contacts a second.
//   - What the server asks for holds for the host. After a Retry-After, or a status that says "too many requests", no
//     connection begins a contact before its end. A host with a Crawl-delay has one connection, as any other.
//   - robots.txt is asked for before all, over the first connection, which also asks again what cookies let in.
//   - Contacts in a row that failed count over all connections, and who is put off is put off with all of them.
//   - Its contacts neither wait for others with its address nor hold them up: that address is the person's who named the host.
//   - A later batch begins when all connections have kept their gaps.

// newHost returns a host with one connection.
func newHost(name string) *host {
	h := &struct {
		host
		own party
	}{own: party{name: name, pages: pages{queue: noRows}}}
	h.party, h.current = &h.own, noRows
	return &h.host
}

// multiply gives a host the connections that it may have.
func (s *scheduler) multiply(h *host) {
	n := h.polite.HostConnections
	if n < 2 {
		return
	}
	h.conns = []*host{h}
	for i := 1; i < n; i++ {
		c := &host{party: h.party, current: noRows, pace: pace{last: h.last, next: h.next, required: h.required}}
		if len(s.lines) > 0 {
			c.workerLine = &s.lines[(fingerprint.OfString(h.name)+uint64(i))%uint64(len(s.lines))]
		}
		h.conns = append(h.conns, c)
	}
}

// first is the connection of a host that does all but the pages of the queue.
func (h *host) first() *host {
	if h.conns == nil {
		return h
	}
	return h.conns[0]
}

// all are the connections of a host.
func (h *host) all() []*host {
	if h.conns == nil {
		return []*host{h}
	}
	return h.conns
}

// open is how many contacts may be under way with a host at a time.
func (h *host) open() int {
	if h.crawlDelay > 0 {
		return 1
	}
	return max(1, len(h.conns))
}

// pending is where the URL stands that is served next.
func (h *host) pending() *queue {
	if h.current.n > 0 {
		return &h.current
	}
	return &h.queue
}

// unaccompanied reports whether no other connection of the host is busy.
func (h *host) unaccompanied() bool {
	for _, c := range h.conns {
		if c != h && c.state == busy {
			return false
		}
	}
	return true
}

// workOfSeveral is work for a host with several connections.
func (h *host) workOfSeveral() bool {
	if h.naming || h.gone {
		return false
	}
	pages := h.blocked == 0 && h.queue.n > 0
	if h != h.conns[0] {
		return pages && len(h.robotsRequests) == 0 && h.crawlDelay == 0 && h.deferred == ""
	}
	if h.crawlDelay > 0 && !h.unaccompanied() {
		return false // it is scheduled when they are released
	}
	return pages || len(h.robotsRequests) > 0 || h.blocked == 0 && len(h.again) > 0
}

// may reports whether a connection may make its contact now.
func (h *host) may(now micros) bool {
	return h.next <= now && (h.conns == nil || h.crawlDelay == 0 || h == h.conns[0] && h.unaccompanied())
}

// done reports whether a host with several connections has no work left.
func (h *host) done() bool {
	if h.queue.n > 0 || h.blocked > 0 || len(h.robotsRequests) > 0 || len(h.again) > 0 {
		return false
	}
	for _, c := range h.conns {
		if c.state == busy || c.naming {
			return false
		}
	}
	return true
}

// retireAll is retire for a host with several connections.
func (s *scheduler) retireAll(h *host, now micros) {
	first := h.first()
	h.gone = true
	for _, c := range h.conns {
		if c.state == waiting {
			s.lively--
		}
		first.next, first.last, first.took = max(first.next, c.next), max(first.last, c.last), max(first.took, c.took)
		first.serverGap = max(first.serverGap, c.serverGap)
	}
	if first.last > 0 && first.required <= s.longest { // which then lies between all contacts so far and the next
		first.required = max(first.next-first.last, 0)
	}
	s.retire(first, now)
}

// applyServerGap keeps all connections of a host from contacts for a gap from end on, as its server asked for.
func (s *scheduler) applyServerGap(h *host, end, gap micros) {
	if h.conns == nil {
		return
	}
	gap = min(gap, askedMax)
	if until := end + s.bounded(gap); until > h.floor {
		h.floor, h.floored = until, gap
	}
	for _, c := range h.conns {
		if c.state != busy {
			s.waitForServerGap(c)
		}
	}
}

// waitForServerGap makes a connection wait for what the server asked for over another. Its own gap is then the longer.
func (s *scheduler) waitForServerGap(h *host) {
	if h.floor <= h.next {
		return
	}
	h.next = h.floor
	if h.last > 0 {
		h.required = max(h.required, h.next-h.last)
	}
	if h.floored > s.longest {
		h.required = h.floored // and so the host is parked
	}
}

// claim takes the first URL of the queue into the hand of a connection, if there is one.
func (s *spool) claim(h *host) error {
	if h.conns == nil || h.current.n > 0 || h.queue.n == 0 {
		return nil
	}
	at := h.queue.head
	if err := s.pop(&h.queue); err != nil {
		return err
	}
	h.current = queue{head: at, tail: at, second: none, n: 1}
	return nil
}

// unclaim puts a URL that was claimed back before all others.
func (s *spool) unclaim(h *host) error {
	if h.current.n == 0 {
		return nil
	}
	q, at := &h.queue, h.current.head
	if err := s.link(at, q.head); err != nil {
		return err
	}
	if q.n == 0 {
		q.tail = at
	}
	q.head, q.second = at, none
	q.n++
	h.current = noRows
	return nil
}
