package fetch

import (
	"context"
	"io"
	"net/netip"
	"time"

	"mercator/formats/record"
	"mercator/pkg/web/httpmsg"
)

// Request is one contact that a Protocol is to make.
type Request struct {
	Method       string     // "": GET; or HEAD, where the protocol has it
	URL          string     // canonical
	Host         string     // canonical host, with ":port" where it is not the scheme's default
	Addr         netip.Addr // address to contact
	ETag         string     // sent as If-None-Match, unless empty
	LastModified string     // sent as If-Modified-Since, unless empty

	Login bool // the contact is the step of a login that Options.Logins gave for the URL's origin

	// Session is the session that the Reply of an earlier contact with the host by this scheme
	// left; nil if none did. From here on the Protocol owns it, and uses it, passes it on or closes it.
	Session io.Closer
}

// Reply is the result of a contact. A failed contact gives a Reply too.
type Reply struct {
	Outcome   string // one of the record.Outcome constants
	Error     string // detail for people; "" where there is none
	Truncated string // WARC-Truncated: "", "length", "time", "disconnect", "unspecified"

	// Sent is the request as it went out; nil if nothing did. With Media it is what
	// was said over the control connection, both ways, without passwords.
	Sent []byte

	// Response is the HTTP response as it came, from the status line to the
	// last byte that was kept, transfer coding included; nil if none came. With
	// Media it is the document itself.
	Response io.ReadSeeker
	Length   int64 // bytes of Response

	// Media is the media type of Response where that is no HTTP response; "": it is one.
	Media string
	// Status is the HTTP status for the reply of a server that speaks no HTTP
	// (404: no such document); 0: 200 if there is a Response. Where Outcome is
	// "fetched" there is a Response or a Status.
	Status int
	// Redirect is the URL to which a server that speaks no HTTP redirects, or "".
	Redirect string
	// ETag and LastModified are for the next Request for the document, if the server
	// speaks no HTTP. If the document has not changed since the values in this Request,
	// the Reply has the Outcome "not-modified" and Status 304.
	ETag, LastModified string

	// Head is the parsed head of Response; nil: package fetch parses it.
	Head *httpmsg.Head

	// NoBody says that the request asked for none, whatever the head says.
	NoBody bool

	// Protocol is the ALPN name of the protocol spoken, such as "h2", if Sent and Response are not in its form; else "".
	Protocol string

	// LoggedOut says that the session which Options.Logins gave had ended: the page is asked for again.
	LoggedOut bool

	// Forwarded says that a proxy was asked which found an address itself: what answered
	// is not known to be Request.Addr.
	Forwarded bool

	// Unreached says that the address did not serve, and the host's next one may do: no connection came about, or none over
	// which anything came.
	Unreached bool

	// Wire is the number of bytes received, for budgets.
	Wire int64

	// Err is a failure of this machine and not of the server. It ends the whole run, as a full
	// disk does, unless package localfault knows it: then the URL is deferred.
	Err error

	// Session is a connection that the next contact with the host may use; nil
	// if none stands. Package fetch hands it to that, or closes it.
	Session io.Closer

	// Memory is closed when Response, Head and Sent are not needed any more; nil
	// where there is nothing to free.
	Memory interface{ Close() }
}

// spoken reports whether the server spoke something else than HTTP.
func (r *Reply) spoken() bool { return r.Media != "" || r.Status != 0 }

func (r *Reply) release() {
	if r.Memory != nil {
		r.Memory.Close()
		r.Memory = nil
	}
}

// Protocol is a protocol module: it makes contacts by the rules of a scheme, over
// sockets or inside the process (a synthetic web). It is called by many goroutines
// at once. Package fetch decides when and whether to call it; README.md shows how
// to write one.
type Protocol interface {
	// Check says why a canonical URL of the scheme cannot be asked for; nil if it
	// can. Nothing is contacted for it otherwise.
	Check(url string) error
	// Fetch makes one contact and returns when it has ended; the Request is not its
	// own after that.
	Fetch(ctx context.Context, r *Request) *Reply
}

// Resolver finds the addresses of a host when its rows carry no valid one. It
// is called by many goroutines at once.
type Resolver interface {
	// Resolve returns the addresses of a name (without port) in order of
	// preference and when they expire. failure says why there is none, as
	// the column addr_error does; one that localfault.Is knows defers the URL.
	Resolve(ctx context.Context, name string) (addrs []netip.Addr, expires time.Time, failure string)
}

// Logins are sessions that begin before pages of their origins are asked for. It is called by many goroutines at once.
type Logins interface {
	// Step returns the URL of the next contact that lets us in to the origin of a URL; "": none is needed. page is the URL that stands for the login
	// in rows, and why, unless "", the reason for which no page of the origin can be asked for.
	Step(url string) (step, page, why string)
	// Failed says that such a contact came to nothing; final: another would, too.
	Failed(url, why string, final bool)
}

// Guard judges an address before it is contacted: refused names the reason why
// its URLs are not fetched, an error ends the whole run.
type Guard func(addr netip.Addr) (refused string, err error)

// Rules are the robots rules of one authority for one user agent.
type Rules interface {
	Allowed(url string) bool
	CrawlDelay() time.Duration // 0: none asked for
}

// ParseRobots reads the text of a robots.txt for the user agent that the
// command crawls as.
type ParseRobots func(text []byte) Rules

// failed reports whether a contact's outcome counts against its host.
func failed(outcome string) bool {
	switch outcome {
	case record.OutcomeConnect, record.OutcomeTLS, record.OutcomeTimeout, record.OutcomeDisconnect, record.OutcomeProtocol:
		return true
	}
	return false
}
