package driver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/crawl"
	"mercator/pkg/driver/tell"
	"mercator/pkg/folder/shard"
	"mercator/pkg/fpset"
	"mercator/pkg/frontier"
	"mercator/pkg/urlset"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/process"
)

// Moved is the result of a move.
type Moved struct {
	Round      string     `json:"round"`
	Checkpoint uint64     `json:"checkpoint"`
	Map        uint64     `json:"map"` // version of the bucket map
	Lots       []MovedLot `json:"moved"`
}

// MovedLot counts what went from one shard to another.
type MovedLot struct {
	From    int    `json:"from"`
	To      int    `json:"to"`
	Hosts   uint64 `json:"hosts"`
	Waiting uint64 `json:"waiting"` // URLs
	Known   uint64 `json:"known"`   // URLs that the set of URLs has
}

// String describes the move in words.
func (m *Moved) String() string {
	var b strings.Builder
	for _, l := range m.Lots {
		fmt.Fprintf(&b, "%s: %s with %s waiting and %s known, from shard %d to %d\n", m.Round, tell.Count(l.Hosts, "host"), tell.Count(l.Waiting, "URL"), tell.Grouped(l.Known), l.From, l.To)
	}
	if len(m.Lots) == 0 {
		fmt.Fprintf(&b, "%s: the buckets were empty\n", m.Round)
	}
	fmt.Fprintf(&b, "%s: checkpoint %d, bucket map %d\n", m.Round, m.Checkpoint, m.Map)
	return b.String()
}

// OpenShards opens a crawl of several shards; another one is refused.
func OpenShards(dir, what string, opt Options) (*Driver, error) {
	d, err := Open(dir, opt)
	if err == nil && d.plan.shards == 0 {
		err = &fault.Error{Class: fault.Usage, File: dir, Found: what + " in a crawl without shards", Want: "a crawl of several",
			Hint: "make one: " + fault.Quote("mcrawl", "new", "sharded", "--shards", "4", "--seeds", "seeds.txt")}
	}
	return d, err
}

