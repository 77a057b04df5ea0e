package urlset

import (
	"context"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/folder/stage"
	"mercator/pkg/fpset"
)

// LookupBatch is how many URLs are asked for together unless the caller says otherwise.
const LookupBatch = 256

// Online is the body of the stages "murlset new" and "murlset add" in the form of
// the 1999 paper (section 3.5): the cache of popular URLs first, then one lookup in
// the set, and a row that is unseen goes on at once. It passes on the rows that New
// passes on, in the same order; each has its own score, since a better one may be still to come. The keys become part of the set when the stage
// commits, so that a crash leaves the old set; the store is locked all the while. The
// stage is a Filter or, with Quiet, a Sink.
func Online[In record.Row](ctx context.Context, st *store.Store, b *stage.Batch[In, record.URL], opt Options[In]) (stats Stats, err error) {
	if opt.Quiet {
		if _, err := b.Begin(ctx); err != nil {
			return Stats{}, err
		}
	}
	if err := CheckRules(st, b.Tx().Base(), opt.Canon); err != nil {
		return stats, err
	}
	set, err := fpset.Load(st, b.Tx().Base(), opt.Set)
	if err != nil {
		return stats, err
	}
	defer set.Close()
	poly, err := fingerprint.NewPoly(set.Polynomial())
	if err != nil {
		return stats, err
	}
	m := fpset.NewMarker(set, opt.Memory/2, opt.TempDir)
	defer m.Close()
	popular := newCache(opt.Cache)
	var lookups uint64
	together := max(1, opt.LookupBatch)
	rows := make([]record.URL, together)
	keys := make([]uint64, 0, together)
	seen := make([]bool, together)
	err = fpset.ReadAvailable(ctx, together, b.Read, func(in []In) error {
		keys = keys[:0]
		for i := range in {
			row := &rows[len(keys)]
			opt.Convert(&in[i], row)
			key := KeyOf(poly, opt.Canon, row)
			lookups++
			if popular.seen(key, 0) {
				traceSeen(row)
				b.Drop(ReasonSeen)
				continue
			}
			keys = append(keys, key)
		}
		opt.Progress(int64(len(in)))
		if err := m.MarkBatch(keys, seen); err != nil {
			return err
		}
		for i := range keys {
			if seen[i] {
				traceSeen(&rows[i])
				b.Drop(ReasonSeen)
				continue
			}
			stats.Fresh++
			if err := opt.emit(b, &rows[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return stats, err
	}
	stats.cache(popular, lookups)
	stats.Keys = stats.CacheMisses
	stats.used(set)
	if stats.Fresh > 0 {
		NoteRules(b.Tx(), opt.Canon)
	}
	return stats, m.Commit(b.Tx())
}
