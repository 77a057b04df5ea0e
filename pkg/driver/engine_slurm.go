package driver

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
)

// slurm runs a stage as an array of jobs. Their name has the crawl in it, so that a later driver finds them.
type slurm struct {
	tasks
	tidied bool // no job of another stage is left
}

// Intervals of looking at the tasks of a stage.
const (
	lookAtFiles    = 200 * time.Millisecond // at their files
	lookAtJobsSoon = 500 * time.Millisecond // at their jobs for the first time, as some fail at once
	lookAtJobs     = 4 * time.Second        // at their jobs, at the most
)

// jobsEnded are the states of jobs that will not go on.
var jobsEnded = []string{"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"}

// job is a member of an array.
type job struct{ array, shard int }

// jobState is a job as squeue shows it.
type jobState struct {
	name, state, node, reason string
	status                    int // exit status in the form of wait
}

func (s *slurm) runStage(ctx context.Context, round, stage string, shards []int) (list []failed, err error) {
	if err := s.beginLogs(round); err != nil {
		return nil, err
	}
	whole, err := filepath.EvalSymlinks(s.dir)
	if err != nil {
		return nil, err
	}
	prefix := "mercator-" + fingerprint.Format(fingerprint.OfString(whole)) + "-"
	name := prefix + round + "-" + stage
	jobs, err := s.jobs(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil { // what does not end now, the next driver finds
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			_, _ = s.runSlurm(ctx, "scancel", "--me", "--name="+name)
		}
	}()
	works := map[int]job{} // by shard
	for j, st := range jobs {
		switch {
		case slices.Contains(jobsEnded, st.state) || !strings.HasPrefix(st.name, prefix):
		case st.name == name:
			works[j.shard] = j
			s.d.opt.Warn("round %s, stage %s, shard %d: job %d_%[3]d of an earlier run is at work", round, stage, j.shard, j.array)
		case !s.tidied:
			s.d.opt.Warn("job %d_%d of an earlier run (%s) is cancelled", j.array, j.shard, st.name)
			if _, err := s.runSlurm(ctx, "scancel", fmt.Sprintf("%d_%d", j.array, j.shard)); err != nil {
				return nil, err
			}
		}
	}
	s.tidied = true
	var missing []string
	for _, n := range shards {
		if works[n].array == 0 {
			missing = append(missing, strconv.Itoa(n))
		}
	}
	if missing != nil {
		script := `echo "$(date -u +%FT%TZ) ${SLURMD_NODENAME:-$(hostname)}, job $SLURM_JOB_ID"; exec ` + fault.Quote(s.command(round, stage)...) + ` "$SLURM_ARRAY_TASK_ID"`
		pattern := tasks{dir: strings.ReplaceAll(s.dir, "%", "%%")} // sbatch replaces %a and others
		out, err := s.runSlurm(ctx, "sbatch", append(slices.Clone(s.args), "--parsable", "--no-requeue", "--job-name="+name, "--array="+strings.Join(missing, ","),
			"--open-mode=append", "--output="+pattern.log(round, stage, "%a"), "--wrap="+script)...)
		if err != nil {
			return nil, err
		}
		number, _, _ := strings.Cut(strings.TrimSpace(out), ";") // a cluster's name may follow
		array, err := strconv.Atoi(number)
		if err != nil {
			return nil, &fault.Error{Found: fmt.Sprintf("sbatch printed %q", out), Want: "the number of a job", Err: err}
		}
		for _, n := range shards {
			if works[n].array == 0 {
				works[n] = job{array, n}
			}
		}
	}
	return s.waitForJobs(ctx, round, stage, shards, works)
}

// waitForJobs waits until each shard is done or its job has ended.
func (s *slurm) waitForJobs(ctx context.Context, round, stage string, shards []int, works map[int]job) (list []failed, err error) {
	var down outage
	for left, looked, next := slices.Clone(shards), time.Now(), lookAtJobsSoon; ; {
		if left, err = s.d.notDone(round, stage, left); err != nil || len(left) == 0 {
			return list, err
		}
		if time.Since(looked) >= next {
			jobs, err := s.jobs(ctx)
			if looked, next = time.Now(), min(2*next, lookAtJobs); ctx.Err() == nil {
				news, end := down.noteResult(err, looked)
				if end {
					return nil, err
				}
				if news { // jobs go on without it
					s.d.opt.Warn("%v; looked at again every %v, for %v at most", err, lookAtJobs, maxOutage)
				}
			}
			states := map[string]uint64{}
			left = slices.DeleteFunc(left, func(n int) bool {
				st, known := jobs[works[n]]
				if err != nil || known && !slices.Contains(jobsEnded, st.state) {
					states[strings.ToLower(st.state)]++
					return false
				}
				f := failed{shard: n, node: st.node, why: fmt.Sprintf("job %d_%d: %s (%s)", works[n].array, n, cmp.Or(st.state, "unknown to Slurm"), st.reason)}
				if st.status&0x7f == 0 {
					f.code = st.status >> 8
				}
				list = append(list, f)
				return true
			})
			s.d.opt.Reporter.Tasks(stage, states)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lookAtFiles):
		}
	}
}

// maxOutage is how long squeue may fail without a success between.
const maxOutage = 10 * time.Minute

// outage is a time in which squeue fails.
type outage struct {
	since time.Time
	text  string // text of the last error; "": squeue does not fail
}

// noteResult notes how a call of squeue ended. news: this error was not reported yet. end: squeue has failed for too long.
func (o *outage) noteResult(err error, now time.Time) (news, end bool) {
	if err == nil {
		*o = outage{}
		return false, false
	}
	if o.text == "" {
		o.since = now
	}
	news, o.text = err.Error() != o.text, err.Error()
	return news, now.Sub(o.since) >= maxOutage
}

// jobs lists the jobs of this user, as Slurm knows them: for some minutes after their end, too.
func (s *slurm) jobs(ctx context.Context) (map[job]jobState, error) {
	const columns = "ArrayJobID:|,ArrayTaskID:|,exit_code:|,State:|,NodeList:|,Reason:|,Name:|"
	out, err := s.runSlurm(ctx, "squeue", "--me", "--array", "--noheader", "--states=all", "--Format="+columns)
	jobs := map[job]jobState{}
	for line := range strings.Lines(out) {
		f := strings.Split(line, "|")
		if len(f) < 7 {
			return nil, &fault.Error{File: "squeue", Found: fmt.Sprintf("%.200q", line), Want: "columns " + columns}
		}
		array, errA := strconv.Atoi(f[0])
		shard, errS := strconv.Atoi(f[1])
		status, errE := strconv.Atoi(f[2])
		if errors.Join(errA, errS, errE) == nil { // else it is no member of an array
			jobs[job{array, shard}] = jobState{status: status, state: f[3], node: f[4], reason: f[5], name: f[6]}
		}
	}
	return jobs, err
}

// runSlurm runs a command of Slurm and returns what it printed.
func (s *slurm) runSlurm(ctx context.Context, command string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, command, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", &fault.Error{File: command, Found: cmp.Or(strings.Join(strings.Fields(stderr.String()), " "), err.Error()), Err: err, Hint: `"sinfo" shows the cluster, engine.args in crawl.toml what sbatch is given`}
	}
	return string(out), nil
}

func (s *slurm) close() {}
