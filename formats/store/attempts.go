package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
)

// Several machines may change shards, and a lock may not hold across machines. So in a
// store of a shard each change claims an attempt at the generation that it is to make: ATTEMPT-G.K, by link, K one above the
// highest. The highest attempt owns the generation.
//
//   - Files of two attempts never have one name: serial numbers of attempt K begin at K × serials.
//   - An attempt changes and deletes nothing that another may have made. What is left of others is deleted once
//     the generation is published.
//   - A temporary manifest is on the disk before the attempt looks for the last time whether it is superseded, and
//     whoever publishes deletes others' before any manifest. So a link that comes late finds a manifest in its place, or nothing to link.
//
// A store of a crawl without shards knows none of this.

const (
	attemptPrefix = "ATTEMPT-"
	serials       = 1_000_000 // of an attempt
)

// Attempt is the content of ATTEMPT-G.K.
type Attempt struct {
	Generation uint64 `json:"generation"` // generation that the change will make
	Number     uint64 `json:"attempt"`    // 0 is the first
	durable.Process
	Time  string `json:"time"`            // when the attempt began, by the clock of its machine; for people
	Ended bool   `json:"ended,omitempty"` // the attempt gave up, and does nothing any more
}

func (a *Attempt) file() string {
	return fmt.Sprintf("%s%06d.%d", attemptPrefix, a.Generation, a.Number)
}

// attemptOf takes the name of an attempt's file apart.
func attemptOf(name string) (a Attempt, ok bool) {
	rest, ok := strings.CutPrefix(name, attemptPrefix)
	generation, number, dot := strings.Cut(rest, ".")
	g, err1 := strconv.ParseUint(generation, 10, 64)
	k, err2 := strconv.ParseUint(number, 10, 64)
	a = Attempt{Generation: g, Number: k}
	return a, ok && dot && err1 == nil && err2 == nil && a.file() == name
}

func decodeAttempt(file string, data []byte) (a Attempt, err error) {
	if err := Unseal(file, magicAttempt, data, &a); err != nil {
		return a, err
	}
	const most = MaxGeneration / serials
	if a.Generation == 0 || a.Generation > MaxGeneration || a.Number > most {
		return a, &fault.Error{Class: fault.Corrupt, File: file, Place: "attempt", Found: a.file(),
			Want: fmt.Sprintf("a generation of 1 to %d and an attempt of 0 to %d", uint64(MaxGeneration), uint64(most))}
	}
	return a, nil
}

func (s *Store) readAttempt(is Attempt) (Attempt, error) {
	file := s.Path(is.file())
	data, err := durable.ReadFile(s.fs, file, MaxFile)
	if err != nil {
		return is, err
	}
	a, err := decodeAttempt(file, data)
	if err == nil && (a.Generation != is.Generation || a.Number != is.Number) {
		err = &fault.Error{Class: fault.Corrupt, File: file, Place: "attempt", Found: a.file(), Want: is.file()}
	}
	if err != nil {
		return a, &fault.Error{Err: err, Hint: "see that no process on any machine changes the store, remove the file, and run the command again"}
	}
	return a, nil
}

// attempts lists the attempts with a file, by name, oldest first.
func (s *Store) attempts() (list []Attempt, err error) {
	entries, err := s.fs.ReadDir(s.dir)
	for _, e := range entries {
		if a, ok := attemptOf(e.Name()); ok {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b Attempt) int {
		return cmp.Or(cmp.Compare(a.Generation, b.Generation), cmp.Compare(a.Number, b.Number))
	})
	return list, err
}

// fenced reports whether changes of the store claim attempts.
func (s *Store) fenced() bool { return s.Shard() != "" }

// claim makes t the newest attempt at its generation. again: somebody has made that meanwhile.
func (t *Tx) claim() (again bool, err error) {
	s := t.s
	generation := t.Generation()
	mine := Attempt{Generation: generation, Process: durable.Self(), Time: time.Now().UTC().Format(time.RFC3339)}
	list, err := s.attempts()
	if err != nil {
		return false, err
	}
	for _, a := range list {
		if a.Generation == generation {
			mine.Number = a.Number + 1
		}
	}
	for ; ; mine.Number++ {
		if ok, err := durable.Exists(s.fs, s.Path(journalName(generation, mine.Number))); err != nil {
			return false, err
		} else if ok {
			continue // of an attempt without a file, or of a release that knew no attempts
		}
		data, err := Seal(magicAttempt, &mine)
		if err != nil {
			return false, err
		}
		if err = durable.LinkFile(s.fs, s.Path(mine.file()), data); err == nil {
			break
		} else if errors.Is(err, fs.ErrNotExist) {
			return true, nil // who has made the generation has deleted ours
		} else if !errors.Is(err, fs.ErrExist) {
			return false, err
		}
	}
	t.attempt, t.claimed = &mine, time.Now()
	// Before a generation is made nobody removes its attempts. So if it is not made now, no other had the number.
	newest, err := s.newestNumber()
	if err == nil && newest >= generation {
		again, err = true, s.remove(mine.file())
	}
	if !again && err == nil {
		err = t.lookBack()
	}
	if err != nil {
		t.endAttempt()
	}
	return again, err
}

