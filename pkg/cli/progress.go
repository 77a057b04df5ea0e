package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Progress shows on standard error how far long work is. Safe for many goroutines.
// The nil Progress is silent.
type Progress struct {
	std     *Std
	unit    string
	total   int64
	n       atomic.Int64
	started time.Time
	mode    string // "bar", "plain", "json", or "log": plain without a last line
	detail  func() (line string, value any)
	found   atomic.Value // last argument of Tell
	stop    chan struct{}
	once    sync.Once
	wg      sync.WaitGroup
}

// Intervals between two reports.
const (
	barEvery  = 200 * time.Millisecond
	lineEvery = 5 * time.Second
	jsonEvery = time.Second
	logEvery  = 10 * time.Second
)

// StartProgress begins to report n of total units (total 0: unknown). A bar
// appears only where standard error is a terminal and standard output is not a
// pipe, since the commands of one pipe share the terminal.
func (s *Std) StartProgress(unit string, total int64) *Progress {
	return s.startProgress(unit, total, nil, "off")
}

// StartLong is StartProgress of a command that is no part of a pipe: where no bar appears, there is a line every ten seconds.
func (s *Std) StartLong(unit string) *Progress {
	return s.startProgress(unit, 0, nil, "log")
}

// StartReport is StartProgress of a command that has more to tell: detail returns the line of mode plain, and
// the value of mode json. It is called by one goroutine at a time.
func (s *Std) StartReport(unit string, detail func() (line string, value any)) *Progress {
	return s.startProgress(unit, 0, detail, "off")
}

func (s *Std) startProgress(unit string, total int64, detail func() (string, any), elsewhere string) *Progress {
	mode := s.Common.Progress
	if s.call != nil {
		mode = "json"
	}
	if s.Common.Quiet || s.call != nil && s.call.Report == nil {
		mode = "off"
	}
	if mode == "auto" {
		mode = elsewhere
		if isTerminal(s.Err) && !isPipe(s.Out) {
			mode = "bar"
		}
	}
	if mode == "off" {
		return nil
	}
	p := &Progress{std: s, mode: mode, unit: unit, total: total, started: time.Now(), detail: detail, stop: make(chan struct{})}
	every := lineEvery
	switch mode {
	case "json":
		every = jsonEvery
	case "bar":
		every = barEvery
	case "log":
		every = logEvery
	}
	s.bar.Store(p)
	p.wg.Go(func() {
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				p.report()
			case <-p.stop:
				return
			}
		}
	})
	return p
}

func (p *Progress) report() {
	if p.mode == "bar" {
		line, _ := p.count()
		fmt.Fprint(p.std.Err, clearLine, clip(p.std.Name+": "+p.drawn()+line, p.std.Width()-1))
		return
	}
	detail := p.detail
	if detail == nil {
		detail = p.count
	}
	line, value := detail()
	if p.std.call != nil {
		p.std.call.Report(value)
	} else if p.mode != "json" {
		fmt.Fprintf(p.std.Err, "%s: %s\n", p.std.Name, line)
	} else if b, err := json.Marshal(value); err == nil {
		fmt.Fprintf(p.std.Err, "%s\n", b)
	}
}

// clearLine brings a terminal back to the start of its line, which is empty then.
const clearLine = "\r\033[K"

// drawn is the bar, where the total is known.
func (p *Progress) drawn() string {
	const width = 20
	if p.total <= 0 {
		return ""
	}
	done := int(min(p.n.Load(), p.total) * width / p.total)
	return "[" + strings.Repeat("=", done) + strings.Repeat(" ", width-done) + "] "
}

// clip is the start of a text of ASCII that has room in a line; of a terminal that tells no width, all.
func clip(s string, width int) string {
	if width > 0 && len(s) > width {
		return s[:width]
	}
	return s
}

// count is the detail of a command that counts units only.
func (p *Progress) count() (line string, value any) {
	n := p.n.Load()
	elapsed := max(time.Since(p.started).Seconds(), 1e-6)
	of := ""
	if p.total > 0 {
		of = fmt.Sprintf(" of %d", p.total)
	}
	return fmt.Sprintf("%d%s %s, %.0f/s", n, of, p.unit, float64(n)/elapsed), Counted{p.std.Name, p.unit, n, p.total, elapsed, float64(n) / elapsed, p.found.Load()}
}

// Counted is how far a command is that counts units, as --progress json prints it.
type Counted struct {
	Command string  `json:"command"`
	Unit    string  `json:"unit"`
	N       int64   `json:"n"`
	Total   int64   `json:"total,omitempty"`
	Elapsed float64 `json:"elapsed_s"`
	PerS    float64 `json:"per_s"`
	Found   any     `json:"found,omitempty"` // argument of Tell
}

// Tell has all further reports of mode json hold what the command found, as "found".
func (p *Progress) Tell(found any) {
	if p != nil {
		p.found.Store(found)
	}
}

// Add counts n more units.
func (p *Progress) Add(n int64) {
	if p != nil {
		p.n.Add(n)
	}
}

// Done ends the reports, with a last one. It may be called more than once.
func (p *Progress) Done() {
	if p == nil {
		return
	}
	p.once.Do(func() {
		close(p.stop)
		p.wg.Wait()
		switch p.mode {
		case "bar":
			fmt.Fprint(p.std.Err, clearLine)
		case "plain", "json":
			p.report()
		}
	})
}
