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
	"golang.org/x/sync/semaphore"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/fetch/addrguard"
	"mercator/pkg/fetch/localfault"
)

// Bounds of the lines of Names. Of a longer one only the beginning is printed.
const (
	MaxLine   = 64 << 10 // bytes without the newline
	lineRoom  = MaxLine + len("\n")
	maxLines  = 4 << 20 // bytes of lines that wait for their results to be written
	lineCost  = 128     // bytes of maxLines that a line takes beside its text
	longHead  = 253
	illegal   = "ILLEGAL_INPUT"        // status of what is no name
	flushWait = 200 * time.Millisecond // a result does not wait longer for company
)

// NameStats counts the lines of Names.
type NameStats struct {
	Names   uint64 `json:"names"`
	Cached  uint64 `json:"cached"`  // names answered from memory
	Failed  uint64 `json:"failed"`  // names with another status than NOERROR
	Silent  uint64 `json:"silent"`  // failed names without an answer of any server: TIMEOUT, ERROR
	TooLong uint64 `json:"toolong"` // failed lines longer than MaxLine
	Illegal uint64 `json:"illegal"` // other failed lines that are no name
	First   string `json:"-"`       // where the first line of TooLong or Illegal is
}

// line is one of the input, without the space around it or, of one that is too long, its
// beginning.
type line struct {
	text   string
	long   bool
	number uint64 // from 1 on
	name   string
	object bool // the row's other fields are passed through
}

// size returns the memory of a line while its result is not written, in bytes.
func (l *line) size() int64 { return int64(lineCost + len(l.text)) }

// names is one run of Names.
type names struct {
	r     *Resolver
	ctx   context.Context // when it ends, nothing more is written
	fail  context.CancelCauseFunc
	qtype uint16
	kind  string // the name of qtype
	now   func() time.Time
	room  *semaphore.Weighted // one unit for each byte of maxLines

	mu       sync.Mutex
	asking   map[string][]line // the lines that wait for a name
	known    *table            // printed names: addr is the result
	out      *bufio.Writer
	stats    NameStats
	expected int  // lines that are to come
	timed    bool // a timer will flush out
}

// Names resolves one name a line to one JSON object a line, as results are known; empty lines are
// skipped. Equal questions in flight are asked once, and a name that comes again gets what
// was answered, as long as that is valid and memory holds it.
//
// A line that is a JSON object has the name in its field "name"; its other fields are
// passed through, where the result has none of that name. A line that is no name, such as a URL, has the
// status ILLEGAL_INPUT, and one of more than MaxLine bytes too: no server is asked.
func Names(ctx context.Context, r *Resolver, recordType string, now func() time.Time, in io.Reader, out io.Writer) (NameStats, error) {
	qtype, ok := parseType(recordType)
	if !ok || qtype == dns.TypeAXFR || qtype == dns.TypeIXFR { // a whole zone, in many messages
		return NameStats{}, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("record type %q", recordType), Want: "A, AAAA, MX, NS, TXT, CNAME, SOA, …, or TYPE with a number"}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	n := &names{r: r, ctx: ctx, fail: cancel, qtype: qtype, kind: dns.Type(qtype).String(), now: now, room: semaphore.NewWeighted(maxLines),
		asking: map[string][]line{}, known: newTable(), out: bufio.NewWriterSize(out, 1<<16)}
	lines := bufio.NewReaderSize(in, lineRoom)
	var err error
	for number := uint64(1); err == nil && ctx.Err() == nil; number++ {
		l := line{number: number}
		if l.text, l.long, err = readLine(lines); l.text != "" && n.room.Acquire(ctx, l.size()) == nil {
			n.takeLine(l)
		}
	}
	if n.room.Acquire(ctx, maxLines) != nil { // all results are written
		err = context.Cause(ctx)
	}
	cancel(nil)
	n.mu.Lock() // who writes has done so
	defer n.mu.Unlock()
	if err == io.EOF {
		err = nil
	}
	return n.stats, err
}

// takeLine finds the name of a line, and its result if that is known, or asks for it.
func (n *names) takeLine(l line) {
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
	if _, ok := dns.IsDomainName(l.name); !ok || strings.Contains(l.name, ":") { // a URL, a host with a port, an IPv6 address
		legal = false
	}
	n.mu.Lock()
	n.stats.Names++
	switch {
	case l.long:
		n.stats.TooLong++
	case !legal:
		if n.stats.Illegal++; n.stats.Illegal == 1 {
			n.stats.First = fmt.Sprintf("line %d: %.60q", l.number, l.text)
		}
	}
	n.expected++
	if !legal {
		n.mu.Unlock()
		status, text := n.result(l.name, &question{status: StatusBadName}, n.now())
		n.tell(l, status, text)
		return
	}
	if i, _ := n.known.within(maxKnown).find(l.name); n.known.known(i) {
		if a := n.known.answer(i); a.expires.Go().After(n.now()) {
			n.stats.Cached++
			n.mu.Unlock()
			n.tell(l, a.status, []byte(a.addr))
			return
		}
	}
	name := strings.ToLower(dns.Fqdn(l.name))
	lines, asked := n.asking[name]
	n.asking[name] = append(lines, l)
	n.mu.Unlock()
	if asked {
		return
	}
	q := &question{r: n.r, place: n.r.slots}
	q.over = func() {
		q.leave()
		n.came(name, q)
	}
	select {
	case n.r.slots <- struct{}{}:
		q.ask(name, n.qtype)
	case <-n.ctx.Done():
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
		status, text := n.result(l.name, q, now)
		if len(text) <= maxDatagram {
			n.mu.Lock()
			i, _ := n.known.find(l.name)
			n.known.set(i, &answer{addr: string(text), status: status, expires: expires})
			n.mu.Unlock()
		}
		n.tell(l, status, text)
	}
}

