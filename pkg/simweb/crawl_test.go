package simweb

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/xml"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"

	"mercator/formats/record"
	"mercator/pkg/base/must"
	"mercator/pkg/web/canon"
)

// A crawler that shares nothing with the web: net/http, x/net/html, and the
// project's canonical form. Robots rules it takes from a matcher of its own.
type crawler struct {
	t      *testing.T
	web    *Web
	client *http.Client
	lifo   bool // newest first, else oldest first

	seen     map[string]bool
	queue    []string
	verdicts []Verdict
	robots   map[string]*ruleSet
	bodies   map[string]bool // content seen
	dups     int
}

func startWeb(t *testing.T, c Config) (*Web, *http.Client) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	c.Port = Port(l)
	w := mustNew(t, c)
	s := &Server{Respond: w.Calm()}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	transport := &http.Transport{MaxIdleConnsPerHost: 1, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, l.Addr().String())
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return w, &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func mustNew(t testing.TB, c Config) *Web {
	t.Helper()
	w, err := New(c)
	must.OK(t, err)
	return w
}

func (c *crawler) meet(url string) {
	if !c.seen[url] {
		c.seen[url] = true
		c.queue = append(c.queue, url)
	}
}

func (c *crawler) run() {
	c.seen, c.robots, c.bodies = map[string]bool{}, map[string]*ruleSet{}, map[string]bool{}
	for _, s := range c.web.Seeds() {
		c.meet(s)
	}
	for len(c.queue) > 0 {
		i := 0
		if c.lifo {
			i = len(c.queue) - 1
		}
		url := c.queue[i]
		c.queue = slices.Delete(c.queue, i, i+1)
		c.verdicts = append(c.verdicts, c.visit(url))
	}
	slices.SortFunc(c.verdicts, func(a, b Verdict) int { return strings.Compare(a.URL, b.URL) })
}

func (c *crawler) get(url string) *http.Response {
	req, err := http.NewRequest("GET", url, nil)
	must.OK(c.t, err)
	resp, err := c.client.Do(req)
	must.OK(c.t, err)
	return resp
}

func (c *crawler) visit(url string) Verdict {
	_, host, rest := canon.Split(url)
	name, _, _ := net.SplitHostPort(host)
	if !c.web.Lookup(name).Addr.IsValid() {
		return Verdict{URL: url, Outcome: record.OutcomeDNS}
	}
	rules := c.robots[host]
	if rules == nil {
		rules = c.fetchRobots("http://"+host+"/robots.txt", 0)
		c.robots[host] = rules
		for _, s := range rules.sitemaps {
			c.link(url, s)
		}
	}
	if !rules.allows(rest) {
		return Verdict{URL: url, Outcome: record.OutcomeRobotsDenied}
	}
	resp := c.get(url)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatalf("%s: %v", url, err)
	}
	if len(body) > 1<<20 {
		c.t.Errorf("%s: a body of %d bytes", url, len(body))
	}
	switch {
	case resp.StatusCode/100 == 3:
		c.link(url, resp.Header.Get("Location"))
	case resp.StatusCode == 200 && len(body) > 0:
		if c.bodies[string(body)] {
			c.dups++
		} else {
			c.bodies[string(body)] = true
			c.extract(url, resp.Header.Get("Content-Type"), body)
		}
	}
	return Verdict{URL: url, Outcome: record.OutcomeFetched, Status: resp.StatusCode}
}

func (c *crawler) link(base, ref string) {
	url, _, err := canon.Options{}.Resolve(base, ref)
	if canon.ReasonOf(err) == canon.ReasonScheme {
		return
	}
	if err != nil {
		c.t.Fatalf("%s: link %q: %v", base, ref, err)
	}
	c.meet(url)
}

func (c *crawler) extract(url, contentType string, body []byte) {
	switch {
	case contentType == "application/gzip":
		z, err := gzip.NewReader(bytes.NewReader(body))
		must.OK(c.t, err)
		if body, err = io.ReadAll(z); err != nil {
			c.t.Fatal(err)
		}
		fallthrough
	case contentType == "application/xml":
		d := xml.NewDecoder(bytes.NewReader(body))
		for {
			tok, err := d.Token()
			if err == io.EOF {
				return
			}
			if err != nil {
				c.t.Fatalf("%s: %v", url, err)
			}
			if start, ok := tok.(xml.StartElement); ok && start.Name.Local == "loc" {
				var loc string
				must.OK(c.t, d.DecodeElement(&loc, &start))
				c.link(url, loc)
			}
		}
	case strings.HasPrefix(contentType, "text/html"):
		enc, _, _ := charset.DetermineEncoding(body[:min(len(body), 1024)], contentType)
		text, err := enc.NewDecoder().Bytes(body)
		must.OK(c.t, err)
		doc, err := html.Parse(bytes.NewReader(text))
		must.OK(c.t, err)
		base := url
		for pass := range 2 { // first the base, then the links
			for n := range doc.Descendants() {
				if n.Type != html.ElementNode || (n.Data == "base") != (pass == 0) {
					continue
				}
				for _, a := range n.Attr {
					if a.Key != "href" && a.Key != "src" {
						continue
					}
					if pass == 0 {
						if base, _, err = (canon.Options{}).Resolve(url, a.Val); err != nil {
							c.t.Fatal(err)
						}
						continue
					}
					c.link(base, inQuery(c.t, enc, a.Val))
				}
			}
		}
	}
}

