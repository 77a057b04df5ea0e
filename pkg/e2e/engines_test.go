package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mercator/pkg/base/must"
)

// enginesDir is the folder of the daemons that engines.sh started.
var enginesDir = os.Getenv("MERCATOR_ENGINES")

const enginePoliteness = "--min-delay 100ms --delay-factor 0 --addr-delay 80ms"

// TestEngines crawls on a real Slurm and a real Spark, and kills and freezes their nodes. Each crawl finds what the oracle tells,
// and the gaps are kept over all attempts.
func TestEngines(t *testing.T) {
	if enginesDir == "" {
		t.Skip("make engines runs it beside the daemons")
	}
	w := startWeb(t, 51, 4, 30, "--degree", "30", "--one-address")
	w.flags = slices.DeleteFunc(w.flags, func(f string) bool { return f == "--one-address" }) // which is none of the oracle's
	one := newCrawl(t, w)
	one.finish(t, "mcrawl")
	one.check(t)
	want := duplicates(t, one.outcomes(t))
	t.Run("slurm", func(t *testing.T) { slurmCrawl(t, w).ended(t, want) })
	t.Run("bad", func(t *testing.T) { badNode(t, w) })
	t.Run("spark", func(t *testing.T) { sparkCrawl(t, w).ended(t, want) })
	t.Run("snakemake", func(t *testing.T) { snakemakeCrawl(t, w).ended(t, want) })
}

// onEngine is a crawl that has an engine run its tasks.
type onEngine struct {
	*crawl
	owner int // the shard that fetches
	run   *exec.Cmd
	out   bytes.Buffer
	rng   *rand.Rand
}

// newOnEngine makes a crawl of four shards, and its first round on the engine.
func newOnEngine(t *testing.T, w *web, settings ...string) *onEngine {
	t.Helper()
	c := &onEngine{crawl: newCrawl(t, w, "POLITENESS_FLAGS="+enginePoliteness, "FETCH_FLAGS=--allow-net 127.0.0.0/8 --timeout 3s"), rng: rand.New(rand.NewPCG(18, 3))}
	c.dir = filepath.Join(enginesDir, strings.ReplaceAll(t.Name(), "/", "-")) // nodes are killed by what names the folder of the daemons
	c.shards(t, 4)
	if len(settings) > 0 {
		output(t, "mcrawl", append([]string{"set", c.dir}, settings...)...)
	}
	output(t, "mcrawl", "run", c.dir, "--quiet", "--rounds", "1")
	for _, file := range c.kept(t, "fetched.arrows.zst") {
		if strings.Contains(output(t, "mcat", "--format", "tsv", "--columns", "outcome", file), "fetched") {
			fmt.Sscanf(strings.TrimPrefix(file, c.dir), "/shard/%d/", &c.owner)
		}
	}
	return c
}

// start goes on with the crawl.
func (c *onEngine) start(t *testing.T, flags ...string) {
	t.Helper()
	c.run = exec.Command(bin+"mcrawl", append([]string{"run", c.dir}, flags...)...)
	c.out.Reset()
	c.run.Stdout, c.run.Stderr = &c.out, &c.out
	must.OK(t, c.run.Start())
	t.Cleanup(func() { c.run.Process.Kill() })
}

// interrupt ends the run as Ctrl-C does.
func (c *onEngine) interrupt(t *testing.T) {
	t.Helper()
	c.run.Process.Signal(os.Interrupt)
	if err := c.run.Wait(); c.run.ProcessState.ExitCode() != 130 {
		t.Errorf("%v, want exit code 130:\n%s", err, tail(c.out.Bytes()))
	}
}

