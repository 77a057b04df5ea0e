package fetch

import (
	"bytes"
	"container/list"
	"strings"
	"time"

	"golang.org/x/net/html"

	"mercator/formats/record"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/fetch/cookies"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/markup"
)

// A site may let nobody in without a cookie that it sets on the way: a page redirects to itself, or to another that sets the
// cookie and leads back. The URL that it leads back to is known, and nobody would ask for it again. So the runner remembers
// which URLs led elsewhere on their site, and with which cookies they were asked. A reply that leads to one of them has it asked again, at
// once, if it would be sent other cookies now. Such a contact is a row of role RoleAgain, beside the page's row of the batch.
//
//   - Nothing is asked that no batch had: settings, filter and robots.txt allow it.
//   - One row of the batch causes at most againMax contacts.
//   - A reload by the document, as pages of news have it, does so only where a cookie of another name came.
//   - What a batch cannot ask any more, the next does: see file cookies of SPEC.md.
const againMax = 10

// Bounds of a ledTable.
const (
	ledMax   = 1 << 14 // URLs
	ledBytes = 8 << 20 // bytes of all URLs
	ledURL   = 8 << 10 // bytes of one URL; a longer one is not remembered
	ledCost  = 256     // bytes that a URL counts besides its text
)

// asked are checksums of the cookies that a request was sent with, and of their names; 0: none.
type asked struct{ line, names uint64 }

// led is a URL that led elsewhere on its site.
type led struct {
	row record.URL
	asked
	due     int  // number, in its chain, of the contact due; 0: none
	tried   bool // the contact failed in this batch, and the next makes it again
	foreign bool // another shard keeps it
}

func (e *led) cost() int { return ledCost + len(e.row.URL) + len(e.row.Via) + len(e.row.X) }

// ledTable holds the URLs that led elsewhere, and forgets the oldest first. runner.mu guards it.
type ledTable struct {
	urls  map[string]*list.Element
	order list.List // of *led, newest first
	size  int
	dirty bool
	live  bool // hosts may be given work
}

func (t *ledTable) get(url string) *led {
	if e := t.urls[url]; e != nil {
		return e.Value.(*led)
	}
	return nil
}

func (t *ledTable) forget(url string) {
	if e := t.urls[url]; e != nil {
		t.size -= t.order.Remove(e).(*led).cost()
		delete(t.urls, url)
		t.dirty = true
	}
}

func (t *ledTable) put(e *led) {
	t.forget(e.row.URL)
	if e.cost() > ledURL {
		return
	}
	t.dirty = true
	t.urls[e.row.URL] = t.order.PushFront(e)
	for t.size += e.cost(); t.size > ledBytes || len(t.urls) > ledMax; {
		t.forget(t.order.Back().Value.(*led).row.URL)
	}
}

// cookiesSent returns the checksums of the cookies that a request for a URL would be sent with now.
func (r *runner) cookiesSent(url string) (a asked) {
	if r.opt.Cookies == nil {
		return a
	}
	t, now := cookies.TargetOf(url), r.opt.Now()
	if line := r.opt.Cookies.Line(t, now); line != "" {
		a.line = fingerprint.OfString(line)
		a.names = fingerprint.OfString(r.opt.Cookies.Names(t, now))
	}
	return a
}

// noteRedirect remembers where the reply to row leads, and asks for that URL again if other cookies let it in now. number is the contact's in its
// chain, a what it was sent with, and reload the URL that its document loads next.
func (r *runner) noteRedirect(row *record.URL, page *record.Fetch, a asked, reload string, number int) {
	if r.opt.Cookies == nil || page.Outcome != record.OutcomeFetched {
		return
	}
	to := page.RedirectURL
	if to == "" {
		to = reload
	}
	var now asked
	if to != "" {
		now = r.cookiesSent(to)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if to == "" || siteOf(to) != siteOf(row.URL) {
		r.led.forget(row.URL)
		return
	}
	kept := *row
	kept.Attempt, kept.Due, kept.AddrError, kept.ETag, kept.LastModified, kept.LastContentFP, kept.Extra = 0, 0, "", "", "", 0, record.Extra{}
	r.led.put(&led{row: kept, asked: a})
	e := r.led.get(to)
	if e == nil || e.due > 0 || number >= againMax || now.line == 0 || now.line == e.line || page.RedirectURL == "" && now.names == e.names {
		return
	}
	if e.row.Host == row.Host && e.row.Addr == "" {
		e.row.Addr, e.row.AddrExpires = row.Addr, row.AddrExpires
	}
	e.due, e.foreign = number+1, false
	r.led.dirty = true
	if r.led.live {
		r.askAgain(e)
	}
}

func siteOf(url string) string { return cookies.Site(cookies.TargetOf(url).Name) }

// askAgain queues a URL that is due at its host. r.mu is held.
func (r *runner) askAgain(e *led) {
	now := r.now()
	h := r.s.host(e.row.Host, now)
	h.again = append(h.again, e)
	r.s.schedule(h, now)
	r.stir()
}

// askDue queues the URLs that an earlier batch, or an earlier run of this one, left due.
func (r *runner) askDue() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.led.live = true
	for e := r.led.order.Back(); e != nil; e = e.Prev() {
		if e := e.Value.(*led); e.due > 0 && !e.tried {
			r.askAgain(e)
		}
	}
}

