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
	"time"

	"mercator/pkg/crawl"
	"mercator/pkg/durable"
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

// keepTimes adds to the file of a round. What a command took before, when it was run in another attempt, is replaced.
func (d *Driver) keepTimes(p plan, round string, spent []stats.Spent) error {
	file := p.path("rounds", round, crawl.TimesFile)
	before, err := readTimes(file)
	if err != nil {
		before = nil // it is replaced
	}
	again := func(b stats.Spent) bool {
		return slices.ContainsFunc(spent, func(s stats.Spent) bool { return s.Command == b.Command })
	}
	b, err := json.Marshal(times{timesVersion, append(slices.DeleteFunc(before, again), spent...)})
	if err != nil {
		return err
	}
	return durable.WriteOutput(file, append(b, '\n'))
}

// readTimes reads the file of a round; nil if there is none.
func readTimes(file string) ([]stats.Spent, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() // was read only
	b, err := io.ReadAll(io.LimitReader(f, timesMax+1))
	if err != nil {
		return nil, err
	}
	bad := &fault.Error{Class: fault.Corrupt, File: file, Want: fmt.Sprintf("the times of a round, version %d", timesVersion),
		Hint: fmt.Sprintf("%q: nothing is lost but the times of this round", fault.Quote("rm", file))}
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
	last    string    // its last line of --progress json
	waiting time.Time // since when it waits until a URL is due; zero: it does not
}

// take keeps a line of standard error, and reports whether it is one of --progress json.
func (t *saying) take(command, line string) bool {
	if command == "mfrontier" && t.waiting.IsZero() && strings.Contains(line, ": waiting for ") {
		t.waiting = time.Now()
	}
	if !strings.HasPrefix(line, `{"command":"`+command+`"`) {
		return false
	}
	t.last = line
	return true
}

// spend keeps what the commands of a pipe took that went well.
func (p *processes) spend(pipe Pipe, commands []*exec.Cmd, said []saying, began time.Time, ends []time.Time) {
	before := began
	for i, cmd := range commands {
		s := stats.Spent{Command: verb(pipe[i]), Began: began.UTC(), ElapsedS: ends[i].Sub(began).Seconds(), OwnS: max(ends[i].Sub(before).Seconds(), 0),
			CPUS: (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()}
		if before.Before(ends[i]) {
			before = ends[i]
		}
		if t := said[i].waiting; !t.IsZero() {
			s.WaitedS = min(ends[i].Sub(t).Seconds(), s.OwnS)
		}
		switch pipe[i][0] {
		case "mfetch":
			var line fetch.Progress
			if json.Unmarshal([]byte(said[i].last), &line) == nil {
				s.WaitedS, s.LookupsS = min(line.Bound, s.OwnS), line.Names
			}
		case "mresolve":
			var line struct {
				Found struct {
					LookupsS float64 `json:"lookups_s"`
				} `json:"found"`
			}
			if json.Unmarshal([]byte(said[i].last), &line) == nil {
				s.LookupsS = line.Found.LookupsS
			}
		}
		p.spent = append(p.spent, s)
	}
}

// taken gives what commands took since it was called last.
func (p *processes) taken() []stats.Spent {
	spent := p.spent
	p.spent = nil
	return spent
}
