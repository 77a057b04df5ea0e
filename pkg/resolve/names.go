package resolve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"

	"mercator/pkg/fault"
)

// NameResult is one line of Names, with zdns's field names where it has one.
type NameResult struct {
	Name      string    `json:"name"`
	Class     string    `json:"class"`
	Type      string    `json:"type"`
	Status    string    `json:"status"` // NOERROR, NXDOMAIN, SERVFAIL, …, TIMEOUT, ERROR
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
}

// MaxLine bounds a line of Names, in bytes.
const MaxLine = 1 << 20

// Names resolves one name a line to one JSON object a line, with up to parallel
// questions in flight; empty lines are skipped. Results come as they are known or, with
// inOrder, in the order of the input, which lets a name without an answer hold up those
// that are maxWaiting bytes of results behind it.
//
// A line that is a JSON object has the name in its field "name"; its other fields are
// passed through, where the result has none of that name.
func Names(ctx context.Context, r *Resolver, recordType string, parallel int, inOrder bool, now func() time.Time, in io.Reader, out io.Writer) error {
	qtype, ok := dns.StringToType[strings.ToUpper(recordType)]
	if !ok || isTransfer(qtype) {
		return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("record type %q", recordType), Want: "A, AAAA, MX, NS, TXT, CNAME, SOA, …"}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := newLineWriter(out, inOrder)
	stop := context.AfterFunc(ctx, w.end)
	defer stop()

	type line struct {
		n    uint64
		text string
	}
	work := make(chan line, 256)
	var wg sync.WaitGroup
	for range parallel {
		wg.Go(func() {
			for l := range work {
				res, err := r.line(ctx, l.text, qtype, now)
				if ctx.Err() != nil {
					continue // what was cancelled is no result
				}
				if err == nil {
					err = w.write(l.n, res)
				}
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, MaxLine)
	n := uint64(0)
	for lines.Scan() && ctx.Err() == nil {
		text := strings.TrimSpace(lines.Text())
		if text == "" {
			continue
		}
		w.expect()
		work <- line{n, text}
		n++
	}
	close(work)
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return &fault.Error{Class: fault.Corrupt, Place: fmt.Sprintf("after %d names", n), Found: "a longer line", Want: fmt.Sprintf("at most %d bytes", MaxLine)}
		}
		return err
	}
	return w.out.Flush()
}

// isTransfer says that a question's answer is a whole zone, in many messages.
func isTransfer(qtype uint16) bool { return qtype == dns.TypeAXFR || qtype == dns.TypeIXFR }

// lineWriter gathers the lines of many goroutines.
type lineWriter struct {
	mu       sync.Mutex
	room     sync.Cond // waiting has shrunk, or ended is true
	out      *bufio.Writer
	inOrder  bool
	next     uint64            // line to be written, in order
	waiting  map[uint64][]byte // lines before which others are to come
	size     int               // bytes in waiting
	expected int               // lines that are to come
	ended    bool
}

// maxWaiting bounds the bytes of results that wait for an earlier one.
const maxWaiting = 16 << 20

func newLineWriter(out io.Writer, inOrder bool) *lineWriter {
	w := &lineWriter{out: bufio.NewWriterSize(out, 1<<16), inOrder: inOrder, waiting: map[uint64][]byte{}}
	w.room.L = &w.mu
	return w
}

// expect tells of a line to come, for which those before it need not be held back.
func (w *lineWriter) expect() {
	w.mu.Lock()
	w.expected++
	w.mu.Unlock()
}

// end lets go who waits.
func (w *lineWriter) end() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.room.Broadcast()
}

// write takes line n, and flushes when no other is expected.
func (w *lineWriter) write(n uint64, line []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.inOrder && n != w.next && w.size > maxWaiting && !w.ended {
		w.room.Wait()
	}
	if w.ended {
		return nil
	}
	w.expected--
	if w.inOrder {
		w.waiting[n] = line
		w.size += len(line)
	} else if _, err := w.out.Write(line); err != nil {
		return err
	}
	for w.waiting[w.next] != nil {
		line := w.waiting[w.next]
		if _, err := w.out.Write(line); err != nil {
			return err
		}
		delete(w.waiting, w.next)
		w.size -= len(line)
		w.next++
	}
	w.room.Broadcast()
	if w.expected > 0 {
		return nil
	}
	return w.out.Flush()
}

// line makes the result of one line.
func (r *Resolver) line(ctx context.Context, text string, qtype uint16, now func() time.Time) ([]byte, error) {
	if text[0] != '{' {
		b, err := json.Marshal(r.name(ctx, text, qtype, now))
		return append(b, '\n'), err
	}
	// What the result has counts, before what was there.
	var fields map[string]json.RawMessage
	var name string
	if json.Unmarshal([]byte(text), &fields) != nil || json.Unmarshal(fields["name"], &name) != nil {
		res := illegal(text, qtype, now)
		b, err := json.Marshal(res)
		return append(b, '\n'), err
	}
	b, err := json.Marshal(r.name(ctx, name, qtype, now))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &fields); err != nil {
		return nil, err
	}
	b, err = json.Marshal(fields) // in order of their names
	return append(b, '\n'), err
}

func illegal(name string, qtype uint16, now func() time.Time) NameResult {
	res := NameResult{Name: name, Class: "IN", Type: dns.TypeToString[qtype], Status: "ILLEGAL_INPUT", Timestamp: now().UTC()}
	res.Data.Answers = []NameAnswer{}
	return res
}

func (r *Resolver) name(ctx context.Context, name string, qtype uint16, now func() time.Time) NameResult {
	res := illegal(name, qtype, now)
	if _, ok := dns.IsDomainName(name); !ok {
		return res
	}
	reply, server, rtt, status := r.Raw(ctx, name, qtype)
	res.Status, res.RTT, res.Data.Resolver = status, rtt.Microseconds(), server
	if reply == nil {
		return res
	}
	for _, rr := range reply.Answer {
		h := rr.Header()
		owner := strings.TrimSuffix(h.Name, ".")
		if strings.EqualFold(owner, strings.TrimSuffix(name, ".")) {
			owner = name // the question's letters have random case
		}
		res.Data.Answers = append(res.Data.Answers, NameAnswer{
			Name: owner, Class: dns.ClassToString[h.Class], Type: dns.TypeToString[h.Rrtype],
			TTL: h.Ttl, Answer: strings.TrimSuffix(strings.TrimPrefix(rr.String(), h.String()), "."),
		})
	}
	return res
}
