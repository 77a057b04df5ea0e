package fpset

import (
	"cmp"
	"errors"
	"slices"

	"mercator/formats/fpfile"
	"mercator/formats/store"
	"mercator/pkg/merge"
)

// Marker is the content-seen test within one change: it answers in small batches,
// so that the stages after it keep working, and commits all new keys at the
// end. New keys wait in a hash table, and when that has its share of the
// memory, in a few sorted files without names.
type Marker struct {
	set     *Set
	dir     string
	limit   int // keys in the table
	table   table
	spills  []spilled
	sweep   *Sweep // over the set's runs, then the spills
	unknown []arrival
}

type spilled struct {
	file *merge.KeyFile
	keys *fpfile.Reader
}

type arrival struct {
	key uint64
	at  int
}

// maxSpills bounds the files of one change.
const maxSpills = 8

// NewMarker returns a Marker that keeps new keys in about mem bytes, and spills to
// dir ("": the system's folder for temporary files).
func NewMarker(set *Set, mem int64, dir string) *Marker {
	// A table of n keys has up to 32 bytes for each while it grows.
	return &Marker{set: set, dir: dir, limit: int(max(minSlots, mem/32)), sweep: set.Sweep()}
}

// Mark sets seen[i] to whether keys[i] is in the set, was marked before, or stands
// in keys before i.
func (m *Marker) Mark(keys []uint64, seen []bool) error {
	m.unknown = m.unknown[:0]
	for i, k := range keys {
		seen[i] = m.table.has(k)
		if !seen[i] {
			m.unknown = append(m.unknown, arrival{k, i})
		}
	}
	slices.SortFunc(m.unknown, func(a, b arrival) int {
		if c := cmp.Compare(a.key, b.key); c != 0 {
			return c
		}
		return a.at - b.at
	})
	m.sweep.reset()
	for i, a := range m.unknown {
		if i > 0 && a.key == m.unknown[i-1].key {
			seen[a.at] = true
			continue
		}
		var err error
		if seen[a.at], err = m.sweep.Seen(a.key); err != nil {
			return err
		}
		if !seen[a.at] {
			m.table.add(a.key)
		}
	}
	if m.table.len() >= m.limit {
		return m.spill()
	}
	return nil
}

// spill moves the table into a file, and merges the files when they are many.
func (m *Marker) spill() error {
	keys := m.table.drain()
	var from []merge.Source
	if len(m.spills) == maxSpills {
		for _, s := range m.spills {
			from = append(from, s.keys.All())
		}
	}
	f, err := merge.NewKeyFile(m.dir, m.set.poly)
	if err != nil {
		return err
	}
	if err := merge.Union(f, append(from, merge.Keys(keys))...); err != nil {
		return errors.Join(err, f.Close())
	}
	r, err := f.Finish()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r.SetReadAhead(readAhead)
	if from != nil {
		if err := m.closeSpills(); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	m.spills = append(m.spills, spilled{f, r})
	m.sweep = m.set.Sweep()
	for _, s := range m.spills {
		m.sweep.add(s.keys)
	}
	return nil
}

// Commit puts the new keys into tx, whose base is the set.
func (m *Marker) Commit(tx *store.Tx) error {
	if m.table.len() > 0 {
		if err := m.spill(); err != nil {
			return err
		}
	}
	switch len(m.spills) {
	case 0:
		return nil
	case 1:
		return m.set.Extend(tx, m.spills[0].keys)
	}
	var from []merge.Source
	for _, s := range m.spills {
		from = append(from, s.keys.All())
	}
	all, err := merge.NewKeyFile(m.dir, m.set.poly)
	if err != nil {
		return err
	}
	defer all.Close()
	if err := merge.Union(all, from...); err != nil {
		return err
	}
	r, err := all.Finish()
	if err != nil {
		return err
	}
	return m.set.Extend(tx, r)
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
