package resolve

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"mercator/pkg/fault"
	"mercator/pkg/fetch/addrguard"
)

// NameResult is one line of Names, with zdns's field names where it has one.
type NameResult struct {
	Name      string    `json:"name"`
	Class     string    `json:"class"`
	Type      string    `json:"type"`
	Status    string    `json:"status"`          // NOERROR, NXDOMAIN, SERVFAIL, …, TIMEOUT, ERROR
	Error     string    `json:"error,omitempty"` // of ERROR, why: network-error, bad-reply
	Timestamp time.Time `json:"timestamp"`
	RTT       int64     `json:"rtt_us"`
	Data      struct {
		Answers  []NameAnswer `json:"answers"`
		Resolver string       `json:"resolver"`
	} `json:"data"`
}

// NameAnswer is one record of an answer.
type NameAnswer struct {
	Name   string `json:"name"`
	Class  string `json:"class"`
	Type   string `json:"type"`
	TTL    uint32 `json:"ttl"`
	Answer string `json:"answer"`

	Special string `json:"special,omitempty"` // range of a special-purpose address, such as "private use"
}

// Bounds of the lines of Names. Of one that is longer only the beginning is told.
const (
	MaxLine  = 64 << 10
	maxLines = 4 << 20 // bytes of lines whose results are not written yet
	longHead = 253
)

// NameStats counts the lines of Names.
type NameStats struct {
	Names   uint64 `json:"names"`
	Failed  uint64 `json:"failed"`  // whose status is not NOERROR
	Silent  uint64 `json:"silent"`  // of those, without an answer of a server: TIMEOUT, ERROR
	TooLong uint64 `json:"toolong"` // of those that failed, longer than MaxLine
}

// line is one of the input, without the space around it or, of one that is too long, its
// beginning.
type line struct {
	n    uint64
	text string
	long bool
}

// Names resolves one name a line to one JSON object a line, with up to parallel
// questions in flight; empty lines are skipped. Results come as they are known or, with
// inOrder, in the order of the input, which lets a name without an answer hold up those
// that are maxWaiting bytes of results behind it.
//
// A line that is a JSON object has the name in its field "name"; its other fields are
// passed through, where the result has none of that name. A line that is no name has the
// status ILLEGAL_INPUT, and one of more than MaxLine bytes too.
func Names(ctx context.Context, r *Resolver, recordType string, parallel int, inOrder bool, now func() time.Time, in io.Reader, out io.Writer) (NameStats, error) {
	var stats NameStats
	qtype, ok := parseType(recordType)
	if !ok || isTransfer(qtype) {
		return stats, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("record type %q", recordType), Want: "A, AAAA, MX, NS, TXT, CNAME, SOA, …, or TYPE with a number"}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := newLineWriter(out, inOrder)
	defer w.end()
	stop := context.AfterFunc(ctx, w.end)
	defer stop()

	var failed, silent atomic.Uint64
	c := newCrew(parallel, func(l line, late func()) {
		status, err := r.tell(ctx, w, l, qtype, now, late)
		if ctx.Err() != nil {
			return // what was cancelled is no result
		}
		if status != dns.RcodeToString[dns.RcodeSuccess] {
			failed.Add(1)
		}
		if status == "TIMEOUT" || status == "ERROR" {
			silent.Add(1)
		}
		if err != nil {
			cancel(err)
		}
	})
	lines := bufio.NewReaderSize(in, MaxLine)
	var err error
	for err == nil && ctx.Err() == nil {
		var l line
		if l.text, l.long, err = readLine(lines); l.text == "" {
			continue
		}
		if l.long {
			stats.TooLong++
		}
		w.expect(len(l.text))
		l.n = stats.Names
		c.give(l)
		stats.Names++
	}
	close(c.work)
	c.running.Wait()
	stats.Failed, stats.Silent = failed.Load(), silent.Load()
	if err := context.Cause(ctx); err != nil {
		return stats, err
	}
	if err != io.EOF {
		return stats, err
	}
	return stats, w.flush()
}

// parseType reads a record type by its name, or by its number as TYPE65280 (RFC 3597,
// section 5).
func parseType(s string) (qtype uint16, ok bool) {
	s = strings.ToUpper(s)
	if number, found := strings.CutPrefix(s, "TYPE"); found {
		n, err := strconv.ParseUint(number, 10, 16)
		return uint16(n), err == nil && n > 0
	}
	qtype, ok = dns.StringToType[s]
	return qtype, ok
}

