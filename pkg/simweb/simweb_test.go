package simweb

import (
	"errors"
	"math/rand"
	"net/url"
	"slices"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/web/canon"
)

var small = Config{Seed: 5, Hosts: 24, Pages: 400, Size: 512, Degree: 8, Port: 18080, Sitemaps: true}

// The same URL has the same bytes, whatever was asked before and of whom.
func TestPure(t *testing.T) {
	a, b := mustNew(t, small), mustNew(t, small)
	urls := a.Oracle()
	wire := func(w *Web, v Verdict) string {
		u, err := url.Parse(v.URL)
		must.OK(t, err)
		p := w.Respond(nil, &Request{Method: "GET", Host: u.Host, Target: u.RequestURI(), AcceptGzip: true})
		return string(p.AppendHTTP(nil, false, false, false))
	}
	first := map[string]string{}
	for _, v := range urls {
		first[v.URL] = wire(a, v)
	}
	rand.New(rand.NewSource(1)).Shuffle(len(urls), func(i, j int) { urls[i], urls[j] = urls[j], urls[i] })
	for _, v := range urls {
		if wire(b, v) != first[v.URL] {
			t.Errorf("%s: other bytes in another order", v.URL)
		}
	}
	other := small
	other.Seed++
	if slices.Equal(mustNew(t, other).Oracle(), a.Oracle()) {
		t.Error("another seed gives the same web")
	}
}

// What the oracle says of a URL is what a request for it gets.
func TestOracleAgreesWithReplies(t *testing.T) {
	for seed := range uint64(5) {
		cfg := small
		cfg.Seed = seed
		w := mustNew(t, cfg)
		verdicts := w.Oracle()
		kinds := map[string]int{}
		for i, v := range verdicts {
			kinds[v.Outcome]++
			if i > 0 && verdicts[i-1].URL >= v.URL {
				t.Errorf("%s after %s", v.URL, verdicts[i-1].URL)
			}
			if c, _, err := canon.URL(v.URL); err != nil || c != v.URL {
				t.Errorf("%s is not canonical: %s, %v", v.URL, c, err)
			}
			u, err := url.Parse(v.URL)
			must.OK(t, err)
			if found := w.Lookup(u.Hostname()).Addr.IsValid(); found == (v.Outcome == record.OutcomeDNS) {
				t.Errorf("%s: %s, but the name has an address: %v", v.URL, v.Outcome, found)
			}
			if v.Outcome != record.OutcomeFetched {
				continue
			}
			if p := w.Respond(nil, &Request{Method: "GET", Host: u.Host, Target: u.RequestURI()}); p.Status != v.Status || len(p.Body) > 1<<20 {
				t.Errorf("%s: status %d and %d bytes, the oracle says %d", v.URL, p.Status, len(p.Body), v.Status)
			}
		}
		for _, o := range []string{record.OutcomeFetched, record.OutcomeDNS, record.OutcomeRobotsDenied} {
			if kinds[o] == 0 {
				t.Errorf("seed %d: nothing is %s", seed, o)
			}
		}
	}
}

// A crawl of the default web meets every kind of difficulty.
func TestDefaultWebHasEverything(t *testing.T) {
	cfg := Default
	cfg.Port = 18080
	w := mustNew(t, cfg)
	verdicts := w.Oracle()
	kinds := map[kind]int{}
	statuses := map[int]int{}
	hosts := map[int32]bool{}
	for _, v := range verdicts {
		kinds[v.r.kind]++
		statuses[v.Status]++
		if v.r.kind != kindNoName {
			hosts[v.r.host] = true
		}
	}
	for k := kindPage; k < kindDeep; k++ {
		if kinds[k] == 0 {
			t.Errorf("no URL of kind %d", k)
		}
	}
	for _, s := range []int{200, 301, 302, 303, 307, 308, 403, 404, 410, 500} {
		if statuses[s] == 0 {
			t.Errorf("no URL of status %d", s)
		}
	}
	if len(hosts) != cfg.Hosts {
		t.Errorf("%d hosts reached, want %d", len(hosts), cfg.Hosts)
	}
	if n := kinds[kindPage]; n < cfg.Pages*3/4 || n > cfg.Pages*5/4 {
		t.Errorf("%d pages, want about %d", n, cfg.Pages)
	}
	documents, duplicates := w.Duplicates(verdicts)
	if duplicates*20 < documents {
		t.Errorf("%d of %d documents are duplicates, want 5 %% or more", duplicates, documents)
	}
}

