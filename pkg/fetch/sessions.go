package fetch

import "io"

// restMax is the longest gap over which a connection is kept: many servers close
// one after five seconds.
const restMax = micros(5_000_000)

// sessions are the connections of hosts that wait for their next contact. Those
// in use and those at rest together are never more than max: who needs a new one
// has the one closed that has rested longest. Its caller serialises, and closes
// what it is given, outside of its lock.
type sessions struct {
	max     int
	active  int  // contacts under way
	resting int  // connections at rest
	ring    host // ring of the hosts of connections at rest; newer is the one longest at rest
}

// beginContact notes that a contact with h begins and hands out the connection that
// waits for it, or nil. surplus, if not nil, is to be closed before that.
func (s *sessions) beginContact(h *host) (session, surplus io.Closer) {
	s.active++
	session = s.takeResting(h)
	if session == nil && s.active+s.resting > s.max && s.resting > 0 {
		surplus = s.takeResting(s.ring.newer)
	}
	return session, surplus
}

// endContact notes that a contact with h has ended, which left session (or nil) and is
// followed by none for gap. surplus, if not nil, is to be closed.
func (s *sessions) endContact(h *host, session io.Closer, gap micros) (surplus io.Closer) {
	s.active--
	if session == nil || gap > restMax {
		return session
	}
	if s.resting == 0 {
		s.ring.newer, s.ring.older = &s.ring, &s.ring
	}
	s.resting++
	h.session = session
	h.older, h.newer = s.ring.older, &s.ring
	h.older.newer, h.newer.older = h, h
	return nil
}

// takeResting removes the connection that waits for h, if there is one.
func (s *sessions) takeResting(h *host) io.Closer {
	if h.session == nil {
		return nil
	}
	c := h.session
	s.resting--
	h.older.newer, h.newer.older = h.newer, h.older
	h.session, h.newer, h.older = nil, nil, nil
	return c
}

// closeAll closes what rests.
func (s *sessions) closeAll() {
	for s.resting > 0 {
		closeSession(s.takeResting(s.ring.newer))
	}
}

// closeSession closes a connection, if there is one. Everything that was wanted
// of it has come, so how it closes is of no interest.
func closeSession(c io.Closer) {
	if c != nil {
		_ = c.Close()
	}
}
