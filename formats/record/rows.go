package record

import (
	"slices"
	"strings"
	"time"
)

// Time is an instant in microseconds since 1970-01-01T00:00:00Z. Zero is
// "not set" and is stored as null.
type Time int64

// TimeOf converts t, truncating to the microsecond. The zero time.Time gives 0.
func TimeOf(t time.Time) Time {
	if t.IsZero() {
		return 0
	}
	return Time(t.UnixMicro())
}

// Go returns the instant in UTC; the zero Time gives the zero time.Time.
func (t Time) Go() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(t)).UTC()
}

// Kind names a record type. It stands in the schema's metadata.
type Kind string

// The four kinds.
const (
	KindURL    Kind = "url"
	KindFetch  Kind = "fetch"
	KindLink   Kind = "link"
	KindModule Kind = "module"
)

// ByKind returns the value for a kind, of four values that stand for the four types of rows.
func ByKind[V any](k Kind, url, fetch, link, module V) V {
	switch k {
	case KindURL:
		return url
	case KindFetch:
		return fetch
	case KindLink:
		return link
	}
	return module
}

// Row is one of the four record types.
//
// Strings and byte slices of a row that Reader.Read filled stay valid and
// unchanged for as long as they are referenced, but keep their whole batch (at
// most 16 MiB) alive: strings.Clone what is kept beyond the batch.
type Row interface {
	URL | Fetch | Link | Module
}

// URL is a row of kind "url": one URL that is to be fetched, or was found.
type URL struct {
	URL           string  `col:"url,required"`     // canonical
	Key           uint64  `col:"url_key,required"` // URL checksum
	Host          string  `col:"host,required"`    // canonical host, with ":port" where it is not the scheme's default
	Priority      uint8   `col:"priority"`         // front queue; 0 is served first
	Score         float32 `col:"score"`            // set by prioritizers; larger is better; before that, the score of the page it was found on
	Depth         uint16  `col:"depth"`            // links from a seed; 0 for a seed
	Attempt       uint8   `col:"attempt"`          // fetches that failed so far
	Via           string  `col:"via"`              // URL it was found on; "" for a seed
	Discovered    Time    `col:"discovered"`
	Due           Time    `col:"due"`  // not to be fetched before; 0 is at once
	Addr          string  `col:"addr"` // addresses in order of preference, comma-separated
	AddrExpires   Time    `col:"addr_expires"`
	AddrError     string  `col:"addr_error"`      // why there is no address: "nxdomain", "servfail", "timeout", …
	ETag          string  `col:"etag"`            // of the last fetch
	LastModified  string  `col:"last_modified"`   // header value of the last fetch, verbatim
	LastContentFP uint64  `col:"last_content_fp"` // 0 is "not fetched before"
	X             string  `col:"x"`               // user columns, see user.go
	Hops          uint8   `col:"hops"`            // redirects since the last link, on the way from the seed
	Requisite     uint8   `col:"requisite,late"`  // the URL was found as a part of a page, such as a picture: 1 and how many levels of parts it may have itself, and 8 if it may be a page, too; 0: it was not
	Sitemap       uint8   `col:"sitemap,late"`    // the URL was named as a sitemap: 1 by a robots.txt, n+1 by a sitemap of n; 0: it was not
	Extra         Extra   // columns that this version does not know
}

