package simweb

import (
	"bytes"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"mercator/formats/record"
)

// Positions in a block of what Config.Rough makes of hosts. Robots files are served as ever.
const (
	posEndless = 2 // has redirects without end
	posMany    = 3 // has further addresses, which are dead, and pages behind cookies; of three such hosts one is dead itself
	posDead    = 4 // closes connections without a byte; its root says nothing for roughSilence
	posLate    = 5 // replies after roughDelay
	posMenu    = 6 // has a menu with relative links on pages that answer under any path
	posHostile = 9 // sends what is no HTTP
)

const (
	roughDelay   = 200 * time.Millisecond
	roughSilence = 4 * time.Second
)

// rough is the outcome that a crawl has to give a URL of a rough host, or "".
func (w *Web) rough(r resource) string {
	switch {
	case !w.Rough:
	case position(r.host) == posDead && r.kind == kindPage && r.n == 0:
		return record.OutcomeTimeout
	case position(r.host) == posDead:
		return record.OutcomeDisconnect
	case position(r.host) == posHostile:
		return record.OutcomeProtocol
	case w.unreachable(r.host):
		return record.OutcomeRobotsUnreachable
	}
	return ""
}

// roughly returns the bytes that a rough host sends instead of a reply; never nil.
func roughly(r resource) []byte {
	if position(r.host) != posHostile {
		return []byte{}
	}
	switch r.n % 3 {
	case 0:
		return bytes.Repeat([]byte{0, 0xff, '\n'}, 1000)
	case 1: // a head without end
		return append([]byte("HTTP/1.1 200 OK\r\n"), bytes.Repeat([]byte("X-Field: and one more\r\n"), 100_000)...)
	}
	return []byte("HTTP/1.1 -200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n")
}

// roughDelayOf is how long a rough host takes.
func (w *Web) roughDelayOf(q *Request) time.Duration {
	host, ok := w.parseHost(q.Host)
	if !w.Rough || !ok || q.Target == "/robots.txt" || q.Target == robotsMovedTo {
		return 0
	}
	switch {
	case position(host) == posLate:
		return roughDelay
	case w.rough(w.resolve(host, q.Target)) == record.OutcomeTimeout:
		return roughSilence
	}
	return 0
}

// The dead addresses of hosts that have several.
var (
	silentAddr   = netip.AddrFrom4([4]byte{127, 0, 0, 2}) // see HoldDead
	closingAddrs = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 3}), netip.AddrFrom4([4]byte{127, 0, 0, 4})}
	refusingAddr = netip.IPv6Loopback()
	deadAddrs    = []netip.Addr{closingAddrs[0], silentAddr, refusingAddr, closingAddrs[1]}
)

// unreachable reports whether none of a host's addresses serves.
func (w *Web) unreachable(host int32) bool {
	return w.Rough && position(host) == posMany && host/blockSize%3 == 2
}

const (
	mostHops  = 20 // redirects in a row that a crawl follows
	menuRoot  = "/menu/"
	menuDepth = 10 // folders of a path
	wallPages = 4
	wallCheck = wallPages // as n of wallVia: sets the cookie and leads to the entrance
)

// Sorts of redirects without end, by what leads on.
const (
	endlessLocation = iota
	endlessMeta
	endlessField
)

var endlessNames = [...]string{endlessLocation: "location", endlessMeta: "meta", endlessField: "field"}

// Sorts of walls, by what a request without the cookie gets. The cookie has the sort's name.
const (
	wallSelf   = iota // a redirect to itself that sets the cookie
	wallVia           // a redirect to a page that sets it and leads to the entrance
	wallReload        // a page that sets it and reloads itself
)

var wallNames = [...]string{wallSelf: "self", wallVia: "via", wallReload: "reload"}

// menuNames are the folders of a menu. A path is a number in base len(menuNames)+1. Each digit, the lowest for the last folder, stands for
// a name, from 1.
var menuNames = words[:6]

func variant(target string, names []string) int32 {
	for v, name := range names {
		if strings.Contains(target, "/"+name+"/") {
			return int32(v)
		}
	}
	return 0
}

func (w *Web) roughCount(pos int, k kind) int32 {
	switch {
	case !w.Rough:
	case k == kindEndless && pos == posEndless:
		return 1 << 30
	case k == kindMenu && pos == posMenu:
		n := int32(1)
		for range menuDepth {
			n *= int32(len(menuNames) + 1)
		}
		return n
	case k == kindWall && pos == posMany:
		return wallPages + 1
	}
	return 0
}

// menuPath is the names of a path.
func menuPath(n int32) (names []string) {
	for base := int32(len(menuNames) + 1); n > 0; n /= base {
		if n%base > 0 {
			names = append(names, menuNames[n%base-1])
		}
	}
	slices.Reverse(names)
	return names
}

func appendMenuPath(b []byte, n int32) []byte {
	for _, name := range menuPath(n) {
		b = append(append(b, name...), '/')
	}
	return b
}

