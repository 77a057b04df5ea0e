package stats

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/pkg/base/must"
)

const start = record.Time(1_700_000_000_000_000) // microseconds

// row is one of a document.
func row(host string, n int, at record.Time) record.Fetch {
	return record.Fetch{URL: fmt.Sprintf("http://%s/%d", host, n), Key: uint64(n) + 1, Host: host, Role: record.RolePage, FetchTime: at, DurationUS: 1000,
		Outcome: record.OutcomeFetched, Status: 200, MIME: "text/html", BodyLength: 100, ContentFP: uint64(n) + 1}
}

func collect(t *testing.T, rows []record.Fetch) *Stats {
	t.Helper()
	c := New(0)
	for i := range rows {
		must.OK(t, c.Add(&rows[i]))
	}
	s, err := c.End(nil)
	must.OK(t, err)
	return s
}

func TestStats(t *testing.T) {
	rows := []record.Fetch{row("a.example", 1, start), row("a.example", 2, start+1e6), row("b.test:8080", 3, start+2e6), row("127.0.0.1:80", 4, start+3e6), row("[::1]", 5, start+4e6), row("localhost", 6, start+5e6)}
	rows[1].Duplicate = true
	missing, dead, denied, later, robots, again := rows[0], rows[2], rows[0], rows[0], rows[0], rows[0]
	missing.Status, missing.BodyLength = 404, 0
	dead.Outcome, dead.Status, dead.Host, dead.URL = record.OutcomeConnect, 0, "dead.example", "http://dead.example/"
	denied.Outcome, denied.Status = record.OutcomeRobotsDenied, 0
	later.Outcome = record.OutcomeDeferred
	robots.Role, again.Role = record.RoleRobots, record.RoleAgain
	rows = append(rows[1:], again) // which counts as a page does
	s := collect(t, append(rows, missing, dead, denied, later, robots))
	if s.Attempts != 9 || s.Robots != 1 || s.Documents != 6 || s.Bytes != 600 || s.Duplicates != 1 || s.DuplicateBytes != 100 {
		t.Errorf("%+v", s)
	}
	if got, want := fmt.Sprint(s.Outcomes, s.Statuses), "[{fetched 7} {connect-failed 1} {robots-denied 1}] [{200 6} {404 1}]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := fmt.Sprint(s.Domains), "[{(address) 2 2 200} {example 1 2 200} {(none) 1 1 100} {test 1 1 100}]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if s.Hosts != 6 || s.Servers != 5 || s.Largest[0].Name != "a.example" || s.Largest[0].Documents != 2 || len(s.Largest) != 5 {
		t.Errorf("%d hosts, %d servers, %+v", s.Hosts, s.Servers, s.Largest)
	}
	if len(s.Failing) != 1 || s.Failing[0].Error != record.OutcomeConnect || s.Failing[0].ErrorURL != "http://dead.example/" {
		t.Errorf("%+v", s.Failing)
	}
	if got, want := fmt.Sprint(s.Sizes), "[{64 127 6}]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if s.First != "2023-11-14T22:13:20.000Z" || s.Last != "2023-11-14T22:13:25.001Z" {
		t.Error(s.First, s.Last)
	}
}

// Hosts that do not fit in memory are added up all the same, and tables of what servers send have a limit.
func TestBounded(t *testing.T) {
	const n = maxHosts + 7
	var rows []record.Fetch
	for visit := range 2 {
		for i := range n {
			r := row(fmt.Sprintf("h%d.d%d", i, i%5000), i, start+record.Time(visit*n+i)*1e6)
			r.MIME = fmt.Sprintf("x/%d%s", i, strings.Repeat("y", i%200))
			rows = append(rows, r)
		}
	}
	rows = append(rows, row("h9.d9", n, start))
	s := collect(t, rows)
	if s.Hosts != n || s.Largest[0].Name != "h9.d9" || s.Largest[0].Documents != 3 || len(s.Largest) != TopHosts {
		t.Errorf("%d hosts, want %d; %d listed, first %+v", s.Hosts, n, len(s.Largest), s.Largest[0])
	}
	if len(s.Types) > maxNames+1 || len(s.Types) < maxNames || s.Types[0].Name != Other || len(s.Domains) != maxNames+1 {
		t.Errorf("%d types, %d domains", len(s.Types), len(s.Domains))
	}
	var documents, servers, replies uint64
	for _, g := range s.Types {
		documents += g.Documents
	}
	for _, d := range s.Domains {
		servers += d.Servers
	}
	for _, slot := range s.Timeline {
		replies += slot.Replies
	}
	if documents != uint64(len(rows)) || servers != n || replies != uint64(len(rows)) || len(s.Timeline) > maxSlots || s.SlotS*float64(len(s.Timeline)) < 2*n {
		t.Errorf("%d documents, %d servers, %d replies in %d slots of %g s", documents, servers, replies, len(s.Timeline), s.SlotS)
	}
}

