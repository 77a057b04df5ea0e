package http1

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"mercator/formats/record"
	"mercator/pkg/fetch"
	"mercator/pkg/web/httpmsg"
)

// HTTP/1.1 is spoken first, as its bytes go into the archive as they came. A few servers refuse it: by an alert of TLS
// (no_application_protocol), by status 505 or 421, by frames of HTTP/2 in place of a reply, or by agreeing to no protocol and closing. Such a host is asked once more in the same
// contact, over a connection that offers h2 too (RFC 7301, RFC 9113). Once it has answered over HTTP/2 it is offered that at once. The connection is not kept.
// A stream that fails is the page's own failure. Where no connection of HTTP/2 comes about or it fails, a reply that came over HTTP/1.1 is the contact's, and its
// Error says what failed. A host that does not agree to h2 is not asked again, and one whose connections failed only after twoTries.
//
// Request and reply are archived in the form of HTTP/1.1, which is what readers of archives know, with WARC-Protocol: h2. Fields that
// HTTP/2 forbids are left out, and fields stand in the order of their names.

// protocolTwo is the name of HTTP/2 in ALPN, and in WARC-Protocol.
const protocolTwo = "h2"

// alertNoProtocol is a server's that speaks none of the offered protocols (RFC 7301 section 3.2).
const alertNoProtocol = 120

// twoMax is how many hosts are remembered that want HTTP/2. When there are more, all are forgotten: each costs a refusal then.
const twoMax = 1 << 12

// errTwo is a reply of frames.
var errTwo = errors.New("frames of HTTP/2 in place of a reply")

// twoTries is how many connections of HTTP/2 may fail in a row before the host has answered over any.
const twoTries = 3

// twoHosts are authorities that refused HTTP/1.1.
type twoHosts struct {
	mu    sync.Mutex
	hosts map[string]twoHost
}

type twoHost struct {
	speaks bool   // it has answered over HTTP/2
	failed int    // connections, before it did
	why    string // the last one failed
}

func (h *twoHosts) of(host string) twoHost {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hosts[host]
}

// may reports whether HTTP/2 is worth a try.
func (h *twoHosts) may(host string) bool { return h.of(host).failed < twoTries }

func (h *twoHosts) set(host string, change func(*twoHost)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known, ok := h.hosts[host]
	if h.hosts == nil || !ok && len(h.hosts) >= twoMax {
		h.hosts = map[string]twoHost{}
	}
	change(&known)
	h.hosts[host] = known
}

// answered notes that the host speaks HTTP/2.
func (h *twoHosts) answered(host string) {
	h.set(host, func(t *twoHost) { *t = twoHost{speaks: true} })
}

// fail notes that a connection of a host that has not answered yet failed.
func (h *twoHosts) fail(host string, why error) {
	h.set(host, func(t *twoHost) {
		if !t.speaks {
			t.failed, t.why = t.failed+1, fmt.Sprintf("%.200s", why)
		}
	})
}

// dismiss notes that the host does not agree to HTTP/2.
func (h *twoHosts) dismiss(host string) {
	h.set(host, func(t *twoHost) {
		if !t.speaks {
			*t = twoHost{failed: twoTries}
		}
	})
}

// overTwo adds to a Reply's Error what failed over HTTP/2.
func overTwo(text, why string) string {
	if why == "" {
		return text
	}
	return strings.TrimPrefix(text+"; over HTTP/2: "+why, "; ")
}

// offerTwo lets a connection agree to HTTP/2.
func offerTwo(config *tls.Config) { config.NextProtos = []string{protocolTwo, "http/1.1"} }

// wantsTwo reports whether a server that ended an exchange over HTTP/1.1 like this may answer over HTTP/2.
func wantsTwo(x *exchange, err error) bool {
	if err != nil {
		return errors.Is(err, errTwo)
	}
	return x.head.Status == http.StatusHTTPVersionNotSupported || x.head.Status == http.StatusMisdirectedRequest
}

// isOwn reports whether a failure over HTTP/2 is one of the request alone: its stream failed, or time is up with a host that speaks HTTP/2.
func isOwn(f *fetch.Failure, speaks bool) bool {
	return speaks && f.Outcome == record.OutcomeTimeout || errors.Is(f.Err, context.Canceled) || isStream(f)
}

func isStream(f *fetch.Failure) bool { return strings.HasPrefix(f.Err.Error(), streamFailed) }

// streamFailed and connectionFailed begin what net/http says: it has no types for them.
const (
	streamFailed     = "stream error: "
	connectionFailed = "connection error: "
)

// isSettings reports whether b begins as a connection of HTTP/2 does: with a frame SETTINGS on stream 0 (RFC 9113 section 3.4).
func isSettings(b []byte) bool {
	return len(b) >= 9 && b[0] == 0 && b[3] == 4 && b[4] == 0 && bytes.Equal(b[5:9], make([]byte, 4))
}

// exchangeTwo sends the request, which is given as HTTP/1.1 has it, over HTTP/2 and reads the reply into x.
func (c *Client) exchangeTwo(ctx context.Context, deadline time.Time, conn *Conn, request []byte, x *exchange) error {
	defer conn.Close()
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	method, rest, _ := bytes.Cut(request, []byte(" "))
	path, rest, _ := bytes.Cut(rest, []byte(" "))
	// The path is not parsed: one with a bare % is sent as it is.
	req, err := http.ReadRequest(bufio.NewReader(io.MultiReader(strings.NewReader(string(method)+" / "), bytes.NewReader(rest))))
	if err != nil {
		return &fetch.Failure{Outcome: record.OutcomeProtocol, Err: err}
	}
	// An opaque URL goes out as it is.
	req.URL = &url.URL{Scheme: "https", Host: req.Host, Opaque: "//" + req.Host + string(path)}
	req.RequestURI = ""
	transport := http.Transport{DisableCompression: true, MaxResponseHeaderBytes: httpmsg.HeadMax, Protocols: new(http.Protocols),
		DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return conn.conn, nil }}
	transport.Protocols.SetHTTP2(true)
	client, err := transport.NewClientConn(ctx, "https", net.JoinHostPort(x.target.name, strconv.Itoa(int(x.target.port))))
	if err != nil {
		return fetch.Classify(err, record.OutcomeDisconnect)
	}
	defer client.Close()
	res, err := client.RoundTrip(req.WithContext(ctx))
	if err != nil {
		outcome := record.OutcomeDisconnect // a stream or a connection that the server ended: another time it may not
		if text := err.Error(); strings.HasPrefix(text, connectionFailed) || strings.HasPrefix(text, streamFailed) && !strings.HasSuffix(text, "received from peer") {
			outcome = record.OutcomeProtocol
		}
		return fetch.Classify(err, outcome)
	}
	defer res.Body.Close()
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade"} {
		res.Header.Del(name)
	}
	var head bytes.Buffer
	fmt.Fprintf(&head, "HTTP/1.1 %d %s\r\n", res.StatusCode, http.StatusText(res.StatusCode))
	if err := res.Header.Write(&head); err != nil {
		return err
	}
	head.WriteString("\r\n")
	x.Protocol = protocolTwo
	_, err = c.read(io.MultiReader(&head, uncut{res.Body}), x)
	return err
}

// uncut reads a body that must end with END_STREAM, not with the connection (RFC 9113 section 8.1).
type uncut struct{ io.Reader }

func (u uncut) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the stream ended without END_STREAM")
	}
	return n, err
}
