package frontier

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"time"

	"mercator/formats/segment"
	"mercator/formats/store"
	"mercator/pkg/fault"
)

// Policy says in which order URLs are served.
type Policy struct {
	Name  string
	About string
}

// The policies. All but opic serve fairly by virtual time; they differ in who takes turns,
// and in how a front queue is chosen.
const (
	fifo     = "fifo"
	dynamic  = "dynamic"
	priority = "priority"
	walk     = "walk"
	opic     = "opic"
)

// Policies lists the policies that Create knows.
func Policies() []Policy {
	return []Policy{
		{priority, "K front queues; each URL of a batch comes from one drawn at random, with a bias to the first; within a queue hosts in turn, within a host first in, first out"},
		{dynamic, "one queue; hosts in turn, whatever the priority; within a host first in, first out"},
		{revisit, "two queues, new URLs and pages to visit again, each with a share of a batch; a page is visited as often as keeps most pages fresh, by its estimated rate of change; never ends by itself"},
		{fifo, "one queue for each worker; hosts are dealt to workers by a hash of their names; workers in turn, within a worker first in, first out"},
		{walk, "random walks: after each page one of its links, or at random and at dead ends any URL found so far; pages are visited again and again, and there is no end"},
		{opic, "one queue; the URL of most credit first, which pages give to those that they link to (adaptive on-line page importance); no host fills a batch"},
	}
}

// What Create takes where nothing is given.
const (
	Queues  = 3   // front queues, Mercator's K
	Bias    = 2   // how much more often a front queue is drawn than the next
	Workers = 256 // of policy fifo: as many as mfetch's connections
	Tax     = 0.1 // of policy opic
)

const (
	maxQueues  = 16 // each may have URLs that are due in memory; a place's top byte holds the number
	maxBias    = 1 << 20
	maxWorkers = 1 << 12 // each has a number in the manifest
	minBuffer  = 16
	maxBuffer  = segment.MaxBlockRows
)

// Params are fixed when a frontier is created. What the policy has no use for must
// be left zero.
type Params struct {
	Policy string // a name of Policies; "": "priority"
	// Queues is the number of front queues of policy priority, 1 to 16; 0: Queues.
	// URLs of higher priority numbers share the last.
	Queues int
	// Bias of policy priority: among the front queues in which a URL is ready, each is
	// drawn Bias times as often as the next; 1 or more. Strict: always the first of them.
	Bias   float64 // 0: Bias
	Strict bool
	Seed   uint64 // of the draws; of policies revisit and walk too; of policy opic, of the order among equals
	// NewShare of policy revisit: the share of URLs never visited in a batch, while there
	// are both these and pages to visit again; more than 0, at most 1. 0: NewShare.
	NewShare float64
	// MinInterval and MaxInterval of policy revisit bound the time between two visits of
	// a page, 1s to 8760h. Where both are equal, every page is visited as often. 0:
	// MinInterval, MaxInterval.
	MinInterval, MaxInterval time.Duration
	// GoneAfter of policy revisit is how many visits in a row do not find a page that was
	// there, until it is finished; 1 to 255. 0: GoneAfter.
	GoneAfter int
	// Workers is the number of queues of policy fifo, 1 to 4096; 0: Workers.
	Workers int
	// Walkers is the number of walks of policy walk that go on at a time, 1 to 4096; 0:
	// Walkers. Restart is the chance, above 0 and at most 1, that a walk does not follow a
	// link but begins anew; 0: Restart. Seed is of the draws.
	Walkers int
	Restart float64
	// Buffer is how many URLs of a run are in memory when it is read or written, 16 to
	// 8192: Mercator's enqueue and dequeue buffers, of 600 URLs. 0: what 64 KiB hold, some 600
	// (with more than four front queues less, 16 KiB with sixteen).
	Buffer int
	// Tax of policy opic is the part of a page's credit that goes to the lambda page,
	// in steps of a millionth, at most 1; 0: Tax.
	Tax float64
}

