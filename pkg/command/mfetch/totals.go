package mfetch

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/setting"
	"mercator/pkg/cli"
	"mercator/pkg/fetch"
	"mercator/pkg/fetch/localfault"
	"mercator/pkg/web/httpmsg"
)

// totals are the figures of a batch that --stats and --progress print.
type totals struct {
	mu       sync.Mutex
	now      func() time.Time
	started  time.Time
	outcomes map[string]int64
	earlier  int64 // replies to attempts before this one
	robots   int64
	bytes    int64 // decoded
	cut      map[string]int64
	refused  string // the first row's refusal
	swollen  int64  // of those cut by length
	machine  int64  // deferred because of this machine
	latest   fetch.BackQueues
	queues   fetch.BackQueues // when some were open last
}

// keepQueues keeps how the back queues stand, and how they stood when some were open last.
func (t *totals) keepQueues(q fetch.BackQueues) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.latest = q; q.Open == 0 {
		was := t.queues
		q.Open, q.Busy, q.Due, q.Waiting, q.Next, q.Longest = was.Open, was.Busy, was.Due, was.Waiting, was.Next, was.Longest
	}
	t.queues = q
}

func newTotals(now func() time.Time) *totals {
	return &totals{now: now, started: now(), outcomes: map[string]int64{}, cut: map[string]int64{}}
}

// progress returns the figures for --progress.
func (t *totals) progress() (string, any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := fetch.Progress{Command: "mfetch", Total: t.latest.Read, Robots: t.robots, Bytes: t.latest.Received, Connections: t.latest.Busy,
		Hosts: t.latest.Open, Waits: t.latest.Longest, Bound: t.latest.Bound, Names: t.latest.Names, Held: t.latest.Held, Earlier: t.earlier, Elapsed: t.now().Sub(t.started).Seconds(), Outcomes: maps.Clone(t.outcomes)}
	for _, n := range t.outcomes {
		p.Done += n
	}
	p.Total = max(p.Total, p.Done) // a replay has no queues
	return p.String(), p
}

func (t *totals) countRow(row *record.Fetch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if row.Role == record.RoleRobots {
		t.robots++
		return
	}
	t.bytes += row.BodyLength
	if row.Truncated != "" {
		t.cut[row.Truncated]++
	}
	if fetch.IsSwollen(row.Truncated, row.Error) {
		t.swollen++
	}
	if row.Role != record.RolePage {
		return
	}
	if t.outcomes[row.Outcome]++; row.Outcome == record.OutcomeAddress && t.refused == "" {
		t.refused = row.Error
	}
	if (row.Outcome == record.OutcomeFetched || row.Outcome == record.OutcomeNotModified) && row.FetchTime.Go().Before(t.started) {
		t.earlier++
	}
	if row.Outcome == record.OutcomeDeferred && localfault.Is(row.Error) {
		t.machine++
	}
}

// outcome is one line of the totals.
type outcome struct {
	Outcome string `json:"outcome"`
	N       int64  `json:"n"`
}

// report tells what is over; crawl is the crawl.toml of the crawl, or "".
func (t *totals) report(std *cli.Std, crawl string, maxBody cli.Size) {
	var list []outcome
	for _, name := range slices.Sorted(maps.Keys(t.outcomes)) {
		list = append(list, outcome{name, t.outcomes[name]})
	}
	if n := t.outcomes[record.OutcomeAddress]; n > 0 {
		how := "--allow-net names what is allowed"
		if addr, err := fetch.RefusedAddr(t.refused); err == nil {
			how = "allow that one: --allow-net " + addr.String()
		}
		std.Warn("%s not fetched because of the address: %s; %s", cli.Count(n, "URL"), cli.Printable(t.refused), how)
	}
	if t.swollen > 0 {
		std.Warn("%s cut off at 256 times the bytes that came, which no setting changes", cli.Count(t.swollen, "document"))
	}
	if n := t.cut[httpmsg.TruncatedLength] - t.swollen; n > 0 {
		std.Warn("%s cut off at %d bytes, the limit of --max-body%s", cli.Count(n, "document"), maxBody, uncut(std, crawl, maxBody))
	}
	std.Stat("outcomes", list)
	var refused int64
	for _, o := range record.OutcomesOfSettings {
		refused += t.outcomes[o]
	}
	std.Stat("refused_by_settings", refused)
	std.Stat("deferred_by_this_machine", t.machine)
	std.Stat("bodies_cut", t.cut)
	std.Stat("robots_contacts", t.robots)
	if t.queues.Opened > 0 {
		std.Stat("back_queues", t.queues)
	}
	std.Stat("body_bytes", t.bytes)
}

// uncut has the commands that list what was cut off in a crawl, and that fetch it again whole.
func uncut(std *cli.Std, crawl string, maxBody cli.Size) string {
	if crawl == "" {
		return ""
	}
	dir, more := filepath.Dir(crawl), 4*maxBody
	set := []string{"mcrawl", "set", dir, "fetch.max_body=" + setting.Text(more)}
	if more > cli.Size(std.MemoryLimit())/8 {
		set = append(set, "memory.fetch="+setting.Text(8*more))
	}
	return fmt.Sprintf("; list them: %s | grep ^length; fetch them again, whole: %s && %s && %s", fault.Quote("mcat", "--format", "tsv", "--columns", "truncated,url", dir),
		fault.Quote(set...), fault.Quote("mcrawl", "again", dir, "--outcome", "cut"), fault.Quote("mcrawl", "run", dir))
}