// menuNumber is the reverse of appendMenuPath, behind menuRoot; 1<<31 - 1 for what is no such path.
func menuNumber(target string) int32 {
	n, depth := int32(0), 0
	for name := range strings.SplitSeq(strings.Trim(target[len(menuRoot):], "/"), "/") {
		i := slices.Index(menuNames, name)
		if name == "" {
			continue
		}
		if depth++; i < 0 || depth > menuDepth {
			return 1<<31 - 1
		}
		n = n*int32(len(menuNames)+1) + int32(i) + 1
	}
	return n
}

// appendRoughLinks appends where the document leads, whoever asks: the page before a wall and the one behind it.
func (w *Web) appendRoughLinks(links []link, r resource) []link {
	add := func(k kind, n int32) { links = append(links, link{to: resource{r.host, k, n, r.v}}) }
	switch {
	case r.kind == kindEndless:
		add(kindEndless, r.n+1)
	case r.kind == kindMenu:
		for i := range menuNames {
			if n := int64(r.n)*int64(len(menuNames)+1) + int64(i) + 1; n < int64(w.count(r.host, kindMenu)) {
				add(kindMenu, int32(n))
			}
		}
	case r.v == wallVia && r.n == wallCheck:
		add(kindWall, 0)
	case r.n == 0:
		for n := int32(1); n < wallPages; n++ {
			add(kindWall, n)
		}
		if r.v == wallVia {
			add(kindWall, wallCheck)
		}
	default:
		add(kindWall, 0)
	}
	return links
}

// roughEnd reports whether a crawl does not follow a link: redirect mostHops+1 in a row; and what rules against menus end. These
// deny links from a page to folders below it if the page links to two folders named as ones of its own path, and a path of fewer than six
// folders in which two repeat others.
func roughEnd(from, to resource) bool {
	if from.kind == kindEndless && to.kind == kindEndless {
		return to.n > mostHops
	}
	if from.kind != kindMenu || to.kind != kindMenu {
		return false
	}
	distinct := func(n int32) (all, different int) {
		names := menuPath(n)
		slices.Sort(names)
		return len(names), len(slices.Compact(names))
	}
	if _, different := distinct(from.n); different > 1 {
		return true
	}
	all, different := distinct(to.n)
	return all-different > 1
}

// roughStatus is the status of a resource for who has its cookie.
func roughStatus(r resource) int {
	if r.kind == kindEndless && r.v == endlessLocation || r.kind == kindWall && r.v == wallVia && r.n == wallCheck {
		return 302
	}
	return 200
}

// appendRoughPage appends a page of a menu or of an endless chain. No two have the same content.
func (w *Web) appendRoughPage(b []byte, r resource) []byte {
	b = append(b, "<html><head><title>"...)
	b = w.appendURL(b, r)
	b = append(b, "</title>"...)
	if r.kind == kindEndless && r.v == endlessMeta {
		b = append(b, "<meta http-equiv=refresh content=\"0; url="...)
		b = append(strconv.AppendInt(b, int64(r.n)+1, 10), "\">"...)
	}
	b = append(b, "</head><body>"...)
	for _, name := range menuNames {
		if r.kind == kindMenu {
			b = append(b, "<a href=\""+name+"/\">"+name+"</a> "...)
		}
	}
	return append(b, "</body></html>\n"...)
}

// gate is the reply of an endless chain, and of a wall to who has no cookie; or of none of these.
func (w *Web) gate(body []byte, r resource, q *Request) (p Response, ok bool) {
	p = Response{Status: 302, Type: "text/html"}
	sort := wallNames[r.v%int32(len(wallNames))]
	cookie := "Set-Cookie: " + sort + "=1; Path=/wall/" + sort + "/\r\n" // the redirects of the host are not to be asked again with it
	next := resource{r.host, r.kind, r.n + 1, r.v}
	switch {
	case r.kind == kindEndless && r.v == endlessLocation:
		p.Location = string(w.appendURL(nil, next))
	case r.kind == kindEndless && r.v == endlessField:
		p.Status, p.Body = 200, w.appendBody(body, r, 0)
		p.Fields = append(append([]byte("Refresh: 0; url="), w.appendTarget(nil, next)...), "\r\n"...)
	case r.kind != kindWall:
		return p, false
	case r.v == wallVia && r.n == wallCheck:
		p.Location, p.Fields = string(w.appendTarget(nil, resource{r.host, r.kind, 0, r.v})), []byte(cookie)
	case strings.Contains(q.Cookie, sort+"=1"):
		return p, false
	case r.v == wallSelf:
		p.Location, p.Fields = string(w.appendURL(nil, r)), []byte(cookie)
	case r.v == wallVia:
		p.Location = string(w.appendTarget(nil, resource{r.host, r.kind, wallCheck, r.v}))
	default:
		p.Status, p.Fields = 200, []byte(cookie)
		p.Body = append(body, "<html><head><meta http-equiv=refresh content=0></head><body>One moment.</body></html>\n"...)
	}
	p.Length = len(p.Body)
	if q.Method == "HEAD" {
		p.Body = nil
	}
	return p, true
}
