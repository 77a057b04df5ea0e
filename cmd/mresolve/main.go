// Command mresolve turns the host names of URL records into addresses.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/cli"
	"mercator/pkg/fault"
	"mercator/pkg/fetch"
	"mercator/pkg/resolve"
	"mercator/pkg/stage"
)

const about = "Resolve the host names of URL records, many at a time, with a cache on disk."

type grammar struct {
	cli.Common
	Resolve resolveCmd `cmd:"" default:"withargs" name:"resolve" help:"Add addresses to url records (the default)."`
	Names   namesCmd   `cmd:"" help:"Resolve names, one a line, to JSON lines."`
	Canon   canonCmd   `cmd:"" help:"Let links to a host that is an alias lead to its canonical name."`
	Create  createCmd  `cmd:"" help:"Make an empty dns store."`
}

// askFlags say how servers are asked.
type askFlags struct {
	Server   cli.Servers   `placeholder:"ADDR[:PORT]" help:"DNS server: an IP address, with its port where that is not 53; may be given more than once (default: those of /etc/resolv.conf)."`
	Rate     float64       `placeholder:"N" help:"Questions a second to one server, at most (default: any number)."`
	InFlight int           `default:"1000" help:"Questions in flight at most, 1 to 100000, and as many again of those whose first time was up; more than 1000 need 32 MiB of --memory, and 11 KiB each."`
	Timeout  time.Duration `default:"1s" help:"Wait for the first attempt; each further one waits twice as long."`
	Attempts int           `default:"5" help:"Questions asked before a name counts as timed out, 1 to 100."`
}

// besideQuestions is what a command takes beside its questions in flight, in bytes, and tables in a
// quarter of its memory: measured with a filter, 3,000,000 names in its store, and servers that
// are slow, or never answer.
const besideQuestions = 24 << 20

// cacheFlags say how long answers are kept.
type cacheFlags struct {
	MinTTL time.Duration `name:"min-ttl" default:"1m" help:"Keep answers at least this long."`
	MaxTTL time.Duration `name:"max-ttl" default:"24h" help:"Keep answers at most this long."`
}

// silentFlag is of the stages.
type silentFlag struct {
	SilentOK bool `name:"silent-ok" help:"Pass names on as timed out even where no server answers anything."`
}

// config is what these flags say of a resolver.
func (f *cacheFlags) config() (cfg resolve.Config, err error) {
	switch {
	case f.MinTTL <= 0:
		err = outOfRange("--min-ttl", f.MinTTL, "more than 0")
	case f.MaxTTL < f.MinTTL:
		err = outOfRange("--max-ttl", f.MaxTTL, fmt.Sprintf("--min-ttl, %v, or more", f.MinTTL))
	}
	return resolve.Config{MinTTL: f.MinTTL, MaxTTL: f.MaxTTL}, err
}

// resolver makes the resolver of these flags; cfg has what they do not say.
func (f *askFlags) resolver(std *cli.Std, cfg resolve.Config) (*resolve.Resolver, error) {
	switch {
	case f.InFlight < 1 || f.InFlight > 100_000:
		return nil, outOfRange("--in-flight", f.InFlight, "1 to 100000")
	case f.Attempts < 1 || f.Attempts > 100:
		return nil, outOfRange("--attempts", f.Attempts, "1 to 100")
	case f.Timeout <= 0:
		return nil, outOfRange("--timeout", f.Timeout, "more than 0")
	case f.Rate != 0 && !(f.Rate >= 0.001 && f.Rate <= 1e9):
		return nil, outOfRange("--rate", f.Rate, "0.001 to 1e9, or 0 for any")
	}
	if room := max(1000, (std.MemoryLimit()*3/4-besideQuestions)/resolve.QuestionSize); int64(f.InFlight) > room {
		return nil, &fault.Error{Class: fault.Usage,
			Found: fmt.Sprintf("--in-flight %d", f.InFlight),
			Want:  fmt.Sprintf("%d at most, with --memory %dM", room, std.MemoryLimit()>>20),
			Hint:  fmt.Sprintf("--memory %dM has room for so many", ((int64(f.InFlight)*resolve.QuestionSize+besideQuestions)*4/3+1<<20-1)>>20)}
	}
	cfg.Servers, cfg.Rate, cfg.InFlight, cfg.Timeout, cfg.Attempts, cfg.Now = f.Server, f.Rate, f.InFlight, f.Timeout, f.Attempts, std.Now
	cfg.Mute = func() { std.Warn("no DNS server has answered anything yet") }
	return resolve.New(cfg)
}

