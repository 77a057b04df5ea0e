package resolve

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"mercator/pkg/fault"
)

// A transport carries questions to one server. It calls came, once each time that it is asked.
type transport interface {
	ask(q *question)
	close()
}

// exchanger is a transport that waits for a reply.
type exchanger interface {
	exchange(ctx context.Context, q *query, timeout time.Duration) ([]byte, error)
	close()
}

// background has an exchanger wait in a goroutine for each question.
type background struct {
	exchanger
	ctx context.Context
	end context.CancelFunc
}

func inBackground(e exchanger) *background {
	ctx, end := context.WithCancel(context.Background())
	return &background{e, ctx, end}
}

func (b *background) ask(q *question) {
	go func() { q.came(b.exchange(b.ctx, &q.query, q.timeout)) }()
}

func (b *background) close() {
	b.end()
	b.exchanger.close()
}

// A server that failed to answer so often in a row is passed over for a while, which
// doubles with each further failure.
const (
	tolerance   = 8
	firstPause  = time.Second
	longestWait = 30 * time.Second
)

// server is one of those that are asked.
type server struct {
	name   string
	scheme string // of main: udp, tcp, tls or https
	main   transport
	tcp    transport // for what does not fit a datagram; nil where main is a stream
	gap    time.Duration

	mu       sync.Mutex
	failures int       // in a row
	pausedTo time.Time // not asked before, if another can be
	next     time.Time // when its rate allows the next question
}

// parseServer reads ADDR[:PORT], tcp://ADDR[:PORT], tls://HOST[:PORT] (RFC 7858) or
// https://HOST[:PORT]/PATH (RFC 8484).
func parseServer(s string, cfg *Config, l large) (*server, error) {
	bad := &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("DNS server %q", s), Want: "an IP address, with :PORT or without, or a URL of tcp, tls or https"}
	srv := &server{name: s}
	if cfg.Rate > 0 {
		srv.gap = time.Duration(float64(time.Second) / cfg.Rate)
	}
	scheme, rest, isURL := strings.Cut(s, "://")
	if !isURL {
		ap, err := parseAddr(s)
		if err != nil {
			return nil, bad
		}
		srv.name, srv.scheme, srv.main, srv.tcp = ap.String(), "udp", &udp{addr: ap}, inBackground(newStream(ap.String(), nil, l))
		return srv, nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" || u.Port() == "0" || u.User != nil || strings.ContainsAny(s, "#{") || scheme != "https" && (u.Path != "" || u.RawQuery != "") {
		return nil, bad // names of certificates behind #, and templates, are not known
	}
	srv.scheme = scheme
	settings := &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12, RootCAs: cfg.Roots}
	switch scheme {
	case "tcp":
		ap, err := parseAddr(rest)
		if err != nil {
			return nil, bad
		}
		srv.main = inBackground(newStream(ap.String(), nil, l))
	case "tls":
		port := u.Port()
		if port == "" {
			port = "853"
		}
		srv.main = inBackground(newStream(net.JoinHostPort(u.Hostname(), port), settings, l))
	case "https":
		srv.main = inBackground(&https{s, l, &http.Client{
			Transport:     &http.Transport{TLSClientConfig: settings, ForceAttemptHTTP2: true, MaxConnsPerHost: maxHTTP, MaxIdleConnsPerHost: maxHTTP, MaxResponseHeaderBytes: 1 << 16, IdleConnTimeout: time.Minute},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}})
	default:
		return nil, bad
	}
	return srv, nil
}

// parseAddr reads an address, in brackets or not, with a port or not.
func parseAddr(s string) (netip.AddrPort, error) {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		if ap.Port() == 0 {
			err = errors.New("port 0")
		}
		return ap, err
	}
	if in, ok := strings.CutPrefix(s, "["); ok {
		if s, ok = strings.CutSuffix(in, "]"); !ok {
			return netip.AddrPort{}, fmt.Errorf("%q ends in no bracket", in)
		}
	}
	a, err := netip.ParseAddr(s)
	return netip.AddrPortFrom(a, 53), err
}

// wait takes the next of the turns that the server's rate allows, and says how long it is
// until then.
func (s *server) wait() time.Duration {
	if s.gap == 0 {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	turn := s.next
	if turn.Before(now) {
		turn = now
	}
	s.next = turn.Add(s.gap)
	return turn.Sub(now)
}

// report counts whether the server did its work.
func (s *server) report(ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ok {
		s.failures, s.pausedTo = 0, time.Time{}
		return
	}
	if s.failures++; s.failures >= tolerance {
		pause := min(firstPause<<min(s.failures-tolerance, 5), longestWait)
		s.pausedTo = time.Now().Add(pause)
	}
}

func (s *server) paused(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pausedTo.After(now)
}

func (s *server) close() {
	s.main.close()
	if s.tcp != nil {
		s.tcp.close()
	}
}

// maxHTTP bounds the connections to one server of DNS over HTTPS. One serves all questions,
// where it is of HTTP/2; which is not known before there is one.
const maxHTTP = 32

// because prefers the end of ctx to what it led to.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// https asks by POST (RFC 8484).
type https struct {
	url    string
	large  large
	client *http.Client
}

func (h *https) exchange(ctx context.Context, q *query, timeout time.Duration) ([]byte, error) {
	const media = "application/dns-message"
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, os.ErrDeadlineExceeded)
	defer cancel()
	body := q.append(nil, 0) // section 4.1: the same question is the same request
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", media)
	req.Header.Set("Accept", media)
	resp, err := h.client.Do(req)
	if err != nil {
		return nil, because(ctx, err)
	}
	defer resp.Body.Close()
	m, err := io.ReadAll(io.LimitReader(resp.Body, maxDatagram))
	if len(m) == maxDatagram && err == nil {
		select {
		case h.large <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		var rest []byte
		rest, err = io.ReadAll(io.LimitReader(resp.Body, 1<<16-maxDatagram))
		if m = append(m, rest...); len(rest) == 0 {
			<-h.large
		}
	}
	like := q.compare(m)
	if like != foreign && (m[0] != 0 || m[1] != 0) { // its id
		like = foreign
	}
	switch {
	case err != nil:
		err = because(ctx, err)
	case resp.StatusCode != http.StatusOK || len(m) > 1<<16-1 || like == foreign:
		err = errBadReply
	case like == unread:
		err = errUnread
	default:
		return m, nil
	}
	h.large.free(m)
	return nil, err
}

func (h *https) close() { h.client.CloseIdleConnections() }