// askedAgain takes a URL off the queue of its host, and returns the number of its contact in the chain.
func (r *runner) askedAgain(h *host, e *led, outcome string) (number int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.again = h.again[1:]
	return r.endAgain(e, outcome)
}

// endAgain notes the outcome of a URL that was due. If it was put off or failed, the next batch asks for it; a failure counts as a contact of the
// chain. r.mu is held.
func (r *runner) endAgain(e *led, outcome string) (number int) {
	number = e.due
	switch {
	case outcome == record.OutcomeDeferred, outcome == record.OutcomeParked:
		return number
	case number < againMax && (failed(outcome) || outcome == record.OutcomeDNS || outcome == record.OutcomeRobotsUnreachable):
		e.due, e.tried = number+1, true
	default:
		e.due = 0
	}
	r.led.dirty = true
	return number
}

// reloadMax is how much of a document is searched for where it leads.
const reloadMax = 16 << 10

// reloadOf is the URL that a document of status 2xx loads next by itself: by the header field Refresh, or the meta element that
// stands for it; "": none. body is its beginning.
func reloadOf(row *record.Fetch, header string, body []byte, form canon.Options) string {
	if row.Status/100 != 2 || row.RedirectURL != "" {
		return ""
	}
	ref, ok := markup.Refresh(header)
	if !ok && (row.MIME == "text/html" || row.MIME == "application/xhtml+xml" || row.MIME == "") {
		ref, ok = metaRefresh(body[:min(len(body), reloadMax)])
	}
	if !ok {
		return ""
	}
	if ref == "" {
		return row.URL
	}
	url, _, err := form.Resolve(row.URL, ref)
	if err != nil {
		return ""
	}
	return url
}

// metaRefresh finds the first meta refresh of a document.
func metaRefresh(body []byte) (ref string, ok bool) {
	if !mayRefresh(body) {
		return "", false
	}
	in := html.NewTokenizer(bytes.NewReader(body))
	for {
		switch in.Next() {
		case html.ErrorToken:
			return "", false
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := in.TagName()
			if string(name) != "meta" {
				continue
			}
			equiv, content := "", ""
			for more {
				var key, value []byte
				key, value, more = in.TagAttr()
				switch string(key) {
				case "http-equiv":
					equiv = string(value)
				case "content":
					content = string(value)
				}
			}
			if strings.EqualFold(strings.TrimSpace(equiv), "refresh") {
				if ref, ok = markup.Refresh(content); ok {
					return ref, true
				}
			}
		}
	}
}

// mayRefresh reports whether a meta element speaks of a refresh, at the cost of little for documents where none does.
func mayRefresh(body []byte) bool {
	for {
		i := bytes.IndexByte(body, '<')
		if i < 0 || len(body) < i+5 {
			return false
		}
		if body = body[i+1:]; body[0]|0x20 != 'm' || !bytes.EqualFold(body[:4], []byte("meta")) {
			continue
		}
		tag, _, _ := bytes.Cut(body, []byte(">"))
		if bytes.Contains(bytes.ToLower(tag[:min(len(tag), 1<<10)]), []byte("refresh")) {
			return true
		}
	}
}

// recallReply repeats what a contact of an earlier run of the batch did to the cookies and to the URLs that led elsewhere. in is the row of the batch, if it has one.
func (r *runner) recallReply(g *Group, in *record.URL) error {
	if r.opt.Cookies == nil {
		return nil
	}
	number := 0
	if g.Row.Role == record.RoleAgain {
		u := g.Row.ToURL()
		in = &u
		r.mu.Lock()
		if e := r.led.get(g.Row.URL); e != nil {
			number = r.endAgain(e, g.Row.Outcome)
		}
		r.mu.Unlock()
	}
	if g.Row.WARCLength == 0 || g.document {
		return nil
	}
	f, err := r.opt.Store.OpenFile(g.Row.WARCFilename)
	if err != nil {
		return err
	}
	defer f.Close()
	g.file = f
	a := r.cookiesSent(g.Row.URL)
	head, err := g.head()
	if err != nil || head == nil {
		return err
	}
	t := cookies.TargetOf(g.Row.URL)
	refresh := ""
	for _, f := range head.Fields {
		switch {
		case strings.EqualFold(f.Name, "Set-Cookie"):
			r.opt.Cookies.Keep(t, f.Value, time.UnixMicro(ended(&g.Row)))
		case refresh == "" && strings.EqualFold(f.Name, "Refresh"):
			refresh = f.Value
		}
	}
	if g.Row.Role == record.RoleRobots {
		return nil
	}
	var body []byte
	if g.Row.Status/100 == 2 && g.Row.BodyLength > 0 && g.whole {
		if body, err = g.Body(min(g.Row.BodyLength, reloadMax)); err != nil {
			return err
		}
	}
	r.noteRedirect(in, &g.Row, a, reloadOf(&g.Row, refresh, body, r.opt.Canon), number)
	return nil
}