// HostBucket is the bucket of a host, which may be given as a URL. A host that no shard knows is refused, once there are hosts.
func (d *Driver) HostBucket(ctx context.Context, text string) (int, error) {
	form, err := d.Crawl.Form()
	if err != nil {
		return 0, err
	}
	if !strings.Contains(text, "://") {
		text = "http://" + text + "/"
	}
	_, host, err := form.URL(text)
	if err != nil {
		return 0, &fault.Error{Class: fault.Usage, Place: "--host", Err: err}
	}
	bucket := shard.Bucket(hostKeys(form)(host))
	known, any, like := false, false, ""
	for _, f := range d.Crawl.Frontiers {
		err := f.EachHost(ctx, func(h *frontier.Host) error {
			any, known = true, known || h.Host == host
			if like == "" && portless(h.Host) == portless(host) {
				like = strings.Clone(h.Host)
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	if known || !any {
		return bucket, nil
	}
	e := &fault.Error{Class: fault.Usage, File: d.plan.crawl, Place: "--host", Found: fmt.Sprintf("%q, which no shard knows", host), Want: "a host of this crawl",
		Hint: "list hosts: " + fault.Quote("mcrawl", "stats", d.plan.crawl)}
	if like != "" {
		e.Hint = fmt.Sprintf("did you mean %q?", like)
	}
	return 0, e
}

// portless is a host without its port.
func portless(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

// Move gives buckets to a shard. It returns nil if they are there already.
func (d *Driver) Move(ctx context.Context, buckets []int, to int) (*Moved, error) {
	if to < 0 || to >= d.plan.shards {
		return nil, &fault.Error{Class: fault.Usage, Place: "--to", Found: fmt.Sprintf("shard %d", to), Want: fmt.Sprintf("0 to %d", d.plan.shards-1),
			Hint: "add shards: " + fault.Quote("mcrawl", "reshard", d.plan.crawl, fmt.Sprint(min(max(to, d.plan.shards)+1, shard.Max)))}
	}
	return d.holding(ctx, "mcrawl move", func() (*Moved, error) {
		now, err := shard.Read(durable.OS, d.Crawl.Dir())
		if err != nil {
			return nil, err
		}
		owners := slices.Clone(now.Owners)
		for _, b := range buckets {
			owners[b] = to
		}
		if slices.Equal(owners, now.Owners) {
			return nil, nil
		}
		return d.move(ctx, owners)
	})
}

// Reshard adds shards, up to a number of them, and gives them an equal share of the buckets. It returns nil if the crawl has as many already.
func (d *Driver) Reshard(ctx context.Context, shards int) (*Moved, error) {
	return d.holding(ctx, "mcrawl reshard", func() (*Moved, error) {
		now, err := shard.Read(durable.OS, d.Crawl.Dir())
		if err != nil || now.Shards == shards {
			return nil, err
		}
		if shards < now.Shards || shards > shard.Max {
			return nil, &fault.Error{Class: fault.Usage, File: d.Crawl.Dir(), Place: "<shards>", Found: fmt.Sprint(shards), Want: fmt.Sprintf("%d to %d", now.Shards+1, shard.Max)}
		}
		return d.move(ctx, now.Grow(shards))
	})
}

// holding runs f while this is the crawl's driver.
func (d *Driver) holding(ctx context.Context, what string, f func() (*Moved, error)) (*Moved, error) {
	lock, err := d.Crawl.Hold(ctx, what, 0)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	return f()
}

func (d *Driver) move(ctx context.Context, owners []int) (*Moved, error) {
	movers, err := d.movers()
	if err != nil {
		return nil, err
	}
	k, err := d.Crawl.Move(ctx, owners, movers, d.opt.Now())
	if err != nil {
		return nil, err
	}
	return movedBy(k), nil
}

// finishMove finishes a move that was begun; nil if there is none.
func (d *Driver) finishMove(ctx context.Context) (*Moved, error) {
	if d.plan.shards == 0 {
		return nil, nil
	}
	begun, err := d.Crawl.Moving()
	if begun == nil || err != nil {
		return nil, err
	}
	movers, err := d.movers()
	if err != nil {
		return nil, err
	}
	k, err := d.Crawl.FinishMove(ctx, begun, movers, d.opt.Now())
	if err != nil {
		return nil, err
	}
	return movedBy(k), nil
}

// movers move the stores that are kept by host. Documents and addresses stay where they are, and so do robots.txt and contact times, which the
// owner of an address keeps. Names are resolved anew.
func (d *Driver) movers() ([]crawl.Mover, error) {
	conf, err := d.Crawl.Config()
	if err != nil {
		return nil, err
	}
	for _, kept := range []struct {
		name, key string
		used      bool
	}{{urlset.Kind, "stages.seen", true}, {store.ModulesDir + "/links", "stages.links", conf.File.Stages.Links != ""}, {store.ModulesDir + "/new", "stages.new", conf.File.Stages.New != ""}} {
		dir := d.plan.ofShard(0).path(kept.name)
		if _, err := store.Open(dir, process.Kind, process.Version, store.Options{}); err == nil && kept.used {
			return nil, &fault.Error{Class: fault.Usage, File: dir, Found: "the state of a program (" + kept.key + "), which is not cut by hosts", Want: "stores whose hosts can move",
				Hint: "a crawl without that program can move buckets: " + fault.Quote("mcrawl", "new", "sharded", "--shards", "4", "--seeds", "seeds.txt")}
		} else if err != nil && !errors.Is(err, fault.Usage) && !errors.Is(err, fault.WrongKind) {
			return nil, err
		}
	}
	form, err := conf.Canon()
	if err != nil {
		return nil, err
	}
	return []crawl.Mover{
		{Kind: frontier.Kind,
			Check: func(st *store.Store) error { return frontier.New(st).CheckMove() },
			Move: func(ctx context.Context, st *store.Store, m *shard.Move) error {
				return frontier.New(st).Move(ctx, m, hostKeys(form))
			}},
		{Kind: urlset.Kind, Check: fpset.CheckMove,
			Move: func(ctx context.Context, st *store.Store, m *shard.Move) error {
				return fpset.Move(ctx, st, m, fpset.Options{Workers: max(d.opt.Threads, 1)})
			}},
	}, nil
}

// hostKeys returns a key in the bucket of a host, given as the rows of its URLs have it.
func hostKeys(form canon.Options) func(host string) uint64 {
	return func(host string) uint64 { return form.URLKey(host, "http://"+host+"/") }
}

// movedBy reads what the checkpoint of a move says.
func movedBy(k *crawl.Checkpoint) *Moved {
	m := &Moved{Round: k.Txn, Checkpoint: k.Number, Map: k.Map, Lots: []MovedLot{}}
	type pair struct{ from, to int }
	lots := map[pair]*MovedLot{}
	for _, l := range k.Ledgers() {
		for _, j := range l.Joined {
			for _, s := range j.Stages {
				from, to, gave, ok := shard.LotOf(s)
				if !ok || !gave {
					continue
				}
				lot := lots[pair{from, to}]
				if lot == nil {
					lot = &MovedLot{From: from, To: to}
					lots[pair{from, to}] = lot
				}
				for _, c := range s.Made {
					lot.addCount(c)
				}
			}
		}
	}
	for _, lot := range slices.Collect(maps.Values(lots)) {
		m.Lots = append(m.Lots, *lot)
	}
	slices.SortFunc(m.Lots, func(a, b MovedLot) int { return (a.From-b.From)*shard.Max + a.To - b.To })
	return m
}

func (l *MovedLot) addCount(c record.Count) {
	switch c.Reason {
	case frontier.MovedHosts:
		l.Hosts += c.N
	case frontier.MovedWaiting:
		l.Waiting += c.N
	case fpset.MovedKeys:
		l.Known += c.N
	}
}