// outOfRange says what a flag has, and may have.
func outOfRange(flag string, value any, want string) error {
	return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("%s %v", flag, value), Want: want}
}

type resolveCmd struct {
	Store string   `arg:"" help:"The dns store, such as crawl/dns."`
	Files []string `arg:"" optional:"" help:"Files of url records (default: standard input)."`
	askFlags
	cacheFlags
	silentFlag
	Family string `default:"any" enum:"any,4,6" help:"Addresses wanted: any (IPv4 first), 4 or 6."`
	cli.TxnFlags
	cli.Output
	Replay []string `placeholder:"STORE" help:"Answer from the DNS records that mfetch saved in this fetch store (or in WARC files, each named), for the same --txn, instead of asking servers."`
}

// Help is printed by mresolve resolve --help.
func (*resolveCmd) Help() string {
	return `Reads url records and writes the same records in the same order, with the columns
addr (addresses in order of preference), addr_expires, and addr_error for a name that
has none. A name that cannot be resolved is a row with its reason, never a lost one: nxdomain,
no-address, servfail, refused, timeout, network-error, bad-reply, cname-chain (a loop, or more
than 16 aliases) or bad-name. Of one name at most 16 addresses are kept.
Answers are kept in STORE until they expire. --stats says of how many names that were asked
for all addresses are special-purpose ones, such as 127.0.0.1: mfetch contacts these only
with --allow-net.

Where no server answers anything, neither for a name nor for the root's name servers, which
are asked for meanwhile, the command fails with exit code 6 before it passes on a name without an
answer, and commits nothing: no URL loses an attempt, and the round can be run again once a
server is there. With the defaults that is after 34 s; a warning comes after 3 s.

While a row waits for a name that is slow to come, those behind it wait in a temporary file
of up to 256 MiB, in TMPDIR, and their names are asked for.

  mfrontier next crawl/frontier --txn r1 | mresolve crawl/dns --txn r1 | mcat --head 3
  mresolve crawl/dns --server 127.0.0.1:5353 -o resolved.arrows.zst batch.arrows.zst`
}

// What the program takes beside its heap, in bytes, and how far the heap may grow within
// --memory between two collections: a batch from the cache has little that lives, and
// a third of its time went to a collector that was given less room.
const (
	outsideHeap = 18 << 20
	heapGrowth  = 400 // percent
)

func growHeap(std *cli.Std) {
	debug.SetMemoryLimit(max(std.MemoryLimit()-outsideHeap, std.MemoryLimit()/4))
	debug.SetGCPercent(heapGrowth)
}

func (c *resolveCmd) Run(ctx context.Context, std *cli.Std) error {
	growHeap(std)
	run := batch[record.URL]{store: c.Store, files: c.Files, txn: c.TxnFlags, output: c.Output, unit: "URLs",
		spec: stage.Spec{Name: "mresolve", Verb: "resolve"}, silentOK: c.SilentOK}
	if len(c.Replay) > 0 {
		parts, err := fetch.Saved(c.Replay, store.Options{})
		if err != nil {
			return err
		}
		if run.replay, err = resolve.OpenReplay(parts, c.Txn, std.MemoryLimit()/4); err != nil {
			return err
		}
		defer run.replay.Close()
	} else {
		cfg, err := c.config()
		if err != nil {
			return err
		}
		cfg.Family = c.Family
		if run.resolver, err = c.resolver(std, cfg); err != nil {
			return err
		}
		defer run.resolver.Close()
	}
	if run.resolver != nil {
		run.spec.Resolver = run.resolver.Settings() // for mfetch, which looks up where robots.txt leads
	}
	return run.do(ctx, std, func(ctx context.Context, st *store.Store, b *stage.Batch[record.URL, record.URL], opt resolve.Options) (any, error) {
		stats, err := resolve.Resolve(ctx, st, b, opt)
		warnSilent(std, stats)
		return stats, err
	})
}

