package mfetch

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/fetch"
	"mercator/pkg/resolve"
	"mercator/pkg/simweb"
	"mercator/pkg/web/canon"
)

// sim is the protocol module that fetches from a synthetic web inside the
// process, and the resolver of its names.
type sim struct {
	web     *simweb.Web
	respond simweb.Responder
	agent   string
	now     func() time.Time
	buffers sync.Pool // of *simBuffers
}

// simBuffers hold a reply until it is archived.
type simBuffers struct {
	web         *sim
	body, reply []byte
}

// Close implements fetch.Reply.Memory.
func (b *simBuffers) Close() { b.web.buffers.Put(b) }

// newSim reads a specification such as "seed=1,hosts=50,pages=3000".
func newSim(spec, agent string, now func() time.Time) (*sim, error) {
	c := simweb.Default
	for part := range strings.SplitSeq(spec, ",") {
		key, value, _ := strings.Cut(part, "=")
		n, err := strconv.ParseUint(value, 10, 63)
		known := true
		switch key {
		case "seed":
			c.Seed = n
		case "hosts":
			c.Hosts = int(n)
		case "pages":
			c.Pages = int(n)
		case "size":
			c.Size = int(n)
		case "degree":
			c.Degree = int(n)
		case "traps":
			c.Traps = int(n)
		default:
			known = false
		}
		if err != nil || !known {
			return nil, &fault.Error{Class: fault.Usage, Place: "--sim", Found: fmt.Sprintf("%q", part), Want: "seed, hosts, pages, size, degree or traps and a number, such as seed=1,pages=3000"}
		}
	}
	w, err := simweb.New(c)
	if err != nil {
		return nil, err
	}
	return &sim{web: w, respond: w.Calm(), agent: agent, now: now, buffers: sync.Pool{New: func() any { return new(simBuffers) }}}, nil
}

// Check implements fetch.Protocol.
func (s *sim) Check(string) error { return nil }

// Fetch implements fetch.Protocol.
func (s *sim) Fetch(_ context.Context, req *fetch.Request) *fetch.Reply {
	_, _, target := canon.Split(req.URL)
	method := cmp.Or(req.Method, "GET")
	sent := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\nAccept-Encoding: gzip\r\n", method, target, req.Host, s.agent)
	if req.ETag != "" {
		sent = fmt.Appendf(sent, "If-None-Match: %s\r\n", req.ETag)
	}
	sent = append(sent, "\r\n"...)
	b := s.buffers.Get().(*simBuffers)
	b.web = s
	p, _ := s.respond(b.body[:0], &simweb.Request{Method: method, Host: req.Host, Target: target, AcceptGzip: true, IfNoneMatch: req.ETag})
	if cap(p.Body) > cap(b.body) {
		b.body = p.Body
	}
	b.reply = p.AppendHTTP(b.reply[:0], false, false, false)
	n := int64(len(b.reply))
	return &fetch.Reply{
		Outcome: record.OutcomeFetched, Sent: sent, Response: bytes.NewReader(b.reply), Length: n, Wire: n, NoBody: method == "HEAD",
		Memory: b,
	}
}

// Resolve implements fetch.Resolver.
func (s *sim) Resolve(_ context.Context, name string) ([]netip.Addr, time.Time, string) {
	a := s.web.Lookup(name)
	switch {
	case a.Rcode == dns.RcodeNameError:
		return nil, time.Time{}, resolve.StatusNXDomain
	case a.Rcode != dns.RcodeSuccess:
		return nil, time.Time{}, resolve.StatusServFail
	case !a.Addr.IsValid():
		return nil, time.Time{}, resolve.StatusNoAddress
	}
	return []netip.Addr{a.Addr}, s.now().Add(time.Hour), ""
}
