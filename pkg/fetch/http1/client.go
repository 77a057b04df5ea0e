// Package http1 is the protocol module for http and https: it fetches one URL from a given
// address and keeps the bytes of request and reply as they went over the wire, for the archive.
//
// It speaks HTTP/1.1 (and HTTP/2 with servers that refuse it: http2.go) and reads what browsers read: HTTP/1.0, ICY, replies without
// a head that begin with '<', LF for CRLF, folded lines, interim replies, and
// wrong or conflicting lengths (package httpmsg says how each is taken).
//
// # Invariants
//
//   - No address is contacted that the Guard refuses, and no port that browsers
//     refuse. Redirects are not followed; they are replies like others. With a
//     proxy, see Proxy.
//   - A contact ends by Limits.Timeout, whatever the server does. Head, body
//     and memory are bounded (httpmsg.HeadMax, Limits.BodyMax, package rewind).
//   - Each contact has an outcome. Once a whole head has come, it is "fetched",
//     and what is missing of the body stands in Truncated.
//   - A connection is used again only after a complete reply with nothing after it, of
//     which no reader could see the end elsewhere.
//   - Reply.Sent is what was sent, but for what Logins have, and Proxy-Authorization. Response is what came, but for the cookies of a form login.
package http1

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"mercator/formats/record"
	"mercator/pkg/fetch"
	"mercator/pkg/fetch/addrguard"
	"mercator/pkg/fetch/cookies"
	"mercator/pkg/web/httpmsg"
	"mercator/pkg/web/rewind"
)

const interimMax = 8 // replies with a status below 200

// Client is the protocol module: it says how contacts are made. It holds no connections and
// may be used by many goroutines. Its fields are not to change once it is in use.
type Client struct {
	fetch.Limits
	UserAgent      string
	Accept         string           // "": */*
	AcceptEncoding string           // "": gzip, deflate, br, zstd
	Header         []httpmsg.Field  // sent with each request, see ParseHeader
	Logins         *Logins          // sent to their own servers; nil: none
	Cookies        *cookies.Jar     // nil: none are kept or sent
	Proxy          *Proxy           // nil: servers are contacted directly
	TLS            *tls.Config      // roots and the like; nil: the system's. TLS 1.2 is the least, but see oldtls.go
	Now            func() time.Time // for cookies that expire; nil: time.Now
	InsecureTLS    bool             // go on when verification fails, except to who gets one of Logins; Reply.Error says why it did

	ofTwo twoHosts
	like  *Client // the client that holds the shared ofTwo; nil: this one
}

// Share makes c one of several clients of a batch: they have one folder, guard, jar, logins and authorities, and know the same hosts that want HTTP/2.
func (c *Client) Share(of *Client) {
	c.TempDir, c.Guard, c.Cookies, c.Logins, c.TLS, c.like = of.TempDir, of.Guard, of.Cookies, of.Logins, of.TLS, of
}

func (c *Client) two() *twoHosts {
	if c.like != nil {
		return &c.like.ofTwo
	}
	return &c.ofTwo
}

// exchange is a Reply with what it takes to make it, in one piece of memory.
type exchange struct {
	fetch.Reply
	stream *rewind.Stream // Response, once there is one
	head   httpmsg.Head   // memory of Reply.Head
	reused bool           // on a connection that stood before
	step   *formRequest   // of a login; nil: it is none

	target  target
	request [512]byte         // memory of Sent
	fields  [16]httpmsg.Field // memory of head
}

// Close implements fetch.Reply.Memory.
func (x *exchange) Close() {
	if x.stream != nil {
		x.stream.Close()
		streams.Put(x.stream) // its memory stays in the pools
		x.stream = nil
	}
}

var streams = sync.Pool{New: func() any { return rewind.New("", 0) }}

