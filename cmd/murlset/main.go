// Command murlset answers the URL-seen test from a set of URL checksums.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/canon"
	"mercator/pkg/cli"
	"mercator/pkg/fault"
	"mercator/pkg/fingerprint"
	"mercator/pkg/fpset"
	"mercator/pkg/merge"
	"mercator/pkg/stage"
	"mercator/pkg/urlset"
)

const about = `Keep a set of URL checksums, and let each URL through once.

The set is a store, such as crawl/urls. A URL is known by 64 bits: 16 of its host's fingerprint, 48 of its own.`

type grammar struct {
	cli.Common `embed:""`

	New    newCmd    `cmd:"" help:"Write url records of the URLs never seen before, and add them to the set."`
	Add    addCmd    `cmd:"" help:"Add URLs to the set."`
	Test   testCmd   `cmd:"" help:"Say of each URL whether it is in the set."`
	Build  buildCmd  `cmd:"" help:"Make a fingerprint file of URLs, without a store."`
	Dump   dumpCmd   `cmd:"" help:"Print the set, one checksum a line."`
	Stat   statCmd   `cmd:"" help:"Describe the set, as JSON."`
	Check  checkCmd  `cmd:"" help:"Read the whole set and verify it."`
	Key    keyCmd    `cmd:"" help:"Print the checksum and the canonical form of URLs."`
	Create createCmd `cmd:"" help:"Make an empty set."`
}

// urls are URLs to read: link or url records, or text.
type urls struct {
	Files  []string `arg:"" optional:"" help:"Link or url records, or text with one URL a line (*.txt, or --text); standard input if there are none."`
	Text   bool     `help:"Read text, one URL a line, whatever the files' names."`
	Strict bool     `help:"Let a bad line of text be an error instead of skipping it, and text without a URL too."`
	cli.RewriteFlags
}

// text opens text, one URL a line.
func (u *urls) text(std *cli.Std) (stage.Input[record.URL], error) {
	form, err := u.Canon()
	if err != nil {
		return nil, err
	}
	return openText(std, u.Files, u.Strict, form)
}

func openText(std *cli.Std, files []string, strict bool, form canon.Options) (stage.Input[record.URL], error) {
	return cli.OpenText(std, files, strict, func(line string, row *record.URL) error { return urlset.ParseLine(line, form, row) })
}

// eachKey gives the key of each URL by a polynomial.
func (u *urls) eachKey(std *cli.Std, poly *fingerprint.Poly) (next func() (uint64, error), err error) {
	form, err := u.Canon()
	if err != nil {
		return nil, err
	}
	if cli.IsText(u.Text, u.Files) {
		in, err := u.text(std)
		return keysOf(in, poly, form, urlset.FromURL), err
	}
	src, err := cli.OpenSource(std, u.Files)
	if err != nil {
		return nil, err
	}
	if src.Kind() == record.KindLink {
		in, err := cli.RowsOf[record.Link](src)
		return keysOf(in, poly, form, urlset.FromLink), err
	}
	in, err := cli.RowsOf[record.URL](src)
	return keysOf(in, poly, form, urlset.FromURL), err
}

func keysOf[In record.Row](in stage.Input[In], poly *fingerprint.Poly, form canon.Options, convert func(*In, *record.URL)) func() (uint64, error) {
	var row In
	var u record.URL
	return func() (uint64, error) {
		if err := in.Read(&row); err != nil {
			return 0, err
		}
		convert(&row, &u)
		return urlset.KeyOf(poly, form, &u), nil
	}
}

// test says how the URL-seen test is made.
type test struct {
	Mode  string `enum:"batch,online" default:"batch" help:"batch: read all input, then ask the set in one pass. online: ask for each URL, and let it through at once."`
	Cache int    `default:"262144" help:"Popular URLs to remember while it runs (0: none)."`

	Together int `default:"256" help:"URLs that --mode online asks for together where they are at hand, so that their reads overlap and share blocks (1: one by one)."`
}

// Validate refuses numbers that mean nothing.
func (t *test) Validate() error {
	switch {
	case t.Cache < 0 || t.Cache > urlset.MaxCache:
		return fmt.Errorf("--cache: %d, want a number of URLs, at most %d, or 0 for none", t.Cache, urlset.MaxCache)
	case t.Together < 1 || t.Together > urlset.MaxTogether:
		return fmt.Errorf("--together: %d, want 1 to %d", t.Together, urlset.MaxTogether)
	}
	return nil
}

// ruled refuses other rules for URLs than those of the set.
func ruled(st *store.Store, form canon.Options) error {
	m, err := st.Current()
	if err != nil {
		return err
	}
	return urlset.CheckRules(st, m, form)
}

