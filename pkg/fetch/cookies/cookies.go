// Package cookies is the jar of a crawl: which cookies servers have set, and which a request is sent with (RFC 6265bis:
// draft-ietf-httpbis-rfc6265bis, the successor of RFC 6265).
//
// # Invariants
//
//   - A cookie goes to the host that set it, or, with a Domain attribute, to the hosts of that domain. A public suffix
//     is no domain of anybody's: package publicsuffix has the list.
//   - A cookie, a host's, a site's and all cookies together have bounds; a site is a registered domain with its hosts. The
//     cookies set longest ago go first, and the sites that were contacted longest ago.
//   - No control character comes in, so that none goes out.
//
// net/http/cookiejar does not serve: it has no bounds, and its cookies cannot be read out to be saved.
package cookies

import (
	"cmp"
	"container/list"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/publicsuffix"

	"mercator/pkg/web/canon"
)

// Bounds of a Jar.
const (
	cookieMax    = 4 << 10              // bytes of a cookie's name and value (section 5.6)
	attributeMax = 1 << 10              // bytes of an attribute; a longer one is ignored
	domainMax    = 50                   // cookies of a host or a domain
	domainBytes  = 16 << 10             // bytes of the cookies of a host or a domain
	siteMax      = 150                  // cookies of a site
	siteBytes    = 64 << 10             // bytes of the cookies of a site
	jarMax       = 8 << 20              // bytes of all cookies
	lineMax      = 8190                 // bytes of the header field Cookie: many servers refuse more
	cookieCost   = 128                  // bytes that a cookie counts besides its text
	keepMax      = 400 * 24 * time.Hour // longest life of a cookie
)

// Cookie is a cookie as a server has set it.
type Cookie struct {
	Domain   string // the host that set it, or the domain that it is for
	HostOnly bool   // the cookie is for that host alone
	Path     string
	Name     string // may be ""
	Value    string
	Secure   bool
	Foreign  bool      // another shard has set it, and keeps it
	Set      time.Time // when it got this value
	Expires  time.Time // zero: with the crawl
}

func (c *Cookie) cost() int {
	return cookieCost + len(c.Domain) + len(c.Path) + len(c.Name) + len(c.Value)
}

func (c *Cookie) over(now time.Time) bool { return !c.Expires.IsZero() && !c.Expires.After(now) }

func (c *Cookie) same(o *Cookie) bool {
	return c.Name == o.Name && c.Domain == o.Domain && c.HostOnly == o.HostOnly && c.Path == o.Path
}

// Target is the target of a request.
type Target struct {
	Secure bool   // by https
	Name   string // of the host, in lower case, without port and brackets
	Path   string // with or without its query
}

// TargetOf takes a canonical URL apart.
func TargetOf(url string) Target {
	scheme, host, path := canon.Split(url)
	name, _ := canon.SplitPort(host)
	return Target{scheme == "https", strings.Trim(name, "[]"), path}
}

func (t *Target) path() string {
	path, _, _ := strings.Cut(t.Path, "?")
	return path
}

// folder is the default path of a cookie (section 5.1.4).
func (t *Target) folder() string {
	path := t.path()
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}

// Jar keeps cookies. Safe for many goroutines.
type Jar struct {
	mu    sync.Mutex
	sites map[string]*list.Element
	order list.List // of *site, contacted last first
	size  int
	dirty bool
	out   bool // a bound put a cookie out
}

// Bounds describes the limits of a Jar, for people.
var Bounds = fmt.Sprintf("at most %d of a host (%d KiB), %d of a registered domain (%d KiB), %d MiB in all", domainMax, domainBytes>>10, siteMax, siteBytes>>10, jarMax>>20)

type site struct {
	name string
	list []Cookie // in order of creation
	size int
}

// New returns an empty Jar.
func New() *Jar { return &Jar{sites: map[string]*list.Element{}} }

// Site is the site of a host name without port and brackets: its registered domain.
func Site(name string) string {
	if isAddr(name) {
		return name
	}
	return canon.RegisteredDomain(name)
}

func isAddr(name string) bool {
	if strings.IndexByte(name, ':') < 0 && (name == "" || name[len(name)-1] > '9') {
		return false
	}
	_, err := netip.ParseAddr(name)
	return err == nil
}

