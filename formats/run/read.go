package run

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sort"
	"strings"
	"sync"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/release"
)

// Reader is an opened run with a valid header and trailer.
type Reader struct {
	in   io.ReaderAt
	name string
	kind string
	t    trailer
	dir  []byte // entries; nil until the first search
}

// Open reads header and trailer of a run of size bytes. It is to be of that kind; "" takes any.
// A file without trailer is fault.Truncated, one of another kind fault.WrongKind, one of another
// version fault.Version, any other damage fault.Corrupt. name is for messages.
func Open(in io.ReaderAt, size int64, name, kind string) (*Reader, error) {
	r := &Reader{in: in, name: name}
	if size < headerSize {
		return nil, r.fault(fault.Truncated, "header", fmt.Sprintf("%d bytes", size), "a run's header of 32 bytes")
	}
	h := make([]byte, headerSize)
	if err := r.readAt(h, 0); err != nil {
		return nil, err
	}
	if string(h[:8]) != headerMagic {
		return nil, r.fault(fault.WrongKind, "byte 0", fmt.Sprintf("%q", h[:8]), `"`+headerMagic+`"`)
	}
	if !sealed(h) {
		return nil, r.fault(fault.Corrupt, "header", "its checksum does not hold", "")
	}
	if v := binary.LittleEndian.Uint32(h[8:]); v != version {
		return nil, &fault.Error{Class: fault.Version, File: r.name, Place: "header", Found: fmt.Sprintf("a run of version %d", v), Want: fmt.Sprint(version), Hint: release.Reader(release.Run, uint64(v))}
	}
	r.kind = strings.TrimRight(string(h[12:12+MaxKind]), "\x00")
	if !validKind(r.kind) {
		return nil, r.fault(fault.Corrupt, "header", fmt.Sprintf("kind %q", r.kind), "lower-case letters and hyphens")
	}
	if kind != "" && kind != r.kind {
		return nil, r.fault(fault.WrongKind, "header", "a run of "+r.kind, "one of "+kind)
	}
	if size < headerSize+trailerSize {
		return nil, r.fault(fault.Truncated, fmt.Sprintf("byte %d", size), "no trailer", "")
	}
	b := make([]byte, trailerSize)
	if err := r.readAt(b, size-trailerSize); err != nil {
		return nil, err
	}
	if string(b[:8]) != trailerMagic {
		return nil, r.fault(fault.Truncated, fmt.Sprintf("byte %d", size-trailerSize), "no trailer", "")
	}
	if !sealed(b) {
		return nil, r.fault(fault.Corrupt, "trailer", "its checksum does not hold", "")
	}
	r.t.decode(b)
	pages := (r.t.blocks + pageEntries - 1) / pageEntries
	end := uint64(size - trailerSize)
	if r.t.directory > end || r.t.blocks > end/blockHead || end-r.t.directory != pageHead+pages*entrySize+4 || r.t.rows < r.t.blocks || r.t.blocks == 0 && r.t.rows > 0 || r.t.first > r.t.last {
		return nil, r.fault(fault.Corrupt, "trailer", fmt.Sprintf("%d rows in %d blocks before a directory at byte %d, keys %d to %d", r.t.rows, r.t.blocks, r.t.directory, r.t.first, r.t.last), fmt.Sprintf("counts that fit a file of %d bytes", size))
	}
	return r, nil
}

// sealed reports whether b ends in the checksum of what stands before.
func sealed(b []byte) bool {
	n := len(b) - 4
	return crc32.Checksum(b[:n], castagnoli) == binary.LittleEndian.Uint32(b[n:])
}

func (r *Reader) fault(class fault.Class, place, found, want string) error {
	return &fault.Error{Class: class, File: r.name, Place: place, Found: found, Want: want}
}

func (r *Reader) corrupt(off uint64, found, want string) error {
	return r.fault(fault.Corrupt, blockAt(off), found, want)
}

