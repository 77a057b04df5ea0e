package simweb

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/must"
)

func roughWeb(t *testing.T) *Web {
	c := Default
	c.Hosts, c.Pages, c.Rough = 30, 100, true
	return mustNew(t, c)
}

// What only rough webs have is what its URLs say, and 404 elsewhere.
func TestRoughResources(t *testing.T) {
	w, calm := roughWeb(t), mustNew(t, Config{Seed: 1, Hosts: 30, Pages: 100, Size: 256, Degree: 1})
	for _, c := range []struct {
		r      resource
		target string
	}{
		{resource{2, kindEndless, 0, endlessLocation}, "/endless/location/0"},
		{resource{12, kindEndless, 1 << 29, endlessField}, "/endless/field/536870912"},
		{resource{6, kindMenu, 0, 0}, "/menu/"},
		{resource{6, kindMenu, 1*49 + 2*7 + 6, 0}, "/menu/about/news/people/"},
		{resource{3, kindWall, 0, wallSelf}, "/wall/self/0"},
		{resource{13, kindWall, wallCheck, wallVia}, "/wall/via/4"},
	} {
		t.Run(c.target, func(t *testing.T) {
			if got := string(w.appendTarget(nil, c.r)); got != c.target {
				t.Errorf("its target is %s", got)
			}
			if got := w.resolve(c.r.host, c.target); got != c.r {
				t.Errorf("it is %v, want %v", got, c.r)
			}
			for _, other := range []struct {
				w    *Web
				host int32
			}{{calm, c.r.host}, {w, 1}, {w, 7}} {
				if got := other.w.resolve(other.host, c.target); got.kind != kindUnknown {
					t.Errorf("host %d has it, too: %v", other.host, got)
				}
			}
		})
	}
	for _, target := range []string{"/menu/about", "/menu//about/", "/menu/east/", "/menu/" + strings.Repeat("about/", menuDepth+1), "/wall/self/5", "/wall/none/0", "/endless/meta/00"} {
		for _, host := range []int32{2, 3, 6} {
			if got := w.resolve(host, target); got.kind != kindUnknown {
				t.Errorf("%s is %v", target, got)
			}
		}
	}
}

// Who keeps cookies gets behind each wall, and nobody else.
func TestWalls(t *testing.T) {
	w := roughWeb(t)
	for _, sort := range wallNames {
		t.Run(sort, func(t *testing.T) {
			target, cookie := "/wall/"+sort+"/0", ""
			for hop := 0; ; hop++ {
				p := w.Respond(nil, &Request{Method: "GET", Host: "h3.mweb.test", Target: target, Cookie: cookie})
				if p.Status == 200 && strings.Contains(string(p.Body), "/wall/"+sort+"/2") {
					if cookie == "" {
						t.Error("no cookie is needed")
					}
					return
				}
				if hop == 3 {
					t.Fatalf("%s: %d %s", target, p.Status, p.Body)
				}
				if p.Status == 302 {
					target = p.Location[strings.Index(p.Location, "/wall/"):]
				}
				if _, set, ok := strings.Cut(string(p.Fields), "Set-Cookie: "); ok {
					cookie, _, _ = strings.Cut(set, ";")
				}
			}
		})
	}
}

// The oracle ends menus and chains where a crawl does, and knows hosts that are dead at all addresses.
func TestRoughOracle(t *testing.T) {
	n, found := map[string]int{}, map[string]int{}
	for _, v := range roughWeb(t).Oracle() {
		_, rest, _ := strings.Cut(v.URL, ".test")
		for _, part := range []string{"/menu/", "/endless/", "/wall/"} {
			if strings.HasPrefix(rest, part) {
				n[part]++
			}
		}
		if strings.Contains(v.URL, "//h23.") {
			found[v.Outcome]++
		}
	}
	const k = 6 // names of a menu; three hosts have one, three have chains, two walls
	for part, want := range map[string]int{"/menu/": 3 * (1 + k + k*k + k*(k-1)), "/endless/": 3 * 3 * (mostHops + 1), "/wall/": 2 * (3*wallPages + 1)} {
		t.Run(part, func(t *testing.T) {
			if n[part] != want {
				t.Errorf("%d URLs of %s, want %d", n[part], part, want)
			}
		})
	}
	if len(found) != 1 || found[record.OutcomeRobotsUnreachable] == 0 {
		t.Errorf("outcomes of a dead host: %v", found)
	}
}

// Nobody serves at the dead addresses.
func TestDeadAddresses(t *testing.T) {
	w := roughWeb(t)
	if a := w.Lookup("h3.mweb.test"); a.String() != "127.0.0.3 127.0.0.2 ::1 127.0.0.4 127.1.0.4" {
		t.Errorf("h3: %s", a)
	}
	if a := w.Lookup("h13.mweb.test"); a.String() != "127.1.0.14 127.0.0.3 127.0.0.2 ::1 127.0.0.4" {
		t.Errorf("h13: %s", a)
	}
	for _, local := range closingAddrs {
		if p := w.Respond(nil, &Request{Method: "GET", Host: "h3.mweb.test", Target: "/robots.txt", Local: local}); p.Raw == nil || len(p.Raw) > 0 {
			t.Errorf("%s serves: %v", local, p)
		}
	}
	listeners, one, err := Listen(0, false, false)
	must.OK(t, err)
	defer listeners[0].Close()
	if one.IsValid() {
		return // no address is dead here
	}
	held, err := HoldDead(listeners[0])
	must.OK(t, err)
	defer held.Close()
	port := strconv.Itoa(Port(listeners[0]))
	for _, addr := range []netip.Addr{silentAddr, refusingAddr} {
		if c, err := net.DialTimeout("tcp", net.JoinHostPort(addr.String(), port), 100*time.Millisecond); err == nil {
			c.Close()
			t.Errorf("%s takes connections", addr)
		}
	}
	c, err := net.Dial("tcp", net.JoinHostPort(closingAddrs[0].String(), port))
	must.OK(t, err)
	c.Close()
	if l, err := net.Listen("tcp4", "0.0.0.0:"+port); err == nil {
		l.Close()
		t.Error("the port is shared")
	}
}
