// Command mfetch contacts servers, politely: it makes fetch records of url
// records and keeps every byte in WARC files.
package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/canon"
	"mercator/pkg/cli"
	"mercator/pkg/fault"
	"mercator/pkg/fetch"
	"mercator/pkg/fetch/addrguard"
	"mercator/pkg/fetch/ftp"
	"mercator/pkg/fetch/gopher"
	"mercator/pkg/fetch/http1"
	"mercator/pkg/fetch/program"
	"mercator/pkg/fetch/replay"
	"mercator/pkg/localfault"
	"mercator/pkg/resolve"
	"mercator/pkg/robots"
	"mercator/pkg/stage"
)

const about = "Fetch the URLs of a batch, politely, and keep every byte in WARC files."

type grammar struct {
	cli.Common
	Fetch  fetchCmd  `cmd:"" default:"withargs" name:"fetch" help:"Make fetch records of url records (the default)."`
	Audit  auditCmd  `cmd:"" help:"Prove from fetch records that no server was contacted early."`
	Robots robotsCmd `cmd:"" help:"Answer allow or deny for URLs, by a robots.txt."`
	Create createCmd `cmd:"" help:"Make an empty fetch store."`
}

type fetchCmd struct {
	Store string   `arg:"" help:"The fetch store, such as crawl/fetch."`
	Files []string `arg:"" optional:"" help:"Files of url records, or of URLs one a line (*.txt, or with --text); default: standard input."`
	cli.TxnFlags
	cli.Output
	Text   bool `help:"Read URLs, one a line."`
	Strict bool `help:"A bad line is an error; otherwise it is named, skipped and counted."`

	Contact     string        `placeholder:"ADDRESS" help:"How the servers' owners reach you: an e-mail address or a URL. It goes into the User-Agent; public addresses are not contacted without it."`
	UserAgent   string        `default:"mercator" help:"Product name that servers and robots.txt files see."`
	Connections int           `default:"256" help:"Connections at a time, one for each host."`
	Assign      string        `default:"dynamic" enum:"dynamic,static" help:"Which connection serves a host: dynamic, whichever is free, or static, the one that its name hashes to."`
	MinDelay    time.Duration `default:"1s" help:"Least gap from the end of a contact to the start of the next with the same host."`
	DelayFactor float64       `default:"10" help:"The gap as a multiple of the last contact's duration, if that is longer,"`
	MaxDelay    time.Duration `default:"30s" help:"but not longer than this. Crawl-delay and Retry-After can make it longer."`
	AddrDelay   time.Duration `default:"500ms" help:"Gap between contacts with one address; 0 for none."`
	Timeout     time.Duration `default:"1m" help:"Of one contact, from connecting to the last byte."`
	MaxBody     cli.Size      `default:"10M" help:"Bytes kept of a body, and decoded of it, but beyond the first MiB no more than 256 times its size; the rest is cut off, and the record and the ledger say so."`
	LongestWait time.Duration `default:"24h" help:"Longest wait that a server is granted by Crawl-delay or Retry-After: URLs of one that asks for more come out as parked."`
	For         time.Duration `default:"0s" help:"Time of a round, as mfrontier next --for; 0s: any. In a crawl folder 30s, unless crawl.toml says otherwise (round_time). The rest of the batch comes out as deferred after half as long again, and before that when only slow hosts are left, so that they keep nobody waiting."`
	Deadline    time.Duration `help:"Stop contacting after this long; the rest of the batch comes out as deferred. Default: one and a half times --for."`
	MaxBytes    cli.Size      `default:"0" help:"Stop contacting after so many bytes received; the rest comes out as deferred."`
	Deny        string        `placeholder:"FILE" help:"Hosts, with all below them, and beginnings of URLs never to be contacted, one a line. Read again when it changes; then contacts under way end as ever, and no other is made."`
	AllowNet    []string      `placeholder:"CIDR" help:"Contact addresses of this special-purpose network too, such as 127.0.0.0/8."`
	RefusedOK   bool          `name:"refused-ok" help:"Go on where --allow-net, --deny or --scheme refuse many URLs, as told above."`

	Method  string   `default:"GET" enum:"GET,HEAD" help:"GET, or HEAD to ask for headers alone. robots.txt is always got."`
	Header  []string `sep:"none" placeholder:"NAME: VALUE" help:"A header line for every request, such as \"Accept-Language: de\"."`
	Login   string   `placeholder:"FILE" help:"User names and passwords (Basic), a line each: ORIGIN USER:PASSWORD, as in https://example.org anna:secret."`
	Cookies bool     `help:"Keep each host's cookies and send them back to it, within this run."`
	Proxy   string   `placeholder:"URL" help:"Contact servers through http://HOST:PORT or socks5://HOST:PORT, as told above."`

	cli.URLFlags
	Exec []string `sep:"none" placeholder:"SCHEME=COMMAND" help:"Fetch a scheme's URLs by a program, as told above."`

	RobotsEngine string `default:"rfc9309" enum:"rfc9309,temoto" help:"What reads robots.txt: rfc9309 or temoto."`
	TLSInsecure  bool   `name:"tls-insecure" help:"Go on when a certificate does not verify; the record's error column says why it did not."`

	WARCCodec string   `name:"warc-codec" default:"gzip" enum:"gzip,zstd" help:"Compression of WARC records: gzip (every reader has it) or zstd."`
	WARCSize  cli.Size `name:"warc-size" default:"1G" help:"Begin another WARC file when one has this length."`
	Dedup     bool     `help:"Archive a payload once: another reply with the same is a revisit record (identical-payload-digest) that refers to it."`
	Digests   bool     `name:"warc-block-digest" help:"Write WARC-Block-Digest too, the SHA-1 of each record's block."`

	Sim    string      `placeholder:"SPEC" help:"Fetch from a synthetic web inside this process, such as seed=1,hosts=50,pages=3000 (see mweb), instead of the network."`
	Server cli.Servers `placeholder:"ADDR[:PORT]" help:"DNS server for addresses that are absent or have expired (default: those that mresolve asked for this batch, else those of /etc/resolv.conf)."`
	Now    string      `placeholder:"TIME" help:"The round's clock, RFC 3339, instead of the input's."`
	Replay []string    `placeholder:"STORE" help:"Contact nobody: answer from what a round of the same --txn saved in this fetch store, or in WARC files, each named."`
}

