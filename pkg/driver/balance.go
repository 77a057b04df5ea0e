package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/crawl"
	"mercator/pkg/driver/tell"
	"mercator/pkg/folder/shard"
	"mercator/pkg/frontier"
)

// Balance says how the URLs that wait are spread over the shards, and which moves make that even.
type Balance struct {
	Shards []ShardLoad  `json:"shards"`
	Moves  []BucketMove `json:"moves"`
	Whole  []WholeHost  `json:"whole,omitempty"` // hosts that keep a shard uneven

	owners []int // the owner of each bucket after the moves
}

// ShardLoad is one shard.
type ShardLoad struct {
	Shard     int      `json:"shard"`
	Buckets   int      `json:"buckets"`
	Hosts     uint64   `json:"hosts"`
	Known     uint64   `json:"known"`                // URLs that the set of URLs has
	Waiting   uint64   `json:"waiting"`              // URLs that wait
	PerSecond *float64 `json:"done_per_s,omitempty"` // URLs that ended, a second, in the last rounds; nil: the checkpoints do not tell
	After     uint64   `json:"waiting_after"`        // URLs that wait after the moves
}

// BucketMove is a move from one shard to another.
type BucketMove struct {
	Buckets string `json:"buckets"`
	From    int    `json:"from"`
	To      int    `json:"to"`
	Hosts   uint64 `json:"hosts"`
	Waiting uint64 `json:"waiting"`
	Why     string `json:"why"`
}

// WholeHost is a host that is more than a shard's part of all URLs that wait. Its bucket cannot be cut.
type WholeHost struct {
	Shard   int    `json:"shard"`
	Bucket  int    `json:"bucket"`
	Host    string `json:"host"`
	Waiting uint64 `json:"waiting"`
}

// bucketLoad is the load of a bucket.
type bucketLoad struct {
	hosts, known, waiting uint64
	most                  uint64 // URLs that wait on the host with most of them
	host                  string
}

// even is how far the most loaded shard may be above the least loaded, in parts of its own load: a tenth.
const even = 10

