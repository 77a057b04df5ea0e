package tell

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/cli"
	"mercator/pkg/config"
	"mercator/pkg/fetch"
	"mercator/pkg/frontier"
)

// told returns the lines of a Reporter that ticks for some seconds while a round fetches two pages a second.
func told(t *testing.T, seconds int, with *Reporter) string {
	t.Helper()
	var err bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		with.Err, with.now, with.begun, with.told = &err, time.Now, time.Now(), time.Now()
		with.live = Status{Command: "mcrawl", Crawl: t.TempDir(), URLsStatus: URLsStatus{Known: 56_789, Done: 12_000},
			Estimate: Estimate{Left: 38 * 60, LeftIs: leftIs, Hosts: []HostLeft{{Host: "www.example.org", URLs: 2310, Took: 2310}}}}
		with.planned.at = time.Now()
		with.BeginRound("r12")
		for i := range seconds {
			with.Fetching(0, &fetch.Progress{Command: "mfetch", Outcomes: map[string]int64{"fetched": int64(2 * i), "timeout": 3}, Hosts: 45, Connections: 7, Bytes: 1e6})
			with.tick()
			time.Sleep(time.Second)
		}
		if l := readLive(with.live.Crawl); l == nil || l.Round != "r12" || l.Replies != uint64(2*(seconds-1)) || !slices.Contains(l.Outcomes, record.Count{Reason: "timeout", N: 3}) {
			t.Errorf("PROGRESS has %+v", l)
		}
		with.Warning("mfetch: a word")
	})
	return err.String()
}

func TestReporter(t *testing.T) {
	plain := told(t, 65, &Reporter{})
	const line = "r12: 12,023 of 56,789 URLs done, 2.0 pages/s, 0 B, errors 3 (timeout 3), 45 active hosts; politeness: www.example.org has 2,310 URLs left at 1 a second, 38 min; about 38 min to go for the URLs known\n"
	if want := strings.Count(plain, "\n"); want != 3 || !strings.HasPrefix(plain, line) || !strings.HasSuffix(plain, "\nmfetch: a word\n") {
		t.Errorf("without a terminal:\n%s", plain)
	}
	terminal := told(t, 3, &Reporter{Width: 40})
	if want := "\rr12: 12,003 of 56,789 URLs done, 0 B, …\r\x1b[K\r"; !strings.HasPrefix(terminal, want) || !strings.HasSuffix(terminal, "\r\x1b[Kmfetch: a word\n") || strings.Count(terminal, "\n") != 1 {
		t.Errorf("on a terminal %q, want %q first", terminal, want)
	}
	var l Status
	asJSON := strings.SplitAfter(told(t, 2, &Reporter{JSON: true}), "\n")
	if err := json.Unmarshal([]byte(asJSON[1]), &l); err != nil || l.Done != 12_005 || l.Known != 56_789 || l.Hosts[0].URLs != 2310 || l.Left == 0 || l.LeftIs == "" || len(l.Batch) == 0 {
		t.Errorf("as JSON %+v, %v", l, err)
	}
	if silent := told(t, 65, &Reporter{Silent: true}); silent != "mfetch: a word\n" {
		t.Errorf("silent: %q", silent)
	}
}

// progress is a report of mfetch, from its JSON.
func progress(t *testing.T, text string) *fetch.Progress {
	var p fetch.Progress
	must.OK(t, json.Unmarshal([]byte(text), &p))
	return &p
}

// TestReporterSaysWhatIsWaitedFor: the line says what a command waits for, until fetching goes on.
func TestReporterSaysWhatIsWaitedFor(t *testing.T) {
	var err bytes.Buffer
	reporter := Reporter{Err: &err, now: func() time.Time { return time.Date(2025, 12, 31, 23, 59, 48, 0, time.UTC) }}
	reporter.live.Waiting = 3
	reporter.BeginRound("r3")
	reporter.Waits(cli.Wait{URL: "http://a.test/", Until: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Why: "it is tried again after 1 failure"})
	if l := reporter.currentStatus(); !strings.HasSuffix(l.Line(), "; waiting for http://a.test/: it is tried again after 1 failure, next try in 12 s, at 00:00:00 UTC; 2 more URLs later") || err.Len() > 0 {
		t.Errorf("%q, and %q", l.Line(), err.String())
	}
	reporter.Fetching(0, progress(t, `{"command":"mfetch","done":1}`))
	if l := reporter.currentStatus(); strings.Contains(l.Line(), "waiting") {
		t.Error(l.Line())
	}
}

