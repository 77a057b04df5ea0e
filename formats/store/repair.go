package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
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
	if was, err = SetAside(s.fs, s.Path(HeadFile), was); err != nil {
		return 0, was, err
	}
	return newest, was, s.writeHead(newest)
}

// SetAside gives what stands in a pointer's place and is no file another name: nothing is deleted, and the pointer can be made.
// was, what is wrong with the pointer, then names it.
func SetAside(fsys durable.FS, file string, was error) (error, error) {
	if st, err := fsys.Stat(file); err != nil || st.Mode().IsRegular() {
		return was, nil // writing it tells
	}
	aside := file + ".aside"
	for n := 2; ; n++ {
		if there, err := durable.Exists(fsys, aside); err != nil {
			return was, err
		} else if !there {
			break
		}
		aside = fmt.Sprintf("%s.aside-%d", file, n)
	}
	e := &fault.Error{}
	if errors.As(was, &e) {
		moved := *e
		moved.Found += ", which is " + filepath.Base(aside) + " now"
		was = &moved
	}
	return was, fsys.Rename(file, aside)
}

// Damaged reports whether err is of a file that is not as it should be, and not of this machine or of another version.
func Damaged(err error) bool {
	return errors.Is(err, fault.Corrupt) || errors.Is(err, fault.Truncated) || errors.Is(err, fault.WrongKind)
}

// BuiltOn is the generation in the checkpoint that the generation m was built on.
func (m *Manifest) BuiltOn() uint64 { return max(m.Base, 1) }
