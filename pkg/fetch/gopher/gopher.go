// Package gopher is the protocol module for gopher URLs (RFC 4266): documents and
// menus, by RFC 1436.
//
// The URL's path is the item's type, one character, and its selector; "/" alone is
// the server's menu. A menu is a document of type MenuType, in which package extract
// finds the links. Texts and menus lose what transport adds: the line of one dot at
// the end, and a dot before lines that begin with one (many servers add none, which
// shows at the first line that begins with a single dot). Everything else goes on
// until the server closes.
//
// # Invariants
//
//   - One line is sent, which holds no line end and no NUL, whatever the URL says.
//   - A contact ends by Limits.Timeout, a document by Limits.BodyMax.
package gopher

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"mercator/formats/record"
	"mercator/pkg/fetch"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/httpmsg"
)

// MenuType is the media type of menus.
const MenuType = "application/gopher-menu"

// Module fetches gopher URLs. Many goroutines may use it.
type Module struct{ fetch.Limits }

// item is the Gopher item that a URL names.
type item struct {
	kind     byte
	selector string // with the search words behind a tab, if there are any
}

func parse(u string) (item, error) {
	_, _, rest := canon.Split(u)
	path, err := url.PathUnescape(strings.TrimPrefix(rest, "/"))
	if err != nil {
		return item{}, errors.New("gopher: a bad escape in the selector")
	}
	if strings.ContainsAny(path, "\r\n\x00") {
		return item{}, errors.New("gopher: a line end or NUL in the selector")
	}
	if path == "" {
		return item{kind: '1'}, nil
	}
	if strings.IndexByte("8T2", path[0]) >= 0 {
		return item{}, errors.New("gopher: a session for a terminal")
	}
	return item{path[0], path[1:]}, nil
}

// media is the type of an item's document; lines says that it is sent as lines, with
// a dot at the end (RFC 1436 section 3.8).
func (i item) media() (media string, lines bool) {
	switch i.kind {
	case '0':
		return "text/plain", true
	case '1', '7':
		return MenuType, true
	case 'g':
		return "image/gif", false
	case 'h':
		return "text/html", false
	}
	return "application/octet-stream", false
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
	reply, err := m.fetch(ctx, req)
	if err != nil {
		return fetch.Failed(err)
	}
	return reply
}

func (m *Module) fetch(ctx context.Context, req *fetch.Request) (*fetch.Reply, error) {
	it, err := parse(req.URL)
	if err != nil {
		return nil, &fetch.Failure{Outcome: record.OutcomeScheme, Err: err}
	}
	port := uint64(70)
	if _, text := canon.SplitPort(req.Host); text != "" {
		if port, err = strconv.ParseUint(text, 10, 16); err != nil {
			return nil, &fetch.Failure{Outcome: record.OutcomePort, Err: err}
		}
	}
	conn, err := m.Connect(ctx, netip.AddrPortFrom(req.Addr, uint16(port)))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(it.selector + "\r\n")); err != nil {
		return nil, fetch.Classify(err, record.OutcomeDisconnect)
	}
	media, lines := it.media()
	in := io.Reader(conn)
	if lines {
		in = &dotReader{in: bufio.NewReader(conn)}
	}
	doc, err := m.Keep(in)
	if err != nil {
		return nil, err
	}
	if doc.Len() == 0 && doc.Truncated != "" {
		doc.Close()
		outcome := record.OutcomeDisconnect
		if doc.Truncated == httpmsg.TruncatedTime {
			outcome = record.OutcomeTimeout
		}
		return nil, &fetch.Failure{Outcome: outcome, Err: errors.New("gopher: nothing came")}
	}
	reply := doc.Reply(media)
	if lines && isError(doc.Start()) {
		text, _, _ := bytes.Cut(doc.Start()[1:], []byte("\t"))
		reply.Status, reply.Error = http.StatusNotFound, string(text)
	}
	return reply, nil
}

// isError reports whether a document is a single item of type 3, which is how servers
// say that there is no such item.
func isError(b []byte) bool {
	line, rest, _ := bytes.Cut(b, []byte("\n"))
	return bytes.HasPrefix(line, []byte("3")) && bytes.Count(line, []byte("\t")) >= 2 && len(bytes.Trim(rest, ".\r\n")) == 0
}

// dotReader takes away what transport adds to lines. It ends with the line of one
// dot, or with in: many servers leave that line out.
type dotReader struct {
	in    *bufio.Reader
	begun bool // a line: the next byte is not its first
	plain bool // a line began with one dot and something else, so that the server adds none
}

func (d *dotReader) Read(p []byte) (int, error) {
	for n := range p {
		if n > 0 && d.in.Buffered() == 0 {
			return n, nil
		}
		c, err := d.in.ReadByte()
		if err == nil && !d.begun && c == '.' {
			c, err = d.dot()
		}
		if err != nil {
			return n, err
		}
		d.begun = c != '\n'
		p[n] = c
	}
	return len(p), nil
}

// dot decides whether a dot at the start of a line is text or the end.
func (d *dotReader) dot() (byte, error) {
	next, err := d.in.Peek(1)
	if string(next) == "\r" {
		next, err = d.in.Peek(2)
	}
	switch {
	case err == io.EOF && len(next) < 2 && string(next) != ".", string(next) == "\n", string(next) == "\r\n":
		return 0, io.EOF
	case err != nil:
		return 0, err
	case next[0] != '.':
		d.plain = true
	case !d.plain:
		_, err = d.in.Discard(1) // of two dots
	}
	return '.', err
}
