package fetch_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestWaitsAreTold: a batch that waits for five seconds or more says for whom, until when and why, when
// the wait begins, and every half minute.
func TestWaitsAreTold(t *testing.T) {
	for host, want := range map[string][]string{
		"slow": {"waiting for slow0.test until 2000-01-01T00:00:20Z: its Crawl-delay is 20s", "waiting for slow0.test until 2000-01-01T00:00:40Z: its Crawl-delay is 20s"},
		"hang": {"waiting for hang0.test, until its time-out: contacted at 2000-01-01T00:00:00Z, no whole reply yet", "waiting for hang0.test, until its time-out: contacted at 2000-01-01T00:00:00Z, no whole reply yet"},
		"good": nil,
	} {
		t.Run(host, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opt := polite(t, &chained{at: map[string][]time.Time{}, robot: "User-agent: *\nCrawl-delay: 20\n"})
				var told []string
				opt.Warn = func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) }
				run(t, opt, "r1", hostPages(host, 1, 3))
				if len(told) < len(want) || strings.Join(told[:len(want)], "\n") != strings.Join(want, "\n") || want == nil && len(told) > 0 {
					t.Errorf("%s: told\n%s\nwant\n%s", host, strings.Join(told, "\n"), strings.Join(want, "\n"))
				}
			})
		})
	}
}
