package fpset

import (
	"context"
	"io"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/fingerprint"
	"mercator/pkg/stage"
)

// Limits of a micro-batch: what is reached first ends it.
const (
	microRows  = 8192
	microBytes = 4 << 20
	microWait  = 250 * time.Millisecond // the stream after it adds its own second
	rowBytes   = 512                    // of a fetch row without its body
)

// Document returns the key of a row's document, and whether the content-seen test
// applies to it: to pages of status 2xx that have a body.
func Document(poly *fingerprint.Poly, row *record.Fetch) (key uint64, ok bool) {
	if row.Role != record.RolePage || row.Outcome != record.OutcomeFetched || row.Status/100 != 2 || row.BodyLength <= 0 {
		return 0, false
	}
	return poly.DocKey(row.ContentFP, row.BodyLength, row.Truncated != ""), true
}

// MarkStats counts what Mark did.
type MarkStats struct {
	Documents  uint64 `json:"documents"`  // that the test applied to
	Duplicates uint64 `json:"duplicates"` // of those, seen before
}

// Mark is the body of the stage "mfpset mark": it sets Duplicate on every row
// whose document was seen before, in the store or earlier in the batch, and
// adds the others to the batch's transaction. Rows go on within microWait. mem
// bounds what waits in memory; progress is told of rows read.
func Mark(ctx context.Context, st *store.Store, b *stage.Batch[record.Fetch, record.Fetch], mem int64, progress func(n int64)) (stats MarkStats, err error) {
	set, err := Load(st, b.Tx().Base())
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
	w := &micro{b: b, m: m, poly: poly, stats: &stats}

	// Rows are read beside, so that those that wait go on when no other comes.
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	rows := make(chan record.Fetch, 256)
	failed := make(chan error, 1)
	go func() {
		defer close(rows)
		for {
			var row record.Fetch
			if err := b.Read(&row); err != nil {
				failed <- err
				return
			}
			select {
			case rows <- row:
			case <-ctx.Done():
				failed <- ctx.Err()
				return
			}
		}
	}()
	timer := time.NewTimer(microWait)
	defer timer.Stop()
	for {
		select {
		case row, ok := <-rows:
			if !ok {
				if err := <-failed; err != io.EOF {
					return stats, err
				}
				if err := w.flush(); err != nil {
					return stats, err
				}
				return stats, m.Commit(b.Tx())
			}
			if len(w.rows) == 0 {
				timer.Reset(microWait)
			}
			progress(1)
			if err := w.add(row); err != nil {
				return stats, err
			}
		case <-timer.C:
			if err := w.flush(); err != nil {
				return stats, err
			}
		case <-ctx.Done():
			return stats, ctx.Err()
		}
	}
}

// micro collects rows until they are marked together.
type micro struct {
	b     *stage.Batch[record.Fetch, record.Fetch]
	m     *Marker
	poly  *fingerprint.Poly
	stats *MarkStats
	rows  []record.Fetch
	at    []int // row of each key
	keys  []uint64
	seen  []bool
	bytes int
}

func (w *micro) add(row record.Fetch) error {
	row.Duplicate = false
	if key, ok := Document(w.poly, &row); ok {
		w.keys = append(w.keys, key)
		w.at = append(w.at, len(w.rows))
	}
	w.rows = append(w.rows, row)
	w.bytes += rowBytes + len(row.Body)
	if len(w.rows) >= microRows || w.bytes >= microBytes {
		return w.flush()
	}
	return nil
}

func (w *micro) flush() error {
	if len(w.seen) < len(w.keys) {
		w.seen = make([]bool, microRows)
	}
	if err := w.m.Mark(w.keys, w.seen); err != nil {
		return err
	}
	for i, at := range w.at {
		w.stats.Documents++
		if w.seen[i] {
			w.rows[at].Duplicate = true
			w.stats.Duplicates++
		}
	}
	for i := range w.rows {
		if err := w.b.Pass(&w.rows[i]); err != nil {
			return err
		}
	}
	clear(w.rows) // lets go of bodies
	w.rows, w.keys, w.at, w.bytes = w.rows[:0], w.keys[:0], w.at[:0], 0
	return nil
}
