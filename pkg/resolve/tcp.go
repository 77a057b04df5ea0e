package resolve

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"github.com/miekg/dns"
)

// maxTCP bounds the connections at a time, and with them the messages of up to 64 KiB in memory. A question beyond them waits.
const maxTCP = 32

// tcp asks servers what their datagrams do not hold: a connection, and a goroutine, for each question.
type tcp struct {
	slots chan struct{}
	ctx   context.Context
	close context.CancelFunc
}

func newTCP() *tcp {
	t := &tcp{slots: make(chan struct{}, maxTCP)}
	t.ctx, t.close = context.WithCancel(context.Background())
	return t
}

// ask asks q's server, and has the reply judged. Waiting for a connection is not of the question's time.
func (t *tcp) ask(q *question) {
	go func() {
		select {
		case t.slots <- struct{}{}:
			defer func() { <-t.slots }()
			q.wire, q.err = t.exchange(q.server.addr, &q.query, q.timeout)
		case <-t.ctx.Done():
			q.err = t.ctx.Err()
		}
		q.judge()
	}()
}

// exchange sends a query and waits for the reply.
func (t *tcp) exchange(addr netip.AddrPort, q *query, timeout time.Duration) ([]byte, error) {
	deadline := time.Now().Add(timeout)
	// Without a local address: one that is bound before it connects takes a port away from all others.
	d := net.Dialer{Deadline: deadline}
	c, err := d.DialContext(t.ctx, "tcp", addr.String())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer context.AfterFunc(t.ctx, func() { c.Close() })()
	c.SetDeadline(deadline)
	conn := dns.Conn{Conn: c}
	id := uint16(rand.Uint32())
	if _, err := conn.Write(q.append(nil, id)); err != nil {
		return nil, err
	}
	m, err := conn.ReadMsgHeader(nil)
	if errors.Is(err, dns.ErrShortRead) {
		err = errBadReply
	}
	if err != nil {
		return nil, err
	}
	if binary.BigEndian.Uint16(m) != id {
		return nil, errBadReply
	}
	if err = q.compare(m); err == errCase {
		err = nil // the server's own: TCP cannot be forged from aside
	}
	return m, err
}
