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

	"mercator/formats/record"
	"mercator/pkg/fault"
	"mercator/pkg/fetch/addrguard"
	"mercator/pkg/localfault"
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

	Data NameData `json:"data"`

	data string // that, as JSON
}

// NameData is what a server said.
type NameData struct {
	Answers  []NameAnswer `json:"answers"`
	Protocol string       `json:"protocol"` // udp or tcp
	Resolver string       `json:"resolver"`
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
	MaxLine   = 64 << 10 // bytes without the newline
	lineRoom  = MaxLine + len("\n")
	maxLines  = 4 << 20 // bytes of lines whose results are not written yet
	lineCost  = 128     // of these, what one takes beside its text
	longHead  = 253
	flushWait = 200 * time.Millisecond // a result does not wait longer for company
)

// NameStats counts the lines of Names.
type NameStats struct {
	Names   uint64 `json:"names"`
	Cached  uint64 `json:"cached"`  // that came before, and were not asked for again
	Failed  uint64 `json:"failed"`  // whose status is not NOERROR
	Silent  uint64 `json:"silent"`  // of those, without an answer of a server: TIMEOUT, ERROR
	TooLong uint64 `json:"toolong"` // of those that failed, longer than MaxLine
}

// line is one of the input, without the space around it or, of one that is too long, its
// beginning.
type line struct {
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
	known  *table            // names, with what was told of them: addr is the data, and cname the error
}

// Names resolves one name a line to one JSON object a line, as results are known; empty lines are
// skipped. Equal questions in flight are asked once, and a name that comes again is told what
// was answered, as long as that is valid and memory holds it.
//
// A line that is a JSON object has the name in its field "name"; its other fields are
// passed through, where the result has none of that name. A line that is no name has the
// status ILLEGAL_INPUT, and one of more than MaxLine bytes too.
func Names(ctx context.Context, r *Resolver, recordType string, now func() time.Time, in io.Reader, out io.Writer) (NameStats, error) {
	qtype, ok := parseType(recordType)
	if !ok || isTransfer(qtype) {
		return NameStats{}, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("record type %q", recordType), Want: "A, AAAA, MX, NS, TXT, CNAME, SOA, …, or TYPE with a number"}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := newLineWriter(out)
	defer w.end()
	stop := context.AfterFunc(ctx, w.end)
	defer stop()
	n := &names{r: r, ctx: ctx, fail: cancel, qtype: qtype, kind: dns.Type(qtype).String(), now: now, out: w, asking: map[string][]line{}, known: newTable()}
	lines := bufio.NewReaderSize(in, lineRoom)
	var err error
	for err == nil && ctx.Err() == nil {
		var l line
		if l.text, l.long, err = readLine(lines); l.text != "" {
			w.expect(&l)
			n.take(l)
		}
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

// take finds the name of a line, and its result if that is known, or asks for it.
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
		n.tell(l, &NameResult{Status: "ILLEGAL_INPUT", Timestamp: n.now(), data: noData})
		return
	}
	n.mu.Lock()
	if i, _ := n.known.within(maxKnown).find(l.name); n.known.known(i) {
		if a, now := n.known.answer(i), n.now(); a.expires.Go().After(now) {
			n.mu.Unlock()
			n.out.cached()
			n.tell(l, &NameResult{Status: a.status, Error: a.cname, Timestamp: now, data: a.addr})
			return
		}
	}
	name := strings.ToLower(wireName(l.name))
	lines, asked := n.asking[name]
	n.asking[name] = append(lines, l)
	n.mu.Unlock()
	if !asked && n.r.enter(n.ctx) {
		q := &question{r: n.r, place: n.r.slots}
		q.over = func() {
			q.leave()
			n.came(name, q)
			q.release()
		}
		q.ask(name, n.qtype)
	}
}

// came tells the lines that wait for a reply.
func (n *names) came(name string, q *question) {
	n.mu.Lock()
	lines := n.asking[name]
	delete(n.asking, name)
	n.mu.Unlock()
	now := n.now()
	expires := record.TimeOf(now.Add(q.lifetime()))
	for _, l := range lines {
		res := n.result(l.name, q)
		res.Timestamp = now
		if len(res.data) <= maxDatagram {
			n.mu.Lock()
			i, _ := n.known.find(l.name)
			n.known.set(i, &answer{res.data, res.Status, res.Error, expires})
			n.mu.Unlock()
		}
		n.tell(l, res)
	}
}

// tell writes the result of a line.
func (n *names) tell(l line, res *NameResult) {
	res.Name, res.Class, res.Type = l.name, "IN", n.kind
	text := res.appendTo(make([]byte, 0, 384))
	var err error
	if l.object {
		var fields map[string]json.RawMessage
		// What the result has counts, before what was there.
		if err = errors.Join(json.Unmarshal([]byte(l.text), &fields), json.Unmarshal(text, &fields)); err == nil {
			text, err = marshal(fields) // in order of their names
		}
	}
	if err == nil {
		err = n.out.write(&l, res.Status, append(text, '\n'))
	}
	if err != nil {
		n.fail(err)
	}
}

// appendTo appends the result as JSON. By encoding/json that takes a tenth of the command's time.
func (res *NameResult) appendTo(b []byte) []byte {
	b = appendJSON(append(b, `{"name":`...), res.Name)
	b = appendJSON(append(b, `,"class":`...), res.Class)
	b = appendJSON(append(b, `,"type":`...), res.Type)
	b = appendJSON(append(b, `,"status":`...), res.Status)
	if res.Error != "" {
		b = appendJSON(append(b, `,"error":`...), res.Error)
	}
	b = append(res.Timestamp.UTC().AppendFormat(append(b, `,"timestamp":"`...), time.RFC3339Nano), '"')
	b = strconv.AppendFloat(append(b, `,"duration":`...), res.Duration, 'f', -1, 64)
	b = strconv.AppendInt(append(b, `,"rtt_us":`...), res.RTT, 10)
	return append(append(append(b, `,"data":`...), res.data...), '}')
}