// ended checks a crawl at its end.
func (c *onEngine) ended(t *testing.T, want int) {
	t.Helper()
	if c.run != nil {
		if err := c.run.Wait(); err != nil {
			t.Fatalf("mcrawl run: %v\n%s", err, tail(c.out.Bytes()))
		}
		t.Logf("%s", tail(c.out.Bytes()))
	}
	c.sharded(t)
	if got := duplicates(t, c.kept(t, "marked.arrows.zst")); got != want {
		t.Errorf("%d duplicates, want %d", got, want)
	}
	output(t, "mfetch", append(append([]string{"audit"}, strings.Fields(enginePoliteness)...), c.kept(t, "fetched.arrows.zst")...)...)
	output(t, "mcrawl", "seal", c.dir)
	files, err := filepath.Glob(filepath.Join(c.dir, "shard", "*", "fetch", "*.warc.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no WARC files: %v", err)
	}
	output(t, "mcat", append([]string{"--check"}, files...)...)
}

// nodeBin is mcrawl as nodes run it: a task for which a trap is set tells that it has begun. Until the next trap is set, tasks of
// later rounds wait before they fetch: however long Slurm needs to miss a node, the crawl has rounds left.
func nodeBin(t *testing.T) string {
	t.Helper()
	file := filepath.Join(enginesDir, "mcrawl")
	must.OK(t, os.RemoveAll(filepath.Join(enginesDir, "round")))
	err := os.WriteFile(file, []byte(fmt.Sprintf(`#!/bin/sh
while [ $3 = fetch ] && round=$(cat %[1]s/round 2> /dev/null) && [ $round != $5 ]; do sleep 0.1; done
for trap in %[1]s/trap.$3.$8 %[1]s/trap.$3; do
  how=$(cat "$trap" 2> /dev/null) && echo $5 > %[1]s/round.$$ && mv %[1]s/round.$$ %[1]s/round && mv "$trap" "$trap.sprung.$$.$SLURMD_NODENAME" 2> /dev/null || continue
  # Locks that hold for this node alone.
  [ "$how" != flock ] || exec strace -f -qq -o /dev/null --seccomp-bpf -e trace=flock -e inject=flock:retval=0 %[2]smcrawl "$@"
done
exec %[2]smcrawl "$@"
`, enginesDir, bin)), 0o777)
	must.OK(t, err)
	return file
}

// trap waits for a task of a stage, of any shard if it is "", and says which process it is, on which node.
func (c *onEngine) trap(t *testing.T, stage, shard, how string) (pid int, node string) {
	t.Helper()
	trap := strings.TrimSuffix(filepath.Join(enginesDir, "trap."+stage+"."+shard), ".")
	must.OK(t, os.WriteFile(trap+".new", []byte(how), 0o666), os.Rename(trap+".new", trap), os.RemoveAll(filepath.Join(enginesDir, "round")))
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if sprung, _ := filepath.Glob(trap + ".sprung.*"); len(sprung) > 0 {
			os.Remove(sprung[0])
			fmt.Sscanf(strings.TrimPrefix(sprung[0], trap+".sprung."), "%d.%s", &pid, &node)
			time.Sleep(time.Duration(c.rng.IntN(200)) * time.Millisecond)
			return pid, node
		}
	}
	t.Fatalf("no task of stage %s ran:\n%s", stage, tail(c.out.Bytes()))
	return 0, ""
}

// passed waits until a stage of the open round is done in all shards.
func (c *onEngine) passed(t *testing.T, round, stage string) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		s := c.stages(t)
		if s.Round != round {
			return
		}
		for _, one := range s.Stages {
			if one.Stage == stage && one.State == "done" {
				return
			}
		}
	}
	t.Fatalf("stage %s of %s does not end:\n%s", stage, round, tail(c.out.Bytes()))
}

// proc is what /proc says of one.
type proc struct{ pid, parent, session int }

func allProcs() (all []proc) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		p := proc{}
		fmt.Sscanf(string(b), "%d", &p.pid)
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])) // state, parent, group, session
		p.parent, _ = strconv.Atoi(f[1])
		p.session, _ = strconv.Atoi(f[3])
		all = append(all, p)
	}
	return all
}