// change runs the stage that lets each URL through once.
func (u *urls) change(ctx context.Context, std *cli.Std, dir string, flags cli.TxnFlags, how test, verb string, sinks []stage.Sink) error {
	st, err := std.OpenStore(dir, urlset.Kind, urlset.Version, flags)
	if err != nil {
		return err
	}
	form, err := u.Canon()
	if err != nil {
		return err
	}
	if err := ruled(st, form); err != nil { // before anything is read, and of a batch that was committed
		return err
	}
	batch := how.Mode == "batch"
	spec := stage.Spec{Name: "murlset " + verb, Verb: verb, Store: st, Txn: flags.Txn, Spooled: batch, LateLock: batch, NoOutput: sinks == nil}
	if cli.IsText(u.Text, u.Files) {
		in, err := u.text(std)
		if err != nil {
			return err
		}
		return run(ctx, std, spec, how, form, in, sinks, urlset.FromURL, nil)
	}
	src, err := cli.OpenSource(std, u.Files)
	if err != nil {
		return err
	}
	if src.Kind() == record.KindLink {
		in, err := cli.RowsOf[record.Link](src)
		if err != nil {
			return err
		}
		return run(ctx, std, spec, how, form, in, sinks, urlset.FromLink, nil)
	}
	in, err := cli.RowsOf[record.URL](src)
	if err != nil {
		return err
	}
	return run(ctx, std, spec, how, form, in, sinks, urlset.FromURL, in.Schema())
}

func run[In record.Row](ctx context.Context, std *cli.Std, spec stage.Spec, how test, form canon.Options, in stage.Input[In], sinks []stage.Sink, convert func(*In, *record.URL), like *record.Schema) error {
	progress := std.StartProgress("URLs", 0)
	defer progress.Done()
	return cli.RunStage(ctx, std, spec, in, sinks, func(ctx context.Context, b *stage.Batch[In, record.URL]) error {
		body := urlset.New[In]
		if how.Mode == "online" {
			body = urlset.Online[In]
		}
		stats, err := body(ctx, spec.Store, b, urlset.Options[In]{Convert: convert, Like: like, Canon: form, Quiet: spec.NoOutput, Cache: how.Cache, Together: how.Together,
			Memory: std.MemoryLimit() / 2, Set: fpset.Options{Workers: std.Threads()}, Progress: progress.Add})
		std.Stat("urls", stats)
		return err
	})
}

type newCmd struct {
	Store string `arg:"" help:"The set, such as crawl/urls."`
	urls
	test
	cli.TxnFlags
	cli.Output
}

// Help is the long text of --help.
func (newCmd) Help() string {
	return `Reads link records, url records, or text, and writes a url record for each URL that is
neither in the set nor came before in the input, in order of arrival. Then those URLs
are in the set. A link becomes a url record with the page it was found on as via. Text
is made canonical; a line that is no URL is named, counted and skipped.

Output begins when all input is read and the set has committed. The ledger counts what
is dropped under "seen". Memory is bounded however long the input: rows wait in a
temporary file (TMPDIR), and only checksums are sorted.

With --mode online a URL goes on as soon as it is known to be new: nothing waits, but
each costs a read of the set unless it is popular, and the store is locked from the
start. What goes on, and in which order, is the same. In both modes the set changes when
all input has ended well. --stats counts what the cache and the set were asked.

  murlset new crawl/urls --txn seed seeds.txt | mfrontier add crawl/frontier --txn seed
  mextract --warc crawl/fetch marked.arrows.zst | murlset new crawl/urls --txn r1 -o new.arrows.zst`
}

func (c *newCmd) Run(ctx context.Context, std *cli.Std) error {
	sinks, err := std.Sinks(c.Output)
	if err != nil {
		return err
	}
	return c.change(ctx, std, c.Store, c.TxnFlags, c.test, "new", sinks)
}

type addCmd struct {
	Store string `arg:"" help:"The set, such as crawl/urls."`
	urls
	test
	cli.TxnFlags
}

// Help is the long text of --help.
func (addCmd) Help() string {
	return `Adds URLs like "murlset new", and writes nothing. Fingerprint files (*.fps), and the
folders of other sets of URLs, are added too, alone, in one pass whatever --mode says. A
set of documents is refused; files do not say what they are of.

  murlset add crawl/urls --txn known already-fetched.txt
  murlset add crawl/urls other-crawl/urls`
}