// TestReporterAfterKill: while no host is contacted the line says so, until when; replies of the attempt before are no pace of this one.
func TestReporterAfterKill(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	reporter := Reporter{now: func() time.Time { return now }}
	reporter.BeginRound("r3")
	reporter.currentStatus()
	for ; now.Second() < 28; now = now.Add(time.Second) {
		reporter.Fetching(0, progress(t, `{"command":"mfetch","done":48,"outcomes":{"fetched":48},"earlier":48,"hosts":1,"held_until":"2026-01-01T00:00:28Z"}`))
		l := reporter.currentStatus()
		if line := l.Line(); !strings.HasSuffix(line, "; waiting until 00:00:28 UTC: who was contacted last is not on record") || l.PerS > 0 || l.Replies > 0 {
			t.Fatalf("after %d s: %s", now.Second(), line)
		}
	}
	if l := reporter.currentStatus(); strings.Contains(l.Line(), "waiting") {
		t.Error(l.Line())
	}
}

// TestReporterOfShards: the progress of all shards is added up.
func TestReporterOfShards(t *testing.T) {
	reporter := Reporter{now: time.Now}
	reporter.live.Known = 100
	reporter.BeginRound("r3")
	for range 2 { // a later line takes the place of the one before
		reporter.Fetching(0, progress(t, `{"command":"mfetch","done":4,"outcomes":{"fetched":3,"timeout":1},"bytes":100,"hosts":2,"connections":1,"bound_by_politeness_s":2,"waits":[{"host":"a.test","end_s":5}]}`))
		reporter.Fetching(2, progress(t, `{"command":"mfetch","done":5,"outcomes":{"fetched":5},"bytes":50,"hosts":3,"connections":4,"bound_by_politeness_s":3,"waits":[{"host":"b.test","end_s":9}]}`))
	}
	l := reporter.currentStatus()
	var p fetch.Progress
	must.OK(t, json.Unmarshal(l.Batch, &p))
	if l.Replies != 8 || l.Received != 150 || l.Active != 5 || l.Connections != 5 || l.Bound != 3 || l.Done != 9 || p.Done != 9 || len(p.Waits) != 2 || p.Waits[0].Host != "b.test" {
		t.Errorf("%+v, %s", l, l.Batch)
	}
}

// TestLiveOfAnother: what cannot be read of PROGRESS, or is too long, counts as nothing.
func TestLiveOfAnother(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"empty": "", "cut": `{"command":"mcr`, "long": `{"crawl":"` + strings.Repeat("x", liveMax) + `"}`} {
		t.Run(name, func(t *testing.T) {
			must.OK(t, os.WriteFile(filepath.Join(dir, liveFile), []byte(text), 0o666))
			if l := readLive(dir); l != nil {
				t.Errorf("%s: %+v", name, l)
			}
		})
	}
}

func TestWords(t *testing.T) {
	for got, want := range map[string]string{
		pace(1): "1 a second", pace(0.25): "4.0 a second", pace(0.01): "100 a second", pace(30): "one every 30 s",
		span(3): "3.0 s", span(100): "100 s", span(2280): "38 min", span(9000): "2.5 h", span(200_000): "2.3 days",
		Size(999): "999 B", Size(1_500_000): "1.5 MB", Size(3e12): "3.0 TB", Size(5e15): "5000.0 TB",
		fmt.Sprint(Grouped(0), Grouped(999), Grouped(1000), Grouped(1234567)): "09991,0001,234,567",
		boundBy(10, 100): "", boundBy(0, 0): "", boundBy(60, 100)[:len(", bound by politeness: for 60 %")]: ", bound by politeness: for 60 %",
		Count(1, "URL"): "1 URL", Count(2000, "URL"): "2,000 URLs",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestLeft: what is left is not over before the first URL that waits for a time is due.
func TestLeft(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for due, want := range map[string]float64{"": 2, "2026-01-01T00:00:01.5Z": 2, "2026-01-01T00:10:00Z": 600} {
		t.Run(due, func(t *testing.T) {
			s := Status{URLsStatus: URLsStatus{NextDue: due}}
			s.addPlan(&frontier.Plan{URLs: 1, Duration: 2 * time.Second}, now)
			if s.Left != want {
				t.Errorf("%v s left with a URL due at %q, want %v", s.Left, due, want)
			}
		})
	}
	var s Status
	if s.addPlan(nil, now); s.Left != 0 || s.LeftIs != "" {
		t.Errorf("%+v", s)
	}
}

// TestCostly: what takes long is found out less often, what takes no time each second.
func TestCostly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for took, want := range map[time.Duration]int{0: 100, time.Second: 5} {
			var c refreshed
			n := 0
			for begun := time.Now(); time.Since(begun) < 100*time.Second; time.Sleep(tellEvery) {
				c.refresh(time.Now, func() { n++; time.Sleep(took) })
			}
			if n != want {
				t.Errorf("%d times in 100 s, each %v, want %d", n, took, want)
			}
		}
	})
}

