package fetch

import (
	"container/list"
	"io"
)

// restMax is the longest gap over which a connection is kept: many servers close
// one after five seconds.
const restMax = micros(5_000_000)

// sessions are the connections of hosts that wait for their next contact. Those
// in use and those at rest together are never more than max: who needs a new one
// has the one closed that has rested longest. Its caller serialises, and closes
// what it is given, outside of its lock.
type sessions struct {
	max    int
	active int       // contacts under way
	rest   list.List // of *host, longest at rest first
}

// begin notes that a contact with h begins and hands out the connection that
// waits for it, or nil. surplus, if not nil, is to be closed before that.
func (s *sessions) begin(h *host) (session, surplus io.Closer) {
	s.active++
	session = s.take(h)
	if session == nil && s.active+s.rest.Len() > s.max && s.rest.Len() > 0 {
		surplus = s.take(s.rest.Front().Value.(*host))
	}
	return session, surplus
}

// end notes that a contact with h has ended, which left session (or nil) and is
// followed by none for gap. surplus, if not nil, is to be closed.
func (s *sessions) end(h *host, session io.Closer, gap micros) (surplus io.Closer) {
	s.active--
	if session == nil || gap > restMax {
		return session
	}
	h.session = session
	h.resting = s.rest.PushBack(h)
	return nil
}

// take removes the connection that waits for h, if there is one.
func (s *sessions) take(h *host) io.Closer {
	if h.session == nil {
		return nil
	}
	c := h.session
	s.rest.Remove(h.resting)
	h.session, h.resting = nil, nil
	return c
}

// closeAll closes what rests.
func (s *sessions) closeAll() {
	for s.rest.Len() > 0 {
		closeSession(s.take(s.rest.Front().Value.(*host)))
	}
}

// closeSession closes a connection, if there is one. Everything that was wanted
// of it has come, so how it closes is of no interest.
func closeSession(c io.Closer) {
	if c != nil {
		_ = c.Close()
	}
}