// lookBack finds which earlier attempts may be at work still, and what earlier attempts of the same transaction have left.
func (t *Tx) lookBack() error {
	list, err := t.s.attempts()
	if err != nil {
		return err
	}
	for _, a := range list {
		if a.Generation > t.attempt.Generation || a.Generation == t.attempt.Generation && a.Number >= t.attempt.Number {
			continue
		}
		a, err := t.s.readAttempt(a)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if !a.Ended && !a.Gone() {
			t.before = append(t.before, a)
		}
	}
	t.journal = journal{Generation: t.attempt.Generation, Epoch: t.Epoch(), Verb: t.verb, Txn: t.txn}
	for k := range t.attempt.Number {
		j, err := t.s.readJournal(t.attempt.Generation, k)
		if err != nil {
			return err
		}
		if j.of(&t.journal) {
			t.earlier = append(t.earlier, j.Names...)
		}
	}
	t.serial = t.attempt.Number * serials
	t.journal.Serial = t.serial
	return nil
}

// Fenced reports whether the change claims an attempt, so that another machine can take its work over.
func (t *Tx) Fenced() bool { return t.attempt != nil }

// Succeeds reports whether the change goes on after an earlier attempt, and must not change its files.
func (t *Tx) Succeeds() bool { return t.attempt != nil && t.attempt.Number > 0 }

// Before returns the earlier attempts with processes that may still be running, and when this one was claimed: from then on
// each of them can see that it is superseded.
func (t *Tx) Before() (list []Attempt, claimed time.Time) { return t.before, t.claimed }

// Superseded is fault.Superseded when another process has taken over, and fault.Busy when the generation has been made: then the
// command, run again, repeats its output.
func (t *Tx) Superseded() error {
	if t.attempt == nil {
		return nil
	}
	g, k := t.attempt.Generation, t.attempt.Number
	made, err := durable.Exists(t.s.fs, t.s.ManifestPath(g))
	if err == nil && !made {
		made, err = durable.Exists(t.s.fs, t.s.Path(t.attempt.file())) // it goes once the generation is made
		made = !made
	}
	if err != nil {
		return err
	}
	if made {
		return t.s.made(g)
	}
	after := Attempt{Generation: g, Number: k + 1}
	if ok, err := durable.Exists(t.s.fs, t.s.Path(after.file())); !ok || err != nil {
		return err
	}
	by := "another process"
	if a, err := t.s.readAttempt(after); err == nil {
		by = a.Process.String()
	}
	return &fault.Error{Class: fault.Superseded, File: t.s.dir, Found: fmt.Sprintf("attempt %d at generation %d was taken over by %s", k, g, by),
		Hint: "leave the work to that process; if it has died, run the command again"}
}

// Because is err, or what Superseded says if the change fails since another process has taken over: that may delete its files.
func (t *Tx) Because(err error) error {
	if err == nil || t.published {
		return err
	}
	if lost := t.Superseded(); errors.Is(lost, fault.Superseded) || errors.Is(lost, errMade) {
		return lost
	}
	return err
}

// endAttempt notes that the attempt has given up, so that nobody waits for its end.
func (t *Tx) endAttempt() {
	if ok, err := durable.Exists(t.s.fs, t.s.Path(t.attempt.file())); !ok || err != nil {
		return
	}
	ended := *t.attempt
	ended.Ended = true
	if data, err := Seal(magicAttempt, &ended); err == nil {
		_ = durable.WriteFile(t.s.fs, t.s.Path(ended.file()), data) // without it others wait
	}
}

// removeAttempts deletes what the attempts at m and at generations before it have left, once m is published: their files, but
// for those that m holds. Manifests go later.
func (s *Store) removeAttempts(m *Manifest) error {
	return s.walk(nil, func(rel string) error {
		name := path.Base(rel)
		g := generationIn(rel)
		switch _, isAttempt := attemptOf(rel); {
		case g == 0 || g > m.Generation:
			return nil
		case isAttempt, strings.HasPrefix(rel, journalPrefix), durable.IsTemp(name):
			return s.remove(rel)
		case g == m.Generation && m.File(strings.TrimSuffix(rel, OpenSuffix)) == nil:
			return s.remove(rel)
		}
		return nil
	})
}

// generationIn returns the generation in the name of a file that a change made, of a manifest, a journal or an attempt, published or
// not; 0: the name has none.
func generationIn(rel string) uint64 {
	name := path.Base(rel)
	if durable.IsTemp(name) {
		name = durable.TempOf(name)
	}
	for _, prefix := range []string{attemptPrefix, journalPrefix, manifestPrefix} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			digits, _, _ := strings.Cut(rest, ".")
			g, err := strconv.ParseUint(digits, 10, 64)
			if err != nil {
				return 0
			}
			return g
		}
	}
	return generationOf(name)
}
