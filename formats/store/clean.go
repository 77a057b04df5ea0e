package store

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"path"
	"strconv"
	"strings"

	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
)

// What may be deleted, and when:
//
//   - Under the lock, a file named after the next generation belongs to a change
//     that died: no manifest holds it (removeLeftovers, at Begin). In a shard it may belong to
//     one that lives on another machine, and is deleted when that generation is made (removeAttempts, at Commit).
//   - A generation between two checkpoints that is neither the newest nor the
//     one before is of no use to anyone; with it go the files that were made and
//     dropped since the last checkpoint (sweep, at Commit). This looks at a few
//     manifests only, whatever the number of checkpoints.
//   - All else needs all checkpoints to be known, which the package above reads (Collect).

// WorkDir is a folder of a store for what a change works on beside its files. No manifest holds it, and the store does not look into it.
const WorkDir = "work"

// MaxDepth is how many folders below a store are searched.
const MaxDepth = 4

// walk calls each with the path of every file of the store but its manifests and those in WorkDir. Before that it calls top with a list of the folder, unless it is nil.
func (s *Store) walk(top func(list []fs.DirEntry) error, each func(rel string) error) error {
	var down func(rel string, depth int) error
	down = func(rel string, depth int) error {
		list, err := s.fs.ReadDir(s.Path(rel))
		if err == nil && depth == 0 && top != nil {
			err = top(list)
		}
		if err != nil {
			return err
		}
		for _, e := range list {
			p := path.Join(rel, e.Name())
			switch {
			case depth == 0 && strings.HasPrefix(e.Name(), manifestPrefix): // many, one by checkpoint
			case depth == 0 && e.Name() == WorkDir:
			case e.IsDir() && depth < MaxDepth:
				err = down(p, depth+1)
			case e.Type().IsRegular():
				err = each(p)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return down("", 0)
}

// generationOf returns the generation in a name that Tx made, or 0.
func generationOf(rel string) uint64 {
	digits, _ := numbers(path.Base(rel))
	g, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0
	}
	return g
}

// MadeBefore reports whether a file of the name a, which a change made, is older than one of the name b.
func MadeBefore(a, b string) bool {
	number := func(name string) (n uint64) {
		_, serial := numbers(path.Base(name))
		n, _ = strconv.ParseUint(serial, 10, 64) // one that is too large is no name of ours
		return n
	}
	return cmp.Or(cmp.Compare(generationOf(a), generationOf(b)), cmp.Compare(number(a), number(b))) < 0
}

// remove deletes a file; that it is not there is no error.
func (s *Store) remove(rel string) error {
	err := s.fs.Remove(s.Path(rel))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// removeLeftovers deletes unpublished files, journals of generations that have come, and
// files named after the generation that is to come, except the files that its journal j names. It returns the generations that there are.
func (s *Store) removeLeftovers(j journal) (all []uint64, err error) {
	keep := map[string]bool{}
	for _, name := range j.Names {
		keep[name], keep[name+OpenSuffix] = true, true
	}
	top := func(list []fs.DirEntry) error {
		all = s.generationsIn(list)
		return s.reached(all, j.Generation-1)
	}
	err = s.walk(top, func(rel string) error {
		if durable.IsTemp(path.Base(rel)) || staleJournal(rel, j.Generation) || generationOf(rel) == j.Generation && !keep[rel] {
			return s.remove(rel)
		}
		return nil
	})
	return all, err
}

// staleJournal reports whether rel is a journal of another generation than the one to come.
func staleJournal(rel string, next uint64) bool {
	return strings.HasPrefix(rel, journalPrefix) && rel != journalName(next, 0)
}

// sweep deletes what base → next has made useless. An error leaves a file too
// many, which the next gc finds: the change itself is done.
func (t *Tx) sweep(base, next *Manifest) {
	s, j := t.s, t.journal
	if s.fenced() {
		if err := s.removeAttempts(next); err != nil {
			return
		}
	} else if len(j.Names) > 0 {
		_ = s.remove(journalName(j.Generation, 0))
	}
	for _, name := range j.Names {
		if next.File(name) == nil {
			_ = s.remove(name)
			_ = s.remove(name + OpenSuffix)
		}
	}
	if base.Epoch != next.Epoch || base.Parent == 0 {
		return
	}
	// On this line of generations, which an epoch does not leave, there is no
	// checkpoint between base's and base itself.
	list := t.standing
	if s.fenced() {
		var err error
		if list, err = s.Generations(); err != nil {
			return
		}
	}
	for _, g := range list {
		if g <= base.Base || g >= base.Generation {
			continue
		}
		old, err := s.At(g)
		if err != nil || old.Epoch != next.Epoch {
			continue
		}
		for _, e := range old.Files {
			if e.Born > base.Base && e.Epoch == next.Epoch && base.File(e.Path) == nil && next.File(e.Path) == nil {
				_ = s.remove(e.Path)
				_ = s.remove(e.Path + OpenSuffix)
			}
		}
		_ = s.fs.Remove(s.ManifestPath(g))
	}
	// A closed round's output is of no use even to the checkpoint that holds it.
	for _, e := range base.WithRole(RoleOutput) {
		if next.File(e.Path) == nil {
			_ = s.remove(e.Path)
		}
	}
}

// Freed counts the files and bytes that a clean-up removed.
type Freed struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

// Collect deletes every generation that is neither the one that counts, the one
// before it, the first, nor a checkpoint's, which bound lists, and every file that no
// generation left holds. The lock is held, and v is what Settle returned, before bound was read.
//
// In a shard others may change the store meanwhile: what they make is left alone, and each generation that a commit
// might bind meanwhile.
func (s *Store) Collect(v *View, bound []uint64) (Freed, error) {
	var freed Freed
	keep := map[uint64]bool{1: true, v.Counts.Generation: true}
	for _, g := range bound {
		keep[g] = true
	}
	needed := maps.Clone(keep)
	keep[v.Counts.Parent] = true // for readers that have it open
	fenced := s.fenced()
	list, err := s.Generations()
	if err != nil {
		return freed, err
	}
	held := map[string]bool{}
	loose := map[string]bool{} // files of generations that go
	var gone []uint64
	for _, g := range list {
		m, err := s.At(g)
		if errors.Is(err, fs.ErrNotExist) && !needed[g] {
			continue // a gc on another machine was quicker, here and below
		}
		if err != nil && !needed[g] && fault.ClassOf(err) != "" {
			gone = append(gone, g) // damaged, and of no use to anyone
			continue
		}
		if err != nil {
			return freed, err
		}
		if fenced && (g > v.Newest.Generation || g >= v.Base && m.Epoch == v.Current.Epoch) {
			keep[g] = true
		}
		if !keep[g] {
			gone = append(gone, g)
			for _, e := range m.Files {
				loose[e.Path], loose[e.Path+OpenSuffix] = true, true
			}
			continue
		}
		for _, e := range m.Files {
			// Outputs serve until the next round, not as long as their generation.
			if e.Role != RoleOutput || m.Generation == v.Counts.Generation {
				held[e.Path], held[e.Path+OpenSuffix] = true, true
			}
		}
	}
	next := v.Newest.Generation + 1
	j, err := s.readJournal(next, 0)
	if err != nil {
		return freed, err
	}
	if j.Epoch == v.Current.Epoch {
		for _, name := range j.Names {
			held[name], held[name+OpenSuffix] = true, true
		}
	}
	err = s.walk(nil, func(rel string) error {
		if fenced && generationIn(rel) >= next {
			return nil // another machine may be making it
		}
		if held[rel] || !loose[rel] && generationOf(rel) == 0 && !durable.IsTemp(path.Base(rel)) && !staleJournal(rel, next) {
			return nil
		}
		st, err := s.fs.Stat(s.Path(rel))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		freed.Files++
		freed.Bytes += st.Size()
		return s.remove(rel)
	})
	if err != nil {
		return freed, err
	}
	// The HEAD on the disk may name the generation before the newest, which goes if it is no parent of the one that counts.
	if err := s.fs.SyncDir(s.dir); err != nil {
		return freed, err
	}
	for _, g := range gone {
		freed.Files++
		if err := s.fs.Remove(s.ManifestPath(g)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return freed, err
		}
	}
	return freed, nil
}