func (r *Reader) beyond(off uint64) error {
	return r.corrupt(off, "a position beyond the last row", "")
}

func blockAt(off uint64) string { return fmt.Sprintf("block at byte %d", off) }

func (r *Reader) readAt(b []byte, off int64) error {
	if _, err := r.in.ReadAt(b, off); err != nil {
		if errors.Is(err, io.EOF) {
			return r.fault(fault.Truncated, fmt.Sprintf("byte %d", off), "the end of the file", fmt.Sprintf("%d bytes more", len(b)))
		}
		return &fault.Error{File: r.name, Place: fmt.Sprintf("byte %d", off), Err: err}
	}
	return nil
}

// Rows, First and Last are the number of rows and the lowest and highest key; Kind is the run's.
func (r *Reader) Rows() uint64  { return r.t.rows }
func (r *Reader) First() uint64 { return r.t.first }
func (r *Reader) Last() uint64  { return r.t.last }
func (r *Reader) Kind() string  { return r.kind }

// Scanner reads rows in order.
type Scanner struct {
	r      *Reader
	off    uint64 // offset of the open block
	next   uint64 // offset of what follows the open block
	rows   []byte // rows left of the open block
	count  uint32 // rows of the open block
	row    uint32 // number of the next row
	first  uint64 // the first key of the open block, and last is its last key
	last   uint64
	key    uint64     // of the row before
	peeked uint64     // key of the next row, if it was looked at
	behind int        // bytes of the gap of the next row; 0: it was not looked at
	skip   uint32     // rows to pass over in the block to be opened
	page   []byte     // of the index, which the last search read
	pageAt int        // number of that page of the index, -1 for none
	beside bool       // blocks are read ahead
	ahead  chan block // gives the block that is read ahead; nil: none
	jumped bool       // blocks were passed over
	reuse  bool       // room is for the next block
	room   []byte
	err    error

	// What a scan from the start adds up, for Verify.
	blocks, total uint64
	sum           uint32
}

// Scan returns a scanner that stands at from.
func (r *Reader) Scan(from Position) *Scanner {
	return &Scanner{r: r, next: from.Offset, off: from.Offset, skip: from.Row, pageAt: -1}
}

// Position of the next row.
func (s *Scanner) Position() Position {
	if s.row < s.count {
		return Position{s.off, s.row}
	}
	return Position{s.next, s.skip}
}

// Next gives the next row; io.EOF itself after the last one.
func (s *Scanner) Next() (key uint64, payload []byte, err error) {
	if key, err = s.Peek(); err != nil {
		return 0, nil, err
	}
	rest := s.rows[s.behind:]
	size, n := uvarint(rest)
	if n == 0 || size > uint64(len(rest)-n) || s.row == s.count-1 && size < uint64(len(rest)-n) {
		return 0, nil, s.undecoded()
	}
	payload, s.rows = rest[n:][:size:size], rest[n:][size:]
	s.key, s.behind = key, 0
	s.row++
	return key, payload, nil
}

// Peek returns the key of the row that Next gives next; io.EOF itself if there is none.
// Of that row it checks the key only.
func (s *Scanner) Peek() (key uint64, err error) {
	if s.behind > 0 {
		return s.peeked, nil
	}
	for s.err == nil && s.row == s.count {
		s.err = s.open()
	}
	if s.err != nil {
		return 0, s.err
	}
	gap, n := uvarint(s.rows)
	key = s.key + gap
	switch {
	case n == 0:
		return 0, s.undecoded()
	case key < s.key || key > s.last || s.row == 0 && key != s.first || s.row == s.count-1 && key != s.last:
		s.err = s.corrupt(fmt.Sprintf("row %d of key %d", s.row, key), fmt.Sprintf("%d rows ascending from %d to %d", s.count, s.first, s.last))
		return 0, s.err
	}
	s.peeked, s.behind = key, n
	return key, nil
}

