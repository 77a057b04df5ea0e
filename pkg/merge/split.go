package merge

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mercator/formats/fpfile"
	"mercator/formats/record"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
)

// bucketBits is the number of top bits of a key that say which part it is in.
const bucketBits = 12

// maxParts is one for each value of those bits.
const maxParts = 1 << bucketBits

// ReasonOtherPart is the reason under which a part's ledger count the rows of the
// other parts.
const ReasonOtherPart = "other-part"

// Parts are the files into which a set or a record stream is cut. None appears
// before all are written and synced, and the first appears last: where it is, all
// of them are.
type Parts struct {
	prefix string
	n      int
	files  []*durable.Atomic
}

// NewParts prepares n parts, PREFIX-000 and so on; nothing is written yet.
func NewParts(prefix string, n int) (*Parts, error) {
	if n < 1 || n > maxParts {
		return nil, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("%d parts", n), Want: fmt.Sprintf("1 to %d", maxParts)}
	}
	return &Parts{prefix: prefix, n: n}, nil
}

// part returns the part of a key: parts are ranges of the top 12 bits, of equal
// width or nearly so.
func (p *Parts) part(key uint64) int {
	return int(key >> (64 - bucketBits) * uint64(p.n) >> bucketBits)
}

// last returns the largest key of a part.
func (p *Parts) last(part int) uint64 {
	buckets := ((part+1)<<bucketBits + p.n - 1) / p.n // of this part and those before it
	return uint64(buckets)<<(64-bucketBits) - 1
}

// path is the name of a part: of three digits, or of as many as all need.
func (p *Parts) path(part int, suffix string) string {
	return fmt.Sprintf("%s-%0*d%s", p.prefix, max(3, len(strconv.Itoa(p.n-1))), part, suffix)
}

// create makes the file of the next part.
func (p *Parts) create(suffix string) (*durable.Atomic, error) {
	part := len(p.files)
	if part == 0 {
		if err := p.refuseOthers(suffix); err != nil {
			return nil, err
		}
		_, base := filepath.Split(p.prefix + "-")
		durable.RemoveLeftovers(p.prefix, func(name string) bool {
			return strings.HasPrefix(name, base) && strings.HasSuffix(name, suffix)
		})
	}
	a, err := durable.CreateAll(durable.OS, p.path(part, suffix))
	if err == nil {
		p.files = append(p.files, a)
	}
	return a, err
}

// refuseOthers refuses a folder with a part of another cut that would stay beside
// the new ones: one of a higher number, or of more or fewer digits.
func (p *Parts) refuseOthers(suffix string) error {
	dir, base := filepath.Split(p.prefix + "-")
	list, _ := os.ReadDir(filepath.Clean(dir)) // no folder yet: no parts
	for _, e := range list {
		digits, begins := strings.CutPrefix(e.Name(), base)
		digits, ends := strings.CutSuffix(digits, suffix)
		part, err := strconv.ParseUint(digits, 10, 16)
		if !begins || !ends || err != nil || len(digits) < 3 {
			continue // no part
		}
		if old := dir + e.Name(); part >= uint64(p.n) || old != p.path(int(part), suffix) {
			return &fault.Error{Class: fault.Usage, File: old, Found: "a part of another cut", Want: fmt.Sprintf("only the %d parts of this one", p.n), Hint: "remove the old parts, or choose another prefix"}
		}
	}
	return nil
}

// commit publishes all parts, which are sealed.
func (p *Parts) commit() error {
	first := p.files[0].Name()
	if err := os.Remove(first); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, a := range slices.Backward(p.files) {
		if a.Name() == first {
			// The others are to be on disk before the one that speaks for them.
			if err := durable.OS.SyncDir(filepath.Dir(first)); err != nil {
				return err
			}
		}
		if err := a.Place(); err != nil {
			return err
		}
	}
	return durable.OS.SyncDir(filepath.Dir(first))
}

// Abort removes what was not published.
func (p *Parts) Abort() {
	for _, a := range p.files {
		a.Abort()
	}
}

