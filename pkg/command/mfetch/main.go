// Package mfetch contacts servers, politely: it makes fetch records of url
// records and keeps every byte in WARC files.
package mfetch

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/setting"
	"mercator/pkg/cli"
	"mercator/pkg/config"
	"mercator/pkg/fetch"
	"mercator/pkg/fetch/addrguard"
	"mercator/pkg/fetch/cookies"
	"mercator/pkg/fetch/ftp"
	"mercator/pkg/fetch/gopher"
	"mercator/pkg/fetch/http1"
	"mercator/pkg/fetch/localfault"
	"mercator/pkg/fetch/program"
	"mercator/pkg/fetch/replay"
	"mercator/pkg/folder/exchange"
	"mercator/pkg/folder/shard"
	"mercator/pkg/folder/stage"
	"mercator/pkg/resolve"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/robots"
)

const about = "Fetch the URLs of a batch politely, and keep every byte in WARC files."

type grammar struct {
	cli.Common
	Fetch  fetchCmd  `cmd:"" default:"withargs" name:"fetch" help:"Fetch URLs, and write a fetch record for each (the default)."`
	Audit  auditCmd  `cmd:"" help:"Check in fetch records that no server was contacted too early."`
	Robots robotsCmd `cmd:"" help:"Say allow or deny for each URL, by a robots.txt."`
	Copy   copyCmd   `cmd:"" help:"Copy the replies of fetch records into one WARC file."`
	Create createCmd `cmd:"" help:"Make an empty fetch store."`
}

type fetchCmd struct {
	Store string   `arg:"" help:"The fetch store, such as crawl/fetch."`
	Files []string `arg:"" optional:"" help:"Url records or text (*.txt); default: standard input."`
	cli.TxnFlags
	cli.Output
	Text   bool `more:"" help:"The input is text, one URL a line."`
	Strict bool `more:"" help:"Fail on a bad line of text instead of skipping it."`

	noRobots bool // as a sheet says

	config.ConnectionsFlag
	config.Delays
	config.SheetsFlag      `group:"Politeness:"`
	config.LongestWaitFlag `group:"Politeness:"`
	config.Fetch
	config.UserAgentFlag
	config.ContentHashFlag
	config.MaxBodyFlag
	config.RoundTime
	config.AllowNetFlag
	config.URLFlags
	config.ServerFlag

	Deadline time.Duration `more:"" range:"0s" group:"Limits:" placeholder:"TIME" help:"Contact nobody after this (default: 1.5 times --for)."`
	MaxBytes cli.Size      `more:"" group:"Limits:" placeholder:"SIZE" help:"Contact nobody after this many bytes."`
	Keep     string        `more:"" group:"Politeness:" placeholder:"FILE" help:"Keep delays and sheets here, for mfetch audit."`
	Exchange string        `more:"" group:"What may be contacted:" placeholder:"DIR" help:"Exchange of the whole batch; many are 1 % of it."`
	Sim      string        `more:"" group:"Repeating and testing:" placeholder:"SPEC" help:"Fetch from a synthetic web: seed=1,pages=3000."`
	Now      string        `more:"" group:"Repeating and testing:" placeholder:"TIME" help:"Time of the round, RFC 3339."`
	Replay   []string      `more:"" group:"Repeating and testing:" placeholder:"STORE" help:"Answer from what this round saved there."`
}

// Help is part of --help.
func (*fetchCmd) Help() string {
	return `Repeat an interrupted run with the same --txn. Public addresses need --contact.

Examples:
  mfrontier next crawl/frontier --txn r1 | mresolve crawl/dns --txn r1 |
    mfetch crawl/fetch --txn r1 --contact ops@example.org -o fetched.arrows.zst
  mfetch create pages && mfetch pages --contact ops@example.org urls.txt | mcat`
}

func (c *fetchCmd) userAgent() string {
	var about []string
	if c.Contact != "" {
		about = append(about, "+"+c.Contact)
	}
	if c.noRobots {
		about = append(about, "robots.txt ignored")
	}
	if len(about) == 0 {
		return c.UserAgent
	}
	return c.UserAgent + " (" + strings.Join(about, "; ") + ")"
}

