// Package mfrontier keeps the URLs that are still to be fetched and says which are next.
package mfrontier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/config"
	"mercator/pkg/config/sheet"
	"mercator/pkg/folder/stage"
	"mercator/pkg/frontier"
	"mercator/pkg/urlset"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/filter"
)

const about = `Keep the URLs that are still to be fetched, and say which are next.

A round begins with "next" and ends with "update"; between them its batch is in flight.

  mfrontier create frontier
  mfrontier add frontier --txn seed seeds.txt
  mfrontier next frontier -n 1000 --txn r1 -o batch.arrows.zst
  mfrontier update frontier --txn r1 --outcomes fetched.arrows.zst \
    new.arrows.zst`

type grammar struct {
	cli.Common
	Create   createCmd   `cmd:"" help:"Make an empty frontier."`
	Add      addCmd      `cmd:"" help:"Add URLs."`
	Raise    raiseCmd    `cmd:"" help:"Give waiting URLs a higher priority."`
	Next     nextCmd     `cmd:"" help:"Take the next batch; wait if nothing is due yet."`
	Give     giveCmd     `cmd:"" help:"Policy opic, several shards: divide the credit of pages."`
	Update   updateCmd   `cmd:"" help:"End the batch with its outcomes, and add new URLs."`
	Plan     planCmd     `cmd:"" help:"Estimate how long a batch will take, and name the slowest hosts."`
	Release  releaseCmd  `cmd:"" help:"Put parked URLs back into the queue."`
	Stat     statCmd     `cmd:"" help:"Show what the frontier holds."`
	Hosts    hostsCmd    `cmd:"" help:"Show everything about one host, as JSON."`
	Policies policiesCmd `cmd:"" help:"List the policies."`
	Check    checkCmd    `cmd:"" help:"Read everything and compare it with the ledger."`
	Export   exportCmd   `cmd:"" help:"Write all URLs that are not finished."`
}

func open(std *cli.Std, dir string, f cli.TxnFlags) (*frontier.Frontier, error) {
	st, err := std.OpenStore(dir, frontier.Kind, frontier.Version, f)
	if err != nil {
		return nil, err
	}
	fr := frontier.New(st)
	return fr, fr.SetMemory(std.MemoryLimit())
}

type createCmd struct {
	Store string `arg:"" help:"Folder to make, such as crawl/frontier."`
	frontier.Params
}

// Help is part of --help.
func (*createCmd) Help() string {
	return `The policy and its parameters cannot be changed later.

Examples:
  mfrontier create crawl/frontier --policy priority --queues 5 --bias 3
  mfrontier create crawl/frontier --policy revisit --new-share 0.3`
}

func (c *createCmd) Run() error { return frontier.Create(c.Store, c.Params, store.Options{}) }

type addCmd struct {
	Store  string   `arg:"" help:"The frontier."`
	Files  []string `arg:"" optional:"" help:"Url records or text (*.txt); default: standard input."`
	Text   bool     `help:"The input is text, one URL a line."`
	Strict bool     `help:"Fail on a bad line of text instead of skipping it."`
	Again  bool     `help:"Take URLs once more that were finished or are parked."`
	config.NewURLs
	config.SheetsFlag `group:"New URLs:"`
	config.RewriteFlags
	cli.TxnFlags
}

func limits(f config.NewURLs, sheets *sheet.Sheets) frontier.Limits {
	depth, urls := sheets.Limits(f)
	return frontier.Limits{Depth: f.MaxDepth, HostURLs: f.MaxHostURLs, DepthOf: depth, HostURLsOf: urls}
}

// sheetsOf loads sheets for URLs of these schemes.
func sheetsOf(f config.SheetsFlag, names []string) (*sheet.Sheets, error) {
	schemes, err := canon.ParseSchemes(names)
	if err != nil {
		return nil, err
	}
	return sheet.Load(f.Sheets, schemes)
}

func prioritizer(f config.NewURLs) frontier.Prioritizer {
	return frontier.Prioritizer{Command: f.Prioritizer, Timeout: f.PrioritizerTimeout}
}

// Help is part of --help.
func (*addCmd) Help() string {
	return `In a crawl folder, text must come through "murlset new".

Examples:
  murlset new crawl/urls --txn seed seeds.txt |
    mfrontier add crawl/frontier --txn seed`
}

