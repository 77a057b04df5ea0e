package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/config"
	"mercator/pkg/crawl"
	"mercator/pkg/driver/pipe"
	"mercator/pkg/driver/setup"
	"mercator/pkg/driver/tell"
	"mercator/pkg/fetch"
	"mercator/pkg/folder/shard"
	"mercator/pkg/view/stats"
)

// Options say how far a run goes, and who gets its messages.
type Options struct {
	Rounds    uint64        // stop after the round of this number; 0: the setting rounds says which
	For       time.Duration // after this time begin no round, and wait for no URL; 0: no limit
	UntilSize int64         // begin no round when the WARC files have so many bytes; 0: no limit
	Threads   int           // threads of each command; 0: one a processor
	Engine    EngineOptions
	Now       func() time.Time
	Reporter  *tell.Reporter
	Warn      func(format string, args ...any)
}

// Driver drives the crawl of a folder.
type Driver struct {
	Crawl *tell.Crawl

	opt        Options
	plan       plan
	runner     pipe.Runner
	read       map[string]fs.FileInfo // files that settings name, as of their last check
	readAs     []string               // the settings that name the files of read
	saidDue    atomic.Int64           // the time that taskDue has reported
	mapMu      sync.Mutex             // guards bucketsNow
	bucketsNow *shard.Map             // the map that was read last; nil: none
	engine     engine                 // runs the tasks of a crawl of several shards; nil: this program does

	began    store.Current // the checkpoint and epoch when the round began
	fewFiles bool          // a warning was given: the limit of open files bounds how many shards fetch
	byHTTP   bool          // every bare seed has been tried by http
	warned   sync.Map      // this round's warnings, and the shard that gave each first: no other shard repeats one
}

// How long an earlier driver may hold the crawl when it ends.
const (
	lockWait  = 5 * time.Second // after an interrupt, as it ends its commands
	afterKill = time.Second     // after a kill, as the system takes a moment to remove it
)

// Open opens a crawl folder for a driver.
func Open(dir string, opt Options) (*Driver, error) {
	c, err := tell.Open(dir, opt.Now, opt.Warn)
	if err != nil {
		return nil, err
	}
	d := &Driver{Crawl: c, opt: opt, plan: plan{crawl: pipe.Path(dir), fromLinks: c.Walk}}
	if d.plan.shards, err = c.Shards(); err == nil {
		d.plan.credit, err = c.Frontiers[0].OwnScores()
	}
	if err != nil {
		return nil, err
	}
	d.connectReporter(&d.runner, 0)
	_, err = d.settings()
	return d, err
}

// connectReporter gives the messages of a shard's commands to the reporter.
func (d *Driver) connectReporter(r *pipe.Runner, shard int) {
	r.Fetching = func(p *fetch.Progress) { d.opt.Reporter.Fetching(shard, p) }
	r.Waits = d.opt.Reporter.Waits
	once := func(to func(line string)) func(line string) {
		return func(line string) {
			if by, said := d.warned.LoadOrStore(line, shard); !said || by == shard {
				to(line)
			}
		}
	}
	r.Said, r.Failed = once(d.opt.Reporter.Warning), once(d.opt.Reporter.Error)
}

// settings reads crawl.toml, which may have changed since the last round, and updates the plan. No task may run.
func (d *Driver) settings() (*config.Config, error) {
	conf, err := d.Crawl.Config()
	if conf != nil {
		f := &conf.File
		d.plan.modules, d.plan.allowNet, d.plan.focused, d.plan.canonical, d.plan.rendered = len(f.Extract.Module) > 0, f.Network.AllowNet, f.Focus.Model != "", f.Resolve.Canonical, f.Render.On()
		d.plan.filterLinks, d.plan.filterNew = f.Stages.Links != "", f.Stages.New != ""
	}
	return conf, err
}

// bounded reads the settings, and bounds the memory of the run.
func (d *Driver) bounded() (*config.Config, error) {
	conf, err := d.settings()
	if err == nil {
		err = d.boundMemory(conf, false)
	}
	return conf, err
}

