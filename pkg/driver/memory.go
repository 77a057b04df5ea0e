package driver

import (
	"cmp"
	"runtime"
	"sync"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/setting"
	"mercator/pkg/cli"
	"mercator/pkg/command/mfetch"
	"mercator/pkg/config"
)

// fetchTasks bounds how many shards fetch at a time. They wait for politeness, not for processors: if they fetch one after the other,
// a round takes twice as long.
const fetchTasks = 32

// tasksOf is how many tasks of a stage run at a time on this machine, if there is room for them.
func (d *Driver) tasksOf(stage string) int {
	n := cmp.Or(d.opt.Threads, runtime.NumCPU())
	if stage == fetchStage {
		n = max(n, fetchTasks)
	}
	return min(n, d.plan.tasks())
}

// need returns the most memory that the commands of one task may take together, in bytes: each has its own bound.
func (s stage) need(conf *config.Config) (most config.Size) {
	for _, step := range s.steps {
		var sum config.Size
		for _, words := range step.pipe {
			if words[0] == "mfetch" {
				sum += conf.File.Memory.Fetch
			} else {
				sum += conf.File.Memory.Stages
			}
		}
		most = max(most, sum)
	}
	return most
}

// needs returns the bytes of the largest task, and of the tasks of a round that run at a time. In a crawl without shards a round is one task, unless its stages
// are run alone.
func (d *Driver) needs(conf *config.Config, alone bool) (one, all config.Size) {
	list := d.plan.ofShard(0).stages("r1", nil)
	if d.plan.shards == 0 && !alone {
		list = []stage{{steps: []step{{pipe: d.plan.round("r1")}}}}
	}
	for _, s := range list {
		n := s.need(conf)
		one, all = max(one, n), max(all, n*config.Size(d.tasksOf(s.name)))
	}
	if alone {
		all = one
	}
	return one, all
}

// ballast is part of the heap, but nobody touches it, so that no memory stands behind it. Garbage is collected when the heap has doubled: without
// ballast that is once or twice in a round of one URL, where the heap has a few megabytes.
var ballast = sync.OnceValue(func() []byte { return make([]byte, 8<<20) })

// boundMemory keeps this process to memory.total, or to what the tasks at a time may take. It refuses a bound that is too small for one task.
func (d *Driver) boundMemory(conf *config.Config, alone bool) error {
	one, all := d.needs(conf, alone)
	total := conf.File.Memory.Total
	if total != 0 && total < one {
		e := setting.Wrong("memory.total", total, setting.Text(one)+" or more, which the commands of one task may take by memory.fetch and memory.stages")
		e.File, e.Hint = conf.Path, "give it: "+fault.Quote("mcrawl", "set", d.Crawl.Dir(), "memory.total="+setting.Text(one))
		return e
	}
	cli.BoundMemory(int64(cmp.Or(total, all)) + int64(len(ballast())))
	return nil
}

// room is how many tasks of a stage fit into memory.total and the limit of open files at a time. If none does, mfetch says so.
func (d *Driver) room(conf *config.Config, s stage) int {
	tasks := d.tasksOf(s.name)
	if total := conf.File.Memory.Total; total > 0 {
		tasks = min(tasks, int(total/s.need(conf)))
	}
	if limit, known := mfetch.FilesLimit(); known && s.name == fetchStage {
		if of := mfetch.FilesOf(conf.File.Fetch.Connections); uint64(tasks)*of > limit {
			if !d.fewFiles && limit >= of {
				d.opt.Warn("%d of %d shards fetch at a time, by the limit of open files; for all of them the machine's administrator raises it: ulimit -H -n %d", limit/of, tasks, uint64(tasks)*of)
			}
			d.fewFiles, tasks = true, int(limit/of)
		}
	}
	return max(tasks, 1)
}
