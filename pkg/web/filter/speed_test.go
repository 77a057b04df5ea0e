package filter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mercator/pkg/base/costtest"
	"mercator/pkg/base/must"
	"mercator/pkg/web/canon"
)

// names makes n domains in order, of the lengths of those of the web.
func names(n int) []string {
	r := rand.New(rand.NewPCG(1, 2))
	tld := []string{"com", "org", "net", "de", "co.uk", "info", "io"}
	set := make(map[string]bool, n)
	for len(set) < n {
		b := make([]byte, 5+r.IntN(10))
		for i := range b {
			b[i] = byte('a' + r.IntN(26))
		}
		set[string(b)+"."+tld[r.IntN(len(tld))]] = true
	}
	all := make([]string, 0, n)
	for s := range set {
		all = append(all, s)
	}
	slices.Sort(all)
	return all
}

// million is a rule file with so many domains in a list and 1,000 prefixes, and URLs of which share in percent
// lie in one of the domains and one in a hundred under a prefix's host.
func million(t testing.TB, domains, urls, run, share int, memory int64) (*Filter, []string) {
	t.Helper()
	dir := t.TempDir()
	all := names(domains)
	must.OK(t, os.WriteFile(filepath.Join(dir, "domains.txt"), []byte(strings.Join(all, "\n")+"\n"), 0o666))
	var rules strings.Builder
	rules.WriteString("deny prefixes: prefix")
	for i := range 1000 {
		fmt.Fprintf(&rules, " http://www.prefix%d.example/section/%d/", i, i)
	}
	rules.WriteString("\ndeny domains: domain @domains.txt\n")
	must.OK(t, os.WriteFile(filepath.Join(dir, "rules.txt"), []byte(rules.String()), 0o666))
	f, err := Load(filepath.Join(dir, "rules.txt"), Options{Memory: memory})
	must.OK(t, err)
	t.Cleanup(func() { f.Close() })
	r := rand.New(rand.NewPCG(3, 4))
	list := make([]string, urls)
	var host string
	for i := range list {
		if i%run > 0 {
			list[i] = fmt.Sprintf("http://%s/section/%d/page-%d.html?id=%d", host, r.IntN(1000), r.IntN(1e6), r.IntN(1e4))
			continue
		}
		host = fmt.Sprintf("www.unlisted%d.example.com", r.IntN(1e6))
		switch {
		case r.IntN(100) < share:
			host = "www." + all[r.IntN(len(all))]
		case r.IntN(100) == 0:
			host = fmt.Sprintf("www.prefix%d.example", r.IntN(1000))
		}
		list[i] = fmt.Sprintf("http://%s/section/%d/page-%d.html?id=%d", host, r.IntN(1000), r.IntN(1e6), r.IntN(1e4))
	}
	return f, list
}

// BenchmarkMillion reports what judging takes in parts of what canonicalising the same URLs takes, with hosts drawn
// anew after each run of URLs. Both are measured in turn.
func BenchmarkMillion(b *testing.B) {
	for _, where := range []struct {
		name   string
		memory int64
	}{{"memory", 64 << 20}, {"disk", 1}} {
		for _, c := range []struct{ run, share int }{{1, 0}, {1, 10}, {1, 50}, {1, 100}, {5, 10}, {5, 100}, {50, 10}} {
			b.Run(fmt.Sprintf("%s/run=%d/listed=%d%%", where.name, c.run, c.share), func(b *testing.B) {
				f, urls := million(b, 1e6, 50_000, c.run, c.share, where.memory)
				j := f.NewJudge()
				// Of each piece the fastest time counts: others may want the processor.
				const piece = 250
				candidates, verdicts := make([]Candidate, piece), make([]Verdict, piece)
				judging, canonical := make([]time.Duration, len(urls)/piece), make([]time.Duration, len(urls)/piece)
				fastest := func(t *time.Duration, start time.Time) {
					if d := time.Since(start); *t == 0 || d < *t {
						*t = d
					}
				}
				var buf []byte
				base, err := canon.Options{}.Base("http://h/")
				if err != nil {
					b.Fatal(err)
				}
				raw := make([][]byte, len(urls))
				for i, u := range urls {
					raw[i] = []byte(u)
				}
				for b.Loop() {
					for k := range judging {
						i := k * piece
						start := time.Now()
						for _, u := range raw[i : i+piece] {
							buf, _, _ = base.AppendResolve(buf[:0], u)
						}
						fastest(&canonical[k], start)
						for n, u := range urls[i : i+piece] {
							c, host, err := canon.URL(u)
							if err != nil {
								b.Fatal(err)
							}
							candidates[n] = Candidate{URL: c, Host: host, Kind: "a"}
						}
						start = time.Now()
						if err := j.URLs(context.Background(), candidates, verdicts); err != nil {
							b.Fatal(err)
						}
						fastest(&judging[k], start)
					}
				}
				per := func(all []time.Duration) float64 {
					var sum time.Duration
					for _, t := range all {
						sum += t
					}
					return float64(sum.Nanoseconds()) / float64(len(urls))
				}
				b.ReportMetric(per(judging), "ns/URL")
				b.ReportMetric(per(canonical), "canon-ns/URL")
				b.ReportMetric(per(judging)/per(canonical), "ratio")
			})
		}
	}
}

// BenchmarkDefault reports what the rules that are shipped take for a URL that they let through.
func BenchmarkDefault(b *testing.B) {
	f, err := Load("default", Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for _, c := range []struct{ name, url string }{
		{"page", "http://www.example.org/docs/reference/chapter-7/functions-string.html"},
		{"picture", "http://www.example.org/images/thumbs/2a/0123456789abcdef0123456789abcdef.jpg"},
		{"query", "http://www.example.org/forum/viewtopic.php?f=12&t=34567&start=20"},
	} {
		b.Run(c.name, func(b *testing.B) {
			j := f.NewJudge()
			candidates, verdicts := make([]Candidate, 256), make([]Verdict, 256)
			for i := range candidates {
				candidates[i] = Candidate{URL: c.url, Host: "www.example.org", Kind: "a", Via: "http://www.example.org/docs/2024/", From: "www.example.org"}
			}
			b.ReportAllocs()
			took := costtest.Of(func() {
				for b.Loop() {
					if err := j.URLs(context.Background(), candidates, verdicts); err != nil || !verdicts[0].Allow {
						b.Fatal(verdicts[0].Name(), err)
					}
				}
			})
			b.ReportMetric(float64(took)/float64(b.N*len(candidates)), "cpu-ns/URL")
		})
	}
}
