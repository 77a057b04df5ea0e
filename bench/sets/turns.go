package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// contender is one side of a row. before, if any, is not timed.
type contender struct {
	name   string
	before func() error
	run    func() error
}

// cost is the cost of a contender: medians of the clock, and of processor time (user
// and system, of this process and of those that it ran).
type cost struct{ clock, cpu time.Duration }

// turns runs the contenders in turn, b.runs times.
func (b *bench) turns(list ...contender) ([]cost, error) {
	took, used := make([][]time.Duration, len(list)), make([][]time.Duration, len(list))
	for range b.runs {
		for i, c := range list {
			if c.before != nil {
				if err := c.before(); err != nil {
					return nil, fmt.Errorf("%s: %w", c.name, err)
				}
			}
			runtime.GC()
			before := processorTime()
			began := time.Now()
			if err := c.run(); err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			took[i] = append(took[i], time.Since(began))
			used[i] = append(used[i], processorTime()-before)
		}
	}
	costs := make([]cost, len(list))
	for i := range list {
		costs[i] = cost{median(took[i]), median(used[i])}
	}
	return costs, nil
}

func median(t []time.Duration) time.Duration {
	slices.Sort(t)
	return t[(len(t)-1)/2]
}

// processorTime returns the processor time of this process and of its ended children.
func processorTime() (sum time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return sum
}

// shell runs a line of sh in b.dir, with our commands and gen in PATH and LC_ALL=C,
// and returns the greatest peak of resident memory of its processes, in bytes.
func (b *bench) shell(line string) (peak int64, err error) {
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "PATH="+b.bin+":"+os.Getenv("PATH"), "TMPDIR="+b.dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%s: %w: %s", line, err, strings.TrimSpace(stderr.String()))
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0, errors.New("this system does not tell peak memory")
	}
	peak = int64(usage.Maxrss)
	if runtime.GOOS != "darwin" {
		peak <<= 10 // KiB elsewhere
	}
	return peak, nil
}

// line is a contender that runs a line of sh.
func (b *bench) line(line string) contender {
	return contender{name: line, run: func() error { _, err := b.shell(line); return err }}
}

// gen runs bench/sets/gen.
func (b *bench) gen(format string, args ...any) error {
	_, err := b.shell(fmt.Sprintf("gen -seed %d ", b.seed) + fmt.Sprintf(format, args...))
	return err
}

// pinned puts a line on one processor, where there is a tool for it.
func pinned(line string) string {
	if _, err := exec.LookPath("taskset"); err != nil {
		return line
	}
	return "taskset -c 0 " + line
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

// row prints one: costs of the same work, and their ratio, theirs to ours. A want
// of "" stands for none.
func (b *bench) row(what string, ours cost, work float64, unit, peer string, theirs cost, want string, atLeast float64) {
	figure := func(c cost) string {
		return fmt.Sprintf("%s (%.3g M %s/s)", short(c.clock), work/c.clock.Seconds()/1e6, unit)
	}
	ratio := theirs.clock.Seconds() / ours.clock.Seconds()
	verdict(what, figure(ours), peer, figure(theirs), ratio, theirs.cpu.Seconds()/ours.cpu.Seconds(), want, ratio >= atLeast)
}

// atMost prints a row with the ratio of ours to theirs, which should be at most most;
// 0: the row names no wanted ratio.
func (b *bench) atMost(what string, ours cost, peer string, theirs cost, most float64) {
	ratio := ours.clock.Seconds() / theirs.clock.Seconds()
	want := ""
	if most > 0 {
		want = fmt.Sprintf("≤ %g", most)
	}
	verdict(what, short(ours.clock), peer, short(theirs.clock), ratio, ours.cpu.Seconds()/theirs.cpu.Seconds(), want, ratio <= most)
}

func head() {
	fmt.Println("| what | ours | peer | peer's | ratio | of processor time | wanted | |\n|---|--:|---|--:|--:|--:|--:|---|")
}

func verdict(what, ours, peer, theirs string, ratio, cpu float64, want string, met bool) {
	word := "met"
	switch {
	case want == "":
		word = ""
	case !met:
		word = "missed"
	}
	bar := strings.NewReplacer("|", "\\|").Replace // in a table, even in code
	fmt.Printf("| %s | %s | %s | %s | %.3g | %.3g | %s | %s |\n", bar(what), ours, bar(peer), theirs, ratio, cpu, want, word)
}

func short(t time.Duration) string {
	switch {
	case t >= 10*time.Second:
		return fmt.Sprintf("%.1f s", t.Seconds())
	case t >= time.Second:
		return fmt.Sprintf("%.2f s", t.Seconds())
	case t >= time.Millisecond:
		return fmt.Sprintf("%.3g ms", t.Seconds()*1e3)
	}
	return fmt.Sprintf("%.3g µs", t.Seconds()*1e6)
}

// power writes 100000000 as 10^8.
func power(n uint64) string {
	e, m := 0, n
	for m > 0 && m%10 == 0 {
		m, e = m/10, e+1
	}
	switch {
	case m == 1:
		return fmt.Sprintf("10^%d", e)
	case e > 2 && m < 100:
		return fmt.Sprintf("%d·10^%d", m, e)
	}
	return fmt.Sprint(n)
}

// readThrough reads files as cat would, in pieces of 1 MiB.
func readThrough(names ...string) error {
	buf := make([]byte, 1<<20)
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		for err == nil {
			_, err = f.Read(buf)
		}
		f.Close()
		if err != io.EOF {
			return err
		}
	}
	return nil
}

// writeThrough writes and syncs size bytes.
func writeThrough(name string, size int64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	buf := make([]byte, 1<<20)
	for i := range buf {
		buf[i] = byte(i * i >> 7)
	}
	for size > 0 && err == nil {
		n := min(size, int64(len(buf)))
		_, err = f.Write(buf[:n])
		size -= n
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
