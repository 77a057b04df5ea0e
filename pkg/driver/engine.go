package driver

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"mercator/pkg/base/fault"
	"mercator/pkg/crawl"
)

// An engine runs tasks: a task is a stage of a round in one shard. Only the files of the crawl say which tasks are done,
// so an engine may run a task twice, or lose it.
type engine interface {
	// runStage runs each task once, and returns the tasks that failed. It waits for tasks of an earlier run that still work.
	runStage(ctx context.Context, round, stage string, shards []int) ([]failed, error)
	close()
}

// failed is a task that ended before it was done.
type failed struct {
	shard int
	node  string
	code  int    // exit code; 0: none is known
	why   string // the engine's reason; the log may say more
}

// retries is how often a failed task is run again.
const retries = 3

// EngineOptions say what runs the tasks. An empty field leaves it to crawl.toml.
type EngineOptions struct {
	On   string // local, slurm or spark
	Args string // options of sbatch or pyspark
}

var engines = []string{"local", "slurm", "spark"}

// setEngine chooses what runs the tasks.
func (d *Driver) setEngine() error {
	conf, err := d.settings()
	if err != nil {
		return err
	}
	on, args := cmp.Or(d.opt.Engine.On, conf.File.Engine.On, "local"), strings.Fields(cmp.Or(d.opt.Engine.Args, conf.File.Engine.Args))
	if !slices.Contains(engines, on) {
		return &fault.Error{Class: fault.Usage, Found: "--on " + on, Want: strings.Join(engines, ", "), Hint: fault.DidYouMean(on, engines)}
	}
	if on == "local" {
		return nil
	}
	if d.plan.shards == 0 {
		return &fault.Error{Class: fault.Usage, File: d.Crawl.Dir(), Found: "a crawl without shards, on " + on, Want: "shards, one task each",
			Hint: "make one: " + fault.Quote("mcrawl", "new", d.Crawl.Dir()+"-shards", "--shards", "4", "--seeds", "seeds.txt")}
	}
	dir, err := filepath.Abs(d.Crawl.Dir())
	if err != nil {
		return err
	}
	t := tasks{d: d, dir: dir, args: args, bin: conf.File.Engine.Bin}
	if t.bin == "" {
		if t.bin, err = os.Executable(); err != nil {
			return err
		}
	}
	command, hint := "sbatch", "Debian has it in slurm-client"
	if d.engine = (&slurm{tasks: t}); on == "spark" {
		d.engine = &spark{tasks: t}
		command, hint = "pyspark", `"pip install pyspark" brings it, and so does Spark, in its folder bin`
	}
	if _, err := exec.LookPath(command); err != nil {
		return &fault.Error{Class: fault.Usage, Found: "no command " + command, Want: "it in PATH", Hint: hint, Err: err}
	}
	return nil
}

// resumeCommand is the command that continues the crawl, with this run's engine.
func (d *Driver) resumeCommand() string {
	words := []string{"mcrawl", "run", d.Crawl.Dir()}
	if d.opt.Engine.On != "" {
		words = append(words, "--on", d.opt.Engine.On)
	}
	if d.opt.Engine.Args != "" {
		words = append(words, "--engine-args="+d.opt.Engine.Args)
	}
	return fault.Quote(words...)
}

// tasks is the common part of engines that run tasks on other machines.
type tasks struct {
	d    *Driver
	dir  string // the crawl folder, absolute
	bin  string // mcrawl, as the machines see it
	args []string
}

// command is a task, but for the number of its shard.
func (t *tasks) command(round, stage string) []string {
	words := []string{t.bin, "stage", t.dir, stage, "--round", round, "--quiet"}
	if t.d.opt.Threads > 0 {
		words = append(words, "--threads", strconv.Itoa(t.d.opt.Threads))
	}
	return append(words, "--shard")
}

// logsDir has a folder of logs for each of the last rounds.
const logsDir, logsKept = crawl.LogsDir, 10

// log returns the path of a task's log; shard may be a pattern.
func (t *tasks) log(round, stage, shard string) string {
	return filepath.Join(t.dir, logsDir, round, stage+"-"+shard+".log")
}

