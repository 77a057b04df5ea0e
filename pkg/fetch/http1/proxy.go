package http1

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/proxy"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/fetch"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/httpmsg"
)

// Proxy is who makes the connections in our place.
//
// The Guard does not judge the proxy's own address: the operator names it. It
// judges the servers' addresses as ever, and a socks5 proxy, or an http proxy for
// https URLs (CONNECT), is told that very address. An http proxy for http URLs is
// told the URL, finds an address of its own, and so must itself refuse those that
// are not to be contacted.
type Proxy struct {
	scheme string // "http" or "socks5"
	addr   string // host:port
	login
}

// ParseProxy reads http://HOST:PORT or socks5://HOST:PORT. If the proxy asks for
// a name and a password, it is given those that logins have for that URL.
func ParseProxy(s string, logins *Logins) (*Proxy, error) {
	u, err := url.Parse(s)
	if err == nil {
		_, err = netip.ParseAddrPort("0.0.0.0:" + u.Port())
	}
	if err != nil || u.Scheme != "http" && u.Scheme != "socks5" || u.User != nil || u.Hostname() == "" || u.Port() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" {
		return nil, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("%q is no URL of a proxy", s), Want: "http://HOST:PORT or socks5://HOST:PORT"}
	}
	origin := u.Scheme + "://" + u.Host
	if u.Scheme == "http" {
		url, host, err := canon.URL(origin)
		if err != nil {
			return nil, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("proxy %q", s), Want: "http://HOST:PORT or socks5://HOST:PORT", Err: err}
		}
		scheme, _, _ := canon.Split(url)
		origin = scheme + "://" + host
	}
	return &Proxy{u.Scheme, u.Host, logins.of(origin)}, nil
}

// forwards reports whether the proxy is sent the request itself.
func (p *Proxy) forwards(t *target) bool {
	return p != nil && p.scheme == "http" && t.scheme == "http"
}

// failed is a contact that the proxy did not make.
func (p *Proxy) failed(err error) error {
	return &fetch.Failure{Outcome: record.OutcomeConnect, Err: fmt.Errorf("proxy: %w", err)}
}

// down is a proxy that cannot be used, whichever server is asked for. It is a failure of this
// side: no URL is to bear it.
func (p *Proxy) down(err error) error {
	e := &fault.Error{Place: "proxy " + p.scheme + "://" + p.addr, Err: err, Hint: "what was fetched is kept: run again when the proxy serves"}
	if err == errNoLogin {
		e.Hint = fmt.Sprintf("what was fetched is kept: name and password go into the file of fetch.login, as a line %q", p.scheme+"://"+p.addr+" USER:PASSWORD")
	}
	return e
}

// errNoLogin is status 407, to CONNECT or to a request.
var errNoLogin = errors.New("status 407: proxy authentication required")

// refusesLogin reports whether a socks5 proxy wants another name and password (RFC 1928
// section 3, RFC 1929); x/net tells it in words only.
func refusesLogin(err error) bool { return strings.Contains(err.Error(), "authentication") }

// dial returns a connection that reaches the server.
func (p *Proxy) dial(ctx context.Context, dial func(context.Context, string, string) (net.Conn, error), t *target, addr netip.AddrPort, agent string) (net.Conn, error) {
	conn, err := dial(ctx, "tcp", p.addr)
	if err != nil {
		return nil, p.down(err)
	}
	if !p.forwards(t) {
		deadline, _ := ctx.Deadline()
		if err = conn.SetDeadline(deadline); err == nil {
			stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
			err = p.tunnel(ctx, conn, addr, agent)
			stop()
		}
	}
	if err != nil {
		conn.Close()
		if refusesLogin(err) {
			return nil, p.down(err)
		}
		return nil, p.failed(err)
	}
	return conn, nil
}

// Dialer returns a function that connects to addresses through the proxy, for
// protocols other than HTTP.
func (p *Proxy) Dialer(agent string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, _, addr string) (net.Conn, error) {
		to, err := netip.ParseAddrPort(addr)
		if err != nil {
			return nil, err
		}
		return p.dial(ctx, (&net.Dialer{KeepAlive: -1}).DialContext, &target{}, to, agent)
	}
}

// tunnel asks the proxy to connect to addr.
func (p *Proxy) tunnel(ctx context.Context, conn net.Conn, addr netip.AddrPort, agent string) error {
	if p.scheme == "http" {
		return p.connect(conn, addr, agent)
	}
	var login *proxy.Auth
	if p.user != "" {
		login = &proxy.Auth{User: p.user, Password: p.password}
	}
	d, err := proxy.SOCKS5("tcp", p.addr, login, nil)
	if err != nil {
		return err
	}
	socks, ok := d.(interface {
		DialWithConn(ctx context.Context, conn net.Conn, network, address string) (net.Addr, error)
	})
	if !ok {
		return errors.New("x/net's socks5 does not take a connection")
	}
	_, err = socks.DialWithConn(ctx, conn, "tcp", addr.String())
	return err
}

// connect is the method CONNECT (RFC 9110 section 9.3.6).
func (p *Proxy) connect(conn net.Conn, addr netip.AddrPort, agent string) error {
	b := fmt.Appendf(nil, "CONNECT %s HTTP/1.1\r\n", addr)
	b = appendField(b, "Host", addr.String())
	b = appendField(b, "User-Agent", agent)
	b = appendField(b, "Proxy-Authorization", p.basic())
	if _, err := conn.Write(append(b, "\r\n"...)); err != nil {
		return err
	}
	reply := make([]byte, 0, 4<<10)
	for {
		if len(reply) == cap(reply) {
			return fmt.Errorf("no end of its reply in %d bytes", len(reply))
		}
		from := len(reply)
		n, err := conn.Read(reply[from:cap(reply)])
		reply = reply[:from+n]
		if end := httpmsg.HeadEnd(reply, from); end >= 0 {
			head, err := httpmsg.ParseHead(reply[:end])
			switch {
			case err != nil:
				return err
			case head.Status == http.StatusProxyAuthRequired:
				return errNoLogin
			case head.Status < 200 || head.Status > 299:
				return fmt.Errorf("status %d %s", head.Status, head.Reason)
			case end < len(reply):
				return errors.New("bytes after its reply, which the server cannot have sent")
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("after %d bytes of its reply (%.40q): %w", len(reply), bytes.TrimSpace(reply), err)
		}
	}
}
