package merge

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"unicode/utf8"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
)

const (
	// textBuffer is the size of reads and writes in bytes. A line must fit it.
	textBuffer = 128 << 10
	// lineBytes is the length of a line of 16 digits.
	lineBytes = 17
)

// Text reads keys from text, one of 16 hexadecimal digits a line. Empty lines and
// lines that begin with # are skipped; any other is fault.Corrupt and named.
type Text struct {
	in   io.Reader
	name string
	line int // lines read
	buf  []byte
	rest []byte // of buf
	err  error  // of in
}

// NewText returns a Text; name stands in messages.
func NewText(in io.Reader, name string) *Text { return &Text{in: in, name: name} }

// Read reads keys into dst, which must have room, and returns how many; 0 and
// io.EOF at the end.
func (t *Text) Read(dst []uint64) (int, error) {
	n := 0
	for n < len(dst) {
		for n < len(dst) && len(t.rest) >= lineBytes && t.rest[lineBytes-1] == '\n' {
			key, ok := parseHex(t.rest)
			if !ok {
				break
			}
			dst[n] = key
			n++
			t.line++
			t.rest = t.rest[lineBytes:]
		}
		if n == len(dst) {
			break
		}
		key, ok, err := t.slow()
		if err == io.EOF && n > 0 {
			return n, nil
		}
		if err != nil {
			return 0, err
		}
		if ok {
			dst[n] = key
			n++
		}
	}
	return n, nil
}

// slow reads the next line whatever it looks like; ok if it holds a key.
func (t *Text) slow() (key uint64, ok bool, err error) {
	end := bytes.IndexByte(t.rest, '\n')
	for end < 0 && t.err == nil {
		if len(t.rest) == textBuffer {
			return 0, false, t.fault(fmt.Sprintf("a line of more than %d bytes", textBuffer), "16 hexadecimal digits")
		}
		if t.buf == nil {
			t.buf = make([]byte, textBuffer)
		}
		t.rest = t.buf[:copy(t.buf, t.rest)]
		var n int
		n, t.err = t.in.Read(t.buf[len(t.rest):])
		end = bytes.IndexByte(t.buf[len(t.rest):len(t.rest)+n], '\n')
		if end >= 0 {
			end += len(t.rest)
		}
		t.rest = t.buf[:len(t.rest)+n]
		if end >= 0 {
			return 0, false, nil // back to the fast loop
		}
	}
	line := t.rest
	if end >= 0 {
		line, t.rest = t.rest[:end], t.rest[end+1:]
	} else if t.rest = nil; t.err != io.EOF || len(line) == 0 {
		return 0, false, t.err
	}
	t.line++
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] == '#' {
		return 0, false, nil
	}
	if key, err = fingerprint.Parse(string(line)); err != nil {
		hint := ""
		switch {
		case bytes.Contains(line, []byte("://")):
			hint = "of URLs, make a set first: murlset build -o urls.fps " + fault.Quote(t.name)
		case !utf8.Valid(line):
			hint = "this is not text: a fingerprint file is read by its name (*.fps), without --text, and not from standard input"
		}
		return 0, false, &fault.Error{Class: fault.Corrupt, File: t.name, Place: fmt.Sprintf("line %d", t.line), Err: err, Hint: hint}
	}
	return key, true, nil
}

// Next returns the next key; io.EOF after the last.
func (t *Text) Next() (uint64, error) {
	var key [1]uint64
	_, err := t.Read(key[:])
	return key[0], err
}

func (t *Text) fault(found, want string) error {
	return &fault.Error{Class: fault.Corrupt, File: t.name, Place: fmt.Sprintf("line %d", t.line+1), Found: found, Want: want}
}

// TextKeys returns a function that reads keys as Text does, until io.EOF.
func TextKeys(in io.Reader, name string) func() (uint64, error) { return NewText(in, name).Next }

// ones has a one in each byte.
const ones = 0x0101010101010101

// parseHex reads 16 hexadecimal digits of either case, eight at a time.
func parseHex(b []byte) (uint64, bool) {
	_ = b[15]
	hi, bad := parseHex8(binary.LittleEndian.Uint64(b))
	lo, bad2 := parseHex8(binary.LittleEndian.Uint64(b[8:]))
	return hi<<32 | lo, bad|bad2 == 0
}

// parseHex8 reads the digits in the bytes of x, the first in the lowest; bad is
// not zero if one is no digit.
func parseHex8(x uint64) (v, bad uint64) {
	letter := x >> 6 & ones // 1 for A to F and a to f
	low := x & (0x0f * ones)
	digit := low + 9*letter
	bad = (x | letter<<5) ^ (low + 0x30*ones + 0x30*letter) // upper half neither 3 nor 4 or 6
	bad |= digit & (0x10 * ones)                            // beyond f
	bad |= ((digit+6*ones)>>4 ^ letter) & ones              // above 9 if and only if a letter
	v = bits.ReverseBytes64(digit)
	v = (v | v>>4) & 0x00ff00ff00ff00ff
	v = (v | v>>8) & 0x0000ffff0000ffff
	return (v | v>>16) & 0xffffffff, bad
}

// appendHex appends the 16 digits of v and a line feed.
func appendHex(b []byte, v uint64) []byte {
	b = binary.LittleEndian.AppendUint64(b, formatHex8(v>>32))
	b = binary.LittleEndian.AppendUint64(b, formatHex8(v&0xffffffff))
	return append(b, '\n')
}

// formatHex8 is the inverse of parseHex8, in lower case.
func formatHex8(v uint64) uint64 {
	v = (v | v<<16) & 0x0000ffff0000ffff
	v = (v | v<<8) & 0x00ff00ff00ff00ff
	v = (v | v<<4) & (0x0f * ones)
	letter := (v + 6*ones) >> 4 & ones
	return bits.ReverseBytes64(v + 0x30*ones + ('a'-'0'-10)*letter)
}

// TextWriter writes keys as text, one of 16 hexadecimal digits a line. It is a Dest.
type TextWriter struct {
	out   io.Writer
	buf   []byte
	count uint64
}

// NewTextWriter returns a TextWriter. Flush must be called at the end.
func NewTextWriter(out io.Writer) *TextWriter { return &TextWriter{out: out} }

// Count is the number of keys written.
func (w *TextWriter) Count() uint64 { return w.count }

// AddKeys writes keys.
func (w *TextWriter) AddKeys(keys []uint64) error {
	if w.buf == nil {
		w.buf = make([]byte, 0, textBuffer)
	}
	for len(keys) > 0 {
		n := min(len(keys), (cap(w.buf)-len(w.buf))/lineBytes)
		b := w.buf
		for _, k := range keys[:n] {
			b = appendHex(b, k)
		}
		w.buf, keys = b, keys[n:]
		w.count += uint64(n)
		if len(keys) > 0 {
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Flush writes what waits.
func (w *TextWriter) Flush() error {
	_, err := w.out.Write(w.buf)
	w.buf = w.buf[:0]
	return err
}

// WriteText writes the keys of src as a TextWriter does.
func WriteText(out io.Writer, src Source) error {
	w := NewTextWriter(out)
	if err := Copy(w, src); err != nil {
		return err
	}
	return w.Flush()
}
