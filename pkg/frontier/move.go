package frontier

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/folder/shard"
)

// CheckMove refuses a frontier that cannot give a part to another shard.
func (f *Frontier) CheckMove() error {
	s, _, err := f.current()
	if err != nil {
		return err
	}
	return s.checkMove(f.st)
}

func (s *state) checkMove(st *store.Store) error {
	refuse := func(found, want string) error {
		return &fault.Error{Class: fault.Usage, File: st.Dir(), Found: found, Want: want + ", to move buckets"}
	}
	switch {
	case s.policy.links == onlyLinks:
		return refuse("policy "+s.policy.name, "one that keeps its state by host")
	case len(s.Domains)+len(s.Held) > 0:
		return refuse("budgets of domains", "none")
	case s.InFlight != nil:
		return inFlight(st, s.InFlight)
	}
	return nil
}

// Move sends the hosts of buckets to other shards, and receives the hosts that come: their waiting URLs, their
// state and their counts. host returns a key in the bucket of a host.
//
// A URL that comes gets a virtual time as far behind its new frontier's V as it was behind its old frontier's. Outcomes stay
// where they were counted: Counts.MovedOut and MovedIn say of how many URLs.
func (f *Frontier) Move(ctx context.Context, m *shard.Move, host func(string) uint64) error {
	tx, err := m.Begin(ctx, f.st)
	if tx == nil {
		return err
	}
	defer tx.Abort()
	s, err := f.load(tx.Base())
	if err == nil {
		err = s.checkMove(f.st)
	}
	if err != nil {
		return err
	}
	v := &mover{ctx: ctx, f: f, m: m, host: host, tx: tx, s: s, lots: m.NewLots(), hosts: s.layout.sorter(smallSort), deads: s.layout.sorter(smallSort)}
	defer v.hosts.Close()
	defer v.deads.Close()
	before := slices.Clone(s.Hosts)
	if m.Loses() {
		if err := v.sendRows(); err != nil {
			return err
		}
	}
	for _, n := range m.Senders() {
		if err := v.receiveRows(n); err != nil {
			return err
		}
	}
	if err := v.addHosts(before); err != nil {
		return err
	}
	if err := s.save(tx); err != nil {
		return err
	}
	return m.Commit(f.st, tx, v.lots)
}

// mover is a move under way.
type mover struct {
	ctx   context.Context
	f     *Frontier
	m     *shard.Move
	host  func(string) uint64
	tx    *store.Tx
	s     *state // the state after the move
	lots  *shard.Lots
	hosts *sorter // hosts that come, by hostKey
	deads *sorter // dead hosts that come, by hostKey
}

// section is one list of runs of a frontier.
type section struct {
	runs   *[]run
	folder string
	what   string // name in ledgers
	level  int    // front queue; -1: rows have no virtual time
	table  bool   // rows are hosts: the newest row of a host counts
	into   *sorter
}

// What ledgers of a move call its rows.
const (
	MovedHosts   = "hosts"
	MovedWaiting = "waiting"
	movedDead    = "hosts-dead"
)

// sections are the sections of a state, in the order in which both sides count their rows.
func (v *mover) sections(s *state) []section {
	all := []section{{&s.Hosts, "hosts/", MovedHosts, -1, true, v.hosts}, {&s.Dead, "dead/", movedDead, -1, true, v.deads}}
	for level := range s.Ready {
		all = append(all, section{&s.Ready[level], fmt.Sprintf("ready/%d-", level), MovedWaiting, level, false, nil})
	}
	all = append(all, section{&s.Later, "later/", MovedWaiting, -1, false, nil})
	for i := range s.Parked {
		all = append(all, section{&s.Parked[i], "parked/", MovedWaiting, -1, false, nil})
	}
	return all
}

// role is the role of a section's files.
func (l *section) role() string { role, _, _ := strings.Cut(l.folder, "/"); return role }

// movedRow is a row of a section.
type movedRow struct {
	key     uint64 // sort key
	payload []byte
	bucket  uint64 // a key in its host's bucket
	host    Host   // the row of a table
	url     Entry  // the row of another section
}