// Help is printed by mfetch fetch --help.
func (*fetchCmd) Help() string {
	return `Reads url records, as mresolve writes them, and writes one fetch record for each,
whatever becomes of it, and one for each robots.txt asked for. Requests, responses
and outcomes are archived in WARC files in STORE; a record is written only when its
bytes are there. One connection to a host at a time, with a gap after each contact
that grows with the time it took. Robots rules (RFC 9309) and the times of the next
contacts are kept in STORE for later rounds. Where no connection can be had at an address of
a host, robots.txt is asked for at its next one, and pages go there; a page itself is tried
at the next address when it is tried again.

  mfrontier next crawl/frontier --txn r1 | mresolve crawl/dns --txn r1 |
    mfetch crawl/fetch --txn r1 --contact ops@example.org -o fetched.arrows.zst
  mfetch crawl/fetch --txn r1 --allow-net 127.0.0.0/8 --min-delay 20ms --delay-factor 0 batch.arrows.zst

Lines of text will do, too: their hosts are then looked up here (--server).

  mfetch create fetched
  mfetch fetched --contact ops@example.org urls.txt | mcat

With --for a batch ends early when only slow hosts are left: those whose own gap (Crawl-delay, Retry-After, long
replies) is more than 2 s, and those that do not answer. What is left comes out as deferred, which is no attempt. A host that
hangs is waited for longer each time. URLs of a host that asks for a longer gap than --longest-wait come out as parked.

After a crash the same command with the same --txn goes on: what was archived is not
fetched again, and the hosts wait their full delay first. Without --txn it begins anew. The WARC file that still grows is called
NAME.open: crawl/fetch/*.warc.gz* names them all.

A URL whose record has etag or last_modified is asked for only if it has changed; if
it has not, its outcome is not-modified, and the archive has a revisit record. A row's
fresh_until is until when the reply says, by Cache-Control or Expires, that it stays.

A server that knows only old TLS (1.0, 1.1, key exchange by RSA) is tried once more with it,
unless a --login is for it; the record's error column says so. Its certificate is verified.

With --dedup STORE remembers the digest of each whole payload that it archives from
then on, with URL, date and place. mextract and mweb find the payload of a revisit
record by its WARC-Refers-To-Filename and -File-Offset. Of replies with one payload
that come within the same instant more than one may be archived.

  mfetch crawl/fetch --txn r1 --contact ops@example.org --dedup --warc-size 100M batch.arrows.zst

Names and passwords of --login go to their own origin alone (or to the proxy, where
ORIGIN is what --proxy says), and are not archived;
cookies and other headers are. Cookies go to no other host than the one that set
them, and are forgotten when the run ends.

With --proxy the addresses of servers are found and judged here as ever (--allow-net,
special-purpose networks), and the proxy is told them: by socks5, and by CONNECT for
https. For http URLs an http proxy is told the URL and finds the address itself, so
it must refuse what is not to be contacted. The proxy's own address is not judged.

  mfetch crawl/fetch --txn r1 --contact ops@example.org --proxy socks5://127.0.0.1:1080 batch.arrows.zst
  mfetch crawl/fetch --txn r1 --contact ops@example.org --method HEAD --header 'Accept-Language: de, en;q=0.5' batch.arrows.zst

Settings may refuse a URL: its address needs --allow-net, --deny forbids it, or nothing fetches
its scheme. That is probably a mistake where nothing else happens to a batch that has seeds or hosts
contacted before, or where such URLs are more than 1 % of the batch and 10, on as many hosts (with few
hosts: on more than half of them). Then mfetch ends with exit code 1 and commits nothing. Run the same command with the right settings: what
was fetched is not fetched again. Or go on without these URLs, with --refused-ok.

What this machine cannot do (no free port, too many open files, no route, its own firewall) is
no failure of a server: such URLs come out as deferred, with an error that begins "this machine: ".
Where nothing else happened in a batch, it ends with exit code 1, and nothing is committed.

Connections need open files, and so do long bodies: the limit of open files is raised
as far as it goes, and must reach one and a half times --connections, and 64.
Mercator gave each of its threads the hosts whose names hash to it; --assign static
does so too, to compare.

Besides http and https, ftp (files, and listings of directories) and gopher URLs are
fetched, and others by programs. A program of --exec gets the URL as its last argument
and the address to contact as MERCATOR_ADDR (by MERCATOR_PROXY, if that is not empty), and
writes what a CGI program does: Content-Type, Status and Location lines, an empty line, the
document. It is killed after --timeout or --max-body. Exit status 75 means "try again later". Names and passwords of
--login are for ftp origins, too. robots.txt is asked for by http, https and ftp.

  mfetch crawl/fetch --txn r1 --contact ops@example.org --scheme http,https,gemini:1965 --exec gemini=./gemini.sh batch.arrows.zst

With --replay a saved round is answered from its archive, in the same order, with
the same times.`
}

