package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/driver/pipe"
	"mercator/pkg/driver/tell"
	"mercator/pkg/folder/exchange"
)

// A round can be made stage by stage, by any program that runs commands. A stage is run until it is done; running it again
// changes nothing. Its output is a file that appears when its stores have committed.

// attempts is how often a stage is run if a store is busy or its pipe ends early.
const attempts = 3

// fetchStage is the stage that contacts servers.
const fetchStage = "fetch"

// stageRound is a round that is made by stages.
type stageRound struct {
	name   string
	lists  []string // files of URLs that it adds
	closed bool
}

// roundOf looks at a round, which is the one that the crawl is in or was closed before; "" is the one that it is in.
func (d *Driver) roundOf(round string) (r stageRound, err error) {
	n, err := d.Crawl.NextRound()
	if err != nil {
		return r, err
	}
	conf, err := d.settings()
	if err != nil {
		return r, err
	}
	seeded, err := d.seedsAdded(conf, n)
	if err != nil {
		return r, err
	}
	next := fmt.Sprintf("r%d", max(n, 1))
	if !seeded {
		next = "seed"
	}
	r.name = cmp.Or(round, next)
	if r.name != next {
		if r.closed, err = d.Crawl.Closed(r.name); err != nil {
			return r, err
		}
		if !r.closed {
			return r, &fault.Error{Class: fault.Usage, File: d.Crawl.Dir(), Found: "round " + r.name, Want: "round " + next + ", or one that was closed",
				Hint: fmt.Sprintf("see the stages of %s: %s", next, fault.Quote("mcrawl", "stages", d.Crawl.Dir()))}
		}
	}
	if r.name == "seed" {
		r.lists, err = d.seedFiles(conf)
	}
	return r, err
}

// Stages returns the states of a round's stages; round "" is the present one.
func (d *Driver) Stages(round string) (*tell.RoundStatus, error) {
	of, err := d.roundOf(round)
	if err != nil {
		return nil, err
	}
	r := &tell.RoundStatus{Round: of.name, Shards: d.plan.shards}
	plans := make([][]stage, d.plan.tasks())
	for n := range plans {
		plans[n] = d.plan.ofShard(n).stages(of.name, of.lists)
	}
	before := "" // that is not done
	for at, s := range append(slices.Clip(plans[0]), stage{name: tell.CommitStage}) {
		one := tell.StageStatus{Stage: s.name, State: tell.StageDone}
		switch {
		case of.closed:
		case before != "":
			one.State, one.After = tell.StageWaits, before
		case at == len(plans[0]):
			one.State, one.Left = tell.StageReady, []int{0}
		default:
			for n := range plans {
				done, err := d.stageDone(of.name, plans[n][at], n)
				if err != nil {
					return nil, err
				}
				if !done {
					one.State, one.Left = tell.StageReady, append(one.Left, n)
				}
			}
		}
		if one.State != tell.StageDone {
			before = s.name
		}
		r.Stages = append(r.Stages, one)
	}
	if r.Stages[0].State == tell.StageReady && len(r.Stages[0].Left) == len(plans) && of.name != "seed" {
		r.Empty, err = d.Crawl.Frontiers.Empty(record.TimeOf(d.opt.Now()))
	}
	return r, err
}

// Stage runs a stage of a round in a shard until it is done. The stage before it must be done in all. Of a round that is
// closed, all stages are.
func (d *Driver) Stage(ctx context.Context, name, round string, shard int) error {
	of, list, at, err := d.stageOf(name, round, shard)
	if err != nil {
		return err
	}
	if conf, err := d.Crawl.Config(); err != nil {
		return err
	} else if err := d.boundMemory(conf, true); err != nil {
		return err
	}
	if of.closed {
		if at == len(list) { // who closed it may have been killed before the push
			return d.pushCopy(ctx)
		}
		return nil
	}
	if at == len(list) {
		for n := range d.plan.tasks() {
			if err := d.mustBeDone(of, at-1, n, n, tell.CommitStage); err != nil {
				return err
			}
		}
		conf, err := d.settings()
		if err != nil {
			return err
		}
		for tries := 1; ; tries++ { // another machine may do the same
			if err = d.closeRound(ctx, conf, of.name); err == nil {
				return d.pushCopy(ctx)
			}
			if tries == attempts || !errors.Is(err, fault.Busy) {
				return err
			}
		}
	}
	if at > 0 {
		for n := range d.plan.tasks() {
			if err := d.mustBeDone(of, at-1, n, shard, name); err != nil {
				return err
			}
		}
	} else if d.plan.shards == 0 { // files of a round of that name that was undone
		if _, err := d.Crawl.TidyRounds(ctx); err != nil {
			return err
		}
	}
	return d.task(ctx, of.name, of.lists, at, shard)
}

// PrintStage writes the commands of a stage in a shard, as a person types them.
func (d *Driver) PrintStage(w io.Writer, name, round string, shard int) error {
	of, list, at, err := d.stageOf(name, round, shard)
	if err != nil {
		return err
	}
	if at == len(list) {
		_, err := fmt.Fprintln(w, pipe.Pipe{{"mckpt", "commit", d.plan.crawl, "--txn", of.name}})
		return err
	}
	for _, step := range list[at].steps {
		if _, err := fmt.Fprintln(w, step.shown()); err != nil {
			return err
		}
	}
	return nil
}

