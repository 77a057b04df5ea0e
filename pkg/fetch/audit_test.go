package fetch_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/must"
	"mercator/pkg/fetch"
)

func auditOf(t *testing.T, opt fetch.AuditOptions, add func(func(*record.Fetch))) *fetch.Audit {
	t.Helper()
	a := fetch.NewAuditor(opt)
	defer a.Close()
	add(func(row *record.Fetch) {
		must.OK(t, a.Add(row))
	})
	got, err := a.Report(t.Context())
	must.OK(t, err)
	return got
}

// TestAuditInLittleMemory: hosts and rounds come mixed, and are many times what
// memory holds; the few early contacts are found, and the worst are told first.
func TestAuditInLittleMemory(t *testing.T) {
	const hosts, each, second = 500, 200, 1_000_000
	got := auditOf(t, fetch.AuditOptions{AddrDelay: time.Second, Memory: 1 << 20, Worst: 3}, func(add func(*record.Fetch)) {
		for i := range hosts * each {
			n, h := i%each, (i*7919+i/each)%hosts // a host's contacts in any order
			at := record.Time(1000*second + 2*n*second)
			row := record.Fetch{Host: fmt.Sprintf("h%d.test", h), Addr: fmt.Sprintf("127.0.%d.%d", h/250, h%250), FetchTime: at, DurationUS: second, RequiredDelayUS: second}
			if h == 42 && n == 100 {
				row.FetchTime -= second + 5 // 5 microseconds before the end of the one before
				row.DurationUS += second
			}
			if h == 43 && n == 7 {
				row.FetchTime -= 3
			}
			add(&row)
		}
		add(&record.Fetch{Host: "h1.test", FetchTime: 5}) // no contact
	})
	if got.Rows != hosts*each+1 || got.Contacts != hosts*each || got.Hosts.Names != hosts || got.Hosts.Gaps != hosts*(each-1) || got.Hosts.Violations != 2 || got.Addrs.Violations != 2 {
		t.Errorf("audit %+v", got)
	}
	for _, r := range []fetch.AuditReport{got.Hosts, got.Addrs} {
		if len(r.Worst) != 3 || r.Worst[0].Margin() != -(time.Second+5*time.Microsecond) || r.Worst[1].Margin() != -3*time.Microsecond || r.Worst[2].Margin() < 0 {
			t.Errorf("worst %v", r.Worst)
		}
	}
}

// TestAuditKnowsWhatServersAskedFor: Retry-After binds whatever the next row claims.
func TestAuditKnowsWhatServersAskedFor(t *testing.T) {
	const second = 1_000_000
	for _, c := range []struct {
		name   string
		first  record.Fetch
		second record.Time // start of the second contact
		want   uint64
	}{
		{"early", record.Fetch{Status: 503, RetryAfter: 12 * second}, 12*second - 1, 1},
		{"in time", record.Fetch{Status: 429, RetryAfter: 12 * second}, 12 * second, 0},
		{"of a redirect", record.Fetch{Status: 301, RetryAfter: 12 * second}, 3 * second, 0},
		{"over when it ended", record.Fetch{Status: 503, RetryAfter: 1 * second}, 2 * second, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := auditOf(t, fetch.AuditOptions{Memory: 1 << 20, Worst: 1}, func(add func(*record.Fetch)) {
				c.first.Host, c.first.Addr, c.first.FetchTime, c.first.DurationUS = "a.test", "127.0.0.1", second, second
				add(&c.first)
				add(&record.Fetch{Host: "a.test", Addr: "127.0.0.1", FetchTime: c.second, Status: 200})
			})
			if got.Hosts.Violations != c.want {
				t.Errorf("%s: %+v", c.name, got.Hosts)
			}
		})
	}
}

// TestTheServersLogAgrees: a server on loopback notes when requests come and when
// their replies go. Both lie within the contact as the client saw it, so whatever
// the load, its gaps are at least those that the audit saw.
func TestTheServersLogAgrees(t *testing.T) {
	type visit struct{ start, end time.Time }
	var mu sync.Mutex
	log, total := map[string][]visit{}, 0
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		v := visit{start: time.Now()}
		time.Sleep(time.Millisecond)
		mu.Lock()
		v.end = time.Now()
		log[r.Host] = append(log[r.Host], v)
		total++
		mu.Unlock()
		fmt.Fprint(w, "hello")
	}, false)
	opt := options(newStore(t), loopback(t))
	opt.MinDelay, opt.DelayFactor, opt.MaxDelay = 5*time.Millisecond, 2, 20*time.Millisecond
	var urls []record.URL
	for i := range 60 {
		urls = append(urls, s.at(fmt.Sprintf("h%d.test", i%6), fmt.Sprintf("/%d", i)))
	}
	rows := run(t, opt, "r1", urls)
	outcomes(t, rows, urls)
	got := auditOf(t, fetch.AuditOptions{Policy: opt.Policy, Memory: 8 << 20}, func(add func(*record.Fetch)) {
		for i := range rows {
			add(&rows[i])
		}
	})
	if got.Err() != nil || got.Contacts != 66 || total != 66 || len(log) != 6 {
		t.Errorf("audit %+v: %v; the server saw %d contacts with %d hosts", got, got.Err(), total, len(log))
	}
	for host, visits := range log {
		for i := 1; i < len(visits); i++ {
			if gap := visits[i].start.Sub(visits[i-1].end); gap < opt.MinDelay-time.Microsecond { // the unit of the records
				t.Errorf("%s: the server saw a gap of %s", host, gap)
			}
		}
	}
}
