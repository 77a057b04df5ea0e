package render

import (
	"context"
	"net/http"
	"time"
)

// Page is a page for a Browser to load, with its bounds.
type Page struct {
	URL        string
	Time       time.Time // time at which the page's clock begins
	Answer     func(*Request) Answer
	Wait       time.Duration // of the page's own time until it is taken; it passes as fast as there is nothing to do
	Timeout    time.Duration // of ours
	Requests   int           // at most
	Bytes      int64         // of answers, at most
	Document   int           // characters of the document after its scripts, and of its text, at most
	Scroll     int           // times that it is scrolled to its end, at most
	More       int           // clicks on what loads more, at most
	Screenshot bool
}

// Request is a request that a page makes. Answer gets one at a time.
type Request struct {
	URL    string
	Method string
	Type   string // of the DevTools protocol: Document, Script, XHR, Fetch, Image, …
	Origin string // origin of the document that asks, where it differs from the origin of the URL
	Wanted string // header fields that a preflight asks for
	Away   bool   // another document would take the place of the page: it stays
}

// Answer is the reply to a request. Without a Status the request fails.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Why a page was taken before it was done.
const (
	CutTime     = "time"
	CutRequests = "requests"
	CutBytes    = "bytes"
)

// Result is a page after its scripts.
type Result struct {
	HTML       string // with what stands in shadow roots, and in frames without a URL, behind it
	Text       string // as a reader sees it; the text of shadow roots and frames without a URL behind it
	Screenshot []byte // PNG; nil: none was asked for
	Cut        string // it was taken as it stood, for this reason; ""
	Requests   int
	Bytes      int64 // of answers
}

// Browser loads one page at a time. An error of Load says that it is of no use any more.
type Browser interface {
	Load(ctx context.Context, p Page) (Result, error)
	Peak() int64 // most memory that it was seen to take, in bytes
	Close() error
}
