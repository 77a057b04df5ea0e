package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"math"

	"mercator/formats/run"
	"mercator/pkg/base/durable"
	"mercator/pkg/merge"
)

// id stands for a URL, the name of a host or a payload: 128 bits of a SHA. FP64 would not do:
// people can make two of one fingerprint.
type id [16]byte

func idOf(text string) id {
	sum := sha256.Sum256([]byte(text))
	return id(sum[:16])
}

// levels keep a value by id on disk, so that memory holds none of them, however many there are: in
// sorted runs (formats/run), the newest last. A row's key is the first half of the id, its payload the
// other half and the value. A run that is added is merged with those before it that are no more than
// twice as large, so that there are few.
//
// One goroutine at a time.
type levels struct {
	dir  string // of temporary files, which have no name: nothing stays of them
	kind string
	runs []*level
	keep func(value []byte) bool // values to keep when runs are merged; nil: all
}

// level is one run.
type level struct {
	*run.Reader
	path string    // in the store; "": it is a temporary file
	file io.Closer // nil: of a change that is being made
}

// levelBlock is how much is read to find a value.
const levelBlock = 4 << 10

// addRun takes in rows in order of their ids.
func (l *levels) addRun(rows *merge.Iter) error {
	if err := l.temporary(rows); err != nil {
		return err
	}
	n := l.small(len(l.runs)-1, false)
	if n == len(l.runs)-1 {
		return nil
	}
	old := l.runs[n:]
	merged, err := l.merged(n)
	if err != nil {
		return err
	}
	l.runs = l.runs[:n:n]
	err = l.temporary(merged)
	closeAll(old)
	return err
}

// temporary writes rows as the newest run.
func (l *levels) temporary(rows *merge.Iter) error {
	f, err := durable.TempFile(l.dir)
	if err != nil {
		return err
	}
	size, err := l.write(context.Background(), f, rows, true)
	if err == nil {
		err = l.open(f, size, f, f.Name(), "")
	}
	if err != nil {
		f.Close()
	}
	return err
}

// open takes in a run that stands in a file.
func (l *levels) open(in io.ReaderAt, size int64, file io.Closer, name, path string) error {
	r, err := run.Open(in, size, name, l.kind)
	if err == nil {
		l.runs = append(l.runs, &level{r, path, file})
	}
	return err
}

// small is from which run on all are merged: of the first n, those at the end go too that are no
// more than twice as large as what goes already. all: runs of the store too.
func (l *levels) small(n int, all bool) int {
	size := uint64(0)
	for _, r := range l.runs[n:] {
		size += r.Rows()
	}
	for n > 0 && l.runs[n-1].Rows() <= 2*size && (all || l.runs[n-1].path == "") {
		n--
		size += l.runs[n].Rows()
	}
	return n
}

// merged gives the rows of the runs from n on, in order.
func (l *levels) merged(n int) (*merge.Iter, error) {
	var scans []*run.Scanner
	for _, r := range l.runs[n:] {
		scans = append(scans, r.Scan(run.Start))
	}
	return merge.Runs(scans, nil)
}

// write makes a run of rows, and returns its length. plain: it is not worth packing.
func (l *levels) write(ctx context.Context, out io.Writer, rows *merge.Iter, plain bool) (int64, error) {
	w := run.NewWriter(out, l.kind)
	w.Blocks(levelBlock, math.MaxInt)
	if plain {
		w.Plain()
	}
	for {
		key, payload, err := rows.Next()
		if err == io.EOF {
			err := w.Close()
			return w.Size(), err
		}
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err == nil && (l.keep == nil || l.keep(payload[8:])) {
			err = w.Add(key, payload)
		}
		if err != nil {
			return 0, err
		}
	}
}

// find calls f with the values of an id, newer runs first, until f says stop.
func (l *levels) find(i id, f func(value []byte) (stop bool)) error {
	key := binary.BigEndian.Uint64(i[:])
	for n := len(l.runs) - 1; n >= 0; n-- {
		rows := l.runs[n].Scan(run.Start)
		at, payload, err := rows.Seek(key)
		for ; err == nil && at == key; at, payload, err = rows.Next() {
			if bytes.HasPrefix(payload, i[8:]) && f(payload[8:]) {
				return nil
			}
		}
		if err != nil && err != io.EOF {
			return err
		}
	}
	return nil
}

// each calls f with all values, in order of their ids.
func (l *levels) each(f func(value []byte) error) error {
	rows, err := l.merged(0)
	for err == nil {
		var payload []byte
		if _, payload, err = rows.Next(); err == nil {
			err = f(payload[8:])
		}
	}
	if err == io.EOF {
		err = nil
	}
	return err
}

func (l *levels) close() { closeAll(l.runs) }

func closeAll(runs []*level) {
	for _, r := range runs {
		if r.file != nil {
			r.file.Close()
		}
	}
}

// unsorted are rows that become a run when all are there. It is to be closed in any case.
type unsorted struct {
	*merge.Sorter
	row []byte
}

// addRow takes in a value; buf is what appends it.
func (u *unsorted) addRow(i id, value func(b []byte) []byte) error {
	u.row = value(append(u.row[:0], i[8:]...))
	return u.Add(binary.BigEndian.Uint64(i[:]), u.row)
}

// addRunTo sorts the rows and adds them.
func (u *unsorted) addRunTo(l *levels) error {
	rows, err := u.Sort()
	if err != nil {
		return err
	}
	return l.addRun(rows)
}
