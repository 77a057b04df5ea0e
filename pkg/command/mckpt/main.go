// Package mckpt keeps the checkpoints of a crawl folder.
package mckpt

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/config"
	"mercator/pkg/crawl"
	"mercator/pkg/frontier"
)

const about = "Make a crawl folder, close its rounds with checkpoints, and go back to them."

type grammar struct {
	cli.Common
	Init    initCmd    `cmd:"" help:"Make a crawl folder with all its stores."`
	Commit  commitCmd  `cmd:"" help:"Close a round with a checkpoint."`
	Abandon abandonCmd `cmd:"" help:"Drop everything since the last checkpoint."`
	List    listCmd    `cmd:"" help:"List the checkpoints."`
	Show    showCmd    `cmd:"" help:"Show where the crawl stands, or one checkpoint."`
	Verify  verifyCmd  `cmd:"" help:"Check every file and every ledger; exit 6 if one is wrong."`
	Restore restoreCmd `cmd:"" help:"Go back to a checkpoint."`
	Repair  repairCmd  `cmd:"" help:"Make CURRENT and HEAD files anew that are lost, damaged or old."`
	GC      gcCmd      `cmd:"" name:"gc" help:"Forget old checkpoints and delete files that no other needs."`
	Hold    holdCmd    `cmd:"" help:"Run a driver of the crawl, such as make, and keep others out."`
	Files   filesCmd   `cmd:"" help:"List the files that a copy of the crawl needs."`
	Push    pushCmd    `cmd:"" help:"Bring a copy of the crawl elsewhere up to its last checkpoint."`
	Pull    pullCmd    `cmd:"" help:"Make a crawl folder of such a copy, to go on where the first was lost."`
	Rounds  roundsCmd  `cmd:"" help:"Keep the files of the rounds that count, and print the next round's number."`
}

type lockFlag struct {
	LockWait time.Duration `default:"70s" help:"Wait this long for a store that is in use."`
}

func (l lockFlag) options() crawl.Options { return crawl.Options{LockWait: l.LockWait} }

type initCmd struct {
	Crawl string `arg:"" help:"Folder to make."`
	config.PolynomialFlag
	Shards int `default:"1" range:"1 512" help:"Shards to cut the crawl into, each with stores of its own; at most 512."`
	config.ContentHashFlag
	Policy string `key:"frontier.policy" predictor:"policy" placeholder:"NAME" help:"Order of the frontier; see \"mfrontier policies\"."`
	lockFlag
}

// Help is part of --help.
func (*initCmd) Help() string {
	return `If you run it again, it makes what is missing, but no CURRENT or store that
has been lost with what was in it.

Examples:
  mckpt init crawl && $EDITOR crawl/crawl.toml
  mckpt init crawl --config crawl.toml
  mckpt init crawl --policy fifo`
}

func (c *initCmd) Run(ctx context.Context, std *cli.Std) error {
	var given []byte
	var settings config.File
	path := string(std.Common.Config)
	if path != "" {
		conf, err := config.Load(path)
		if err != nil {
			return err
		}
		settings = conf.File
		if err := conf.CheckPaths(c.Crawl); err != nil {
			return err
		}
		if given, err = os.ReadFile(path); err != nil {
			return err
		}
		if given, err = conf.WithoutAlone(c.Crawl, given, std.Warn); err != nil {
			return err
		}
	} else if conf, err := config.Load(filepath.Join(c.Crawl, config.Name)); err == nil {
		settings, path = conf.File, conf.Path
	} else if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return err
	}
	c.Polynomial = cmp.Or(c.Polynomial, settings.Sets.Polynomial)
	if std.Given("policy") {
		path = "" // of what may be wrong
	}
	if c.Policy != "" {
		settings.Frontier.Policy = c.Policy
	}
	settings.Sets.ContentHash = cmp.Or(c.ContentHash, settings.Sets.ContentHash)
	if c.Shards > 1 {
		if err := (&config.Config{File: settings, Path: path}).Shardable(); err != nil {
			return err
		}
	}
	p, err := polynomialOf(c.Crawl, c.Polynomial, store.Options{LockWait: c.LockWait})
	if err != nil {
		return err
	}
	makers, err := makersOf(path, &settings, p)
	if err != nil {
		return err
	}
	return crawl.Whole(ctx, c.Crawl, func(dir string) error {
		opt := c.options()
		if c.Shards != 1 {
			opt.Shards = c.Shards
		}
		_, err := crawl.Init(dir, given, config.Preset(), func(dir string) error {
			for _, m := range makers {
				if err := m.make(filepath.Join(dir, m.name), store.Options{LockWait: c.LockWait}); err != nil {
					return err
				}
			}
			return nil
		}, opt)
		return err
	})
}