// The statistics take little memory, however many pages and hosts there are.
func TestMemory(t *testing.T) {
	const bound = 20 << 20
	c, h := New(4<<20), NewHistories(4<<20)
	r := row("", 0, start)
	for i := range 60_000 {
		r.Host, r.Key = fmt.Sprintf("host-number-%d.example", i), uint64(i)
		must.OK(t, c.Add(&r), h.Add(&r))
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > bound {
		t.Errorf("%d MiB, want at most %d", m.HeapAlloc>>20, bound>>20)
	}
	s, err := c.End(nil)
	if err != nil || s.Hosts != 60_000 {
		t.Error(s.Hosts, err)
	}
	if _, err := h.End(nil); err != nil {
		t.Error(err)
	}
}

func TestChanges(t *testing.T) {
	const s = 1_000_000
	visit := func(n int, at record.Time, content uint64) record.Fetch {
		r := row("a.example", n, start+at*s)
		r.ContentFP = content
		return r
	}
	gone := visit(2, 30, 0)
	gone.Status = 410
	same := visit(3, 40, 0)
	same.Outcome, same.Status = record.OutcomeNotModified, 304
	failed := visit(3, 50, 0)
	failed.Outcome, failed.Status = record.OutcomeTimeout, 0
	h := NewHistories(0)
	for _, r := range []record.Fetch{
		visit(1, 0, 7), visit(1, 10, 7), visit(1, 20, 8), // lives 15 s, then at least 0 s
		visit(2, 0, 7), gone, // lives 15 s
		visit(3, 0, 9), same, failed, // lives 40 s at least
		visit(4, 0, 7), // visited once: of no use
	} {
		must.OK(t, h.Add(&r))
	}
	c, err := h.End(nil)
	must.OK(t, err)
	if c.Pages != 3 || c.Visits != 5 || c.Same != 2 || c.Changed != 1 || c.Gone != 1 || c.Failed != 1 {
		t.Errorf("%+v", c)
	}
	all := c.Lives[0]
	if all.By != "all" || all.Ended != 2 || all.Censored != 2 || all.ObservedS != 70 || math.Abs(all.MedianS-15) > 2 {
		t.Errorf("%+v", all)
	}
	if !slices.ContainsFunc(c.Lives, func(l Lives) bool { return l.By == "domain" && l.Name == "example" && l.Ended == 2 }) {
		t.Errorf("%+v", c.Lives)
	}
}

// The estimate is near the truth for pages that change at random and are visited at a fixed interval.
func TestMedianOfPoisson(t *testing.T) {
	const mean, every, visits = 100.0, 5, 40 // seconds
	h := NewHistories(0)
	seed := uint64(1)
	random := func() float64 { // splitmix64
		seed += 0x9e3779b97f4a7c15
		z := seed
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return float64((z^z>>31)>>11) / (1 << 53)
	}
	for p := range 2000 {
		next, content := -mean*math.Log(1-random()), uint64(1)
		for v := range visits {
			for float64(v*every) > next {
				next -= mean * math.Log(1-random())
				content++
			}
			r := row("a.example", p, start+record.Time(v*every)*1e6)
			r.ContentFP = content
			must.OK(t, h.Add(&r))
		}
	}
	c, err := h.End(nil)
	must.OK(t, err)
	if want := mean * math.Ln2; math.Abs(c.Lives[0].MedianS-want) > 0.1*want {
		t.Errorf("median %g s, want about %g", c.Lives[0].MedianS, want)
	}
}
