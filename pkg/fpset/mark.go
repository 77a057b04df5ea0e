package fpset

import (
	"context"
	"slices"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/folder/stage"
)

// Limits of a micro-batch: what is reached first ends it.
const (
	microRows  = 8192
	microAhead = 1024 // rows of the next, read while this one is worked on
	microBytes = 4 << 20
	microWait  = 250 * time.Millisecond // the stream after it adds its own second
	rowBytes   = 512                    // of a fetch row
)

// Document returns the key of a row's document, and whether the content-seen test
// applies to it: to pages of status 2xx that have a body.
func Document(poly *fingerprint.Poly, row *record.Fetch) (key uint64, ok bool) {
	if !IsDocument(row) {
		return 0, false
	}
	return poly.DocKey(row.ContentFP, row.BodyLength, row.Truncated != ""), true
}

// IsDocument reports whether the content-seen test applies to a row.
func IsDocument(row *record.Fetch) bool {
	return row.OfPage() && row.Outcome == record.OutcomeFetched && row.Status/100 == 2 && row.BodyLength > 0
}

// MarkStats counts what Mark did.
type MarkStats struct {
	Documents  uint64 `json:"documents"`  // documents tested
	Duplicates uint64 `json:"duplicates"` // documents that were seen before
	Set        Usage  `json:"set"`
}

// Mark is the body of the stage "mfpset mark": it sets Duplicate on every row with
// a document that was seen before, in the store or earlier in the batch, and
// adds the others to the batch's transaction. Rows go on within microWait. mem
// bounds what waits in memory; progress gets the number of rows read.
func Mark(ctx context.Context, st *store.Store, b *stage.Batch[record.Fetch, record.Fetch], mem int64, opt Options, progress func(n int64)) (stats MarkStats, err error) {
	set, err := Load(st, b.Tx().Base(), opt)
	if err != nil {
		return stats, err
	}
	defer set.Close()
	poly, err := fingerprint.NewPoly(set.Polynomial())
	if err != nil {
		return stats, err
	}
	m := NewMarker(set, mem, "")
	defer m.Close()
	var keys []uint64
	var at []int // row of each key
	var seen []bool
	in := &intake[*record.Fetch]{rows: microRows, ahead: microAhead, bytes: microBytes, wait: microWait,
		size: func(**record.Fetch) int { return rowBytes }}
	next := func(row **record.Fetch) error {
		*row = new(record.Fetch)
		return b.Read(*row)
	}
	err = in.run(ctx, next, func(rows []*record.Fetch) error {
		keys, at = keys[:0], at[:0]
		for i, row := range rows {
			row.Duplicate = false
			if key, ok := Document(poly, row); ok {
				keys = append(keys, key)
				at = append(at, i)
			}
		}
		seen = slices.Grow(seen[:0], len(keys))[:len(keys)]
		if err := m.Mark(keys, seen); err != nil {
			return err
		}
		for i, dup := range seen {
			stats.Documents++
			if dup {
				rows[at[i]].Duplicate = true
				stats.Duplicates++
			}
		}
		for _, row := range rows {
			if err := b.Pass(row); err != nil {
				return err
			}
		}
		progress(int64(len(rows)))
		return nil
	})
	if err != nil {
		return stats, err
	}
	err = m.Commit(b.Tx())
	stats.Set = UsageOf(set)
	return stats, err
}