// readLine gives a line without the space around it or, of one that is too long, its
// beginning.
func readLine(in *bufio.Reader) (text string, long bool, err error) {
	b, err := in.ReadSlice('\n')
	if err != bufio.ErrBufferFull {
		return strings.TrimSpace(string(b)), false, err
	}
	text = strings.ToValidUTF8(string(b[:longHead]), "\uFFFD")
	for err == bufio.ErrBufferFull {
		_, err = in.ReadSlice('\n')
	}
	return text, true, err
}

// isTransfer says that a question's answer is a whole zone, in many messages.
func isTransfer(qtype uint16) bool { return qtype == dns.TypeAXFR || qtype == dns.TypeIXFR }

// lineWriter gathers the lines of many goroutines.
type lineWriter struct {
	mu       sync.Mutex
	room     sync.Cond // waiting or asked has shrunk, or ended is true
	out      *bufio.Writer
	inOrder  bool
	next     uint64            // line to be written, in order
	waiting  map[uint64][]byte // lines before which others are to come
	size     int               // bytes in waiting
	expected int               // lines that are to come
	asked    int               // bytes of these
	timed    bool              // what waits in out is flushed in time
	ended    bool
}

// maxWaiting bounds the bytes of results that wait for an earlier one.
const maxWaiting = 16 << 20

func newLineWriter(out io.Writer, inOrder bool) *lineWriter {
	w := &lineWriter{out: bufio.NewWriterSize(out, 1<<16), inOrder: inOrder, waiting: map[uint64][]byte{}}
	w.room.L = &w.mu
	return w
}

// expect tells of a line to come, of so many bytes, for which those before it need not be
// held back. It waits for room.
func (w *lineWriter) expect(bytes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.asked > maxLines && !w.ended {
		w.room.Wait()
	}
	w.expected++
	w.asked += bytes
}

// end lets go who waits. Nothing is written from now on.
func (w *lineWriter) end() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.room.Broadcast()
}

// flush writes what waits.
func (w *lineWriter) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timed = false
	if w.ended {
		return nil
	}
	return w.out.Flush()
}

// write takes the result of line n, which had so many bytes, and flushes when no other is
// expected, and within windowWait. It says false, when there is room again, for a large one that came without room.
func (w *lineWriter) write(n uint64, line []byte, bytes int) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.inOrder && n != w.next && w.size > maxWaiting && !w.ended {
		if len(line) > maxDatagram {
			return false, nil
		}
		w.room.Wait()
	}
	if w.ended {
		return true, nil
	}
	w.expected--
	w.asked -= bytes
	if w.inOrder {
		w.waiting[n] = line
		w.size += len(line)
	} else if err := w.put(line); err != nil {
		return true, err
	}
	for w.waiting[w.next] != nil {
		line := w.waiting[w.next]
		if err := w.put(line); err != nil {
			return true, err
		}
		delete(w.waiting, w.next)
		w.size -= len(line)
		w.next++
	}
	w.room.Broadcast()
	if w.expected > 0 {
		if !w.timed && w.out.Buffered() > 0 {
			w.timed = true
			time.AfterFunc(windowWait, func() { w.flush() }) // whose error the next to write gets
		}
		return true, nil
	}
	return true, w.out.Flush()
}

// put writes whole lines only, so that an interrupt leaves no part of one.
func (w *lineWriter) put(line []byte) error {
	if len(line) > w.out.Available() {
		if err := w.out.Flush(); err != nil {
			return err
		}
	}
	_, err := w.out.Write(line)
	return err
}

// await waits until line n is the next, or one of a few that are and there is room for its
// result: if all were asked for again as soon as there is room for one, most would be in vain.
func (w *lineWriter) await(n uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for n != w.next && (n >= w.next+maxLarge || w.size > maxWaiting) && !w.ended {
		w.room.Wait()
	}
}

// tell writes the result of a line. One that is large and has no room is forgotten, and
// asked for again: others might wait for ever for the memory that it takes.
func (r *Resolver) tell(ctx context.Context, w *lineWriter, l line, qtype uint16, now func() time.Time, late func()) (status string, err error) {
	for {
		result, status, release, err := r.line(ctx, l.text, l.long, qtype, now, late)
		written := true
		if err == nil && ctx.Err() == nil {
			written, err = w.write(l.n, result, len(l.text))
		}
		release()
		if written {
			return status, err
		}
		w.await(l.n)
	}
}