func (c *fetchCmd) Run(ctx context.Context, std *cli.Std) error {
	if err := cmp.Or(c.Delays.Check(config.Flags), c.MaxBodyFlag.Check(config.Flags, std.MemoryLimit())); err != nil {
		return err
	}
	var now record.Time
	if c.Now != "" {
		t, err := time.Parse(time.RFC3339Nano, c.Now)
		if err != nil {
			return setting.Wrong("--now", c.Now, "a time as in RFC 3339")
		}
		now = record.TimeOf(t)
	}
	st, err := std.OpenStore(c.Store, fetch.Kind, fetch.Version, c.TxnFlags)
	if err != nil {
		return err
	}
	// A flag that cannot work is refused before the pipe's other commands have worked.
	opt, parts := fetch.Options{}, []warc.Part(nil)
	if len(c.Replay) > 0 {
		parts, err = fetch.Saved(c.Replay, store.Options{})
	} else {
		opt, err = c.options(std, st)
	}
	if err != nil {
		return err
	}
	in, err := c.urls(std, opt.Canon)
	if err != nil {
		return err
	}
	if names, ok := opt.Resolver.(*resolver); ok {
		defer names.close()
		if names.said = in.Schema().Resolver; names.said == resolve.NoSettings {
			opt.Resolver = nil
		}
	}
	sinks, err := std.Sinks(c.Output)
	if err != nil {
		return err
	}
	totals := newTotals(std.Now)
	progress := std.StartReport("URLs", totals.progress)
	states, err := c.states()
	if err != nil {
		return err
	}
	onRow := func(row *record.Fetch) {
		totals.countRow(row)
		states.tellOutcome(ctx, row)
		if row.Role == record.RolePage { // one for each URL, whatever else was asked for
			progress.Add(1)
		}
	}
	spec := stage.Spec{Name: "mfetch", Verb: "fetch", Store: st, Stores: states.stores(), Txn: c.Txn, Now: now, Threads: std.Threads(), Like: in.Schema()}
	if len(c.Replay) > 0 {
		opt := replay.Options{Files: parts, Txn: c.Txn, Schema: in.Schema(), OnRow: onRow}
		err = cli.RunStage(ctx, std, spec, in, sinks, func(ctx context.Context, b *stage.Batch[record.URL, record.Fetch]) error {
			return states.around(ctx, std, in, func() error { return replay.Run(ctx, b, opt) })
		})
	} else {
		opt.Schema, opt.OnRow = in.Schema(), onRow
		if std.Common.Stats != "" || progress != nil {
			opt.OnQueues = totals.keepQueues
		}
		err = cli.RunStage(ctx, std, spec, in, sinks, func(ctx context.Context, b *stage.Batch[record.URL, record.Fetch]) error {
			return states.around(ctx, std, in, func() error {
				states.show(opt.Protocols)
				if err := c.keepPoliteness(); err != nil {
					return err
				}
				return fetch.Run(ctx, b, opt)
			})
		})
	}
	totals.report(std, config.Find([]string{st.Dir()}), c.MaxBody)
	return err
}

// urls opens url records, or text.
func (c *fetchCmd) urls(std *cli.Std, form canon.Options) (stage.Input[record.URL], error) {
	if !cli.IsText(c.Text, c.Files) {
		return cli.OpenRecords[record.URL](std, c.Files)
	}
	return cli.OpenText(std, c.Files, c.Strict, func(line string, row *record.URL) error {
		url, host, err := form.URL(line)
		*row = record.URL{URL: url, Host: host, Key: form.URLKey(host, url)}
		return err
	})
}

