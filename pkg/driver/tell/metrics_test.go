package tell

import (
	"bytes"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"mercator/formats/record"
	"mercator/pkg/base/must"
	"mercator/pkg/frontier"
)

// Prometheus' own parser reads what we write, and the manual has each name.
func TestMetrics(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	s := &Status{
		Crawl: "/a \"b\"\\c\nd\xff", Policy: "revisit", Driver: "process 1", RoundsStatus: RoundsStatus{Checkpoint: 7, Made: "2030-01-02T03:04:00.5Z"},
		URLsStatus: URLsStatus{
			Known: 1 << 40, Pending: 3, NextDue: "2030-01-02T03:00:00Z", Parked: []frontier.Parked{{Outcome: "denied", URLs: 2}, {Outcome: "parked", URLs: 3}},
			Outcomes: []record.Count{{Reason: "fetched", N: 5}, {Reason: "dns-failed", N: 1}}, Settings: []record.Count{{Reason: "denied", N: 2}},
		},
		Estimate: Estimate{HostsLeft: 4, Left: 1.25}, Running: &Status{RunStatus: RunStatus{Active: 9, PerS: 0.5, Replies: 11, Received: 12}},
	}
	text := s.Metrics(now)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	value := func(name string, labels ...string) float64 {
		t.Helper()
		f := families["mercator_"+name]
		if f == nil {
			t.Fatalf("no %s", name)
		}
		for _, m := range f.Metric {
			has := map[string]string{}
			for _, l := range m.Label {
				has[l.GetName()] = l.GetValue()
			}
			if has["crawl"] != "/a \"b\"\\c\nd\uFFFD" {
				t.Errorf("the crawl of %s is %q", name, has["crawl"])
			}
			if len(labels) == 0 || has[labels[0]] == labels[1] {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
		t.Fatalf("no %s of %v", name, labels)
		return 0
	}
	for _, c := range []struct {
		name, label, of string
		want            float64
	}{
		{"running", "", "", 1}, {"checkpoint_timestamp_seconds", "", "", 1893553440.5}, {"urls", "state", "known", 1 << 40}, {"urls", "state", "parked", 5},
		{"outcomes", "outcome", "dns-failed", 1}, {"refused_by_settings", "outcome", "denied", 2}, {"lag_seconds", "", "", 245}, {"hosts_waiting", "", "", 4},
		{"left_seconds", "", "", 1.25}, {"replies_per_second", "", "", 0.5}, {"active_hosts", "", "", 9}, {"replies_total", "", "", 11}, {"received_bytes_total", "", "", 12},
	} {
		t.Run(c.name+c.of, func(t *testing.T) {
			labels := []string{c.label, c.of}
			if c.label == "" {
				labels = nil
			}
			if got := value(c.name, labels...); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
	manual, err := os.ReadFile("../../../cmd/mcrawl/manual.md")
	must.OK(t, err)
	for _, name := range slices.Sorted(maps.Keys(families)) {
		if short := strings.TrimPrefix(name, "mercator_"); !bytes.Contains(manual, []byte("`"+short+"`")) {
			t.Errorf("the manual of mcrawl does not name %s", short)
		}
	}
}