// stageOf looks for a stage of a round in a shard: its place among the stages, behind which the commit is.
func (d *Driver) stageOf(name, round string, shard int) (of stageRound, list []stage, at int, err error) {
	if shard < 0 || shard >= d.plan.tasks() {
		return of, nil, 0, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("--shard %d", shard), Want: fmt.Sprintf("0 to %d", d.plan.tasks()-1)}
	}
	if of, err = d.roundOf(round); err != nil {
		return of, nil, 0, err
	}
	list = d.plan.ofShard(shard).stages(of.name, of.lists)
	var names []string
	for _, s := range list {
		names = append(names, s.name)
	}
	names = append(names, tell.CommitStage)
	if at = slices.Index(names, name); at < 0 {
		return of, nil, 0, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("stage %q", name), Want: "a stage of round " + of.name + ": " + strings.Join(names, ", ")}
	}
	return of, list, at, nil
}

// mustBeDone refuses a stage where the one before it is not done in shard n. Of another shard than its own it asks only
// whether that has sent its rows: who reads a part that is missing names it.
func (d *Driver) mustBeDone(of stageRound, at, n, own int, before string) (err error) {
	p := d.plan.ofShard(n)
	s := p.stages(of.name, of.lists)[at]
	done := true
	if n == own {
		done, err = d.stageDone(of.name, s, n)
	}
	for _, step := range s.steps {
		if n != own && step.sent != nil && done && err == nil {
			var manifest *exchange.Manifest
			manifest, err = d.sentManifest(step.sent)
			done = manifest != nil
		}
	}
	if err != nil || done {
		return err
	}
	found := "stage " + s.name + " is not done"
	if d.plan.shards > 0 {
		found += fmt.Sprintf(" in shard %d", n)
	}
	return &fault.Error{Class: fault.Conflict, File: d.Crawl.Dir(), Place: "round " + of.name, Found: found + ": run it before stage " + before,
		Hint: "see what comes first: " + fault.Quote("mcrawl", "stages", d.Crawl.Dir())}
}

// task runs what is not done of a stage in a shard.
func (d *Driver) task(ctx context.Context, round string, lists []string, at, n int) error {
	p := d.plan.ofShard(n)
	s := p.stages(round, lists)[at]
	place := round
	begin := func() error { _, err := d.Crawl.BeginRound(round); return err }
	if p.shards > 0 {
		place += fmt.Sprintf(", shard %d", n)
		begin = func() error { _, _, err := d.Crawl.BeginShardRound(ctx, n, round); return err }
	}
	var run pipe.Runner
	d.connectReporter(&run, n)
	for i, step := range s.steps {
		done, err := d.stepDone(round, step, n)
		if err != nil {
			return err
		}
		if done {
			continue
		}
		if at == 0 && i == 0 && p.shards > 0 && lists == nil {
			begun := d.opt.Now()
			if err := d.taskDue(ctx, round); err != nil {
				return err
			}
			run.Spent = append(run.Spent, d.ownTimes(begun, "wait"))
		}
		if err := begin(); err != nil {
			return err
		}
		for i, file := range step.lists {
			if err := d.writeOwnLines(p, file, p.ownList(round, i, file)); err != nil {
				return err
			}
		}
		begun := d.opt.Now()
		for tries := 1; ; tries++ {
			if err = d.step(ctx, &run, step); err == nil || tries == attempts || !errors.Is(err, fault.Upstream) && !errors.Is(err, fault.Busy) {
				break
			}
		}
		if err != nil {
			return d.wrapRoundError(place, err)
		}
		if step.pipe == nil {
			run.Spent = append(run.Spent, d.ownTimes(begun, step.shown()[0][:2]...))
		}
	}
	if len(lists) > 0 || run.Spent == nil {
		return nil
	}
	d.keepTimes(p, round, s.name, run.TakeTimes())
	return nil
}

// step runs a step once.
func (d *Driver) step(ctx context.Context, run *pipe.Runner, s step) error {
	all := d.flagged(s.pipe)
	switch {
	case s.sent != nil:
		return d.send(ctx, s.sent, s.file)
	case s.from != nil && s.pipe == nil:
		return d.receive(ctx, s)
	case s.from != nil:
		_, err := run.RunFed(ctx, func(ctx context.Context, to *cli.MemoryPipe) error { return d.gather(ctx, s.from, pipedRows{to}) }, all)
		return err
	}
	_, err := run.Run(ctx, all)
	return err
}

func (d *Driver) stageDone(round string, s stage, n int) (bool, error) {
	for _, step := range slices.Backward(s.steps) { // of a stage at work one look is enough
		if done, err := d.stepDone(round, step, n); !done || err != nil {
			return false, err
		}
	}
	return true, nil
}

// stepDone reports whether a step of the present round is done.
func (d *Driver) stepDone(round string, s step, n int) (bool, error) {
	p := d.plan.ofShard(n)
	if s.sent != nil {
		return d.isSent(s.sent)
	}
	if s.verb != "" {
		look, err := store.Folder(p.path("frontier"), store.Options{}).Look()
		return err == nil && slices.ContainsFunc(look.Counts.Done, func(done store.Done) bool { return done.Verb == s.verb && done.Txn == round }), err
	}
	in, err := os.Open(s.file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer in.Close()
	rows, err := record.Open(in, record.ReaderOptions{Name: s.file})
	if err != nil {
		return false, err
	}
	now, err := store.ReadCurrent(durable.OS, d.Crawl.Dir())
	// a file of another epoch is of a round that was given up
	return err == nil && rows.Schema().Txn == round && rows.Schema().Epoch == fmt.Sprint(now.Epoch), err
}
