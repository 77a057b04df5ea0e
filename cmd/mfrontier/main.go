// Command mfrontier keeps the URLs that are still to be fetched and says which are next.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/cli"
	"mercator/pkg/fault"
	"mercator/pkg/frontier"
	"mercator/pkg/stage"
	"mercator/pkg/urlset"
)

const about = `Keep the URLs that are still to be fetched, and say which are next.

A crawl's round begins with "next" and ends with "update"; between them the batch is in flight. Every URL that was
added gets one final outcome: "stat" shows how many have, and "check" proves it.

  mfrontier create frontier
  mfrontier add frontier --txn seed seeds.txt
  mfrontier next frontier -n 1000 --txn r1 -o batch.arrows.zst
  mfrontier update frontier --txn r1 --outcomes fetched.arrows.zst new.arrows.zst`

type grammar struct {
	cli.Common
	Create   createCmd   `cmd:"" help:"Make an empty frontier."`
	Add      addCmd      `cmd:"" help:"Put URLs in."`
	Next     nextCmd     `cmd:"" help:"Take the next batch."`
	Update   updateCmd   `cmd:"" help:"End the batch with its outcomes, and put new URLs in."`
	Plan     planCmd     `cmd:"" help:"Predict how long a batch will take."`
	Release  releaseCmd  `cmd:"" help:"Put parked URLs back."`
	Stat     statCmd     `cmd:"" help:"Show what the frontier holds."`
	Hosts    hostsCmd    `cmd:"" help:"Show one host's whole state."`
	Policies policiesCmd `cmd:"" help:"List the policies."`
	Check    checkCmd    `cmd:"" help:"Read everything and compare it with the books."`
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
	Store   string  `arg:"" help:"Folder to make, such as crawl/frontier."`
	Policy  string  `default:"priority" help:"Order of service; \"mfrontier policies\" lists them."`
	Queues  int     `placeholder:"N" help:"Policy priority: front queues (Mercator's K), 1 to 16; 0: 3. URLs of a higher priority number share the last."`
	Bias    float64 `placeholder:"N" help:"Policy priority: how many times as often a front queue is drawn as the next, 1 or more; 0: 2."`
	Strict  bool    `help:"Policy priority: no draws; a front queue is served only while those before it are empty."`
	Seed    uint64  `placeholder:"N" help:"Policies priority, revisit and walk: seed of the draws. Policy opic: of the order among URLs of equal credit."`
	Workers int     `placeholder:"N" help:"Policy fifo: queues, to which hosts are dealt, 1 to 4096; 0: 256."`
	Walkers int     `placeholder:"N" help:"Policy walk: walks that go on at a time, 1 to 4096; 0: 100. A batch has one URL of each."`
	Restart float64 `placeholder:"N" help:"Policy walk: chance that a walk begins anew instead of following a link, above 0 and at most 1; 0: 1/7."`
	Tax     float64 `placeholder:"N" help:"Policy opic: part of a page's credit that all URLs share, 0.000001 to 1; 0: 0.1. The rest goes to the URLs that it links to."`

	Buffer int `placeholder:"N" help:"URLs of each run of a queue that are in memory when it is read or written, 16 to 8192, as Mercator's buffers of 600; 0: what 64 KiB hold, some 600 (with more than four front queues less). Fewer take less memory and compress worse."`

	NewShare    float64       `placeholder:"N" help:"Policy revisit: share of URLs never visited in a batch, while pages to visit again are due too; more than 0, at most 1; 0: 0.5."`
	MinInterval time.Duration `help:"Policy revisit: least time between two visits of a page, 1s or more; 0: 1h."`
	MaxInterval time.Duration `help:"Policy revisit: longest time between two visits of a page, up to 8760h; 0: 720h. As long as the least: all pages are visited as often."`
	GoneAfter   int           `placeholder:"N" help:"Policy revisit: visits in a row that do not find a page, after which it is finished, 1 to 255; 0: 3."`
}

