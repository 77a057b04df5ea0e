// Package http1 fetches one http or https URL from a given address and keeps the
// bytes of request and reply as they went over the wire, for the archive.
//
// It speaks HTTP/1.1 and reads what browsers read: HTTP/1.0, ICY, replies without
// a head that begin with '<', LF for CRLF, folded lines, interim replies, and
// wrong or conflicting lengths (package httpmsg says how each is taken).
//
// # Invariants
//
//   - No address is contacted that the Guard refuses, and no port that browsers
//     refuse. Redirects are not followed; they are replies like others. With a
//     proxy, see Proxy.
//   - A contact ends by Client.Timeout, whatever the server does. Head, body
//     and memory are bounded (httpmsg.HeadMax, Client.BodyMax, package rewind).
//   - Each contact has an outcome. Once a whole head has come, it is "fetched",
//     and what is missing of the body stands in Truncated.
//   - A connection is used again only after a complete reply with nothing after it, of
//     which no reader could see the end elsewhere.
//   - Exchange.Request is what was sent, but for passwords: the lines Authorization
//     and Proxy-Authorization are left out of it.
package http1

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"mercator/formats/record"
	"mercator/pkg/fetch/addrguard"
	"mercator/pkg/httpmsg"
	"mercator/pkg/localfault"
	"mercator/pkg/rewind"
)

// Defaults of Client.
const (
	DefaultTimeout        = time.Minute
	DefaultConnectTimeout = 20 * time.Second
	interimMax            = 8 // replies with a status below 200
)

// Client says how contacts are made. It holds no connections and may be used by
// many goroutines. Its fields are not to change once it is in use.
type Client struct {
	UserAgent      string
	Accept         string        // "": */*
	AcceptEncoding string        // "": gzip, deflate, br, zstd
	Timeout        time.Duration // of a whole contact; 0: DefaultTimeout
	ConnectTimeout time.Duration // of connecting and of the TLS handshake; 0: DefaultConnectTimeout
	BodyMax        int64         // wire bytes of a body; 0: rewind.DefaultMax
	TempDir        string        // for bodies beyond 64 KiB; "": the system's
	Guard          addrguard.Guard
	Header         []httpmsg.Field // sent with each request, see ParseHeader
	Logins         Logins          // sent to their own servers
	Cookies        *Jar            // nil: none are kept or sent
	Proxy          *Proxy          // nil: servers are contacted directly
	TLS            *tls.Config     // roots and the like; nil: the system's. TLS 1.2 is the least, but see oldtls.go
	InsecureTLS    bool            // go on when verification fails; Exchange.TLSFault says why it did

	// Dial makes the connection; nil: a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Now is the clock of Exchange.Start and Duration; nil: time.Now.
	Now func() time.Time
}

// Request is one contact to be made.
type Request struct {
	Method       string     // "": GET; or HEAD, whose reply has no body
	URL          string     // canonical, http or https
	Addr         netip.Addr // of the server
	ETag         string     // sent as If-None-Match, unless empty
	LastModified string     // sent as If-Modified-Since, unless empty
}

// Exchange is what came of a contact. Close it.
type Exchange struct {
	Outcome   string // one of the record.Outcome constants; "deferred" when ctx was cancelled
	Error     string // detail for people; "" where there is none
	Truncated string // of the body as WARC-Truncated: "", "length", "time", "disconnect", "unspecified"
	TLSFault  string // what verification found, with InsecureTLS; and that old TLS was needed
	// Err is a failure of this machine and not of the server (no room for the
	// backing file): the crawl should stop, and Outcome is "deferred".
	Err error

	Addr      netip.AddrPort
	Start     time.Time
	Duration  time.Duration
	Reused    bool  // on a connection that stood before
	Forwarded bool  // a proxy was sent the request, and found an address itself
	Wire      int64 // bytes received, interim replies and surplus included

	Request []byte       // as sent, without passwords; nil if nothing was
	Head    httpmsg.Head // of the final reply; zero unless Outcome is "fetched"
	NoBody  bool         // the method asked for none

	// Response holds the final reply as received, head and body with its
	// transfer coding. nil unless Outcome is "fetched".
	Response *rewind.Stream

	target  target
	request [512]byte         // the memory of Request,
	fields  [16]httpmsg.Field // and of Head
}

// Close gives the exchange's memory back. Response is not to be used afterwards.
func (x *Exchange) Close() {
	if x.Response != nil {
		putStream(x.Response)
		x.Response = nil
	}
}

// Payload returns the body without its transfer coding, from its start.
func (x *Exchange) Payload() io.Reader {
	if x.NoBody {
		return bytes.NewReader(nil)
	}
	body := x.Response.Section(int64(x.Head.Size), x.Response.Len()-int64(x.Head.Size))
	return httpmsg.NewPayload(&x.Head, body)
}