func (c *addCmd) Run(ctx context.Context, std *cli.Std) error {
	c.Store = store.Within(c.Store, frontier.Kind, store.Options{})
	f, err := open(std, c.Store, c.TxnFlags)
	if err != nil {
		return err
	}
	sheets, err := sheetsOf(c.SheetsFlag, c.Scheme)
	if err != nil {
		return err
	}
	o := frontier.AddOptions{Txn: c.Txn, Limits: limits(c.NewURLs, sheets), Prioritizer: prioritizer(c.NewURLs), Again: c.Again}
	if err := f.CheckAdd(o); err != nil {
		return err
	}
	if cli.IsText(c.Text, c.Files) {
		if err := c.unseen(f); err != nil {
			return err
		}
	}
	in, err := urls(std, c.Files, c.Text, c.Strict, c.RewriteFlags)
	if err != nil {
		return err
	}
	spec := stage.Spec{Name: "mfrontier add", Verb: "add", Store: f.Store(), Txn: c.Txn, Shape: stage.Sink}
	return cli.RunStage(ctx, std, spec, counting(std, in, "URLs"), nil, func(ctx context.Context, b *stage.Batch[record.URL, record.URL]) error {
		return f.Add(ctx, b, o)
	})
}

// unseen refuses to add text to a crawl's frontier directly. The crawl's set of URLs would not know such
// URLs, and so they would be fetched again when a page links to them. A walk has no such set.
func (c *addCmd) unseen(f *frontier.Frontier) error {
	crawl := f.Store().CrawlDir()
	fromLinks, err := f.FromLinks()
	if err != nil || crawl == "" || fromLinks {
		return err
	}
	set := filepath.Join(crawl, urlset.Kind)
	if _, err := store.Open(set, urlset.Kind, urlset.Version, store.Options{}); errors.Is(err, fault.Usage) {
		return nil // a crawl of one's own without the set
	} else if err != nil && !errors.Is(err, fault.WrongKind) { // a program may keep it
		return err
	}
	if up := filepath.Dir(filepath.Clean(c.Store)); up != "." { // as the user names it
		set, crawl = filepath.Join(up, urlset.Kind), up
	}
	txn := cmp.Or(c.Txn, "more")
	return &fault.Error{Class: fault.Usage, File: c.Store, Found: "text for the frontier of a crawl", Want: "records from murlset new, which knows the URLs of the crawl",
		Hint: "add them: " + fault.Quote(append([]string{"murlset", "new", set, "--txn", txn, "--text"}, c.Files...)...) + " | " +
			fault.Quote("mfrontier", "add", c.Store, "--txn", txn) + " && " + fault.Quote("mckpt", "commit", crawl, "--txn", txn)}
}

// counted shows in the progress how many rows were read.
type counted[T record.Row] struct {
	stage.Input[T]
	progress *cli.Progress
}

func counting[T record.Row](std *cli.Std, in stage.Input[T], what string) stage.Input[T] {
	return counted[T]{in, std.StartProgress(what, 0)}
}

func (c counted[T]) Read(row *T) error {
	err := c.Input.Read(row)
	if err == nil {
		c.progress.Add(1)
	} else {
		c.progress.Done()
	}
	return err
}

// urls opens url records, or text.
func urls(std *cli.Std, files []string, text, strict bool, flags config.RewriteFlags) (stage.Input[record.URL], error) {
	form, err := flags.Canon()
	if err != nil {
		return nil, err
	}
	if !cli.IsText(text, files) {
		return cli.OpenRecords[record.URL](std, files)
	}
	return cli.OpenText(std, files, strict, func(line string, row *record.URL) error { return urlset.ParseLine(line, form, row) })
}

// batchFlags say what a batch is.
type batchFlags struct {
	config.Batch
	config.RoundTime  `group:"The batch:"`
	config.FilterFlag `group:"The batch:"`

	config.Delays          `group:"Speed of fetching, as of mfetch:"`
	config.SheetsFlag      `group:"Speed of fetching, as of mfetch:"`
	config.ConnectionsFlag `group:"Speed of fetching, as of mfetch:"`
	Duration               time.Duration `range:"0s" group:"Speed of fetching, as of mfetch:" default:"500ms" help:"Expected duration of a contact with a new host."`
}

func (f *batchFlags) politeness(names []string) (frontier.Politeness, *sheet.Sheets, error) {
	sheets, err := sheetsOf(f.SheetsFlag, names)
	return frontier.Politeness{Policy: sheets.Politeness(f.Delays), AddrDelay: f.AddrDelay, Connections: f.Connections, KeepRobots: frontier.DefaultPoliteness.KeepRobots, Duration: f.Duration}, sheets, err
}

