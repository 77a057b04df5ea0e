package driver

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/cli"
	"mercator/pkg/fetch/addrguard"
	"mercator/pkg/folder/exchange"
	"mercator/pkg/folder/shard"
	pipeline "mercator/pkg/folder/stage"
	"mercator/pkg/frontier"
)

// A crawl of several shards has a frontier, sets and WARC files in each. A round runs in stages, side by side in all
// shards; between two stages the shards exchange rows: pages go to the owner of their address, which fetches them,
// documents to the owner of their content and back, links and outcomes to the owner of their host.

// partDirs returns the folders of a crawl's stores: the crawl's folder, or one for each shard.
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

// frontiers are the frontiers of a crawl: one, or one of each shard. Their methods add up what each says.
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
		sum.Visits += st.Visits
		if pages, ok := sum.Own.(*frontier.Pages); ok {
			pages.Add(st.Own.(*frontier.Pages))
		}
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

// PlanRest plans what is left in all shards, which work at the same time. It is nil if one shard has no plan.
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

// ofShard returns the plan of a shard, with the shard's stores and files. In a crawl without shards it returns p.
func (p plan) ofShard(n int) plan {
	if p.shards > 0 {
		p.whole, p.shard, p.crawl = p.crawl, n, filepath.Join(p.crawl, shard.Name(n))
	}
	return p
}

// shardsPath is a path in the crawl folder, or a pattern for the path in all shards.
func (p plan) shardsPath(names ...string) string {
	if p.shards > 0 {
		names = append([]string{store.ShardsDir, "*"}, names...)
	}
	return p.path(names...)
}

// tasks is how many shards run a stage.
func (p plan) tasks() int { return max(p.shards, 1) }

// exchanged is an exchange of a round, as one shard sees it.
type exchanged struct {
	plan        plan
	round, name string
	by          string // rows are sent to the owner of this key
}

// dir is the exchange's folder, one for all shards.
func (x exchanged) dir() string {
	return plan{crawl: x.plan.whole}.path("rounds", x.round, x.name)
}

// command is what a person types to send or to gather.
func (x exchanged) command(verb string, more ...string) []string {
	words := []string{"mmerge", verb, "--by", x.by, "--map", x.plan.whole, "--round", x.round, "--exchange", x.name, "--shard", fmt.Sprint(x.plan.shard)}
	return append(words, more...)
}

// shardStages are the stages of a shard's part of a round.
func (p plan) shardStages(round string) []stage {
	c := p.commands(round)
	kept := func(name string) string { return p.roundFile(round, name) }
	of := func(name, by string) *exchanged { return &exchanged{p, round, name, by} }
	send := func(name, by, file string) step { return step{sent: of(name, by), file: file} }
	addr := of("addr", exchange.ByAddress)
	c.fetch = append(c.fetch, "--exchange", addr.dir())
	back := step{from: of("back", exchange.ByAddress), file: kept("marked")}
	if c.score != nil { // where the documents are
		back.pipe = Pipe{append(c.score, "-o", back.file)}
	}
	// Outcomes leave in the order of the contacts, which tells the frontier which failure was the last.
	return []stage{
		{"batch", []step{
			{pipe: Pipe{c.next, append(c.resolve, "-o", kept("batch"))}, file: kept("batch")},
			send("addr", exchange.ByAddress, kept("batch"))}},
		{fetchStage, []step{
			{from: addr, pipe: Pipe{append(c.fetch, "-o", kept("fetched"))}, file: kept("fetched")},
			send("outcomes", exchange.ByHost, kept("fetched")),
			send("doc", exchange.ByDocument, kept("fetched"))}},
		{"mark", []step{
			{from: of("doc", exchange.ByDocument), pipe: Pipe{append(c.mark, "-o", kept("verdicts"))}, file: kept("verdicts")},
			send("back", exchange.ByAddress, kept("verdicts"))}},
		{"extract", []step{
			back,
			{pipe: c.linked([]string{kept("marked")}, "-o", kept("links")), file: kept("links")},
			send("links", exchange.ByHost, kept("links"))}},
		{"update", []step{
			{from: of("outcomes", exchange.ByHost), file: kept("outcomes")},
			{from: of("links", exchange.ByHost), pipe: c.updated(nil, "--outcomes", kept("outcomes")), verb: "update"}}},
	}
}

// exchangeID identifies an exchange in the crawl's present state.
func (d *Driver) exchangeID(x *exchanged) (exchange.ID, error) {
	now, err := store.ReadCurrent(durable.OS, d.Crawl.Dir())
	if err != nil {
		return exchange.ID{}, err
	}
	return exchange.ID{Exchange: x.name, Round: x.round, Epoch: now.Epoch, Map: now.Map, Shards: x.plan.shards, By: x.by}, nil
}

// sentManifest is the manifest of what a shard sent in an exchange; nil if it has not sent all.
func (d *Driver) sentManifest(x *exchanged) (*exchange.Manifest, error) {
	id, err := d.exchangeID(x)
	if err != nil {
		return nil, err
	}
	manifest, err := exchange.ReadManifest(durable.OS, x.dir(), id, x.plan.shard)
	if err != nil {
		return nil, nil // none, or of a round that was given up; of a damaged one send says what it is
	}
	return manifest, nil
}

// isSent reports whether a shard has sent its part of an exchange, and all of it is there.
func (d *Driver) isSent(x *exchanged) (bool, error) {
	manifest, err := d.sentManifest(x)
	return manifest != nil && manifest.Present(durable.OS, x.dir()) == nil, err
}