// inQuery escapes the query of a reference by the bytes of the page's charset,
// as the URL standard says.
func inQuery(t *testing.T, enc encoding.Encoding, ref string) string {
	path, query, ok := strings.Cut(ref, "?")
	if !ok {
		return ref
	}
	raw, err := enc.NewEncoder().String(query)
	must.OK(t, err)
	var b strings.Builder
	for i := range len(raw) {
		if raw[i] < 0x80 {
			b.WriteByte(raw[i])
			continue
		}
		b.WriteByte('%')
		b.WriteByte("0123456789ABCDEF"[raw[i]>>4])
		b.WriteByte("0123456789ABCDEF"[raw[i]&15])
	}
	return path + "?" + b.String()
}

// ruleSet is robots.txt for the group "*", matched by trying every rule.
type ruleSet struct {
	rules    []rule
	sitemaps []string
}

type rule struct {
	pattern string
	allow   bool
}

func (c *crawler) fetchRobots(url string, hops int) *ruleSet {
	resp := c.get(url)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || hops > 5 {
		c.t.Fatal(url, err, hops)
	}
	switch {
	case resp.StatusCode/100 == 3:
		to, _, err := canon.Options{}.Resolve(url, resp.Header.Get("Location"))
		must.OK(c.t, err)
		return c.fetchRobots(to, hops+1)
	case resp.StatusCode != 200:
		return &ruleSet{}
	}
	set := &ruleSet{}
	everyone, inRules := false, false
	for _, line := range strings.Split(strings.TrimPrefix(string(body), "\ufeff"), "\n") {
		line, _, _ = strings.Cut(line, "#")
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		value = strings.TrimSpace(value)
		switch key = strings.ToLower(strings.TrimSpace(key)); key {
		case "user-agent":
			if inRules {
				everyone, inRules = false, false
			}
			everyone = everyone || value == "*"
		case "allow", "disallow":
			inRules = true
			if everyone {
				set.rules = append(set.rules, rule{value, key == "allow"})
			}
		case "sitemap":
			set.sitemaps = append(set.sitemaps, value)
		}
	}
	return set
}

func (s *ruleSet) allows(path string) bool {
	best, allowed := -1, true
	for _, r := range s.rules {
		p := strings.NewReplacer("%7E", "~", "\u00e9", "%C3%A9").Replace(r.pattern)
		if globPrefix(p, path) && (len(p) > best || len(p) == best && r.allow) {
			best, allowed = len(p), r.allow
		}
	}
	return allowed
}

func globPrefix(p, s string) bool {
	for {
		switch {
		case p == "":
			return true
		case p == "$":
			return s == ""
		case p[0] == '*':
			for i := range len(s) + 1 {
				if globPrefix(p[1:], s[i:]) {
					return true
				}
			}
			return false
		case s == "" || s[0] != p[0]:
			return false
		}
		p, s = p[1:], s[1:]
	}
}

// The oracle's set is what an independent crawler finds, in whatever order.
func TestCrawlReachesOracle(t *testing.T) {
	for seed := range uint64(3) {
		for _, lifo := range []bool{false, true} {
			cfg := Config{Seed: seed, Hosts: 24, Pages: 400, Size: 512, Degree: 8, Sitemaps: seed != 1}
			w, client := startWeb(t, cfg)
			c := &crawler{t: t, web: w, client: client, lifo: lifo}
			c.run()
			want := w.Oracle()
			_, dups := w.Duplicates(want)
			if c.dups != dups {
				t.Errorf("seed %d: %d duplicates met, the oracle says %d", seed, c.dups, dups)
			}
			for i := range want {
				want[i].r = resource{}
			}
			diffVerdicts(t, seed, c.verdicts, want)
		}
	}
}

func diffVerdicts(t *testing.T, seed uint64, got, want []Verdict) {
	t.Helper()
	index := map[string]Verdict{}
	for _, v := range want {
		index[v.URL] = v
	}
	for _, v := range got {
		if w, ok := index[v.URL]; !ok {
			t.Errorf("seed %d: %s %d fetched, the oracle does not know it", seed, v.URL, v.Status)
		} else if w != v {
			t.Errorf("seed %d: got %v, want %v", seed, v, w)
		}
		delete(index, v.URL)
	}
	for url, v := range index {
		t.Errorf("seed %d: %s not reached (want %s %d)", seed, url, v.Outcome, v.Status)
	}
}
