package http1

import (
	"cmp"
	"container/list"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"mercator/pkg/httpmsg"
)

// Bounds of a Jar.
const (
	cookieMax      = 4 << 10  // bytes of a cookie,
	hostCookiesMax = 16 << 10 // of all cookies of a host,
	jarMax         = 8 << 20  // and of all hosts
	cookieCost     = 128      // that each counts besides its text
)

// Jar keeps cookies (RFC 6265), each for the host alone that set it: one with a
// Domain attribute is not sent to the domain's other hosts. When it is full, the
// hosts that were contacted longest ago are forgotten. Safe for many goroutines.
type Jar struct {
	mu    sync.Mutex
	hosts map[string]*list.Element
	order list.List // of *hostCookies, contacted last first
	size  int
}

type hostCookies struct {
	name string // without port
	list []cookie
	size int
}

type cookie struct {
	name, value, path string
	secure            bool
	expires           time.Time // zero: with the Jar
}

func (c *cookie) cost() int { return cookieCost + len(c.name) + len(c.value) + len(c.path) }

// NewJar returns an empty Jar.
func NewJar() *Jar { return &Jar{hosts: map[string]*list.Element{}} }

// keep takes in the cookies that a reply sets.
func (j *Jar) keep(t *target, h *httpmsg.Head, now time.Time) {
	for i := range h.Fields {
		if !strings.EqualFold(h.Fields[i].Name, "Set-Cookie") || len(h.Fields[i].Value) > cookieMax {
			continue
		}
		c, err := http.ParseSetCookie(h.Fields[i].Value)
		if err != nil || !may(c, t) {
			continue
		}
		// What is kept must not hold on to the whole head.
		kept := cookie{strings.Clone(c.Name), strings.Clone(c.Value), strings.Clone(c.Path), c.Secure, c.Expires}
		if !strings.HasPrefix(kept.path, "/") {
			kept.path = t.folder()
		}
		if c.MaxAge != 0 {
			kept.expires = now.Add(time.Duration(min(int64(c.MaxAge), 1<<31)) * time.Second)
		}
		j.mu.Lock()
		if t.scheme == "https" || !j.secure(t.name, kept.name, now) {
			j.set(t.name, kept, now)
		}
		j.mu.Unlock()
	}
}

// may says whether a server may set a cookie (RFC 6265 section 5.3, and the name
// prefixes of its successor).
func may(c *http.Cookie, t *target) bool {
	domain := strings.ToLower(strings.TrimPrefix(c.Domain, "."))
	switch {
	case domain != "" && domain != t.name && !strings.HasSuffix(t.name, "."+domain):
		return false
	case c.Secure && t.scheme != "https", strings.HasPrefix(c.Name, "__Secure-") && !c.Secure:
		return false
	case strings.HasPrefix(c.Name, "__Host-"):
		return c.Secure && c.Domain == "" && c.Path == "/"
	}
	return true
}

// folder is the default path of a cookie (section 5.1.4).
func (t *target) folder() string {
	path, _, _ := strings.Cut(t.path, "?")
	return strings.Clone(path[:max(strings.LastIndexByte(path, '/'), 1)])
}

// secure says whether a host has a Secure cookie of that name, which http may not
// replace (section 5.3 of RFC 6265's successor).
func (j *Jar) secure(host, name string, now time.Time) bool {
	e := j.hosts[host]
	return e != nil && slices.ContainsFunc(e.Value.(*hostCookies).list, func(c cookie) bool { return c.secure && c.name == name && !c.over(now) })
}

func (j *Jar) set(host string, c cookie, now time.Time) {
	e := j.hosts[host]
	if e == nil {
		e = j.order.PushFront(&hostCookies{name: strings.Clone(host)})
		j.hosts[e.Value.(*hostCookies).name] = e
	}
	h := e.Value.(*hostCookies)
	j.size -= h.size
	h.list = slices.DeleteFunc(h.list, func(old cookie) bool { return old.name == c.name && old.path == c.path || old.over(now) })
	if !c.over(now) {
		h.list = append(h.list, c)
	}
	h.size = cookieCost + len(h.name)
	for i := range h.list {
		h.size += h.list[i].cost()
	}
	for h.size > hostCookiesMax { // the oldest go
		h.size -= h.list[0].cost()
		h.list = slices.Delete(h.list, 0, 1)
	}
	j.size += h.size
	if len(h.list) == 0 {
		j.drop(e)
	}
	for j.size > jarMax {
		j.drop(j.order.Back())
	}
}

func (c *cookie) over(now time.Time) bool { return !c.expires.IsZero() && !c.expires.After(now) }

func (j *Jar) drop(e *list.Element) {
	h := j.order.Remove(e).(*hostCookies)
	delete(j.hosts, h.name)
	j.size -= h.size
}

// appendTo writes the header line Cookie, if there is something to send: cookies of
// longer paths first, else in the order in which they came (section 5.4).
func (j *Jar) appendTo(b []byte, t *target, now time.Time) []byte {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.hosts[t.name]
	if e == nil {
		return b
	}
	j.order.MoveToFront(e)
	path, _, _ := strings.Cut(t.path, "?")
	var fit []cookie
	for _, c := range e.Value.(*hostCookies).list {
		if !c.over(now) && (!c.secure || t.scheme == "https") && covers(c.path, path) {
			fit = append(fit, c)
		}
	}
	slices.SortStableFunc(fit, func(a, b cookie) int { return cmp.Compare(len(b.path), len(a.path)) })
	pairs := make([]string, len(fit))
	for i, c := range fit {
		pairs[i] = c.name + "=" + c.value
	}
	return appendField(b, "Cookie", strings.Join(pairs, "; "))
}

// covers is the path-match of section 5.1.4.
func covers(folder, path string) bool {
	rest, ok := strings.CutPrefix(path, folder)
	return ok && (rest == "" || strings.HasSuffix(folder, "/") || rest[0] == '/')
}