func wrong(flag, found, want string) error {
	return &fault.Error{Class: fault.Usage, Place: flag, Found: found, Want: want}
}

// checkDelays refuses gaps that mean nothing.
func checkDelays(least time.Duration, factor float64, most, addr time.Duration) error {
	switch {
	case least < 0:
		return wrong("--min-delay", least.String(), "0 or more")
	case !(factor >= 0 && factor <= 1e6):
		return wrong("--delay-factor", fmt.Sprint(factor), "0 to 1000000")
	case most < 0:
		return wrong("--max-delay", most.String(), "0 or more")
	case addr < 0:
		return wrong("--addr-delay", addr.String(), "0 or more")
	}
	return nil
}

func (c *fetchCmd) validate(memory int64) error {
	if err := checkDelays(c.MinDelay, c.DelayFactor, c.MaxDelay, c.AddrDelay); err != nil {
		return err
	}
	switch {
	case c.Connections < 1 || c.Connections > 100_000:
		return wrong("--connections", fmt.Sprint(c.Connections), "1 to 100000")
	case c.Deadline < 0:
		return wrong("--deadline", c.Deadline.String(), "0 or more")
	case c.For < 0 || c.For > 24*time.Hour:
		return wrong("--for", c.For.String(), "0 to 24h")
	case c.LongestWait <= 0 || c.LongestWait > 366*24*time.Hour:
		return wrong("--longest-wait", c.LongestWait.String(), "more than 0s, at most 8784h")
	case c.MaxDelay < c.MinDelay && c.DelayFactor > 0:
		return wrong("--max-delay", c.MaxDelay.String(), "at least --min-delay")
	case c.Timeout <= 0:
		return wrong("--timeout", c.Timeout.String(), "a time above 0")
	case c.MaxBody < 1 || int64(c.MaxBody) > memory/8: // a record is encoded in memory
		return wrong("--max-body", fmt.Sprint(int64(c.MaxBody)), fmt.Sprintf("1 to %d bytes with this --memory", memory/8))
	case c.WARCSize < 1:
		return wrong("--warc-size", fmt.Sprint(int64(c.WARCSize)), "at least 1 byte")
	case !product(c.UserAgent):
		return wrong("--user-agent", fmt.Sprintf("%q", c.UserAgent), "a product name of letters, digits, '-' and '_', such as mercator or mercator/2")
	case !printable(c.Contact):
		return wrong("--contact", fmt.Sprintf("%q", c.Contact), "an e-mail address or a URL")
	}
	return nil
}