// Help is printed by mfrontier create --help.
func (*createCmd) Help() string {
	return `Makes a store. "mckpt init" does this for a whole crawl. Making the same again is no error.
The policy and its parameters are fixed from then on.

Policy revisit never ends by itself. A page that was found is visited again, after a time that depends on
how often it was seen to change, on Last-Modified, and on how many visits the rounds had room for: pages
that change faster than these can follow are visited less often than others. A page that changes and one
that did not are told apart by content fingerprints; visits are conditional where the server gave ETag or
Last-Modified. Before the time to which a reply said that it stays (fresh_until of its row) a page is not
visited, as far as it was ever seen to stay half as long, and not any more once it had changed before.
A URL is finished, as under other policies, when its first visit finds no page; later, when
--gone-after visits in a row find none (404, 410, other errors, no attempts left, robots.txt), each twice
as long after the last; and at once when its port is refused.

  mfrontier create crawl/frontier
  mfrontier create crawl/frontier --policy priority --queues 5 --bias 3
  mfrontier create crawl/frontier --policy fifo --workers 500
  mfrontier create crawl/frontier --policy walk --walkers 20 --seed 7
  mfrontier create crawl/frontier --policy revisit --new-share 0.3 --min-interval 6h
  mfrontier create crawl/frontier --policy opic --tax 0.15`
}

func (c *createCmd) Run() error {
	p := frontier.Params{Policy: c.Policy, Queues: c.Queues, Bias: c.Bias, Strict: c.Strict, Seed: c.Seed, Workers: c.Workers, Walkers: c.Walkers, Restart: c.Restart,
		NewShare: c.NewShare, MinInterval: c.MinInterval, MaxInterval: c.MaxInterval, GoneAfter: c.GoneAfter, Buffer: c.Buffer, Tax: c.Tax}
	return frontier.Create(c.Store, p, store.Options{})
}

type addCmd struct {
	Store  string   `arg:"" help:"The frontier."`
	Files  []string `arg:"" optional:"" help:"Files of url records, or of URLs one a line (*.txt, or with --text); default: standard input."`
	Text   bool     `help:"Read URLs, one a line."`
	Strict bool     `help:"A bad line of text is an error, and text without a URL; otherwise bad lines are named, skipped and counted."`
	newFlags
	cli.RewriteFlags
	cli.TxnFlags
}

// newFlags say what becomes of new URLs.
type newFlags struct {
	MaxDepth           int           `placeholder:"N" help:"Drop new URLs that are more links than this from a seed; 0: any number."`
	MaxHostURLs        uint64        `name:"max-host-urls" placeholder:"N" help:"Drop new URLs of a host that has had this many, finished ones included; 0: any number."`
	Prioritizer        string        `placeholder:"COMMAND" help:"What gives new URLs their priority and score: a command that reads them as JSON, one a line, and answers each with a line \"PRIORITY\" or \"PRIORITY SCORE\"; or depth, which needs no command. Default: as they come."`
	PrioritizerTimeout time.Duration `default:"10s" help:"Time that the command has for an answer."`
}

func (f *newFlags) limits() frontier.Limits {
	return frontier.Limits{Depth: f.MaxDepth, HostURLs: f.MaxHostURLs}
}

func (f *newFlags) prioritizer() frontier.Prioritizer {
	return frontier.Prioritizer{Command: f.Prioritizer, Timeout: f.PrioritizerTimeout}
}

// helpPrioritizer is part of the help of add and update.
const helpPrioritizer = `
--prioritizer asks a program for the priority of each new URL: it decides in which front queue the URL
waits. On its standard input is a JSON object a line, with the names that mcat shows: url, host, depth,
via (the page it was found on), score. The score is that page's, so a program that answers
"PRIORITY SCORE" hands what it thinks of a page on to the pages it links to. Its answer must not wait in a
buffer, nor what it reads: mawk, the awk of Debian, needs -W interactive. A program that hangs, dies, or says too little or too much ends the command with exit
code 7, and nothing has changed.

  --prioritizer depth
  --prioritizer "mawk -W interactive '{ print (/\"url\":\"[^\"]*[?]/ ? 2 : 0); fflush() }'"
  --prioritizer 'jq -r --unbuffered "if .depth < 3 then 0 else 1 end"'`

