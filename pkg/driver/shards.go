package driver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/cli"
	"mercator/pkg/driver/pipe"
	"mercator/pkg/driver/setup"
	"mercator/pkg/driver/tell"
	"mercator/pkg/fetch/addrguard"
	"mercator/pkg/folder/exchange"
	"mercator/pkg/folder/shard"
	pipeline "mercator/pkg/folder/stage"
	"mercator/pkg/frontier"
)

// A crawl of several shards has a frontier, sets and WARC files in each. A round runs in stages, side by side in all
// shards; between two stages the shards exchange rows: pages go to the owner of their address, which fetches them,
// documents to the owner of their content and back, links and outcomes to the owner of their host.

// ofShard returns the plan of a shard, with the shard's stores and files. In a crawl without shards it returns p.
func (p plan) ofShard(n int) plan {
	if p.shards > 0 {
		p.whole, p.shard, p.crawl = p.crawl, n, filepath.Join(p.crawl, shard.Name(n))
	}
	return p
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

// command returns the command that a user would type to send or to gather.
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
		back.pipe = pipe.Pipe{append(c.score, "-o", back.file)}
	}
	var give, given []step
	if p.credit {
		give = []step{
			{pipe: pipe.Pipe{{"mfrontier", "give", p.path("frontier"), "--outcomes", kept("marked"), kept("links"), "-o", kept("gifts")}}, file: kept("gifts")},
			send("gifts", exchange.ByHost, kept("gifts"))}
		given = []step{{from: of("gifts", exchange.ByHost), file: kept("given")}}
		c.update = append(c.update, "--links", kept("given"))
	}
	// Outcomes leave in the order of the contacts, which tells the frontier which failure was the last.
	return []stage{
		{"batch", []step{
			{pipe: pipe.Pipe{c.next, append(c.resolve, "-o", kept("batch"))}, file: kept("batch")},
			send("addr", exchange.ByAddress, kept("batch"))}},
		{fetchStage, []step{
			{from: addr, pipe: pipe.Pipe{append(c.fetch, "-o", kept("fetched"))}, file: kept("fetched")},
			send("outcomes", exchange.ByHost, kept("fetched")),
			send("doc", exchange.ByDocument, kept("fetched"))}},
		{"mark", []step{
			{from: of("doc", exchange.ByDocument), pipe: pipe.Pipe{append(c.mark, "-o", kept("verdicts"))}, file: kept("verdicts")},
			send("back", exchange.ByAddress, kept("verdicts"))}},
		{"extract", append([]step{
			back,
			{pipe: c.linked([]string{kept("marked")}, "-o", kept("links")), file: kept("links")},
			send("links", exchange.ByHost, kept("links"))}, give...)},
		{"update", append(given,
			step{from: of("outcomes", exchange.ByHost), file: kept("outcomes")},
			step{from: of("links", exchange.ByHost), pipe: c.updated(nil, "--outcomes", kept("outcomes")), verb: "update"})},
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
		return nil, nil // there is no manifest, or one of a round that was given up; send reports a damaged one
	}
	return manifest, nil
}

// isSent reports whether a shard has sent its part of an exchange, and all of it is there.
func (d *Driver) isSent(x *exchanged) (bool, error) {
	manifest, err := d.sentManifest(x)
	return manifest != nil && manifest.Present(durable.OS, x.dir()) == nil, err
}

// exchangeMemory bounds the memory of sorting the rows that a shard sends, in bytes; the rest waits on disk.
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
	form, err := d.Crawl.Form()
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
	err = setup.EachLine(in, file, 0, func(line string) error {
		url, host, wrong, err := setup.SeedLine(line, filepath.Ext(file) == rowsExt, form)
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

// waitDue waits until a URL of any shard is due. tell is called once with the wait, if it is long. ends is asked each second whether the wait ends earlier.
func (d *Driver) waitDue(ctx context.Context, tell func(cli.Wait), ends func() (bool, error)) (ended bool, err error) {
	for told := false; ; told = true {
		if ended, err = ends(); ended || err != nil {
			return ended, err
		}
		now := d.opt.Now()
		due, err := d.Crawl.Frontiers.Due(record.TimeOf(now))
		if err != nil || due <= record.TimeOf(now) {
			return false, err
		}
		wait := due.Go().Sub(now)
		if !told && wait >= sayWait {
			first, err := d.Crawl.Frontiers.First(ctx)
			if err != nil {
				return false, err
			}
			tell(cli.Wait{URL: cli.Printable(first.Name), Until: due.Go(), Why: first.Why})
		}
		select {
		case <-time.After(min(wait, lookEvery)):
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// While a run waits for the first URL that is due, it looks for requests of mcrawl add and again every lookEvery. A wait of sayWait is reported.
const (
	lookEvery = time.Second
	sayWait   = 5 * time.Second
)

// taskDue is waitDue for the first task of a round. It ends when another shard has begun the round.
func (d *Driver) taskDue(ctx context.Context, round string) error {
	_, err := d.waitDue(ctx, func(w cli.Wait) {
		if d.saidDue.Swap(w.Until.UnixMicro()) != w.Until.UnixMicro() { // another shard waits for the same
			d.opt.Warn("waiting for the first URL that is due, at %s", w.Until.Format(time.RFC3339))
		}
	}, func() (bool, error) {
		for n := range d.plan.shards {
			look, err := store.Folder(d.plan.ofShard(n).path("frontier"), store.Options{}).Look()
			if err != nil || look.Open() == round {
				return true, err
			}
		}
		return false, nil
	})
	return err
}

// ShardStages returns the states of the stages of a crawl of several shards, for its status. It is nil for another crawl, where nothing is left to
// fetch, and after an error: a run will say what is wrong.
func ShardStages(dir string, now time.Time) *tell.RoundStatus {
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

// nothingFetched reports whether there are URLs, and none is fetched by now: never, or not since mcrawl again put it back.
func (d *Driver) nothingFetched(ctx context.Context) (bool, error) {
	st, err := d.Crawl.Frontiers.Stat(ctx, frontier.StatOptions{})
	if err != nil {
		return false, err
	}
	return st.Discovered > 0 && st.Visits == 0 && !slices.ContainsFunc(st.Outcomes, func(c record.Count) bool {
		return c.Reason == record.OutcomeFetched || c.Reason == record.OutcomeNotModified
	}), nil
}
