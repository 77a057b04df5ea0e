package resolve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
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
	Duration  float64   `json:"duration"` // of all attempts, seconds
	RTT       int64     `json:"rtt_us"`   // of the last, microseconds
	Data      struct {
		Answers  []NameAnswer `json:"answers"`
		Protocol string       `json:"protocol"` // udp or tcp
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
	MaxLine  = 64 << 10 // bytes without the newline
	lineRoom = MaxLine + len("\n")
	maxLines = 4 << 20 // bytes of lines whose results are not written yet
	lineCost = 128     // of these, what one takes beside its text
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
	n      uint64
	text   string
	long   bool
	name   string
	object bool // its other fields are passed through
}

// size is what a line takes while its result is not written, bytes.
func (l *line) size() int { return lineCost + len(l.text) }

// names is one run of Names.
type names struct {
	r     *Resolver
	ctx   context.Context
	fail  context.CancelCauseFunc
	qtype uint16
	kind  string // its name
	now   func() time.Time
	out   *lineWriter

	mu     sync.Mutex
	asking map[string][]line // by what is asked for, the lines that wait for it
}

// Names resolves one name a line to one JSON object a line; empty lines are skipped. Results
// come as they are known or, with inOrder, in the order of the input: then a name without an
// answer holds up those that are maxWaiting bytes of results behind it. Equal questions in
// flight are asked once.
//
// A line that is a JSON object has the name in its field "name"; its other fields are
// passed through, where the result has none of that name. A line that is no name has the
// status ILLEGAL_INPUT, and one of more than MaxLine bytes too.
func Names(ctx context.Context, r *Resolver, recordType string, inOrder bool, now func() time.Time, in io.Reader, out io.Writer) (NameStats, error) {
	qtype, ok := parseType(recordType)
	if !ok || isTransfer(qtype) {
		return NameStats{}, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("record type %q", recordType), Want: "A, AAAA, MX, NS, TXT, CNAME, SOA, …, or TYPE with a number"}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := newLineWriter(out, inOrder)
	defer w.end()
	stop := context.AfterFunc(ctx, w.end)
	defer stop()
	n := &names{r: r, ctx: ctx, fail: cancel, qtype: qtype, kind: dns.Type(qtype).String(), now: now, out: w, asking: map[string][]line{}}
	lines := bufio.NewReaderSize(in, lineRoom)
	var err error
	for err == nil && ctx.Err() == nil {
		var l line
		if l.text, l.long, err = readLine(lines); l.text == "" {
			continue
		}
		l.n = w.expect(&l)
		n.take(l)
	}
	stats, failed := w.drain()
	switch {
	case failed != nil:
		err = failed
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case err == io.EOF:
		err = nil
	}
	return stats, err
}

// take finds the name of a line, and asks for it.
func (n *names) take(l line) {
	l.name = l.text
	legal := !l.long
	if legal && l.text[0] == '{' {
		var fields map[string]json.RawMessage // which may take twenty times the text, and do not wait with it
		var name string
		legal = json.Unmarshal([]byte(l.text), &fields) == nil && json.Unmarshal(fields["name"], &name) == nil
		if l.object = legal; legal {
			l.name = name
		}
	}
	if _, ok := dns.IsDomainName(l.name); !ok || !legal {
		n.tell(l, nil)
		return
	}
	n.ask(l)
}

// ask asks for the name of a line, or has the line wait with others for the reply. It waits
// for a free slot.
func (n *names) ask(l line) {
	name := strings.ToLower(wireName(l.name))
	n.mu.Lock()
	lines, asked := n.asking[name]
	n.asking[name] = append(lines, l)
	n.mu.Unlock()
	if !asked && n.r.enter(n.ctx) {
		n.r.raw(name, n.qtype, false, func(raw RawReply) { n.came(name, &raw) })
	}
}

// came tells the lines that wait for a reply.
func (n *names) came(name string, raw *RawReply) {
	n.mu.Lock()
	lines := n.asking[name]
	delete(n.asking, name)
	n.mu.Unlock()
	for _, l := range lines {
		n.tell(l, raw)
	}
	raw.Release()
}