// product says whether s is a product token, perhaps with a version.
func product(s string) bool {
	name, version, _ := strings.Cut(s, "/")
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_') {
			return false
		}
	}
	return name != "" && printable(version) && !strings.ContainsAny(version, " /")
}

func printable(s string) bool {
	for _, r := range s {
		if r < ' ' || r > '~' || r == '(' || r == ')' {
			return false
		}
	}
	return true
}

func (c *fetchCmd) userAgent() string {
	if c.Contact == "" {
		return c.UserAgent
	}
	return c.UserAgent + " (+" + c.Contact + ")"
}

func (c *fetchCmd) Run(ctx context.Context, std *cli.Std) error {
	if err := c.validate(std.MemoryLimit()); err != nil {
		return err
	}
	var now record.Time
	if c.Now != "" {
		t, err := time.Parse(time.RFC3339Nano, c.Now)
		if err != nil {
			return &fault.Error{Class: fault.Usage, Place: "--now", Found: c.Now, Want: "a time as in RFC 3339"}
		}
		now = record.TimeOf(t)
	}
	st, err := std.OpenStore(c.Store, fetch.Kind, fetch.Version, c.TxnFlags)
	if err != nil {
		return err
	}
	// What a flag asks for in vain is told before a pipe's other commands have worked.
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
		names.said = in.Schema().Resolver
	}
	sinks, err := std.Sinks(c.Output)
	if err != nil {
		return err
	}
	progress := std.StartProgress("URLs", 0)
	totals := newTotals()
	onRow := func(row *record.Fetch) {
		totals.add(row)
		if row.Role == record.RolePage { // one for each URL, whatever else was asked for
			progress.Add(1)
		}
	}
	spec := stage.Spec{Name: "mfetch", Verb: "fetch", Store: st, Txn: c.Txn, Now: now, Threads: std.Threads()}
	if len(c.Replay) > 0 {
		opt := replay.Options{Files: parts, Txn: c.Txn, Schema: in.Schema(), OnRow: onRow}
		err = cli.RunStage(ctx, std, spec, in, sinks, func(ctx context.Context, b *stage.Batch[record.URL, record.Fetch]) error {
			return replay.Run(ctx, b, opt)
		})
	} else {
		opt.Schema, opt.OnRow = in.Schema(), onRow
		err = cli.RunStage(ctx, std, spec, in, sinks, func(ctx context.Context, b *stage.Batch[record.URL, record.Fetch]) error {
			return fetch.Run(ctx, b, opt)
		})
	}
	totals.report(std)
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
		Store: st, Connections: c.Connections, Static: c.Assign == "static",
		MinDelay: c.MinDelay, DelayFactor: c.DelayFactor, MaxDelay: c.MaxDelay, AddrDelay: c.AddrDelay,
		LongestWait: c.LongestWait, Deadline: cmp.Or(c.Deadline, c.For*3/2), Patience: c.For > 0, BytesMax: int64(c.MaxBytes), BodyMax: int64(c.MaxBody),
		DenyEvery: 200 * time.Millisecond, Codec: warc.Codec(c.WARCCodec), WARCSize: int64(c.WARCSize), Dedup: c.Dedup, Digests: c.Digests,
		Method: c.Method, RefusedOK: c.RefusedOK, Txn: c.Txn, Now: std.Now, Warn: std.Warn,
		About: []warc.Field{
			{Name: "software", Value: "mercator mfetch"},
			{Name: "format", Value: "WARC File Format 1.1"},
			{Name: "conformsTo", Value: "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"},
			{Name: "robots", Value: c.RobotsEngine},
			{Name: "http-header-user-agent", Value: c.userAgent()},
		},
	}
	guard, err := c.guard()
	if err != nil {
		return opt, err
	}
	opt.Guard = guard.judge
	if opt.Canon, err = c.Canon(); err != nil {
		return opt, err
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
	opt.Robots = parse
	if c.Sim != "" {
		web, err := newSim(c.Sim, c.userAgent(), std.Now)
		if err != nil {
			return opt, err
		}
		opt.Protocols = map[string]fetch.Protocol{"http": web}
		opt.Resolver, opt.Guard = web, nil
		return opt, nil
	}
	if err := enoughFiles(c.Connections); err != nil {
		return opt, err
	}
	client, err := c.client()
	if err != nil {
		return opt, err
	}
	client.TempDir, client.Guard = st.Dir(), guard.Guard
	if opt.Protocols, err = c.protocols(client, opt.Canon.Schemes); err != nil {
		return opt, err
	}
	names := &resolver{servers: c.Server, now: std.Now}
	opt.Resolver = names
	if len(c.Server) == 0 {
		return opt, nil
	}
	r, err := resolve.New(resolve.Config{Servers: c.Server}) // a bad one is told before a pipe's other commands have worked
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
	programs := map[string]fetch.Protocol{}
	for _, spec := range c.Exec {
		name, command, _ := strings.Cut(spec, "=")
		if !schemes.Has(name) || strings.TrimSpace(command) == "" || programs[name] != nil {
			return nil, &fault.Error{Class: fault.Usage, Place: "--exec", Found: fmt.Sprintf("%q", spec), Want: "SCHEME=COMMAND, once for each of the schemes of --scheme"}
		}
		programs[name] = &program.Module{Limits: limits, Command: command, UserAgent: client.UserAgent, Proxy: c.Proxy}
	}
	all := map[string]fetch.Protocol{}
	for _, name := range schemes.Names() {
		if all[name] = builtin[name]; programs[name] != nil {
			all[name] = programs[name]
		}
		if all[name] == nil {
			return nil, &fault.Error{Class: fault.Usage, Place: "--scheme", Found: "nothing fetches " + name, Want: "a program for it, --exec " + name + "=COMMAND"}
		}
	}
	return all, nil
}

