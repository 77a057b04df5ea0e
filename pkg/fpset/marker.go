package fpset

import (
	"errors"

	"mercator/formats/fpfile"
	"mercator/formats/store"
	"mercator/pkg/merge"
)

// Marker is the content-seen test within one change: it answers in small batches,
// so that the stages after it keep working, and commits all new keys at the
// end. New keys wait in a hash table, and when that has its share of the
// memory, in a few sorted files without names.
type Marker struct {
	set    Set
	dir    string
	limit  int // keys in the table
	table  table
	spills []*spill
	asker  asker
	batch  table    // keys of the batch that are not in table
	fresh  []uint64 // keys of batch in order of arrival
	at     []int    // places of fresh in the batch
	known  []bool   // of MarkBatch: whether each of fresh is in the set
}

type spill struct {
	file *merge.KeyFile
	keys *fpfile.Reader
	iter *fpfile.Iter
}

// maxSpills bounds the files of one change.
const maxSpills = 8

// NewMarker returns a Marker that keeps new keys in about mem bytes, and spills to
// dir ("": the system's folder for temporary files).
func NewMarker(set Set, mem int64, dir string) *Marker {
	// A table of n keys has up to 32 bytes for each while it grows.
	m := &Marker{set: set, dir: dir, limit: int(max(minSlots, mem/32))}
	m.asker.sweep = m.pass
	return m
}

// Mark sets seen[i] to whether keys[i] is in the set, was marked before, or stands
// in keys before i.
func (m *Marker) Mark(keys []uint64, seen []bool) error {
	m.batch.reset()
	m.fresh, m.at = m.fresh[:0], m.at[:0]
	for i, k := range keys {
		seen[i] = m.table.has(k) || !m.batch.put(k)
		if !seen[i] {
			m.fresh = append(m.fresh, k)
			m.at = append(m.at, i)
		}
	}
	distinct, known, err := m.asker.ask(m.fresh)
	if err != nil {
		return err
	}
	for i, k := range distinct {
		if !known[i] {
			m.table.put(k)
		}
	}
	for i, k := range m.fresh {
		seen[m.at[i]] = !m.table.has(k)
	}
	if m.table.len() >= m.limit {
		return m.spill()
	}
	return nil
}

// pass begins a sweep over the set and the spilled keys.
func (m *Marker) pass(n uint64) Sweep { return &markerSweep{m, m.set.Sweep(n)} }

type markerSweep struct {
	m   *Marker
	set Sweep
}

func (w *markerSweep) Mark(keys []uint64, seen []bool) error {
	if err := w.set.Mark(keys, seen); err != nil {
		return err
	}
	for _, s := range w.m.spills {
		s.iter.Reset()
		if err := s.iter.Mark(keys, seen); err != nil {
			return err
		}
	}
	return nil
}

// spill moves the table into a file, and merges the files when they are many.
func (m *Marker) spill() error {
	var from []merge.Source
	if len(m.spills) == maxSpills {
		from = m.spilled()
	}
	f, err := m.file(append(from, merge.Keys(m.table.drain()))...)
	if err != nil {
		return err
	}
	if from != nil {
		if err := m.closeSpills(); err != nil {
			return errors.Join(err, f.file.Close())
		}
	}
	m.spills = append(m.spills, f)
	return nil
}

func (m *Marker) spilled() []merge.Source {
	var list []merge.Source
	for _, s := range m.spills {
		list = append(list, s.keys.All())
	}
	return list
}

// file writes the union of sources.
func (m *Marker) file(from ...merge.Source) (*spill, error) {
	f := merge.NewKeyFile(m.dir, m.set.Polynomial())
	if err := merge.Union(f, from...); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r, err := f.Finish()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r.SetReadAhead(readAhead)
	return &spill{f, r, r.All()}, nil
}

// Commit puts the new keys into tx. The set is the base of tx.
func (m *Marker) Commit(tx *store.Tx) error {
	from := m.spilled()
	if m.table.len() > 0 {
		from = append(from, merge.Keys(m.table.drain()))
	}
	if len(from) == 0 {
		return nil
	}
	f, err := m.file(from...)
	if err != nil {
		return err
	}
	return errors.Join(m.set.Extend(tx, f.keys), f.file.Close())
}

func (m *Marker) closeSpills() error {
	var err error
	for _, s := range m.spills {
		err = errors.Join(err, s.file.Close())
	}
	m.spills = nil
	return err
}

// Close gives back disk and memory; it does not close the set.
func (m *Marker) Close() error { return m.closeSpills() }