// tell writes the result of a line: it flushes when no other is expected, and within flushWait.
func (n *names) tell(l line, status string, text []byte) {
	var err error
	if l.object {
		var fields map[string]json.RawMessage
		// What the result has counts, before what was there.
		if err = errors.Join(json.Unmarshal([]byte(l.text), &fields), json.Unmarshal(text, &fields)); err == nil {
			text, err = marshal(fields) // in order of their names
		}
	}
	text = append(text, '\n')
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ctx.Err() != nil {
		return
	}
	n.stats.count(status)
	if err == nil && len(text) > n.out.Available() { // whole lines only, so that an interrupt leaves no part of one
		err = n.out.Flush()
	}
	if err == nil {
		_, err = n.out.Write(text)
	}
	n.expected--
	switch {
	case err != nil:
	case n.expected == 0:
		err = n.out.Flush()
	case !n.timed:
		n.timed = true
		time.AfterFunc(flushWait, n.flush)
	}
	if err != nil {
		n.fail(err)
	}
	n.room.Release(l.size())
}

// flush writes what waits.
func (n *names) flush() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.timed = false
	if n.ctx.Err() == nil {
		n.out.Flush() // the next write reports its error
	}
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

// marshal is json.Marshal, but for <, > and &, which stand as they are.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

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

// result tells what became of the question for a name: its status, and all as JSON, with zdns's field names where it
// has one. By encoding/json that takes a tenth of the command's time.
func (n *names) result(name string, q *question, now time.Time) (status string, b []byte) {
	why := ""
	switch {
	case q.status == StatusBadName:
		status = illegal
	case q.reply != nil || q.status == StatusOK:
		status = rcodeName(q.rcode)
	case q.status == StatusTimeout:
		status = "TIMEOUT"
	default:
		status, why = "ERROR", q.status
	}
	var took time.Duration
	protocol, server := "", ""
	if q.server != nil { // else nobody was asked
		took, protocol, server = time.Since(q.began), "udp", q.server.name
	}
	if q.tcp {
		protocol = "tcp"
	}
	b = appendJSON(append(make([]byte, 0, 384), `{"name":`...), name)
	b = appendJSON(append(b, `,"class":"IN","type":`...), n.kind)
	b = appendJSON(append(b, `,"status":`...), status)
	if why != "" {
		b = appendJSON(append(b, `,"error":`...), why)
	}
	b = append(now.UTC().AppendFormat(append(b, `,"timestamp":"`...), time.RFC3339Nano), '"')
	b = strconv.AppendFloat(append(b, `,"duration":`...), float64(took.Microseconds())/1e6, 'f', -1, 64) // of all attempts, seconds
	b = strconv.AppendInt(append(b, `,"rtt_us":`...), q.rtt.Microseconds(), 10)                          // of the last
	b = append(b, `,"data":{"answers":[`...)
	for i, addr := range q.addrs {
		b = appendRecord(b, i, name, "IN", n.kind, q.ttl, addr.String(), addrguard.Special(addr))
	}
	if q.reply != nil {
		for i, rr := range q.reply.Answer {
			h := rr.Header()
			owner := withoutDot(h.Name)
			if strings.EqualFold(h.Name, q.reply.Question[0].Name) {
				owner = name // in the letters of the input
			}
			special := ""
			switch rr := rr.(type) {
			case *dns.A:
				special = specialIP(rr.A)
			case *dns.AAAA:
				special = specialIP(rr.AAAA)
			}
			b = appendRecord(b, i, owner, dns.Class(h.Class).String(), dns.Type(h.Rrtype).String(), h.Ttl, rdata(rr), special)
		}
	}
	b = appendJSON(append(b, `],"protocol":`...), protocol)
	b = appendJSON(append(b, `,"resolver":`...), server)
	return status, append(b, "}}"...)
}

// appendRecord appends the i-th record of an answer as JSON. special is the range of an address that is not of the public Internet.
func appendRecord(b []byte, i int, owner, class, kind string, ttl uint32, answer, special string) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	b = appendJSON(append(b, `{"name":`...), owner)
	b = appendJSON(append(b, `,"class":`...), class)
	b = appendJSON(append(b, `,"type":`...), kind)
	b = strconv.AppendUint(append(b, `,"ttl":`...), uint64(ttl), 10)
	b = appendJSON(append(b, `,"answer":`...), answer)
	if special != "" {
		b = appendJSON(append(b, `,"special":`...), special)
	}
	return append(b, '}')
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

func (s *NameStats) count(status string) {
	if status != dns.RcodeToString[dns.RcodeSuccess] {
		s.Failed++
	}
	if status == "TIMEOUT" || status == "ERROR" {
		s.Silent++
	}
}

// specialIP names the range of an address that is not of the public Internet.
func specialIP(ip net.IP) string {
	addr, _ := netip.AddrFromSlice(ip)
	return addrguard.Special(addr)
}

// rdata returns the data of a record as in zone files, without the final dot of a name at its end.
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