// each calls fn for all rows of a section.
func (v *mover) each(fs files, l *section, fn func(*movedRow) error) error {
	row := new(movedRow)
	take := func(path string, key uint64, payload []byte) error {
		row.key, row.payload = key, payload
		if l.table {
			if err := parseRow(&row.host, key, payload, path); err != nil {
				return err
			}
			row.bucket = v.host(row.host.Host)
		} else {
			if err := parseRow(&row.url, key, payload, path); err != nil {
				return err
			}
			row.bucket = row.url.URL.Key
		}
		return fn(row)
	}
	if !l.table {
		return eachPayload(v.ctx, fs, *l.runs, take)
	}
	m := newMerger(fs, *l.runs)
	defer m.close()
	all := newestRows{m: m}
	var t ticker
	for {
		err := all.takeRow(take)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = t.err(v.ctx)
		}
		if err != nil {
			return err
		}
	}
}

// sum counts what goes from one shard to another.
type sum struct {
	Counts
	waiting uint64
}

func (n *sum) addRow(l *section, row *movedRow) {
	switch h := &row.host; l.what {
	case MovedHosts:
		n.Discovered += h.Discovered
		n.Finished += h.Finished
		n.Retried += h.Retried
		n.Deferred += h.Deferred
		n.Dead += h.Dead
	case MovedWaiting:
		n.waiting++
	}
}

// whole refuses counts of hosts that differ from their URLs' counts: then a URL's key is in another bucket than its host.
func (n *sum) whole(from, to int) error {
	if n.Discovered-n.Finished == n.waiting {
		return nil
	}
	return &fault.Error{Class: fault.Conflict, Place: fmt.Sprintf("from shard %d to %d", from, to),
		Found: fmt.Sprintf("%d waiting URLs of hosts that count %d", n.waiting, n.Discovered-n.Finished), Want: "all URLs of a host in its bucket"}
}

// lazyRun makes a run with its first row.
type lazyRun struct {
	tx    *store.Tx
	l     *section
	tier  int
	w     *runWriter
	fresh bool
}

func (r *lazyRun) addPayload(key uint64, payload []byte) (err error) {
	if r.w == nil {
		if r.w, err = newRun(r.tx, r.l.folder, r.l.role(), r.tier); err != nil {
			return err
		}
	}
	return r.w.addPayload(key, payload)
}

// finish appends the run to a list, if it has rows.
func (r *lazyRun) finish(runs *[]run) error {
	if r.w == nil {
		return nil
	}
	done, err := r.w.finish()
	done.Fresh = r.fresh
	*runs = append(slices.Clone(*runs), done)
	return err
}