// judge has the filter, if there is one, judge the URLs of a batch. It takes of the frontier's memory. An error of end means that
// verdicts are not to be trusted.
func (f *batchFlags) judge(std *cli.Std, of *frontier.Frontier, names []string, o *frontier.NextOptions) (end func() error, err error) {
	if f.Filter == "" {
		return func() error { return nil }, nil
	}
	schemes, err := canon.ParseSchemes(names)
	if err != nil {
		return nil, err
	}
	lists := std.MemoryLimit() / 16
	if err := of.SetMemory(max(std.MemoryLimit()-2*lists, frontier.LeastMemory)); err != nil {
		return nil, err
	}
	rules, err := filter.Load(f.Filter, filter.Options{Memory: lists, Schemes: schemes})
	if err != nil {
		return nil, err
	}
	judge := rules.NewJudge()
	o.Judge = judge
	return func() error { return cmp.Or(judge.Close(), rules.Close()) }, nil
}

// options are the flags as they are meant; those that make no batch are fault.Usage.
func (f *batchFlags) options(txn string, schemes []string) (frontier.NextOptions, error) {
	polite, sheets, err := f.politeness(schemes)
	if err != nil {
		return frontier.NextOptions{}, err
	}
	o := frontier.NextOptions{N: f.Number, PerHost: f.PerHost, PerDomain: f.PerDomain, For: f.For, Politeness: polite, HostBytes: sheets.HostBytes(f.Batch), Txn: txn}
	return o, o.Check()
}

type nextCmd struct {
	Store string `arg:"" help:"The frontier."`
	batchFlags
	Now    *time.Time `group:"The batch:" placeholder:"TIME" format:"2006-01-02T15:04:05.999999999Z07:00" help:"Time of the round, RFC 3339 (default: now)."`
	NoWait bool       `group:"The batch:" help:"If nothing is due yet, exit with 6."`

	Refused string `group:"The batch:" type:"path" placeholder:"FILE" help:"Write them to this file, if there is a filter."`
	config.Schemes
	cli.TxnFlags
	cli.Output
}

func (c *nextCmd) Run(ctx context.Context, std *cli.Std) error {
	o, err := c.options(c.Txn, c.Scheme)
	if err != nil {
		return err
	}
	f, err := open(std, c.Store, c.TxnFlags)
	if err != nil {
		return err
	}
	// A shard takes part in each round, whether it has URLs that are due or not.
	o.Always = c.Txn != "" && f.Store().Shard() != ""
	now, err := c.when(ctx, std, f, !o.Always)
	if err != nil {
		return err
	}
	sinks, err := std.Sinks(c.Output)
	if err != nil {
		return err
	}
	spec := stage.Spec{Name: "mfrontier next", Verb: "next", Store: f.Store(), Txn: c.Txn, Now: now, Shape: stage.Source}
	if credit, err := f.OwnScores(); err != nil {
		return err
	} else if credit && o.Always {
		spec.Like = frontier.CreditColumns
	}
	if std.MemoryLimit() < frontier.Memory {
		spec.Threads = 1 // that compress the batch: each takes some 3 MiB
	}
	return cli.RunStage(ctx, std, spec, nil, sinks, func(ctx context.Context, b *stage.Batch[record.URL, record.URL]) error {
		if c.Filter == "" && o.HostBytes == nil {
			return f.Next(ctx, b, o)
		}
		return c.filtered(ctx, std, f, b, o)
	})
}

// refusedColumn is the further column of the rows of --refused.
var refusedColumn = record.NewSchema(record.KindURL, record.Column{Name: "refused", Text: true})

