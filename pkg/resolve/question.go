package resolve

import (
	"errors"
	"os"
	"time"

	"github.com/miekg/dns"

	"mercator/pkg/fetch/localfault"
)

// question is one question on its way, to one server after another, until a reply comes that says something. It is no goroutine: thousands
// wait at a time, and their stacks would take most of the memory, and of the garbage collector's work.
type question struct {
	r     *Resolver
	query query
	place chan struct{} // r.slots or r.late: the question holds one place of it
	over  func()        // called once, when the fields below hold the result

	reply *dns.Msg // the last that came; nil if none did, or brief has what it says
	brief
	server *server // the last that was asked
	rtt    time.Duration
	status string // "" for NOERROR and NXDOMAIN

	turn    uint32
	attempt int
	refused int // attempts in a row that came to nothing at once
	timeout time.Duration
	tcp     bool      // the same server is asked once more
	began   time.Time // to ask at all
	start   time.Time
	wire    []byte // reply from the transport
	err     error
}

// ask begins.
func (q *question) ask(name string, qtype uint16) {
	q.reply, q.brief, q.server, q.rtt, q.status = nil, brief{}, nil, 0, StatusTimeout
	if reserved(name) { // an alias may lead there
		q.rcode, q.status = dns.RcodeNameError, ""
		q.over()
		return
	}
	var err error
	if q.query, err = newQuery(name, qtype); err != nil {
		q.status = StatusBadName
		q.over()
		return
	}
	q.turn, q.attempt, q.refused, q.timeout, q.began = q.r.next.Add(1), 0, 0, q.r.cfg.Timeout, time.Now()
	q.send()
}

// send asks a server, as soon as its rate allows.
func (q *question) send() {
	if q.reply != nil {
		q.reply.Answer, q.reply.Ns, q.reply.Extra = nil, nil, nil // which may take much memory
	}
	q.server, q.tcp = q.r.pick(q.turn+uint32(q.attempt)), false
	q.await()
}

func (q *question) await() {
	if wait := q.server.wait(); wait > 0 {
		time.AfterFunc(wait, q.transmit)
		return
	}
	q.transmit()
}

func (q *question) transmit() {
	if q.tcp {
		q.r.tcp.ask(q)
		return
	}
	q.start = time.Now()
	q.server.main.ask(q)
}

// came is for the transport, to be called once for each time that it is asked: with the
// reply's bytes, which compare found to be a reply, or with what went wrong. It never blocks.
func (q *question) came(wire []byte, err error) {
	q.wire, q.err = wire, err
	q.r.arrived <- q
}

// judge decides whether what came is the end.
func (q *question) judge() {
	wire, err := q.wire, q.err
	q.wire, q.err = nil, nil
	// TCP tells what did not fit a datagram, and whether letters of other case are the server's.
	if !q.tcp && (errors.Is(err, errCase) || err == nil && wire[2]&0x02 != 0) {
		q.tcp = true
		q.await()
		return
	}
	if len(wire) > maxDatagram {
		// It may take twenty times its length when it is parsed: one at a time does.
		q.r.large.Lock()
		defer q.r.large.Unlock()
	}
	q.rtt = time.Since(q.start)
	if err == nil || errors.Is(err, errUnread) {
		q.r.heard.Store(true)
	}
	var m *dns.Msg
	if err == nil {
		if b, ok := q.query.brief(wire); ok {
			q.server.report(true)
			q.reply, q.brief, q.status = nil, b, ""
			q.over()
			return
		}
		m, err = q.query.unpack(wire)
	}
	if (err == nil && disputed(m.Rcode) || errors.Is(err, errUnread)) && q.query.withoutEDNS() {
		q.reply, q.status = m, StatusBadReply
		q.send() // to the same server: that is no further attempt
		return
	}
	servers := len(q.r.servers)
	if err == nil {
		q.reply, q.rcode = m, m.Rcode
		q.status = statusOf(m.Rcode)
		q.server.report(q.status != StatusRefused)
		// Another server may do better; asking the same again rarely does.
		if q.status == "" || q.attempt+1 >= servers {
			q.over()
			return
		}
		q.next()
		return
	}
	switch {
	case os.IsTimeout(err):
		q.server.report(false)
		q.status = StatusTimeout
		q.timeout *= 2
		q.refused = 0
		if q.attempt > 0 && !q.r.heard.Load() && q.r.probe() {
			q.r.cfg.Mute()
		}
		q.makeRoom()
	case errors.Is(err, errBadReply):
		q.server.report(false)
		q.status = StatusBadReply
	default:
		q.status = StatusNetwork
		if text, ok := localfault.Of(err); ok {
			q.status = text
		} else {
			q.server.report(false)
		}
		if !q.r.heard.Load() {
			trouble := q.server.name + ": " + err.Error()
			q.r.trouble.Store(&trouble)
		}
		// It is no attempt while another server may be but slow.
		if q.refused++; q.refused >= 2*servers {
			q.over()
			return
		}
		q.turn++
		q.send()
		return
	}
	q.next()
}

// next asks once more, if it may.
func (q *question) next() {
	if q.attempt++; q.attempt >= q.r.cfg.Attempts {
		q.over()
		return
	}
	q.send()
}

// makeRoom leaves the slot of a question that was not answered in its first time to another, as long as less than as many as there are
// slots have done so: else a few dead names hold all slots for most of the time.
func (q *question) makeRoom() {
	if q.place != q.r.slots || q.attempt+1 >= q.r.cfg.Attempts {
		return
	}
	select {
	case q.r.late <- struct{}{}:
		q.leave()
		q.place = q.r.late
	default:
	}
}

// leave gives the place back.
func (q *question) leave() { <-q.place }

// work judges what arrives, until the end, which it leaves for the other workers.
func (r *Resolver) work() {
	for q := range r.arrived {
		if q == nil {
			r.arrived <- nil
			return
		}
		q.judge()
	}
}
