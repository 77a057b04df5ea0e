package resolve

import (
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"
)

// maxTCP bounds the connections to one server at a time. A question beyond them waits.
const maxTCP = 32

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

// tcp asks one server what its datagrams do not hold: a connection, and a goroutine, for each question.
type tcp struct {
	addr  netip.AddrPort
	large large
	slots chan struct{}
	ctx   context.Context
	close context.CancelFunc
}

func newTCP(addr netip.AddrPort, l large) *tcp {
	t := &tcp{addr: addr, large: l, slots: make(chan struct{}, maxTCP)}
	t.ctx, t.close = context.WithCancel(context.Background())
	return t
}

// ask implements transport.
func (t *tcp) ask(q *question) {
	go func() { q.came(t.exchange(t.ctx, &q.query, q.timeout)) }()
}

// exchange sends a query and waits for the reply. Waiting for a connection is not of its time.
func (t *tcp) exchange(ctx context.Context, q *query, timeout time.Duration) ([]byte, error) {
	select {
	case t.slots <- struct{}{}:
		defer func() { <-t.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	deadline := time.Now().Add(timeout)
	// Without a local address: one that is bound before it connects takes a port away from all others.
	d := net.Dialer{Deadline: deadline}
	conn, err := d.DialContext(ctx, "tcp", t.addr.String())
	if err != nil {
		return nil, timedOut(err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	conn.SetDeadline(deadline)
	id := uint16(rand.Uint32())
	// With its length before it (RFC 1035, section 4.2.2).
	if _, err := conn.Write(q.append(binary.BigEndian.AppendUint16(nil, uint16(len(q.wire))), id)); err != nil {
		return nil, timedOut(err)
	}
	m, err := t.read(ctx, conn, timeout)
	if err != nil {
		return nil, timedOut(err)
	}
	like := foreign
	if len(m) >= headerLen && binary.BigEndian.Uint16(m) == id {
		like = q.compare(m)
	}
	switch like {
	case foreign:
		err = errBadReply
	case unread:
		err = errUnread
	default: // letters of another case are the server's own: TCP cannot be forged from aside
		return m, nil
	}
	t.large.free(m)
	return nil, err
}

// read reads a message with its length before it. A large one has its time from when there is
// room for it.
func (t *tcp) read(ctx context.Context, conn net.Conn, timeout time.Duration) ([]byte, error) {
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint16(length[:])
	if n > maxDatagram {
		select {
		case t.large <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		conn.SetReadDeadline(time.Now().Add(timeout))
	}
	m := make([]byte, n)
	if _, err := io.ReadFull(conn, m); err != nil {
		t.large.free(m)
		return nil, err
	}
	return m, nil
}
