// Package mresolve turns the host names of URL records into addresses.
package mresolve

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"strings"
	"time"
	"unicode"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/setting"
	"mercator/pkg/cli"
	"mercator/pkg/config"
	"mercator/pkg/fetch"
	"mercator/pkg/folder/ownstage"
	"mercator/pkg/folder/shard"
	"mercator/pkg/folder/stage"
	"mercator/pkg/resolve"
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
	config.ServerFlag
	config.RateFlag
	InFlight int           `default:"1000" range:"1 100000" help:"Questions at a time, 1 to 100000."`
	Timeout  time.Duration `default:"1s" range:">0s" help:"Wait for the first attempt; then twice that."`
	Attempts int           `default:"5" range:"1 100" help:"Questions before a name counts as timed out."`
}

// besideQuestions is what a command takes beside its questions in flight, in bytes, and tables in a
// quarter of its memory: measured with a filter, 3,000,000 names in its store, and servers that
// are slow, or never answer.
const besideQuestions = 24 << 20

// stageFlags are the flags of both stages.
type stageFlags struct {
	askFlags
	config.Lifetimes
	SilentOK bool `name:"silent-ok" help:"Go on where no server answers anything."`
}

// open makes the resolver of a stage with the store in dir.
func (f *stageFlags) open(std *cli.Std, dir, family string) (r *resolve.Resolver, err error) {
	if err := f.Lifetimes.Check(config.Flags); err != nil {
		return nil, err
	}
	if f.Rate, err = ofShard(dir, f.Rate); err != nil {
		return nil, err
	}
	return f.resolver(std, resolve.Config{MinTTL: f.MinTTL, MaxTTL: f.MaxTTL, Family: family})
}

// resolver makes the resolver of these flags; cfg has what they do not say.
func (f *askFlags) resolver(std *cli.Std, cfg resolve.Config) (*resolve.Resolver, error) {
	if room := max(1000, (std.MemoryLimit()*3/4-besideQuestions)/resolve.QuestionSize); int64(f.InFlight) > room {
		err := setting.Wrong("--in-flight", f.InFlight, fmt.Sprintf("%d at most, with --memory %dM", room, std.MemoryLimit()>>20))
		err.Hint = fmt.Sprintf("have room for them: --memory %dM", ((int64(f.InFlight)*resolve.QuestionSize+besideQuestions)*4/3+1<<20-1)>>20)
		return nil, err
	}
	cfg.Servers, cfg.Rate, cfg.InFlight, cfg.Timeout, cfg.Attempts, cfg.Now = f.Server, f.Rate, f.InFlight, f.Timeout, f.Attempts, std.Now
	cfg.Mute = func() { std.Warn("no DNS server has answered anything yet") }
	return resolve.New(cfg)
}

type resolveCmd struct {
	Store string   `arg:"" help:"The dns store, such as crawl/dns."`
	Files []string `arg:"" optional:"" help:"Files of url records (default: standard input)."`
	stageFlags
	Family string `default:"any" enum:"any,4,6" help:"Addresses wanted: any, 4 or 6."`
	config.ResolveProgram
	config.ProgramTime
	cli.TxnFlags
	cli.Output
	Replay []string `placeholder:"STORE" help:"Answer from DNS records saved in this fetch store."`
}

// Help is part of --help.
func (*resolveCmd) Help() string {
	return `Rows keep their order. The columns are addr, addr_expires and addr_error.

Examples:
  mfrontier next crawl/frontier --txn r1 | mresolve crawl/dns --txn r1 | mcat
  mresolve crawl/dns --server 127.0.0.1:5353 -o out.arrows.zst in.arrows.zst`
}

// What the program takes beside its heap, in bytes, and how far the heap may grow within
// --memory between two collections: a batch from the cache has little that lives, and
// a third of its time went to a collector that was given less room.
const (
	outsideHeap = 22 << 20
	heapGrowth  = 400 // percent
)

func growHeap(std *cli.Std) {
	std.BoundHeap(outsideHeap)
	std.CollectAt(heapGrowth)
}

func (c *resolveCmd) Run(ctx context.Context, std *cli.Std) error {
	growHeap(std)
	own := ownstage.Program{Setting: "stages.resolve", Command: c.Resolve, Timeout: c.ProgramTimeout}
	run := batch[record.URL]{store: c.Store, files: c.Files, txn: c.TxnFlags, output: c.Output, unit: "URLs", flags: &c.stageFlags, family: c.Family,
		own: own, spec: stage.Spec{Name: "mresolve", Verb: own.Verb("resolve")}, saved: c.Replay, replay: func(paths []string, txn string, memory int64) (*resolve.Replay, error) {
			parts, err := fetch.Saved(paths, store.Options{})
			if err != nil {
				return nil, err
			}
			return resolve.OpenReplay(parts, txn, memory)
		}}
	return run.do(ctx, std, func(ctx context.Context, st *store.Store, b *stage.Batch[record.URL, record.URL], opt resolve.Options) (any, error) {
		if opt.Resolver == nil && opt.Replay == nil {
			return nil, c.byProgram(ctx, st, b, own, opt.Progress)
		}
		stats, err := resolve.Resolve(ctx, st, b, opt)
		warnSilent(std, stats)
		return stats, err
	})
}