// uvarint is binary.Uvarint; n is 0 where that is not above 0.
func uvarint(b []byte) (x uint64, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	x, n = binary.Uvarint(b)
	return x, max(n, 0)
}

// undecoded ends the scan at the next row.
func (s *Scanner) undecoded() error {
	s.behind = 0
	s.err = s.corrupt(fmt.Sprintf("row %d does not decode", s.row), "")
	return s.err
}

func (s *Scanner) corrupt(found, want string) error { return s.r.corrupt(s.off, found, want) }

// block is a block that was read and has a valid checksum.
type block struct {
	from        uint64 // offset from which the block was looked for
	off, next   uint64 // offsets of the block, and of what follows it
	count       uint32
	first, last uint64
	sum         [4]byte
	rows        []byte
	err         error // io.EOF itself: there is none from there on
}

// block reads the block at from, passing over index pages. Its rows go into room, if they fit.
func (r *Reader) block(from uint64, room []byte) (b block) {
	b.from, b.off, b.rows = from, from, room
	b.err = r.read(&b)
	return b
}

// buffers are buffers for reading packed blocks.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

func (r *Reader) read(b *block) error {
	h := make([]byte, blockHead) // of a block; a page and what follows it are longer, too
	for {
		if b.off >= r.t.directory {
			if b.off > r.t.directory {
				return r.beyond(b.off)
			}
			return io.EOF
		}
		if err := r.readAt(h, int64(b.off)); err != nil {
			return err
		}
		if string(h[:4]) != pageMagic {
			break
		}
		page, err := r.table(b.off, pageMagic, pageEntries)
		if err != nil {
			return err
		}
		b.off += uint64(pageHead + len(page) + 4)
	}
	u32 := func(at int) uint32 { return binary.LittleEndian.Uint32(h[at:]) }
	codec, stored, raw, sum := u32(4), u32(8), u32(12), u32(36)
	b.count = u32(16)
	b.first, b.last = binary.LittleEndian.Uint64(h[20:]), binary.LittleEndian.Uint64(h[28:])
	b.next = b.off + blockHead + uint64(stored)
	copy(b.sum[:], h[36:])
	most := uint32(maxStored)
	if codec == codecZstd {
		most = MaxPacked
	}
	switch {
	case string(h[:4]) != blockMagic:
		return r.corrupt(b.off, fmt.Sprintf("%q", h[:4]), `"`+blockMagic+`"`)
	case codec > codecZstd:
		return r.fault(fault.Version, blockAt(b.off), fmt.Sprintf("codec %d", codec), "0 or 1")
	case raw > most || stored > raw || codec == codecStored && stored != raw:
		return r.corrupt(b.off, fmt.Sprintf("%d bytes stored for %d", stored, raw), fmt.Sprintf("at most %d", most))
	case b.count == 0 || b.count > raw/leastRow:
		return r.corrupt(b.off, fmt.Sprintf("%d rows in %d bytes", b.count, raw), "1 at least, of 2 bytes at least")
	case b.first > b.last || b.next > r.t.directory:
		return r.corrupt(b.off, fmt.Sprintf("keys %d to %d, %d bytes", b.first, b.last, stored), "a block within the file")
	}
	check := func(body []byte) error {
		if err := r.readAt(body, int64(b.off)+blockHead); err != nil {
			return err
		}
		if got := crc32.Update(crc32.Checksum(h[:36], castagnoli), castagnoli, body); got != sum {
			return r.corrupt(b.off, fmt.Sprintf("checksum %08x", got), fmt.Sprintf("%08x", sum))
		}
		return nil
	}
	if cap(b.rows) < int(raw) {
		b.rows = make([]byte, raw)
	}
	b.rows = b.rows[:raw]
	if codec == codecStored {
		return check(b.rows)
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	*buf = slices.Grow((*buf)[:0], int(stored))[:stored]
	if err := check(*buf); err != nil {
		return err
	}
	rows, err := decoder().DecodeAll(*buf, b.rows[:0])
	if err != nil || len(rows) != int(raw) {
		return r.corrupt(b.off, fmt.Sprintf("a zstd frame of %d bytes", len(rows)), fmt.Sprintf("%d bytes", raw))
	}
	b.rows = rows
	return nil
}

// open opens the block at s.next, or what follows there.
func (s *Scanner) open() error {
	b := s.fetch()
	s.off = b.off
	if b.err == io.EOF && s.skip != 0 {
		return s.r.beyond(s.off)
	}
	if b.err != nil {
		s.next = b.off
		return b.err
	}
	if s.skip >= b.count {
		return s.corrupt(fmt.Sprintf("%d rows", b.count), fmt.Sprintf("a row %d", s.skip))
	}
	if s.total > 0 && b.first < s.key {
		return s.corrupt(fmt.Sprintf("a first key %d", b.first), fmt.Sprintf("at least %d, the last of the block before", s.key))
	}
	s.next = b.next
	s.rows, s.count, s.row, s.first, s.last, s.key = b.rows, b.count, 0, b.first, b.last, b.first
	s.blocks++
	s.total += uint64(b.count)
	s.sum = crc32.Update(s.sum, castagnoli, b.sum[:])
	for skip := s.skip; skip > 0; skip-- {
		s.skip = 0
		if _, _, err := s.Next(); err != nil {
			return err
		}
	}
	return nil
}

// ReadAhead has blocks read in another goroutine, each beside the rows of the one before it, from
// here on and for as long as none is passed over. The caller calls Stop before it closes the file.
func (s *Scanner) ReadAhead() { s.beside = true }

// Reuse has the memory of blocks used again: a payload is valid until Next or Peek is called, or what calls them.
func (s *Scanner) Reuse() { s.reuse = true }

// Stop waits until the file is not read. The scanner is of no more use.
func (s *Scanner) Stop() {
	if s.ahead != nil {
		<-s.ahead
		s.ahead = nil
	}
}

// fetch gives the block at s.next.
func (s *Scanner) fetch() (b block) {
	there := s.ahead != nil
	if there {
		b = <-s.ahead
		s.ahead = nil
	}
	if !there || b.from != s.next {
		b = s.r.block(s.next, s.room)
	}
	if s.reuse && !s.beside {
		s.room = b.rows
	}
	if s.beside && !s.jumped && b.err == nil {
		ahead := make(chan block, 1)
		s.ahead = ahead
		go func() { ahead <- s.r.block(b.next, nil) }()
	}
	s.jumped = false
	return b
}

// table reads a page or the directory at off and returns its entries.
func (r *Reader) table(off uint64, magic string, limit uint64) ([]byte, error) {
	place := fmt.Sprintf("index at byte %d", off)
	h := make([]byte, pageHead)
	if err := r.readAt(h, int64(off)); err != nil {
		return nil, err
	}
	n := uint64(binary.LittleEndian.Uint32(h[4:]))
	if string(h[:4]) != magic || n > limit {
		return nil, r.fault(fault.Corrupt, place, fmt.Sprintf("%q with %d entries", h[:4], n), fmt.Sprintf("%q with at most %d", magic, limit))
	}
	b := make([]byte, pageHead+n*entrySize+4)
	if err := r.readAt(b, int64(off)); err != nil {
		return nil, err
	}
	if !sealed(b) {
		return nil, r.fault(fault.Corrupt, place, "its checksum does not hold", "")
	}
	return b[pageHead : len(b)-4], nil
}

func entryOffset(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i*entrySize:]) }
func entryFirst(b []byte, i int) uint64  { return binary.LittleEndian.Uint64(b[i*entrySize+8:]) }