// Create makes a frontier store. It is no error if the same is there already.
func Create(dir string, p Params, opt store.Options) error {
	text, err := p.Encode()
	if err != nil {
		return err
	}
	return store.Create(dir, Kind, Version, text, opt)
}

// Encode gives the params as the manifest keeps them, those that are zero as what they mean.
// Those that the policy has no use for are fault.Usage.
func (p Params) Encode() (map[string]string, error) {
	if p.Policy == "" {
		p.Policy = priority
	}
	refuse := func(found, want string) (map[string]string, error) {
		return nil, &fault.Error{Class: fault.Usage, Found: found, Want: want}
	}
	text := map[string]string{"policy": p.Policy}
	if p.Policy != priority && p.Policy != revisit && p.Policy != walk && p.Policy != opic && p.Seed != 0 {
		return refuse("a seed for policy "+p.Policy, "none, or policy "+priority+", "+revisit+", "+walk+" or "+opic)
	}
	for _, given := range []struct {
		is           bool
		what, policy string
	}{
		{p.Queues != 0, "front queues", priority},
		{p.Bias != 0, "a bias", priority},
		{p.Strict, "a strict order of front queues", priority},
		{p.Walkers != 0, "walkers", walk},
		{p.Restart != 0, "a chance of restarts", walk},
		{p.NewShare != 0, "a share of new URLs", revisit},
		{p.MinInterval != 0 || p.MaxInterval != 0, "an interval between visits", revisit},
		{p.GoneAfter != 0, "a number of visits to gone pages", revisit},
		{p.Tax != 0, "a tax", opic},
		{p.Workers != 0, "workers", fifo},
	} {
		if given.is && p.Policy != given.policy {
			return refuse(given.what+" for policy "+p.Policy, "none, or policy "+given.policy)
		}
	}
	if p.Buffer != 0 {
		if p.Buffer < minBuffer || p.Buffer > maxBuffer {
			return refuse(fmt.Sprintf("a buffer of %d URLs", p.Buffer), fmt.Sprintf("%d to %d", minBuffer, maxBuffer))
		}
		text["buffer"] = strconv.Itoa(p.Buffer)
	}
	switch p.Policy {
	case priority:
		if p.Queues == 0 {
			p.Queues = Queues
		}
		if p.Queues < 1 || p.Queues > maxQueues {
			return refuse(fmt.Sprintf("%d front queues", p.Queues), fmt.Sprintf("1 to %d", maxQueues))
		}
		if p.Strict && p.Bias != 0 {
			return refuse("a bias, and strictly by priority", "one of them")
		}
		if p.Bias == 0 {
			p.Bias = Bias
		}
		if !(p.Bias >= 1 && p.Bias <= maxBias) {
			return refuse(fmt.Sprintf("a bias of %v", p.Bias), fmt.Sprintf("1 to %d", maxBias))
		}
		text["queues"] = strconv.Itoa(p.Queues)
		text["bias"] = strconv.FormatFloat(p.Bias, 'g', -1, 64)
		if p.Strict {
			text["bias"] = "strict"
		}
		text["seed"] = strconv.FormatUint(p.Seed, 10)
	case fifo:
		if p.Workers == 0 {
			p.Workers = Workers
		}
		if p.Workers < 1 || p.Workers > maxWorkers {
			return refuse(fmt.Sprintf("%d workers", p.Workers), fmt.Sprintf("1 to %d", maxWorkers))
		}
		text["workers"] = strconv.Itoa(p.Workers)
	case walk:
		if p.Walkers == 0 {
			p.Walkers = Walkers
		}
		if p.Restart == 0 {
			p.Restart = Restart
		}
		if p.Walkers < 1 || p.Walkers > maxWalkers {
			return refuse(fmt.Sprintf("%d walkers", p.Walkers), fmt.Sprintf("1 to %d", maxWalkers))
		}
		if !(p.Restart > 0 && p.Restart <= 1) {
			return refuse(fmt.Sprintf("restarts with chance %v", p.Restart), "more than 0, at most 1")
		}
		text["walkers"] = strconv.Itoa(p.Walkers)
		text["restart"] = strconv.FormatFloat(p.Restart, 'g', -1, 64)
		text["seed"] = strconv.FormatUint(p.Seed, 10)
	case revisit:
		if _, err := newSchedule(&p); err != nil {
			return nil, err
		}
		text["new_share"] = strconv.FormatFloat(p.NewShare, 'g', -1, 64)
		text["min_interval"], text["max_interval"] = p.MinInterval.String(), p.MaxInterval.String()
		text["gone_after"] = strconv.Itoa(p.GoneAfter)
		text["seed"] = strconv.FormatUint(p.Seed, 10)
	case opic:
		if p.Tax == 0 {
			p.Tax = Tax
		}
		tax := math.Round(p.Tax * millionths)
		if !(tax >= 1 && tax <= millionths) {
			return refuse(fmt.Sprintf("a tax of %v", p.Tax), "0.000001 to 1")
		}
		text["tax"] = strconv.FormatFloat(tax/millionths, 'g', -1, 64)
		text["seed"] = strconv.FormatUint(p.Seed, 10)
	case dynamic:
	default:
		return nil, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("unknown policy %q", p.Policy), Hint: `"mfrontier policies" lists those there are`}
	}
	return text, nil
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

