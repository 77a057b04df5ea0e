package driver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"mercator/pkg/crawl"
	"mercator/pkg/fault"
	"mercator/pkg/fetch"
	"mercator/pkg/stats"
)

// Of crawl.TimesFile: its version, and its most bytes, which are those of some 10,000 commands. It is written when a round is closed, and
// by each stage that is run by itself, in crawls of several shards in the shard's folder. Only statistics come from it.
const (
	timesVersion = 1
	timesMax     = 2 << 20
)

// times is the file.
type times struct {
	Version  int           `json:"version"`
	Commands []stats.Spent `json:"commands"`
}

// keepTimes adds to the file of a round what the commands of a stage took, or with stage "" those that were run together. It replaces what
// they took in another attempt. A failure is a warning: the round does not depend on its times.
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
		Hint: fmt.Sprintf("%q: nothing is lost but the times of this round", fault.Quote("rm", file))}
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
		for _, s := range []float64{c.ElapsedS, c.OwnS, c.CPUS, c.WaitedS, c.LookupsS} {
			if s < 0 || s > 1e9 {
				bad.Place, bad.Found = c.Command, fmt.Sprintf("%g seconds", s)
				return nil, bad
			}
		}
	}
	return t.Commands, nil
}

// own is what this program did since begun, in the place of a command.
func (d *Driver) own(begun time.Time, words ...string) stats.Spent {
	took := max(d.opt.Now().Sub(begun).Seconds(), 0)
	return stats.Spent{Command: strings.Join(words, " "), Began: begun.UTC(), ElapsedS: took, OwnS: took}
}

// saying is what a command has said of its work so far.
type saying struct {
	ahead   atomic.Int32 // commands before it in the pipe that still work
	waiting time.Time    // since when it waits until a URL is due; zero: it does not

	then, next, last heard // of --progress json: the last one while a command before it worked, the one after that, and the last of all
}

// heard is a line of a command.
type heard struct {
	text string
	at   time.Time
}

// bound is for how long politeness has bound mfetch, which began, at a moment between the lines then and next.
func (t *saying) bound(began, at time.Time) float64 {
	from, to := bound(t.then), bound(t.next)
	if t.then.text != "" {
		began = t.then.at
	}
	if gap := t.next.at.Sub(began); gap > 0 {
		return from + (to-from)*min(max(at.Sub(began).Seconds()/gap.Seconds(), 0), 1)
	}
	return from
}

func bound(h heard) float64 {
	var p fetch.Progress
	_ = json.Unmarshal([]byte(h.text), &p) // without a line it is 0
	return p.Bound
}

// take keeps a line of standard error, and reports whether it is one of --progress json.
func (t *saying) take(command, text string, now time.Time) bool {
	if command == "mfrontier" && t.waiting.IsZero() && strings.Contains(text, ": waiting for ") {
		t.waiting = now
	}
	if !strings.HasPrefix(text, `{"command":"`+command+`"`) {
		return false
	}
	t.last = heard{text, now}
	switch {
	case t.ahead.Load() > 0:
		t.then = t.last
	case t.next.text == "":
		t.next = t.last
	}
	return true
}

// spend keeps what the commands of a pipe took that went well.
func (p *processes) spend(pipe Pipe, commands []*exec.Cmd, said []saying, began time.Time, ends []time.Time) {
	before := began // of the commands before it, the end of the last
	for i, cmd := range commands {
		s := stats.Spent{Command: verb(pipe[i]), Began: began.UTC(), ElapsedS: ends[i].Sub(began).Seconds(), OwnS: max(ends[i].Sub(before).Seconds(), 0),
			CPUS: (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()}
		if t := said[i].waiting; !t.IsZero() {
			s.WaitedS = min(ends[i].Sub(t).Seconds(), s.OwnS)
		}
		switch pipe[i][0] {
		case "mfetch":
			var line fetch.Progress
			if json.Unmarshal([]byte(said[i].last.text), &line) == nil {
				s.WaitedS, s.LookupsS = min(max(line.Bound-said[i].bound(began, before), 0), s.OwnS), line.Names
			}
		case "mresolve":
			var line struct {
				Found struct {
					LookupsS float64 `json:"lookups_s"`
				} `json:"found"`
			}
			if json.Unmarshal([]byte(said[i].last.text), &line) == nil {
				s.LookupsS = line.Found.LookupsS
			}
		}
		p.spent = append(p.spent, s)
		if before.Before(ends[i]) {
			before = ends[i]
		}
	}
}

// taken gives what commands took since it was called last.
func (p *processes) taken() []stats.Spent {
	spent := p.spent
	p.spent = nil
	return spent
}
