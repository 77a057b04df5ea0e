// Package ftp is the protocol module for ftp URLs (RFC 1738 section 3.2.2): files and
// listings of directories, by RFC 959, RFC 2428 (EPSV) and RFC 3659 (MLSD).
//
// A URL that ends in "/" is a directory: its listing is the document, of type
// ListingType, in which package extract finds the links. Any other is a file; if the
// server has a directory of that name, the reply redirects to the URL with "/".
//
// The client is our own, since libraries bound neither the lines of a reply nor the
// replies of a contact, and connect wherever a server tells them to.
//
// A file with the size and time that are known from before is
// "not-modified", and is not sent again.
//
// # Invariants
//
//   - The data connection goes to the address of the control connection, which the
//     guard has judged, and to no port that browsers refuse. A server that names
//     another address is not followed.
//   - A contact ends by Limits.Timeout. Lines, replies and the whole conversation are
//     bounded; a document is, by Limits.BodyMax.
//   - No command holds a line end or NUL, whatever the URL says.
//   - The conversation that is kept has no passwords.
//
// Each contact has a connection of its own, and logs in as anonymous, or with the
// name and password that the operator has for the server.
package ftp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/pkg/fetch"
	"mercator/pkg/fetch/addrguard"
	"mercator/pkg/web/canon"
)

// ListingType is the media type of listings: lines of MLSD, or of LIST in the style
// of Unix or DOS.
const ListingType = "text/x-ftp-listing"

// What a server may say.
const (
	lineMax = 8 << 10  // bytes of a line
	talkMax = 64 << 10 // bytes of all replies of a contact
)

// Module fetches ftp URLs. Many goroutines may use it.
type Module struct {
	fetch.Limits
	Password string // password of anonymous: by custom, an e-mail address
	// Login returns name and password for an origin such as "ftp://example.org:2121";
	// nil, or ok false: anonymous.
	Login func(origin string) (user, password string, ok bool)
}

// target is the file or folder that a URL names.
type target struct {
	dir  string // to change to; "": where the login leads
	name string // of the file in it; "": the directory itself
}

// parse takes the path of a URL apart. Its first segment is relative to where the
// login leads, and an escaped slash makes it absolute (RFC 1738 section 3.2.2).
func parse(u string) (t target, err error) {
	_, _, rest := canon.Split(u)
	path, kind, typed := strings.Cut(rest, ";type=")
	if path, err = url.PathUnescape(strings.TrimPrefix(path, "/")); err != nil {
		return t, errors.New("ftp: a bad escape in the path")
	}
	if strings.ContainsAny(path, "\r\n\x00") {
		return t, errors.New("ftp: a line end or NUL in the path")
	}
	i := strings.LastIndexByte(path, '/') + 1
	t = target{dir: path[:i], name: path[i:]}
	if t.dir != "/" {
		t.dir = strings.TrimSuffix(t.dir, "/")
	}
	if typed && strings.EqualFold(kind, "d") && t.name != "" {
		t = target{dir: path}
	}
	return t, nil
}

// Check implements fetch.Protocol.
func (m *Module) Check(url string) error {
	_, err := parse(url)
	return err
}

// Fetch implements fetch.Protocol.
func (m *Module) Fetch(ctx context.Context, req *fetch.Request) *fetch.Reply {
	ctx, cancel := m.Begin(ctx)
	defer cancel()
	c := &client{Limits: &m.Limits, ctx: ctx}
	defer c.close()
	reply, err := m.fetch(c, req)
	if err != nil {
		reply = fetch.Failed(err)
		var refused *refusal
		if errors.As(err, &refused) {
			reply = &fetch.Reply{Outcome: record.OutcomeFetched, Status: refused.status(), Error: refused.Error()}
		}
	}
	reply.Wire += c.wire
	reply.Sent = c.talk.Bytes()
	return reply
}

func (m *Module) fetch(c *client, req *fetch.Request) (*fetch.Reply, error) {
	t, err := parse(req.URL)
	if err != nil {
		return nil, &fetch.Failure{Outcome: record.OutcomeScheme, Err: err}
	}
	scheme, host, _ := canon.Split(req.URL)
	if err := c.connect(req.Addr, host); err != nil {
		return nil, err
	}
	user, password := "anonymous", m.Password
	if m.Login != nil {
		if u, p, ok := m.Login(scheme + "://" + host); ok {
			user, password = u, p
		}
	}
	if err := c.login(user, password); err != nil {
		return nil, err
	}
	if t.dir != "" {
		if err := c.expect2("CWD " + t.dir); err != nil {
			return nil, err
		}
	}
	if t.name == "" {
		return c.list()
	}
	if err := c.expect2("TYPE I"); err != nil {
		return nil, err
	}
	etag, modified, err := c.facts(t.name)
	if err != nil {
		return nil, err
	}
	if modified != "" && modified == req.LastModified && (req.ETag == "" || etag == req.ETag) {
		return &fetch.Reply{Outcome: record.OutcomeNotModified, Status: http.StatusNotModified, ETag: etag, LastModified: modified}, nil
	}
	reply, err := c.transfer("RETR "+t.name, "application/octet-stream")
	var refused *refusal
	if errors.As(err, &refused) && refused.code == 550 && c.expect2("CWD "+t.name) == nil {
		file, _, _ := strings.Cut(req.URL, ";type=")
		return &fetch.Reply{Outcome: record.OutcomeFetched, Status: http.StatusMovedPermanently, Redirect: file + "/"}, nil
	}
	if reply != nil {
		reply.ETag, reply.LastModified = etag, modified
	}
	return reply, err
}

