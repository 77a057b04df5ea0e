package frontier

import (
	"context"

	"mercator/formats/record"
	"mercator/formats/store"
)

// hooks are what a policy decides. The machinery of queues, hosts, batches and updates calls them and
// knows no policy by name. Fair has all of them, so that a policy writes those that it does otherwise.
type hooks interface {
	// Of every batch:

	// choose is the front queue of the next URL, of queues; -1 if none is ready. The same draw
	// gives the same queue, in every run.
	choose(draw uint64, ready func(queue int) bool) int
	queues() int
	priorities() int
	// line is in whose name a URL stands: those of one line take turns with those of others.
	line(host string) uint64
	// level is the front queue of a URL; those by priority are priorities.
	level(e *Entry) uint8
	// due gives a key to a URL that waited for a time; before counts those of its line so far, by front queue.
	due(s *state, e *Entry, before map[uint8]uint64)
	// served notes that a URL goes into the batch. Its Place is kept there, from which order gives
	// the key that it was served by.
	served(s *state, e *Entry)
	order(e *Entry) uint64
	// taken tells how many URLs of each front queue a batch of at most limit (0: any number) has.
	taken(s *state, now record.Time, n []uint64, limit uint64)
	// barren is called for a batch if the judge refused every URL in it.
	barren(ctx context.Context, fs files, judge Judge) error

	// Of every Add and Update, in this order:

	// found takes a row of the input, link a link of the batch that has landed, judged a verdict about
	// one of its URLs, which the hook may change. There is no state yet.
	found(c *change, u *record.URL) error
	link(c *change, l *record.Link) error
	judged(o *record.Fetch, out *outcome, now record.Time)
	// ended ends a URL of the batch, unless it comes back; waits puts one back that is to be fetched yet.
	ended(c *change, e *Entry, o *outcome) (back bool, err error)
	waits(c *change, e *Entry, o *outcome) error
	// landed is called when all outcomes are known, and before new URLs get their keys.
	landed(ctx context.Context, c *change) error
	// arrive queues a new URL of host h.
	arrive(c *change, h *Host, a *arrival) error
	// settle is called when all new URLs have arrived, and before the queues are written.
	settle(ctx context.Context, c *change) error

	// raised notes that a URL that waits has got a higher priority than it had.
	raised(e *Entry, had uint8)
	// moved notes that a URL has come from another shard, with that place.
	moved(host string, place uint64)
	// passed notes that a URL has come from another shard (in), or has gone to one.
	passed(e *Entry, in bool)

	// What there is besides the queues:

	// kept is what the policy keeps in the manifest, a pointer for JSON; zero in a new frontier. nil: nothing.
	kept() any
	// files are the lists of runs that it keeps.
	files() [][]run
	// stat is what Stat says of it; nil: nothing.
	stat() PolicyStat
	// check begins a comparison of what it keeps with all URLs: each is given to each, then end is called.
	check(ctx context.Context, f *Frontier, s *state) (each func(queue, *Entry), end func() error)
	// columns are those of exported rows beside a record's; export sets them, and recall reads them
	// from a row that is added. starts are the runs to export in place of all URLs; nil: those.
	columns() *record.Schema
	export(q queue, e *Entry)
	recall(e *Entry)
	starts() []run
}

// linkUse says what an update needs the links of its batch for.
type linkUse uint8

const (
	noLinks   linkUse = iota // nothing
	withLinks                // beside new URLs
	onlyLinks                // in place of these: new URLs are the policy's own, and no rows of the input
)

// about says what a policy does, and what the machinery has to heed.
type about struct {
	text    string
	links   linkUse
	seed    bool // Params.Seed means something
	ranks   bool // front queues are by priority
	budgets bool // domains may have budgets
	turns   bool // keys are places in virtual time, at which hosts take turns
	inOrder bool // a batch by time keeps its order, too
	endless bool // its crawls have no end
	late    bool // URLs that wait are moved by landed and settle: merges come after these
	share   int  // one URL of a batch in this many may be of one host while others wait; 0: all
}

// policy is that of a frontier.
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

// policyOf is the policy that a manifest names, as of a new frontier.
func policyOf(m *store.Manifest) (*policy, error) {
	p, own, err := decodeParams(m)
	if err != nil {
		return nil, err
	}
	return &policy{own.policy(p), own.about(), p.Policy, p.Buffer}, nil
}
