package resolve

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of the sockets of one server. A forger must guess the port as well as the id
// and the case of the letters: each socket has a port that the system draws, and gives
// way to another after so many questions.
const (
	udpSockets   = 8
	socketLife   = 1 << 13 // questions
	socketAsking = 1 << 14 // questions at a time, of 2^16 ids
	maxSockets   = 32      // with those that have given way and still wait for replies; then these serve on
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
	open    atomic.Int32 // of these, and those before them
	closed  bool
}

type socket struct {
	conn *net.UDPConn
	open *atomic.Int32

	mu      sync.Mutex
	waiting map[uint16]*waiting
	left    int // questions it should still be asked
	ended   bool
}

// waiting is a question whose reply is to come.
type waiting struct {
	*question
	timer *time.Timer
}

// ask implements transport.
func (u *udp) ask(q *question) {
	var room [headerLen + maxName + 4 + optLen]byte
	message := q.query.append(room[:0], 0) // from enlist on, the question may be over at any time
	s, id, w, err := u.enlist(q)
	if err != nil {
		q.came(nil, err)
		return
	}
	binary.BigEndian.PutUint16(message, id)
	if _, err := s.conn.Write(message); err != nil {
		if c, again := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(u.addr)); again != nil {
			err = again // which package localfault knows, if the fault is this machine's
		} else {
			c.Close()
		}
		s.fail(id, w, err)
	}
}

// enlist finds a socket and an id for a question, whose time begins.
func (u *udp) enlist(q *question) (*socket, uint16, *waiting, error) {
	for {
		s, err := u.pick()
		if err != nil {
			return nil, 0, nil, err
		}
		s.mu.Lock()
		if s.ended { // in the meantime
			s.mu.Unlock()
			continue
		}
		s.left--
		id := uint16(rand.Uint32())
		for s.waiting[id] != nil {
			id = uint16(rand.Uint32())
		}
		w := &waiting{question: q}
		w.timer = time.AfterFunc(q.timeout, func() { s.fail(id, w, os.ErrDeadlineExceeded) })
		s.waiting[id] = w
		s.mu.Unlock()
		return s, id, w, nil
	}
}

// pick gives one of the sockets, by chance, and a new one in place of one that has
// served its time, whose last questions still find their replies. Where there are too many of
// those, or the system grants no more, one that has served its time serves on.
func (u *udp) pick() (*socket, error) {
	i := rand.IntN(udpSockets)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil, net.ErrClosed
	}
	if s := u.sockets[i]; s != nil && s.serves(false) {
		return s, nil
	}
	if u.open.Load() >= maxSockets {
		if s := u.old(i); s != nil {
			return s, nil
		}
	}
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(u.addr))
	if err != nil {
		if s := u.old(i); s != nil {
			return s, nil
		}
		return nil, err
	}
	_ = conn.SetReadBuffer(socketBuffer) // the system may grant less: replies are lost then, and asked for again
	s := &socket{conn: conn, open: &u.open, waiting: map[uint16]*waiting{}, left: socketLife}
	u.open.Add(1)
	u.sockets[i] = s
	go s.read()
	return s, nil
}

// old gives the i-th socket or one after it that can serve on, nil if there is none.
func (u *udp) old(i int) *socket {
	for k := range udpSockets {
		if s := u.sockets[(i+k)%udpSockets]; s != nil && s.serves(true) {
			return s
		}
	}
	return nil
}

// serves says whether a socket takes questions, on beyond its time or not.
func (s *socket) serves(on bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ended && len(s.waiting) < socketAsking && (on || s.left > 0)
}

// end closes a socket, once. The mutex is held.
func (s *socket) end() {
	if !s.ended {
		s.ended = true
		s.conn.Close()
		s.open.Add(-1)
	}
}

// dismiss ends the wait for a reply, and the socket with the last one. The mutex is held.
func (s *socket) dismiss(id uint16, w *waiting) {
	w.timer.Stop()
	delete(s.waiting, id)
	if s.left <= 0 && len(s.waiting) == 0 {
		s.end()
	}
}

// fail ends a question that still waits.
func (s *socket) fail(id uint16, w *waiting, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting[id] == w {
		s.dismiss(id, w)
		w.came(nil, err)
	}
}

// read hands replies to those who wait for them, until the socket is closed.
func (s *socket) read() {
	buf := make([]byte, maxDatagram)
	for {
		n, err := s.conn.Read(buf)
		if err != nil { // the host says that nobody listens there: it does not say to which question
			s.failAll(err)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		s.deliver(buf[:n])
	}
}

func (s *socket) deliver(m []byte) {
	if len(m) < headerLen {
		return
	}
	id := binary.BigEndian.Uint16(m)
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.waiting[id]
	if w == nil {
		return // late, or forged
	}
	var wire []byte
	var err error
	switch w.query.compare(m) {
	case foreign:
		return // wait on for the true one
	case unread:
		err = errUnread
	case otherCase:
		err = errOtherCase
	case exact:
		wire = bytes.Clone(m)
	}
	s.dismiss(id, w)
	w.came(wire, err)
}

func (s *socket) failAll(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, w := range s.waiting {
		s.dismiss(id, w)
		w.came(nil, err)
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
			s.end()
			s.mu.Unlock()
		}
	}
}