// facts asks for a file's size and time (RFC 3659 sections 3 and 4), which stand for
// an HTTP server's ETag and Last-Modified. "": the server does not say.
func (c *client) facts(name string) (etag, modified string, err error) {
	size, err := c.fact("SIZE " + name)
	if err != nil {
		return "", "", err
	}
	if n, err := strconv.ParseUint(size, 10, 63); err == nil {
		etag = fmt.Sprintf(`"%d"`, n)
	}
	text, err := c.fact("MDTM " + name)
	if err != nil {
		return "", "", err
	}
	text, _, _ = strings.Cut(text, ".") // of a second
	if t, err := time.Parse("20060102150405", text); err == nil {
		modified = t.Format(http.TimeFormat)
	}
	return etag, modified, nil
}

// fact gives a command that is answered with 213 and a fact; "" if the server refuses.
func (c *client) fact(line string) (string, error) {
	code, text, err := c.command(line, "")
	var refused *refusal
	if errors.As(err, &refused) && refused.code != 421 { // service closing
		return "", nil
	}
	if err != nil || code != 213 {
		return "", err
	}
	return strings.TrimSpace(text), nil
}

// refusal is an answer of 400 or above.
type refusal struct {
	code    int
	command string // the first word of the refused command, or "greeting"
	text    string
}

func (r *refusal) Error() string {
	return strings.TrimSpace(fmt.Sprintf("ftp %s: %d %s", r.command, r.code, r.text))
}

// status is the HTTP status that says the same.
func (r *refusal) status() int {
	switch {
	case r.code < 500: // try later: busy, too many connections
		return http.StatusServiceUnavailable
	case r.code == 530 || r.code == 532:
		return http.StatusUnauthorized
	case r.code == 550 || r.code == 553:
		return http.StatusNotFound
	}
	return http.StatusNotImplemented
}

// client is one control connection.
type client struct {
	*fetch.Limits
	ctx  context.Context
	addr netip.Addr
	conn net.Conn
	in   *bufio.Reader
	talk bytes.Buffer // both ways, without passwords
	wire int64        // bytes of replies
}

func (c *client) close() {
	if c.conn != nil {
		_, _ = c.conn.Write([]byte("QUIT\r\n")) // the answer would change nothing
		_ = c.conn.Close()
	}
}

func (c *client) connect(addr netip.Addr, host string) error {
	port := uint16(21)
	if _, text := canon.SplitPort(host); text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return &fetch.Failure{Outcome: record.OutcomePort, Err: err}
		}
		port = uint16(n)
	}
	conn, err := c.Connect(c.ctx, netip.AddrPortFrom(addr, port))
	if err != nil {
		return err
	}
	c.addr, c.conn, c.in = addr, conn, bufio.NewReaderSize(conn, lineMax)
	for code := 120; code == 120 && err == nil; { // "ready in some minutes" comes before the greeting
		code, _, err = c.answer("greeting")
	}
	return err
}

func (c *client) login(user, password string) error {
	code, _, err := c.command("USER "+user, "")
	if err == nil && code == 331 {
		_, _, err = c.command("PASS "+password, "PASS ***")
	}
	return err
}

// expect2 gives a command that needs an answer of 2xx.
func (c *client) expect2(line string) error {
	code, text, err := c.command(line, "")
	if err == nil && code/100 != 2 {
		err = fetch.Broken("ftp %s: answer %d %s, want one of 2xx", word(line), code, text)
	}
	return err
}

func word(line string) string {
	w, _, _ := strings.Cut(line, " ")
	return w
}

// command gives a command and returns the answer, which is below 400. shown is how
// the conversation shows it; "": as it is.
func (c *client) command(line, shown string) (code int, text string, err error) {
	if strings.ContainsAny(line, "\r\n\x00") {
		return 0, "", &fetch.Failure{Outcome: record.OutcomeScheme, Err: errors.New("ftp: a line end or NUL in a command")}
	}
	if shown == "" {
		shown = line
	}
	c.talk.WriteString(shown + "\r\n")
	if _, err := c.conn.Write([]byte(line + "\r\n")); err != nil {
		return 0, "", fetch.Classify(err, record.OutcomeDisconnect)
	}
	return c.answer(word(line))
}

