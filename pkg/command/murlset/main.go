// Package murlset answers the URL-seen test from a set of URL checksums.
package murlset

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/cli"
	"mercator/pkg/command/sets"
	"mercator/pkg/config"
	"mercator/pkg/folder/ownstage"
	"mercator/pkg/folder/stage"
	"mercator/pkg/fpset"
	"mercator/pkg/merge"
	"mercator/pkg/urlset"
	"mercator/pkg/web/canon"
)

const about = `Keep a set of URL checksums, and let each URL through once. The set is a store, such as crawl/urls.`

type grammar struct {
	cli.Common `embed:""`

	New    newCmd    `cmd:"" help:"Write the URLs that were never seen before, and add them to the set."`
	Add    addCmd    `cmd:"" help:"Add URLs to the set."`
	Test   testCmd   `cmd:"" help:"Say for each URL whether it is in the set."`
	Build  buildCmd  `cmd:"" help:"Make a fingerprint file of URLs, without a store."`
	Dump   dumpCmd   `cmd:"" help:"Print the set, one checksum a line."`
	Stat   statCmd   `cmd:"" help:"Describe the set, as JSON."`
	Check  checkCmd  `cmd:"" help:"Read the whole set and verify it."`
	Key    keyCmd    `cmd:"" help:"Print checksum, canonical form and input line of each URL."`
	Create createCmd `cmd:"" help:"Make an empty set."`
}

// urls are URLs to read: link or url records, or text.
type urls struct {
	Files  []string `arg:"" optional:"" help:"Links, url records or text (*.txt); default: standard input."`
	Text   bool     `help:"The input is text, one URL a line."`
	Strict bool     `help:"Fail on a bad line of text instead of skipping it."`
	config.RewriteFlags
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
		if err != nil {
			return nil, err
		}
		return keysOf(cli.Unsummed(in), poly, form, urlset.FromURL), nil
	}
	src, err := cli.OpenSource(std, u.Files, cli.Links)
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
	config.ModeFlag
	Cache int `default:"262144" range:"0 67108864" help:"Popular URLs to keep in memory (0 for none)."`

	Together int `default:"256" range:"1 65536" help:"URLs that --mode online looks up together."`

	config.SeenProgram
	config.ProgramTime
}

// own is the program that makes it, if one does.
func (t *test) own() ownstage.Program {
	return ownstage.Program{Setting: "stages.seen", Command: t.Seen, Timeout: t.ProgramTimeout}
}

// ruled refuses rules for URLs that differ from the rules of the set.
func ruled(st *store.Store, form canon.Options) error {
	m, err := st.Current()
	if err != nil {
		return err
	}
	return urlset.CheckRules(st, m, form)
}