// options turns the flags into what package fetch wants.
func (c *fetchCmd) options(std *cli.Std, st *store.Store) (fetch.Options, error) {
	opt := fetch.Options{
		Store: st, Method: c.Method, Txn: c.Txn,
		Pace:   fetch.Pace{ContactTime: c.Timeout, Connections: c.Connections, Static: c.Assign == "static", AddrDelay: c.AddrDelay, LongestWait: c.LongestWait},
		Bounds: fetch.Bounds{Deadline: cmp.Or(c.Deadline, c.For*3/2), Patience: c.For > 0, BytesMax: int64(c.MaxBytes), BodyMax: int64(c.MaxBody)},
		Access: fetch.Access{DenyEvery: 200 * time.Millisecond, RefusedOK: c.RefusedOK},
		Archiving: fetch.Archiving{
			Codec: warc.Codec(c.WARCCodec), WARCPrefix: c.WARCPrefix, WARCSize: int64(c.WARCSize), ContentHash: c.ContentHash,
			Dedup: c.Dedup, Digests: c.Digests || c.WARCCodec == string(warc.None), // bare records have no other checksum
			About: []warc.Field{
				{Name: "software", Value: "mercator mfetch"},
				{Name: "format", Value: "WARC File Format 1.1"},
				{Name: "conformsTo", Value: "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"},
				{Name: "robots", Value: c.RobotsEngine},
				{Name: "http-header-user-agent", Value: c.userAgent()},
			},
		},
		Hooks: fetch.Hooks{Now: std.Now, Warn: std.Warn, Wait: func(text string) { std.Wait(cli.Wait{Text: text}) }},
	}
	if c.Contact != "" {
		opt.About = append(opt.About, warc.Field{Name: "operator", Value: c.Contact})
	}
	if c.WARCPrefix != "" && c.WARCPrefix != warc.DefaultPrefix {
		opt.About = append(opt.About, warc.Field{Name: "isPartOf", Value: c.WARCPrefix})
	}
	guard, err := c.guard()
	if err != nil {
		return opt, err
	}
	opt.Guard = guard.judge
	if opt.Canon, err = c.Canon(); err != nil {
		return opt, err
	}
	sheets, err := Sheets(c.Sheets, opt.Canon.Schemes)
	if err != nil {
		return opt, err
	}
	opt.Policy = sheets.Politeness(c.Delays)
	if _, sharded := shard.At(st.Dir()); sharded && sheets.Gives("fetch.proxy") {
		return opt, &fault.Error{Class: fault.Usage, File: c.Sheets, Found: "fetch.proxy in a crawl of several shards", Want: "none: hosts are shared out by their addresses"}
	}
	if c.Deny != "" {
		if opt.Deny, err = fetch.OpenDeny(c.Deny, opt.Canon); err != nil {
			return opt, err
		}
	}
	parse, err := engine(c.RobotsEngine, c.UserAgent)
	if err != nil {
		return opt, err
	}
	opt.Robots, opt.KeepRobots = parse, c.RobotsKeep
	if c.Sim != "" {
		web, err := newSim(c.Sim, c.userAgent(), std.Now)
		if err != nil {
			return opt, err
		}
		opt.Protocols = map[string]fetch.Protocol{"http": web}
		opt.Resolver, opt.Guard = web, nil
		return opt, nil
	}
	if opt.Others, err = c.others(st); err != nil {
		return opt, err
	}
	if err := enoughFiles(c.Connections); err != nil {
		return opt, err
	}
	client, err := c.client(std.Now)
	if err != nil {
		return opt, err
	}
	client.TempDir, client.Guard = st.Dir(), guard.Guard
	opt.Cookies = client.Cookies
	if client.Logins.Forms() {
		opt.Logins = client.Logins
	}
	if opt.Protocols, err = c.protocols(client, opt.Canon.Schemes); err != nil {
		return opt, err
	}
	if opt.Protocols, opt.ContactTime, err = c.sheeted(opt.Protocols, sheets, opt.Canon.Schemes, client); err != nil {
		return opt, err
	}
	names := &resolver{servers: c.Server, now: std.Now}
	opt.Resolver = names
	if len(c.Server) == 0 {
		return opt, nil
	}
	r, err := resolve.New(resolve.Config{Servers: c.Server}) // a bad one is refused before the pipe's other commands have worked
	if err == nil {
		r.Close()
	}
	return opt, err
}