// sendRows drops the rows that go to other shards. The rest of each list becomes one run.
func (v *mover) sendRows() error {
	gone := map[int]*sum{}
	for _, l := range v.sections(v.s) {
		if len(*l.runs) == 0 {
			continue
		}
		left := lazyRun{tx: v.tx, l: &l, tier: (*l.runs)[0].Tier, fresh: l.what == MovedHosts}
		err := v.each(v.f.st, &l, func(row *movedRow) error {
			to, leaves := v.m.Leaves(row.bucket)
			if !leaves {
				left.fresh = left.fresh && !hasHistory(&row.host)
				return left.addPayload(row.key, row.payload)
			}
			if gone[to] == nil {
				gone[to] = new(sum)
			}
			gone[to].addRow(&l, row)
			v.lots.To(to).Add(l.what, 1, row.payload)
			if !l.table {
				v.s.policy.passed(&row.url, nil)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, r := range *l.runs {
			v.tx.Drop(r.Path)
		}
		*l.runs = nil
		if err := left.finish(l.runs); err != nil {
			return err
		}
		if left.w != nil && l.what == MovedWaiting {
			v.s.Rewritten += left.w.run.Rows
		}
	}
	for _, to := range slices.Sorted(maps.Keys(gone)) {
		n := gone[to]
		if err := n.whole(v.m.Shard, to); err != nil {
			return err
		}
		c := &v.s.Counts
		c.Discovered, c.Pending, c.Finished = c.Discovered-n.Discovered, c.Pending-n.waiting, c.Finished-n.Finished
		c.Retried, c.Deferred, c.Dead = c.Retried-n.Retried, c.Deferred-n.Deferred, c.Dead-n.Dead
		c.MovedOut += n.Finished
	}
	return nil
}

// receiveRows takes in the rows that come from a shard, as they were before the move.
func (v *mover) receiveRows(from int) error {
	st, base, err := v.m.Base(from)
	if err != nil {
		return err
	}
	src, err := (&Frontier{st: st, layout: v.f.layout}).load(base)
	if err == nil {
		err = src.checkMove(st)
	}
	if err != nil {
		return err
	}
	shift := func(level int, time uint64) uint64 {
		if v.s.V[level]+time < src.V[level] {
			return 0
		}
		return v.s.V[level] + time - src.V[level]
	}
	var n sum
	lot := v.lots.From(from)
	own := v.sections(v.s)
	for i, l := range v.sections(src) {
		come := v.s.layout.sorter(smallSort)
		defer come.Close()
		err := v.each(st, &l, func(row *movedRow) error {
			if !v.m.Comes(row.bucket, from) {
				return nil
			}
			n.addRow(&l, row)
			lot.Add(l.what, 1, row.payload)
			if l.into != nil {
				for i := range row.host.Last {
					last := &row.host.Last[i]
					last.VirtualTime = shift(int(last.Level), last.VirtualTime)
				}
				return addRow(l.into, row.key, &row.host)
			}
			v.s.policy.passed(&row.url, src.policy.hooks)
			if l.level >= 0 {
				row.url.Key = keyOf(uint8(l.level), shift(l.level, virtualTimeOf(row.key)))
				v.s.policy.moved(&row.url)
			}
			return come.addTaken(row.url.Key, row.payload, row.url.VirtualTime)
		})
		if err != nil {
			return err
		}
		out := lazyRun{tx: v.tx, l: &l}
		if err := come.each(out.addPayload); err != nil {
			return err
		}
		if err := out.finish(own[i].runs); err != nil {
			return err
		}
	}
	if err := n.whole(from, v.m.Shard); err != nil {
		return err
	}
	c := &v.s.Counts
	c.Discovered, c.Pending, c.Finished = c.Discovered+n.Discovered, c.Pending+n.waiting, c.Finished+n.Finished
	c.Retried, c.Deferred, c.Dead = c.Retried+n.Retried, c.Deferred+n.Deferred, c.Dead+n.Dead
	c.MovedIn += n.Finished
	v.s.Rewritten += n.waiting
	v.s.Longest, v.s.DeadUntil, v.s.Clock = max(v.s.Longest, src.Longest), max(v.s.DeadUntil, src.DeadUntil), max(v.s.Clock, src.Clock)
	return nil
}

// addHosts writes the hosts that come. before is the table as it was, in which hosts of the same order are looked for: the newest run
// with an order tells all about it.
func (v *mover) addHosts(before []run) error {
	for _, l := range v.sections(v.s)[:2] {
		rows, err := l.into.sorted()
		if err != nil {
			return err
		}
		table := openTable(v.f.st, before)
		if l.what == movedDead {
			table = openTable(v.f.st, nil) // every row is of one host
		}
		defer table.close()
		out := lazyRun{tx: v.tx, l: &l, fresh: l.what == MovedHosts}
		var group hostGroup
		for !rows.done {
			key := rows.key
			if group, err = find(table, key, group[:0]); err != nil {
				return err
			}
			group = slices.DeleteFunc(group, func(h Host) bool { _, leaves := v.m.Leaves(v.host(h.Host)); return leaves })
			for ; err == nil && !rows.done && rows.key == key; err = rows.takeRow() {
				var h Host
				if err := h.Parse(key, rows.row); err != nil {
					return err
				}
				if slices.ContainsFunc(group, func(o Host) bool { return o.Host == h.Host }) {
					return &fault.Error{Class: fault.Conflict, File: v.f.st.Dir(), Found: "host " + h.Host + ", which comes from another shard", Want: "each host in one shard"}
				}
				group = append(group, h)
			}
			if err != nil {
				return err
			}
			slices.SortFunc(group, func(a, b Host) int { return strings.Compare(a.Host, b.Host) })
			for i := range group {
				out.fresh = out.fresh && !hasHistory(&group[i])
				if err := out.addPayload(key, group[i].Append(nil)); err != nil {
					return err
				}
			}
		}
		if err := out.finish(l.runs); err != nil {
			return err
		}
	}
	return nil
}
