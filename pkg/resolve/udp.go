package resolve

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// Bounds of the sockets of one server. A forger must guess the port as well as the id
// and the case of the letters: each socket has a port that the system draws, and gives
// way to another after so many questions.
const (
	udpSockets   = 8
	socketLife   = 1 << 13 // questions
	socketAsking = 1 << 14 // questions at a time, of 2^16 ids
	socketBuffer = 4 << 20 // bytes of replies that may wait to be read
	maxDatagram  = 4 << 10 // of one, more than udpPayload, for servers that heed none; a longer one is cut
)

// errOtherCase: the reply came, in letters of other case. TCP, which cannot be forged
// from aside, tells whether it is the server's.
var errOtherCase = errors.New("reply in letters of other case")

// udp asks one server over a few sockets that all questions share.
type udp struct {
	addr netip.AddrPort

	mu      sync.Mutex
	sockets [udpSockets]*socket
	closed  bool
}

type socket struct {
	conn *net.UDPConn

	mu      sync.Mutex
	waiting map[uint16]*waiter
	left    int // questions it may still be asked
}

type waiter struct {
	query *query
	reply chan datagram // has room for one
}

type datagram struct {
	wire []byte
	err  error
}

// exchange sends a query and waits for the reply until the deadline.
func (u *udp) exchange(ctx context.Context, q *query, timeout time.Duration) ([]byte, error) {
	w := &waiter{query: q, reply: make(chan datagram, 1)}
	s, id, err := u.enlist(w)
	if err != nil {
		return nil, err
	}
	defer s.dismiss(id, w)
	if _, err := s.conn.Write(q.wire); err != nil {
		return nil, err
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case d := <-w.reply:
		return d.wire, d.err
	case <-timer.C:
		return nil, os.ErrDeadlineExceeded
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// enlist finds a socket and an id for a question.
func (u *udp) enlist(w *waiter) (*socket, uint16, error) {
	for {
		s, err := u.pick()
		if err != nil {
			return nil, 0, err
		}
		s.mu.Lock()
		if s.left <= 0 { // others were faster
			s.mu.Unlock()
			continue
		}
		if s.left--; len(s.waiting) >= socketAsking {
			s.left = 0
		}
		id := uint16(rand.Uint32())
		for s.waiting[id] != nil {
			id = uint16(rand.Uint32())
		}
		w.query.setID(id)
		s.waiting[id] = w
		s.mu.Unlock()
		return s, id, nil
	}
}

// pick gives one of the sockets, by chance, and a new one in place of one that has
// served its time, whose last questions still find their replies.
func (u *udp) pick() (*socket, error) {
	i := rand.IntN(udpSockets)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil, net.ErrClosed
	}
	if s := u.sockets[i]; s != nil {
		s.mu.Lock()
		fresh := s.left > 0
		s.mu.Unlock()
		if fresh {
			return s, nil
		}
	}
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(u.addr))
	if err != nil {
		return nil, err
	}
	_ = conn.SetReadBuffer(socketBuffer) // the system may grant less: replies are lost then, and asked for again
	s := &socket{conn: conn, waiting: map[uint16]*waiter{}, left: socketLife}
	u.sockets[i] = s
	go s.read()
	return s, nil
}

// dismiss ends a question, and the socket with the last one.
func (s *socket) dismiss(id uint16, w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting[id] == w {
		delete(s.waiting, id)
	}
	if s.left <= 0 && len(s.waiting) == 0 {
		s.conn.Close()
	}
}

// read hands replies to those who wait for them, until the socket is closed.
func (s *socket) read() {
	buf := make([]byte, maxDatagram)
	for {
		n, err := s.conn.Read(buf)
		if errors.Is(err, net.ErrClosed) {
			s.fail(err)
			return
		}
		if err != nil { // the host says that nobody listens there: it does not say to which question
			s.fail(err)
			continue
		}
		s.deliver(buf[:n])
	}
}

func (s *socket) deliver(m []byte) {
	if len(m) < headerLen {
		return
	}
	id := uint16(m[0])<<8 | uint16(m[1])
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.waiting[id]
	if w == nil {
		return // late, or forged
	}
	d := datagram{}
	switch w.query.compare(m) {
	case foreign:
		return // wait on for the true one
	case unread:
		d.err = errUnread
	case otherCase:
		d.err = errOtherCase
	case exact:
		d.wire = append(d.wire, m...)
	}
	delete(s.waiting, id)
	w.reply <- d
}

func (s *socket) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, w := range s.waiting {
		delete(s.waiting, id)
		w.reply <- datagram{err: err}
	}
}

func (u *udp) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	for _, s := range u.sockets {
		if s != nil {
			s.mu.Lock()
			s.left = 0
			s.conn.Close()
			s.mu.Unlock()
		}
	}
}