// Keep takes in a header field Set-Cookie of a reply.
func (j *Jar) Keep(t Target, field string, now time.Time) {
	c, ok := parse(field, now)
	if !ok || !c.allowed(&t) {
		return
	}
	if c.Path == "" {
		c.Path = t.folder()
	}
	c.Set = now
	// What is kept must not hold on to the whole head.
	kept := Cookie{strings.Clone(c.Domain), c.HostOnly, strings.Clone(c.Path), strings.Clone(c.Name), strings.Clone(c.Value), c.Secure, false, c.Set, c.Expires}
	j.mu.Lock()
	defer j.mu.Unlock()
	if s := j.sites[Site(t.Name)]; s != nil && !t.Secure && s.Value.(*site).shields(&kept, now) {
		return
	}
	j.set(Site(t.Name), kept, now)
	j.dirty = true
}

// allowed reports whether a server may set the cookie, and sets Domain and HostOnly.
func (c *Cookie) allowed(t *Target) bool {
	switch addr := isAddr(t.Name); {
	case c.Domain == "" || c.Domain == t.Name:
		suffix, _ := publicsuffix.PublicSuffix(t.Name)
		c.HostOnly = c.Domain == "" || addr || suffix == t.Name
		c.Domain = t.Name
	case addr || !strings.HasSuffix(t.Name, "."+c.Domain):
		return false
	default:
		if suffix, _ := publicsuffix.PublicSuffix(c.Domain); suffix == c.Domain {
			return false
		}
	}
	name := c.Name
	if name == "" { // a server takes the value for both
		if hasPrefix(c.Value, "__secure-") || hasPrefix(c.Value, "__host-") {
			return false
		}
	}
	switch {
	case c.Secure && !t.Secure, hasPrefix(name, "__secure-") && !c.Secure:
		return false
	case hasPrefix(name, "__host-"):
		return c.Secure && c.HostOnly && c.Path == "/"
	}
	return true
}

