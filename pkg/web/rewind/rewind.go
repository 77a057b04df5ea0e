// Package rewind holds one document while it is fetched and worked on: Mercator's
// RewindInputStream ("Mercator: A Scalable, Extensible Web Crawler", section 3.3).
//
// A Stream takes bytes from any reader, keeps the start in memory and the
// rest in a temporary file, and can be read again as often as its users like.
//
// # Invariants
//
//   - Memory is at most 64 KiB for the start of the document and 32 KiB each for
//     its end and for reading from the file, all pooled; small documents use 4 KiB.
//   - Beside this, the process has a budget of 8 MiB for documents of 64 KiB to 1 MiB. While it
//     lasts, their start in memory is the whole document, and they need no file.
//   - Memory for the start is at most 4 KiB, or four times what has come, whatever length was announced.
//   - No more than the limit is kept. What did not fit is recorded by Truncated.
//   - The backing file has no name (it is unlinked at once), so that a killed
//     process leaves none behind.
//
// A Stream serves one goroutine; ReadAt may be called by many while nobody writes.
package rewind

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"sync"
	"sync/atomic"

	"mercator/pkg/base/durable"
)

// Sizes of memory, in bytes.
const (
	MemoryMin = 4 << 10  // at first
	MemoryMax = 64 << 10 // before the backing file
	LargeMax  = 1 << 20  // of a document that needs none, while the budget lasts
	windowLen = 32 << 10
	budget    = 8 << 20 // of all documents in memory that are longer than MemoryMax
)

// large is how much of the budget is taken.
var large atomic.Int64

// DefaultMax is how much of a document is kept where nothing else is said.
const DefaultMax = 1 << 20

// ErrTooLong: TakeUntil did not find its delimiter within the bound.
var ErrTooLong = errors.New("rewind: no delimiter within the bound")

// Stream is one document. Make it with New; Close returns its resources, after
// which it may be used again.
type Stream struct {
	dir    string
	max    int64
	expect int64 // length that was announced; 0: none

	mem   *chunk // the start
	n     int    // bytes in mem
	most  int    // how long mem may be; above MemoryMax there is no file, and it is of the budget
	tail  *chunk // the end, not yet in the file
	tailN int
	file  *os.File
	fileN int64 // bytes in the file, which begin at MemoryMax

	look    *chunk // read from the file
	lookOff int64
	lookN   int

	pos       int64
	truncated bool
	lent      bool // mem is the caller's
}

type chunk struct{ b []byte }

// pools[i] has chunks of MemoryMin<<i bytes.
var pools [9]sync.Pool

func class(size int) int { return bits.Len(uint(size/MemoryMin)) - 1 }

func getChunk(size int) *chunk {
	if c, ok := pools[class(size)].Get().(*chunk); ok {
		return c
	}
	return &chunk{make([]byte, size)}
}

func putChunk(c *chunk) {
	if c != nil {
		pools[class(len(c.b))].Put(c)
	}
}

// New returns an empty Stream that keeps at most max bytes (max ≤ 0: DefaultMax)
// and puts its backing file, should it need one, into dir ("": the system's
// folder for temporary files).
func New(dir string, max int64) *Stream {
	s := &Stream{dir: dir}
	s.Reset(max)
	return s
}

// Of returns a Stream of a document that is in memory already, to be read by the
// lexing methods. It is full; b is not copied.
func Of(b []byte) *Stream {
	return &Stream{max: int64(len(b)), mem: &chunk{b}, n: len(b), lent: true}
}

// Reset empties the Stream for another document and keeps its memory.
func (s *Stream) Reset(max int64) {
	if max <= 0 {
		max = DefaultMax
	}
	s.takeBack()
	s.shrink()
	s.max, s.expect, s.n, s.tailN, s.fileN, s.lookN, s.pos, s.truncated = max, 0, 0, 0, 0, 0, 0, false
}

// takeBack returns borrowed memory to its owner.
func (s *Stream) takeBack() {
	if s.lent {
		s.mem, s.lent = nil, false
	}
}

// shrink gives memory above MemoryMax back to the budget.
func (s *Stream) shrink() {
	if s.most > MemoryMax {
		putChunk(s.mem)
		s.mem = nil
		large.Add(-int64(s.most))
	}
	s.most = MemoryMax
}

// grow makes mem, which is full, longer if the budget allows it.
func (s *Stream) grow() bool {
	size := 2 * s.most
	if size > LargeMax || s.expect > LargeMax {
		return false
	}
	more := int64(size)
	if s.most > MemoryMax {
		more -= int64(s.most) // which was taken before
	}
	if large.Add(more) > budget {
		large.Add(-more)
		return false
	}
	bigger := getChunk(size)
	copy(bigger.b, s.mem.b)
	putChunk(s.mem)
	s.mem, s.most = bigger, size
	return true
}