// Help is printed by mfrontier add --help.
func (*addCmd) Help() string {
	return `Puts every record in, whether or not the URL was seen before: that is the question
that "murlset new" answers. So text is refused in a crawl folder, but for a walk. Those beyond --max-depth and --max-host-urls are dropped. Records with a due time wait for it. A text line is brought
into canonical form first. Columns that url records do not have are not kept, but for those that "mfrontier export" of a frontier
of the same policy adds.

Of policy walk, what is added joins the start set, from which walks begin: once each, without its due
time and depth; a URL that is in it already is dropped as "seen".

The same --txn again changes nothing, also where the flags say otherwise now: that is told.

  murlset new crawl/urls --txn seed seeds.txt | mfrontier add crawl/frontier --txn seed
  mfrontier add frontier more.txt
` + helpPrioritizer
}

func (c *addCmd) Run(ctx context.Context, std *cli.Std) error {
	f, err := open(std, c.Store, c.TxnFlags)
	if err != nil {
		return err
	}
	o := frontier.AddOptions{Txn: c.Txn, Limits: c.limits(), Prioritizer: c.prioritizer()}
	if err := f.CheckAdd(o); err != nil {
		return err
	}
	if _, err := repeated(std, f, "add", c.Txn, o); err != nil {
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
	spec := stage.Spec{Name: "mfrontier add", Verb: "add", Store: f.Store(), Txn: c.Txn, NoOutput: true, LateLock: true}
	return cli.RunStage(ctx, std, spec, counting(std, in, "URLs"), nil, func(ctx context.Context, b *stage.Batch[record.URL, record.URL]) error {
		return f.Add(ctx, b, o)
	})
}

// unseen refuses text for the frontier of a crawl whose set of URLs lets each through once: what
// passes the set by is fetched again when a page links to it. A walk has no such test.
func (c *addCmd) unseen(f *frontier.Frontier) error {
	crawl := f.Store().CrawlDir()
	m, err := f.Store().Current()
	if err != nil || crawl == "" || m.Params["policy"] == "walk" {
		return err
	}
	set := filepath.Join(crawl, urlset.Kind)
	if _, err := store.Open(set, urlset.Kind, urlset.Version, store.Options{}); errors.Is(err, fault.Usage) {
		return nil // a crawl of one's own without the set
	} else if err != nil {
		return err
	}
	if up := filepath.Dir(filepath.Clean(c.Store)); up != "." { // as the user names it
		set, crawl = filepath.Join(up, urlset.Kind), up
	}
	txn := cmp.Or(c.Txn, "more")
	return &fault.Error{Class: fault.Usage, File: c.Store, Found: "text for the frontier of a crawl, past its set of URLs", Want: "records from murlset new",
		Hint: strings.Join(strings.Fields(fmt.Sprintf("murlset new %s --txn %s --text %s", set, txn, strings.Join(c.Files, " "))), " ") +
			fmt.Sprintf(" | mfrontier add %s --txn %s && mckpt commit %s --txn %[2]s", c.Store, txn, crawl)}
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
func urls(std *cli.Std, files []string, text, strict bool, flags cli.RewriteFlags) (stage.Input[record.URL], error) {
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
	Number    *int          `short:"n" help:"URLs in the batch, at most (default: 10000)."`
	PerHost   int           `placeholder:"N" help:"URLs of one host, at most; 0: any number."`
	PerDomain int           `placeholder:"N" help:"URLs of one registered domain (example.co.uk), at most; 0: any number. At most --number URLs of hosts and domains that have their share are passed over, so the batch may be smaller."`
	For       time.Duration `help:"As many URLs as can be fetched in this time, of each host and of all, with the delays and connections below and the speeds that hosts had before, but no more than --number; 0s: any time. In a crawl folder 30s, unless crawl.toml says otherwise (round_time)."`

	MinDelay    time.Duration `default:"1s" help:"As mfetch --min-delay."`
	DelayFactor float64       `default:"10" help:"As mfetch --delay-factor."`
	MaxDelay    time.Duration `default:"30s" help:"As mfetch --max-delay."`
	AddrDelay   time.Duration `default:"500ms" help:"As mfetch --addr-delay, for the addresses that records carry or hosts were last contacted at. With --for each host has its address alone."`
	Connections int           `default:"256" help:"As mfetch --connections."`
	Duration    time.Duration `default:"500ms" help:"Duration of a contact with a host that was never contacted."`
}

func (f *batchFlags) politeness() frontier.Politeness {
	return frontier.Politeness{MinDelay: f.MinDelay, DelayFactor: f.DelayFactor, MaxDelay: f.MaxDelay, AddrDelay: f.AddrDelay, Connections: f.Connections, Duration: f.Duration}
}

// defaultNumber is the size of a batch for which no number is given.
const defaultNumber = 10_000

// options are the flags as they are meant; those that make no batch are fault.Usage.
func (f *batchFlags) options(txn string) (frontier.NextOptions, error) {
	n := defaultNumber
	if f.Number != nil {
		n = *f.Number
	}
	if n < 1 {
		return frontier.NextOptions{}, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("a batch of %d URLs", n), Want: "at least 1"}
	}
	o := frontier.NextOptions{N: n, PerHost: f.PerHost, PerDomain: f.PerDomain, For: f.For, Politeness: f.politeness(), Txn: txn}
	if err := o.Politeness.Check(); err != nil {
		return o, err
	}
	return o, o.Check()
}

type nextCmd struct {
	Store string `arg:"" help:"The frontier."`
	batchFlags
	Now    *time.Time `placeholder:"TIME" format:"2006-01-02T15:04:05.999999999Z07:00" help:"The round's time, RFC 3339 (default: the clock)."`
	NoWait bool       `help:"If URLs wait but none is due yet, end with exit code 6 instead of waiting."`
	cli.TxnFlags
	cli.Output
}

// Help is printed by mfrontier next --help.
func (*nextCmd) Help() string {
	return `Takes a batch and puts it in flight. The rows stand in the order in which they should be
started, which is that of the policy: hosts in turn, as a rule, so that no host fills a batch while
others wait; within a host first in, first out. URLs that were tried before and are due are served
with the rest.

A batch has at most a number of URLs (-n), and no more than can be fetched in a time (--for): a slow host then gives
few URLs and a fast one many, and hosts with much to do begin first, so that all are done at about
the same moment. Each host gets what it can do in four fifths of the time: some contacts will take
longer than before. Hosts that were never contacted are taken to need --duration. Each host is taken to have
its address alone, since addresses are not known before mresolve: fifty hosts on one address take some five
times as long. Plan what mresolve made of the batch, and take one of fewer URLs of these hosts (--per-host).

If nothing is due, it waits for the earliest due time. An empty batch means that no URL is left, but for
parked ones ("mfrontier release"): the crawl is done, and the round can be closed like any other.

The same --txn again gives the same batch again, also where the flags say otherwise now: that is told. A batch
with other flags needs another name, once this round is closed or given up ("mckpt abandon").

  mfrontier next crawl/frontier -n 10000 --txn r12 -o batch.arrows.zst
  mfrontier next crawl/frontier --for 30m --connections 64 --txn r12 -o batch.arrows.zst
  mfrontier next crawl/frontier --per-host 50 --txn r12 | mresolve crawl/dns --txn r12 -o resolved.arrows.zst`
}

func (c *nextCmd) Run(ctx context.Context, std *cli.Std) error {
	o, err := c.options(c.Txn)
	if err != nil {
		return err
	}
	f, err := open(std, c.Store, c.TxnFlags)
	if err != nil {
		return err
	}
	now, err := c.when(ctx, std, f, o)
	if err != nil {
		return err
	}
	sinks, err := std.Sinks(c.Output)
	if err != nil {
		return err
	}
	spec := stage.Spec{Name: "mfrontier next", Verb: "next", Store: f.Store(), Txn: c.Txn, Now: now, Spooled: true}
	if std.MemoryLimit() < frontier.Memory {
		spec.Threads = 1 // that compress the batch: each takes some 3 MiB
	}
	return cli.RunStage(ctx, std, spec, nil, sinks, func(ctx context.Context, b *stage.Batch[record.URL, record.URL]) error {
		return f.Next(ctx, b, o)
	})
}

// sayWait is the shortest wait for a due time that is announced, sayAgain the time between two announcements.
const (
	sayWait  = 5 * time.Second
	sayAgain = 30 * time.Second
)

// when is the round's time, waited for if need be; 0 for a round whose output is
// kept and has its own.
func (c *nextCmd) when(ctx context.Context, std *cli.Std, f *frontier.Frontier, o frontier.NextOptions) (record.Time, error) {
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
			err = c.again(std, f, o, done, empty)
		}
		if found || err != nil {
			return 0, err
		}
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
		std.Warn("%s: the clock jumped: a URL is due at %s, which is later than any delay of this crawl: such URLs are not waited for", c.Store, due.Go().Format(time.RFC3339))
	}
	return f.Wait(ctx, now, func(ctx context.Context, due record.Time) error {
		if c.NoWait {
			return &fault.Error{Class: fault.No, File: c.Store, Found: "no URL is due before " + due.Go().Format(time.RFC3339)}
		}
		first, err := f.First()
		if err != nil {
			return err
		}
		why := "its host is to be left alone until then"
		switch {
		case first.URL.Attempt > 0:
			why = fmt.Sprintf("it is tried again after %s", cli.Count(uint64(first.URL.Attempt), "failure"))
		case first.Visit.Visits > 0:
			why = "its next visit"
		}
		return sleep(ctx, time.Duration(due-now)*time.Microsecond, func() {
			std.Warn("%s: no URL is due before %s: waiting for %s: %s", c.Store, due.Go().Format(time.RFC3339), cli.Printable(first.URL.URL), why)
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

// again tells who asks for a batch that was taken before, and is given again as it
// was, where that is not what the flags say now.
func (c *nextCmd) again(std *cli.Std, f *frontier.Frontier, o frontier.NextOptions, done *store.Done, empty bool) error {
	had, has, err := f.Repeats(o)
	if err != nil {
		return err
	}
	batch := fmt.Sprintf("%s: the batch of %q was taken before, and is given again as it was", c.Store, c.Txn)
	if stages := done.Ledger.Stages; len(stages) > 0 && stages[len(stages)-1].Out == 0 {
		if empty {
			std.Warn("%s is empty: the crawl is done", c.Store)
		} else {
			std.Warn("%s: empty, as the frontier was then", batch)
		}
	}
	if text := differ(had, has); text != "" {
		std.Warn("%s: %s", batch, text)
	}
	return nil
}

// differ says how flags of before differ from those of now; "" where they do not.
func differ(had, has []string) string {
	switch was, is := strings.Join(had, " "), strings.Join(has, " "); {
	case was == "" && is == "":
		return ""
	case was == "":
		return "without " + is
	case is == "":
		return "with " + was
	default:
		return "with " + was + ", not " + is
	}
}

// repeated tells whether a change was made before under its name, and its user where that was with other flags.
func repeated(std *cli.Std, f *frontier.Frontier, verb, txn string, o frontier.Options) (bool, error) {
	if txn == "" {
		return false, nil
	}
	_, found, err := f.Store().Lookup(verb, txn)
	if !found || err != nil {
		return found, err
	}
	had, has, err := f.Repeats(o)
	if text := differ(had, has); text != "" {
		std.Warn("%s: the %s of %q was made before, and stays as it was: %s", f.Store().Dir(), verb, txn, text)
	}
	return true, err
}

type updateCmd struct {
	Store         string        `arg:"" help:"The frontier."`
	Files         []string      `arg:"" optional:"" help:"Files of url records: the new URLs; of policy walk, of link records (default: standard input)."`
	NoNew         bool          `help:"There are no new URLs (of policy walk: no links): read neither FILES nor standard input."`
	Outcomes      string        `required:"" type:"path" placeholder:"FILE" help:"Fetch records of the batch, one of role page for each URL."`
	Links         string        `type:"path" placeholder:"FILE" help:"Link records found in the batch. They must be whole and of this round; the priority policy needs nothing else of them."`
	MaxAttempts   int           `default:"3" help:"Fetches of one URL before it is given up, 1 to 255."`
	RetryDelay    time.Duration `default:"1m" help:"Wait after a first failure that may pass; doubles with each further one."`
	MaxRetryDelay time.Duration `default:"24h" help:"Longest wait of our own making; a server's Retry-After may ask for more."`
	LongestWait   time.Duration `default:"24h" help:"As mfetch --longest-wait: a URL whose server asks for more (Retry-After) is parked."`
	DeadAfter     int           `placeholder:"N" help:"Contacts with a host that fail, one after the other, until it is taken to be dead and left alone; 0: never."`
	DeadDelay     time.Duration `default:"1h" help:"How long a dead host is left alone; doubles each time that it is found dead again."`
	MaxDeadDelay  time.Duration `default:"168h" help:"Longest time for which a dead host is left alone."`
	newFlags
	DomainBudget uint64   `placeholder:"N" help:"New URLs of one registered domain (example.co.uk) that a round lets into the queues; others are held for later rounds. Needs --links. 0: any number."`
	DomainGrowth *float64 `placeholder:"N" help:"By how much --domain-budget is larger for each other domain that links to it (default 1); 256 of these count at the most."`
	cli.TxnFlags
}

// Help is printed by mfrontier update --help.
func (*updateCmd) Help() string {
	return `Reads the new URLs to their end, then the outcomes, and makes one change of both. Failures
that may pass (no connection, timeout, DNS server failure, robots.txt not to be had, status
429 and 5xx) are queued again; deferred URLs go back to their old places. URLs
that a setting refused (address-refused, denied, scheme-unsupported without a module) are parked until "mfrontier
release"; those of servers that ask for more than --longest-wait, until that time. All others are finished. Outcomes that are not exactly those of the batch in flight are refused. The same --txn again
changes nothing, also where the flags say otherwise now: that is told.

With --dead-after N, a host with N failed contacts in a row is left alone for a time (a contact is a row with addr and fetch_time): batches have no URLs of it, as
long as there are others. Then it gets another chance: those of its URLs that batches have met
meanwhile come back in their order, but side by side with those that still had to come.

Policy opic needs the links: they say which URLs get the credit of the pages that were fetched. Its
update reads and writes all that waits.

New URLs beyond --max-depth and --max-host-urls are dropped, as "too-deep" and "host-full" in the
books. They were seen then: links to them are not new URLs again, whatever the limits are later.

--domain-budget is for spam farms. A round lets N new URLs of a registered domain into the queues, and
--domain-growth more for each other domain that was seen to link to it, so that hosts and links made below one
domain gain nothing. What is over the budget is lost in no case: it counts as pending ("held" in stat), comes
back in a later round, and is judged again by the budget of then. A new URL that still fits goes before those that are held.
Links count from the first round with a budget on; nofollow links do not.

  murlset new crawl/urls --txn r12 links.arrows.zst |
    mfrontier update crawl/frontier --txn r12 --outcomes fetched.arrows.zst --links links.arrows.zst
  mfrontier update crawl/frontier --txn r12 --outcomes fetched.arrows.zst --no-new

Policy walk needs no new URLs, but all links of the batch, and reads them in their place: neither
"murlset new" nor "mfpset mark" has a part in a walk. A link counts if it leads to a page (a, area, frame,
iframe, redirect, refresh, an entry of a listing or menu), nofollow or not; others are dropped as
"not-followed". --max-depth bounds the links of a walk since it last began anew.

  mextract --warc crawl/fetch --txn r12 fetched.arrows.zst |
    mfrontier update crawl/frontier --txn r12 --outcomes fetched.arrows.zst
` + helpPrioritizer
}

func (c *updateCmd) Run(ctx context.Context, std *cli.Std) error {
	f, err := open(std, c.Store, c.TxnFlags)
	if err != nil {
		return err
	}
	walks, err := f.Walks()
	if err != nil {
		return err
	}
	o := frontier.UpdateOptions{
		Txn:     c.Txn,
		Retries: frontier.Retries{MaxAttempts: c.MaxAttempts, Delay: c.RetryDelay, MaxDelay: c.MaxRetryDelay, LongestWait: c.LongestWait},
		Dead:    frontier.Dead{After: c.DeadAfter, Delay: c.DeadDelay, MaxDelay: c.MaxDeadDelay},
		Limits:  c.limits(),

		Prioritizer: c.prioritizer(),
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
	done, err := repeated(std, f, "update", c.Txn, o)
	if err != nil {
		return err
	}
	if !done && (c.NoNew || len(c.Files) > 0) { // else nothing reads them, or standard input comes from who writes them
		if _, err := os.Stat(c.Outcomes); errors.Is(err, fs.ErrNotExist) {
			return &fault.Error{Class: fault.Usage, File: c.Outcomes, Found: "no such file", Hint: "it has what became of the URLs of the batch: mfetch writes it, or mfpset mark behind it"}
		}
	}
	spec := stage.Spec{Name: "mfrontier update", Verb: "update", Store: f.Store(), Txn: c.Txn, NoOutput: true, LateLock: true}
	if walks {
		return change(ctx, std, spec, c, record.KindLink, "links", func(ctx context.Context, b *stage.Batch[record.Link, record.URL]) error {
			return f.Walk(ctx, b, o)
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

type releaseCmd struct {
	Store   string `arg:"" help:"The frontier."`
	Outcome string `placeholder:"NAME" help:"Only URLs parked as address-refused, denied, scheme-unsupported or parked."`
	Host    string `help:"Only URLs of this host, with :PORT where it is not the scheme's default."`
	cli.TxnFlags
}

// Help is printed by mfrontier release --help.
func (*releaseCmd) Help() string {
	return `Makes parked URLs due at once: the next batches have them. A URL is parked where it was not fetched because

  address-refused, denied, scheme-unsupported   a setting refused it: change that first (--allow-net, --deny, --scheme)
  parked                                        its server asks for a longer wait than --longest-wait; when that
                                                time has come, a crawl that is run again fetches it without this

A crawl does not wait for parked URLs: it ends without them, and tells how many there are, as "stat" does.
Those that are refused again are parked again. Repeating a committed --txn changes nothing.

  mfrontier release crawl/frontier
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
	done, err := repeated(std, f, "release", c.Txn, o)
	if err != nil {
		return err
	}
	var n uint64
	spec := stage.Spec{Name: "mfrontier release", Verb: "release", Store: f.Store(), Txn: c.Txn, Now: record.TimeOf(std.Now()), NoOutput: true}
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

// Help is printed by mfrontier policies --help.
func (*policiesCmd) Help() string {
	return `Prints the policies that "mfrontier create --policy" and crawl.toml know, each with what it does.`
}

func (c *policiesCmd) Run(std *cli.Std) error { return printPolicies(std.Out) }

type checkCmd struct {
	Store string `arg:"" help:"The frontier."`
}

// Help is printed by mfrontier check --help.
func (*checkCmd) Help() string {
	return `Reads every file that counts now and its checksums ("mckpt verify" reads those of all
checkpoints, too), counts every URL and host, and compares that with the
books: discovered = pending + in flight + finished. Exit code 3 means damage, 6 that the
books do not balance.

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
	Text  bool   `help:"Write URLs, one a line."`
	cli.Output
}

// Help is printed by mfrontier export --help.
func (*exportCmd) Help() string {
	return `Writes every URL that is not finished: those in flight first, then the others in the order in
which they would be served. The records are those that were put in, with all columns, attempts and due times, so that they can be
added to another frontier: there they have the same order within each host and front queue, and wait for the same times.
Further columns hold what the policy keeps of each URL: of revisit visits, changes, observed_us, last_visit, gone, promised_until and
promises_broken, of pages that were found; of opic credit. Of walk the start set is written, each URL once; the walks begin
anew where it is added. What is known of hosts and domains, the lambda page's credit and which URLs have finished stay behind.

With --text only the URLs remain, and where they are added they are new: without attempts, due times, visits and
credit, and of depth 0. As JSON all is kept: mcat shows it, and reads it with --like.

  mfrontier export crawl/frontier | mfrontier add other/frontier --prioritizer ''
  mfrontier export crawl/frontier -o all.arrows.zst && mcat all.arrows.zst > all.json
  mcat --from json --kind url --like all.arrows.zst all.json | mfrontier add other/frontier
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
	return cli.RunStage(ctx, std, stage.Spec{Name: "mfrontier export", Like: columns}, nil, sinks, f.Export)
}

func main() { os.Exit(cli.Main("mfrontier", about, &grammar{}, frontier.Memory)) }
