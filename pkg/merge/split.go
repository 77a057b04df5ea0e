package merge

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"mercator/formats/fpfile"
	"mercator/formats/record"
	"mercator/pkg/durable"
	"mercator/pkg/fault"
)

// bucketBits is the number of top bits of a key that say which part it is in.
const bucketBits = 12

// maxParts keeps the number of open files and of row buffers small.
const maxParts = 64

// ReasonOtherPart is the reason under which a part's books count the rows of the
// other parts.
const ReasonOtherPart = "other-part"

// Parts are the files into which a set or a record stream is cut. None appears
// before all are written and synced. Then they are renamed one after the other: a
// crash in that moment leaves some of them, each whole.
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

// create makes all files.
func (p *Parts) create(suffix string) error {
	if err := os.MkdirAll(filepath.Dir(p.prefix), 0o777); err != nil {
		return err
	}
	for i := range p.n {
		a, err := durable.Create(durable.OS, fmt.Sprintf("%s-%03d%s", p.prefix, i, suffix))
		if err != nil {
			return err
		}
		p.files = append(p.files, a)
	}
	return nil
}

func (p *Parts) commit() error {
	for _, a := range p.files {
		if err := a.Commit(); err != nil {
			return err
		}
	}
	return nil
}

// Abort removes what was not published.
func (p *Parts) Abort() {
	for _, a := range p.files {
		a.Abort()
	}
}

// Keys cuts a set into fingerprint files.
func (p *Parts) Keys(src Source, polynomial uint64) error {
	if err := p.create(".fps"); err != nil {
		return err
	}
	var writers []*fpfile.Writer
	for _, a := range p.files {
		writers = append(writers, fpfile.NewWriter(a, polynomial))
	}
	for {
		keys, err := src.Block()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		for _, k := range keys {
			if err := writers[p.part(k)].Add(k); err != nil {
				return err
			}
		}
	}
	for _, w := range writers {
		if err := w.Finish(); err != nil {
			return err
		}
	}
	return p.commit()
}

// SplitRows cuts a record stream by its rows' keys. The rows of a part keep their order.
func SplitRows[T record.Row](p *Parts, in Rows[T], key func(*T) uint64) error {
	if err := p.create(".arrows.zst"); err != nil {
		return err
	}
	schema := in.Schema()
	var writers []*record.Writer[T]
	for _, a := range p.files {
		w, err := record.NewWriter[T](a, record.WriterOptions{Name: a.Name(), Level: record.Fast, Like: schema, Txn: schema.Txn, Now: schema.Now, Epoch: schema.Epoch})
		if err != nil {
			return err
		}
		writers = append(writers, w)
	}
	var row T
	for {
		err := in.Read(&row)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if err := writers[p.part(key(&row))].Write(&row); err != nil {
			return err
		}
	}
	t := in.Trailer()
	for _, w := range writers {
		if err := finish(w, t); err != nil {
			return err
		}
	}
	return p.commit()
}

// finish writes the trailer of a part of the stream whose trailer is t.
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