// outgrow moves what is above MemoryMax from memory to the file.
func (s *Stream) outgrow() error {
	if s.n <= MemoryMax {
		return nil
	}
	n, err := s.append(s.mem.b[MemoryMax:s.n])
	if err != nil {
		return err
	}
	start := getChunk(MemoryMax)
	copy(start.b, s.mem.b)
	s.shrink()
	s.mem, s.n, s.fileN = start, MemoryMax, n
	return nil
}

// SetMax changes the limit for what is still to come.
func (s *Stream) SetMax(max int64) { s.max = max }

// Expect says how long the document will be, as far as somebody announced it.
// Up to MemoryMax memory then grows in fewer steps, and a document longer than LargeMax takes none of the budget.
func (s *Stream) Expect(length int64) { s.expect = length }

// SetDir chooses the folder of a backing file that is not made yet.
func (s *Stream) SetDir(dir string) { s.dir = dir }

// Close gives the memory back and removes the backing file.
func (s *Stream) Close() error {
	s.takeBack()
	s.shrink()
	putChunk(s.mem)
	putChunk(s.tail)
	putChunk(s.look)
	s.mem, s.tail, s.look = nil, nil, nil
	var err error
	if s.file != nil {
		err = s.file.Close()
		s.file = nil
	}
	s.Reset(s.max)
	return err
}

// Len is the number of bytes kept.
func (s *Stream) Len() int64 { return int64(s.n) + s.fileN + int64(s.tailN) }

// Truncated reports whether bytes did not fit.
func (s *Stream) Truncated() bool { return s.truncated }

// Start returns the part in memory: the whole document, or its first MemoryMax bytes.
func (s *Stream) Start() []byte {
	if s.mem == nil {
		return nil
	}
	return s.mem.b[:s.n]
}

// Whole returns the document if all of it is in memory. The bytes are valid until the Stream changes.
func (s *Stream) Whole() ([]byte, bool) {
	return s.Start(), s.fileN == 0 && s.tailN == 0
}

// Space returns where the next bytes are to be written; Wrote then says how many
// came. It is empty only when the Stream is full.
func (s *Stream) Space() ([]byte, error) {
	room := s.max - s.Len()
	if room <= 0 {
		return nil, nil
	}
	var free []byte
	switch {
	case s.mem == nil:
		s.mem = getChunk(MemoryMin)
		free = s.mem.b
	case s.n < len(s.mem.b):
		free = s.mem.b[s.n:]
	case s.n < MemoryMax:
		size := 2 * len(s.mem.b)
		if s.expect > int64(size) {
			size = min(2*size, MemoryMax)
		}
		bigger := getChunk(size)
		copy(bigger.b, s.mem.b)
		putChunk(s.mem)
		s.mem = bigger
		free = s.mem.b[s.n:]
	case s.fileN == 0 && s.tailN == 0 && s.grow():
		free = s.mem.b[s.n:]
	default:
		if err := s.outgrow(); err != nil {
			return nil, err
		}
		if s.tail == nil {
			s.tail = getChunk(windowLen)
		}
		if s.tailN == len(s.tail.b) {
			if err := s.spill(); err != nil {
				return nil, err
			}
		}
		free = s.tail.b[s.tailN:]
	}
	return free[:min(int64(len(free)), room)], nil
}

// Wrote adds the first n bytes of what Space returned.
func (s *Stream) Wrote(n int) {
	if s.n < s.most && s.fileN == 0 && s.tailN == 0 {
		s.n += n
		return
	}
	s.tailN += n
}

// spill moves the end of the document into the backing file.
func (s *Stream) spill() error {
	n, err := s.append(s.tail.b[:s.tailN])
	if err == nil {
		s.fileN, s.tailN = s.fileN+n, 0
	}
	return err
}

// append writes p behind the bytes in the backing file.
func (s *Stream) append(p []byte) (int64, error) {
	if s.file == nil {
		f, err := durable.TempFile(s.dir)
		if err != nil {
			return 0, err
		}
		s.file = f
	}
	n, err := s.file.WriteAt(p, s.fileN)
	return int64(n), err
}

// Write appends p as far as the limit allows. It reports all of p as written and
// records a truncation when some did not fit.
func (s *Stream) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		free, err := s.Space()
		if err != nil {
			return len(p) - len(rest), err
		}
		if len(free) == 0 {
			s.truncated = true
			break
		}
		n := copy(free, rest)
		s.Wrote(n)
		rest = rest[n:]
	}
	return len(p), nil
}

// ReadFrom fills the Stream from r until it ends or the limit is reached; in the
// latter case it tries one byte more, to know whether the document is truncated.
func (s *Stream) ReadFrom(r io.Reader) (int64, error) {
	start := s.Len()
	for empty := 0; ; {
		free, err := s.Space()
		if err != nil {
			return s.Len() - start, err
		}
		full := len(free) == 0
		if full {
			free = make([]byte, 1)
		}
		n, err := r.Read(free)
		if full {
			s.truncated = s.truncated || n > 0
		} else {
			s.Wrote(n)
		}
		switch {
		case err == io.EOF || full && n > 0:
			return s.Len() - start, nil
		case err != nil:
			return s.Len() - start, err
		case n > 0:
			empty = 0
		default:
			if empty++; empty > 100 {
				return s.Len() - start, io.ErrNoProgress
			}
		}
	}
}