// Balance looks at the hosts of all shards, and proposes moves.
func (d *Driver) Balance(ctx context.Context) (*Balance, error) {
	m, err := shard.Read(durable.OS, d.Crawl.Dir())
	if err != nil {
		return nil, err
	}
	form, err := d.Crawl.Form()
	if err != nil {
		return nil, err
	}
	key := hostKeys(form)
	buckets := make([]bucketLoad, shard.Buckets)
	for _, f := range d.Crawl.Frontiers {
		err := f.EachHost(ctx, func(h *frontier.Host) error {
			b := &buckets[shard.Bucket(key(h.Host))]
			waiting := h.Discovered - h.Finished
			b.hosts, b.known, b.waiting = b.hosts+1, b.known+h.Discovered, b.waiting+waiting
			if waiting > b.most {
				b.most, b.host = waiting, strings.Clone(h.Host)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	b := propose(m, buckets)
	return b, d.perSecond(b, m.Version)
}

// propose moves buckets from the most loaded shard that has one which fits to the least loaded, until all are nearly even.
func propose(m *shard.Map, buckets []bucketLoad) *Balance {
	b := &Balance{Moves: []BucketMove{}, owners: slices.Clone(m.Owners)}
	load := make([]uint64, m.Shards)
	var all uint64
	for n := range m.Shards {
		b.Shards = append(b.Shards, ShardLoad{Shard: n})
	}
	for i, of := range buckets {
		s := &b.Shards[m.Owners[i]]
		s.Buckets, s.Hosts, s.Known, s.Waiting = s.Buckets+1, s.Hosts+of.hosts, s.Known+of.known, s.Waiting+of.waiting
		load[s.Shard] += of.waiting
		all += of.waiting
	}
	for {
		bucket, to := fitting(b.owners, buckets, load)
		if bucket < 0 {
			break
		}
		load[b.owners[bucket]] -= buckets[bucket].waiting
		load[to] += buckets[bucket].waiting
		b.owners[bucket] = to
	}
	for n := range b.Shards {
		b.Shards[n].After = load[n]
	}
	for from := range m.Shards {
		for to := range m.Shards {
			one := BucketMove{From: from, To: to}
			var list []int
			for i, owner := range b.owners {
				if m.Owners[i] == from && owner == to && from != to {
					list = append(list, i)
					one.Hosts, one.Waiting = one.Hosts+buckets[i].hosts, one.Waiting+buckets[i].waiting
				}
			}
			if len(list) > 0 {
				one.Buckets = shard.BucketsText(list)
				one.Why = fmt.Sprintf("shard %d has %s waiting, shard %d %s", from, tell.Count(b.Shards[from].Waiting, "URL"), to, tell.Grouped(b.Shards[to].Waiting))
				b.Moves = append(b.Moves, one)
			}
		}
	}
	for i, of := range buckets {
		if of.most > all/uint64(m.Shards) {
			b.Whole = append(b.Whole, WholeHost{Shard: b.owners[i], Bucket: i, Host: of.host, Waiting: of.most})
		}
	}
	return b
}

// fitting is the bucket to move next, and where to: the largest that is at most half of what the two shards differ by, or else the
// smallest that makes them more even. -1: there is none.
func fitting(owners []int, buckets []bucketLoad, load []uint64) (bucket, to int) {
	byLoad := make([]int, len(load))
	for n := range byLoad {
		byLoad[n] = n
	}
	slices.SortStableFunc(byLoad, func(a, b int) int {
		switch {
		case load[a] > load[b]:
			return -1
		case load[a] < load[b]:
			return 1
		}
		return 0
	})
	to = byLoad[len(byLoad)-1]
	for _, from := range byLoad {
		gap := load[from] - load[to]
		if gap*even <= load[from] {
			break
		}
		best := -1
		for i, owner := range owners {
			w := buckets[i].waiting
			if owner != from || w == 0 || w >= gap {
				continue
			}
			switch {
			case best < 0:
				best = i
			case w <= gap/2 && (w > buckets[best].waiting || buckets[best].waiting > gap/2), w > gap/2 && w < buckets[best].waiting:
				best = i
			}
		}
		if best >= 0 {
			return best, to
		}
	}
	return -1, 0
}

// lastRounds are those that the pace is measured over.
const lastRounds = 10

// perSecond tells how many URLs each shard finished in the last rounds under this map, as far as the checkpoints are kept.
func (d *Driver) perSecond(b *Balance, version uint64) error {
	last, err := d.Crawl.Current()
	if err != nil || last == nil || last.Map != version {
		return err
	}
	first := last
	for range lastRounds {
		k, err := d.Crawl.Checkpoint(first.Parent)
		if errors.Is(err, fault.Usage) || errors.Is(err, fs.ErrNotExist) || err == nil && k.Map != version {
			break
		}
		if err != nil {
			return err
		}
		first = k
	}
	took := madeAt(last).Sub(madeAt(first)).Seconds()
	if took <= 0 {
		return nil
	}
	for n, f := range d.Crawl.Frontiers {
		done := [2]uint64{}
		for i, k := range []*crawl.Checkpoint{first, last} {
			at := slices.IndexFunc(k.Stores, func(s crawl.CheckpointStore) bool { return s.Name == path.Join(shard.Name(n), frontier.Kind) })
			if at < 0 {
				return nil
			}
			m, err := f.Store().At(k.Stores[at].Generation)
			if err == nil {
				done[i], err = f.FinishedAt(m)
			}
			if err != nil {
				return err
			}
		}
		pace := (float64(done[1]) - float64(done[0])) / took
		b.Shards[n].PerSecond = &pace
	}
	return nil
}

func madeAt(k *crawl.Checkpoint) time.Time {
	t, _ := time.Parse(time.RFC3339, k.Made) // the reader has seen its shape
	return t
}

// Print writes it for people.
func (b *Balance) Print(out io.Writer, dir string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, tell.Paint(out, tell.StyleHeading, "shard\tbuckets\thosts\tURLs known\twaiting\tdone/s\twaiting after\t"))
	for _, s := range b.Shards {
		pace := "-"
		if s.PerSecond != nil {
			pace = fmt.Sprintf("%.1f", *s.PerSecond)
		}
		fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%s\t%s\t%s\t\n", s.Shard, s.Buckets, tell.Grouped(s.Hosts), tell.Grouped(s.Known), tell.Grouped(s.Waiting), pace, tell.Grouped(s.After))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, h := range b.Whole {
		fmt.Fprintf(out, "%s alone has %s waiting, in bucket %d of shard %d: a host is not cut\n", h.Host, tell.Count(h.Waiting, "URL"), h.Bucket, h.Shard)
	}
	if len(b.Moves) == 0 {
		_, err := fmt.Fprintln(out, "no move would make them more even")
		return err
	}
	for _, m := range b.Moves {
		fmt.Fprintf(out, "from shard %d to %d: %s with %s waiting, since %s\n  %s\n", m.From, m.To, tell.Count(m.Hosts, "host"), tell.Count(m.Waiting, "URL"), m.Why, fault.Quote("mcrawl", "move", dir, m.Buckets, "--to", fmt.Sprint(m.To)))
	}
	_, err := fmt.Fprintf(out, "all at once: %s\n", fault.Quote("mcrawl", "balance", dir, "--do"))
	return err
}

// DoBalance makes the moves that Balance proposes, all in one, or finishes a move that was begun. It returns nil if there is none.
func (d *Driver) DoBalance(ctx context.Context) (*Moved, error) {
	return d.holding(ctx, "mcrawl balance", func() (*Moved, error) {
		if moved, err := d.finishMove(ctx); moved != nil || err != nil {
			return moved, err
		}
		b, err := d.Balance(ctx)
		if err != nil || len(b.Moves) == 0 {
			return nil, err
		}
		return d.move(ctx, b.owners)
	})
}
