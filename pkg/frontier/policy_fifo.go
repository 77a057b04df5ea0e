package frontier

import (
	"cmp"
	"context"
	"encoding/binary"
)

// Fifo are the parameters of policy fifo. Each worker has a number in the manifest.
type Fifo struct {
	Workers int `key:"frontier.workers" range:"1 4096" placeholder:"256" help:"Queues to which hosts are dealt, 1 to 4096."` // as many as mfetch's connections
}

func (*Fifo) about() about {
	return about{budgets: true, inOrder: true, text: "one queue for each worker; hosts are dealt to workers by a hash of their names; workers in turn, within a worker first in, first out"}
}

func (f *Fifo) complete() error {
	f.Workers = cmp.Or(f.Workers, 256)
	return nil
}

func (f *Fifo) policy(*Params) hooks { return &fifoPolicy{workers: f.Workers} }

// fifoPolicy is fair to workers, not to hosts: those are Mercator's threads (1999).
type fifoPolicy struct {
	fair
	workers int
	next    []uint64 // for each worker, the least virtual time of its next new URL; nil: 0
	lines   *sorter  // new URLs, each behind its worker, in order of arrival
}

func (p *fifoPolicy) kept() any { return &p.next }

func (p *fifoPolicy) fairnessGroup(host string) uint64 { return hostKey(host) % uint64(p.workers) }

func (p *fifoPolicy) arrive(c *change, h *Host, a *arrival) error {
	if a.due != 0 {
		return p.fair.arrive(c, h, a)
	}
	if p.lines == nil {
		p.lines = c.sorter(smallSort)
	}
	c.buf = binary.AppendUvarint(c.buf[:0], p.fairnessGroup(h.Host))
	c.buf = append(c.buf, a.row...)
	return p.lines.addPayload(a.number, c.buf)
}

// moved puts new URLs behind the URLs that the host has brought along.
func (p *fifoPolicy) moved(e *Entry) {
	worker := p.fairnessGroup(e.URL.Host)
	p.startWorkers()
	p.next[worker] = max(p.next[worker], virtualTimeOf(e.Key)+1)
}

func (p *fifoPolicy) startWorkers() {
	if len(p.next) != p.workers {
		p.next = make([]uint64, p.workers)
	}
}

// settle gives new URLs their virtual times, in order of arrival.
func (p *fifoPolicy) settle(_ context.Context, c *change) error {
	if p.lines == nil {
		return nil
	}
	p.startWorkers()
	rows, err := p.lines.sorted()
	for ; err == nil && !rows.done; err = rows.takeRow() {
		worker, n := binary.Uvarint(rows.row)
		time := max(c.s.V[0], p.next[worker])
		p.next[worker] = time + 1
		if err := c.queue.addPayload(keyOf(0, time), rows.row[n:]); err != nil {
			return err
		}
	}
	return err
}