// Keys cuts a set into fingerprint files. workers is the number of goroutines that
// encode blocks. progress, which may be nil, gets the number of keys.
func (p *Parts) Keys(src Source, polynomial uint64, workers int, progress func(n int64)) error {
	var keys []uint64
	for part := range p.n {
		a, err := p.create(".fps")
		if err != nil {
			return err
		}
		w := fpfile.NewWriter(a, polynomial)
		w.SetWorkers(workers)
		for last := p.last(part); ; {
			if len(keys) == 0 {
				if keys, err = src.Block(); err == io.EOF {
					break
				} else if err != nil {
					return err
				}
			}
			n := notAbove(keys, last)
			if err := w.AddKeys(keys[:n]); err != nil {
				return err
			}
			if progress != nil {
				progress(int64(n))
			}
			if keys = keys[n:]; len(keys) > 0 {
				break
			}
		}
		if err := w.Finish(); err != nil {
			return err
		}
		if err := a.Seal(); err != nil {
			return err
		}
	}
	return p.commit()
}

// SplitRows cuts a record stream by its rows' keys. progress, which may be nil, gets the number of rows.
func SplitRows[T record.Row](p *Parts, in Rows[T], key func(*T) uint64, mem int64, progress func(n int64)) error {
	schema := in.Schema()
	err := eachPart(in, p.n, func(row *T) int { return p.part(key(row)) }, mem, progress, func(_ int, rows func(*T) error) error {
		a, err := p.create(".arrows.zst")
		if err != nil {
			return err
		}
		w, err := record.NewWriter[T](a, record.WriterOptions{Name: a.Name(), Level: record.Fast, Like: schema, Txn: schema.Txn, Now: schema.Now, Epoch: schema.Epoch, Resolver: schema.Resolver})
		if err != nil {
			return err
		}
		if err := writeRows(w, rows); err != nil {
			return err
		}
		if err := finish(w, in.Trailer()); err != nil {
			return err
		}
		return a.Seal()
	})
	if err != nil {
		return err
	}
	return p.commit()
}

// eachPart reads all of in, and then calls write for each of n parts, the first one first, with a function that gives the part's
// rows in their order and then io.EOF. The rows are sorted by part first, within mem bytes of memory, so that one part is
// written at a time. part says which part a row is in, and may change the row. progress, which may be nil, gets the number of rows.
func eachPart[T record.Row](in Rows[T], n int, part func(*T) int, mem int64, progress func(n int64), write func(part int, rows func(*T) error) error) error {
	s := NewSorter(mem, "")
	defer s.Close()
	var b []byte
	if err := record.Each(in, func(row *T) error {
		if progress != nil {
			progress(1)
		}
		at := part(row)
		b = record.AppendRow(b[:0], row)
		return s.Add(uint64(at), b)
	}); err != nil {
		return err
	}
	it, err := s.Sort()
	if err != nil {
		return err
	}
	at, payload, next := it.Next()
	for i := range n {
		err := write(i, func(row *T) error {
			if next == nil && at != uint64(i) {
				return io.EOF
			}
			if next != nil {
				return next
			}
			_, err := record.ParseRow(string(payload), row, in.Schema())
			at, payload, next = it.Next()
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// writeRows writes what rows gives until io.EOF.
func writeRows[T record.Row](w *record.Writer[T], rows func(*T) error) error {
	var row T
	for {
		err := rows(&row)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = w.Write(&row)
		}
		if err != nil {
			return err
		}
	}
}

// finish writes the trailer of a part; t is the trailer of the whole stream.
func finish[T record.Row](w *record.Writer[T], t record.Trailer) error {
	rows, hash, err := w.Finish()
	if err != nil {
		return err
	}
	s := record.Stage{Name: "mmerge split", Txn: t.Txn, In: t.Rows, InHash: t.Hash.String(), Passed: rows, Out: rows, OutHash: hash.String()}
	if t.Rows > rows {
		s.Drops = []record.Count{{Reason: ReasonOtherPart, N: t.Rows - rows}}
	}
	l := t.Ledger
	l.Stages = append(append([]record.Stage(nil), l.Stages...), s)
	_, err = w.Commit(l)
	return err
}