// Fetch is a row of kind "fetch": one contact with a server, or the reason why
// there was none. Each URL of a batch has exactly one row of role "page".
type Fetch struct {
	URL           string  `col:"url,required"`
	Key           uint64  `col:"url_key,required"`
	Host          string  `col:"host,required"`
	Priority      uint8   `col:"priority"`
	Score         float32 `col:"score"`
	Depth         uint16  `col:"depth"`
	Attempt       uint8   `col:"attempt"`
	Via           string  `col:"via"`
	Discovered    Time    `col:"discovered"`
	Addr          string  `col:"addr"` // the address that was contacted; "" if none was
	ETag          string  `col:"etag"` // what the next fetch may ask with: of this reply if it has the document, or else as given
	LastModified  string  `col:"last_modified"`
	LastContentFP uint64  `col:"last_content_fp"` // as given: the content fingerprint of the fetch before

	Role            string `col:"role,required"`     // RolePage, RoleRobots, RoleAgain or RoleLogin
	FetchTime       Time   `col:"fetch_time"`        // start of the contact
	DurationUS      int64  `col:"duration_us"`       // from start of the contact to its end
	RequiredDelayUS int64  `col:"required_delay_us"` // gap to this host that politeness demanded before this contact
	Outcome         string `col:"outcome,required"`  // one of the Outcome constants
	Status          uint16 `col:"status"`            // HTTP status; 0 if there was no reply
	MIME            string `col:"mime"`              // media type of Content-Type, lower case
	Charset         string `col:"charset"`           // charset parameter, lower case
	BodyLength      int64  `col:"body_length"`       // decoded bytes kept
	Truncated       string `col:"truncated"`         // "", "length", "time", "disconnect", "unspecified" (WARC-Truncated)
	ContentFP       uint64 `col:"content_fp"`        // FP64 of the decoded body, or what the crawl has in its place (sets.content_hash); 0 if there is none
	PayloadSHA1     string `col:"payload_sha1"`      // base32, upper case, without "sha1:"
	Duplicate       bool   `col:"duplicate"`
	RedirectURL     string `col:"redirect_url"`       // canonical target of a redirect
	RetryAfter      Time   `col:"retry_after"`        // when the server wants to be asked again
	Error           string `col:"error"`              // detail for people
	WARCFilename    string `col:"warc_filename"`      // relative to the fetch store
	WARCOffset      int64  `col:"warc_record_offset"` // of the response record
	WARCLength      int64  `col:"warc_record_length"` // compressed
	FreshUntil      Time   `col:"fresh_until"`        // until when the reply says that it stays as it is (RFC 9111 section 4.2); 0: it does not say
	X               string `col:"x"`                  // as given: user columns
	Hops            uint8  `col:"hops"`
	Requisite       uint8  `col:"requisite,late"` // as given; of a robots.txt the value of the URL that it was fetched for
	Sitemap         uint8  `col:"sitemap,late"`   // as given; of a robots.txt the value of the URL that it was fetched for
	Body            []byte // decoded body, within a program only: no stream carries it
	Extra           Extra
}

// Values of Fetch.Role.
const (
	RolePage   = "page"
	RoleRobots = "robots"
	RoleAgain  = "again" // a page that a reply led back to, asked once more with the cookies that it has now: beside the batch
	RoleLogin  = "login" // a contact of a form login, or one with a reply that said that the session had ended: it is not archived
)

// RedirectError begins the Error of a redirect that leads to no URL of the crawl; the reason and a detail of package canon follow.
const RedirectError = "redirect: "

// RedirectWhy are these; "" where there is no such redirect.
func (f *Fetch) RedirectWhy() string {
	for part := range strings.SplitSeq(f.Error, "; ") {
		if why, found := strings.CutPrefix(part, RedirectError); found {
			return why
		}
	}
	return ""
}

// OfPage reports whether a row is of a page: one of the batch, or one that was asked again beside it.
func (f *Fetch) OfPage() bool { return f.Role == RolePage || f.Role == RoleAgain }