// change runs the stage that lets each URL through once.
func (u *urls) change(ctx context.Context, std *cli.Std, dir string, flags cli.TxnFlags, how test, verb string, sinks []stage.Output) error {
	own := how.own()
	if own.Command != "" && sinks == nil {
		return &fault.Error{Class: fault.Usage, Place: own.Setting, Found: "a program that is the URL-seen test", Want: "murlset new, whose output need not be read"}
	}
	st, err := own.Open(dir, urlset.Kind, urlset.Version, std.StoreOptions(flags))
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
	spec := stage.Spec{Name: "murlset " + verb, Verb: own.Verb(verb), Store: st, Txn: flags.Txn, Shape: stage.Gate}
	if sinks == nil {
		spec.Shape = stage.Sink
	} else if how.Mode == "online" || own.Command != "" {
		spec.Shape = stage.Filter
	}
	if cli.IsText(u.Text, u.Files) {
		in, err := u.text(std)
		if err != nil {
			return err
		}
		return run(ctx, std, spec, how, form, in, sinks, urlset.FromURL, nil)
	}
	src, err := cli.OpenSource(std, u.Files, cli.Links)
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

func run[In record.Row](ctx context.Context, std *cli.Std, spec stage.Spec, how test, form canon.Options, in stage.Input[In], sinks []stage.Output, convert func(*In, *record.URL), like *record.Schema) error {
	progress := std.StartProgress("URLs", 0)
	defer progress.Done()
	return cli.RunStage(ctx, std, spec, in, sinks, func(ctx context.Context, b *stage.Batch[In, record.URL]) error {
		if how.Seen != "" {
			return seenBy(ctx, spec, how, form, b, convert, progress.Add)
		}
		body := urlset.New[In]
		if how.Mode == "online" {
			body = urlset.Online[In]
		}
		stats, err := body(ctx, spec.Store, b, urlset.Options[In]{Convert: convert, Like: like, Canon: form, Quiet: spec.Shape == stage.Sink, Cache: how.Cache, LookupBatch: how.Together,
			Memory: std.MemoryLimit() / 2, Set: fpset.Options{Workers: std.Threads()}, Progress: progress.Add})
		std.Stat("urls", stats)
		return err
	})
}

// seenBy asks a program, which passes URLs on by the keys of the crawl.
func seenBy[In record.Row](ctx context.Context, spec stage.Spec, how test, form canon.Options, b *stage.Batch[In, record.URL], convert func(*In, *record.URL), progress func(int64)) error {
	urlset.NoteRules(b.Tx(), form)
	return ownstage.Run(ctx, b, spec.Store, spec.Txn, how.own(), ownstage.Rows[In, record.URL]{
		Convert: func(in *In, u *record.URL) bool {
			convert(in, u)
			if u.Key == 0 {
				u.Key = form.URLKey(u.Host, u.URL)
			}
			return true
		},
		Columns: ownstage.OfFilters, Drop: urlset.ReasonSeen, Progress: progress})
}

type newCmd struct {
	Store string `arg:"" help:"The set, such as crawl/urls."`
	urls
	test
	cli.TxnFlags
	cli.Output
}

// Help is part of --help.
func (newCmd) Help() string {
	return `The set changes only after all input was read. Bad lines of text are skipped.

Examples:
  murlset new crawl/urls --txn seed seeds.txt |
    mfrontier add crawl/frontier --txn seed`
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

// Help is part of --help.
func (addCmd) Help() string {
	return `It works like "murlset new", but writes nothing. Other sets of URLs, as folders
or fingerprint files (*.fps), can be added too.

Examples:
  murlset add crawl/urls --txn known already-fetched.txt
  murlset add crawl/urls other-crawl/urls`
}

func (c *addCmd) Run(ctx context.Context, std *cli.Std) error {
	folders := 0
	for _, f := range c.Files {
		if info, err := os.Stat(f); strings.HasSuffix(f, ".fps") || err == nil && info.IsDir() {
			folders++
		}
	}
	if folders == 0 {
		return c.change(ctx, std, c.Store, c.TxnFlags, c.test, "add", nil)
	}
	if folders < len(c.Files) {
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
	return sets.Add(ctx, std, st, c.Txn, in)
}

type testCmd struct {
	Store string   `arg:"" help:"The set, such as crawl/urls."`
	Files []string `arg:"" optional:"" help:"Text, one URL a line; default: standard input."`
	config.RewriteFlags
}

// Help is part of --help.
func (testCmd) Help() string {
	return `A line is "seen" or "unseen", a tab, and the canonical URL. The exit code is 0
if all were seen, 6 if not.

Examples:
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
	Output     string         `short:"o" required:"" placeholder:"FILE" help:"Fingerprint file to write; text if it is named *.txt."`
	Polynomial cli.Polynomial `placeholder:"HEX" help:"That of the set (murlset stat); default: Mercator's."`
}

// Help is part of --help.
func (buildCmd) Help() string {
	return `Examples:
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
	return sets.Write(std, c.Output, false, merge.OpUnion, []*fpset.Input{in})
}

type dumpCmd struct{ sets.Dump }

func (c *dumpCmd) Run(std *cli.Std) error { return c.Write(std, urlset.Kind) }

type statCmd struct{ sets.Stat }

func (c *statCmd) Run(std *cli.Std) error { return c.Print(std, urlset.Kind) }

type checkCmd struct{ sets.Check }

func (c *checkCmd) Run(std *cli.Std) error { return c.Read(std, urlset.Kind) }

type keyCmd struct {
	Files      []string       `arg:"" optional:"" help:"Text, one URL a line; default: standard input."`
	Polynomial cli.Polynomial `placeholder:"HEX" xor:"polynomial" help:"Polynomial of the checksum (default: Mercator's)."`
	Set        string         `placeholder:"STORE" xor:"polynomial" help:"Take the polynomial of this set."`
	Form       string         `enum:"url,key,surt,cdx" default:"url" placeholder:"url" help:"Print behind the checksum: url, key, surt or cdx."`
	Strict     bool           `help:"Fail on a bad line instead of skipping it."`
	config.RewriteFlags
}

// Help is part of --help.
func (keyCmd) Help() string {
	return `Rules for --key-rules and --url-rules:
  session-ids     jsessionid, phpsessid, sid and other session arguments
  www             www. and www2. before a name
  query-order     the order of arguments
  tracking        utm_*, fbclid and other arguments for tracking
  trailing-slash  the / at the end of a path

Examples:
  echo HTTP://www.Example.com | murlset key
  murlset key --form surt seeds.txt | cut -f2 | sort   # domains together
  murlset key --key-rules www,tracking --form key urls.txt`
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
	var line string
	in, err := cli.OpenText(std, c.Files, c.Strict, func(text string, row *record.URL) error {
		line = text
		return urlset.ParseLine(text, form, row)
	})
	if err != nil {
		return err
	}
	show := map[string]func(*record.URL) string{
		"url":  func(u *record.URL) string { return u.URL },
		"key":  func(u *record.URL) string { _, s := form.KeyForm(u.Host, u.URL); return s },
		"surt": func(u *record.URL) string { return canon.SURT(u.URL) },
		"cdx":  func(u *record.URL) string { return canon.CDXKey(u.URL) },
	}[c.Form]
	out, terminal := bufio.NewWriter(std.Out), std.OnTerminal()
	err = record.Each(in, func(row *record.URL) error {
		if terminal {
			line = string(record.AppendEscaped(nil, line)) // a list may have codes that a terminal obeys
		}
		_, err := fmt.Fprintf(out, "%s\t%s\t%s\n", fingerprint.Format(urlset.KeyOf(poly, form, row)), show(row), line)
		return err
	})
	return cmp.Or(err, out.Flush())
}

type createCmd struct {
	Store string `arg:"" help:"Folder to make."`
	config.URLSet
	config.NewSet
}

// Help is part of --help.
func (createCmd) Help() string {
	return `A whole crawl is made by "mckpt init".

Examples:
  murlset create urls
  murlset create --polynomial random urls
  murlset create small --impl bloom --bloom-size 4M`
}

func (c *createCmd) Run(std *cli.Std) error {
	with, err := sets.Options(std, c.Impl, c.NewSet)
	if err != nil {
		return err
	}
	return urlset.Create(c.Store, with, store.Options{})
}

// Command is murlset.
var Command = cli.Command{Name: "murlset", About: about, Memory: 64 << 20, Setting: "memory.stages", Grammar: func() any { return &grammar{} }}