// Body returns at most max bytes of the payload without its codings.
func (x *Exchange) Body(max int64) *httpmsg.Body {
	return httpmsg.NewBody(&x.Head, x.Payload(), max)
}

// Conn keeps a connection between contacts with the same server. The zero Conn is
// ready; it serves one goroutine.
type Conn struct {
	conn   net.Conn
	scheme string
	host   string // name and port
	addr   netip.AddrPort
	fault  string
	probe  *probe
	ctx    context.Context // whose end ends the connection
	forget func() bool     // of that
}

// Close closes the connection, if there is one. The Conn may be used again.
func (c *Conn) Close() error {
	if c.conn == nil {
		return nil
	}
	if c.forget != nil {
		c.forget()
	}
	err := c.conn.Close()
	*c = Conn{}
	return err
}

// Open says whether a connection stands.
func (c *Conn) Open() bool { return c.conn != nil }

// leads says whether the connection leads to a server, and still stands.
func (c *Conn) leads(t *target, addr netip.AddrPort) bool {
	return c.conn != nil && c.scheme == t.scheme && c.host == t.host && c.addr == addr && !c.stale()
}

// begin prepares the connection for a contact that ends at deadline, or with ctx.
func (c *Conn) begin(ctx context.Context, deadline time.Time) error {
	if c.ctx != ctx {
		if c.forget != nil && !c.forget() {
			return c.ctx.Err() // its end may yet come upon the connection
		}
		waiting := c.conn
		c.ctx, c.forget = ctx, context.AfterFunc(ctx, func() { waiting.SetDeadline(time.Unix(1, 0)) })
	}
	if err := c.conn.SetDeadline(deadline); err != nil {
		return err
	}
	return ctx.Err() // if it ended before the deadline was set
}

var streams = sync.Pool{New: func() any { return rewind.New("", 0) }}

// putStream keeps the Stream for another contact and its memory in the pools.
func putStream(s *rewind.Stream) {
	s.Close()
	streams.Put(s)
}

// target is a URL taken apart.
type target struct {
	scheme string
	host   string // authority without userinfo, as sent in Host
	name   string // without port and brackets
	port   uint16
	path   string // path and query
}

func parseTarget(url string) (t target, err error) {
	scheme, rest, ok := strings.Cut(url, "://")
	t.scheme = strings.ToLower(scheme)
	switch {
	case ok && t.scheme == "http":
		t.port = 80
	case ok && t.scheme == "https":
		t.port = 443
	default:
		return t, fmt.Errorf("scheme of %.80q, want http or https", url)
	}
	rest, _, _ = strings.Cut(rest, "#")
	t.path = "/"
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		rest, t.path = rest[:i], rest[i:]
		if t.path[0] == '?' {
			t.path = "/" + t.path
		}
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = rest[i+1:]
	}
	t.host, t.name = rest, rest
	if i := strings.LastIndexByte(rest, ':'); i >= 0 && !strings.HasSuffix(rest, "]") {
		port, err := strconv.ParseUint(rest[i+1:], 10, 16)
		if err != nil {
			return t, fmt.Errorf("port %.20q, want a number up to 65535", rest[i+1:])
		}
		t.name, t.port = rest[:i], uint16(port)
	}
	t.name = strings.TrimSuffix(strings.TrimPrefix(t.name, "["), "]")
	if t.name == "" || strings.ContainsFunc(rest, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return t, fmt.Errorf("host %.80q, want a name in ASCII", rest)
	}
	return t, nil
}

// failure is an outcome with its cause.
type failure struct {
	outcome string
	err     error
}

func (f *failure) Error() string { return f.err.Error() }

// Do makes one contact. conn, if not nil, is used again where it leads to the same
// server, and keeps the connection afterwards where that is possible. A connection
// that turns out to have been closed meanwhile is replaced once.
func (c *Client) Do(ctx context.Context, req Request, conn *Conn) *Exchange {
	now := c.Now
	if now == nil {
		now = time.Now
	}
	x := &Exchange{Start: now(), NoBody: req.Method == "HEAD"}
	x.Head.Fields = x.fields[:0]
	if conn == nil {
		conn = new(Conn)
		defer conn.Close()
	}
	timeout := c.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	err := c.do(ctx, time.Now().Add(timeout), &req, conn, x)
	x.Duration = now().Sub(x.Start)
	if err == nil {
		x.Outcome = record.OutcomeFetched
		return x
	}
	conn.Close()
	x.Close()
	x.Head = httpmsg.Head{}
	x.Outcome, x.Error = record.OutcomeProtocol, err.Error()
	var f *failure
	if errors.As(err, &f) {
		x.Outcome = f.outcome
	}
	var local *localError
	if errors.As(err, &local) {
		x.Outcome, x.Err = record.OutcomeDeferred, local.err
	}
	var proxy *ProxyError
	if errors.As(err, &proxy) {
		x.Outcome, x.Err = record.OutcomeDeferred, err
	}
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		x.Outcome = record.OutcomeDeferred
	}
	return x
}