// Values of Fetch.Outcome. Each URL of a batch gets exactly one.
const (
	OutcomeFetched           = "fetched"            // a reply came; see Status
	OutcomeNotModified       = "not-modified"       // status 304 to the row's etag or last_modified: what the URL held before still holds
	OutcomeRobotsDenied      = "robots-denied"      // robots.txt forbids it
	OutcomeRobotsUnreachable = "robots-unreachable" // robots.txt could not be had; try later (RFC 9309 section 2.3.1.4)
	OutcomeDNS               = "dns-failed"         // no address
	OutcomeConnect           = "connect-failed"     // no connection, of the server's or the network's making
	OutcomeTLS               = "tls-failed"
	OutcomeTimeout           = "timeout"            // of what comes after connecting
	OutcomeDisconnect        = "disconnected"       // closed before a whole header came
	OutcomeProtocol          = "protocol-error"     // the reply is none of the scheme's protocol, or breaks a limit
	OutcomeAddress           = "address-refused"    // a setting: special-purpose address, not allowed by --allow-net
	OutcomePort              = "port-refused"       // a port that browsers refuse
	OutcomeDenied            = "denied"             // a setting: the operator's --deny
	OutcomeScheme            = "scheme-unsupported" // a setting: no protocol module for it; or the module cannot ask for this URL
	OutcomeParked            = "parked"             // not tried: the host asks to be left alone longer than --longest-wait; see RetryAfter
	OutcomeDeferred          = "deferred"           // not tried in this batch: deadline, budget, parked host; or this machine could not (package localfault)
)

// EndsLogin is the Error of OutcomeDenied of a URL that is not asked for as it might log out, as long as fetch.login is set.
const EndsLogin = "it might end the login of fetch.login"

// OutcomeRefused is the outcome of a URL that waited until a rule of the filter refused it. It is in no row: nothing was fetched.
const OutcomeRefused = "refused"

// WasColumn is the further column of url rows of URLs that are to be fetched again: the outcome that they had.
const WasColumn = "was"

// OutcomesOfSettings are the outcomes that the crawl's own settings cause: they change only when a user changes the settings.
var OutcomesOfSettings = [...]string{OutcomeAddress, OutcomeDenied, OutcomeScheme}

// OfSettings reports whether an outcome is one of OutcomesOfSettings.
func OfSettings(outcome string) bool { return slices.Contains(OutcomesOfSettings[:], outcome) }

// Outcomes are all that Fetch.Outcome can be.
var Outcomes = []string{
	OutcomeFetched, OutcomeNotModified, OutcomeRobotsDenied, OutcomeRobotsUnreachable, OutcomeDNS, OutcomeConnect, OutcomeTLS, OutcomeTimeout, OutcomeDisconnect,
	OutcomeProtocol, OutcomeAddress, OutcomePort, OutcomeDenied, OutcomeScheme, OutcomeParked, OutcomeDeferred,
}

// Link is a row of kind "link": one link of one page, already canonical.
type Link struct {
	SrcURL     string  `col:"src_url"`
	SrcKey     uint64  `col:"src_key"`
	URL        string  `col:"url,required"`
	Key        uint64  `col:"url_key,required"`
	Host       string  `col:"host,required"`
	LinkKind   string  `col:"link_kind"` // "a", "img", "frame", "redirect", "sitemap", …
	Nofollow   bool    `col:"nofollow"`
	Text       string  `col:"text"`
	Depth      uint16  `col:"depth"`          // of the target: the source's + 1 (redirects of all kinds keep the source's)
	Score      float32 `col:"score"`          // of the source; with a model of topics (mextract --model) how likely the target is relevant
	Discovered Time    `col:"discovered"`     // fetch_time of the source
	Hops       uint8   `col:"hops"`           // of the target: the source's + 1 for a redirect, 0 for a link
	Requisite  uint8   `col:"requisite,late"` // the target is a part of a page, as in url rows
	Sitemap    uint8   `col:"sitemap,late"`   // the target is named as a sitemap, as in url rows
	Extra      Extra
}

// Module is a row of kind "module": one finding of a processing module.
type Module struct {
	URL    string `col:"url"`
	Key    uint64 `col:"url_key,required"`
	Module string `col:"module,required"`
	Name   string `col:"key,required"`
	Value  string `col:"value,required"`
	Extra  Extra
}
