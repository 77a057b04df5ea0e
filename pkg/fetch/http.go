package fetch

import (
	"context"
	"strings"

	"mercator/pkg/fetch/http1"
)

// HTTP is the protocol module for http and https.
type HTTP struct{ Client *http1.Client }

// Check implements Protocol. Every canonical URL of http and https can be asked for.
func (p HTTP) Check(string) error { return nil }

// Fetch makes one contact, on the connection of the one before where that stands.
func (p HTTP) Fetch(ctx context.Context, req *Request) *Reply {
	conn, _ := req.Session.(*http1.Conn)
	if conn == nil {
		conn = new(http1.Conn)
	}
	x := p.Client.Do(ctx, http1.Request{Method: req.Method, URL: req.URL, Addr: req.Addr, ETag: req.ETag, LastModified: req.LastModified}, conn)
	r := &Reply{Outcome: x.Outcome, Error: x.Error, Truncated: x.Truncated, Sent: x.Request, NoBody: x.NoBody, Wire: x.Wire, Err: x.Err, Forwarded: x.Forwarded, Memory: x}
	if x.TLSFault != "" {
		r.Error = strings.TrimSuffix(x.TLSFault+"; "+x.Error, "; ")
	}
	if x.Response != nil {
		r.Response, r.Length, r.Head = x.Response, x.Response.Len(), &x.Head
	}
	if conn.Open() {
		r.Session = conn
	}
	return r
}