// line makes the result of one line; release is to be called when it is written.
func (r *Resolver) line(ctx context.Context, text string, long bool, qtype uint16, now func() time.Time, late func()) (result []byte, status string, release func(), err error) {
	name := text
	var fields map[string]json.RawMessage
	legal := !long
	if legal && text[0] == '{' {
		name = "" // which null leaves as it is
		legal = json.Unmarshal([]byte(text), &fields) == nil && json.Unmarshal(fields["name"], &name) == nil
	}
	var res NameResult
	if legal {
		res, release = r.name(ctx, name, qtype, now, late)
	} else {
		fields, release = nil, func() {}
		res = illegal(text, qtype, now)
	}
	result, err = json.Marshal(res)
	if fields != nil && err == nil {
		// What the result has counts, before what was there.
		if err = json.Unmarshal(result, &fields); err == nil {
			result, err = json.Marshal(fields) // in order of their names
		}
	}
	return append(result, '\n'), res.Status, release, err
}

func illegal(name string, qtype uint16, now func() time.Time) NameResult {
	res := NameResult{Name: name, Class: "IN", Type: dns.Type(qtype).String(), Status: "ILLEGAL_INPUT", Timestamp: now().UTC()}
	res.Data.Answers = []NameAnswer{}
	return res
}

func (r *Resolver) name(ctx context.Context, name string, qtype uint16, now func() time.Time, late func()) (res NameResult, release func()) {
	res = illegal(name, qtype, now)
	if _, ok := dns.IsDomainName(name); !ok {
		return res, func() {}
	}
	asked := strings.ToLower(wireName(name))
	raw := r.rawShared(ctx, rawQuestion{asked, qtype}, late)
	if raw.Why == StatusBadName {
		return res, raw.Release
	}
	res.Status, res.Error, res.RTT, res.Data.Resolver = raw.Status, raw.Why, raw.RTT.Microseconds(), raw.Server
	if raw.Msg == nil {
		return res, raw.Release
	}
	asked = withoutDot(asked)
	for _, rr := range raw.Msg.Answer {
		h := rr.Header()
		owner := withoutDot(h.Name)
		if strings.EqualFold(owner, asked) {
			owner = name // the question's letters have random case
		}
		answer := NameAnswer{Name: owner, Class: dns.Class(h.Class).String(), Type: dns.Type(h.Rrtype).String(), TTL: h.Ttl, Answer: rdata(rr)}
		switch rr := rr.(type) {
		case *dns.A:
			answer.Special = special(rr.A)
		case *dns.AAAA:
			answer.Special = special(rr.AAAA)
		}
		res.Data.Answers = append(res.Data.Answers, answer)
	}
	return res, raw.Release
}

// rawQuestion is what Names asks: a name in lower case, as wireName gives it, and a type.
type rawQuestion struct {
	name  string
	qtype uint16
}

// jointReply is the reply to a question that several lines ask.
type jointReply struct {
	RawReply
	done   chan struct{} // closed when the reply is there
	users  int           // who have not released it
	late   []func()      // of these, while the question is not late
	isLate bool
}

// rawShared is raw, and asks equal questions that are in flight once. Each release counts.
func (r *Resolver) rawShared(ctx context.Context, q rawQuestion, late func()) RawReply {
	r.mu.Lock()
	j := r.joint[q]
	first := j == nil
	if first {
		j = &jointReply{done: make(chan struct{})}
		r.joint[q] = j
	}
	j.users++
	isLate := j.isLate
	if !isLate {
		j.late = append(j.late, late)
	}
	r.mu.Unlock()
	if first {
		j.RawReply = r.raw(ctx, q.name, q.qtype, func() {
			r.mu.Lock()
			lates := j.late
			j.late, j.isLate = nil, true
			r.mu.Unlock()
			for _, late := range lates {
				late()
			}
		})
		r.mu.Lock()
		delete(r.joint, q)
		r.mu.Unlock()
		close(j.done)
	} else if isLate {
		late()
	}
	<-j.done
	reply := j.RawReply
	reply.Release = func() {
		r.mu.Lock()
		j.users--
		last := j.users == 0
		r.mu.Unlock()
		if last {
			j.Release()
		}
	}
	return reply
}

// special names the range of an address that is not of the public Internet.
func special(ip net.IP) string {
	addr, _ := netip.AddrFromSlice(ip)
	return addrguard.Special(addr)
}

// rdata is what a record says, as in zone files, but for the last dot of a name at its end.
func rdata(rr dns.RR) string {
	if rr, ok := rr.(*dns.RFC3597); ok { // of a type that the library does not know
		return fmt.Sprintf(`\# %d %s`, len(rr.Rdata)/2, rr.Rdata)
	}
	return withoutDot(strings.TrimPrefix(rr.String(), rr.Header().String()))
}

// withoutDot takes the last dot from a text that ends in a name, unless that is the root's.
func withoutDot(s string) string {
	if s == "." || strings.HasSuffix(s, " .") {
		return s
	}
	return strings.TrimSuffix(s, ".")
}