type commitCmd struct {
	Crawl string `arg:"" help:"The crawl folder."`
	Txn   string `required:"" placeholder:"NAME" help:"Name of the round."`
	config.IntervalFlag
	lockFlag
}

// Help is part of --help.
func (*commitCmd) Help() string {
	return `All commands of the round must have committed. If one has not, the command names
its store: then run the round's pipe again.

Examples:
  mckpt commit crawl --txn r12`
}

func (c *commitCmd) Run(ctx context.Context, std *cli.Std) error {
	folder, err := crawl.Open(c.Crawl, c.options())
	if err != nil {
		return err
	}
	if owner := drivenBy(folder); owner != "" {
		return &fault.Error{Class: fault.Busy, File: c.Crawl, Found: "held by " + owner, Want: fmt.Sprintf("round %q to be over", c.Txn), Hint: "it commits its rounds itself: wait for it to end"}
	}
	k, made, err := folder.Commit(ctx, c.Txn, std.Now(), c.Interval)
	if err != nil {
		return err
	}
	std.Stat("checkpoint", k.Number)
	switch {
	case made:
		std.Warn("checkpoint %d closes round %q", k.Number, k.Txn)
	case k.Number > 0:
		std.Warn("round %q was closed before, by checkpoint %d", k.Txn, k.Number)
	default:
		std.Warn("round %q was closed before", k.Txn)
	}
	return nil
}

// drivenBy says who runs the rounds of the crawl; "" if nobody does, or the one that started this command.
func drivenBy(folder *crawl.Crawl) string {
	if os.Getenv(cli.DriverVariable) != "" {
		return ""
	}
	return folder.Driven()
}

// warnDriver says before a crawl goes back what that does to who works on it.
func warnDriver(std *cli.Std, folder *crawl.Crawl) {
	if owner := drivenBy(folder); owner != "" {
		std.Warn("%s: held by %s: its round fails now, run it again afterwards", folder.Dir(), owner)
	}
}

type abandonCmd struct {
	Crawl string `arg:"" help:"The crawl folder."`
	lockFlag
}

// Help is part of --help.
func (*abandonCmd) Help() string {
	return `The round's name is free again. The times of contacts with hosts are kept, so
the crawl stays polite.
It acts at once, also while "mcrawl run" works on the crawl: that round fails.

Examples:
  mckpt abandon crawl`
}

func (c *abandonCmd) Run(ctx context.Context, std *cli.Std) error {
	folder, err := crawl.Open(c.Crawl, c.options())
	if err != nil {
		return err
	}
	warnDriver(std, folder)
	before, err := folder.Abandon(ctx)
	if err != nil {
		return err
	}
	after, err := folder.State()
	if err != nil {
		return err
	}
	if len(before.Rounds) == 0 && len(before.Changed) == 0 {
		std.Warn("nothing to give up: the crawl stands at checkpoint %d; what still runs will not commit (epoch %d)", before.Checkpoint, after.Epoch)
		return nil
	}
	given := before.Rounds
	if len(given) == 0 {
		given = []string{"what was done without --txn"}
	}
	std.Warn("given up: %s; stores that go back: %s", strings.Join(given, ", "), orNone(strings.Join(before.Changed, ", ")))
	return nil
}

type listCmd struct {
	Crawl string `arg:"" help:"The crawl folder."`
	JSON  bool   `name:"json" help:"Print JSON lines."`
}

// Help is part of --help.
func (*listCmd) Help() string {
	return `The oldest is first, and * marks the current one. 0 is the empty crawl.

Examples:
  mckpt list crawl
  mckpt list crawl --json | jq -r '[.number, .txn, .made] | @tsv'`
}