// protocols makes the modules of the schemes.
func (c *fetchCmd) protocols(client *http1.Client, schemes *canon.Schemes) (map[string]fetch.Protocol, error) {
	limits := client.Limits
	if client.Proxy != nil {
		limits.Dial = client.Proxy.Dialer(client.UserAgent)
	}
	builtin := map[string]fetch.Protocol{
		"http": client, "https": client,
		"ftp":    &ftp.Module{Limits: limits, Password: cmp.Or(c.Contact, c.UserAgent+"@"), Login: client.Logins.Login},
		"gopher": &gopher.Module{Limits: limits},
	}
	commands, err := c.commands(schemes)
	if err != nil {
		return nil, err
	}
	all := map[string]fetch.Protocol{}
	for _, name := range schemes.Names() {
		if all[name] = builtin[name]; commands[name] != "" {
			all[name] = &program.Module{Limits: limits, Command: commands[name], UserAgent: client.UserAgent, Proxy: c.Proxy, Txn: c.Txn}
		}
		if all[name] == nil {
			return nil, &fault.Error{Class: fault.Usage, Place: "--scheme", Found: "nothing fetches " + name, Want: "a program for it, --exec " + name + "=COMMAND"}
		}
	}
	return all, nil
}

// client makes the client that the flags describe.
func (c *fetchCmd) client(now func() time.Time) (*http1.Client, error) {
	client := &http1.Client{UserAgent: c.userAgent(), Now: now, Limits: fetch.Limits{Timeout: c.Timeout, ConnectTimeout: c.ConnectTime, BodyMax: int64(c.MaxBody)}, InsecureTLS: c.TLSInsecure}
	for _, line := range c.Header {
		f, err := http1.ParseHeader(line)
		if err != nil {
			return nil, err
		}
		if strings.EqualFold(f.Name, "Accept") {
			client.Accept = f.Value
		} else {
			client.Header = append(client.Header, f)
		}
	}
	var err error
	if c.Login != "" {
		if client.Logins, err = http1.ReadLogins(c.Login); err != nil {
			return nil, err
		}
	}
	if c.TLSCA != "" {
		if client.TLS, err = http1.ReadAuthorities(c.TLSCA); err != nil {
			return nil, err
		}
	}
	if c.Proxy != "" {
		if client.Proxy, err = http1.ParseProxy(c.Proxy, client.Logins); err != nil {
			return nil, err
		}
	}
	if c.Cookies {
		client.Cookies = cookies.New()
	}
	return client, nil
}

// engine returns the parser of robots.txt for a product.
func engine(name, agent string) (fetch.ParseRobots, error) {
	e, err := robots.NewEngine(name)
	if err != nil {
		return nil, err
	}
	agent, _, _ = strings.Cut(agent, "/")
	return func(text []byte) fetch.Rules { return e(text, agent) }, nil
}

// guard refuses special-purpose addresses, and public ones without a contact.
type guard struct {
	addrguard.Guard
	contact bool
}

func (c *fetchCmd) guard() (guard, error) {
	g, err := addrguard.New(c.AllowNet)
	if err == nil {
		g, err = g.WithOwn()
	}
	return guard{g, c.Contact != ""}, err
}

func (g guard) judge(addr netip.Addr) (string, error) {
	if ok, reason := g.Allowed(addr); !ok {
		return reason, nil
	}
	if !g.contact && addrguard.Special(addr) == "" {
		return "", &fault.Error{Class: fault.Usage, Found: addr.String() + " is a public address, and no --contact is given",
			Hint: "tell its operator whom to ask, by your e-mail address or a URL: --contact ADDRESS"}
	}
	return "", nil
}

// others is how many URLs of the batch other shards fetch.
func (c *fetchCmd) others(st *store.Store) (int64, error) {
	n, ok := shard.At(st.Dir())
	if c.Exchange == "" {
		return 0, nil
	}
	if !ok {
		return 0, setting.Wrong("--exchange", c.Exchange, "none outside of a shard")
	}
	id, _, err := exchange.Of(st.FS(), st.CrawlDir())
	if err != nil {
		return 0, err
	}
	id.Exchange, id.Round, id.By = filepath.Base(c.Exchange), c.Txn, exchange.ByAddress
	in, err := exchange.Receive(st.FS(), c.Exchange, id, n)
	if err != nil {
		return 0, err
	}
	return int64(in.Others), nil
}