// Sizes and degrees have the median asked for and a long tail.
func TestLogNormal(t *testing.T) {
	d := dice(1)
	values := make([]int, 20_001)
	for i := range values {
		values[i] = d.logNormal(4096, 23)
	}
	slices.Sort(values)
	if m := values[len(values)/2]; m < 3900 || m > 4300 {
		t.Errorf("median %d, want about 4096", m)
	}
	// One standard deviation is 23/16 octaves: a factor of e.
	if q := values[len(values)*841/1000]; q < 4096*24/10 || q > 4096*31/10 {
		t.Errorf("84th percentile %d, want about 2.7 times the median", q)
	}
}

func TestConfigBounds(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"hosts":  func(c *Config) { c.Hosts = 0 },
		"pages":  func(c *Config) { c.Pages = -1 },
		"size":   func(c *Config) { c.Size = 1 << 20 },
		"degree": func(c *Config) { c.Degree = 65 },
		"port":   func(c *Config) { c.Port = 65536 },
		"traps":  func(c *Config) { c.Traps = 10 },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := small
			change(&cfg)
			_, err := New(cfg)
			if !errors.Is(err, fault.Usage) || !strings.HasPrefix(err.Error(), name) {
				t.Errorf("%s: got error %v", name, err)
			}
		})
	}
}

// Every URL of a bigger web is what it is resolved to, and nothing else is.
func TestResolve(t *testing.T) {
	w := mustNew(t, small)
	for _, v := range w.Oracle() {
		if v.r.kind == kindNoName {
			continue
		}
		if got := w.resolve(v.r.host, string(w.appendTarget(nil, v.r))); got != v.r {
			t.Errorf("%s resolves to %v, want %v", v.URL, got, v.r)
		}
	}
	for _, target := range []string{"", "x", "//", "/p", "/p01.html", "/p1.HTML", "/p99999999999.html", "/find?q=", "/find?", "/cal/", "/cal/2001/13",
		"/cal/20a1/0x", "/shop/0?sid=0000000000000000", "/shop/", "/a/0.gif", "/a/-1.css", "/private/g.html", "/private/g-1.html", "/sitemap-0.xml", "/q?x=g", "*",
		"/deep/0/", strings.Repeat("/", 5000), "/\x00", "/caf%c3%a9/p1.html"} {
		if got := w.resolve(2, target); got.kind != kindUnknown {
			t.Errorf("%q resolves to %v", target, got)
		}
	}
}

func FuzzResolve(f *testing.F) {
	w, err := New(small)
	must.OK(f, err)
	for _, v := range w.Oracle()[:50] {
		f.Add(uint8(v.r.host), string(w.appendTarget(nil, v.r)))
	}
	f.Fuzz(func(t *testing.T, host uint8, target string) {
		h := int32(host) % int32(w.Hosts)
		r := w.resolve(h, target)
		if r.kind != kindUnknown && string(w.appendTarget(nil, r)) != target {
			t.Errorf("%q resolves to %v", target, r)
		}
		w.Respond(nil, &Request{Method: "GET", Host: string(w.appendHost(nil, resource{host: h})), Target: target})
	})
}

// A reply costs the same memory in a web of any size: none.
func TestNoStatePerPage(t *testing.T) {
	w := mustNew(t, Config{Seed: 1, Hosts: 100_000, Pages: 100_000_000, Size: 256, Degree: 4})
	scratch := make([]byte, 0, 64<<10)
	q := &Request{Method: "GET", Host: "h0.mweb.test", Target: "/a/1000003.js"}
	for w.resolve(0, q.Target).kind == kindUnknown {
		t.Fatalf("%s is not there", q.Target)
	}
	if n := testing.AllocsPerRun(100, func() { w.Respond(scratch, q) }); n > 4 {
		t.Errorf("%v allocations a reply", n)
	}
}