// tell writes the result of a line; raw is nil if nothing was asked.
func (n *names) tell(l line, raw *RawReply) {
	result, status, err := n.result(&l, raw)
	if err != nil {
		n.fail(err)
		return
	}
	again, err := n.out.write(l, status, result)
	if err != nil {
		n.fail(err)
	}
	for _, l := range again {
		go n.ask(l) // since no reply is read where this waits
	}
}

// result makes the result of a line.
func (n *names) result(l *line, raw *RawReply) (result []byte, status string, err error) {
	res := NameResult{Name: l.name, Class: "IN", Type: n.kind, Status: "ILLEGAL_INPUT", Timestamp: n.now().UTC()}
	res.Data.Answers = []NameAnswer{}
	if raw != nil && raw.Why != StatusBadName {
		res.tell(raw)
	}
	result, err = res.appendTo(make([]byte, 0, 384))
	if l.object && err == nil {
		var fields map[string]json.RawMessage
		// What the result has counts, before what was there.
		if err = errors.Join(json.Unmarshal([]byte(l.text), &fields), json.Unmarshal(result, &fields)); err == nil {
			result, err = marshal(fields) // in order of their names
		}
	}
	return append(result, '\n'), res.Status, err
}

// marshal is json.Marshal, but for <, > and &, which stand as they are.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// tell fills in what became of the question.
func (res *NameResult) tell(raw *RawReply) {
	res.Status, res.Error, res.RTT, res.Duration = raw.Status, raw.Why, raw.RTT.Microseconds(), float64(raw.Took.Microseconds())/1e6
	res.Data.Resolver, res.Data.Protocol = raw.Server, raw.Protocol
	for _, addr := range raw.addrs {
		res.Data.Answers = append(res.Data.Answers, NameAnswer{Name: res.Name, Class: "IN", Type: res.Type, TTL: raw.ttl, Answer: addr.String(), Special: addrguard.Special(addr)})
	}
	if raw.Msg == nil {
		return
	}
	asked := withoutDot(wireName(res.Name))
	for _, rr := range raw.Msg.Answer {
		h := rr.Header()
		owner := withoutDot(h.Name)
		if strings.EqualFold(owner, asked) {
			owner = res.Name // in the letters of the input
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
}

// appendTo appends the result as JSON. Texts in which that escapes nothing, as nearly all, need
// no encoding/json, which took a fifteenth of the time.
func (res *NameResult) appendTo(b []byte) ([]byte, error) {
	easy := plain(res.Name) && plain(res.Data.Resolver)
	for i := range res.Data.Answers {
		a := &res.Data.Answers[i]
		easy = easy && plain(a.Name) && plain(a.Answer)
	}
	if !easy {
		value, err := marshal(res)
		return append(b, value...), err
	}
	text := func(field, value string) {
		b = append(append(append(b, field...), value...), '"')
	}
	text(`{"name":"`, res.Name)
	text(`,"class":"`, res.Class)
	text(`,"type":"`, res.Type)
	text(`,"status":"`, res.Status)
	if res.Error != "" {
		text(`,"error":"`, res.Error)
	}
	b = append(res.Timestamp.AppendFormat(append(b, `,"timestamp":"`...), time.RFC3339Nano), '"')
	b = strconv.AppendFloat(append(b, `,"duration":`...), res.Duration, 'f', -1, 64)
	b = strconv.AppendInt(append(b, `,"rtt_us":`...), res.RTT, 10)
	b = append(b, `,"data":{"answers":[`...)
	for i := range res.Data.Answers {
		a := &res.Data.Answers[i]
		if i > 0 {
			b = append(b, ',')
		}
		text(`{"name":"`, a.Name)
		text(`,"class":"`, a.Class)
		text(`,"type":"`, a.Type)
		b = strconv.AppendUint(append(b, `,"ttl":`...), uint64(a.TTL), 10)
		text(`,"answer":"`, a.Answer)
		if a.Special != "" {
			text(`,"special":"`, a.Special)
		}
		b = append(b, '}')
	}
	text(`],"protocol":"`, res.Data.Protocol)
	text(`,"resolver":"`, res.Data.Resolver)
	return append(b, "}}"...), nil
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

// lineWriter writes results.
type lineWriter struct {
	mu       sync.Mutex
	room     sync.Cond // waiting or asked has shrunk, or ended is true
	out      *bufio.Writer
	stats    NameStats
	expected int  // lines that are to come
	asked    int  // bytes of these
	timed    bool // what waits in out is flushed in time
	ended    bool
	err      error // that it ended with

	inOrder bool
	next    uint64            // line to be written
	waiting map[uint64][]byte // results before which others are to come
	size    int               // bytes of these
	parked  map[uint64]line   // lines whose results had no room
}

// maxWaiting bounds the bytes of results that wait for an earlier one; those of lines that were
// asked for before there were so many may be as many again.
const maxWaiting = 16 << 20

func newLineWriter(out io.Writer, inOrder bool) *lineWriter {
	w := &lineWriter{out: bufio.NewWriterSize(out, 1<<16), inOrder: inOrder, waiting: map[uint64][]byte{}, parked: map[uint64]line{}}
	w.room.L = &w.mu
	return w
}

// expect tells of a line to come, for which those before it need not be held back, and gives
// its number. It waits for room.
func (w *lineWriter) expect(l *line) (n uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for (w.asked > maxLines || w.size > maxWaiting) && !w.ended {
		w.room.Wait()
	}
	w.expected++
	w.asked += l.size()
	if l.long {
		w.stats.TooLong++
	}
	w.stats.Names++
	return w.stats.Names - 1
}

// drain waits until all results are written, or there was an error.
func (w *lineWriter) drain() (NameStats, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.expected > 0 && !w.ended {
		w.room.Wait()
	}
	return w.stats, w.err
}

// end lets go who waits. Nothing is written from now on.
func (w *lineWriter) end() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.room.Broadcast()
}

// flush writes what waits.
func (w *lineWriter) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timed = false
	if !w.ended {
		w.out.Flush() // whose error the next to write gets
	}
}

// write takes the result of a line, and flushes when no other is expected, and within
// flushWait. In order, a large result that comes where there is no room is forgotten, and where
// there is twice as much as that, any result. Its line is returned when there is room: others
// before it might wait for the memory that it takes. No more than maxLarge of these are asked
// for again at a time, since most would come in vain.
func (w *lineWriter) write(l line, status string, result []byte) (again []line, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.room.Broadcast()
	if w.ended {
		return nil, nil
	}
	if w.inOrder && l.n != w.next && w.size > maxWaiting && (len(result) > maxDatagram || w.size > 2*maxWaiting) {
		w.parked[l.n] = l
		return nil, nil
	}
	w.stats.count(status)
	w.expected--
	w.asked -= l.size()
	if w.inOrder {
		w.waiting[l.n] = result
		w.size += len(result)
	} else {
		err = w.put(result)
	}
	for err == nil && w.waiting[w.next] != nil {
		err = w.put(w.waiting[w.next])
		w.size -= len(w.waiting[w.next])
		delete(w.waiting, w.next)
		w.next++
	}
	for n := w.next; len(w.parked) > 0 && (n == w.next || n < w.next+maxLarge && w.size <= maxWaiting); n++ {
		if l, ok := w.parked[n]; ok {
			again = append(again, l)
			delete(w.parked, n)
		}
	}
	switch {
	case err != nil:
	case w.expected == 0:
		err = w.out.Flush()
	case !w.timed && w.out.Buffered() > 0:
		w.timed = true
		time.AfterFunc(flushWait, w.flush)
	}
	if err != nil {
		w.ended, w.err = true, err
	}
	return again, err
}

func (s *NameStats) count(status string) {
	if status != dns.RcodeToString[dns.RcodeSuccess] {
		s.Failed++
	}
	if status == "TIMEOUT" || status == "ERROR" {
		s.Silent++
	}
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