// answer reads a reply of one or more lines (RFC 959 section 4.2). text is the text of
// the first line.
func (c *client) answer(command string) (code int, text string, err error) {
	for first, more := true, true; more; first = false {
		line, err := c.in.ReadSlice('\n')
		c.wire += int64(len(line))
		if room := talkMax - c.talk.Len(); len(line) <= room {
			c.talk.Write(line)
		} else {
			return 0, "", fetch.Broken("ftp %s: replies of more than %d bytes", command, talkMax)
		}
		if err == bufio.ErrBufferFull {
			return 0, "", fetch.Broken("ftp %s: a line of more than %d bytes", command, lineMax)
		}
		if err != nil {
			return 0, "", fetch.Classify(err, record.OutcomeDisconnect)
		}
		line = bytes.TrimRight(line, "\r\n")
		n, err := strconv.Atoi(string(line[:min(3, len(line))]))
		numbered := err == nil && n >= 100 && n <= 599 && (len(line) == 3 || line[3] == ' ' || line[3] == '-')
		dash := len(line) > 3 && line[3] == '-'
		switch {
		case first && !numbered:
			return 0, "", fetch.Broken("ftp %s: %.60q is no reply", command, line)
		case first:
			code, text, more = n, string(line[min(4, len(line)):]), dash
		default:
			more = !numbered || dash || n != code
		}
	}
	if code >= 400 {
		return code, text, &refusal{code, command, text}
	}
	return code, text, nil
}

// list fetches the listing of the working directory: MLSD, or LIST where a server
// has no MLSD.
func (c *client) list() (*fetch.Reply, error) {
	if err := c.expect2("TYPE A"); err != nil {
		return nil, err
	}
	reply, err := c.transfer("MLSD", ListingType)
	var refused *refusal
	if errors.As(err, &refused) && refused.command == "MLSD" && (refused.code/10 == 50 || refused.code == 550) {
		return c.transfer("LIST", ListingType)
	}
	return reply, err
}

// transfer fetches what a command sends over a data connection.
func (c *client) transfer(line, media string) (*fetch.Reply, error) {
	port, err := c.passive()
	if err != nil {
		return nil, err
	}
	if addrguard.PortRefused(port) {
		return nil, fetch.Broken("ftp: data on port %d, which is not for data", port)
	}
	data, err := c.Connect(c.ctx, netip.AddrPortFrom(c.addr, port))
	if err != nil {
		return nil, err
	}
	defer data.Close()
	code, text, err := c.command(line, "")
	if err != nil {
		return nil, err
	}
	if code/100 != 1 {
		return nil, fetch.Broken("ftp %s: answer %d %s, want one of 1xx", word(line), code, text)
	}
	doc, err := c.Keep(data)
	if err != nil {
		return nil, err
	}
	_ = data.Close()
	reply := doc.Reply(media)
	if reply.Truncated == "" {
		// Only the server knows whether that was all (RFC 959 section 3.3).
		if code, text, err = c.answer(word(line)); err == nil && code/100 != 2 {
			err = fetch.Broken("answer %d %s, want one of 2xx", code, text)
		}
		if err != nil {
			reply.Truncated, reply.Error = fetch.Truncated(err), err.Error()
		}
	}
	return reply, nil
}

// passive asks for the port of a data connection: by EPSV or, for IPv4, PASV.
func (c *client) passive() (uint16, error) {
	_, text, err := c.command("EPSV", "")
	if err == nil {
		return extendedPort(text)
	}
	var refused *refusal
	if !errors.As(err, &refused) || !c.addr.Unmap().Is4() {
		return 0, err
	}
	if _, text, err = c.command("PASV", ""); err != nil {
		return 0, err
	}
	addr, err := passiveAddr(text)
	if err == nil && addr.Addr() != c.addr.Unmap() {
		err = fetch.Broken("ftp: PASV leads to %s, not to %s", addr.Addr(), c.addr)
	}
	return addr.Port(), err
}

// extendedPort reads "Entering Extended Passive Mode (|||6446|)" (RFC 2428 section 3).
func extendedPort(text string) (uint16, error) {
	_, s, _ := strings.Cut(text, "(")
	if s, _, ok := strings.Cut(s, ")"); ok && len(s) > 4 && strings.Count(s, s[:1]) == 4 && strings.HasPrefix(s, strings.Repeat(s[:1], 3)) {
		if n, err := strconv.ParseUint(s[3:len(s)-1], 10, 16); err == nil {
			return uint16(n), nil
		}
	}
	return 0, fetch.Broken("ftp EPSV: %.60q names no port", text)
}

// passiveAddr reads "Entering Passive Mode (127,0,0,1,25,46)"; some servers leave the
// parentheses out.
func passiveAddr(text string) (netip.AddrPort, error) {
	s := strings.Trim(text[max(0, strings.IndexFunc(text, digit)):], "). \t")
	part := strings.Split(s, ",")
	var b [6]byte
	for i := range b {
		if len(part) != len(b) {
			part = make([]string, len(b)) // which has no numbers
		}
		n, err := strconv.ParseUint(part[i], 10, 8)
		if err != nil {
			return netip.AddrPort{}, fetch.Broken("ftp PASV: %.60q names no address", text)
		}
		b[i] = byte(n)
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[:4])), uint16(b[4])<<8|uint16(b[5])), nil
}

func digit(r rune) bool { return r >= '0' && r <= '9' }
