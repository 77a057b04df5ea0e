package driver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/crawl"
	"mercator/pkg/fetch"
	"mercator/pkg/resolve"
	"mercator/pkg/view/stats"
)

// Version and limit of bytes of crawl.TimesFile; the limit holds some 10,000 commands. The file is written when a round is closed, and
// by each stage that is run by itself: in a crawl of several shards, in the shard's folder. Only statistics read it.
const (
	timesVersion = 1
	timesMax     = 2 << 20
)

// times is the content of crawl.TimesFile.
type times struct {
	Version  int           `json:"version"`
	Commands []stats.Spent `json:"commands"`
}

// keepTimes adds the times of a stage's commands to the file of a round; stage is "" for commands that ran together. It replaces the
// times of an earlier attempt. A failure is a warning: the round does not depend on its times.
func (d *Driver) keepTimes(p plan, round, stage string, spent []stats.Spent) {
	file := p.path("rounds", round, crawl.TimesFile)
	before, err := readTimes(file)
	if err != nil {
		before = nil // it is replaced
	}
	for i := range spent {
		spent[i].Stage = stage
	}
	again := func(b stats.Spent) bool {
		return slices.ContainsFunc(spent, func(s stats.Spent) bool { return s.Stage == b.Stage && s.Command == b.Command })
	}
	if err := replace(file, times{timesVersion, append(slices.DeleteFunc(before, again), spent...)}); err != nil {
		d.opt.Warn("the times of round %s are not kept, and the crawl goes on without: %v", round, err)
	}
}

// readTimes reads the file of a round; nil if there is none.
func readTimes(file string) ([]stats.Spent, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var b []byte
	if err == nil {
		defer f.Close() // was read only
		b, err = io.ReadAll(io.LimitReader(f, timesMax+1))
	}
	bad := &fault.Error{Class: fault.Corrupt, File: file, Want: fmt.Sprintf("the times of a round, version %d", timesVersion),
		Hint: "nothing is lost but the times of this round; remove it: " + fault.Quote("rm", file)}
	if err != nil {
		bad.Err = err
		if of := (*fs.PathError)(nil); errors.As(err, &of) {
			bad.Err = of.Err // bad names the file
		}
		return nil, bad
	}
	var t times
	if len(b) > timesMax {
		bad.Found = fmt.Sprintf("more than %d bytes", timesMax)
		return nil, bad
	}
	if err := json.Unmarshal(b, &t); err != nil {
		bad.Err = err
		return nil, bad
	}
	if t.Version != timesVersion {
		bad.Found = fmt.Sprintf("version %d", t.Version)
		return nil, bad
	}
	for _, c := range t.Commands {
		for _, s := range []float64{c.ElapsedS, c.OwnS, c.WaitedS, c.LookupsS} {
			if s < 0 || s > 1e9 {
				bad.Place, bad.Found = c.Command, fmt.Sprintf("%g seconds", s)
				return nil, bad
			}
		}
	}
	return t.Commands, nil
}

// ownTimes is the time since begun, of work that this program did in the place of a command.
func (d *Driver) ownTimes(begun time.Time, words ...string) stats.Spent {
	took := max(d.opt.Now().Sub(begun).Seconds(), 0)
	return stats.Spent{Command: strings.Join(words, " "), Began: begun.UTC(), ElapsedS: took, OwnS: took}
}

// commandReports are the reports of a command so far.
type commandReports struct {
	ahead atomic.Int32 // commands before it in the pipe that still work

	mu      sync.Mutex    // guards the fields below
	waiting time.Time     // since when the command waits for a due URL; zero: it does not
	then    commandReport // the last report while a command before it worked
	next    commandReport // the first report after then
	last    commandReport // the last report
}

// commandReport is a report of a command.
type commandReport struct {
	value any
	at    time.Time
}

// bound is the time in seconds for which politeness had bound mfetch at a moment between the reports then and next.
func (t *commandReports) bound(began, at time.Time) float64 {
	from, to := t.then.bound(), t.next.bound()
	if t.then.value != nil {
		began = t.then.at
	}
	if gap := t.next.at.Sub(began); gap > 0 {
		return from + (to-from)*min(max(at.Sub(began).Seconds()/gap.Seconds(), 0), 1)
	}
	return from
}

func (h commandReport) bound() float64 {
	p, _ := h.value.(fetch.Progress) // without a report it is 0
	return p.Bound
}

// beginWait is called when the command waits.
func (t *commandReports) beginWait(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting.IsZero() {
		t.waiting = now
	}
}

// keepReport keeps a report.
func (t *commandReports) keepReport(value any, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = commandReport{value, now}
	switch {
	case t.ahead.Load() > 0:
		t.then = t.last
	case t.next.value == nil:
		t.next = t.last
	}
}

// keepTimes keeps the times of a successful pipe's commands, after their end.
func (p *runner) keepTimes(pipe Pipe, said []commandReports, began time.Time, ends []time.Time) {
	before := began // of the commands before it, the end of the last
	for i, words := range pipe {
		s := stats.Spent{Command: verb(words), Began: began.UTC(), ElapsedS: ends[i].Sub(began).Seconds(), OwnS: max(ends[i].Sub(before).Seconds(), 0)}
		t := &said[i]
		if !t.waiting.IsZero() && words[0] == "mfrontier" {
			s.WaitedS = min(ends[i].Sub(t.waiting).Seconds(), s.OwnS)
		}
		switch last := t.last.value.(type) {
		case fetch.Progress:
			s.WaitedS, s.LookupsS = min(max(last.Bound-t.bound(began, before), 0), s.OwnS), last.Names
		case cli.Counted:
			found, _ := last.Found.(resolve.Stats) // of mresolve
			s.LookupsS = found.LookupsS
		}
		p.spent = append(p.spent, s)
		if before.Before(ends[i]) {
			before = ends[i]
		}
	}
}

// takeTimes returns the times since its last call.
func (p *runner) takeTimes() []stats.Spent {
	spent := p.spent
	p.spent = nil
	return spent
}