// filtered takes a batch without the URLs that the filter or a limit of bytes refuses. Their file is complete before the batch is committed.
func (c *nextCmd) filtered(ctx context.Context, std *cli.Std, f *frontier.Frontier, b *stage.Batch[record.URL, record.URL], o frontier.NextOptions) error {
	end, err := c.judge(std, f, c.Scheme, &o)
	if err != nil {
		return err
	}
	defer end()
	var side *cli.Side[record.URL]
	if c.Refused != "" {
		of := record.WriterOptions{Txn: c.Txn, Now: b.Now(), Like: refusedColumn}
		if b.Tx().InCrawl() {
			of.Epoch = strconv.FormatUint(b.Tx().Epoch(), 10)
		}
		if side, err = cli.CreateSide[record.URL](std, c.Refused, of); err != nil {
			return err
		}
		defer side.Abort()
	}
	o.Refused = func(u *record.URL, reason string) error {
		row := *u
		row.Extra = refusedColumn.Texts(func(string) string { return reason })
		return side.Write(reason, &row)
	}
	if err := f.Next(ctx, b, o); err != nil {
		return err
	}
	if err := end(); err != nil {
		return err
	}
	return side.Publish(record.Stage{Name: "mfrontier next refused"}, record.Ledger{})
}

// sayWait is the shortest wait for a due time that is announced, sayAgain the time between two announcements.
const (
	sayWait  = 5 * time.Second
	sayAgain = 30 * time.Second
)

// when returns the round's time, and waits for it if needed; 0 if the round's output is
// kept, which has its own time.
func (c *nextCmd) when(ctx context.Context, std *cli.Std, f *frontier.Frontier, wait bool) (record.Time, error) {
	clock := std.Now()
	if c.Now != nil {
		clock = *c.Now
	}
	now := record.Time(clock.UnixMicro())
	empty, err := f.Empty(now)
	if err != nil {
		return 0, err
	}
	if c.Txn != "" {
		done, found, err := f.Store().Lookup("next", c.Txn)
		if err == nil && found {
			err = c.again(std, done, empty)
		}
		if found || err != nil {
			return 0, err
		}
	}
	if !wait {
		return now, nil
	}
	if empty {
		std.Warn("%s is empty: the crawl is done", c.Store)
		if err := warnParked(std, f, c.Store); err != nil {
			return 0, err
		}
	}
	if due, err := f.Jumped(now); err != nil {
		return 0, err
	} else if due > 0 {
		std.Warn("%s: the clock jumped: a URL is due at %s, later than any delay of this crawl; the crawl does not wait for it", c.Store, due.Go().Format(time.RFC3339))
	}
	enough := c.Connections
	if c.NoWait || c.Now != nil { // who gives a time wants a batch of that
		enough = 1
	}
	return f.Wait(ctx, now, enough, func(ctx context.Context, due record.Time) error {
		if c.NoWait {
			return &fault.Error{Class: fault.No, File: c.Store, Found: "no URL is due before " + due.Go().Format(time.RFC3339)}
		}
		first, err := f.First(ctx)
		if err != nil {
			return err
		}
		return sleep(ctx, time.Duration(due-now)*time.Microsecond, func() {
			url := cli.Printable(first.Name)
			std.Wait(cli.Wait{URL: url, Until: due.Go(), Why: first.Why,
				Text: fmt.Sprintf("%s: no URL is due before %s: waiting for %s: %s", c.Store, due.Go().Format(time.RFC3339), url, first.Why)})
		})
	})
}