// createCmd makes a store.
type createCmd struct {
	Store string `arg:"" help:"Folder to make."`
	config.ContentHashFlag
}

// Help is part of --help.
func (*createCmd) Help() string {
	return `A whole crawl is made by "mckpt init".

Examples:
  mfetch create crawl/fetch`
}

func (c *createCmd) Run() error { return fetch.CreateStore(c.Store, c.ContentHash, store.Options{}) }

type robotsCmd struct {
	File   string `arg:"" help:"A robots.txt."`
	Agent  string `default:"mercator" placeholder:"mercator" help:"Product name that the rules are for."`
	Engine string `default:"rfc9309" placeholder:"rfc9309" enum:"rfc9309,temoto" help:"Parser: rfc9309 or temoto."`
}

// Help is part of --help.
func (*robotsCmd) Help() string {
	return `It reads URLs from standard input, one a line.

Examples:
  echo http://example.org/private/a.html | mfetch robots robots.txt`
}

func (c *robotsCmd) Run(std *cli.Std) error {
	parse, err := engine(c.Engine, c.Agent)
	if err != nil {
		return err
	}
	f, err := os.Open(c.File)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := cli.RefuseFolder(f); err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(f, robots.BodyMax+1)) // what follows does not count
	if err != nil {
		return err
	}
	out := bufio.NewWriter(std.Out)
	err = answer(parse(text), std.In, out)
	return cmp.Or(out.Flush(), err)
}

// answer writes allow or deny for each line of in.
func answer(rules fetch.Rules, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		url, _, err := canon.URL(strings.TrimSpace(lines.Text()))
		if err != nil {
			return &fault.Error{Class: fault.Corrupt, File: "standard input", Place: fmt.Sprintf("line %d", n), Err: err}
		}
		verdict := "deny"
		if rules.Allowed(url) {
			verdict = "allow"
		}
		fmt.Fprintln(out, verdict)
	}
	if err := lines.Err(); err != nil {
		return &fault.Error{Class: fault.Corrupt, File: "standard input", Err: err}
	}
	return nil
}

// Command is mfetch.
var Command = cli.Command{Name: "mfetch", About: about, Memory: config.FetchMemory, Setting: "memory.fetch", Grammar: func() any { return &grammar{} }}

// resolver asks DNS servers. It is made when the first name needs it: while
// addresses are valid, no server is needed.
type resolver struct {
	servers []string // of flags; none: the servers of mresolve
	said    string   // how mresolve looked names up, from the input
	now     func() time.Time
	once    sync.Once
	asks    *resolve.Resolver
	err     error
}

func (r *resolver) dns() (*resolve.Resolver, error) {
	r.once.Do(func() {
		var cfg resolve.Config
		if r.said != "" {
			if cfg, r.err = resolve.ReadSettings(r.said); r.err != nil {
				return
			}
		}
		if cfg.Now = r.now; len(r.servers) > 0 {
			cfg.Servers = r.servers
		}
		r.asks, r.err = resolve.New(cfg)
	})
	return r.asks, r.err
}

// close ends the connections to servers, as this process may run many batches. No Resolve may be under way.
func (r *resolver) close() {
	r.once.Do(func() { r.err = errors.New("the resolver is closed") })
	if r.asks != nil {
		r.asks.Close()
	}
}

// Resolve implements fetch.Resolver.
func (r *resolver) Resolve(ctx context.Context, name string) ([]netip.Addr, time.Time, string) {
	if addrs, ok := resolve.Literal(name); ok {
		return addrs, r.now().Add(time.Hour), ""
	}
	dns, err := r.dns()
	if err != nil {
		return nil, time.Time{}, localfault.Prefix + err.Error()
	}
	a := dns.Lookup(ctx, name)
	return a.Addrs, a.Expires, a.Status
}
