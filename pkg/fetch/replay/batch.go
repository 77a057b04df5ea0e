package replay

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"os"
	"sort"

	"mercator/formats/record"
	"mercator/pkg/fingerprint"
	"mercator/pkg/merge"
)

// batch is the input, on disk, found by URL.
type batch struct {
	rows   *os.File // per row its length in four bytes and its canonical encoding
	places *numbers // of the rows, by FP64 of the URL: two numbers each, that and the offset
	first  []int64  // of the places whose FP64 begins with the index, and of those behind
	left   int64    // rows that nobody took
	like   *record.Schema
}

const (
	firstBits  = 16
	sortMemory = 8 << 20
	taken      = ^uint64(0) // the offset of a row that was
)

func (t *batch) close() {
	t.rows.Close()
	if t.places != nil {
		t.places.f.Close()
	}
}

// readBatch spools the input.
func readBatch(ctx context.Context, next func(*record.URL) error, like *record.Schema) (_ *batch, err error) {
	t := &batch{like: like}
	if t.rows, err = merge.TempFile(""); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	w := bufio.NewWriterSize(t.rows, 64<<10)
	sorter := merge.NewSorter(sortMemory, "")
	defer sorter.Close()
	var buf, off []byte
	for at := int64(0); ; at += int64(len(buf)) {
		var row record.URL
		err := next(&row)
		if err == io.EOF {
			break
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return nil, err
		}
		off = binary.BigEndian.AppendUint64(off[:0], uint64(at))
		if err := sorter.Add(fingerprint.OfString(row.URL), off); err != nil {
			return nil, err
		}
		buf = record.AppendRow(append(buf[:0], 0, 0, 0, 0), &row)
		binary.LittleEndian.PutUint32(buf, uint32(len(buf)-4))
		if _, err := w.Write(buf); err != nil {
			return nil, err
		}
	}
	if err := w.Flush(); err != nil {
		return nil, err
	}
	sorted, err := sorter.Sort()
	if err != nil {
		return nil, err
	}
	return t, t.index(sorted)
}

// index writes the places.
func (t *batch) index(sorted *merge.Iter) (err error) {
	if t.places, err = newNumbers(); err != nil {
		return err
	}
	for {
		fp, off, err := sorted.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		for uint64(len(t.first)) <= fp>>(64-firstBits) {
			t.first = append(t.first, t.left)
		}
		t.left++
		if err := t.places.add(fp); err != nil {
			return err
		}
		if err := t.places.add(binary.BigEndian.Uint64(off)); err != nil {
			return err
		}
	}
	for len(t.first) <= 1<<firstBits {
		t.first = append(t.first, t.left)
	}
	return t.places.w.Flush()
}

// place returns the FP64 and the offset of place i.
func (t *batch) place(i int64) (fp, off uint64, err error) {
	var b [16]byte
	_, err = t.places.f.ReadAt(b[:], 16*i)
	return binary.BigEndian.Uint64(b[:]), binary.BigEndian.Uint64(b[8:]), err
}

// read fills row with the row at an offset.
func (t *batch) read(off uint64, row *record.URL) error {
	var n [4]byte
	if _, err := t.rows.ReadAt(n[:], int64(off)); err != nil {
		return err
	}
	b := make([]byte, binary.LittleEndian.Uint32(n[:]))
	if _, err := t.rows.ReadAt(b, int64(off)+4); err != nil {
		return err
	}
	_, err := record.ParseRow(string(b), row, t.like)
	return err
}

// take fills row with the batch's row for a URL, once.
func (t *batch) take(url string, row *record.URL) (bool, error) {
	want := fingerprint.OfString(url)
	from, to := t.first[want>>(64-firstBits)], t.first[want>>(64-firstBits)+1]
	var failed error
	i := from + int64(sort.Search(int(to-from), func(k int) bool {
		fp, _, err := t.place(from + int64(k))
		if err != nil {
			failed = err
		}
		return fp >= want
	}))
	if failed != nil {
		return false, failed
	}
	for ; i < to; i++ {
		fp, off, err := t.place(i)
		if err != nil || fp != want {
			return false, err
		}
		if off == taken {
			continue
		}
		if err := t.read(off, row); err != nil {
			return false, err
		}
		if row.URL == url {
			t.left--
			_, err := t.places.f.WriteAt(binary.BigEndian.AppendUint64(nil, taken), 16*i+8)
			return err == nil, err
		}
	}
	return false, nil
}

// untaken fills row with one that nobody took; there is one.
func (t *batch) untaken(row *record.URL) error {
	for i := int64(0); ; i++ {
		_, off, err := t.place(i)
		if err != nil {
			return err
		}
		if off != taken {
			return t.read(off, row)
		}
	}
}