// client makes the client that the flags describe.
func (c *fetchCmd) client() (*http1.Client, error) {
	client := &http1.Client{UserAgent: c.userAgent(), Limits: fetch.Limits{Timeout: c.Timeout, BodyMax: int64(c.MaxBody)}, InsecureTLS: c.TLSInsecure}
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
	if c.Proxy != "" {
		if client.Proxy, err = http1.ParseProxy(c.Proxy, client.Logins); err != nil {
			return nil, err
		}
	}
	if c.Cookies {
		client.Cookies = http1.NewJar()
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
	g := guard{contact: c.Contact != ""}
	for _, s := range c.AllowNet {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return g, &fault.Error{Class: fault.Usage, Place: "--allow-net", Found: s, Want: "a network such as 127.0.0.0/8"}
		}
		g.Allow = append(g.Allow, p)
	}
	return g, nil
}

func (g guard) judge(addr netip.Addr) (string, error) {
	if ok, reason := g.Allowed(addr); !ok {
		return reason, nil
	}
	if !g.contact && addrguard.Special(addr) == "" {
		return "", &fault.Error{Class: fault.Usage, Found: addr.String() + " is a public address, and servers there are not told whom to ask",
			Hint: "give --contact with an e-mail address or a URL"}
	}
	return "", nil
}

// createCmd makes a store.
type createCmd struct {
	Store string `arg:"" help:"Folder to make."`
}

// Help is printed by mfetch create --help.
func (*createCmd) Help() string {
	return `Makes a store without records. "mckpt init" does this for a whole crawl. Making the same
again is no error.

  mfetch create crawl/fetch`
}

func (c *createCmd) Run() error { return fetch.CreateStore(c.Store, store.Options{}) }

type robotsCmd struct {
	File   string `arg:"" help:"A robots.txt."`
	Agent  string `default:"mercator" help:"Product name that the rules are read for."`
	Engine string `default:"rfc9309" enum:"rfc9309,temoto" help:"What reads it: rfc9309 or temoto."`
}

// Help is printed by mfetch robots --help.
func (*robotsCmd) Help() string {
	return `Prints allow or deny for each URL on standard input, one a line, as a crawl with
these rules would decide.

  echo http://example.org/private/a.html | mfetch robots robots.txt --agent mercator`
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

func main() { os.Exit(cli.Main("mfetch", about, &grammar{}, 128<<20)) }

// resolver asks DNS servers. It is made when the first name needs it: a crawl
// whose addresses hold needs no server.
type resolver struct {
	servers []string // of flags; none: those of mresolve
	said    string   // by the input: how mresolve looked names up
	now     func() time.Time
	made    resolverOnce
}

func (r *resolver) dns() (*resolve.Resolver, error) {
	return r.made.get(func() (*resolve.Resolver, error) {
		var cfg resolve.Config
		if r.said != "" {
			var err error
			if cfg, err = resolve.ReadSettings(r.said); err != nil {
				return nil, err
			}
		}
		if cfg.Now = r.now; len(r.servers) > 0 {
			cfg.Servers = r.servers
		}
		return resolve.New(cfg)
	})
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
