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
	"syscall"
	"time"
)

// Bounds of the sockets of one server. The system draws their ports once for the resolver's life: a forger who has found them
// must still guess the id, and the case of the letters.
const (
	udpSockets   = 8
	socketAsking = 1 << 15 // questions at a time, of 2^16 ids; all sockets together have room for maxInFlight and as many late ones
	socketBuffer = 4 << 20 // bytes of replies that may wait to be read
	maxDatagram  = 4 << 10 // of one, more than udpPayload, for servers that heed none; a longer one is cut
)

// udp asks one server over a few sockets that all questions share, as long as the resolver lives.
type udp struct {
	addr netip.AddrPort

	mu      sync.Mutex
	sockets []*socket
	closed  bool
}

type socket struct {
	conn *net.UDPConn

	mu      sync.Mutex
	waiting map[uint16]*waiting // by id
}

// waiting is a question that waits for its reply.
type waiting struct {
	*question
	timer *time.Timer
}

// ask implements transport.
func (u *udp) ask(q *question) {
	var room [headerLen + maxName + 4 + optLen]byte
	message := q.query.append(room[:0], 0) // from enlist on, the question may be over at any time
	s, err := u.pick()
	var id uint16
	var w *waiting
	if err == nil {
		id, w, err = s.enlist(q)
	}
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
		if errors.Is(err, syscall.ECONNREFUSED) { // which the system tells once, to a write or to read
			s.refused(err)
		}
	}
}

// pick gives one of the sockets, by chance: of those that the system grants.
func (u *udp) pick() (*socket, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil, net.ErrClosed
	}
	if len(u.sockets) < udpSockets {
		conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(u.addr))
		if err == nil {
			_ = conn.SetReadBuffer(socketBuffer) // the system may grant less: replies are lost then, and asked for again
			s := &socket{conn: conn, waiting: map[uint16]*waiting{}}
			u.sockets = append(u.sockets, s)
			go s.read()
		} else if len(u.sockets) == 0 {
			return nil, err
		}
	}
	return u.sockets[rand.IntN(len(u.sockets))], nil
}

// enlist finds an id for a question and starts its timer. EMFILE if the socket is full: the system has granted too few sockets.
func (s *socket) enlist(q *question) (uint16, *waiting, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) >= socketAsking {
		return 0, nil, syscall.EMFILE
	}
	id := uint16(rand.Uint32())
	for s.waiting[id] != nil {
		id = uint16(rand.Uint32())
	}
	w := &waiting{question: q}
	w.timer = time.AfterFunc(q.timeout, func() { s.fail(id, w, os.ErrDeadlineExceeded) })
	s.waiting[id] = w
	return id, w, nil
}

// endQuestion tells a question that still waits what came of it. The mutex is held.
func (s *socket) endQuestion(id uint16, w *waiting, wire []byte, err error) {
	if s.waiting[id] == w {
		w.timer.Stop()
		delete(s.waiting, id)
		w.came(wire, err)
	}
}

func (s *socket) fail(id uint16, w *waiting, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endQuestion(id, w, nil, err)
}

// read hands replies to those who wait for them, until the socket is closed.
func (s *socket) read() {
	buf := make([]byte, maxDatagram)
	for {
		n, err := s.conn.Read(buf)
		if err == nil {
			s.deliver(buf[:n])
		} else {
			s.refused(err)
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

// refused ends all that waits: the host says that nobody listens there, and does not say to which question.
func (s *socket) refused(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, w := range s.waiting {
		s.endQuestion(id, w, nil, err)
	}
}

// deliver hands a reply to the question that waits for it.
func (s *socket) deliver(m []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(m) < headerLen {
		return
	}
	id := binary.BigEndian.Uint16(m)
	w := s.waiting[id]
	if w == nil {
		return // late, or forged
	}
	if err := w.query.compare(m); err != errBadReply { // else wait on for the true one
		s.endQuestion(id, w, bytes.Clone(m), err)
	}
}

func (u *udp) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	for _, s := range u.sockets {
		s.conn.Close()
	}
}