// before returns the number of the last entry with a first key below key, or 0: rows of key
// begin there or later.
func before(entries []byte, key uint64) int {
	n := sort.Search(len(entries)/entrySize, func(i int) bool { return entryFirst(entries, i) >= key })
	return max(n-1, 0)
}

// Seek gives the next row with a key of at least key; io.EOF if there is none. See Pass.
func (s *Scanner) Seek(key uint64) (uint64, []byte, error) {
	if _, err := s.Pass(key); err != nil {
		return 0, nil, err
	}
	return s.Next()
}

// Pass skips the rows with keys below key, and does not read blocks that have no other. It returns
// the key of the row that Next gives next; io.EOF itself if there is none. It never moves back.
func (s *Scanner) Pass(key uint64) (next uint64, err error) {
	if s.err != nil {
		return 0, s.err
	}
	if s.row == s.count || key > s.last {
		off, err := s.find(key)
		if err != nil {
			s.err = err
			return 0, err
		}
		if off > s.next {
			s.next, s.skip, s.jumped = off, 0, true
		}
		s.row, s.count, s.behind = 0, 0, 0
	}
	for {
		if next, err = s.Peek(); err != nil || next >= key {
			return next, err
		}
		if _, _, err = s.Next(); err != nil {
			return 0, err
		}
	}
}

