package frontier

import "cmp"

// Fifo are the parameters of policy fifo.
type Fifo struct {
	Workers int `toml:"workers" placeholder:"256" help:"Queues to which hosts are dealt, 1 to 4096."` // as many as mfetch's connections
}

const fifo = "fifo"

const maxWorkers = 1 << 12 // each has a number in the manifest

func (*Fifo) about() about {
	return about{text: "one queue for each worker; hosts are dealt to workers by a hash of their names; workers in turn, within a worker first in, first out"}
}

func (f *Fifo) complete() error {
	f.Workers = cmp.Or(f.Workers, 256)
	return within("%v workers", f.Workers, 1, maxWorkers)
}
