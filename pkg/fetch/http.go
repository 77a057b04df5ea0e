package fetch

import (
	"context"

	"mercator/pkg/fetch/http1"
)

// HTTP is the protocol module for http and https.
type HTTP struct{ Client *http1.Client }

// Fetch makes one contact, on the connection of the one before where that stands.
func (p HTTP) Fetch(ctx context.Context, req *Request) *Reply {
	conn, _ := req.Session.(*http1.Conn)
	if conn == nil {
		conn = new(http1.Conn)
	}
	x := p.Client.Do(ctx, http1.Request{URL: req.URL, Addr: req.Addr, ETag: req.ETag, LastModified: req.LastModified}, conn)
	r := &Reply{Outcome: x.Outcome, Error: x.Error, Truncated: x.Truncated, Sent: x.Request, Wire: x.Wire, Err: x.Err, Release: x.Close}
	if r.Error == "" {
		r.Error = x.TLSFault
	}
	if x.Response != nil {
		r.Response, r.Length = x.Response, x.Response.Len()
	}
	if conn.Open() {
		r.Session = conn
	}
	return r
}