func hasPrefix(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// shields reports whether there is a Secure cookie that one which came over http would stand before or replace (section 5.7, step 16).
func (s *site) shields(c *Cookie, now time.Time) bool {
	return slices.ContainsFunc(s.list, func(o Cookie) bool {
		return o.Secure && o.Name == c.Name && !o.over(now) && (matches(o.Domain, c.Domain) || matches(c.Domain, o.Domain)) && covers(o.Path, c.Path)
	})
}

// matches is the domain-match of section 5.1.3.
func matches(name, domain string) bool {
	return name == domain || strings.HasSuffix(name, "."+domain) && !isAddr(name)
}

// covers is the path-match of section 5.1.4.
func covers(folder, path string) bool {
	rest, ok := strings.CutPrefix(path, folder)
	return ok && (rest == "" || strings.HasSuffix(folder, "/") || rest[0] == '/')
}

// set stores a cookie in place of an earlier one of its name, or deletes that if the new one has expired.
func (j *Jar) set(name string, c Cookie, now time.Time) {
	e := j.sites[name]
	if e == nil {
		if c.over(now) {
			return
		}
		e = j.order.PushFront(&site{name: strings.Clone(name)})
		j.sites[e.Value.(*site).name] = e
	}
	s := e.Value.(*site)
	j.size -= s.size
	s.list = slices.DeleteFunc(s.list, func(o Cookie) bool { return o.over(now) && !o.same(&c) })
	switch i := slices.IndexFunc(s.list, func(o Cookie) bool { return o.same(&c) }); {
	case i >= 0 && c.over(now):
		s.list = slices.Delete(s.list, i, i+1)
	case i >= 0:
		s.list[i] = c
	case !c.over(now):
		s.list = append(s.list, c)
		n := len(s.list)
		s.evict(func(o *Cookie) bool { return o.Domain == c.Domain }, domainMax, domainBytes)
		s.evict(func(*Cookie) bool { return true }, siteMax, siteBytes)
		j.out = j.out || len(s.list) < n
	}
	s.size = cookieCost + len(s.name)
	for i := range s.list {
		s.size += s.list[i].cost()
	}
	j.size += s.size
	if len(s.list) == 0 {
		j.drop(e)
	}
	for j.size > jarMax {
		j.out = true
		j.drop(j.order.Back())
	}
}

// evict deletes the cookies set longest ago, of those that are meant, until these keep the bounds.
func (s *site) evict(meant func(*Cookie) bool, count, size int) {
	for {
		n, bytes, oldest := 0, 0, -1
		for i := range s.list {
			c := &s.list[i]
			if !meant(c) {
				continue
			}
			n++
			bytes += c.cost()
			if oldest < 0 || c.Set.Before(s.list[oldest].Set) {
				oldest = i
			}
		}
		if n <= count && bytes <= size {
			return
		}
		s.list = slices.Delete(s.list, oldest, oldest+1)
	}
}

func (j *Jar) drop(e *list.Element) {
	s := j.order.Remove(e).(*site)
	delete(j.sites, s.name)
	j.size -= s.size
}

// Line returns the value of a request's header field Cookie; "": there is no cookie to send. Cookies of longer paths come first,
// else in the order in which they came (section 5.8.3). What would make it too long is left out, and what has one of the names without.
func (j *Jar) Line(t Target, now time.Time, without ...string) string {
	b := make([]byte, 0, 256)
	for _, c := range j.fitting(t, now) {
		if slices.Contains(without, c.Name) {
			continue
		}
		n := len(b)
		if n > 0 {
			b = append(b, "; "...)
		}
		if c.Name != "" {
			b = append(append(b, c.Name...), '=')
		}
		if b = append(b, c.Value...); len(b) > lineMax {
			b = b[:n]
		}
	}
	return string(b)
}

// Names are the names of the cookies of a request, in order.
func (j *Jar) Names(t Target, now time.Time) string {
	var names []string
	for _, c := range j.fitting(t, now) {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	return strings.Join(names, ";")
}

func (j *Jar) fitting(t Target, now time.Time) (fit []Cookie) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.sites) == 0 {
		return nil
	}
	e := j.sites[Site(t.Name)]
	if e == nil {
		return nil
	}
	j.order.MoveToFront(e)
	path := t.path()
	for _, c := range e.Value.(*site).list {
		if !c.over(now) && (!c.Secure || t.Secure) && (c.Domain == t.Name || !c.HostOnly && matches(t.Name, c.Domain)) && covers(c.Path, path) {
			fit = append(fit, c)
		}
	}
	slices.SortStableFunc(fit, func(a, b Cookie) int { return cmp.Compare(len(b.Path), len(a.Path)) })
	return fit
}

// Evicted reports whether a bound has put a cookie out.
func (j *Jar) Evicted() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.out
}

// Dirty reports whether Keep has taken in anything.
func (j *Jar) Dirty() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.dirty
}

// All returns the cookies that are neither expired nor foreign, by site in the order of their last contact, oldest first, and within a site by creation.
func (j *Jar) All(now time.Time) (all []Cookie) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for e := j.order.Back(); e != nil; e = e.Prev() {
		for _, c := range e.Value.(*site).list {
			if !c.over(now) && !c.Foreign {
				all = append(all, c)
			}
		}
	}
	return all
}

// Put takes in a cookie that All gave, unless there is the same with a newer value. It reports whether the cookie, or the newer one, is there now: one that has
// expired, or that no server could have set, is left out.
func (j *Jar) Put(c Cookie, now time.Time) bool {
	t := Target{true, c.Domain, "/"}
	check := c
	if c.HostOnly {
		check.Domain = ""
	}
	if len(c.Name)+len(c.Value) > cookieMax || len(c.Path) > attributeMax || !strings.HasPrefix(c.Path, "/") || strings.ContainsFunc(c.Name+c.Value+c.Path, control) ||
		!check.allowed(&t) || check.HostOnly != c.HostOnly || c.over(now) {
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	name := Site(c.Domain)
	if e := j.sites[name]; e != nil {
		list := e.Value.(*site).list
		if i := slices.IndexFunc(list, func(o Cookie) bool { return o.same(&c) }); i >= 0 && !list[i].Set.Before(c.Set) {
			return true
		}
	}
	j.set(name, c, now)
	return true
}
