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

// maxPipelined bounds the questions at a time on one connection.
const maxPipelined = 64

// stream asks over TCP or TLS: many questions at a time on a connection, answered in any
// order (RFC 7766, section 6.2.1).
type stream struct {
	dial func(ctx context.Context) (net.Conn, error)

	mu     sync.Mutex
	links  []*link // that take questions
	depth  int     // questions at a time on one, as many as the server is found to bear
	closed bool
}

func newStream(addr string, settings *tls.Config) *stream {
	var d net.Dialer
	s := &stream{depth: maxPipelined, dial: func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, "tcp", addr) }}
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
	failed   error // it takes no questions any more
}

// errClosed: a connection ended over which there had been answers; another may bring more.
var errClosed = errors.New("the server closed the connection")

func (s *stream) exchange(ctx context.Context, q *query, timeout time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, os.ErrDeadlineExceeded)
	defer cancel()
	for {
		m, err := s.ask(ctx, q, timeout)
		if err == nil {
			return m, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !errors.Is(err, errClosed) {
			return nil, err
		}
	}
}

// ask sends a query on one of the connections, with its length before it (RFC 1035, section
// 4.2.2), and waits for the reply.
func (s *stream) ask(ctx context.Context, q *query, timeout time.Duration) ([]byte, error) {
	w := &waiter{query: q, reply: make(chan datagram, 1)}
	l, id, err := s.enlist(w, timeout)
	if err != nil {
		return nil, err
	}
	defer s.dismiss(l, id, w)
	select {
	case <-l.ready:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if l.conn != nil { // else fail tells
		l.conn.SetWriteDeadline(time.Now().Add(timeout))
		if _, err := l.conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(q.wire))), q.wire...)); err != nil {
			s.fail(l, err)
		}
	}
	select {
	case d := <-w.reply:
		return d.wire, d.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// enlist finds a connection and an id for a question.
func (s *stream) enlist(w *waiter, timeout time.Duration) (*link, uint16, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, 0, net.ErrClosed
	}
	i := slices.IndexFunc(s.links, func(l *link) bool { return len(l.waiting) < s.depth })
	if i < 0 {
		i = len(s.links)
		s.links = append(s.links, &link{ready: make(chan struct{}), waiting: map[uint16]*waiter{}})
		go s.run(s.links[i], timeout)
	}
	l := s.links[i]
	id := uint16(rand.Uint32())
	for l.waiting[id] != nil {
		id = uint16(rand.Uint32())
	}
	w.query.setID(id)
	l.waiting[id] = w
	return l, id, nil
}

// run makes a connection and hands replies to those who wait for them, until it ends.
func (s *stream) run(l *link, timeout time.Duration) {
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
		if m, err = readMessage(conn); err == nil {
			err = s.deliver(l, m)
		}
	}
	s.fail(l, err)
}

func readMessage(in io.Reader) ([]byte, error) {
	var length [2]byte
	if _, err := io.ReadFull(in, length[:]); err != nil {
		return nil, err
	}
	m := make([]byte, binary.BigEndian.Uint16(length[:]))
	_, err := io.ReadFull(in, m)
	return m, err
}

// deliver hands a reply over. One that nobody waits for is passed over on a connection that
// has others to bring: it is late, or said twice. Else it is an error.
func (s *stream) deliver(l *link, m []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(m) < headerLen {
		return errBadReply
	}
	id := binary.BigEndian.Uint16(m)
	w := l.waiting[id]
	switch {
	case w == nil && l.late+l.answered > 0 && len(l.waiting) > 0:
		return nil
	case w == nil || w.query.compare(m) == foreign:
		return errBadReply
	}
	delete(l.waiting, id)
	if l.answered++; l.answered >= maxPipelined*s.depth { // what made it less is over
		s.depth = min(2*s.depth, maxPipelined)
	}
	w.reply <- datagram{wire: m}
	return nil
}

// dismiss ends a question. One whose time is up ends its connection too, once the others on
// it have their answers: the server may have forgotten it.
func (s *stream) dismiss(l *link, id uint16, w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.waiting[id] == w {
		delete(l.waiting, id)
		l.late++
		s.drop(l)
	}
	if l.late > 0 && len(l.waiting) == 0 {
		s.end(l, os.ErrDeadlineExceeded)
	}
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
}
