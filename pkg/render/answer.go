package render

import (
	"cmp"
	"context"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"

	"mercator/formats/record"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/filter"
	"mercator/pkg/web/linkkind"
)

// asked is a request of a page, as its record has it.
type asked struct {
	Status int    `json:"status"` // 0: it failed
	MIME   string `json:"mime,omitempty"`
	Type   string `json:"type,omitempty"`
	Said   string `json:"answer"`
}

// answerer answers the requests of one page.
type answerer struct {
	*session
	ctx   context.Context
	r     *rendered
	row   record.Fetch
	links map[uint64]bool // keys of what was asked for and is missing
	err   error           // damage: what was rendered is of no use
}

// answer is a Page's Answer.
func (a *answerer) answer(q *Request) Answer {
	said, reply, err := a.find(q)
	if err != nil && a.err == nil {
		a.err = err
	}
	a.r.answers[said]++
	mime, _, _ := strings.Cut(reply.Header.Get("Content-Type"), ";")
	a.r.asked[q.URL] = asked{reply.Status, strings.TrimSpace(mime), strings.ToLower(q.Type), said}
	return reply
}

func (a *answerer) find(q *Request) (said string, reply Answer, err error) {
	url, host, err := a.Links.Canon.URL(q.URL)
	if err != nil || !strings.HasPrefix(url, "http") {
		return unsupported, reply, nil
	}
	key := a.Links.Canon.URLKey(host, url)
	switch {
	case q.Method == http.MethodOptions && q.Origin != "": // a preflight: the reply itself says who may read it
		return answered, Answer{Status: http.StatusNoContent, Header: http.Header{"Access-Control-Allow-Origin": {q.Origin}, "Access-Control-Allow-Credentials": {"true"},
			"Access-Control-Allow-Methods": {"GET, HEAD, POST, PUT, PATCH, DELETE"}, "Access-Control-Allow-Headers": {q.Wanted}}}, nil
	case q.Method != http.MethodGet && q.Method != http.MethodHead, slices.Contains([]string{"Ping", "CSPViolationReport", "Prefetch", "Preflight"}, q.Type):
		return notGET, reply, nil
	}
	part, found, err := Part{}, true, error(nil)
	if key == a.row.Key && !q.Away {
		part = partOf(&a.row)
	} else if part, found, err = a.state.find(key); err != nil {
		return notFetched, reply, err
	}
	switch {
	case q.Away:
		ok, err := a.link(url, host, key, otherPage)
		if !ok || err != nil {
			return refused, reply, err
		}
		return otherPage, reply, nil
	case found && part.Status == 0, !found && q.Type == "Other" && strings.HasSuffix(url, "/favicon.ico"): // which the browser asks for by itself
		return notFetched, reply, nil
	case !found:
		ok, err := a.link(url, host, key, cmp.Or(kinds[q.Type], linkkind.Requested))
		if !ok || err != nil {
			return refused, reply, err
		}
		if (a.Page.Screenshot || !slices.Contains(looks, q.Type)) && len(a.r.missing) < maxMissing && !slices.Contains(a.r.missing, partKey(key)) {
			a.r.missing = append(a.r.missing, partKey(key))
		}
		return missing, reply, nil
	}
	row := part.row(url, key)
	reply.Status, reply.Header = int(part.Status), http.Header{}
	if row.BodyLength <= 0 {
		row.Outcome = record.OutcomeNotModified // its header is to be had all the same
		h, err := a.docs.Header(&row)
		if err != nil {
			return notFetched, Answer{}, err
		}
		reply.Header = headerFor(h)
	} else if doc, err := a.docs.Read(&row); err != nil {
		return notFetched, Answer{}, err
	} else if doc != nil {
		reply.Header, reply.Body = headerFor(doc.Header), doc.Body
	}
	if q.Method == http.MethodHead {
		reply.Body = nil
	}
	if _, asks, _ := canon.Split(q.Origin + "/"); q.Origin != "" && canon.RegisteredDomain(asks) == canon.RegisteredDomain(host) { // we asked without an origin, so the server may not have named this one
		reply.Header["Access-Control-Allow-Origin"], reply.Header["Access-Control-Allow-Credentials"] = []string{q.Origin}, []string{"true"}
	}
	return answered, reply, nil
}

// headerFor is a header without what is of the connection, of a coding that is undone, or of state: the page has none of the crawl's cookies.
func headerFor(h http.Header) http.Header {
	out := http.Header{}
	maps.Copy(out, h)
	for _, name := range []string{"Connection", "Keep-Alive", "Transfer-Encoding", "Content-Encoding", "Content-Length", "Set-Cookie", "Set-Cookie2", "Strict-Transport-Security", "Alt-Svc", "Trailer", "Content-Disposition"} {
		delete(out, name)
	}
	return out
}

// kinds are the kinds of links to what a page asks for, by type, but for linkkind.Requested.
var kinds = map[string]string{"Document": linkkind.Iframe, "Stylesheet": linkkind.LinkStylesheet}

// looks are the types of parts that only a picture of the page needs.
var looks = []string{"Image", "Media", "Font", "Stylesheet", "TextTrack", "Manifest"}

// link makes a link of a page, if the filter lets it.
func (a *answerer) link(url, host string, key uint64, kind string) (ok bool, err error) {
	depth := a.row.Depth + min(1, math.MaxUint16-a.row.Depth)
	requisite := linkkind.Requisite(kind, 0)
	if a.judge != nil {
		as := kind
		if kind == otherPage {
			as = linkkind.Rendered
		}
		v, err := judged(a.ctx, a.judge, filter.Candidate{URL: url, Host: host, Depth: depth, Kind: as, From: a.row.Host, Via: a.row.URL, Requisite: requisite > 0})
		if err != nil {
			return false, err
		}
		if !v.Allow {
			a.r.refused[v.Reason()]++
			return false, nil
		}
	}
	if !a.links[key] {
		a.links[key] = true
		a.r.links = append(a.r.links, record.Link{SrcURL: a.row.URL, SrcKey: a.row.Key, URL: url, Key: key, Host: host, LinkKind: kind, Depth: depth, Score: a.row.Score,
			Discovered: a.row.FetchTime, Requisite: requisite})
	}
	return true, nil
}

func judged(ctx context.Context, j *filter.Judge, c filter.Candidate) (filter.Verdict, error) {
	v := make([]filter.Verdict, 1)
	err := j.URLs(ctx, []filter.Candidate{c}, v)
	return v[0], err
}