// policyOf is the reverse of Params.Encode.
func policyOf(m *store.Manifest) (*policy, error) {
	p := Params{Policy: m.Params["policy"]}
	var bad error
	fraction := func(key string) float64 {
		x, err := strconv.ParseFloat(m.Params[key], 64)
		if err != nil {
			bad = err
		}
		return x
	}
	seed := func() uint64 {
		n, err := strconv.ParseUint(m.Params["seed"], 10, 64)
		if err != nil {
			bad = err
		}
		return n
	}
	number := func(key string) int {
		n, err := strconv.Atoi(m.Params[key])
		if err != nil {
			bad = err
		}
		return n
	}
	if _, ok := m.Params["buffer"]; ok {
		p.Buffer = number("buffer")
	}
	interval := func(key string) time.Duration {
		d, err := time.ParseDuration(m.Params[key])
		if err != nil {
			bad = err
		}
		return d
	}
	switch p.Policy {
	case priority:
		p.Queues = number("queues")
		if p.Strict = m.Params["bias"] == "strict"; !p.Strict {
			p.Bias = fraction("bias")
		}
		p.Seed = seed()
	case fifo:
		p.Workers = number("workers")
	case walk:
		p.Walkers, p.Restart, p.Seed = number("walkers"), fraction("restart"), seed()
	case revisit:
		p.NewShare, p.GoneAfter, p.Seed = fraction("new_share"), number("gone_after"), seed()
		p.MinInterval, p.MaxInterval = interval("min_interval"), interval("max_interval")
	case opic:
		p.Tax, p.Seed = fraction("tax"), seed()
	}
	text, err := p.Encode()
	if bad != nil || err != nil || len(text) != len(m.Params) {
		return nil, &fault.Error{Class: fault.Corrupt, Place: fmt.Sprintf("generation %d", m.Generation), Found: "parameters " + store.ParamsText(m.Params), Want: "those of a policy"}
	}
	out := &policy{name: p.Policy, queues: max(p.Queues, 1), seed: p.Seed, workers: uint64(p.Workers), walkers: uint64(p.Walkers), restart: p.Restart, buffer: p.Buffer,
		tax: uint64(math.Round(p.Tax * millionths))}
	if p.Policy == revisit {
		out.queues, out.weight = revisitQueues, []float64{p.NewShare, 1 - p.NewShare}
		out.revisit, err = newSchedule(&p)
		return out, err
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