// byProgram asks a program for the addresses.
func (c *resolveCmd) byProgram(ctx context.Context, st *store.Store, b *stage.Batch[record.URL, record.URL], own ownstage.Program, progress func(int64)) error {
	convert := func(in, out *record.URL) bool {
		*out = *in
		out.Addr, out.AddrExpires, out.AddrError = "", 0, ""
		return true
	}
	check := func(u *record.URL) error { return checkAnswer(u, b.Now(), &c.Lifetimes) }
	return ownstage.Run(ctx, b, st, c.Txn, own, ownstage.Rows[record.URL, record.URL]{Convert: convert, Columns: ownstage.OfResolver, Check: check, Progress: progress})
}

// checkAnswer refuses what a program says of a host if no resolver says it, and writes it as ours does.
func checkAnswer(u *record.URL, now record.Time, ttl *config.Lifetimes) error {
	if (u.Addr == "") == (u.AddrError == "") {
		return errors.New("an answer without addr or addr_error, or with both")
	}
	if strings.ContainsFunc(u.AddrError, unicode.IsControl) {
		return fmt.Errorf("addr_error %.100q, want a text without control characters", u.AddrError)
	}
	var addrs []netip.Addr
	for text := range strings.SplitSeq(u.Addr, ",") {
		addr, err := netip.ParseAddr(text)
		if u.Addr != "" && (err != nil || addr.Zone() != "") {
			return fmt.Errorf("addr %.100q, want IP addresses without zones, with commas between", u.Addr)
		}
		addrs = append(addrs, addr.Unmap())
	}
	if u.Addr != "" {
		u.Addr = resolve.FormatAddrs(addrs)
	}
	u.AddrExpires = min(max(u.AddrExpires, now+record.Time(ttl.MinTTL.Microseconds())), now+record.Time(ttl.MaxTTL.Microseconds()))
	return nil
}

// noServers refuses the flags of servers, and more, beside a flag with which none is asked.
func noServers(std *cli.Std, beside, who string, more ...string) error {
	for _, flag := range append([]string{"server", "rate", "in-flight", "timeout", "attempts"}, more...) {
		if std.Given(flag) {
			return &fault.Error{Class: fault.Usage, Found: "--" + flag + " beside " + beside, Want: "one of them", Hint: who + " asks no server: leave out --" + flag}
		}
	}
	return nil
}

// ofShard is a shard's part of a rate, which is for all shards of a crawl together: they may ask the same servers at once.
func ofShard(dir string, rate float64) (float64, error) {
	if _, ok := shard.At(dir); !ok || rate == 0 {
		return rate, nil
	}
	m, err := shard.Read(durable.OS, store.Folder(dir, store.Options{}).CrawlDir())
	if err != nil {
		return 0, err
	}
	return max(rate/float64(m.Count()), 0.001), nil
}

// warnSilent warns if no server answered. Each row says it too, but in a pipe
// nobody sees them, and its URLs would use up their attempts.
func warnSilent(std *cli.Std, stats resolve.Stats) {
	if stats.Silent > 0 && stats.Silent == stats.Asked {
		std.Warn("no answer from any DNS server, for %s; --server names another", cli.Count(stats.Silent, "name"))
	}
}

// batch is a stage that looks up the names of a stream's rows.
type batch[R record.Row] struct {
	store  string
	files  []string
	txn    cli.TxnFlags
	output cli.Output
	unit   string // of progress
	spec   stage.Spec
	flags  *stageFlags
	family string
	own    ownstage.Program                                                        // that gives the addresses, if one does
	saved  []string                                                                // archives to answer from in place of servers
	replay func(saved []string, txn string, memory int64) (*resolve.Replay, error) // reads these archives
	with   func(stage.Input[R]) stage.Input[R]                                     // wraps the input; nil: it stays as it is
}