func (c *Client) do(ctx context.Context, deadline time.Time, req *Request, conn *Conn, x *Exchange) error {
	var err error
	if x.target, err = parseTarget(req.URL); err != nil {
		return &failure{record.OutcomeScheme, err}
	}
	t := &x.target
	x.Addr, x.Forwarded = netip.AddrPortFrom(req.Addr, t.port), c.Proxy.forwards(t)
	if addrguard.PortRefused(t.port) {
		return &failure{record.OutcomePort, fmt.Errorf("port %d is not for the web", t.port)}
	}
	if ok, reason := c.Guard.Allowed(req.Addr); !ok {
		return &failure{record.OutcomeAddress, fmt.Errorf("%s is a %s address", req.Addr, reason)}
	}
	kept, sent := c.head(x.request[:0], req, t, x.Start)
	if !conn.leads(t, x.Addr) {
		conn.Close()
	}
	for {
		x.Reused = conn.conn != nil
		if !x.Reused {
			if err := c.connect(ctx, deadline, t, x.Addr, conn); err != nil {
				return err
			}
		}
		x.TLSFault, x.Request = conn.fault, kept
		before := x.Wire
		err := conn.begin(ctx, deadline)
		if err == nil {
			err = c.exchange(conn, sent, x)
		} else {
			err = classify(err, record.OutcomeDisconnect)
		}
		var f *failure
		if x.Reused && x.Wire == before && errors.As(err, &f) && f.outcome == record.OutcomeDisconnect {
			conn.Close() // the server closed it between two requests
			continue
		}
		if err == nil && c.Proxy.forwards(t) && x.Head.Status == 407 {
			return c.Proxy.down(errNoLogin)
		}
		if err == nil && c.Cookies != nil {
			c.Cookies.keep(t, &x.Head, x.Start)
		}
		return err
	}
}

// head writes the request to b: as it is kept, and as it is sent.
func (c *Client) head(b []byte, req *Request, t *target, now time.Time) (kept, sent []byte) {
	b = append(append(b, or(req.Method, "GET")...), ' ')
	if c.Proxy.forwards(t) {
		b = append(append(append(b, t.scheme...), "://"...), t.host...)
	}
	for i := 0; i < len(t.path); i++ {
		if ch := t.path[i]; ch <= ' ' || ch >= 0x7f {
			b = fmt.Appendf(b, "%%%02X", ch)
		} else {
			b = append(b, ch)
		}
	}
	b = append(b, " HTTP/1.1\r\n"...)
	b = appendField(b, "Host", t.host)
	b = appendField(b, "User-Agent", c.UserAgent)
	b = appendField(b, "Accept", or(c.Accept, "*/*"))
	b = appendField(b, "Accept-Encoding", or(c.AcceptEncoding, "gzip, deflate, br, zstd"))
	b = appendField(b, "If-None-Match", EntityTags(req.ETag))
	b = appendField(b, "If-Modified-Since", req.LastModified)
	for _, f := range c.Header {
		b = appendField(b, f.Name, f.Value)
	}
	if c.Cookies != nil {
		b = c.Cookies.appendTo(b, t, now)
	}
	secrets := appendField(nil, "Authorization", c.Logins.basic(t))
	if c.Proxy.forwards(t) {
		secrets = appendField(secrets, "Proxy-Authorization", c.Proxy.basic())
	}
	kept = append(b, "\r\n"...)
	if secrets == nil {
		return kept, kept
	}
	sent = append(append(make([]byte, 0, len(kept)+len(secrets)), b...), secrets...)
	return kept, append(sent, "\r\n"...)
}

// EntityTags is an entity tag as If-None-Match asks for it (RFC 9110 section 13.1.2): as it
// is, and behind that without the suffix by which a server told a coded page from the page
// itself. Apache compares the latter before it compresses, and answers 200 for ever to the
// tag that it sent.
func EntityTags(tag string) string {
	if plain := PlainTag(tag); plain != tag {
		return tag + ", " + plain
	}
	return tag
}

// PlainTag is an entity tag without such a suffix.
func PlainTag(tag string) string {
	for _, suffix := range [...]string{`-gzip"`, `-br"`, `-zstd"`} {
		if plain, ok := strings.CutSuffix(tag, suffix); ok {
			return plain + `"`
		}
	}
	return tag
}