func (c *addCmd) Run(ctx context.Context, std *cli.Std) error {
	sets := 0
	for _, f := range c.Files {
		if info, err := os.Stat(f); strings.HasSuffix(f, ".fps") || err == nil && info.IsDir() {
			sets++
		}
	}
	if sets == 0 {
		return c.change(ctx, std, c.Store, c.TxnFlags, c.test, "add", nil)
	}
	if sets < len(c.Files) {
		return &fault.Error{Class: fault.Usage, Found: "sets and URLs together", Want: "one kind", Hint: "add them one after the other"}
	}
	if c.Text || c.Strict {
		return &fault.Error{Class: fault.Usage, Found: "--text or --strict with a set", Want: "lines of text"}
	}
	st, err := std.OpenStore(c.Store, urlset.Kind, urlset.Version, c.TxnFlags)
	if err != nil {
		return err
	}
	in, err := fpset.OpenInputs(c.Files, false, 0, std.In, std.MemoryLimit()/4)
	if err != nil {
		return err
	}
	defer fpset.CloseInputs(in)
	stats, err := fpset.Add(ctx, st, c.Txn, in, fpset.Options{Workers: std.Threads()})
	std.Stat("keys", stats.Distinct)
	std.Stat("fresh", stats.Fresh)
	std.Stat("set", stats.Set)
	return err
}

type testCmd struct {
	Store string   `arg:"" help:"The set, such as crawl/urls."`
	Files []string `arg:"" optional:"" help:"Text, one URL a line (default: standard input)."`
	cli.RewriteFlags
}

// Help is the long text of --help.
func (testCmd) Help() string {
	return `Prints "seen" or "unseen", a tab, and the URL in canonical form, for each line. The exit
code is 0 if all were seen, 6 if one was not. Nothing is added. The first line that is no
URL ends it with exit code 3, where new and add without --strict skip and count it.

  echo http://www.example.com/ | murlset test crawl/urls`
}

func (c *testCmd) Run(ctx context.Context, std *cli.Std) error {
	st, err := std.OpenStore(c.Store, urlset.Kind, urlset.Version, cli.TxnFlags{})
	if err != nil {
		return err
	}
	form, err := c.Canon()
	if err != nil {
		return err
	}
	if err := ruled(st, form); err != nil {
		return err
	}
	set, err := fpset.LoadCurrent(st, fpset.Options{Workers: std.Threads()})
	if err != nil {
		return err
	}
	defer set.Close()
	poly, err := fingerprint.NewPoly(set.Polynomial())
	if err != nil {
		return err
	}
	in, err := openText(std, c.Files, true, form)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(std.Out)
	return fpset.Test(ctx, set, fpset.Query[record.URL]{
		Next: in.Read,
		Key:  func(row *record.URL) uint64 { return urlset.KeyOf(poly, form, row) },
		Size: func(row *record.URL) int { return 256 + len(row.URL) },
		Answer: func(row *record.URL, seen bool) error {
			_, err := fmt.Fprintf(out, "%s\t%s\n", fpset.Word(seen), row.URL)
			return err
		},
		Flush: out.Flush,
	})
}

type buildCmd struct {
	urls
	Output     string         `short:"o" required:"" placeholder:"FILE" help:"Fingerprint file to write; text if it is named *.txt. Missing folders are made."`
	Polynomial cli.Polynomial `placeholder:"HEX" help:"That of the set which the file is for, as \"murlset stat\" prints it (default: Mercator's)."`
}

// Help is the long text of --help.
func (buildCmd) Help() string {
	return `Makes a fingerprint file of the checksums of all URLs, without a store: for mmerge, or
for "murlset add".

  murlset build -o monday.fps monday.txt
  mmerge diff -o gone.fps monday.fps tuesday.fps`
}

func (c *buildCmd) Run(std *cli.Std) error {
	poly, err := fingerprint.NewPoly(c.Polynomial.Or(fingerprint.Polynomial))
	if err != nil {
		return err
	}
	next, err := c.eachKey(std, poly)
	if err != nil {
		return err
	}
	in, err := fpset.SortInput("URLs", merge.KeysOf(next), poly.Polynomial(), std.MemoryLimit()/4)
	if err != nil {
		return err
	}
	defer in.Close()
	return std.WriteSet(c.Output, false, merge.OpUnion, []*fpset.Input{in})
}

type dumpCmd struct{ cli.DumpSet }

func (c *dumpCmd) Run(std *cli.Std) error { return c.Write(std, urlset.Kind) }

type statCmd struct{ cli.StatSet }

func (c *statCmd) Run(std *cli.Std) error { return c.Print(std, urlset.Kind) }

type checkCmd struct{ cli.CheckSet }

func (c *checkCmd) Run(std *cli.Std) error { return c.Read(std, urlset.Kind) }

type keyCmd struct {
	Files      []string       `arg:"" optional:"" help:"Text, one URL a line (default: standard input)."`
	Polynomial cli.Polynomial `placeholder:"HEX" xor:"polynomial" help:"That of a set, as \"murlset stat\" prints it (default: Mercator's, by which url_key is made)."`
	Set        string         `placeholder:"STORE" xor:"polynomial" help:"Take the polynomial of this set."`
	Form       string         `enum:"url,key,surt,cdx" default:"url" help:"What stands behind the checksum: url, the canonical URL; key, what --key-rules leave of it, of which the checksum is made; surt, the URL with its host reversed, http://(org,example,)/; cdx, its key in CDX indexes, org,example)/."`
	cli.RewriteFlags
}