// tasksOf are the processes of the sessions of a node's tasks, slurmstepd among them, and their names.
func tasksOf(node string) (pids []int, names []string) {
	sessions := map[int]bool{}
	all := allProcs()
	for _, p := range all {
		env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
		if bytes.Contains(env, []byte("MERCATOR_ENGINES="+enginesDir)) && bytes.Contains(env, []byte("SLURMD_NODENAME="+node+"\x00")) {
			sessions[p.session] = true
		}
	}
	for _, p := range all {
		if sessions[p.session] {
			name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.pid)) // it may have ended
			pids, names = append(pids, p.pid), append(names, strings.TrimSpace(string(name)))
		}
	}
	return pids, names
}

// signal sends a signal to processes, some of which may have ended.
func signal(pids []int, signal syscall.Signal) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, signal)
	}
}

// killNode kills the daemon of a node.
func killNode(t *testing.T, node string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(enginesDir, node+".pid"))
	must.OK(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	must.OK(t, err)
	must.OK(t, syscall.Kill(pid, syscall.SIGKILL))
}

// startNode starts the daemon of a node once Slurm has noticed that it is down.
func startNode(t *testing.T, node string) {
	t.Helper()
	state := func(is func(string) bool) {
		for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
			out, err := exec.Command("sinfo", "-h", "-N", "-n", node, "-o", "%t").Output()
			if s := strings.TrimSpace(string(out)); is(s) {
				return
			} else if time.Now().After(deadline) {
				t.Fatalf("node %s is %s: %v", node, s, err)
			}
		}
	}
	state(func(s string) bool { return strings.HasPrefix(s, "down") })
	cmd := exec.Command("slurmd", "-D", "-N", node, "-f", os.Getenv("SLURM_CONF"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must.OK(t, cmd.Start())
	go cmd.Wait()
	state(func(s string) bool { return !strings.HasPrefix(s, "down") && !strings.HasSuffix(s, "*") })
}

// slurmCrawl is a crawl on Slurm that loses nodes, daemons and drivers.
func slurmCrawl(t *testing.T, w *web) *onEngine {
	c := newOnEngine(t, w, "engine.on=slurm", "engine.bin="+nodeBin(t))
	owner := strconv.Itoa(c.owner)

	// The driver is killed while tasks are at work: the next one waits for them.
	c.start(t)
	c.trap(t, "fetch", owner, "")
	c.run.Process.Kill()
	c.run.Wait()
	c.start(t)
	// Of a node that is lost with its locks the task is frozen, and goes on when another has taken its place.
	_, node := c.trap(t, "extract", "", "")
	if !strings.Contains(c.out.String(), "of an earlier run is at work") {
		t.Errorf("the jobs of the driver that was killed were not found:\n%s", tail(c.out.Bytes()))
	}
	round, orphan := "", []int(nil)
	for orphan == nil {
		_, node = c.trap(t, "fetch", owner, "flock")
		time.Sleep(time.Second) // the contacts begin
		if pids, names := tasksOf(node); slices.Contains(names, "mcrawl") {
			round, orphan = c.stages(t).Round, pids
			signal(orphan, syscall.SIGSTOP)
		}
	}
	killNode(t, node)
	c.passed(t, round, "fetch")
	signal(orphan, syscall.SIGCONT)
	startNode(t, node)

	// A node that lost its daemon goes on with its tasks.
	_, node = c.trap(t, "fetch", owner, "")
	killNode(t, node)
	c.passed(t, c.stages(t).Round, "fetch")
	startNode(t, node)

	// A node is lost in each stage, with its tasks.
	for _, stage := range []string{"update", "batch", "fetch", "mark", "extract"} {
		shard := ""
		if stage == "fetch" {
			shard = owner
		}
		_, node := c.trap(t, stage, shard, "")
		killNode(t, node)
		pids, _ := tasksOf(node)
		signal(pids, syscall.SIGKILL)
		startNode(t, node)
	}

	// An interrupted driver leaves no job.
	c.trap(t, "fetch", owner, "")
	c.interrupt(t)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		out, err := exec.Command("squeue", "-h", "--me").Output()
		if err == nil && len(out) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v, jobs left:\n%s", err, out)
		}
	}
	c.start(t, "--on", "local") // the last rounds, of a few pages each
	return c
}

