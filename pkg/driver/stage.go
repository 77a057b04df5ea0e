package driver

import (
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
	"mercator/pkg/durable"
	"mercator/pkg/fault"
)

// Rounds can be made stage by stage, by whatever runs commands: a stage is run until it is done, and done again
// changes nothing. Its output is a file that appears when its stores have committed.

// attempts are how often a stage is run that ends because a store is busy or its pipe ended early.
const attempts = 3

// StageStatus says how a stage stands.
type StageStatus struct {
	Stage string `json:"stage"`
	State string `json:"state"`           // done, ready or waits
	After string `json:"after,omitempty"` // the stage that it waits for
}

// States of a stage.
const (
	stageDone  = "done"
	stageReady = "ready"
	stageWaits = "waits"
)

// commitStage is the stage that closes a round.
const commitStage = "commit"

// RoundStatus says how the stages of a round stand.
type RoundStatus struct {
	Round  string        `json:"round"`
	Empty  bool          `json:"empty"` // the frontier was when the round began: no further one is of use
	Stages []StageStatus `json:"stages"`
}

// Print writes it as a table, for the crawl of a folder.
func (r *RoundStatus) Print(w io.Writer, crawl string) error {
	fmt.Fprintf(w, "round %s\n", r.Round)
	next := ""
	for _, s := range r.Stages {
		line := fmt.Sprintf("  %-8s %s", s.Stage, s.State)
		if s.State == stageWaits {
			line += " for " + s.After
		}
		fmt.Fprintln(w, line)
		if s.State == stageReady {
			next = s.Stage
		}
	}
	if r.Empty {
		_, err := fmt.Fprintln(w, "nothing is left to fetch")
		return err
	}
	if next == "" {
		return nil
	}
	_, err := fmt.Fprintln(w, "next:", fault.Quote("mcrawl", "stage", crawl, next, "--round", r.Round))
	return err
}

// stagesOf are the stages of a round, which is the one that the crawl is in or was closed before; "" is the one that it is in.
func (d *Driver) stagesOf(round string) (name string, list []stage, closed bool, err error) {
	n, err := d.Crawl.NextRound()
	if err != nil {
		return "", nil, false, err
	}
	conf, err := d.settings()
	if err != nil {
		return "", nil, false, err
	}
	seeded, err := d.seeded(conf, n)
	if err != nil {
		return "", nil, false, err
	}
	next := fmt.Sprintf("r%d", max(n, 1))
	if !seeded {
		next = "seed"
	}
	if round == "" {
		round = next
	}
	if round != next {
		if closed, err = d.Crawl.Closed(round); err != nil {
			return "", nil, false, err
		}
		if !closed {
			return "", nil, false, &fault.Error{Class: fault.Usage, File: d.Crawl.Dir(), Found: "round " + round, Want: "round " + next + ", or one that was closed",
				Hint: fmt.Sprintf("%q shows the stages of %s", fault.Quote("mcrawl", "stages", d.Crawl.Dir()), next)}
		}
	}
	seeds, err := conf.Setting("seeds")
	return round, d.plan.stages(round, seeds), closed, err
}

// Stages says how the stages of a round stand; "" is the round that the crawl is in.
func (d *Driver) Stages(round string) (*RoundStatus, error) {
	round, list, closed, err := d.stagesOf(round)
	if err != nil {
		return nil, err
	}
	r := &RoundStatus{Round: round}
	before := ""
	add := func(name string, done bool) {
		s := StageStatus{Stage: name, State: stageDone}
		if before != "" {
			s.State, s.After = stageWaits, before
		} else if !done {
			s.State, before = stageReady, name
		}
		if s.State == stageWaits {
			before = name
		}
		r.Stages = append(r.Stages, s)
	}
	for _, s := range list {
		done := closed
		if !done {
			if done, err = d.stageDone(round, s); err != nil {
				return nil, err
			}
		}
		add(s.name, done)
	}
	add(commitStage, closed)
	if !closed && round != "seed" && r.Stages[0].State == stageReady {
		r.Empty, err = d.frontier.Empty(record.TimeOf(d.opt.Now()))
	}
	return r, err
}

// Stage runs a stage of a round until it is done. The stages before it must be done. Of a round that is closed,
// all stages are.
func (d *Driver) Stage(ctx context.Context, name, round string) error {
	round, list, closed, err := d.stagesOf(round)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(list, func(s stage) bool { return s.name == name })
	if at < 0 && name != commitStage {
		var names []string
		for _, s := range list {
			names = append(names, s.name)
		}
		return &fault.Error{Class: fault.Usage, Found: "stage " + name, Want: "a stage of round " + round + ": " + strings.Join(append(names, commitStage), ", ")}
	}
	if closed {
		return nil
	}
	if at < 0 {
		at = len(list)
	}
	if at > 0 {
		before := list[at-1]
		if done, err := d.stageDone(round, before); err != nil {
			return err
		} else if !done {
			return &fault.Error{Class: fault.Conflict, File: d.Crawl.Dir(), Place: "round " + round, Found: "stage " + before.name + " is not done", Want: "it done before stage " + name,
				Hint: fmt.Sprintf("%q shows what comes first", fault.Quote("mcrawl", "stages", d.Crawl.Dir()))}
		}
	}
	if at == len(list) {
		_, _, err = d.Crawl.Commit(ctx, round, d.opt.Now(), 0)
		return err
	}
	s := list[at]
	if done, err := d.stageDone(round, s); done || err != nil {
		return err
	}
	if at == 0 { // files of a round of that name that was undone
		if _, err := d.Crawl.TidyRounds(); err != nil {
			return err
		}
	}
	if _, err := d.Crawl.BeginRound(round); err != nil {
		return err
	}
	for n := 1; ; n++ {
		_, err := d.processes.run(ctx, flagged(s.pipe, d.opt.Threads, "off"))
		if err == nil || n == attempts || !errors.Is(err, fault.Upstream) && !errors.Is(err, fault.Busy) {
			return d.wrong(round, err)
		}
	}
}

// stageDone reports whether a stage of the present round is done.
func (d *Driver) stageDone(round string, s stage) (bool, error) {
	if s.verb != "" {
		look, err := store.Folder(d.plan.path("frontier"), store.Options{}).Look()
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