// Help is the long text of --help.
func (keyCmd) Help() string {
	return `Prints the URL checksum, a tab, and the canonical form, for each line, so that anyone can
check them by hand. A line that is no URL is an error.

  echo HTTP://www.Example.com | murlset key
  murlset key --set crawl/urls seeds.txt        # as "murlset dump crawl/urls" has them
  murlset key --form surt seeds.txt | cut -f2 | sort        # domains together

A canonical URL has no fragment, user name or default port; its host is lower-case ASCII,
its dot segments are resolved, its escapes upper-case and only where they must be. A crawl
may have more taken away, by rules:

  session-ids     the arguments and parameters jsessionid, phpsessid, aspsessionid…, sid
                  of 32 letters and digits, cfid with cftoken
  www             www. and www2. before a name with a dot
  query-order     arguments are sorted by name, then by value
  tracking        ` + wrapped(canon.Trackers, 72, "                  ") + `
  trailing-slash  the / at the end of a path

With --key-rules (crawl.toml: urls.key_rules) URLs stay as they are found, and only their
checksums are made of what the rules leave: of URLs that are one by them, the first to be
found is fetched. With --url-rules (urls.url_rules) the URLs themselves are rewritten; do
this only where servers answer what is left. The target of a redirect between two URLs
that are one by the rules is fetched all the same. The rules are the crawl's: set them in
crawl.toml before it begins. A set takes no URLs by other rules than its first ones.

  echo 'http://www.example.com/a?utm_source=x' | murlset key --key-rules www,tracking --form key`
}

func (c *keyCmd) Run(std *cli.Std) error {
	p := c.Polynomial.Or(fingerprint.Polynomial)
	if c.Set != "" {
		st, err := std.OpenStore(c.Set, urlset.Kind, urlset.Version, cli.TxnFlags{})
		if err != nil {
			return err
		}
		if p, err = fpset.PolynomialOf(st); err != nil {
			return err
		}
	}
	poly, err := fingerprint.NewPoly(p)
	if err != nil {
		return err
	}
	form, err := c.Canon()
	if err != nil {
		return err
	}
	in, err := openText(std, c.Files, true, form)
	if err != nil {
		return err
	}
	show := map[string]func(*record.URL) string{
		"url":  func(u *record.URL) string { return u.URL },
		"key":  func(u *record.URL) string { _, s := form.KeyForm(u.Host, u.URL); return s },
		"surt": func(u *record.URL) string { return canon.SURT(u.URL) },
		"cdx":  func(u *record.URL) string { return canon.CDXKey(u.URL) },
	}[c.Form]
	out := bufio.NewWriter(std.Out)
	var row record.URL
	for {
		err := in.Read(&row)
		if err == io.EOF {
			return out.Flush()
		}
		if err == nil {
			_, err = fmt.Fprintf(out, "%s\t%s\n", fingerprint.Format(urlset.KeyOf(poly, form, &row)), show(&row))
		}
		if err != nil {
			out.Flush()
			return err
		}
	}
}

// wrapped joins words, in lines of at most width bytes that continue behind indent.
func wrapped(words []string, width int, indent string) string {
	var b strings.Builder
	line := 0
	for i, w := range words {
		switch {
		case i == 0:
		case line+2+len(w) > width:
			b.WriteString(",\n" + indent)
			line = 0
		default:
			b.WriteString(", ")
			line += 2
		}
		b.WriteString(w)
		line += len(w)
	}
	return b.String()
}

type createCmd struct {
	Store string `arg:"" help:"Folder to make."`
	cli.CreateSetFlags
}

// Help is the long text of --help.
func (createCmd) Help() string {
	return `Makes a folder with an empty set. "mckpt init" does it for a whole crawl.

A set keeps its implementation. sorted keeps sorted runs: some 5 bytes a key, one
sequential pass a batch. bloom keeps a Bloom filter of a fixed size: it never forgets a
key, calls some seen that are not (stat prints the rate), and cannot be dumped.
Both have the same transactions, checkpoints and restores.

A polynomial is for good, and sets of different ones cannot be compared or merged.

  murlset create urls
  murlset create --polynomial random urls
  murlset create small --impl bloom --bloom-size 4M`
}

func (c *createCmd) Run() error {
	with, err := c.Options()
	if err != nil {
		return err
	}
	return urlset.Create(c.Store, with, store.Options{})
}

func main() { os.Exit(cli.Main("murlset", about, &grammar{}, 64<<20)) }