// warnSilent tells of servers of which none answered. Each row says it too, but in a pipe
// nobody sees them, and its URLs would use up their attempts.
func warnSilent(std *cli.Std, stats resolve.Stats) {
	if stats.Silent > 0 && stats.Silent == stats.Asked {
		std.Warn("no answer from any DNS server, for %s; a server is named by --server, or by servers in crawl.toml", cli.Count(stats.Silent, "name"))
	}
}

// batch is a stage that looks up the names of a stream's rows.
type batch[R record.Row] struct {
	store    string
	files    []string
	txn      cli.TxnFlags
	output   cli.Output
	unit     string // of progress
	spec     stage.Spec
	resolver *resolve.Resolver
	replay   *resolve.Replay
	silentOK bool
}

// do runs the stage, whose body returns what --stats tells of names.
func (r *batch[R]) do(ctx context.Context, std *cli.Std, body func(context.Context, *store.Store, *stage.Batch[R, R], resolve.Options) (any, error)) error {
	st, err := std.OpenStore(r.store, resolve.StoreKind, resolve.StoreVersion, r.txn)
	if err != nil {
		return err
	}
	in, err := cli.OpenRecords[R](std, r.files)
	if err != nil {
		return err
	}
	sinks, err := std.Sinks(r.output)
	if err != nil {
		return err
	}
	progress := std.StartProgress(r.unit, 0)
	defer progress.Done()
	opt := resolve.Options{Resolver: r.resolver, Replay: r.replay, SilentOK: r.silentOK, Memory: std.MemoryLimit(), Now: std.Now, Progress: progress.Add}
	r.spec.Store, r.spec.Txn = st, r.txn.Txn
	return cli.RunStage(ctx, std, r.spec, in, sinks, func(ctx context.Context, b *stage.Batch[R, R]) error {
		stats, err := body(ctx, st, b, opt)
		std.Stat("names", stats)
		return err
	})
}

// why says, at the end of a hint, what a server could not be reached for.
func why(r *resolve.Resolver) string {
	if trouble := r.Trouble(); trouble != "" {
		return " (" + trouble + ")"
	}
	return ""
}

type namesCmd struct {
	Files   []string `arg:"" optional:"" help:"Files of names, one a line (default: standard input)."`
	Type    string   `default:"A" help:"Record type, such as A, AAAA, MX, TXT, or TYPE with its number."`
	InOrder bool     `help:"Print results in the order of the input, not as they come."`
	askFlags
}

// Help is printed by mresolve names --help.
func (*namesCmd) Help() string {
	return `Prints one JSON object a name, as they come or with --in-order as they stand in the
input: name, class, type, status, timestamp, duration (seconds, of all attempts), and data with
answers, protocol and resolver, named as zdns names them; an answer is told as zone files have it.
Beside these rtt_us is the last attempt's round-trip time in microseconds, error says why where
the status is ERROR, and special of which range an address is that is not of the public Internet.
Scripts for zdns 2, which has all this under results and the type, read what
jq -c '{name, results: {(.type): .}}' makes of a line.

A line that is a JSON object has the name in its field "name"; its other fields are passed
through, but for those that have the name of one of ours. Empty lines are passed over. Names
in answers stand without their last dot. What is no name, or longer than 65,536 bytes without its newline, has the status
ILLEGAL_INPUT. Names are asked for as they stand: no search list is applied, and those with
letters beyond ASCII need their xn-- form. While a name is asked for, equal ones, in letters of
either case, wait for its answer instead of being asked for too; each is a result. Results are
written within 0.2 s, whatever other names wait for. Those below onion and invalid do not exist,
without a question (RFC 7686, RFC 6761).

Each question that a server loses costs a time-out. One whose socket has the system's usual buffer
has room for some 270 that it has not read: such a server is done sooner with --in-flight 200.

A name that does not exist, or that no server knows, is a result like others, and the exit code 0.
It is 6 when no server answered for any name: every status is TIMEOUT or ERROR.

  printf 'example.org\nexample.com\n' | mresolve names --type AAAA`
}

