package frontier

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/folder/shard"
)

// Shards are the frontiers of a crawl: one, or one of each shard. The methods add up what each frontier says.
type Shards []*Frontier

// OpenShards opens the frontiers of the crawl in dir.
func OpenShards(dir string) (all Shards, err error) {
	dirs, err := shard.Dirs(durable.OS, dir)
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		f, err := Open(filepath.Join(dir, Kind), store.Options{})
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

// Empty reports whether nothing is left in any frontier.
func (all Shards) Empty(now record.Time) (bool, error) {
	for _, f := range all {
		if empty, err := f.Empty(now); !empty || err != nil {
			return false, err
		}
	}
	return true, nil
}

// Due is when the first URL is due; 0 for at once.
func (all Shards) Due(now record.Time) (first record.Time, err error) {
	found := false
	for _, f := range all {
		due, empty, err := f.Due(now)
		if err != nil {
			return 0, err
		}
		if !empty && (!found || due < first) {
			first, found = due, true
		}
	}
	return first, nil
}

// First is what is due first in any frontier.
func (all Shards) First(ctx context.Context) (first *Awaited, err error) {
	for _, f := range all {
		a, err := f.First(ctx)
		if err != nil && err != io.EOF {
			return nil, err
		}
		if err == nil && (first == nil || a.Due < first.Due) {
			first = a
		}
	}
	return first, nil
}

// Stat sums what "mcrawl status" shows.
func (all Shards) Stat(ctx context.Context, o StatOptions) (*Stat, error) {
	sum, err := all[0].Stat(ctx, o)
	if err != nil || len(all) == 1 {
		return sum, err
	}
	outcomes, back, parked := map[string]uint64{}, map[string]uint64{}, map[string]Parked{}
	take := func(st *Stat) {
		for _, c := range st.Outcomes {
			outcomes[c.Reason] += c.N
		}
		for _, c := range st.TakenBack { // which another shard counts
			back[c.Reason] += c.N
		}
		for _, p := range st.Parked {
			p.URLs += parked[p.Outcome].URLs
			p.Due = earlier(p.Due, parked[p.Outcome].Due)
			parked[p.Outcome] = p
		}
	}
	take(sum)
	for _, f := range all[1:] {
		st, err := f.Stat(ctx, o)
		if err != nil {
			return nil, err
		}
		take(st)
		sum.Discovered, sum.Pending, sum.InFlight, sum.Finished = sum.Discovered+st.Discovered, sum.Pending+st.Pending, sum.InFlight+st.InFlight, sum.Finished+st.Finished
		sum.Visits += st.Visits
		switch own := sum.Own.(type) {
		case *Pages:
			own.Add(st.Own.(*Pages))
		case *Credit:
			o := st.Own.(*Credit)
			own.Total, own.Lambda, own.Kept = own.Total+o.Total, own.Lambda+o.Lambda, own.Kept+o.Kept
		}
		sum.Retried, sum.Deferred, sum.Waiting, sum.Held = sum.Retried+st.Retried, sum.Deferred+st.Deferred, sum.Waiting+st.Waiting, sum.Held+st.Held
		sum.NextDue = earlier(sum.NextDue, st.NextDue)
	}
	for reason, n := range back {
		outcomes[reason] -= min(n, outcomes[reason])
	}
	sum.Outcomes, sum.Parked = nil, nil
	for _, reason := range slices.Sorted(maps.Keys(outcomes)) {
		if n := outcomes[reason]; n > 0 {
			sum.Outcomes = append(sum.Outcomes, record.Count{Reason: reason, N: n})
		}
	}
	for _, p := range parked {
		sum.Parked = append(sum.Parked, p)
	}
	slices.SortFunc(sum.Parked, func(a, b Parked) int { return strings.Compare(a.Outcome, b.Outcome) })
	return sum, nil
}

// earlier is the earlier of two times, as text of one form; "" is none.
func earlier(a, b string) string {
	if a == "" || b == "" {
		return cmp.Or(a, b)
	}
	return min(a, b)
}

// CheckCredit refuses a crawl in whose checkpoint credit went from one shard and came to none. Of damage crawl.Verify tells.
func CheckCredit(dir string) error {
	cur, err := store.ReadCurrent(durable.OS, dir)
	all, _ := OpenShards(dir) // none where one is damaged
	var sum int64
	for _, f := range all {
		var s *state
		m, errAt := f.st.At(cur.Stores[f.st.NameInCrawl()])
		if err = cmp.Or(err, errAt); err == nil {
			s, err = f.load(m)
		}
		if err == nil && s.policy.links == withLinks {
			sum += s.policy.kept().(*credits).Moved
		}
	}
	if err != nil || sum == 0 {
		return nil
	}
	return &fault.Error{Class: fault.No, File: dir, Place: "credit of all shards", Found: fmt.Sprintf("%+d units beside those that were added", sum), Want: "none"}
}

// PlanRest plans what is left in all shards, which work at the same time. It is nil if one shard has no plan.
func (all Shards) PlanRest(ctx context.Context, now record.Time, p Politeness) (*Plan, error) {
	var sum Plan
	for _, f := range all {
		plan, err := f.PlanRest(ctx, now, p)
		if err != nil || plan == nil || len(all) == 1 {
			return plan, err
		}
		sum.URLs, sum.Duration = sum.URLs+plan.URLs, max(sum.Duration, plan.Duration)
		sum.Slow = append(sum.Slow, plan.Slow...)
	}
	slices.SortStableFunc(sum.Slow, func(a, b PlanHost) int { return cmp.Compare(b.Took, a.Took) })
	return &sum, nil
}
