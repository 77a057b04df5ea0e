package http1

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"golang.org/x/net/html"

	"mercator/formats/record"
	"mercator/pkg/fetch"
	"mercator/pkg/fetch/cookies"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/httpmsg"
)

// A form login is a few contacts with its origin, one after the other: a GET of the page with the form, a POST of the form, redirects, and the
// page of "check". Package fetch makes each as a contact of the host, and asks Logins what is next. Replies of such contacts go no
// further than this file: their bytes, their URLs and their cookies are in no Reply.

// Bounds of a form login.
const (
	formMax    = 1 << 20  // bytes of a page that are searched for the form
	inputsMax  = 1000     // fields of a form
	inputsSize = 64 << 10 // bytes of their names and values
	formHops   = 5        // redirects
	formTries  = 3        // logins in a batch
	formSteps  = 200      // times that a batch asks for the next step, without one that lets us in
)

// formLogin is the form of an origin, and how far the login is in this batch. Its session guards it.
type formLogin struct {
	origin string
	page   string // URL of the page with the form
	fields url.Values
	check  string // URL of a page that has status 200 and no form for who is logged in; "": there is none
	*session

	at       formStep
	next     formRequest
	form     *form // form sent
	hops     int
	tries    int    // logins begun
	steps    int    // times that Step was called since the last login
	why      string // why there is no further login in this batch
	last     string // why the last login ended early
	suspect  string // URL of the page with the reply that said that the session had ended
	mistaken int    // such replies that turned out to be the page's usual one
}

// session is the login state that lasts from batch to batch, within one process.
type session struct {
	mu      sync.Mutex
	jar     *cookies.Jar
	in      bool
	number  int    // of the login
	found   string // URL of the page that had the form
	refused string // why the server did not let us in
}

var sessions struct {
	sync.Mutex
	known map[[sha256.Size]byte]*session
}

// resume takes up the session that an earlier batch of this process had with the same lines of the same file.
func (f *formLogin) resume(path string) {
	key := sha256.Sum256([]byte(path + "\n" + f.page + "\n" + f.check + "\n" + f.fields.Encode()))
	sessions.Lock()
	defer sessions.Unlock()
	if sessions.known == nil {
		sessions.known = map[[sha256.Size]byte]*session{}
	}
	if sessions.known[key] == nil {
		sessions.known[key] = f.session
	}
	f.session = sessions.known[key]
}

type formStep int

const (
	atNothing formStep = iota
	atPage             // the page with the form
	atReply            // what the form is answered with
	atCheck            // the check after the form was sent
	atDoubt            // the check whether the session stands
)

type formRequest struct {
	method, url, body, referer string
}

// parseForm reads what follows "form": a path and fields.
func parseForm(origin, text string) (*formLogin, bool) {
	path, fields, _ := strings.Cut(strings.TrimSpace(text), " ")
	values, err := url.ParseQuery(strings.TrimSpace(fields))
	page, ok := pathOn(origin, path)
	return &formLogin{origin: origin, page: page, fields: values, session: &session{jar: cookies.New()}}, ok && err == nil && len(values) > 0 && len(values) <= inputsMax
}

// pathOn is the URL of a path of an origin.
func pathOn(origin, path string) (string, bool) {
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, " \t#") {
		return "", false
	}
	return onOrigin(origin, origin+"/", path)
}

// onOrigin resolves a reference, and reports whether it stays on the origin.
func onOrigin(origin, base, ref string) (string, bool) {
	u, _, err := canon.Options{}.Resolve(base, ref)
	return u, err == nil && originOf(u) == origin
}

func originOf(canonical string) string {
	scheme, host, _ := canon.Split(canonical)
	return scheme + "://" + host
}

// formOf is the form login of a URL's origin; nil: there is none.
func (l *Logins) formOf(url string) *formLogin {
	if l == nil {
		return nil
	}
	return l.of(originOf(url)).form
}

func (l *Logins) form(t *target) *formLogin { return l.of(t.scheme + "://" + t.host).form }

// Forms reports whether there is a form login.
func (l *Logins) Forms() bool { return len(l.forms()) > 0 }

func (l *Logins) forms() (all []*formLogin) {
	if l == nil {
		return nil
	}
	for _, who := range l.origins {
		if who.form != nil {
			all = append(all, who.form)
		}
	}
	return all
}

// jars are the cookies of the sessions.
func (l *Logins) jars() (all []*cookies.Jar) {
	if l != nil && l.cookies != nil {
		all = append(all, l.cookies)
	}
	for _, f := range l.forms() {
		f.mu.Lock()
		all = append(all, f.jar)
		f.mu.Unlock()
	}
	return all
}