// appendJSON appends a text as JSON.
func appendJSON(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			text, _ := marshal(s) // no text is refused
			return append(b, text...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// appendTo appends it as JSON.
func (d *NameData) appendTo(b []byte) []byte {
	b = append(b, `{"answers":[`...)
	for i, a := range d.Answers {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendJSON(append(b, `{"name":`...), a.Name)
		b = appendJSON(append(b, `,"class":`...), a.Class)
		b = appendJSON(append(b, `,"type":`...), a.Type)
		b = strconv.AppendUint(append(b, `,"ttl":`...), uint64(a.TTL), 10)
		b = appendJSON(append(b, `,"answer":`...), a.Answer)
		if a.Special != "" {
			b = appendJSON(append(b, `,"special":`...), a.Special)
		}
		b = append(b, '}')
	}
	b = appendJSON(append(b, `],"protocol":`...), d.Protocol)
	b = appendJSON(append(b, `,"resolver":`...), d.Resolver)
	return append(b, '}')
}

// marshal is json.Marshal, but for <, > and &, which stand as they are.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

const noData = `{"answers":[],"protocol":"","resolver":""}`

// lifetime is how long what was said holds.
func (q *question) lifetime() time.Duration {
	switch {
	case localfault.Is(q.status):
		return 0
	case q.status != StatusOK:
		return failureTTL
	}
	ttl, none := seconds(q.ttl), len(q.addrs) == 0
	if q.reply != nil {
		ttl, none = q.r.cfg.MaxTTL, len(q.reply.Answer) == 0
		for _, rr := range q.reply.Answer {
			ttl = min(ttl, seconds(rr.Header().Ttl))
		}
	}
	if none {
		return q.negative()
	}
	return min(ttl, q.r.cfg.MaxTTL)
}

// result tells what became of the question for a name.
func (n *names) result(name string, q *question) *NameResult {
	if q.status == StatusBadName {
		return &NameResult{Status: "ILLEGAL_INPUT", data: noData}
	}
	var took time.Duration
	if q.server != nil {
		took = time.Since(q.began)
	}
	res := &NameResult{RTT: q.rtt.Microseconds(), Duration: float64(took.Microseconds()) / 1e6, data: noData}
	switch {
	case q.reply != nil || q.status == StatusOK:
		res.Status = rcodeName(q.rcode)
	case q.status == StatusTimeout:
		res.Status = "TIMEOUT"
	default:
		res.Status, res.Error = "ERROR", q.status
	}
	if q.server == nil { // nobody was asked
		return res
	}
	data := NameData{Protocol: "udp", Resolver: q.server.name}
	if q.tcp {
		data.Protocol = "tcp"
	}
	for _, addr := range q.addrs {
		data.Answers = append(data.Answers, NameAnswer{Name: name, Class: "IN", Type: n.kind, TTL: q.ttl, Answer: addr.String(), Special: addrguard.Special(addr)})
	}
	if q.reply != nil {
		asked := withoutDot(wireName(name))
		for _, rr := range q.reply.Answer {
			h := rr.Header()
			owner := withoutDot(h.Name)
			if strings.EqualFold(owner, asked) {
				owner = name // in the letters of the input
			}
			answer := NameAnswer{Name: owner, Class: dns.Class(h.Class).String(), Type: dns.Type(h.Rrtype).String(), TTL: h.Ttl, Answer: rdata(rr)}
			switch rr := rr.(type) {
			case *dns.A:
				answer.Special = special(rr.A)
			case *dns.AAAA:
				answer.Special = special(rr.AAAA)
			}
			data.Answers = append(data.Answers, answer)
		}
	}
	res.data = string(data.appendTo(make([]byte, 0, 256)))
	return res
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
	room     sync.Cond // asked has shrunk, or ended is true
	out      *bufio.Writer
	stats    NameStats
	expected int  // lines that are to come
	asked    int  // bytes of these
	timed    bool // what waits in out is flushed in time
	ended    bool
	err      error // that it ended with
}

func newLineWriter(out io.Writer) *lineWriter {
	w := &lineWriter{out: bufio.NewWriterSize(out, 1<<16)}
	w.room.L = &w.mu
	return w
}

// expect tells of a line to come, for which those before it need not be held back. It waits for room.
func (w *lineWriter) expect(l *line) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.asked > maxLines && !w.ended {
		w.room.Wait()
	}
	w.expected++
	w.asked += l.size()
	w.stats.Names++
	if l.long {
		w.stats.TooLong++
	}
}

// cached counts a line that is not asked for.
func (w *lineWriter) cached() {
	w.mu.Lock()
	w.stats.Cached++
	w.mu.Unlock()
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

// write takes the result of a line, and flushes when no other is expected, and within flushWait.
func (w *lineWriter) write(l *line, status string, result []byte) (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.room.Broadcast()
	if w.ended {
		return nil
	}
	w.stats.count(status)
	w.expected--
	w.asked -= l.size()
	if len(result) > w.out.Available() { // whole lines only, so that an interrupt leaves no part of one
		err = w.out.Flush()
	}
	if err == nil {
		_, err = w.out.Write(result)
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
	return err
}

func (s *NameStats) count(status string) {
	if status != dns.RcodeToString[dns.RcodeSuccess] {
		s.Failed++
	}
	if status == "TIMEOUT" || status == "ERROR" {
		s.Silent++
	}
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
