package fpset

import "context"

// ReadAvailable calls each with what next returns until io.EOF, in order: with one row as
// soon as it is there, or with as many as came meanwhile, at most rows. So answers
// wait for nothing, and questions can be asked together where there are several.
// The slice is used again when each has returned.
func ReadAvailable[T any](ctx context.Context, rows int, next func(*T) error, each func([]T) error) error {
	in := &intake[T]{rows: rows}
	return in.run(ctx, next, each)
}

// MarkBatch answers like Mark, for keys that are few and in a hurry: the set is
// asked for each by itself, all of them at once, and not swept.
func (m *Marker) MarkBatch(keys []uint64, seen []bool) error {
	m.fresh, m.at = m.fresh[:0], m.at[:0]
	for i, k := range keys {
		if seen[i] = m.table.has(k); !seen[i] {
			m.fresh = append(m.fresh, k)
			m.at = append(m.at, i)
		}
	}
	m.known = append(m.known[:0], make([]bool, len(m.fresh))...)
	if err := m.set.ContainsAll(m.fresh, m.known); err != nil {
		return err
	}
	for _, s := range m.spills {
		if err := s.keys.ContainsAll(m.fresh, m.known); err != nil {
			return err
		}
	}
	for i, k := range m.fresh {
		seen[m.at[i]] = m.known[i] || !m.table.put(k) // or it stands in keys before
	}
	if m.table.len() >= m.limit {
		return m.spill()
	}
	return nil
}