// TestPrintCounts: one of a thing is said so.
func TestPrintCounts(t *testing.T) {
	var out strings.Builder
	s := Status{URLsStatus: URLsStatus{Known: 1, Done: 1, Retried: 1}, DocumentsStatus: DocumentsStatus{Equal: 1, Robots: 1, Drops: []record.Count{{Reason: "mextract: filter:docs", N: 1}}}}
	s.Hosts = []HostLeft{{Host: "a.test", URLs: 1, Took: 1}}
	s.printBody(&out)
	if text := out.String(); strings.Contains(text, " 1 URLs") || strings.Contains(text, " 1 times") || strings.Contains(text, " 1 documents") || !strings.Contains(text, "           1 URL known, 1 done, 0 waiting\n") || !strings.Contains(text, "links") {
		t.Error(text)
	}
}

// TestDeadHost: of a host that does not answer nobody knows how long its URLs take.
func TestDeadHost(t *testing.T) {
	at := func(minutes int) record.Time {
		return record.TimeOf(time.Date(2026, 1, 1, 12, minutes, 10, 0, time.UTC))
	}
	for now, want := range map[record.Time]string{
		at(4): "3 URLs left on a.test, which has not answered since 2026-01-01 12:03:10 UTC: 2 failed contacts in a row, again at 2026-01-01 12:05:10 UTC",
		at(6): "3 URLs left on a.test, which has not answered since 2026-01-01 12:03:10 UTC: 2 failed contacts in a row",
	} {
		var s Status
		s.addPlan(&frontier.Plan{URLs: 3, Hosts: 1, Slow: []frontier.PlanHost{{Host: "a.test", URLs: 3, Took: 20 * time.Second, Failures: 2, Since: at(3), Until: at(5)}}}, now.Go())
		var out strings.Builder
		s.printBody(&out)
		if text := out.String(); !strings.Contains(text, "           "+want+"\n") {
			t.Error(text)
		}
		if s.waits() != want {
			t.Errorf("%q, want %q", s.waits(), want)
		}
	}
	for failures, want := range map[uint64]float64{0: 20, 1: 20, 2: 0} { // one contact may fail anywhere
		t.Run(fmt.Sprint(failures), func(t *testing.T) {
			var s Status
			s.addPlan(&frontier.Plan{URLs: 3, Hosts: 1, Duration: 20 * time.Second, Slow: []frontier.PlanHost{{Host: "a.test", URLs: 3, Took: 20 * time.Second, Failures: failures}}}, time.Time{})
			if told := strings.Contains(s.Hosts[0].when(), "answer"); s.Left != want || told != (want == 0) {
				t.Errorf("%d failures: %g s left, %q", failures, s.Left, s.Hosts[0].when())
			}
		})
	}
}