// checkSettingsFiles checks the files that settings name, if they have changed since the last check: people edit them while a crawl runs, and an
// error in them ends the run between two rounds.
func (d *Driver) checkSettingsFiles(conf *config.Config) error {
	keys := setup.PathKeys("seeds")
	var as []string
	for _, key := range keys {
		files, err := conf.Setting(key)
		if err != nil {
			return err
		}
		as = append(append(as, key), files...)
	}
	same := d.read != nil && slices.Equal(as, d.readAs)
	for file, was := range d.read {
		is, err := os.Stat(file)
		same = same && err == nil && os.SameFile(was, is) && was.Size() == is.Size() && was.ModTime().Equal(is.ModTime())
	}
	if same {
		return nil
	}
	files, err := setup.CheckFiles(conf, keys)
	if f := (*fault.Error)(nil); errors.As(err, &f) && f.Hint == "" {
		f.Hint = strings.TrimPrefix(fmt.Sprintf("%s correct it, then go on: %s", fault.Suggest(err), fault.Quote("mcrawl", "run", d.Crawl.Dir())), " ")
	}
	if err != nil {
		return err
	}
	d.read, d.readAs = map[string]fs.FileInfo{}, as
	for _, file := range files {
		if info, err := os.Stat(file); err == nil { // the rules that are shipped are in no file
			d.read[file] = info
		}
	}
	return nil
}

// lastRound is the number of the last round to make; 0: there is none.
func (d *Driver) lastRound(conf *config.Config) uint64 {
	if d.opt.Rounds > 0 {
		return d.opt.Rounds
	}
	return uint64(max(conf.File.Rounds, 0))
}