func (c *listCmd) Run(std *cli.Std) error {
	folder, err := crawl.Open(c.Crawl, crawl.Options{})
	if err != nil {
		return err
	}
	if c.JSON {
		out := json.NewEncoder(std.Out)
		return folder.List(func(k *crawl.Checkpoint) error { return out.Encode(k) })
	}
	now, err := folder.Current() // works with a damaged store, too
	if err != nil {
		return err
	}
	mark := func(n uint64) string {
		if now == nil && n == 0 || now != nil && n == now.Number {
			return "*"
		}
		return ""
	}
	screen := std.Screen()
	out := tabwriter.NewWriter(screen, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, screen.Paint("heading", "\tnumber\tround\tmade\tafter\tepoch\tURLs in\tout"))
	fmt.Fprintf(out, "%s\t0\t(empty)\t\t\t\t\t\n", mark(0))
	err = folder.List(func(k *crawl.Checkpoint) error {
		var in, ended uint64
		for _, l := range k.Ledgers() {
			if n := len(l.Stages); n > 0 {
				in, ended = in+l.Stages[0].Out, ended+l.Stages[n-1].In
			}
		}
		_, err := fmt.Fprintf(out, "%s\t%d\t%s\t%s\t%d\t%d\t%d\t%d\n", mark(k.Number), k.Number, k.Txn, k.Made, k.Parent, k.Epoch, in, ended)
		return err
	})
	if err != nil {
		return err
	}
	return out.Flush()
}

type showCmd struct {
	Crawl      string `arg:"" help:"The crawl folder."`
	Checkpoint string `arg:"" optional:"" help:"A checkpoint's number, or the round that it closed; default: the present state."`
	JSON       bool   `name:"json" xor:"what" help:"Print JSON."`
	NextRound  bool   `xor:"what" help:"Print the number of the next round."`
	OpenRounds bool   `xor:"what" help:"Print the names of open rounds, one a line."`
	Epoch      bool   `xor:"what" help:"Print the epoch, which abandon and restore raise."`
	Setting    string `xor:"what" placeholder:"KEY" help:"Print this setting, such as politeness.min_delay."`
	Param      string `xor:"what" placeholder:"STORE.NAME" help:"Print this parameter, such as frontier.policy."`
}

// Help is part of --help.
func (*showCmd) Help() string {
	return `Examples:
  mckpt show crawl
  mckpt show crawl 12 --json | jq .ledger.stages
  mckpt show crawl --setting seeds`
}

func (c *showCmd) Run(std *cli.Std) error {
	folder, err := crawl.Open(c.Crawl, crawl.Options{})
	if err != nil {
		return err
	}
	if c.Checkpoint != "" {
		number, err := folder.Find(c.Checkpoint)
		if err != nil {
			return err
		}
		if number == 0 {
			return &fault.Error{Class: fault.Usage, File: c.Crawl, Found: "checkpoint 0 is the empty crawl, which holds nothing"}
		}
		k, err := folder.Checkpoint(number)
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(std, k)
		}
		return showCheckpoint(std, k)
	}
	if c.Setting != "" {
		return c.setting(std)
	}
	if c.Param != "" {
		return c.param(std, folder)
	}
	if !c.Epoch && !c.JSON { // those who go on with the crawl ask for the round
		if err := checkSettings(std, c.Crawl); err != nil && c.NextRound {
			return err
		} else if err != nil {
			std.Warn("%v", err)
		}
	}
	if c.NextRound {
		n, err := folder.NextRound()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(std.Out, n)
		return err
	}
	st, err := folder.State()
	if err != nil {
		return err
	}
	switch {
	case c.Epoch:
		_, err = fmt.Fprintln(std.Out, st.Epoch)
		return err
	case c.OpenRounds:
		for _, round := range st.Rounds {
			fmt.Fprintln(std.Out, round)
		}
		return nil
	case c.JSON:
		return printJSON(std, st)
	}
	screen := std.Screen()
	out := tabwriter.NewWriter(screen, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "checkpoint\t%d %s\nepoch\t%d\nopen round\t%s\nchanged\t%s\n\n", st.Checkpoint, st.Txn, st.Epoch, orNone(strings.Join(st.Rounds, ", ")), orNone(strings.Join(st.Changed, ", ")))
	fmt.Fprintln(out, screen.Paint("heading", "store\tkind\tgeneration\tfiles\tbytes\tround\tcommitted"))
	for _, s := range st.Stores {
		fmt.Fprintf(out, "%s\t%s\t%d\t%d\t%d\t%s\t%s\n", s.Name, s.Kind, s.Generation, s.Files, s.Bytes, s.Round, strings.Join(s.Committed, " "))
	}
	return out.Flush()
}

// setting prints what crawl.toml says of one key.
func (c *showCmd) setting(std *cli.Std) error {
	conf, err := config.Load(filepath.Join(c.Crawl, config.Name))
	if err != nil {
		return err
	}
	values, err := conf.Setting(c.Setting)
	if err != nil {
		return err
	}
	for _, v := range values {
		if std.OnTerminal() {
			v = cli.Printable(v)
		}
		if _, err := fmt.Fprintln(std.Out, v); err != nil {
			return err
		}
	}
	return nil
}