// keepCookies takes in what the reply sets. Cookies of an origin with a form login, and those that replace one of its session, go into the session's jar, and
// semicolons stand for them in the reply: a server may renew a session with any page.
func (c *Client) keepCookies(x *exchange) {
	t, now := x.target.cookies(), c.now()
	var secret *cookies.Jar
	if f := c.Logins.form(&x.target); f != nil {
		f.mu.Lock()
		secret = f.jar
		f.mu.Unlock()
	} else if c.Logins.hasCookie(&x.target) {
		secret = cookies.New() // the line of the file is sent whatever the server sets
	} else {
		for _, jar := range c.Logins.jars() {
			names := strings.Split(jar.Names(t, now), ";")
			if slices.ContainsFunc(x.head.Fields, func(f httpmsg.Field) bool {
				name, _, _ := strings.Cut(f.Value, "=")
				return strings.EqualFold(f.Name, "Set-Cookie") && slices.Contains(names, strings.TrimSpace(name))
			}) {
				secret = jar
			}
		}
	}
	hidden := false
	for i := range x.head.Fields {
		f := &x.head.Fields[i]
		switch {
		case !strings.EqualFold(f.Name, "Set-Cookie"):
		case secret != nil:
			secret.Keep(t, f.Value, now)
			f.Value, hidden = "", true
		case c.Cookies != nil:
			c.Cookies.Keep(t, f.Value, now)
		}
	}
	if hidden {
		hideCookies(x.stream.Start()[:x.head.Size])
	}
}

// hideCookies writes over the values of Set-Cookie in a head: with what is no cookie and no end of a head.
func hideCookies(head []byte) {
	hide := false
	for line := range bytes.Lines(head) {
		if folded := line[0] == ' ' || line[0] == '\t'; !folded {
			name, _, ok := bytes.Cut(line, []byte(":"))
			if hide = ok && bytes.EqualFold(bytes.TrimSpace(name), []byte("Set-Cookie")); hide {
				line = line[len(name)+1:]
			}
		}
		if hide {
			for i := range bytes.TrimRight(line, "\r\n") {
				line[i] = ';'
			}
		}
	}
}

// current is the number of the session.
func (f *formLogin) current() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.number
}

// Step implements fetch.Logins.
func (l *Logins) Step(url string) (step, page, why string) {
	f := l.formOf(url)
	if f == nil {
		return "", "", ""
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.in:
		return "", f.page, ""
	case f.refused != "":
		return "", f.page, f.refused
	case f.why == "" && f.at == atNothing && f.tries == formTries:
		f.why = f.said(fmt.Sprintf("%d logins in one batch, the last: %s", f.tries, f.last))
	}
	if f.steps++; f.steps > formSteps && f.why == "" {
		f.why = f.said("it does not end")
	}
	if f.why != "" {
		return "", f.page, f.why
	}
	if f.at == atNothing {
		f.tries++
		f.jar, f.hops, f.form = cookies.New(), 0, nil
		f.at, f.next = atPage, formRequest{method: http.MethodGet, url: f.page}
	}
	return f.next.url, f.page, ""
}

// Failed implements fetch.Logins.
func (l *Logins) Failed(url, why string, final bool) {
	f := l.formOf(url)
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail(why, final)
}

// said is a reason with the page that it is about.
func (f *formLogin) said(why string) string { return "form at " + f.page + ": " + why }

// fail ends a login; unless that is final, the next may do.
func (f *formLogin) fail(why string, final bool) {
	f.at, f.last = atNothing, why
	if final {
		f.why = f.said(why)
	}
}

