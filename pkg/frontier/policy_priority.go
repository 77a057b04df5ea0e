package frontier

import (
	"cmp"
	"fmt"
	"math"

	"mercator/pkg/base/fault"
)

// Priority are the parameters of policy priority. URLs of higher priority numbers share the last queue.
type Priority struct {
	Queues int     `key:"frontier.queues" range:"1 16" placeholder:"3" help:"Front queues (Mercator's K), 1 to 16 (priority: 3, revisit: 1)."`
	Bias   float64 `key:"frontier.bias" range:"1 1048576" placeholder:"2" more:"" help:"Draw a front queue this many times as often as the next."`
	Strict bool    `key:"frontier.strict" placeholder:"false" help:"No draws: serve a queue only if those before it are empty."`
}

// DefaultQueues is the number of front queues. There are few: each may have URLs that are due in memory, and the top byte of a key holds the number.
const DefaultQueues = 3

func (*Priority) about() about {
	return about{seed: true, ranks: true, budgets: true, virtualTime: true, text: "K front queues; each URL of a batch comes from one drawn at random, with a bias to the first; within a queue hosts in turn, within a host first in, first out"}
}

func (p *Priority) complete() error {
	if p.Strict && p.Bias != 0 {
		return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("bias %v, and strict", p.Bias), Want: "one of them"}
	}
	p.Queues = cmp.Or(p.Queues, DefaultQueues)
	if !p.Strict {
		p.Bias = cmp.Or(p.Bias, 2)
	}
	return nil
}

// beside is complete, for a policy that has front queues by priority beside others: one, if none are asked for. Stores were
// made of such a policy before it had several, so the number 1 is left out.
func (p *Priority) beside() error {
	if p.Queues == 1 {
		p.Queues = 0
	}
	if p.Queues == 0 {
		if p.Bias != 0 || p.Strict {
			return &fault.Error{Class: fault.Usage, Found: "bias, or strict, of one front queue", Want: "several queues"}
		}
		return nil
	}
	return p.complete()
}

func (p *Priority) policy(all *Params) hooks { return &priorityPolicy{p.drawn(all.Seed)} }

// drawn draws one of the front queues.
func (p *Priority) drawn(seed uint64) weighted {
	ranked := weighted{seed: seed}
	for k := range max(p.Queues, 1) {
		w := math.Pow(p.Bias, -float64(k))
		if p.Strict && k > 0 {
			w = 0
		}
		ranked.weight = append(ranked.weight, w)
	}
	return ranked
}

// priorityPolicy has a front queue for each priority.
type priorityPolicy struct{ weighted }

func (p *priorityPolicy) priorities() int { return p.queues() }

func (p *priorityPolicy) queueOf(priority uint8) uint8 {
	return uint8(min(int(priority), p.queues()-1))
}

func (p *priorityPolicy) level(e *Entry) uint8 { return p.queueOf(e.URL.Priority) }

func (p *priorityPolicy) due(s *state, e *Entry, before map[uint8]uint64) {
	s.takeTurn(e, p.level(e), before)
}

func (p *priorityPolicy) arrive(c *change, h *Host, a *arrival) error {
	return c.queueLast(h, a, p.queueOf(a.priority))
}