// sleep waits, and tells so: at once, if it takes sayWait or more, and then every sayAgain.
func sleep(ctx context.Context, wait time.Duration, tell func()) error {
	for first := true; wait > 0; first = false {
		if wait >= sayWait || !first {
			tell()
		}
		step := min(wait, sayAgain)
		select {
		case <-time.After(step):
			wait -= step
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// again tells who asks for a batch that was taken before why it has no URLs.
func (c *nextCmd) again(std *cli.Std, done *store.Done, empty bool) error {
	var own record.Stage
	if stages := done.Ledger.Stages; len(stages) > 0 {
		own = stages[len(stages)-1]
	}
	if _, err := os.Stat(c.Refused); c.Refused != "" && len(own.Refused) > 0 && errors.Is(err, fs.ErrNotExist) {
		return &fault.Error{Class: fault.Corrupt, File: c.Refused, Found: "missing", Want: fmt.Sprintf("the URLs that rules refused when batch %q was taken, which is before", c.Txn),
			Hint: "put it back from a copy; or give the batch up, since the next one has its URLs: " + fault.Quote("mckpt", "abandon", filepath.Dir(filepath.Clean(c.Store)))}
	}
	switch {
	case len(done.Ledger.Stages) == 0 || own.Out > 0:
	case empty:
		std.Warn("%s is empty: the crawl is done", c.Store)
	default:
		std.Warn("%s: batch %q was taken before, from an empty frontier; it is the same again", c.Store, c.Txn)
	}
	return nil
}

// committed reports whether a change was made before under its name.
func committed(f *frontier.Frontier, verb, txn string) (found bool, err error) {
	if txn != "" {
		_, found, err = f.Store().Lookup(verb, txn)
	}
	return found, err
}

type giveCmd struct {
	Store    string   `arg:"" help:"The frontier."`
	Files    []string `arg:"" optional:"" help:"Link records; default: standard input."`
	Outcomes string   `required:"" type:"path" placeholder:"FILE" help:"Fetch records of the pages, with their credit."`
	cli.Output
}

// Help is part of --help.
func (*giveCmd) Help() string {
	return `For "mfrontier update --links" of the shards that own the targets.

Examples:
  mfrontier give crawl/shard/000/frontier --outcomes marked.arrows.zst \
    links.arrows.zst -o gifts.arrows.zst`
}

func (c *giveCmd) Run(ctx context.Context, std *cli.Std) error {
	f, err := open(std, c.Store, cli.TxnFlags{})
	if err != nil {
		return err
	}
	in, err := cli.OpenRecords[record.Link](std, c.Files)
	if err != nil {
		return err
	}
	sinks, err := std.Sinks(c.Output)
	if err != nil {
		return err
	}
	spec := stage.Spec{Name: "mfrontier give", Like: frontier.CreditColumns}
	return cli.RunStage(ctx, std, spec, counting(std, in, "links"), sinks, func(ctx context.Context, b *stage.Batch[record.Link, record.Link]) error {
		return f.Give(ctx, b, func() (stage.Input[record.Fetch], error) {
			return cli.OpenRecords[record.Fetch](std, []string{c.Outcomes})
		})
	})
}

type updateCmd struct {
	Store    string   `arg:"" help:"The frontier."`
	Files    []string `arg:"" optional:"" help:"New URLs (policy walk: links); default: standard input."`
	Outcomes string   `required:"" type:"path" placeholder:"FILE" help:"Fetch records of the batch."`
	Links    string   `type:"path" placeholder:"FILE" help:"Links found in the batch, for opic and budgets."`
	NoNew    bool     `help:"There are no new URLs; do not read them."`
	config.Failures
	config.LongestWaitFlag `group:"Failures:"`
	config.NewURLs
	config.SheetsFlag `group:"New URLs:"`
	config.Budgets
	config.Schemes
	cli.TxnFlags
}

// Help is part of --help.
func (*updateCmd) Help() string {
	return `Examples:
  murlset new crawl/urls --txn r12 links.arrows.zst |
    mfrontier update crawl/frontier --txn r12 --outcomes fetched.arrows.zst`
}

func (c *updateCmd) Run(ctx context.Context, std *cli.Std) error {
	f, err := open(std, c.Store, c.TxnFlags)
	if err != nil {
		return err
	}
	fromLinks, err := f.FromLinks()
	if err != nil {
		return err
	}
	sheets, err := sheetsOf(c.SheetsFlag, c.Scheme)
	if err != nil {
		return err
	}
	o := frontier.UpdateOptions{
		Txn:     c.Txn,
		Retries: frontier.Retries{MaxAttempts: c.MaxAttempts, Delay: c.RetryDelay, MaxDelay: frontier.DefaultRetries.MaxDelay, LongestWait: c.LongestWait, Of: sheets.Attempts(c.Failures)},
		Dead:    frontier.Dead{After: c.DeadAfter, Delay: c.DeadDelay, MaxDelay: 7 * 24 * time.Hour},
		Limits:  limits(c.NewURLs, sheets),

		Prioritizer: prioritizer(c.NewURLs),
		Budgets:     c.budgets(),
		Outcomes: func() (stage.Input[record.Fetch], error) {
			return cli.OpenRecords[record.Fetch](std, []string{c.Outcomes})
		},
	}
	if c.Links != "" {
		o.Links = func() (stage.Input[record.Link], error) {
			return cli.OpenRecords[record.Link](std, []string{c.Links})
		}
	}
	if err := f.CheckUpdate(o); err != nil {
		return err
	}
	if c.NoNew && len(c.Files) > 0 {
		return &fault.Error{Class: fault.Usage, Found: "--no-new, and " + c.Files[0], Want: "one of them"}
	}
	done, err := committed(f, "update", c.Txn)
	if err != nil {
		return err
	}
	if !done && (c.NoNew || len(c.Files) > 0) { // else nothing reads them, or standard input comes from who writes them
		if _, err := os.Stat(c.Outcomes); errors.Is(err, fs.ErrNotExist) {
			return &fault.Error{Class: fault.Usage, File: c.Outcomes, Found: "no such file", Hint: "give the fetch records of the batch, as mfetch or mfpset mark wrote them"}
		}
	}
	spec := stage.Spec{Name: "mfrontier update", Verb: "update", Store: f.Store(), Txn: c.Txn, Shape: stage.Sink}
	if fromLinks {
		return change(ctx, std, spec, c, record.KindLink, "links", func(ctx context.Context, b *stage.Batch[record.Link, record.URL]) error {
			return f.UpdateFromLinks(ctx, b, o)
		})
	}
	return change(ctx, std, spec, c, record.KindURL, "URLs", func(ctx context.Context, b *stage.Batch[record.URL, record.URL]) error {
		return f.Update(ctx, b, o)
	})
}

func (c *updateCmd) budgets() frontier.Budgets {
	b := frontier.Budgets{Base: c.DomainBudget}
	if c.DomainGrowth != nil {
		b.Growth = *c.DomainGrowth
	} else if b.Base > 0 {
		b.Growth = 1
	}
	return b
}

// none is the input of an update that has no new URLs.
type none[T record.Row] struct{ kind record.Kind }

func (n none[T]) Schema() *record.Schema { return &record.Schema{Kind: n.kind} }
func (none[T]) Read(*T) error            { return io.EOF }
func (none[T]) Trailer() record.Trailer  { return record.Trailer{Verified: true} }

// change runs a stage that ends in the frontier.
func change[In record.Row](ctx context.Context, std *cli.Std, spec stage.Spec, c *updateCmd, kind record.Kind, what string, body func(context.Context, *stage.Batch[In, record.URL]) error) error {
	if c.NoNew {
		return cli.RunStage(ctx, std, spec, none[In]{kind}, nil, body)
	}
	in, err := cli.OpenRecords[In](std, c.Files)
	if e := (*fault.Error)(nil); errors.As(err, &e) && e.Hint == "" {
		switch {
		case e.Class == fault.WrongKind:
			e.Hint = "a frontier of policy walk is updated with link records, any other with url records"
		case len(c.Files) == 0:
			e.Hint = fmt.Sprintf("new %s come from a file or standard input; where there are none, say --no-new", what)
		}
	}
	if err != nil {
		return err
	}
	return cli.RunStage(ctx, std, spec, counting(std, in, what), nil, body)
}

type raiseCmd struct {
	Store    string   `arg:"" help:"The frontier."`
	Files    []string `arg:"" optional:"" help:"Url records or text (*.txt); default: standard input."`
	Text     bool     `help:"The input is text, one URL a line."`
	Strict   bool     `help:"Fail on a bad line of text instead of skipping it."`
	Priority *uint8   `placeholder:"N" help:"Priority of all of them; 0 is the highest (default: that of each record; of text: 0)."`
	config.RewriteFlags
	cli.TxnFlags
}

// Help is part of --help.
func (*raiseCmd) Help() string {
	return `URLs that do not wait (finished, in flight, parked, unknown), and those that have that
priority or a higher one already, stay as they are.

Examples:
  mfrontier raise crawl/frontier --priority 0 urls.txt
  mfrontier raise crawl/frontier --txn hubs7 hubs.arrows.zst &&
    mckpt commit crawl --txn hubs7`
}

func (c *raiseCmd) Run(ctx context.Context, std *cli.Std) error {
	f, err := open(std, c.Store, c.TxnFlags)
	if err != nil {
		return err
	}
	if err := f.CheckRaise(); err != nil {
		return err
	}
	in, err := urls(std, c.Files, c.Text, c.Strict, c.RewriteFlags)
	if err != nil {
		return err
	}
	if c.Priority != nil {
		in = ranked{in, *c.Priority}
	}
	done, err := committed(f, "raise", c.Txn)
	if err != nil {
		return err
	}
	var raised uint64
	var left map[string]uint64
	spec := stage.Spec{Name: "mfrontier raise", Verb: "raise", Store: f.Store(), Txn: c.Txn, Shape: stage.Sink}
	err = cli.RunStage(ctx, std, spec, counting(std, in, "URLs"), nil, func(ctx context.Context, b *stage.Batch[record.URL, record.URL]) (err error) {
		raised, err = f.Raise(ctx, b, c.Txn)
		left = b.Dropped()
		return err
	})
	if err == nil && !done {
		var said []string
		for _, r := range []struct{ reason, text string }{{"waiting", "that have this priority or a higher one already"}, {"in-flight", "in flight"},
			{"parked", "parked"}, {"not-waiting", "finished or unknown"}} {
			if n := left[r.reason]; n > 0 {
				said = append(said, fmt.Sprintf("%d %s", n, r.text))
			}
		}
		if len(said) > 0 {
			std.Warn("not raised: %s", strings.Join(said, "; "))
		}
		_, err = fmt.Fprintf(std.Out, "%s raised\n", cli.Count(raised, "URL"))
	}
	return err
}

// ranked gives all URLs one priority.
type ranked struct {
	stage.Input[record.URL]
	priority uint8
}

func (r ranked) Read(row *record.URL) error {
	err := r.Input.Read(row)
	row.Priority = r.priority
	return err
}

type releaseCmd struct {
	Store   string `arg:"" help:"The frontier."`
	Outcome string `placeholder:"NAME" help:"Only URLs with this outcome."`
	Host    string `help:"Only URLs of this host, or HOST:PORT."`
	cli.TxnFlags
}

// Help is part of --help.
func (*releaseCmd) Help() string {
	return `Outcomes of parked URLs: address-refused, denied, scheme-unsupported (change the
setting that refused them first), and parked (the server asked for a long wait).

Examples:
  mfrontier release crawl/frontier --outcome parked --host example.org
  mfrontier release crawl/frontier --txn again && mckpt commit crawl --txn again`
}

func (c *releaseCmd) Run(ctx context.Context, std *cli.Std) error {
	o := frontier.ReleaseOptions{Txn: c.Txn, Outcome: c.Outcome}
	if c.Host != "" {
		o.Host = hostOf(c.Host)
	}
	if err := o.Check(); err != nil {
		return err
	}
	f, err := open(std, c.Store, c.TxnFlags)
	if err != nil {
		return err
	}
	done, err := committed(f, "release", c.Txn)
	if err != nil {
		return err
	}
	var n uint64
	spec := stage.Spec{Name: "mfrontier release", Verb: "release", Store: f.Store(), Txn: c.Txn, Now: record.TimeOf(std.Now()), Shape: stage.Sink}
	err = cli.RunStage(ctx, std, spec, nil, nil, func(ctx context.Context, b *stage.Batch[record.URL, record.URL]) (err error) {
		n, err = f.Release(ctx, b, o)
		return err
	})
	if err == nil && !done {
		_, err = fmt.Fprintf(std.Out, "%s put back\n", cli.Count(n, "URL"))
	}
	return err
}

type policiesCmd struct{}

func (c *policiesCmd) Run(std *cli.Std) error { return printPolicies(std.Out) }

type checkCmd struct {
	Store string `arg:"" help:"The frontier."`
}

// Help is part of --help.
func (*checkCmd) Help() string {
	return `Exit code 3 means damage, 6 that the numbers do not add up.

Examples:
  mfrontier check crawl/frontier`
}

func (c *checkCmd) Run(ctx context.Context, std *cli.Std) error {
	f, err := open(std, c.Store, cli.TxnFlags{})
	if err != nil {
		return err
	}
	return f.Check(ctx)
}

type exportCmd struct {
	Store string `arg:"" help:"The frontier."`
	Text  bool   `help:"Write text, one URL a line."`
	cli.Output
}

// Help is part of --help.
func (*exportCmd) Help() string {
	return `Examples:
  mfrontier export crawl/frontier | mfrontier add other/frontier
  mfrontier export crawl/frontier --text | head`
}

func (c *exportCmd) Run(ctx context.Context, std *cli.Std) error {
	f, err := open(std, c.Store, cli.TxnFlags{})
	if err != nil {
		return err
	}
	if c.Text {
		return exportText(ctx, std, f, c.Output)
	}
	sinks, err := std.Sinks(c.Output)
	if err != nil {
		return err
	}
	columns, err := f.ExportColumns()
	if err != nil {
		return err
	}
	return cli.RunStage(ctx, std, stage.Spec{Name: "mfrontier export", Shape: stage.Source, Like: columns}, nil, sinks, f.Export)
}

// Command is mfrontier.
var Command = cli.Command{Name: "mfrontier", About: about, Memory: frontier.Memory, Setting: "memory.stages", Grammar: func() any { return &grammar{} }}