// enter makes the contact that the login of a URL's origin is at.
func (c *Client) enter(ctx context.Context, req *fetch.Request, conn *Conn) *fetch.Reply {
	f := c.Logins.formOf(req.URL)
	f.mu.Lock()
	next := f.next
	f.mu.Unlock()
	step := *req
	step.Method, step.URL, step.ETag, step.LastModified = next.method, next.url, "", ""
	x := c.send(ctx, &step, conn, &next)
	reply := &fetch.Reply{Outcome: x.Outcome, Error: x.Error, Forwarded: x.Forwarded, Unreached: x.Unreached, Wire: x.Wire, Err: x.Err, Session: x.Session}
	defer x.Close()
	if x.Outcome == record.OutcomeProtocol {
		reply.Error = "no reply that can be read" // its bytes may be secret
	}
	if x.Response == nil || ctx.Err() != nil {
		return reply
	}
	reply.Status = x.head.Status
	body, err := x.page()
	if err != nil {
		reply.Err = err
		return reply
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.took(x.head.Status, x.head.Get("Location"), next, body)
	return reply
}

// page is the beginning of the decoded body.
func (x *exchange) page() ([]byte, error) {
	if _, err := x.stream.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	m, err := httpmsg.Open(x.stream)
	if err != nil {
		return nil, nil // it has no form
	}
	b := httpmsg.NewBody(&m.Head, m.Payload, formMax)
	defer b.Close()
	body, err := io.ReadAll(io.LimitReader(b, formMax))
	if err != nil && b.Err() == nil {
		return nil, err
	}
	return body, nil
}

// took decides what follows a reply.
func (f *formLogin) took(status int, location string, asked formRequest, body []byte) {
	moved := status/100 == 3 && location != ""
	switch {
	case status == http.StatusTooManyRequests || status >= 500:
		f.fail(fmt.Sprintf("status %d", status), false)
		return
	case moved && (f.at == atPage || f.at == atReply):
		to, ok := onOrigin(f.origin, asked.url, location)
		switch {
		case !ok && f.at == atReply && f.check != "":
			f.at, f.next = atCheck, formRequest{method: http.MethodGet, url: f.check}
		case !ok:
			f.fail("it redirects to another server, "+elsewhere(asked.url, location), true)
		case f.hops == formHops:
			f.fail(fmt.Sprintf("more than %d redirects", formHops), true)
		default:
			f.hops++
			if f.next.url = to; status != http.StatusTemporaryRedirect && status != http.StatusPermanentRedirect {
				f.next = formRequest{method: http.MethodGet, url: to}
			}
		}
		return
	}
	switch f.at {
	case atPage:
		if status != http.StatusOK {
			f.fail(fmt.Sprintf("status %d", status), true)
			return
		}
		sent, err := findForm(body, f.fields)
		if err != nil {
			f.fail(err.Error(), true)
			return
		}
		base := asked.url
		if sent.base != "" {
			if u, _, err := (canon.Options{}).Resolve(base, sent.base); err == nil {
				base = u
			}
		}
		to, ok := onOrigin(f.origin, base, sent.action)
		if sent.action == "" {
			to, ok = asked.url, true
		}
		if !ok {
			f.fail("it is sent to another server, "+elsewhere(base, sent.action), true)
			return
		}
		f.form, f.found, f.hops = sent, asked.url, 0
		f.at, f.next = atReply, formRequest{http.MethodPost, to, sent.values.Encode(), asked.url}
	case atReply:
		switch {
		case status >= 400:
			f.refuse(fmt.Sprintf("status %d after it was sent: are name and password right?", status))
		case f.check != "":
			f.at, f.next = atCheck, formRequest{method: http.MethodGet, url: f.check}
		case f.form.in(body):
			f.refuse("it comes again after it was sent: are name and password right?")
		default:
			f.enter()
		}
	case atCheck, atDoubt:
		asks := status == http.StatusOK && (f.form != nil && f.form.in(body) || f.form == nil && hasForm(body, f.fields))
		switch {
		case status == http.StatusOK && !asks:
			f.enter()
		case f.at == atDoubt:
			f.fail("the session ended", false)
		case asks:
			f.refuse("the page of check has it after it was sent: are name and password right?")
		default:
			f.refuse(fmt.Sprintf("the page of check has status %d after it was sent: are name and password right?", status))
		}
	}
}

// elsewhere is the origin that a reference leads to.
func elsewhere(base, ref string) string {
	if u, _, err := (canon.Options{}).Resolve(base, ref); err == nil {
		return originOf(u)
	}
	return "which has no URL"
}

// refuse notes that the server did not let us in. Passwords are not tried again in this process: some servers lock an account for that.
func (f *formLogin) refuse(why string) {
	f.fail(why, true)
	f.refused = f.why
}

// enter begins a session.
func (f *formLogin) enter() {
	f.at, f.next, f.in, f.steps = atNothing, formRequest{}, true, 0
	f.number++
}

// ended reports whether the reply to a page says that the session is over, so that the page must be fetched again. number is the session
// of the request. If a page says so again after a login, or while the check says otherwise, it is the page's usual reply.
func (f *formLogin) ended(x *exchange, asked string, number int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if asked == f.page || asked == f.found || strings.HasSuffix(asked, "/robots.txt") && strings.Count(asked, "/") == 3 {
		return false
	}
	out := f.check != "" && (x.head.Status == http.StatusUnauthorized || x.head.Status == http.StatusForbidden)
	if x.head.Status/100 == 3 {
		to, ok := onOrigin(f.origin, asked, x.head.Get("Location"))
		out = ok && (leads(to, f.page) || leads(to, f.found))
	}
	switch {
	case !out && f.suspect == asked:
		f.suspect = ""
		return false
	case !out:
		return false
	case !f.in || number != f.number:
		return true
	case f.suspect == asked:
		f.suspect = ""
		f.mistaken++
		return false
	case f.check == "" && f.tries >= formTries && f.mistaken > 0:
		return false
	}
	f.suspect, f.in, f.last = asked, false, "the session ended"
	if f.check != "" {
		f.at, f.next = atDoubt, formRequest{method: http.MethodGet, url: f.check}
	}
	return true
}

// leads reports whether a URL leads to a page, with any more in its query.
func leads(to, page string) bool {
	rest, ok := strings.CutPrefix(to, page)
	return page != "" && ok && (rest == "" || rest[0] == '?' || rest[0] == '&' && strings.Contains(page, "?"))
}

// form is a form of a page, filled in.
type form struct {
	action, method string
	base           string // of the page's element base
	values         url.Values
	inputs         map[string]bool // names of its fields
	passwords      []string        // names of fields for passwords
	marks          []string        // names by which the form that was sent is known again
}

func (f *form) has(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !f.inputs[name] })
}

