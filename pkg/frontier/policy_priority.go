package frontier

import (
	"cmp"
	"fmt"
	"math"
)

// Priority are the parameters of policy priority. URLs of higher priority numbers share the last queue.
type Priority struct {
	Queues int     `toml:"queues" placeholder:"3" help:"Front queues (Mercator's K), 1 to 16."`
	Bias   float64 `toml:"bias" placeholder:"2" more:"" help:"Draw a front queue this many times as often as the next."`
	Strict bool    `toml:"strict" placeholder:"false" help:"No draws: serve a queue only if those before it are empty."`
}

const (
	maxQueues = 16 // each may have URLs that are due in memory; a place's top byte holds the number
	maxBias   = 1 << 20
)

func (*Priority) about() about {
	return about{seed: true, ranks: true, budgets: true, turns: true, text: "K front queues; each URL of a batch comes from one drawn at random, with a bias to the first; within a queue hosts in turn, within a host first in, first out"}
}

func (p *Priority) complete() error {
	if p.Strict && p.Bias != 0 {
		return outside(fmt.Sprintf("a bias of %v, and strict", p.Bias), "one of them")
	}
	p.Queues = cmp.Or(p.Queues, 3)
	if p.Strict {
		return within("%v front queues", p.Queues, 1, maxQueues)
	}
	p.Bias = cmp.Or(p.Bias, 2)
	return cmp.Or(within("%v front queues", p.Queues, 1, maxQueues), within("a bias of %v", p.Bias, 1, maxBias))
}

func (p *Priority) policy(seed uint64) hooks {
	ranked := &priorityPolicy{weighted{seed: seed}}
	for k := range p.Queues {
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

func (p *priorityPolicy) of(priority uint8) uint8 { return uint8(min(int(priority), p.queues()-1)) }

func (p *priorityPolicy) level(e *Entry) uint8 { return p.of(e.URL.Priority) }

func (p *priorityPolicy) due(s *state, e *Entry, before map[uint8]uint64) {
	s.takeTurn(e, p.level(e), before)
}

func (p *priorityPolicy) arrive(c *change, h *Host, a *arrival) error {
	return c.takePlace(h, a, p.of(a.priority))
}
