package resolve

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// Bounds of the streams to one server. What is beyond them waits.
const (
	maxPipelined = 64 // questions at a time on one connection
	maxLinks     = 32 // connections

	bodyTime = 5 * time.Second // from the length of a large message to its end
)

// large counts the messages longer than maxDatagram that are held in memory, of all servers:
// a message that is read into some tables takes twenty times its length.
type large chan struct{}

const maxLarge = 8

// free is for a message that nobody wants.
func (l large) free(m []byte) {
	if len(m) > maxDatagram {
		<-l
	}
}

// stream asks over TCP or TLS: many questions at a time on a connection, answered in any
// order (RFC 7766, section 6.2.1).
type stream struct {
	dial  func(ctx context.Context) (net.Conn, error)
	large large

	mu     sync.Mutex
	links  []*link // that take questions
	open   int     // all that have not ended, or whose making has not
	depth  int     // questions at a time on one, as many as the server is found to bear
	queue  []*seat // questions that wait for a connection, in their order
	closed bool
}

func newStream(addr string, settings *tls.Config, l large) *stream {
	var d net.Dialer
	s := &stream{large: l, depth: maxPipelined, dial: func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, "tcp", addr) }}
	if settings != nil {
		t := tls.Dialer{NetDialer: &d, Config: settings}
		s.dial = func(ctx context.Context) (net.Conn, error) { return t.DialContext(ctx, "tcp", addr) }
	}
	return s
}

// link is one connection. Its fields are the stream's mutex's but for conn, which is there
// once ready is closed, unless failed says why not.
type link struct {
	ready    chan struct{}
	conn     net.Conn
	waiting  map[uint16]*waiter
	answered int
	late     int   // questions whose time was up
	stray    int   // messages that nobody waited for
	failed   error // it takes no questions any more
}

type waiter struct {
	query *query
	reply chan datagram // has room for one
}

type datagram struct {
	wire []byte
	err  error
}

// seat is a question's place on a connection, which it has once taken is closed.
type seat struct {
	waiter
	taken   chan struct{}
	timeout time.Duration
	link    *link // nil: the stream was closed
	id      uint16
}

// errClosed: a connection ended over which there had been answers; another may bring more.
var errClosed = errors.New("the server closed the connection")

// exchange sends a query and waits for the reply; that it waits for a connection before is
// not of its time.
func (s *stream) exchange(ctx context.Context, q *query, timeout time.Duration) ([]byte, error) {
	for left := timeout; ; {
		st, err := s.sit(ctx, q, left)
		if err != nil {
			return nil, err
		}
		began := time.Now()
		m, err := s.ask(ctx, st, left)
		s.leave(st)
		if left -= time.Since(began); !errors.Is(err, errClosed) {
			return m, err
		}
		if left <= 0 {
			return nil, os.ErrDeadlineExceeded
		}
	}
}