// Conn keeps a connection between contacts with the same server. The zero Conn is
// ready; it serves one goroutine.
type Conn struct {
	conn    net.Conn
	scheme  string
	host    string // name and port
	addr    netip.AddrPort
	fault   string
	agreed  string // the protocol that was agreed by ALPN
	wanted  bool   // the server asked for a certificate of ours
	offered bool   // HTTP/2
	probe   *probe
	ctx     context.Context // the end of ctx ends the connection
	forget  func() bool     // cancels the callback of ctx
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

// Open reports whether a connection stands.
func (c *Conn) Open() bool { return c.conn != nil }

// leads reports whether the connection leads to a server, and still stands.
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

func (t *target) cookies() cookies.Target {
	return cookies.Target{Secure: t.scheme == "https", Name: t.name, Path: t.path}
}

// Fetch implements fetch.Protocol. The connection of an earlier contact is used again where it
// leads to the same server; one that turns out to have been closed meanwhile is replaced once.
func (c *Client) Fetch(ctx context.Context, req *fetch.Request) *fetch.Reply {
	conn, _ := req.Session.(*Conn)
	if conn == nil {
		conn = new(Conn)
	}
	if req.Login {
		return c.enter(ctx, req, conn)
	}
	f := c.Logins.formOf(req.URL)
	if f == nil {
		return &c.do(ctx, req, conn).Reply
	}
	number := f.current()
	x := c.do(ctx, req, conn)
	if x.Response == nil || !f.ended(x, req.URL, number) {
		return &x.Reply
	}
	defer x.Close()
	return &fetch.Reply{Outcome: x.Outcome, Status: x.head.Status, Forwarded: x.Forwarded, Wire: x.Wire, Session: x.Session, LoggedOut: true}
}

// do makes one contact.
func (c *Client) do(ctx context.Context, req *fetch.Request, conn *Conn) *exchange {
	return c.send(ctx, req, conn, nil)
}

// send makes one contact; step is the request of a login, or nil.
func (c *Client) send(ctx context.Context, req *fetch.Request, conn *Conn, step *formRequest) *exchange {
	x := &exchange{step: step}
	x.Outcome, x.NoBody, x.Memory = record.OutcomeFetched, req.Method == http.MethodHead, x
	x.head.Fields = x.fields[:0]
	if err := c.ask(ctx, req, conn, x); err == nil {
		x.Response, x.Length, x.Head = x.stream, x.stream.Len(), &x.head
	} else {
		conn.Close()
		x.Close()
		x.Reply.Fail(err)
	}
	if conn.Open() {
		x.Session = conn
	}
	return x
}

func (c *Client) ask(ctx context.Context, req *fetch.Request, conn *Conn, x *exchange) (err error) {
	var first *exchange // the reply over HTTP/1.1 of a host that is asked over HTTP/2
	var own bool        // a failure over HTTP/2 is the request's own
	defer func() {
		if first == nil {
			return
		}
		if f, ok := errors.AsType[*fetch.Failure](err); ok && !own {
			first.Wire = x.Wire
			conn.Close()
			*x, *first = *first, *x
			x.Error = overTwo(x.Error, f.Error())
			c.keepCookies(x)
			err = nil
		}
		first.Close()
	}()
	deadline := time.Now().Add(cmp.Or(c.Timeout, fetch.DefaultTimeout))
	if x.target, err = parseTarget(req.URL); err != nil {
		return &fetch.Failure{Outcome: record.OutcomeScheme, Err: err}
	}
	t := &x.target
	x.Forwarded = c.Proxy.forwards(t)
	if addrguard.PortRefused(t.port) {
		return &fetch.Failure{Outcome: record.OutcomePort, Err: fmt.Errorf("port %d is not for the web", t.port)}
	}
	if err := c.Judge(req.Addr); err != nil {
		return err
	}
	addr := netip.AddrPortFrom(req.Addr, t.port)
	kept, sent := c.request(x.request[:0], req, t, x.step)
	if !conn.leads(t, addr) {
		conn.Close()
	}
	for offer := false; ; {
		x.reused = conn.conn != nil
		if !x.reused {
			if err := c.connect(ctx, deadline, t, addr, conn, offer); err != nil {
				return err
			}
		}
		x.Sent, x.Error = kept, conn.fault
		wanted, agreed, offered := conn.wanted, conn.agreed, conn.offered
		before := x.Wire
		err := conn.begin(ctx, deadline)
		if err == nil && agreed == protocolTwo {
			err = c.exchangeTwo(ctx, deadline, conn, sent, x)
		} else if err == nil {
			err = c.exchange(conn, sent, x)
		} else {
			err = fetch.Classify(err, record.OutcomeDisconnect)
		}
		var f *fetch.Failure
		if errors.As(err, &f); agreed == protocolTwo {
			own = f != nil && isOwn(f, c.two().of(t.host).speaks)
			switch {
			case err == nil || f != nil && isStream(f):
				c.two().answered(t.host)
			case f != nil && !own:
				c.two().fail(t.host, f)
			}
		}
		closed := f != nil && !own && x.Wire == before && f.Outcome == record.OutcomeDisconnect
		if closed && x.reused {
			conn.Close() // the server did so between two requests
			continue
		}
		asks := t.scheme == "https" && agreed != protocolTwo && (wantsTwo(x, err) || closed && agreed == "")
		if asks && !offer && !offered && c.two().may(t.host) {
			conn.Close()
			offer = true
			if err == nil {
				kept := *x
				first, x.stream = &kept, nil
				first.head.Fields = slices.Clone(x.head.Fields)
			}
			x.head, x.Truncated = httpmsg.Head{Fields: x.fields[:0]}, ""
			continue
		}
		if closed {
			if f.Unreached = true; t.scheme == "https" {
				if _, isAlert := alertOf(err); isAlert { // with TLS 1.3, where the client ends its handshake before the server does
					err = unsecured(f.Err, wanted)
				}
			}
		}
		if asks && err == nil {
			x.Error = overTwo(x.Error, c.two().of(t.host).why)
		}
		if err == nil && x.head.Status == http.StatusMisdirectedRequest {
			conn.Close() // another one may lead to who answers for the host
		}
		if err == nil && x.Forwarded && x.head.Status == http.StatusProxyAuthRequired {
			return c.Proxy.down(errNoLogin)
		}
		if err == nil {
			c.keepCookies(x)
		}
		return err
	}
}

func (c *Client) now() time.Time {
	if c.Now == nil {
		return time.Now()
	}
	return c.Now()
}

// request writes the request to b: as it is kept, and as it is sent.
func (c *Client) request(b []byte, req *fetch.Request, t *target, step *formRequest) (kept, sent []byte) {
	b = append(append(b, cmp.Or(req.Method, http.MethodGet)...), ' ')
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
	b = appendField(b, "Accept", cmp.Or(c.Accept, "*/*"))
	b = appendField(b, "Accept-Encoding", cmp.Or(c.AcceptEncoding, "gzip, deflate, br, zstd"))
	b = appendField(b, "If-None-Match", entityTags(req.ETag))
	b = appendField(b, "If-Modified-Since", req.LastModified)
	for _, f := range c.Header {
		b = appendField(b, f.Name, f.Value)
	}
	secret, names := c.Logins.line(t, c.now())
	own := ""
	if c.Logins.hasCookie(t) {
		secret = ""
	} else if c.Cookies != nil && c.Logins.form(t) == nil {
		own = c.Cookies.Line(t.cookies(), c.now(), names...)
	}
	var secrets []byte
	for _, f := range c.Logins.fields(t) {
		secrets = appendField(secrets, f.Name, f.Value)
	}
	if c.Proxy.forwards(t) {
		secrets = appendField(secrets, "Proxy-Authorization", c.Proxy.basic())
	}
	if step != nil && step.method == http.MethodPost {
		secrets = appendField(secrets, "Origin", t.scheme+"://"+t.host)
		secrets = appendField(secrets, "Referer", step.referer)
		secrets = appendField(secrets, "Content-Type", "application/x-www-form-urlencoded")
		secrets = appendField(secrets, "Content-Length", strconv.Itoa(len(step.body)))
	}
	b, before := appendField(b, "Cookie", own), b
	kept = append(b, "\r\n"...)
	if secret != "" {
		b = before
		secrets = appendField(secrets, "Cookie", strings.TrimSuffix(secret+"; "+own, "; "))
	}
	if secrets == nil {
		return kept, kept
	}
	sent = append(append(make([]byte, 0, len(kept)+len(secrets)), b...), secrets...)
	sent = append(sent, "\r\n"...)
	if step != nil {
		sent = append(sent, step.body...)
	}
	return kept, sent
}

// entityTags is an entity tag as If-None-Match asks for it (RFC 9110 section 13.1.2): as it
// is, and behind that as httpmsg.PlainTag has it. Apache compares the latter before it
// compresses, and answers 200 for ever to the tag that it sent.
func entityTags(tag string) string {
	if plain := httpmsg.PlainTag(tag); plain != tag {
		return tag + ", " + plain
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

// connect opens a connection to the server, through the proxy if there is one. offer: HTTP/2 is offered, too.
func (c *Client) connect(ctx context.Context, deadline time.Time, t *target, addr netip.AddrPort, conn *Conn, offer bool) error {
	if soon := time.Now().Add(c.ConnectTime(ctx)); soon.Before(deadline) {
		deadline = soon
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	var first error
	if offer = offer || c.two().of(t.host).speaks; !offer {
		first = c.open(ctx, t, addr, conn, nil)
		alert, _ := alertOf(first)
		offer = alert == alertNoProtocol && c.two().may(t.host)
	}
	if offer {
		first = c.openTwo(ctx, t, addr, conn)
	}
	if first == nil || t.scheme != "https" || !isTooNew(first) || c.Logins.know(t, c.now()) {
		return first
	}
	if err := c.open(ctx, t, addr, conn, makeOld); err != nil {
		return err
	}
	state := conn.conn.(*tls.Conn).ConnectionState()
	conn.fault = strings.TrimSuffix(oldFault(state, first)+"; "+conn.fault, "; ")
	return nil
}

// openTwo makes a connection that may speak HTTP/2.
func (c *Client) openTwo(ctx context.Context, t *target, addr netip.AddrPort, conn *Conn) error {
	err := c.open(ctx, t, addr, conn, offerTwo)
	conn.offered = err == nil
	switch alert, _ := alertOf(err); {
	case alert == alertNoProtocol, err == nil && conn.agreed != protocolTwo:
		c.two().dismiss(t.host)
	case err != nil && ctx.Err() == nil:
		c.two().fail(t.host, err)
	}
	return err
}

// open makes a connection. change, unless nil, is for what it offers over TLS.
func (c *Client) open(ctx context.Context, t *target, addr netip.AddrPort, conn *Conn, change func(*tls.Config)) error {
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
		return fetch.Unconnected(err)
	}
	*conn = Conn{conn: raw, scheme: t.scheme, host: t.host, addr: addr}
	if t.scheme == "https" {
		config := c.tlsConfig(t, conn, c.InsecureTLS && !c.Logins.know(t, c.now())) // a password goes to nobody who has not proved the name
		if change != nil {
			change(config)
		}
		secure := tls.Client(raw, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			wanted := conn.wanted
			conn.Close()
			return unsecured(err, wanted)
		}
		conn.conn, conn.agreed = secure, secure.ConnectionState().NegotiatedProtocol
	}
	return nil
}

func (c *Client) tlsConfig(t *target, conn *Conn, insecure bool) *tls.Config {
	config := &tls.Config{}
	if c.TLS != nil {
		config = c.TLS.Clone()
	}
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	config.ServerName = t.name
	if ours := c.Logins.of("https://" + t.host).certificate; ours != nil {
		config.Certificates = []tls.Certificate{*ours}
	}
	config.NextProtos = []string{"http/1.1"}
	if config.GetClientCertificate == nil && len(config.Certificates) == 0 {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			conn.wanted = true
			return new(tls.Certificate), nil // none
		}
	}
	if insecure {
		config.InsecureSkipVerify = true
		roots := config.RootCAs
		config.VerifyConnection = func(state tls.ConnectionState) error {
			options := x509.VerifyOptions{DNSName: t.name, Roots: roots, Intermediates: x509.NewCertPool()}
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

// exchange sends the request and reads the reply into x.
func (c *Client) exchange(conn *Conn, request []byte, x *exchange) error {
	// A server may answer and close before it has read the request: what it
	// said counts, so a failed write is left to the read to report.
	_, writeErr := conn.conn.Write(request)

	complete, err := c.read(conn.conn, x)
	if err != nil {
		if writeErr != nil && errors.Is(err, io.EOF) {
			err = fetch.Classify(writeErr, record.OutcomeDisconnect)
		}
		return err
	}
	if !complete || !x.head.KeepAlive() || !x.head.Certain() {
		conn.Close()
	}
	return nil
}

// read reads a reply into x. complete: it has come whole, with nothing after it.
func (c *Client) read(from io.Reader, x *exchange) (complete bool, err error) {
	if x.stream == nil {
		x.stream = streams.Get().(*rewind.Stream)
	}
	r := &reply{conn: from, s: x.stream, x: x}
	r.s.SetDir(c.TempDir)
	r.s.Reset(httpmsg.HeadMax)
	if err := r.readHead(); err != nil {
		return false, err
	}
	max := cmp.Or(c.BodyMax, rewind.DefaultMax)
	if x.step != nil {
		max = min(max, formMax)
	}
	return r.readBody(max)
}
