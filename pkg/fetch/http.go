package fetch

import (
	"context"

	"mercator/pkg/fetch/http1"
)

// HTTP is the protocol module for http and https.
type HTTP struct{ Client *http1.Client }

// Fetch makes one contact.
func (p HTTP) Fetch(ctx context.Context, req *Request) *Reply {
	x := p.Client.Do(ctx, http1.Request{URL: req.URL, Addr: req.Addr, ETag: req.ETag, LastModified: req.LastModified}, nil)
	r := &Reply{Outcome: x.Outcome, Error: x.Error, Truncated: x.Truncated, Sent: x.Request, Wire: x.Wire, Err: x.Err, Release: x.Close}
	if x.Response != nil {
		r.Response, r.Length = x.Response, x.Response.Len()
	}
	return r
}