// ask sends a query on its connection, with its length before it (RFC 1035, section 4.2.2),
// and waits for the reply.
func (s *stream) ask(ctx context.Context, st *seat, timeout time.Duration) ([]byte, error) {
	deadline := time.Now().Add(timeout)
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	l := st.link
	select {
	case <-l.ready:
	case <-timer.C:
		return nil, os.ErrDeadlineExceeded
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if l.conn != nil { // else fail tells
		l.conn.SetWriteDeadline(deadline)
		if _, err := l.conn.Write(st.query.append(binary.BigEndian.AppendUint16(nil, uint16(len(st.query.wire))), st.id)); errors.Is(err, os.ErrDeadlineExceeded) {
			s.fail(l, err)
		} else if err != nil { // what the server said before it closed is still to be read: run finds the end
			s.mu.Lock()
			s.drop(l)
			s.mu.Unlock()
		}
	}
	select {
	case d := <-st.reply:
		return d.wire, d.err
	case <-timer.C:
		return nil, os.ErrDeadlineExceeded
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// sit waits for a place on a connection.
func (s *stream) sit(ctx context.Context, q *query, timeout time.Duration) (*seat, error) {
	st := &seat{waiter: waiter{query: q, reply: make(chan datagram, 1)}, taken: make(chan struct{}), timeout: timeout}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, net.ErrClosed
	}
	s.queue = append(s.queue, st)
	s.place()
	s.mu.Unlock()
	select {
	case <-st.taken:
	case <-ctx.Done():
		s.leave(st)
		return nil, ctx.Err()
	}
	if st.link == nil {
		return nil, net.ErrClosed
	}
	return st, nil
}

// place gives those who wait the places that are free.
func (s *stream) place() {
	for len(s.queue) > 0 {
		i := slices.IndexFunc(s.links, func(l *link) bool { return len(l.waiting) < s.depth })
		if i < 0 && s.open >= maxLinks {
			return
		}
		st := s.queue[0]
		s.queue[0] = nil
		s.queue = s.queue[1:]
		if i < 0 {
			i = len(s.links)
			s.links = append(s.links, &link{ready: make(chan struct{}), waiting: map[uint16]*waiter{}})
			s.open++
			go s.run(s.links[i], st.timeout)
		}
		st.link = s.links[i]
		st.id = uint16(rand.Uint32())
		for st.link.waiting[st.id] != nil {
			st.id = uint16(rand.Uint32())
		}
		st.link.waiting[st.id] = &st.waiter
		close(st.taken)
	}
}

// run makes a connection and hands replies to those who wait for them, until it ends.
func (s *stream) run(l *link, timeout time.Duration) {
	defer s.over()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	conn, err := s.dial(ctx)
	late := ctx.Err() != nil
	cancel()
	if err != nil {
		if late {
			err = os.ErrDeadlineExceeded
		}
		s.fail(l, err)
		close(l.ready)
		return
	}
	defer conn.Close()
	l.conn = conn
	close(l.ready)
	for err == nil {
		s.mu.Lock()
		ended := l.failed != nil
		s.mu.Unlock()
		if ended {
			return
		}
		var m []byte
		if m, err = s.read(conn); err == nil {
			if err = s.deliver(l, m); err != nil {
				s.large.free(m)
			}
		}
	}
	s.fail(l, err)
}

// read reads a message with its length before it. A large one must come in time.
func (s *stream) read(conn net.Conn) (m []byte, err error) {
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint16(length[:])
	if n > maxDatagram {
		s.large <- struct{}{}
		conn.SetReadDeadline(time.Now().Add(bodyTime))
		defer conn.SetReadDeadline(time.Time{})
	}
	m = make([]byte, n)
	if _, err := io.ReadFull(conn, m); err != nil {
		s.large.free(m)
		return nil, err
	}
	return m, nil
}

// over makes room for another connection.
func (s *stream) over() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	s.place()
}

// deliver hands a reply over. One that nobody waits for is passed over on a connection that
// has others to bring, once for each question: it is late, or said twice. Else it is an error.
func (s *stream) deliver(l *link, m []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(m) < headerLen {
		return errBadReply
	}
	id := binary.BigEndian.Uint16(m)
	w := l.waiting[id]
	d := datagram{wire: m}
	like := foreign
	if w != nil {
		like = w.query.compare(m)
	}
	switch {
	case w == nil && l.stray < l.late+l.answered && len(l.waiting) > 0:
		l.stray++
		s.large.free(m)
		return nil
	case like == foreign:
		return errBadReply
	case like == unread:
		s.large.free(m)
		d = datagram{err: errUnread}
	}
	delete(l.waiting, id)
	if l.answered++; l.answered >= maxPipelined*s.depth { // what made it less is over
		s.depth = min(2*s.depth, maxPipelined)
	}
	w.reply <- d
	s.place()
	return nil
}

// leave ends a question. One whose time is up ends its connection too, once the others on
// it have their answers: the server may have forgotten it.
func (s *stream) leave(st *seat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := st.link
	if l == nil {
		s.queue = slices.DeleteFunc(s.queue, func(other *seat) bool { return other == st })
		return
	}
	select {
	case d := <-st.reply: // it came when nobody waited any more
		s.large.free(d.wire)
	default:
	}
	if l.waiting[st.id] == &st.waiter {
		delete(l.waiting, st.id)
		l.late++
		s.drop(l)
	}
	if l.late > 0 && len(l.waiting) == 0 {
		s.end(l, os.ErrDeadlineExceeded)
	}
	s.place()
}

// drop keeps questions off a connection.
func (s *stream) drop(l *link) {
	s.links = slices.DeleteFunc(s.links, func(other *link) bool { return other == l })
}

// fail ends a connection, and the questions on it.
func (s *stream) fail(l *link, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.answered > 0 && !errors.Is(err, errBadReply) {
		if err = errClosed; len(l.waiting) > 0 {
			s.depth = min(s.depth, l.answered)
		}
	}
	s.end(l, err)
}

func (s *stream) end(l *link, err error) {
	if l.failed != nil {
		return
	}
	l.failed = err
	s.drop(l)
	for id, w := range l.waiting {
		delete(l.waiting, id)
		w.reply <- datagram{err: err}
	}
	select {
	case <-l.ready:
		if l.conn != nil {
			l.conn.Close() // which ends its reader
		}
	default: // run finds it
	}
}

func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, l := range slices.Clone(s.links) {
		s.end(l, net.ErrClosed)
	}
	for _, st := range s.queue {
		close(st.taken)
	}
	s.queue = nil
}
