package store

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"mercator/pkg/durable"
	"mercator/pkg/fault"
)

// RepairHead makes HEAD anew if it is lost or damaged, or so old that no way leads from it to the newest manifest, and returns the
// generation that it then names, 0 if HEAD is sound, and what was wrong. The lock is held. least is a generation that there was, by checkpoints.
//
// The newest generation is the highest number of a manifest, whether that is whole or not: a number is never used again. Where it is not whole, readers say so, and restore passes it by. A HEAD that names a manifest which is gone is left as it is for the same reason.
func (s *Store) RepairHead(least uint64) (made uint64, was error, err error) {
	list, err := s.Generations()
	if err != nil {
		return 0, nil, err
	}
	h, was := s.readHead()
	if was != nil && !errors.Is(was, fs.ErrNotExist) && !Damaged(was) {
		return 0, nil, was
	}
	if errors.Is(was, fs.ErrNotExist) {
		was = s.noHead()
	}
	newest := max(least, slices.Max(append(list, 1)))
	if was == nil {
		reached := h.Generation
		for {
			if there, err := durable.Exists(s.fs, s.ManifestPath(reached+1)); err != nil {
				return 0, nil, err
			} else if !there {
				break
			}
			reached++
		}
		if reached >= newest {
			return 0, nil, nil
		}
		was = &fault.Error{Class: fault.Corrupt, File: s.Path(HeadFile), Found: fmt.Sprintf("generation %d, from which %d is reached", h.Generation, reached), Want: fmt.Sprintf("the way to %d", newest)}
	}
	return newest, was, s.writeHead(newest)
}

// Damaged reports whether err is of a file that is not as it should be, and not of this machine or of another version.
func Damaged(err error) bool {
	return errors.Is(err, fault.Corrupt) || errors.Is(err, fault.Truncated) || errors.Is(err, fault.WrongKind)
}

// BuiltOn is the generation in the checkpoint that the generation m was built on.
func (m *Manifest) BuiltOn() uint64 { return max(m.Base, 1) }