// Cut shortens the document to n bytes.
func (s *Stream) Cut(n int64) {
	switch {
	case n >= s.Len():
	case n <= int64(s.n):
		s.n, s.fileN, s.tailN = int(n), 0, 0
	case n <= int64(s.n)+s.fileN:
		s.fileN, s.tailN = n-int64(s.n), 0
	default:
		s.tailN = int(n - int64(s.n) - s.fileN)
	}
	s.lookN = 0
	s.pos = min(s.pos, s.Len())
}

// DropStart removes the first n bytes, all of them in memory, while nothing has
// gone to the file.
func (s *Stream) DropStart(n int) error {
	if s.fileN > 0 || s.tailN > 0 || n > s.n {
		return fmt.Errorf("rewind: drop %d bytes of %d, of which %d are in memory", n, s.Len(), s.n)
	}
	copy(s.mem.b, s.mem.b[n:s.n])
	s.n -= n
	return nil
}

// ReadAt implements io.ReaderAt.
func (s *Stream) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("rewind: read at %d", off)
	}
	done := 0
	for len(p) > done && off < s.Len() {
		var n int
		switch fileEnd := int64(s.n) + s.fileN; {
		case off < int64(s.n):
			n = copy(p[done:], s.mem.b[off:s.n])
		case off < fileEnd:
			part := p[done:]
			part = part[:min(int64(len(part)), fileEnd-off)]
			var err error
			if n, err = s.file.ReadAt(part, off-int64(s.n)); n < len(part) {
				return done + n, err
			}
		default:
			n = copy(p[done:], s.tail.b[off-fileEnd:s.tailN])
		}
		done += n
		off += int64(n)
	}
	if done < len(p) {
		return done, io.EOF
	}
	return done, nil
}

// Read reads on from the position.
func (s *Stream) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if s.pos >= s.Len() {
		return 0, io.EOF
	}
	n, err := s.ReadAt(p, s.pos)
	s.pos += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

// Seek implements io.Seeker; Seek(0, io.SeekStart) rewinds.
func (s *Stream) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += s.pos
	case io.SeekEnd:
		offset += s.Len()
	}
	if offset < 0 {
		return s.pos, fmt.Errorf("rewind: seek to %d", offset)
	}
	s.pos = offset
	return offset, nil
}

// PeekMax is the most that Peek returns.
const PeekMax = windowLen

// Peek returns the next n bytes (at most PeekMax) without moving on. Fewer come
// with io.EOF. They are valid until the next call.
func (s *Stream) Peek(n int) ([]byte, error) {
	n = min(n, PeekMax)
	var err error
	if left := s.Len() - s.pos; int64(n) > left {
		n, err = int(max(left, 0)), io.EOF
	}
	if n == 0 {
		return nil, err
	}
	if end := s.pos + int64(n); end <= int64(s.n) {
		return s.mem.b[s.pos:end], err
	} else if s.pos >= s.lookOff && end <= s.lookOff+int64(s.lookN) {
		return s.look.b[s.pos-s.lookOff : end-s.lookOff], err
	}
	if s.look == nil {
		s.look = getChunk(windowLen)
	}
	got, readErr := s.ReadAt(s.look.b, s.pos)
	s.lookOff, s.lookN = s.pos, got
	if got < n {
		return s.look.b[:got], readErr
	}
	return s.look.b[:n], err
}

// ReadByte implements io.ByteReader.
func (s *Stream) ReadByte() (byte, error) {
	b, err := s.Peek(1)
	if len(b) == 0 {
		return 0, err
	}
	s.pos++
	return b[0], nil
}

// TakeUntil returns the bytes before delim and moves past it. Without delim
// before the end it returns what is left, with io.EOF; without delim within max
// bytes (at most PeekMax) it returns ErrTooLong and does not move. The bytes are
// valid until the next call.
func (s *Stream) TakeUntil(delim byte, max int) ([]byte, error) {
	b, err := s.Peek(max)
	if i := bytes.IndexByte(b, delim); i >= 0 {
		s.pos += int64(i) + 1
		return b[:i], nil
	}
	if err == nil {
		if s.pos+int64(len(b)) < s.Len() {
			return nil, ErrTooLong
		}
		err = io.EOF
	}
	if err == io.EOF {
		s.pos += int64(len(b))
	}
	return b, err
}

// SkipSpace moves past ASCII white space (space, tab, line feed, form feed,
// carriage return).
func (s *Stream) SkipSpace() error {
	for {
		b, err := s.Peek(512)
		for i, c := range b {
			if c != ' ' && c != '\t' && c != '\n' && c != '\f' && c != '\r' {
				s.pos += int64(i)
				return nil
			}
		}
		s.pos += int64(len(b))
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