func (c *namesCmd) Run(ctx context.Context, std *cli.Std) error {
	growHeap(std)
	r, err := c.resolver(std, resolve.Config{})
	if err != nil {
		return err
	}
	defer r.Close()
	in, err := std.OpenLines(c.Files)
	if errors.Is(err, fs.ErrNotExist) {
		return &fault.Error{Class: fault.Usage, File: c.Files[0], Found: "no such file", Want: "a file of names", Hint: "a name is given as a line of text: echo NAME | mresolve names", Err: err}
	}
	if err != nil {
		return err
	}
	defer in.Close()
	var progress *cli.Progress
	if std.Common.Progress != "auto" || std.RefuseTerminal("") == nil { // no bar between lines on a terminal
		progress = std.StartProgress("names", 0)
	}
	stats, err := resolve.Names(ctx, r, c.Type, c.InOrder, std.Now, in, lineCounter{std.Out, progress})
	progress.Done()
	std.Stat("names", stats)
	if err == nil && stats.TooLong > 0 {
		std.Warn("%s of more than %d bytes: only the beginning was told, as ILLEGAL_INPUT", cli.Count(stats.TooLong, "line"), resolve.MaxLine)
	}
	if err == nil && stats.Silent > 0 && stats.Silent == stats.Names {
		return &fault.Error{Class: fault.No, Found: fmt.Sprintf("no answer from any DNS server, for %s", cli.Count(stats.Names, "name")), Hint: "name a server that can be reached with --server" + why(r)}
	}
	return err
}

// lineCounter tells progress of the lines that go to w.
type lineCounter struct {
	w        io.Writer
	progress *cli.Progress
}

func (c lineCounter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.progress.Add(int64(bytes.Count(p[:n], []byte("\n"))))
	return n, err
}

type canonCmd struct {
	Store string   `arg:"" help:"The dns store, such as crawl/dns."`
	Files []string `arg:"" optional:"" help:"Files of link records (default: standard input)."`
	askFlags
	cacheFlags
	silentFlag
	cli.URLFlags
	cli.TxnFlags
	cli.Output
}

// Help is printed by mresolve canon --help.
func (*canonCmd) Help() string {
	return `Stands before the URL-seen test: pages of one host under several names are then fetched
once. A name is an alias if its addresses stand under another name (CNAME). Beware: where
sites are served by a content network, the canonical name is that of the network's server,
under which unrelated sites meet and none answers; so no crawl does this unasked. Every host
that is linked to is looked up, not only those that are fetched. --stats says how many links
were folded, and of how many hosts. What other servers say of names is not archived with a round: a crawl with this
stage repeats its rows only while the answers are in STORE.

  mextract --warc crawl/fetch --txn r12 < marked.arrows.zst |
    mresolve canon crawl/dns --txn r12 | murlset new crawl/urls --txn r12 > new.arrows.zst`
}

func (c *canonCmd) Run(ctx context.Context, std *cli.Std) error {
	urls, err := c.Canon()
	if err != nil {
		return err
	}
	cfg, err := c.config()
	if err != nil {
		return err
	}
	r, err := c.resolver(std, cfg)
	if err != nil {
		return err
	}
	defer r.Close()
	run := batch[record.Link]{store: c.Store, files: c.Files, txn: c.TxnFlags, output: c.Output, unit: "links", resolver: r, silentOK: c.SilentOK,
		spec: stage.Spec{Name: "mresolve canon", Verb: "canon", Shape: stage.Gate}} // mresolve is in the same pipe, before it
	return run.do(ctx, std, func(ctx context.Context, st *store.Store, b *stage.Batch[record.Link, record.Link], opt resolve.Options) (any, error) {
		stats, err := resolve.Canon(ctx, st, b, opt, urls)
		warnSilent(std, stats.Stats)
		return stats, err
	})
}

type createCmd struct {
	Store string `arg:"" help:"Folder to make."`
}

// Help is printed by mresolve create --help.
func (*createCmd) Help() string {
	return `Makes a store without answers. "mckpt init" does this for a whole crawl. Making the same
again is no error.

  mresolve create crawl/dns`
}

func (c *createCmd) Run() error { return resolve.CreateStore(c.Store, store.Options{}) }

func main() { os.Exit(cli.Main("mresolve", about, &grammar{}, 64<<20)) }
