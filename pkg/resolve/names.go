package resolve

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
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

// Names resolves one name a line to one JSON object a line, in order, with up
// to parallel questions in flight.
func Names(ctx context.Context, r *Resolver, recordType string, parallel int, now func() time.Time, in io.Reader, out io.Writer) error {
	qtype, ok := dns.StringToType[strings.ToUpper(recordType)]
	if !ok {
		return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("record type %q", recordType), Want: "A, AAAA, MX, NS, TXT, CNAME, SOA, …"}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	pending := make(chan chan NameResult, parallel)
	go func() {
		defer close(pending)
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			name := strings.TrimSpace(lines.Text())
			if name == "" {
				continue
			}
			one := make(chan NameResult, 1)
			select {
			case pending <- one: // the channel's room bounds the questions in flight
			case <-ctx.Done():
				return
			}
			go func() { one <- r.name(ctx, name, qtype, now) }()
		}
		if err := lines.Err(); err != nil {
			cancel(err)
		}
	}()
	w := bufio.NewWriter(out)
	enc := json.NewEncoder(w)
	for one := range pending {
		if err := enc.Encode(<-one); err != nil {
			return err
		}
		if len(pending) == 0 {
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return w.Flush()
}

func (r *Resolver) name(ctx context.Context, name string, qtype uint16, now func() time.Time) NameResult {
	res := NameResult{Name: name, Class: "IN", Type: dns.TypeToString[qtype], Timestamp: now().UTC()}
	res.Data.Answers = []NameAnswer{}
	if _, ok := dns.IsDomainName(name); !ok {
		res.Status = "ILLEGAL_INPUT"
		return res
	}
	reply, server, rtt, status := r.Raw(ctx, name, qtype)
	res.Status, res.RTT, res.Data.Resolver = status, rtt.Microseconds(), server
	if reply == nil {
		return res
	}
	for _, rr := range reply.Answer {
		h := rr.Header()
		res.Data.Answers = append(res.Data.Answers, NameAnswer{
			Name: strings.TrimSuffix(h.Name, "."), Class: dns.ClassToString[h.Class], Type: dns.TypeToString[h.Rrtype],
			TTL: h.Ttl, Answer: strings.TrimSuffix(strings.TrimPrefix(rr.String(), h.String()), "."),
		})
	}
	return res
}