// Run goes on with the crawl until nothing is left to fetch, a bound is reached, or ctx ends.
// Of two drivers of a crawl the second ends with fault.Busy, which names the first.
func (d *Driver) Run(ctx context.Context) error {
	begun := d.opt.Now()
	if err := d.setEngine(); err != nil {
		return err
	}
	lock, err := d.lockCrawl(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	for _, err := range d.Crawl.Lost() {
		d.opt.Warn("%v", err)
		if hint := fault.HintOf(err); hint != "" {
			d.opt.Warn("hint: %s", hint)
		}
	}
	defer d.opt.Reporter.EndRun()
	defer context.AfterFunc(ctx, d.stopping)()
	if d.engine != nil {
		defer d.engine.close()
	}
	err = d.runRounds(ctx, begun)
	if err != nil && ctx.Err() != nil {
		found := "interrupted"
		if standing := d.opt.Reporter.CurrentLine(); standing != "" {
			found += " in " + standing
		}
		return &fault.Error{Class: fault.Interrupted, Found: found, Hint: "go on: " + d.resumeCommand()}
	}
	return err
}

// afterSignal is how long a run may take to stop before a message says what a second signal does.
const afterSignal = 300 * time.Millisecond

// stopping is called when a run is interrupted. Commands that have ended by then have nothing to be told of.
func (d *Driver) stopping() {
	time.Sleep(afterSignal)
	d.opt.Reporter.Warning(fmt.Sprintf("mcrawl: stopping, within %v. Ctrl-C again ends at once: then %s", pipe.AfterTerm, d.costOfKill()))
}

func (d *Driver) costOfKill() string {
	pause := "the longest of their delays" // what is wrong with the settings, a round says
	if conf, err := d.Crawl.Config(); err == nil {
		if polite, err := tell.Politeness(conf); err == nil {
			pause = max(conf.File.Politeness.MaxDelay, polite.HostsLongest).String()
		}
	}
	return "URLs in flight are fetched again, and the next run leaves all hosts alone for " + pause
}

// AtOnce says how to go on after a second signal, and what that costs.
func (d *Driver) AtOnce() string {
	return d.costOfKill() + "; go on: " + d.resumeCommand()
}

// runRounds is the part of Run that holds the crawl's lock.
func (d *Driver) runRounds(ctx context.Context, begun time.Time) error {
	if moved, err := d.finishMove(ctx); err != nil {
		return err
	} else if moved != nil {
		d.opt.Reporter.Warning("mcrawl: " + strings.TrimSuffix(moved.String(), "\n"))
		if err := d.Crawl.OpenFrontiers(); err != nil { // there may be more shards
			return err
		}
		if d.plan.shards, err = d.Crawl.Shards(); err != nil {
			return err
		}
	}
	n, err := d.Crawl.TidyRounds(ctx)
	if err != nil {
		return err
	}
	conf, err := d.bounded()
	if err != nil {
		return err
	}
	if seeded, err := d.seedsAdded(conf, n); err != nil {
		return err
	} else if !seeded {
		if err := d.addSeeds(ctx); err != nil {
			return err
		}
		n = 1
	}
	if err := d.opt.Reporter.BeginRun(ctx, d.Crawl); err != nil {
		return err
	}
	if d.plan.fromLinks && d.lastRound(conf) == 0 && d.opt.For == 0 && d.opt.UntilSize == 0 {
		return &fault.Error{Class: fault.Usage, File: d.Crawl.Dir(), Found: "a walk, which has no end", Want: "a bound",
			Hint: "say how far: --rounds 50, --for 2h, --until-size 10G, or rounds in crawl.toml"}
	}
	for ; ; n++ {
		said, err := d.Take(ctx)
		for _, line := range said {
			d.opt.Reporter.Warning("mcrawl: " + line)
		}
		if err != nil {
			return err
		}
		conf, err := d.bounded() // as a person may have changed them by now
		if err != nil {
			return err
		}
		if asked, err := d.fallBack(ctx, conf, n-1); err != nil {
			return err
		} else if asked {
			n--
			continue
		}
		why, empty, err := d.stopReason(conf, n, begun)
		if err != nil {
			return err
		}
		if empty {
			if _, err := seal(ctx, d.Crawl.Crawl, nil); err != nil {
				return err
			}
			if waiting, err := d.Crawl.Inbox(); err != nil {
				return err
			} else if len(waiting) > 0 { // asked for since it was looked at
				n--
				continue
			}
		}
		if err := d.pushCopy(ctx); err != nil {
			return err
		}
		if why != "" {
			return d.endRun(ctx, why, empty)
		}
		if err := d.checkSettingsFiles(conf); err != nil {
			return err
		}
		if err := d.distill(ctx, conf, n-1); err != nil {
			return err
		}
		from := d.opt.Now()
		if asked, err := d.awaitRound(ctx); err != nil {
			return err
		} else if asked {
			n--
			continue
		}
		if err := d.runRound(ctx, conf, fmt.Sprintf("r%d", n), d.ownTimes(from, "wait")); err != nil {
			return err
		}
	}
}

// awaitRound waits until a URL is due for a round, unless one is open: no request is taken in then. It reports whether it ended because the inbox has a request.
func (d *Driver) awaitRound(ctx context.Context) (asked bool, err error) {
	if st, err := d.Crawl.State(); err != nil || len(st.Rounds) > 0 {
		return false, err
	}
	return d.waitDue(ctx, d.opt.Reporter.Waits, func() (bool, error) {
		waiting, err := d.Crawl.Inbox()
		return len(waiting) > 0, err
	})
}

// lockCrawl takes the driver's lock. It reports whom it waits for.
func (d *Driver) lockCrawl(ctx context.Context) (*os.File, error) {
	lock, err := d.Crawl.Hold(ctx, "mcrawl run", 0)
	if errors.Is(err, fault.Busy) {
		d.opt.Warn("%v; waiting up to %v", err, lockWait)
		lock, err = d.Crawl.Hold(ctx, "mcrawl run", lockWait)
	}
	return lock, err
}

// stopReason says why round n does not begin; "" if it does. An open round is finished first, unless --rounds ends before it: a run may have been
// killed between its update of the frontier and its commit.
func (d *Driver) stopReason(conf *config.Config, n uint64, begun time.Time) (why string, empty bool, err error) {
	st, err := d.Crawl.State()
	if err != nil {
		return "", false, err
	}
	open := len(st.Rounds) > 0
	empty, err = d.Crawl.Frontiers.Empty(record.TimeOf(d.opt.Now()))
	if empty = empty && !open; err != nil || empty {
		return fmt.Sprintf("the frontier is empty after round %d", n-1), empty, err
	}
	if last := d.lastRound(conf); last > 0 && n > last+1 {
		return fmt.Sprintf("round %d was made before: --rounds (or rounds in crawl.toml) is only %d", n-1, last), false, nil
	} else if last > 0 && n > last {
		return fmt.Sprintf("stopped after round %d", n-1), false, nil
	}
	if slices.Contains(st.Rounds, fmt.Sprintf("r%d", n)) { // begun already
		return "", false, nil
	}
	if dry, err := d.dry(conf, n-1); err != nil || dry {
		return fmt.Sprintf("no relevant page in the last %d rounds, after round %d; go on all the same: %s", conf.File.Focus.Patience, n-1,
			fault.Quote("mcrawl", "set", d.Crawl.Dir(), "focus.patience=0")), false, err
	}
	if d.opt.For > 0 {
		now := d.opt.Now()
		if now.Sub(begun) >= d.opt.For {
			return fmt.Sprintf("stopped after round %d and %v", n-1, d.opt.For), false, nil
		}
		if due, err := d.Crawl.Frontiers.Due(record.TimeOf(now)); err != nil || !open && due >= record.TimeOf(begun.Add(d.opt.For)) {
			return fmt.Sprintf("stopped after round %d: no URL is due before %s, and --for %v ends before that", n-1, due.Go().Format(time.RFC3339), d.opt.For), false, err
		}
	}
	if d.opt.UntilSize > 0 {
		if bytes := tell.OnDisk(d.Crawl.Dir()); bytes >= d.opt.UntilSize {
			return fmt.Sprintf("stopped after round %d: %s of WARC files", n-1, tell.Size(bytes)), false, nil
		}
	}
	return "", false, nil
}

// endRun reports the end of a run. It is an error if the crawl, or the time of --for, is at its end and nothing is fetched.
func (d *Driver) endRun(ctx context.Context, why string, empty bool) error {
	var err, hinted error // hinted has a command to type next
	if empty {
		var nothing bool
		if nothing, err = d.nothingFetched(ctx); err == nil && d.plan.shards == 0 { // tells what is parked, and what became of the URLs if nothing was fetched
			_, err = d.runner.Run(ctx, pipe.Pipe{{"mfrontier", "stat", "--empty", d.plan.path("frontier")}})
		}
		if nothing || err == nil {
			if conf, confErr := d.settings(); confErr != nil {
				hinted = confErr
			} else {
				hinted = d.Crawl.Fruitless(conf)
			}
		}
		switch {
		case nothing && hinted != nil:
			err = hinted
		case nothing:
			err = &fault.Error{File: d.Crawl.Dir(), Found: "the crawl is at its end, and nothing was fetched", Want: "pages", Err: err,
				Hint: "mcrawl add has other URLs fetched; how to fetch the same ones again: " + fault.Quote("mcrawl", "status", d.Crawl.Dir())}
		case err != nil:
			err = d.wrapRoundError("", err)
		default:
			err = hinted
		}
	}
	if !empty && d.opt.For > 0 { // who makes single rounds has others to come
		var nothing bool
		if nothing, err = d.nothingFetched(ctx); nothing {
			err = &fault.Error{File: d.Crawl.Dir(), Found: "nothing was fetched so far", Want: "pages", Hint: "go on: " + d.resumeCommand()}
		}
	}
	err = errors.Join(err, d.opt.Reporter.PrintSummary(ctx, why, hinted != nil))
	if !empty {
		grow := false
		for n := range d.plan.tasks() {
			open, _ := filepath.Glob(filepath.Join(crawl.QuoteGlob(d.plan.ofShard(n).path(fetch.Kind)), "*.open"))
			grow = grow || len(open) > 0
		}
		if grow {
			d.opt.Warn("%s has WARC files that grow (NAME.open), until the crawl's end; give them their final names now: %s", d.Crawl.Path(fetch.Kind), fault.Quote("mcrawl", "seal", d.Crawl.Dir()))
		}
	}
	return err
}

// seedsAdded reports whether the crawl has its seeds, before round n. Other URLs may have been added before them.
func (d *Driver) seedsAdded(conf *config.Config, n uint64) (seeded bool, err error) {
	if n != 1 || len(conf.File.Seeds) == 0 {
		return n > 0, nil
	}
	return d.Crawl.Closed("seed")
}

// addSeeds adds the seeds of crawl.toml to the crawl.
func (d *Driver) addSeeds(ctx context.Context) error {
	conf, err := d.settings()
	if err != nil {
		return err
	}
	files, err := d.seedFiles(conf)
	if err != nil {
		return err
	}
	if err := d.addLists(ctx, "seed", files, true); err != nil {
		return err
	}
	_, _, err = d.Crawl.Commit(ctx, "seed", d.opt.Now(), 0)
	return err
}

// seedFiles returns the seed files of crawl.toml.
func (d *Driver) seedFiles(conf *config.Config) ([]string, error) {
	files, err := conf.Setting("seeds")
	if err == nil && len(files) == 0 {
		err = &fault.Error{Class: fault.Usage, File: conf.Path, Found: "no seeds", Want: "files of URLs", Hint: `say which: seeds = ["seeds.txt"]`}
	}
	return files, err
}

// addLists adds files of URLs to the crawl, as a round that is not committed yet. strict: files without a URL are refused.
func (d *Driver) addLists(ctx context.Context, round string, files []string, strict bool) error {
	if d.plan.shards > 0 {
		return d.roundOfShards(ctx, round, files)
	}
	_, err := d.Crawl.BeginRound(round)
	if err != nil {
		return err
	}
	if _, err = d.runner.Run(ctx, d.plan.seeds(round, files, d.plan.roundFile(round, "new"), strict)); err != nil {
		err = d.wrapRoundError(round, err)
	}
	return err
}

// runRound makes a round, or finishes an open one, and closes it with a checkpoint.
func (d *Driver) runRound(ctx context.Context, conf *config.Config, name string, waited stats.Spent) error {
	_, err := d.Crawl.BeginRound(name)
	if err != nil {
		return err
	}
	if d.began, err = store.ReadCurrent(durable.OS, d.Crawl.Dir()); err != nil {
		return err
	}
	d.opt.Reporter.BeginRound(name)
	d.warned.Clear()
	d.runner.Spent = nil
	if waited.OwnS >= 1 {
		d.runner.Spent = append(d.runner.Spent, waited)
	}
	if d.plan.shards > 0 {
		err = d.roundOfShards(ctx, name, nil)
	} else if _, err = d.runner.Run(ctx, d.flagged(d.plan.round(name))); err != nil {
		err = d.wrapRoundError(name, err)
	}
	if err != nil {
		return err
	}
	if err := d.closeRound(ctx, conf, name); err != nil {
		if _, taken := d.takenBack(); taken {
			return d.wrapRoundError(name, err)
		}
		return err
	}
	return d.opt.Reporter.EndRound(ctx)
}

// closeRound closes a round with a checkpoint, and keeps the round's times after that.
func (d *Driver) closeRound(ctx context.Context, conf *config.Config, round string) error {
	begun := d.opt.Now()
	if _, _, err := d.Crawl.Commit(ctx, round, d.opt.Now(), conf.File.Interval); err != nil {
		return err
	}
	d.keepTimes(d.plan, round, "", append(d.runner.TakeTimes(), d.ownTimes(begun, "mckpt", "commit")))
	return nil
}

// pushCopy updates the crawl's copy elsewhere to the last checkpoint, if the setting push names one. If that fails, the crawl
// goes on, and mckpt has said why.
func (d *Driver) pushCopy(ctx context.Context) error {
	conf, err := d.settings()
	if err != nil || conf.File.Push == "" {
		return err
	}
	slow := time.AfterFunc(30*time.Second, func() { d.opt.Warn("waiting for the copy to %s", conf.File.Push) })
	defer slow.Stop()
	if _, err := d.runner.Run(ctx, pipe.Pipe{{"mckpt", "push", "--quiet", d.plan.crawl}}); err != nil && ctx.Err() == nil {
		d.opt.Warn("not copied to %s, and the crawl goes on without: %v", conf.File.Push, err)
	}
	return context.Cause(ctx)
}

// wrapRoundError names the crawl and the round of a command's error, and adds a hint.
func (d *Driver) wrapRoundError(round string, err error) error {
	if errors.Is(err, fault.Interrupted) {
		return err
	}
	var f *fault.Error
	if !errors.As(err, &f) {
		return err
	}
	class, hint, verify := f.Class, f.Hint, fault.Quote("mckpt", "verify", d.Crawl.Dir())
	damaged := fault.ClassOf(err).ExitCode() == fault.Corrupt.ExitCode()
	now, taken := d.takenBack()
	switch {
	case taken && !damaged:
		class, hint = fault.Superseded, fmt.Sprintf("mckpt restore or abandon gave the round up; go on from checkpoint %d: %s", now.Checkpoint, d.resumeCommand())
	case hint != "":
	case damaged: // to drop the round first may cost its work for nothing
		hint = fmt.Sprintf("see what is damaged, and what to do: %s; if nothing is, and a setting has changed since the round began, set it back; those that are set: %s; then go on: %s",
			verify, fault.Quote("mcrawl", "set", d.Crawl.Dir()), d.resumeCommand())
	default:
		hint = d.recoveryHint(err)
	}
	if round != "" {
		round = "round " + round
	}
	return &fault.Error{Class: class, File: d.Crawl.Dir(), Place: round, Err: f, Hint: hint}
}

// takenBack reports whether mckpt restore or abandon gave up the round that this process makes.
func (d *Driver) takenBack() (now store.Current, is bool) {
	now, err := store.ReadCurrent(durable.OS, d.Crawl.Dir())
	return now, err == nil && d.began.Epoch < now.Epoch && d.began.Last > 0
}

// recoveryHint says how to go on after a round that failed with err.
func (d *Driver) recoveryHint(err error) string {
	dir := d.Crawl.Dir()
	if failed := (*cli.Failed)(nil); errors.As(err, &failed) && failed.NamesSetting {
		return "what is done is kept; then go on: " + d.resumeCommand()
	}
	return fmt.Sprintf("what is done is kept; go on: %s; if a setting has changed since the round began, set it back: %s shows them; or drop the round, which is then made again: %s",
		d.resumeCommand(), fault.Quote("mcrawl", "set", dir), fault.Quote("mckpt", "abandon", dir))
}

// Print writes shell lines that do what Run does: add the seeds, if the crawl has none yet,
// make the raise that is due, and make the next round.
func (d *Driver) Print(w io.Writer) error {
	if dir := d.Crawl.Dir(); d.plan.shards > 0 {
		return &fault.Error{Class: fault.Usage, File: dir, Found: "--print", Want: "a crawl without shards", Hint: "see the stages of a round: " + fault.Quote("mcrawl", "stages", dir)}
	}
	n, err := d.Crawl.NextRound()
	if err != nil {
		return err
	}
	conf, err := d.settings()
	if err != nil {
		return err
	}
	st, err := d.Crawl.State()
	if err != nil {
		return err
	}
	lines := func(name string, pipes ...pipe.Pipe) {
		dir := d.plan.path("rounds", name)
		fmt.Fprintf(w, "%s && rm -f %s/epoch.* && : > %[2]s/epoch.%d &&\n", fault.Quote("mkdir", "-p", dir), fault.Quote(dir), st.Epoch)
		for _, p := range pipes {
			fmt.Fprintf(w, "%s &&\n", p)
		}
		fmt.Fprintln(w, pipe.Pipe{{"mckpt", "commit", d.plan.crawl, "--txn", name}})
	}
	seeded, err := d.seedsAdded(conf, n)
	if err != nil {
		return err
	}
	if !seeded {
		files, err := conf.Setting("seeds")
		if err != nil {
			return err
		}
		lines("seed", d.plan.seeds("seed", files, d.plan.path("rounds", "seed", "new.arrows.zst"), true))
		n = 1
	}
	txn, err := d.raiseDue(conf, n-1)
	if err != nil {
		return err
	}
	if txn != "" {
		distill, raise := d.plan.raisePipes(txn)
		lines(txn, distill, raise)
	}
	name := fmt.Sprintf("r%d", n)
	lines(name, d.plan.round(name))
	return nil
}

// keepTimes keeps the times of a stage's commands. A failure is a warning: the round does not depend on its times.
func (d *Driver) keepTimes(p plan, round, stage string, spent []stats.Spent) {
	if err := tell.KeepTimes(p.path("rounds", round, crawl.TimesFile), stage, spent); err != nil {
		d.opt.Warn("the times of round %s are not kept, and the crawl goes on without: %v", round, err)
	}
}

// ownTimes is the time since begun, of work that this program did in the place of a command.
func (d *Driver) ownTimes(begun time.Time, words ...string) stats.Spent {
	took := max(d.opt.Now().Sub(begun).Seconds(), 0)
	return stats.Spent{Command: strings.Join(words, " "), Began: begun.UTC(), ElapsedS: took, OwnS: took}
}