// in reports whether a page has the form again.
func (f *form) in(page []byte) bool {
	forms, _, _ := formsOf(page)
	return slices.ContainsFunc(forms, func(o *form) bool { return o.has(f.marks) })
}

// hasForm reports whether a page has the form that these fields are for.
func hasForm(page []byte, fields url.Values) bool {
	_, err := findForm(page, fields)
	return !errors.Is(err, errNoForm)
}

var errNoForm = errors.New("the page has no form with these fields, and none with a password")

// findForm finds the form that has all fields, or else the first with a password, and fills it in.
func findForm(page []byte, fields url.Values) (*form, error) {
	forms, base, err := formsOf(page)
	if err != nil {
		return nil, err
	}
	given := slices.Sorted(maps.Keys(fields))
	i := slices.IndexFunc(forms, func(f *form) bool { return f.has(given) })
	if i < 0 {
		i = slices.IndexFunc(forms, func(f *form) bool { return len(f.passwords) > 0 })
	}
	if i < 0 {
		return nil, errNoForm
	}
	f := forms[i]
	if !strings.EqualFold(f.method, http.MethodPost) {
		return nil, errors.New("the form is not sent by POST: its fields would be part of a URL")
	}
	f.base = base
	f.marks = append(slices.DeleteFunc(given, func(name string) bool { return !f.inputs[name] }), f.passwords...)
	for name, v := range fields {
		f.values[name] = v
	}
	return f, nil
}

// formsOf returns the forms of a page with their hidden values, and the address of its element base.
func formsOf(page []byte) (forms []*form, base string, err error) {
	in := html.NewTokenizer(bytes.NewReader(page))
	var f *form
	count, size := 0, 0
	for {
		switch in.Next() {
		case html.ErrorToken:
			return forms, base, nil
		case html.EndTagToken:
			if name, _ := in.TagName(); string(name) == "form" {
				f = nil
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			tag, more := in.TagName()
			name := string(tag)
			if name != "form" && name != "base" && (f == nil || name != "input" && name != "textarea" && name != "select" && name != "button") {
				continue
			}
			at := map[string]string{}
			for more {
				var key, value []byte
				key, value, more = in.TagAttr()
				if _, twice := at[string(key)]; !twice && len(at) < inputsMax {
					at[string(key)] = string(value)
				}
			}
			if name == "base" {
				if base == "" {
					base = at["href"]
				}
				continue
			}
			if count++; count > inputsMax {
				return forms, base, fmt.Errorf("the page has more than %d fields and forms", inputsMax)
			}
			if name == "form" {
				if f == nil {
					f = &form{action: strings.TrimSpace(at["action"]), method: at["method"], values: url.Values{}, inputs: map[string]bool{}}
					forms = append(forms, f)
				}
				continue
			}
			field, kind := at["name"], strings.ToLower(at["type"])
			if field == "" {
				continue
			}
			f.inputs[field] = true
			switch {
			case name == "input" && kind == "hidden":
				if size += len(field) + len(at["value"]); size > inputsSize {
					return forms, base, fmt.Errorf("the page has more than %d bytes of hidden fields", inputsSize)
				}
				f.values.Add(field, at["value"])
			case name == "input" && kind == "password":
				f.passwords = append(f.passwords, field)
			}
		}
	}
}