// beginLogs makes the folder of a round's logs, and removes the logs of old rounds.
func (t *tasks) beginLogs(round string) error {
	dir := filepath.Join(t.dir, logsDir)
	if err := os.MkdirAll(filepath.Join(dir, round), 0o777); err != nil {
		return err
	}
	number := func(round string) int { n, _ := strconv.Atoi(strings.TrimPrefix(round, "r")); return n }
	list, err := os.ReadDir(dir)
	for _, e := range list {
		if n := number(e.Name()); n > 0 && n <= number(round)-logsKept && err == nil {
			err = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
	return err
}

// notDone lists the shards in which a stage is not done.
func (d *Driver) notDone(round, name string, shards []int) (left []int, err error) {
	for _, n := range shards {
		list := d.plan.ofShard(n).stages(round, nil)
		done, err := d.stageDone(round, list[slices.IndexFunc(list, func(s stage) bool { return s.name == name })], n)
		if err != nil {
			return nil, err
		}
		if !done {
			left = append(left, n)
		}
	}
	return left, nil
}

// roundOfShards runs the stages of a round, each in all shards. What adds URLs is run here.
func (d *Driver) roundOfShards(ctx context.Context, round string, lists []string) error {
	if d.engine == nil || lists != nil {
		for at := range d.plan.ofShard(0).stages(round, lists) {
			if err := d.stageHere(ctx, round, lists, at); err != nil {
				return err
			}
		}
		return nil
	}
	for _, s := range d.plan.ofShard(0).stages(round, nil) {
		tries := map[int]int{}
		var last []failed
		left := make([]int, d.plan.shards)
		for n := range left {
			left[n] = n
		}
		for {
			var err error
			if left, err = d.notDone(round, s.name, left); err != nil {
				return err
			}
			if len(left) == 0 {
				break
			}
			for _, n := range left {
				f := failed{shard: n}
				if i := slices.IndexFunc(last, func(f failed) bool { return f.shard == n }); i >= 0 {
					f = last[i]
				}
				if tries[n]++; tries[n] > 1+retries || f.code == fault.Superseded.ExitCode() { // another machine has taken it over
					return d.taskError(round, s.name, f)
				}
				if tries[n] > 1 {
					d.opt.Warn("%v; it is run again", d.taskError(round, s.name, f))
				}
			}
			if last, err = d.engine.runStage(ctx, round, s.name, left); err != nil {
				return err
			}
		}
	}
	return nil
}

// stageHere runs a stage in all shards, each as a task of this process.
func (d *Driver) stageHere(ctx context.Context, round string, lists []string, at int) error {
	conf, err := d.Crawl.Config()
	if err != nil {
		return err
	}
	limit := make(chan struct{}, d.room(conf, d.plan.ofShard(0).stages(round, lists)[at]))
	errs := make([]error, d.plan.shards)
	var all sync.WaitGroup
	for n := range d.plan.shards {
		all.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			if errs[n] = context.Cause(ctx); errs[n] == nil {
				errs[n] = d.task(ctx, round, lists, at, n)
			}
		})
	}
	all.Wait()
	for _, err := range errs { // the first says enough
		if err != nil {
			return err
		}
	}
	return nil
}

// taskError is the error of a task that failed, with the last words of its log.
func (d *Driver) taskError(round, stage string, f failed) error {
	t := tasks{dir: d.Crawl.Dir()}
	file := t.log(round, stage, strconv.Itoa(f.shard))
	found, hint, crashed := lastWords(file)
	e := &fault.Error{File: d.Crawl.Dir(), Place: fmt.Sprintf("round %s, stage %s, shard %d", round, stage, f.shard), Hint: cmp.Or(hint, "its log is "+file)}
	if f.node != "" {
		e.Place += ", on " + f.node
	}
	e.Found = strings.Trim(f.why+": "+found, ": ")
	if found == "" && f.why == "" {
		e.Found = "ended before it was done"
	}
	if !crashed { // a crash has the exit code of wrong usage
		e.Class = fault.OfExitCode(f.code)
	}
	return e
}

// crash matches the first line that the Go runtime prints when it ends a program with exit code 2. A traceback follows.
var crash = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(panic: |fatal error: |SIG[A-Z]+: )`) })

// lastWords returns the last line of a log that says more than that a command failed, and its hint. For a crash it returns the first line.
func lastWords(file string) (found, hint string, crashed bool) {
	const most = 1 << 20 // the tracebacks of a fetcher's goroutines may be half of it
	f, err := os.Open(file)
	if err != nil {
		return "no log " + file, "", false
	}
	defer f.Close() // was read only
	if st, err := f.Stat(); err == nil && st.Size() > most {
		_, _ = f.Seek(-most, io.SeekEnd) // or all of it is read
	}
	b, _ := io.ReadAll(io.LimitReader(f, most)) // what can be read helps
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if crashed = crashed && !strings.HasPrefix(line, "mcrawl: "); crashed { // such a line is of another try
			continue
		}
		if _, text, is := strings.Cut(line, ": hint: "); is {
			hint = text
		} else if line != "" && !strings.HasPrefix(line, "at ") && !(strings.HasPrefix(line, "mcrawl: ") && strings.Contains(line, " ended with exit code ")) { // "at": Java's calls
			found, hint, crashed = strings.TrimPrefix(line, ": "), "", crash().MatchString(line)
		}
	}
	return found, hint, crashed
}
