package tell

import (
	"bytes"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/pkg/base/must"
	"mercator/pkg/view/stats"
)

// What servers chose cannot write to a terminal.
func TestPrintStats(t *testing.T) {
	s := &stats.Stats{Attempts: 1, Documents: 1, Types: []stats.Type{{Name: "text/\x1b[31m<script>", Documents: 1, Bytes: 1}},
		Statuses: []record.Count{{Reason: "200", N: 1}}, Sizes: []stats.Bin{{From: 1, To: 1, N: 1}},
		Hosts: 12, Largest: make([]stats.Host, 1), Failing: make([]stats.Host, stats.TopWorst)} // 11 hosts have no document
	s.Failing[0] = stats.Host{Name: "a.test", Errors: 2, Error: record.OutcomeRobotsUnreachable}
	var out bytes.Buffer
	must.OK(t, PrintStats(&out, s))
	if !strings.Contains(out.String(), "  a.test: "+record.OutcomeRobotsUnreachable+"\n") {
		t.Errorf("a host without the whole name of its last error: %s", out.String())
	}
	if strings.ContainsRune(out.String(), 0x1b) || !strings.Contains(out.String(), `text/\x1b[31m<script>`) {
		t.Errorf("%q", out.String())
	}
	if strings.Contains(out.String(), " more\n") {
		t.Errorf("rows that are in no table, or that nobody has counted: %s", out.String())
	}
	out.Reset()
	if err := PrintStats(&out, new(stats.Stats)); err != nil || out.String() != "nothing was fetched yet\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// TestPrintTimes: the sum is printed beside the time of the whole crawl, which includes interrupted attempts.
func TestPrintTimes(t *testing.T) {
	s := &stats.Stats{Attempts: 1, Times: &stats.Times{Rounds: 9, SpanS: 245, Spread: stats.Spread{ElapsedS: 34.6, WaitingS: 30, NamesS: 4.6}}}
	for _, want := range []string{" %  waiting for politeness and retries\n", " %  names\n",
		"       34.60               in all, of 245.00 s from the first to the last contact; the rest: interrupted attempts, time between rounds and runs\n"} {
		var out strings.Builder
		if err := PrintStats(&out, s); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%v, no %q in\n%s", err, want, out.String())
		}
		if strings.Contains(out.String(), "media type") || strings.Contains(out.String(), "domain") || strings.Contains(out.String(), "bytes") {
			t.Errorf("headings of empty tables:\n%s", out.String())
		}
	}
	s.Times.SpanS = 30 // the checkpoint came after the last contact
	var out strings.Builder
	if err := PrintStats(&out, s); err != nil || strings.Contains(out.String(), "the rest") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// A screen has one estimate: the round's, if a driver works. Duplicates are documents that were not read for links.
func TestPrintOneEstimate(t *testing.T) {
	for _, s := range []*Status{{}, {Driver: "process 1", Running: &Status{Estimate: Estimate{Left: 30}}}} {
		s.Left, s.Equal = 60, 9
		var out strings.Builder
		if err := s.Print(&out); err != nil || strings.Count(out.String(), "about ") != 1 || !strings.Contains(out.String(), "; 9 duplicates (not read for links); ") {
			t.Errorf("%v, want one estimate: %s", err, out.String())
		}
	}
}