// find returns the offset of the block where rows of key begin, or would.
func (s *Scanner) find(key uint64) (uint64, error) {
	r := s.r
	if key > r.t.last || r.t.rows == 0 {
		return r.t.directory, nil
	}
	if r.dir == nil {
		dir, err := r.table(r.t.directory, dirMagic, (r.t.blocks+pageEntries-1)/pageEntries)
		if err != nil {
			return 0, err
		}
		r.dir = dir
	}
	p := before(r.dir, key)
	if p != s.pageAt {
		page, err := r.table(entryOffset(r.dir, p), pageMagic, pageEntries)
		if err != nil {
			return 0, err
		}
		if len(page) == 0 || entryFirst(page, 0) != entryFirst(r.dir, p) {
			return 0, r.fault(fault.Corrupt, fmt.Sprintf("index at byte %d", entryOffset(r.dir, p)), "a page that its directory does not describe", "")
		}
		s.page, s.pageAt = page, p
	}
	return entryOffset(s.page, before(s.page, key)), nil
}

// Verify reads the whole file and compares it with its index and trailer.
func (r *Reader) Verify() error {
	s := r.Scan(Start)
	var page, dir []byte
	var offset uint64
	check := func(at uint64) error {
		got, err := r.table(at, pageMagic, pageEntries)
		if err != nil {
			return err
		}
		if !bytes.Equal(got, page) {
			return r.fault(fault.Corrupt, fmt.Sprintf("index at byte %d", at), "entries that do not describe the blocks before it", "")
		}
		dir = appendEntry(dir, at, entryFirst(page, 0))
		page = page[:0]
		return nil
	}
	for {
		end := s.next
		_, _, err := s.Next()
		if err != nil && err != io.EOF {
			return err
		}
		if err == io.EOF {
			if len(page) > 0 {
				if err := check(end); err != nil {
					return err
				}
			}
			break
		}
		if s.off != offset {
			offset = s.off
			if len(page) == pageEntries*entrySize {
				if err := check(end); err != nil {
					return err
				}
			}
			page = appendEntry(page, s.off, s.first)
		}
	}
	if s.blocks != r.t.blocks || s.total != r.t.rows || s.sum != r.t.sum || s.key != r.t.last {
		return r.fault(fault.Corrupt, "trailer", fmt.Sprintf("%d blocks, %d rows, checksum %08x, last key %d", s.blocks, s.total, s.sum, s.key),
			fmt.Sprintf("%d, %d, %08x, %d", r.t.blocks, r.t.rows, r.t.sum, r.t.last))
	}
	got, err := r.table(r.t.directory, dirMagic, uint64(len(dir)/entrySize))
	if err != nil {
		return err
	}
	if !bytes.Equal(got, dir) || len(dir) > 0 && entryFirst(dir, 0) != r.t.first {
		return r.fault(fault.Corrupt, fmt.Sprintf("directory at byte %d", r.t.directory), "entries that do not describe the pages", "")
	}
	return nil
}
