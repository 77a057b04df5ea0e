package resolve

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"syscall"

	"mercator/formats/record"
	"mercator/pkg/merge"
)

// maxAhead bounds what waits on disk behind a row whose name is slow to come: a million rows
// or so, at the full rate what is asked for in half a minute, which is what all attempts for
// a dead name take by default.
const maxAhead = 256 << 20 // bytes

// ahead is a temporary file without a name in which windows wait, in their order. It is used
// as a ring: what has been read makes room, so that it is never longer than size.
//
// One goroutine writes and frees; another may read meanwhile.
type ahead struct {
	size       int64 // bytes at most
	file       *os.File
	head, tail int64 // of what waits, counted as if the file were endless
	full       bool  // the last window that came had no room
}

// away is a window on disk: for each row a number and the row. The number is 0 where the
// answer was there, which follows as an item (see table.go); else it tells which of waiting
// brings it, counted from 1. A row is its length as uvarint and its canonical encoding.
type away struct {
	ahead   *ahead
	at      int64
	length  int64
	rows    int
	waiting []*inquiry
}

var errAhead = errors.New("no room on disk")

// WriteAt implements io.WriterAt.
func (a *ahead) WriteAt(b []byte, at int64) (n int, err error) {
	if at+int64(len(b)) > a.head+a.size {
		return 0, errAhead
	}
	return a.around(a.file.WriteAt, b, at)
}

// ReadAt implements io.ReaderAt.
func (a *ahead) ReadAt(b []byte, at int64) (n int, err error) { return a.around(a.file.ReadAt, b, at) }

// around has bytes read or written that may go on at the beginning of the ring.
func (a *ahead) around(do func(b []byte, at int64) (int, error), b []byte, at int64) (n int, err error) {
	at %= a.size
	n, err = do(b[:min(int64(len(b)), a.size-at)], at)
	if err != nil || n == len(b) {
		return n, err
	}
	rest, err := do(b[n:], 0)
	return n + rest, err
}

// refused takes note of a window that did not come since there is no room: it stays in memory,
// on a full disk as well. Any other error is one.
func (a *ahead) refused(err error) error {
	if err == errAhead || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		a.full = true
		return nil
	}
	return err
}

// free gives up the first window.
func (a *ahead) free(w *away) {
	a.head = w.at + w.length
	a.full = false
}

// Close gives back the disk.
func (a *ahead) Close() {
	if a.file != nil {
		a.file.Close()
	}
}

// putAway writes a window to disk, if there is room. Of its names those stay in memory whose
// answers are to come.
func (r *batch[R]) putAway(w *window[R]) (err error) {
	a := &r.ahead
	if a.file == nil {
		if a.file, err = merge.TempFile(""); err != nil {
			return a.refused(err)
		}
	}
	on := &away{ahead: a, at: a.tail, rows: len(w.rows)}
	place := map[*inquiry]uint64{}
	out := bufio.NewWriterSize(io.NewOffsetWriter(a, a.tail), runBuffer)
	var b, row []byte
	for i := range w.rows {
		l := w.lookups[i]
		e, q := &l.entry, l.inquiry
		if q != nil && place[q] == 0 && q.over.Load() {
			e, q = &q.entry, nil
		}
		if q != nil && place[q] == 0 {
			on.waiting = append(on.waiting, q)
			place[q] = uint64(len(on.waiting))
		}
		if b = binary.AppendUvarint(b[:0], place[q]); q == nil {
			b = appendItem(b, 0, "", e)
		}
		row = record.AppendCanonical(row[:0], &w.rows[i])
		b = append(binary.AppendUvarint(b, uint64(len(row))), row...)
		on.length += int64(len(b))
		if _, err := out.Write(b); err != nil {
			break // which Flush tells
		}
	}
	if err := out.Flush(); err != nil {
		return a.refused(err)
	}
	a.tail += on.length
	var still []*inquiry
	for _, q := range w.asked {
		if !q.over.Load() {
			still = append(still, q)
			continue
		}
		w.stats.count(q)
		if err := r.learn(q); err != nil {
			return err
		}
	}
	w.asked = nil
	w.count()
	w.rows, w.lookups, w.first, w.asked, w.away = nil, nil, nil, still, on
	return nil
}

// passAway is pass of a window on disk.
func (r *batch[R]) passAway(ctx context.Context, w *away) error {
	in := bufio.NewReaderSize(io.NewSectionReader(w.ahead, w.at, w.length), runBuffer)
	var b []byte
	var row R
	for range w.rows {
		place, err := binary.ReadUvarint(in)
		if err != nil {
			return err
		}
		var e entry
		if place == 0 {
			size, err := in.Peek(2)
			if err != nil {
				return err
			}
			if b, err = readBytes(in, b, uint64(binary.LittleEndian.Uint16(size))); err != nil {
				return err
			}
			e = firstItem(b).entry()
		}
		size, err := binary.ReadUvarint(in)
		if err != nil {
			return err
		}
		if b, err = readBytes(in, b, size); err != nil {
			return err
		}
		if _, err := record.ParseCanonical(b, &row, r.b.Schema()); err != nil {
			return err
		}
		if place > 0 {
			q := w.waiting[place-1]
			if err := r.await(ctx, q, true); err != nil {
				return err
			}
			e = q.entry
		}
		if err := r.forward(ctx, &row, &e); err != nil {
			return err
		}
	}
	return nil
}

// readBytes reads n bytes into b's memory, if that has room.
func readBytes(in io.Reader, b []byte, n uint64) ([]byte, error) {
	if uint64(cap(b)) < n {
		b = make([]byte, n)
	}
	_, err := io.ReadFull(in, b[:n])
	return b[:n], err
}