// appendField writes a header line, unless its value is empty. What would end the
// line is left out.
func appendField(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	b = append(append(b, name...), ": "...)
	for i := 0; i < len(value); i++ {
		if ch := value[i]; ch == '\t' || ch >= ' ' && ch != 0x7f {
			b = append(b, ch)
		}
	}
	return append(b, "\r\n"...)
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// connect opens a connection to the server, through the proxy if there is one.
func (c *Client) connect(ctx context.Context, deadline time.Time, t *target, addr netip.AddrPort, conn *Conn) error {
	timeout := c.ConnectTimeout
	if timeout <= 0 {
		timeout = DefaultConnectTimeout
	}
	if soon := time.Now().Add(timeout); soon.Before(deadline) {
		deadline = soon
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	first := c.open(ctx, t, addr, conn, false)
	if first == nil || t.scheme != "https" || !isTooNew(first) || c.Logins.basic(t) != "" {
		return first
	}
	if err := c.open(ctx, t, addr, conn, true); err != nil {
		return err
	}
	state := conn.conn.(*tls.Conn).ConnectionState()
	conn.fault = strings.TrimSuffix(oldFault(state, first)+"; "+conn.fault, "; ")
	return nil
}

// open makes a connection; old: with TLS of any age.
func (c *Client) open(ctx context.Context, t *target, addr netip.AddrPort, conn *Conn, old bool) error {
	dial := c.Dial
	if dial == nil {
		// Not DialTCP: its zero local address is bound to before connecting, and a local port
		// that was bound to serves one destination only.
		dial = (&net.Dialer{KeepAlive: -1}).DialContext
	}
	var raw net.Conn
	var err error
	if c.Proxy != nil {
		raw, err = c.Proxy.dial(ctx, dial, t, addr, c.UserAgent)
	} else {
		raw, err = dial(ctx, "tcp", addr.String())
	}
	if err != nil {
		return named(err, record.OutcomeConnect)
	}
	*conn = Conn{conn: raw, scheme: t.scheme, host: t.host, addr: addr}
	if t.scheme == "https" {
		config := c.tlsConfig(t.name, conn)
		if old {
			makeOld(config)
		}
		secure := tls.Client(raw, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			conn.Close()
			return classify(err, record.OutcomeTLS)
		}
		conn.conn = secure
	}
	return nil
}

func (c *Client) tlsConfig(name string, conn *Conn) *tls.Config {
	config := &tls.Config{}
	if c.TLS != nil {
		config = c.TLS.Clone()
	}
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	config.ServerName = name
	config.NextProtos = []string{"http/1.1"}
	if c.InsecureTLS {
		config.InsecureSkipVerify = true
		roots := config.RootCAs
		config.VerifyConnection = func(state tls.ConnectionState) error {
			options := x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: x509.NewCertPool()}
			for _, cert := range state.PeerCertificates[1:] {
				options.Intermediates.AddCert(cert)
			}
			if _, err := state.PeerCertificates[0].Verify(options); err != nil {
				conn.fault = err.Error()
			}
			return nil
		}
	}
	return config
}

// classify makes a failure of an error on a connection: a timeout is one wherever it comes,
// everything else is what outcome says. That no connection came in time is another failure:
// a host's next address may do.
func classify(err error, outcome string) error {
	if isTimeout(err) {
		outcome = record.OutcomeTimeout
	}
	return named(err, outcome)
}

// named makes a failure with an outcome of an error that has none, unless it is one of this
// machine.
func named(err error, outcome string) error {
	var known *failure
	var proxy *ProxyError
	if errors.As(err, &known) || errors.As(err, &proxy) {
		return err
	}
	if _, ok := localfault.Of(err); ok {
		return &localError{err}
	}
	return &failure{outcome, err}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// exchange sends the request and reads the reply into x.Response.
func (c *Client) exchange(conn *Conn, request []byte, x *Exchange) error {
	// A server may answer and close before it has read the request: what it
	// said counts, so a failed write is left to the read to report.
	_, writeErr := conn.conn.Write(request)

	if x.Response == nil {
		x.Response = streams.Get().(*rewind.Stream)
	}
	r := &reply{conn: conn.conn, s: x.Response, x: x}
	r.s.SetDir(c.TempDir)
	r.s.Reset(httpmsg.HeadMax)
	if err := r.readHead(); err != nil {
		if writeErr != nil && errors.Is(err, io.EOF) {
			err = writeErr
		}
		return err
	}
	bodyMax := c.BodyMax
	if bodyMax <= 0 {
		bodyMax = rewind.DefaultMax
	}
	complete, err := r.readBody(bodyMax)
	if err != nil {
		return err
	}
	if !complete || !x.Head.KeepAlive() || !x.Head.Certain() {
		conn.Close()
	}
	return nil
}
