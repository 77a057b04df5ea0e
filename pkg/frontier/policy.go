package frontier

import (
	"context"

	"mercator/formats/record"
	"mercator/formats/store"
)

// hooks are the decisions of a policy. The code for queues, hosts, batches and updates calls them and
// knows no policy by name. Type fair has all of them; a policy embeds it and writes the hooks that differ.
type hooks interface {
	// These are called for every batch.

	// choose is the front queue of the next URL, of queues; -1 if none is ready. The same draw
	// gives the same queue, in every run.
	choose(draw uint64, ready func(queue int) bool) int
	queues() int
	priorities() int
	// fairnessGroup returns the group that a host's URLs are served in: groups take turns.
	fairnessGroup(host string) uint64
	// level is the front queue of a URL. priorities is the number of front queues by priority.
	level(e *Entry) uint8
	// due gives a key to a URL that waited for a time. before counts such URLs of its fairness group so far, by front queue.
	due(s *state, e *Entry, before map[uint8]uint64)
	// served notes that a URL goes into the batch. The batch keeps the URL's VirtualTime; order derives
	// from it the key by which the URL was served.
	served(s *state, e *Entry)
	order(e *Entry) uint64
	// taken gets the number of URLs of each front queue in a batch of at most limit (0: any number).
	taken(s *state, now record.Time, n []uint64, limit uint64)
	// allRefused is called for a batch if the judge refused every URL in it.
	allRefused(ctx context.Context, fs files, judge Judge) error

	// These are called in every Add and Update, in this order.

	// found gets a row of the input. There is no state yet.
	found(c *change, u *record.URL) error
	// link gets a link of the batch's documents. There is no state yet.
	link(c *change, l *record.Link) error
	// judged gets the outcome of a URL of the batch, and may change its verdict. There is no state yet.
	judged(o *record.Fetch, out *outcome, now record.Time)
	// ended ends a URL of the batch; back: the policy has queued it again.
	ended(c *change, e *Entry, o *outcome) (back bool, err error)
	// waits puts back a URL of the batch that is still to be fetched.
	waits(c *change, e *Entry, o *outcome) error
	// outcomesApplied is called after all outcomes, and before new URLs get their keys.
	outcomesApplied(ctx context.Context, c *change) error
	// arrive queues a new URL of host h.
	arrive(c *change, h *Host, a *arrival) error
	// settle is called when all new URLs have arrived, and before the queues are written.
	settle(ctx context.Context, c *change) error

	// raised notes that a waiting URL has got a higher priority than it had.
	raised(e *Entry, had uint8)
	// moved notes that a URL has come into a front queue from another shard, with its key here, and may change that.
	moved(e *Entry)
	// passed notes that a URL has come from another shard, with the policy from, or (nil) has gone to one.
	passed(e *Entry, from hooks)

	// These are about what a policy keeps besides the queues.

	// kept returns the policy's state in the manifest, as a pointer for JSON; zero in a new frontier. nil: the policy has none.
	kept() any
	// files are the lists of runs that the policy keeps.
	files() [][]run
	// stat is the policy's part of Stat; nil: none.
	stat() PolicyStat
	// check compares what the policy keeps with all URLs: each gets every URL, then end is called.
	check(ctx context.Context, f *Frontier, s *state) (each func(queue, *Entry), end func() error)
	// columns are the further columns of exported rows.
	columns() *record.Schema
	// export sets the further columns of an exported row.
	export(q queue, e *Entry)
	// importRow reads the further columns of an added row.
	importRow(e *Entry)
	// starts are the runs to export, not all URLs; nil: all URLs.
	starts() []run
}

// linkUse is the use that an update makes of the links of its batch.
type linkUse uint8

const (
	noLinks   linkUse = iota // the update does without links
	withLinks                // the update reads links and new URLs
	onlyLinks                // the update reads links alone: the policy finds new URLs in them
)

// about describes a policy.
type about struct {
	text        string
	links       linkUse
	seed        bool // Params.Seed means something
	ranks       bool // front queues are by priority
	budgets     bool // domains may have budgets
	virtualTime bool // keys are virtual times: hosts take turns
	inOrder     bool // a batch by time keeps the order of service
	endless     bool // a crawl has no end
	late        bool // outcomesApplied and settle move waiting URLs: merges come after them
	share       int  // while other hosts wait, one host may have one in so many URLs of a batch; 0: all
}

// policy is the policy of a frontier.
type policy struct {
	hooks
	about
	name   string
	buffer int // Params.Buffer
}

// Create makes a frontier store. It is no error if the same is there already.
func Create(dir string, p Params, opt store.Options) error {
	text, err := p.Encode()
	if err != nil {
		return err
	}
	return store.Create(dir, Kind, Version, text, opt)
}

// policyOf is the policy that a manifest names, with the state of a new frontier.
func policyOf(m *store.Manifest) (*policy, error) {
	p, own, err := decodeParams(m)
	if err != nil {
		return nil, err
	}
	return &policy{own.policy(p), own.about(), p.Policy, p.Buffer}, nil
}
