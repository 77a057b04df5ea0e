package replay

import (
	"bufio"
	"encoding/binary"
	"io"

	"mercator/formats/record"
)

// spoolWriter appends rows to the batch's file.
type spoolWriter struct {
	*bufio.Writer
	at  int64
	buf []byte
}

func newSpoolWriter(w io.Writer) *spoolWriter {
	return &spoolWriter{Writer: bufio.NewWriterSize(w, 64<<10)}
}

func (w *spoolWriter) add(row *record.URL) error {
	b := record.AppendCanonical(append(w.buf[:0], 0, 0, 0, 0), row)
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	w.buf = b
	w.at += int64(len(b))
	_, err := w.Write(b)
	return err
}
