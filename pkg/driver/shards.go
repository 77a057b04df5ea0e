package driver

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/durable"
	"mercator/pkg/exchange"
	"mercator/pkg/fault"
	"mercator/pkg/fingerprint"
	"mercator/pkg/frontier"
	"mercator/pkg/shard"
)

// A crawl of several shards has a frontier, sets and WARC files in each. A round runs in stages, side by side in all
// shards; between two stages the shards exchange rows: pages go to the owner of their address, which fetches them,
// documents to the owner of their content and back, links and outcomes to the owner of their host.

// partDirs are the folders of a crawl that stores are in: its own, or those of its shards.
func partDirs(dir string) ([]string, error) {
	m, err := shard.Read(durable.OS, dir)
	if err != nil {
		return nil, err
	}
	if m == nil {
		return []string{dir}, nil
	}
	var dirs []string
	for n := range m.Shards {
		dirs = append(dirs, shard.Dir(dir, n))
	}
	return dirs, nil
}

// frontiers are those of a crawl: one, or one of each shard. Together they tell what one frontier does.
type frontiers []*frontier.Frontier

func openFrontiers(dir string) (all frontiers, err error) {
	dirs, err := partDirs(dir)
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		f, err := frontier.Open(filepath.Join(dir, frontier.Kind), store.Options{})
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

// Empty reports whether nothing is left in any.
func (all frontiers) Empty(now record.Time) (bool, error) {
	for _, f := range all {
		if empty, err := f.Empty(now); !empty || err != nil {
			return false, err
		}
	}
	return true, nil
}

// due is when the first URL is; 0 for at once.
func (all frontiers) due(now record.Time) (first record.Time, err error) {
	found := false
	for _, f := range all {
		due, empty, err := f.Due(now)
		if err != nil {
			return 0, err
		}
		if !empty && (!found || due < first) {
			first, found = due, true
		}
	}
	return first, nil
}

// Stat sums what "mcrawl status" shows.
func (all frontiers) Stat(ctx context.Context, o frontier.StatOptions) (*frontier.Stat, error) {
	sum, err := all[0].Stat(ctx, o)
	if err != nil || len(all) == 1 {
		return sum, err
	}
	outcomes, back, parked := counts{}, counts{}, map[string]frontier.Parked{}
	take := func(st *frontier.Stat) {
		for _, c := range st.Outcomes {
			outcomes[c.Reason] += c.N
		}
		for _, c := range st.TakenBack { // which another shard counts
			back[c.Reason] += c.N
		}
		for _, p := range st.Parked {
			p.URLs += parked[p.Outcome].URLs
			p.Due = earlier(p.Due, parked[p.Outcome].Due)
			parked[p.Outcome] = p
		}
	}
	take(sum)
	for _, f := range all[1:] {
		st, err := f.Stat(ctx, o)
		if err != nil {
			return nil, err
		}
		take(st)
		sum.Discovered, sum.Pending, sum.InFlight, sum.Finished = sum.Discovered+st.Discovered, sum.Pending+st.Pending, sum.InFlight+st.InFlight, sum.Finished+st.Finished
		sum.Retried, sum.Deferred, sum.Waiting, sum.Held = sum.Retried+st.Retried, sum.Deferred+st.Deferred, sum.Waiting+st.Waiting, sum.Held+st.Held
		sum.NextDue = earlier(sum.NextDue, st.NextDue)
	}
	for reason, n := range back {
		outcomes[reason] -= min(n, outcomes[reason])
	}
	sum.Outcomes, sum.Parked = outcomes.list(), nil
	for _, p := range parked {
		sum.Parked = append(sum.Parked, p)
	}
	slices.SortFunc(sum.Parked, func(a, b frontier.Parked) int { return strings.Compare(a.Outcome, b.Outcome) })
	return sum, nil
}

// earlier is the earlier of two times, as text of one form; "" is none.
func earlier(a, b string) string {
	if a == "" || b == "" {
		return cmp.Or(a, b)
	}
	return min(a, b)
}

// PlanRest is what is left in all; shards serve their hosts at the same time. It is nil if that of one shard is not known.
func (all frontiers) PlanRest(ctx context.Context, now record.Time, p frontier.Politeness) (*frontier.Plan, error) {
	var sum frontier.Plan
	for _, f := range all {
		plan, err := f.PlanRest(ctx, now, p)
		if err != nil || plan == nil || len(all) == 1 {
			return plan, err
		}
		sum.URLs, sum.Duration = sum.URLs+plan.URLs, max(sum.Duration, plan.Duration)
		sum.Slow = append(sum.Slow, plan.Slow...)
	}
	slices.SortStableFunc(sum.Slow, func(a, b frontier.PlanHost) int { return cmp.Compare(b.Took, a.Took) })
	return &sum, nil
}

// of is the plan of a shard, which has stores and files of its own; of a crawl without shards it is the plan itself.
func (p plan) of(n int) plan {
	if p.shards > 0 {
		p.whole, p.shard, p.crawl = p.crawl, n, filepath.Join(p.crawl, shard.Name(n))
	}
	return p
}

// all is a path in the crawl folder, or as a shell finds it in all shards.
func (p plan) all(names ...string) string {
	if p.shards > 0 {
		names = append([]string{store.ShardsDir, "*"}, names...)
	}
	return p.path(names...)
}

// tasks is how many shards run a stage.
func (p plan) tasks() int { return max(p.shards, 1) }

// exchanged is a command of an exchange in a round, and its folder.
func (p plan) exchanged(verb, round, name, by string) (words []string, dir string) {
	dir = plan{crawl: p.whole}.path("rounds", round, name)
	return []string{"mmerge", verb, "--by", by, "--map", p.whole, "--round", round, "--exchange", name, "--shard", fmt.Sprint(p.shard)}, dir
}

// gather reads what all shards sent to this one.
func (p plan) gather(round, name, by string) []string {
	words, dir := p.exchanged("gather", round, name, by)
	return append(words, dir)
}

// send sends the rows of a file to all shards.
func (p plan) send(round, name, by, file string) step {
	words, dir := p.exchanged("split", round, name, by)
	return step{pipe: Pipe{append(words, "-o", dir, file)}, sent: name}
}

// shardStages are the stages of a shard's part of a round.
func (p plan) shardStages(round string) []stage {
	c := p.commands(round)
	kept := func(name string) string { return p.kept(round, name) }
	_, addr := p.exchanged("", round, "addr", exchange.ByAddress)
	c.fetch = append(c.fetch, "--exchange", addr)
	// Outcomes leave in the order of the contacts, which tells the frontier which failure was the last.
	return []stage{
		{"batch", []step{
			{pipe: Pipe{c.next, append(c.resolve, "-o", kept("batch"))}, file: kept("batch")},
			p.send(round, "addr", exchange.ByAddress, kept("batch"))}},
		{fetchStage, []step{
			{pipe: Pipe{p.gather(round, "addr", exchange.ByAddress), append(c.fetch, "-o", kept("fetched"))}, file: kept("fetched")},
			p.send(round, "outcomes", exchange.ByHost, kept("fetched")),
			p.send(round, "doc", exchange.ByDocument, kept("fetched"))}},
		{"mark", []step{
			{pipe: Pipe{p.gather(round, "doc", exchange.ByDocument), append(c.mark, "-o", kept("verdicts"))}, file: kept("verdicts")},
			p.send(round, "back", exchange.ByAddress, kept("verdicts"))}},
		{"extract", []step{
			{pipe: Pipe{append(p.gather(round, "back", exchange.ByAddress), "-o", kept("marked"))}, file: kept("marked")},
			{pipe: Pipe{append(c.extract, kept("marked"), "-o", kept("links"))}, file: kept("links")},
			p.send(round, "links", exchange.ByHost, kept("links"))}},
		{"update", []step{
			{pipe: Pipe{append(p.gather(round, "outcomes", exchange.ByHost), "-o", kept("outcomes"))}, file: kept("outcomes")},
			{pipe: Pipe{p.gather(round, "links", exchange.ByHost), c.unseen, append(c.update, "--outcomes", kept("outcomes"))}, verb: "update"}}},
	}
}

// billed is the bill of what a shard sent in an exchange, and the exchange's folder; nil if the shard has not sent all.
func (d *Driver) billed(p plan, round, name string) (bill *exchange.Bill, dir string, err error) {
	now, err := store.ReadCurrent(durable.OS, d.Crawl.Dir())
	if err != nil {
		return nil, "", err
	}
	_, dir = p.exchanged("", round, name, "")
	bill, err = exchange.ReadBill(durable.OS, dir, exchange.ID{Exchange: name, Round: round, Epoch: now.Epoch, Map: now.Map, Shards: p.shards}, p.shard)
	if err != nil {
		return nil, dir, nil // none, or of a round that was given up; of a damaged one split says what it is
	}
	return bill, dir, nil
}

// isSent reports whether a shard has sent its part of an exchange, and all of it is there.
func (d *Driver) isSent(p plan, round, name string) (bool, error) {
	bill, dir, err := d.billed(p, round, name)
	if bill == nil || err != nil {
		return false, err
	}
	for to, part := range bill.Parts {
		if st, err := os.Stat(exchange.PartPath(dir, p.shard, to)); err != nil || st.Size() != part.Bytes {
			return false, nil
		}
	}
	return true, nil
}

// rowsExt is the extension of files with a URL a line as JSON, with its columns.
const rowsExt = ".jsonl"

// cut writes the lines of a file whose URLs' hosts a shard owns.
func (d *Driver) cut(p plan, file, to string) error {
	form, err := d.Form()
	if err != nil {
		return err
	}
	m, err := shard.Read(durable.OS, d.Crawl.Dir())
	if err != nil {
		return err
	}
	out, err := durable.CreateAll(durable.OS, to)
	if err != nil {
		return err
	}
	defer out.Abort()
	w := bufio.NewWriter(out)
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close() // was read only
	err = numbered{in, file, 0}.each(func(line string) error {
		url, host, wrong, err := seedLine(line, filepath.Ext(file) == rowsExt, form)
		if err != nil {
			return err
		}
		if wrong != nil {
			return &fault.Error{Class: fault.Corrupt, Found: fmt.Sprintf("%.200q, which is no URL of this crawl", line), Want: "URLs, one a line", Hint: d.waysOut(), Err: wrong}
		}
		if m.Of(fingerprint.URLKey(host, url)) == p.shard {
			fmt.Fprintln(w, line)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return out.Commit()
}

// waitDue waits until a URL of any shard is due, unless a shard has begun the round.
func (d *Driver) waitDue(ctx context.Context, round string) error {
	for n := range d.plan.shards {
		look, err := store.Folder(d.plan.of(n).path("frontier"), store.Options{}).Look()
		if err != nil || look.Open() == round {
			return err
		}
	}
	now := record.TimeOf(d.opt.Now())
	due, err := d.frontier.due(now)
	if err != nil || due <= now {
		return err
	}
	wait := due.Go().Sub(now.Go())
	if d.saidDue.Swap(int64(due)) != int64(due) { // another shard waits for the same
		d.opt.Warn("waiting for the first URL that is due, at %s", due.Go().Format(time.RFC3339))
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// shardStages says how the stages of a crawl of several shards stand; nil of another, where nothing is left, and where a run
// will say what is wrong.
func shardStages(dir string, now time.Time) *RoundStatus {
	d, err := Open(dir, Options{Now: func() time.Time { return now }, Warn: func(string, ...any) {}})
	if err != nil || d.plan.shards == 0 {
		return nil
	}
	r, err := d.Stages("")
	if err != nil || r.Empty {
		return nil
	}
	return r
}

// nothingFetched reports whether no shard has fetched anything.
func (d *Driver) nothingFetched(ctx context.Context) (bool, error) {
	st, err := d.frontier.Stat(ctx, frontier.StatOptions{})
	if err != nil {
		return false, err
	}
	return st.Finished > 0 && !slices.ContainsFunc(st.Outcomes, func(c record.Count) bool {
		return c.Reason == record.OutcomeFetched || c.Reason == record.OutcomeNotModified
	}), nil
}