func TestWhyAgain(t *testing.T) {
	for want, row := range map[string]record.Fetch{
		"status 503":          {Outcome: record.OutcomeFetched, Status: 503},
		"timeout":             {Outcome: record.OutcomeTimeout},
		"dns-failed: no name": {Outcome: record.OutcomeDNS, Error: "no name"},
	} {
		t.Run(want, func(t *testing.T) {
			if got := whyAgain(&row); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// TestPaceOfOneHost: if one host has all URLs that are left, the time left is by its pace now, not by the plan.
func TestPaceOfOneHost(t *testing.T) {
	one := func(urls uint64, took float64) []HostLeft {
		return []HostLeft{{Host: "a.test", URLs: urls, Took: took}}
	}
	for _, c := range []struct {
		name   string
		urls   URLsStatus
		plan   Estimate
		run    RunStatus
		left   float64
		hosts  uint64
		leftIs string
	}{
		{"a plan that was slower", URLsStatus{Done: 51}, Estimate{Left: 3750, Hosts: one(750, 3750)}, RunStatus{}, 10, 750, leftIsNow},
		{"a plan of few URLs", URLsStatus{Done: 51}, Estimate{Left: 1, Hosts: one(1, 1)}, RunStatus{}, 10, 750, leftIsNow},
		{"parked URLs do not count", URLsStatus{Done: 51, Parked: []frontier.Parked{{URLs: 600}}}, Estimate{Left: 1, Hosts: one(1, 1)}, RunStatus{}, 2, 150, leftIsNow},
		{"nothing is left", URLsStatus{Done: 801}, Estimate{Left: 1, Hosts: one(1, 1)}, RunStatus{}, 0, 0, ""},
		{"a URL is due later", URLsStatus{Done: 801 - 75, NextDue: "2026-01-01T00:01:00Z"}, Estimate{Left: 60, Hosts: one(1, 1)}, RunStatus{}, 60, 75, leftIsNow},
		{"several hosts", URLsStatus{Done: 51}, Estimate{Left: 3750, LeftIs: leftIs, Hosts: append(one(749, 3750), HostLeft{Host: "b.test", URLs: 1, Took: 1})}, RunStatus{}, 3750, 749, leftIs},
		{"several active hosts", URLsStatus{Done: 51}, Estimate{Left: 3750, LeftIs: leftIs, Hosts: one(749, 3750)}, RunStatus{Active: 2}, 3750, 749, leftIs},
		{"it waits", URLsStatus{Done: 51}, Estimate{Left: 3750, LeftIs: leftIs, Hosts: one(749, 3750)}, RunStatus{Waits: "waiting for it"}, 3750, 749, leftIs},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Status{URLsStatus: c.urls, Estimate: c.plan, RunStatus: c.run}
			s.Known, s.PerS, s.Time = 801, 75, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			s.correctPlan()
			hosts := uint64(0)
			if len(s.Hosts) > 0 {
				hosts = s.Hosts[0].URLs
			}
			if s.Left != c.left || hosts != c.hosts || s.LeftIs != c.leftIs {
				t.Errorf("%v s for %d URLs, %q; want %v for %d, %q", s.Left, hosts, s.LeftIs, c.left, c.hosts, c.leftIs)
			}
		})
	}
}

// TestPlanPoliteness: each delay of the settings counts, also where several are the same.
func TestPlanPoliteness(t *testing.T) {
	sheets := filepath.Join(t.TempDir(), "sheets.txt")
	must.OK(t, os.WriteFile(sheets, []byte("sheet a: host a.example\n politeness.connections 3\nsheet b: host b.example\n politeness.min_delay 9s\n"), 0o666))
	conf, err := config.Parse(config.Name, []byte("sheets = \""+sheets+"\"\n[politeness]\nmin_delay = \"0s\"\nmax_delay = \"0s\"\naddr_delay = \"0s\"\ndelay_factor = 0\n"))
	must.OK(t, err)
	want := frontier.DefaultPoliteness
	want.MinDelay, want.MaxDelay, want.AddrDelay, want.DelayFactor = 0, 0, 0, 0
	got, err := Politeness(conf)
	must.OK(t, err)
	if got.Of("a.example").HostConnections != 3 || got.Of("b.example").HostConnections > 1 || got.Of("a.example").MinDelay != 0 || got.Of("b.example").MinDelay != 9*time.Second || got.Unknown() != 9*time.Second {
		t.Errorf("the sheets do not count: %+v", got)
	}
	if got.HostsLongest, got.Hosts = 0, nil; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	conf, err = config.Parse(config.Name, nil)
	must.OK(t, err)
	if got, err := Politeness(conf); err != nil || !reflect.DeepEqual(got, frontier.DefaultPoliteness) {
		t.Errorf("%+v without settings, want %+v", got, frontier.DefaultPoliteness)
	}
	must.OK(t, os.WriteFile(sheets, []byte("sheet a: host a.example\n"), 0o666))
	conf, err = config.Parse(config.Name, []byte("sheets = \""+sheets+"\"\n"))
	must.OK(t, err)
	if _, err := Politeness(conf); !errors.Is(err, fault.Usage) {
		t.Errorf("%v, want what is wrong with the sheets", err)
	}
}