// exchangeMemory is what sorting the rows that a shard sends may take, in bytes; the rest waits on disk.
const exchangeMemory = 16 << 20

// exchangesAtOnce bounds how many shards sort rows at a time, for their memory.
var exchangesAtOnce = make(chan struct{}, max(2, runtime.NumCPU()))

// send sends the rows of a file to all shards, as "mmerge split" does.
func (d *Driver) send(ctx context.Context, x *exchanged, file string) error {
	select {
	case exchangesAtOnce <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-exchangesAtOnce }()
	id, err := d.exchangeID(x)
	if err != nil {
		return err
	}
	m, err := d.bucketMap(id.Map)
	if err != nil {
		return err
	}
	guard, err := addrguard.New(x.plan.allowNet)
	if err != nil {
		return err
	}
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close() // was read only
	rows, err := record.Open(until{ctx, in}, record.ReaderOptions{Name: file})
	if err != nil {
		return err
	}
	_, err = exchange.Split{FS: durable.OS, Dir: x.dir(), ID: id, From: x.plan.shard, Map: m, Memory: exchangeMemory,
		Refused: func(addr netip.Addr) bool { ok, _ := guard.Allowed(addr); return !ok }}.Send(ctx, rows)
	return err
}

// bucketMap reads a version of the map, which does not change, once.
func (d *Driver) bucketMap(version uint64) (*shard.Map, error) {
	d.mapMu.Lock()
	defer d.mapMu.Unlock()
	if d.bucketsNow == nil || d.bucketsNow.Version != version {
		m, err := shard.ReadVersion(durable.OS, d.Crawl.Dir(), version)
		if err != nil {
			return nil, err
		}
		d.bucketsNow = m
	}
	return d.bucketsNow, nil
}

// until is a reader that fails when ctx has ended.
type until struct {
	ctx context.Context
	io.Reader
}

func (u until) Read(p []byte) (int, error) {
	if err := context.Cause(u.ctx); err != nil {
		return 0, err
	}
	return u.Reader.Read(p)
}

// gather writes what all shards sent to one, as "mmerge gather" does.
func (d *Driver) gather(ctx context.Context, x *exchanged, out pipeline.Output) error {
	defer out.Abort()
	id, err := d.exchangeID(x)
	if err != nil {
		return err
	}
	in, err := exchange.Receive(durable.OS, x.dir(), id, x.plan.shard)
	if err != nil {
		return err
	}
	return record.ByKind(in.Kind, gatherRows[record.URL], gatherRows[record.Fetch], gatherRows[record.Link], gatherRows[record.Module])(ctx, x, in, out)
}

func gatherRows[T record.Row](ctx context.Context, x *exchanged, in *exchange.Incoming, out pipeline.Output) error {
	rows, err := exchange.Rows[T](in)
	if err != nil {
		return err
	}
	defer rows.Close() // was read only
	_, err = pipeline.Run(ctx, pipeline.Spec{Name: "mmerge gather " + x.name}, rows, []pipeline.Output{out}, pipeline.PassAll[T](func(int64) {}))
	return err
}

// keptRows is a file of gathered rows, which appears whole.
type keptRows struct{ *durable.Atomic }

func (k keptRows) Options() record.WriterOptions {
	return record.WriterOptions{Name: k.Name(), Level: record.Fast}
}
func (k keptRows) Publish() error { return k.Commit() }

// pipedRows are gathered rows on their way to a command, which sees by the trailer that they are whole.
type pipedRows struct{ *cli.MemoryPipe }

func (p pipedRows) Options() record.WriterOptions {
	return record.WriterOptions{Name: "a pipe", Level: record.Stored}
}
func (p pipedRows) Publish() error { return nil }
func (p pipedRows) Abort()         {}

// receive gathers the rows of a step into its file.
func (d *Driver) receive(ctx context.Context, s step) error {
	a, err := durable.CreateOutput(s.file)
	if err != nil {
		return err
	}
	return d.gather(ctx, s.from, keptRows{a})
}

// rowsExt is the extension of files with a URL a line as JSON, with its columns.
const rowsExt = ".jsonl"

// writeOwnLines writes the lines of a file that a shard owns, by the host of the line's URL.
func (d *Driver) writeOwnLines(p plan, file, to string) error {
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
	err = numbered{in, file, 0}.eachLine(func(line string) error {
		url, host, wrong, err := seedLine(line, filepath.Ext(file) == rowsExt, form)
		if err != nil {
			return err
		}
		if wrong != nil {
			return &fault.Error{Class: fault.Corrupt, Found: fmt.Sprintf("%.200q, which is no URL of this crawl", line), Want: "URLs, one a line", Hint: d.recoveryHint(wrong), Err: wrong}
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
		look, err := store.Folder(d.plan.ofShard(n).path("frontier"), store.Options{}).Look()
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

// nothingFetched reports whether all that was asked for is finished or parked, and nothing was fetched.
func (d *Driver) nothingFetched(ctx context.Context) (bool, error) {
	st, err := d.frontier.Stat(ctx, frontier.StatOptions{})
	if err != nil {
		return false, err
	}
	return (st.Finished > 0 || len(st.Parked) > 0) && st.Visits == 0 && !slices.ContainsFunc(st.Outcomes, func(c record.Count) bool {
		return c.Reason == record.OutcomeFetched || c.Reason == record.OutcomeNotModified
	}), nil
}