// badNode is a crawl where a node lacks the shared folder: it is named, with the folder.
func badNode(t *testing.T, w *web) {
	c := newOnEngine(t, w)
	file := filepath.Join(enginesDir, "mcrawl-elsewhere")
	must.OK(t, os.WriteFile(file, []byte(fmt.Sprintf("#!/bin/sh\nshift 2\nexec %smcrawl stage /nowhere/crawl \"$@\"\n", bin)), 0o777))
	output(t, "mcrawl", "set", c.dir, "engine.on=slurm", "engine.args=--nodelist=n2", "engine.bin="+file)
	out, err := exec.Command(bin+"mcrawl", "run", c.dir, "--quiet").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "on n2: job ") || !strings.Contains(string(out), "mcrawl: /nowhere/crawl: no crawl folder on ") {
		t.Errorf("%v, want the node and the folder:\n%s", err, tail(out))
	}
	output(t, "mcrawl", "set", c.dir, "engine.bin="+bin+"mcrawl", "engine.args=--no-such-option")
	out, err = exec.Command(bin+"mcrawl", "run", c.dir, "--quiet").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "mcrawl: sbatch: ") || !strings.Contains(string(out), "no-such-option") {
		t.Errorf("%v, want sbatch's words:\n%s", err, tail(out))
	}
}

// sparkCrawl is a crawl on Spark that loses executors.
func sparkCrawl(t *testing.T, w *web) *onEngine {
	c := newOnEngine(t, w, "engine.on=spark", "engine.args="+os.Getenv("SPARK_ARGS"), "engine.bin="+nodeBin(t))
	owner := strconv.Itoa(c.owner)
	// executor lists the executor of a task, and all below it; nothing of a task that has ended.
	executor := func(pid int) (tree []int) {
		all := allProcs()
		for i := 0; pid > 1 && i < len(all); i++ {
			if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); bytes.Contains(line, []byte("CoarseGrainedExecutorBackend")) {
				break
			}
			at := slices.IndexFunc(all, func(p proc) bool { return p.pid == pid })
			if at < 0 {
				return nil
			}
			pid = all[at].parent
		}
		tree = []int{pid}
		for i := 0; i < len(tree); i++ {
			for _, p := range all {
				if p.parent == tree[i] {
					tree = append(tree, p.pid)
				}
			}
		}
		return tree
	}
	c.start(t)
	// An executor is killed: its tasks end with it, and run again.
	trapped := func(how string, begun time.Duration) (tree []int) {
		for tree == nil {
			pid, _ := c.trap(t, "fetch", owner, how)
			time.Sleep(begun)
			tree = executor(pid)
		}
		return tree
	}
	syscall.Kill(trapped("", 0)[0], syscall.SIGKILL)
	c.passed(t, c.stages(t).Round, "fetch")
	// One is frozen until its tasks were run elsewhere.
	tree := trapped("flock", time.Second)
	round := c.stages(t).Round
	signal(tree, syscall.SIGSTOP)
	c.passed(t, round, "fetch")
	signal(tree, syscall.SIGCONT)
	c.passed(t, round, "update")
	c.passed(t, c.stages(t).Round, "batch")
	c.interrupt(t)
	c.start(t, "--on", "local")
	return c
}

// snakemakeCrawl is a crawl with two rounds made by Snakemake.
func snakemakeCrawl(t *testing.T, w *web) *onEngine {
	c := newOnEngine(t, w)
	for range 2 {
		cmd := exec.Command("snakemake", "--quiet", "--cores", "2", "--snakefile", "Snakefile", "--directory", enginesDir, "--config", "crawl="+c.dir)
		cmd.Env = append(os.Environ(), "PATH="+strings.TrimSuffix(bin, "/")+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("snakemake: %v\n%s", err, tail(out))
		}
	}
	if s := c.stages(t); s.Round != "r4" {
		t.Errorf("after two rounds the next is %s, want r4", s.Round)
	}
	c.start(t)
	return c
}