// do runs the stage. Its body returns what --stats prints of names, or nil.
func (r *batch[R]) do(ctx context.Context, std *cli.Std, body func(context.Context, *store.Store, *stage.Batch[R, R], resolve.Options) (any, error)) error {
	opt := resolve.Options{SilentOK: r.flags.SilentOK, Memory: std.MemoryLimit(), Now: std.Now}
	var err error
	if len(r.saved) > 0 {
		if err := noServers(std, "--replay", "a replay"); err != nil {
			return err
		}
		if opt.Replay, err = r.replay(r.saved, r.txn.Txn, std.MemoryLimit()/4); err != nil {
			return err
		}
		defer opt.Replay.Close()
	} else if r.own.Command != "" {
		if err := cmp.Or(r.flags.Lifetimes.Check(config.Flags), noServers(std, "--program", "this command", "family", "silent-ok")); err != nil {
			return err
		}
		r.spec.Resolver = resolve.NoSettings
	} else {
		if opt.Resolver, err = r.flags.open(std, r.store, r.family); err != nil {
			return err
		}
		defer opt.Resolver.Close()
		if r.spec.Shape != stage.Gate {
			r.spec.Resolver = opt.Resolver.Settings() // for mfetch, which looks up where robots.txt leads
		}
	}
	st, err := r.own.Open(r.store, resolve.StoreKind, resolve.StoreVersion, std.StoreOptions(r.txn))
	if err != nil {
		return err
	}
	records, err := cli.OpenRecords[R](std, r.files)
	if err != nil {
		return err
	}
	var in stage.Input[R] = records
	if r.with != nil {
		in = r.with(records)
	}
	sinks, err := std.Sinks(r.output)
	if err != nil {
		return err
	}
	progress := std.StartProgress(r.unit, 0)
	defer progress.Done()
	opt.Progress = progress.Add
	r.spec.Store, r.spec.Txn = st, r.txn.Txn
	return cli.RunStage(ctx, std, r.spec, in, sinks, func(ctx context.Context, b *stage.Batch[R, R]) error {
		stats, err := body(ctx, st, b, opt)
		if stats != nil {
			std.Stat("names", stats)
			progress.Tell(stats)
		}
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
	Files []string `arg:"" optional:"" help:"Files of names, one a line (default: standard input)."`
	Type  string   `default:"A" help:"Record type, such as A, AAAA, MX, TXT, or TYPE with its number."`
	askFlags
}

// Help is part of --help.
func (*namesCmd) Help() string {
	return `Prints one JSON object a name, with zdns's field names, as results come. A line that is a JSON
object has its name in the field "name"; its other fields are passed through.

Examples:
  printf 'example.org\nexample.com\n' | mresolve names --type AAAA
  mresolve names --server 192.0.2.53 names.txt > names.jsonl`
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
		return &fault.Error{Class: fault.Usage, File: c.Files[0], Found: "no such file", Want: "a file of names", Hint: "a name is given as a line of text: " + fault.Quote("echo", c.Files[0]) + " | mresolve names", Err: err}
	}
	if err != nil {
		return err
	}
	defer in.Close()
	var progress *cli.Progress
	if std.Common.Progress != "auto" || std.RefuseTerminal("") == nil { // no bar between lines on a terminal
		progress = std.StartProgress("names", 0)
	}
	stats, err := resolve.Names(ctx, r, c.Type, std.Now, in, lineCounter{std.Out, progress})
	progress.Done()
	std.Stat("names", stats)
	if err == nil && stats.TooLong > 0 {
		std.Warn("%s of more than %d bytes: only the beginning was printed, as ILLEGAL_INPUT", cli.Count(stats.TooLong, "line"), resolve.MaxLine)
	}
	if err == nil && stats.Illegal > 0 {
		std.Warn("%s without a name, printed as ILLEGAL_INPUT: %s, want a name such as www.example.org", cli.Count(stats.Illegal, "line"), stats.First)
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
	stageFlags
	config.URLFlags
	cli.TxnFlags
	cli.Output
	Replay []string `placeholder:"FILE" help:"Answer from links that this wrote before."`
}

// Help is part of --help.
func (*canonCmd) Help() string {
	return `Beware: hosts of one domain that share such a name, but have pages of their own, lose
them. Crawls do this if crawl.toml says resolve.canonical = true.

Examples:
  mresolve canon crawl/dns --txn r12 < links.arrows.zst > folded.arrows.zst`
}

func (c *canonCmd) Run(ctx context.Context, std *cli.Std) error {
	urls, err := c.Canon()
	if err != nil {
		return err
	}
	run := batch[record.Link]{store: c.Store, files: c.Files, txn: c.TxnFlags, output: c.Output, unit: "links", flags: &c.stageFlags, with: resolve.Aliases,
		spec:  stage.Spec{Name: "mresolve canon", Verb: "canon", Shape: stage.Gate}, // mresolve is in the same pipe, before it
		saved: c.Replay, replay: resolve.ReplayAliases}
	return run.do(ctx, std, func(ctx context.Context, st *store.Store, b *stage.Batch[record.Link, record.Link], opt resolve.Options) (any, error) {
		stats, err := resolve.Canon(ctx, st, b, opt, urls)
		warnSilent(std, stats.Stats)
		return stats, err
	})
}

type createCmd struct {
	Store string `arg:"" help:"Folder to make."`
}

// Help is part of --help.
func (*createCmd) Help() string {
	return `Makes a store without answers. "mckpt init" does this for a whole crawl. Making the same
again is no error.

Examples:
  mresolve create crawl/dns`
}

func (c *createCmd) Run() error { return resolve.CreateStore(c.Store, store.Options{}) }

// Command is mresolve.
var Command = cli.Command{Name: "mresolve", About: about, Memory: 64 << 20, Setting: "memory.stages", Grammar: func() any { return &grammar{} }}