func (c *showCmd) param(std *cli.Std, folder *crawl.Crawl) error {
	name, param, _ := strings.Cut(c.Param, ".") // of all shards it is the same
	stores, err := folder.Stores()
	if err != nil {
		return err
	}
	var names []string
	for _, s := range stores {
		if is := path.Base(s.Name()); is != name {
			if !slices.Contains(names, is) {
				names = append(names, is)
			}
			continue
		}
		m, err := s.Current()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(std.Out, m.Params[param])
		return err
	}
	return &fault.Error{Class: fault.Usage, Place: "--param", Found: fmt.Sprintf("%q", c.Param), Want: "STORE.NAME; the stores are " + strings.Join(names, ", ")}
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func printJSON(std *cli.Std, v any) error {
	out := json.NewEncoder(std.Out)
	out.SetIndent("", "  ")
	return out.Encode(v)
}

func showCheckpoint(std *cli.Std, k *crawl.Checkpoint) error {
	screen := std.Screen()
	out := tabwriter.NewWriter(screen, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "checkpoint\t%d\nround\t%s\nmade\t%s\nafter\t%d\nepoch\t%d\n\n", k.Number, k.Txn, k.Made, k.Parent, k.Epoch)
	fmt.Fprintln(out, screen.Paint("heading", "store\tkind\tgeneration"))
	for _, s := range k.Stores {
		fmt.Fprintf(out, "%s\t%s\t%d\n", s.Name, s.Kind, s.Generation)
	}
	fmt.Fprintln(out, screen.Paint("heading", "\nstage\tin\tpassed\tconsumed\tdropped\tmade\tout"))
	for _, l := range k.Ledgers() {
		showLedger(out, l)
	}
	return out.Flush()
}

func showLedger(out *tabwriter.Writer, l record.Ledger) {
	for _, j := range l.Joined {
		showLedger(out, j)
	}
	for _, s := range l.Stages {
		fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%s\t%s\t%d\n", s.Name, s.In, s.Passed, s.Consumed, counts(s.Drops), counts(s.Made), s.Out)
	}
}

func counts(list []record.Count) string {
	var parts []string
	for _, c := range list {
		parts = append(parts, fmt.Sprintf("%s %d", c.Reason, c.N))
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}

type roundsCmd struct {
	Crawl  string `arg:"" help:"The crawl folder."`
	Closed bool   `help:"Change nothing: print the names of the closed rounds, one a line."`
	lockFlag
}

// Help is part of --help.
func (*roundsCmd) Help() string {
	return `For drivers: run it before the first round. Files in rounds/ of rounds that abandon
or restore has undone move to rounds/undone, and back if a restore needs them. A
restore does this itself, unless it is killed.

Examples:
  n=$(mckpt rounds crawl)`
}

func (c *roundsCmd) Run(ctx context.Context, std *cli.Std) error {
	opt := c.options()
	opt.Warn = func(err error) { std.Warn("%v", err) }
	folder, err := crawl.Open(c.Crawl, opt)
	if err != nil {
		return err
	}
	if c.Closed {
		rounds, err := folder.Rounds()
		for _, name := range rounds {
			if closed, err := folder.Closed(name); err != nil || !closed {
				return err // an open one is the last
			}
			fmt.Fprintln(std.Out, name)
		}
		return err
	}
	if err := checkSettings(std, c.Crawl); err != nil {
		return err
	}
	n, err := folder.TidyRounds(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(std.Out, n)
	return err
}

type verifyCmd struct {
	Crawl string `arg:"" help:"The crawl folder."`
	JSON  bool   `name:"json" help:"Print JSON."`
}

// Help is part of --help.
func (*verifyCmd) Help() string {
	return `Each problem is a line with the file and the place.

Examples:
  mckpt verify crawl && mckpt gc crawl --keep 3`
}

func (c *verifyCmd) Run(ctx context.Context, std *cli.Std) error {
	progress := std.StartProgress("bytes", 0)
	defer progress.Done()
	folder, err := crawl.Open(c.Crawl, crawl.Options{Progress: progress.Add})
	if err != nil {
		return err
	}
	v, err := folder.Verify(ctx)
	progress.Done()
	if err != nil {
		return err
	}
	var hints []string
	if v.Repair {
		hints = append(hints, "make pointers anew that are lost, damaged or old: "+fault.Quote("mckpt", "repair", c.Crawl))
	}
	if len(v.Aside) > 0 {
		hints = append(hints, "put back what a restore has set aside: "+fault.Quote("mckpt", "rounds", c.Crawl))
	}
	if len(v.Lost) > 0 {
		hints = append(hints, "the crawl goes on without the files of these rounds, but exports, reports and repeated fetches (mcrawl again) lack them: put them back from a copy; if you moved them away, gc, once it forgets their checkpoints, ends this message")
	}
	for _, check := range []func() error{
		func() error { _, err := config.Load(filepath.Join(c.Crawl, config.Name)); return err },
		func() error { return eachPart(c.Crawl, checkFetch) },
		func() error {
			return eachPart(c.Crawl, func(dir string) error { return checkSeen(ctx, std, dir, len(v.Problems) > 0) })
		},
		func() error { return frontier.CheckCredit(c.Crawl) },
	} {
		err := check()
		if fewFiles := errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, fs.ErrPermission); ctx.Err() != nil || fewFiles {
			return cmp.Or(context.Cause(ctx), err)
		} else if err != nil && !slices.Contains(v.Problems, err.Error()) {
			v.Problems = append(v.Problems, err.Error())
			if own := new(fault.Error); errors.As(err, &own) && own.Hint != "" {
				hints = append(hints, own.Hint)
			}
		}
	}
	for _, f := range v.Longer {
		hints = append(hints, "cut off what does not belong to the file: "+fault.Quote("truncate", "-s", fmt.Sprint(f.Length), f.Path))
	}
	if v.Output != "" {
		hints = append(hints, fmt.Sprintf("the open round needs %s: put it back from a copy, or drop the round, which is then made again: %s", v.Output, fault.Quote("mckpt", "abandon", c.Crawl)))
	}
	told := len(hints) + v.Gaps + len(v.Needed) + len(v.Spare)
	hints = append(hints, c.hints(v)...)
	if len(v.Problems) > told {
		hints = append(hints, "put files that are damaged or missing back from a copy")
	}
	if v.Other != "" { // to it nothing may be damaged
		hints = []string{v.Other}
	}
	std.Stat("verified", v)
	if c.JSON {
		if err := printJSON(std, v); err != nil {
			return err
		}
	} else {
		for _, p := range v.Problems {
			fmt.Fprintln(std.Out, cli.Printable(p))
		}
	}
	if n := len(v.Problems); n > 0 {
		return &fault.Error{Class: fault.No, File: c.Crawl, Found: fmt.Sprintf("problems: %d", n), Hint: strings.Join(hints, "; ")}
	}
	std.Warn("%s, %s of %s, %s, %s: all is well", cli.Count(v.Checkpoints, "checkpoint"), cli.Count(v.Files, "file"), cli.Count(v.Bytes, "byte"), cli.Count(v.Ledgers, "ledger"), cli.Count(v.RecordFiles, "record file"))
	return nil
}

// hints returns the hints for damaged files of stores, and for ledgers.
func (c *verifyCmd) hints(v *crawl.Verified) (hints []string) {
	if len(v.Needed) > 0 {
		way := "put it back from a copy"
		conf, err := config.Load(filepath.Join(c.Crawl, config.Name))
		if err == nil && conf.File.Push != "" {
			way = "make a crawl of the copy: " + fault.Quote("mckpt", "pull", conf.File.Push, "NEW")
		} else if v.Sound > 0 {
			way += ", or go back to a checkpoint that does not need it: " + fault.Quote("mckpt", "restore", c.Crawl, fmt.Sprint(v.Sound))
		}
		hints = append(hints, fmt.Sprintf("the crawl needs %s to go on: %s", v.Needed[0], way))
	}
	if len(v.Spare) > 0 {
		hints = append(hints, fmt.Sprintf("the crawl goes on without %s: put it back from a copy to return to the checkpoints that need it", v.Spare[0]))
	}
	if v.Gaps > 0 {
		hints = append(hints, "a stage that is not ours leaves a gap in the ledger unless mcat --stage names it")
	}
	return hints
}

type restoreCmd struct {
	Crawl      string `arg:"" help:"The crawl folder."`
	Checkpoint string `arg:"" help:"Its number, or the round that it closed; 0 is the empty crawl."`
	lockFlag
}

// Help is part of --help.
func (*restoreCmd) Help() string {
	return `Everything since the current checkpoint is dropped. Later checkpoints stay.
It acts at once, also while "mcrawl run" works on the crawl: that round fails.

Examples:
  mckpt list crawl
  mckpt restore crawl 7
  mckpt restore crawl r20`
}

func (c *restoreCmd) Run(ctx context.Context, std *cli.Std) error {
	opt := c.options()
	opt.Warn = func(err error) { std.Warn("%v", err) }
	folder, err := crawl.Open(c.Crawl, opt)
	if err != nil {
		return err
	}
	number, err := folder.Find(c.Checkpoint)
	if err != nil {
		return err
	}
	warnDriver(std, folder)
	given := ""
	if before, err := folder.State(); err == nil && len(before.Rounds) > 0 { // where that is damaged, restoring goes on
		given = "; given up: " + strings.Join(before.Rounds, ", ")
	}
	if err := folder.Restore(ctx, number); err != nil {
		return err
	}
	of := ", the empty crawl"
	if k, err := folder.Current(); err == nil && k != nil {
		of = ", of round " + k.Txn
	}
	std.Warn("the crawl goes on from checkpoint %d%s%s", number, of, given)
	return nil
}

type repairCmd struct {
	Crawl      string  `arg:"" help:"The crawl folder."`
	Checkpoint *uint64 `placeholder:"N" help:"Go on from this checkpoint where the one that CURRENT named is lost, too."`
	JSON       bool    `name:"json" help:"Print what was done as JSON."`
	lockFlag
}

// Help is part of --help.
func (*repairCmd) Help() string {
	return `It makes the pointers of a crawl anew from its checkpoints and manifests, and changes
nothing else. An open round stays open.

Examples:
  mckpt repair crawl && mckpt verify crawl`
}

func (c *repairCmd) Run(ctx context.Context, std *cli.Std) error {
	folder := crawl.Folder(c.Crawl, c.options())
	done, err := folder.Repair(ctx, c.Checkpoint)
	if err != nil {
		return err
	}
	std.Stat("repaired", done)
	for _, h := range done.Heads {
		std.Warn("%s: made anew: the newest generation of %s is %d", h.Was, h.Store, h.Generation)
	}
	if done.Current != "" {
		std.Warn("%s: made anew: the crawl goes on from checkpoint %d%s, in epoch %d", done.Current, done.Checkpoint, ofRound(done.Txn), done.Epoch)
		if done.Chosen {
			std.Warn("given up: what was done since checkpoint %d", done.Checkpoint)
		}
		if done.Forgotten != "" {
			std.Warn("checkpoints that have no file count as forgotten: %s", done.Forgotten)
		}
	}
	if done.Current == "" && len(done.Heads) == 0 {
		std.Warn("CURRENT and every HEAD are sound: nothing was changed; look at the rest: %s", fault.Quote("mckpt", "verify", c.Crawl))
	}
	if c.JSON {
		return printJSON(std, done)
	}
	return nil
}

type gcCmd struct {
	Crawl string `arg:"" help:"The crawl folder."`
	Keep  int    `required:"" placeholder:"N" help:"Keep the N newest, and the current one."`
	lockFlag
}

// Help is part of --help.
func (*gcCmd) Help() string {
	return `Before it forgets anything it reads all files of the checkpoints that stay, and
refuses where one is damaged; that takes as long as "mckpt verify".
It deletes files of stores and checkpoints, not the record files of rounds. Those of
undone rounds are in CRAWL/rounds/undone. A restore of a checkpoint that is kept may
need them; delete those that you do not want back.

Examples:
  mckpt gc crawl --keep 3`
}

func (c *gcCmd) Run(ctx context.Context, std *cli.Std) error {
	progress := std.StartProgress("bytes", 0)
	defer progress.Done()
	opt := c.options()
	opt.Progress = progress.Add
	folder, err := crawl.Open(c.Crawl, opt)
	if err != nil {
		return err
	}
	forgotten, freed, err := folder.GC(ctx, c.Keep)
	progress.Done()
	if err != nil {
		return err
	}
	std.Stat("forgotten", len(forgotten))
	std.Stat("freed", freed)
	std.Warn("%s forgotten, %s of %s deleted", cli.Count(len(forgotten), "checkpoint"), cli.Count(freed.Files, "file"), cli.Count(freed.Bytes, "byte"))
	return nil
}

// Command is mckpt.
var Command = cli.Command{Name: "mckpt", About: about, Memory: 64 << 20, Grammar: func() any { return &grammar{} }}
