package main

import (
	"sort"
	"sync"

	"mercator/formats/record"
	"mercator/pkg/cli"
	"mercator/pkg/fetch"
	"mercator/pkg/httpmsg"
	"mercator/pkg/localfault"
	"mercator/pkg/resolve"
)

// totals are what --stats tells of a batch.
type totals struct {
	outcomes map[string]int64
	robots   int64
	bytes    int64 // decoded
	cut      map[string]int64
	refused  string // the first row's refusal
	machine  int64  // deferred because of this machine
	queues   fetch.BackQueues
}

// look keeps how the back queues stood when some were open last.
func (t *totals) look(q fetch.BackQueues) {
	if q.Open == 0 {
		opened, most := q.Opened, q.Most
		q = t.queues
		q.Opened, q.Most = opened, most
	}
	t.queues = q
}

func newTotals() *totals { return &totals{outcomes: map[string]int64{}, cut: map[string]int64{}} }

func (t *totals) add(row *record.Fetch) {
	if row.Role == record.RoleRobots {
		t.robots++
		return
	}
	if t.outcomes[row.Outcome]++; row.Outcome == record.OutcomeAddress && t.refused == "" {
		t.refused = row.Error
	}
	if row.Outcome == record.OutcomeDeferred && localfault.Is(row.Error) {
		t.machine++
	}
	t.bytes += row.BodyLength
	if row.Truncated != "" {
		t.cut[row.Truncated]++
	}
}

// outcome is one line of the totals.
type outcome struct {
	Outcome string `json:"outcome"`
	N       int64  `json:"n"`
}

func (t *totals) report(std *cli.Std, maxBody cli.Size) {
	var list []outcome
	for name, n := range t.outcomes {
		list = append(list, outcome{name, n})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Outcome < list[j].Outcome })
	if n := t.outcomes[record.OutcomeAddress]; n > 0 {
		std.Warn("%s not fetched because of the address: %s; to allow a network give --allow-net, such as --allow-net 127.0.0.0/8, or allow_net in crawl.toml",
			cli.Count(n, "URL"), cli.Printable(t.refused))
	}
	if n := t.cut[httpmsg.TruncatedLength]; n > 0 {
		std.Warn("%s cut off at %d bytes, the limit of --max-body (fetch.max_body in crawl.toml)", cli.Count(n, "document"), maxBody)
	}
	std.Stat("outcomes", list)
	std.Stat("refused_by_settings", t.outcomes[record.OutcomeAddress]+t.outcomes[record.OutcomeDenied]+t.outcomes[record.OutcomeScheme])
	std.Stat("deferred_by_this_machine", t.machine)
	std.Stat("bodies_cut", t.cut)
	std.Stat("robots_contacts", t.robots)
	if t.queues.Opened > 0 {
		std.Stat("back_queues", t.queues)
	}
	std.Stat("body_bytes", t.bytes)
}

// resolverOnce makes a resolver once.
type resolverOnce struct {
	once sync.Once
	r    *resolve.Resolver
	err  error
}

func (o *resolverOnce) get(make func() (*resolve.Resolver, error)) (*resolve.Resolver, error) {
	o.once.Do(func() { o.r, o.err = make() })
	return o.r, o.err
}
