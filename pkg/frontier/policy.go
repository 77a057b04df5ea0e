package frontier

import (
	"crypto/sha256"
	"encoding/binary"
	"math"

	"mercator/formats/store"
)

// Create makes a frontier store. It is no error if the same is there already.
func Create(dir string, p Params, opt store.Options) error {
	text, err := p.Encode()
	if err != nil {
		return err
	}
	return store.Create(dir, Kind, Version, text, opt)
}

// policy is what Params mean.
type policy struct {
	name    string
	queues  int
	weight  []float64 // in a draw, of a front queue that is so many behind the first that is ready; nil: strictly the first
	seed    uint64
	workers uint64 // 0: hosts take turns
	walkers uint64 // 0: no walk
	restart float64
	revisit *schedule // nil: a URL that was fetched is finished
	buffer  int       // Params.Buffer
	tax     uint64    // in millionths; 0: there are no credits
}

// policyOf is the policy that a manifest names.
func policyOf(m *store.Manifest) (*policy, error) {
	p, err := decodeParams(m)
	if err != nil {
		return nil, err
	}
	out := &policy{name: p.Policy, queues: max(p.Queues, 1), seed: p.Seed, workers: uint64(p.Workers), walkers: uint64(p.Walkers), restart: p.Restart, buffer: p.Buffer,
		tax: uint64(math.Round(p.Tax * millionths))}
	if p.Policy == revisit {
		out.queues, out.weight = revisitQueues, []float64{p.NewShare, 1 - p.NewShare}
		out.revisit = newSchedule(p.Revisit)
	}
	if p.Policy == priority && !p.Strict {
		for k := range p.Queues {
			out.weight = append(out.weight, math.Pow(p.Bias, -float64(k)))
		}
	}
	return out, nil
}

// level is the front queue of a URL of a priority; visited if it is to be visited again.
func (p *policy) level(priority uint8, visited bool) uint8 {
	switch {
	case p.revisit == nil:
		return uint8(min(int(priority), p.queues-1))
	case visited:
		return oldURLs
	}
	return newURLs
}

// line is in whose queue a URL stands: those of one line take turns with those of others.
func (p *policy) line(host string) uint64 {
	h := hostKey(host)
	if p.workers > 0 {
		return h % p.workers
	}
	return h
}

// choose draws one of the front queues that are ready, or returns -1 if none is.
// draw is the number of the draw: the same one gives the same queue, in every run.
func (p *policy) choose(draw uint64, ready func(queue int) bool) int {
	sum := 0.0
	first := -1
	for k := range p.queues {
		if ready(k) {
			if first < 0 {
				first = k
			}
			if p.weight == nil {
				return k
			}
			sum += p.weight[k-first]
		}
	}
	if first < 0 {
		return -1
	}
	at := random(p.seed, draw) * sum
	last := first
	for k := first; k < p.queues; k++ {
		if !ready(k) {
			continue
		}
		if last = k; at < p.weight[k-first] {
			break
		}
		at -= p.weight[k-first]
	}
	return last
}

// random is the n-th number of a seed, uniform on [0, 1): SplitMix64 (Steele, Lea
// and Flood, 2014), any number of which can be had without those before it.
func random(seed, n uint64) float64 {
	return float64(mix(seed+(n+1)*0x9e3779b97f4a7c15)>>11) / (1 << 53)
}

// mix is SplitMix64's bijection, whose values look random.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// hostKey is what the host table is sorted by: the first eight bytes of SHA-256.
// FP64 would not do: who has a domain can make names below it by the thousand
// that have one FP64, since it is linear.
var hostKey = func(host string) uint64 {
	h := sha256.Sum256([]byte(host))
	return binary.BigEndian.Uint64(h[:])
}
