package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sort"
	"sync"

	"mercator/pkg/fault"
)

// Reader is an opened segment whose header and trailer hold.
type Reader[T Row] struct {
	in   io.ReaderAt
	name string
	t    trailer
	dir  []byte // entries; nil until the first Seek
	feat Features
}

// Open reads header and trailer of a segment of size bytes. A file without
// trailer is fault.Truncated, one of another kind fault.WrongKind, one of a later
// major version fault.Version, any other damage fault.Corrupt. name is for messages.
func Open[T Row](in io.ReaderAt, size int64, name string) (*Reader[T], error) {
	r := &Reader[T]{in: in, name: name}
	if size < headerSize {
		return nil, r.fault(fault.Truncated, "header", fmt.Sprintf("%d bytes", size), "a segment header of 16 bytes")
	}
	h := make([]byte, headerSize)
	if err := r.readAt(h, 0); err != nil {
		return nil, err
	}
	kind, _ := kindOf[T]()
	switch {
	case string(h[:8]) != headerMagic:
		return nil, r.fault(fault.WrongKind, "byte 0", fmt.Sprintf("%q", h[:8]), `"`+headerMagic+`"`)
	case !sealed(h):
		return nil, r.fault(fault.Corrupt, "header", "its checksum does not hold", "")
	case h[8] != major:
		return nil, r.fault(fault.Version, "header", fmt.Sprintf("segment version %d.%d", h[8], h[9]), fmt.Sprintf("%d.x", major))
	case !Features(h[11]).known(h[10]):
		return nil, r.fault(fault.Version, "header", fmt.Sprintf("unknown feature bits %02x of a %s", h[11], kindName(h[10])), "those of version 1.2")
	case h[10] != kind:
		return nil, r.fault(fault.WrongKind, "header", "a "+kindName(h[10]), "a "+kindName(kind))
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
	if !bytes.Equal(b[52:60], make([]byte, 8)) {
		return nil, r.fault(fault.Corrupt, "trailer", "reserved bytes are not zero", "")
	}
	r.t.decode(b)
	r.feat = Features(h[11])
	pages := (r.t.blocks + pageEntries - 1) / pageEntries
	end := uint64(size - trailerSize)
	if r.t.directory > end || end-r.t.directory != pageHead+pages*entrySize+4 || r.t.blocks > end/blockHead || r.t.rows > r.t.blocks*MaxBlockRows || r.t.rows < r.t.blocks || r.t.first > r.t.last {
		return nil, r.fault(fault.Corrupt, "trailer", fmt.Sprintf("%d rows in %d blocks before a directory at byte %d, orders %d to %d", r.t.rows, r.t.blocks, r.t.directory, r.t.first, r.t.last), fmt.Sprintf("counts that fit a file of %d bytes", size))
	}
	return r, nil
}

// sealed reports whether b ends in the checksum of what stands before.
func sealed(b []byte) bool {
	n := len(b) - 4
	return crc32.Checksum(b[:n], castagnoli) == binary.LittleEndian.Uint32(b[n:])
}

func (r *Reader[T]) fault(class fault.Class, place, found, want string) error {
	return &fault.Error{Class: class, File: r.name, Place: place, Found: found, Want: want}
}

func (r *Reader[T]) readAt(b []byte, off int64) error {
	if _, err := r.in.ReadAt(b, off); err != nil {
		if errors.Is(err, io.EOF) {
			return r.fault(fault.Truncated, fmt.Sprintf("byte %d", off), "the end of the file", fmt.Sprintf("%d bytes more", len(b)))
		}
		return &fault.Error{File: r.name, Place: fmt.Sprintf("byte %d", off), Err: err}
	}
	return nil
}

// Rows, First and Last are the number of rows and the lowest and highest order.
func (r *Reader[T]) Rows() uint64  { return r.t.rows }
func (r *Reader[T]) First() uint64 { return r.t.first }
func (r *Reader[T]) Last() uint64  { return r.t.last }

// Features are the segment's.
func (r *Reader[T]) Features() Features { return r.feat }

// Position is a place between rows: before row Row of the block at byte Offset.
type Position struct {
	Offset uint64 `json:"offset"`
	Row    uint32 `json:"row"`
}

// Start is the position before the first row of every segment.
var Start = Position{Offset: headerSize}

// Scanner reads rows in order.
type Scanner[T Row] struct {
	r      *Reader[T]
	c      coder
	off    uint64 // of the open block
	next   uint64 // of what follows it
	count  uint32
	row    uint32 // the next one in the open block
	first  uint64
	last   uint64
	skip   uint32     // rows to pass over in the block to be opened
	behind uint32     // rows that Pass has passed over in the column of orders alone
	page   []byte     // index page of the last Seek
	pageAt int        // its number, -1 for none
	beside bool       // blocks are read ahead
	ahead  chan block // gives the one that is; nil: none
	jumped bool       // blocks were passed over
	err    error

	copying plan

	// What a scan from the start adds up, for Verify.
	blocks, rows uint64
	sum          uint32
	order        uint64
}

// Scan returns a scanner that stands at from.
func (r *Reader[T]) Scan(from Position) *Scanner[T] {
	_, columns := kindOf[T]()
	columns += r.feat.columns()
	return &Scanner[T]{r: r, next: from.Offset, off: from.Offset, skip: from.Row, pageAt: -1,
		c: coder{reading: true, feat: r.feat, left: make([]string, columns), prev: make([]uint64, columns)}}
}

// buffer is what a block is read and inflated with. A scanner holds one only for as
// long as it opens a block: merges have hundreds of scanners.
type buffer struct{ stored, raw []byte }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// Position of the next row.
func (s *Scanner[T]) Position() Position {
	if s.row < s.count {
		return Position{s.off, s.row}
	}
	return Position{s.next, s.skip}
}

// Next fills row; io.EOF itself after the last one. Strings stay valid for as
// long as they are referenced, but keep their block's columns in memory.
func (s *Scanner[T]) Next(row *T) error {
	if err := s.ready(); err != nil {
		return err
	}
	if s.behind > 0 && !s.catchUp() {
		return s.undecoded(s.row)
	}
	if len(s.copying.zeros) > 0 {
		s.readZeros()
		s.copying.read++
	}
	s.c.i = 0
	*row = *new(T)
	f := fieldsOf(row)
	f.fields(&s.c)
	order := f.order()
	bad, outside := s.c.bad || s.c.i != len(s.c.left), s.outside(order)
	s.row++
	if s.row == s.count {
		for _, col := range s.c.left {
			bad = bad || len(col) != 0
		}
	}
	switch {
	case bad:
		return s.undecoded(s.row - 1)
	case outside:
		return s.misplaced(s.row-1, order)
	}
	s.order = order
	return nil
}

// ready opens the next row's block.
func (s *Scanner[T]) ready() error {
	for s.err == nil && s.row == s.count {
		s.err = s.open()
	}
	return s.err
}

// Peek returns the order of the row that Next gives next; io.EOF itself if there is none.
// Of that row it checks the order only.
func (s *Scanner[T]) Peek() (order uint64, err error) {
	if err := s.ready(); err != nil {
		return 0, err
	}
	z, n := uvarint(s.c.left[0])
	order = s.c.prev[0] + unzigzag(z)
	switch {
	case n == 0:
		return 0, s.undecoded(s.row)
	case s.outside(order):
		return 0, s.misplaced(s.row, order)
	}
	return order, nil
}

// outside reports whether the next row cannot have that order.
func (s *Scanner[T]) outside(order uint64) bool {
	return order < s.order || order > s.last || s.row == 0 && order != s.first || s.row == s.count-1 && order != s.last
}

// undecoded ends the scan at a row.
func (s *Scanner[T]) undecoded(row uint32) error {
	s.err = s.corrupt(fmt.Sprintf("row %d does not decode", row), "")
	return s.err
}

// misplaced ends the scan at a row whose order is not between its neighbours', or not the block's first or last.
func (s *Scanner[T]) misplaced(row uint32, order uint64) error {
	s.err = s.corrupt(fmt.Sprintf("row %d of order %d", row, order), fmt.Sprintf("%d rows ascending from %d to %d", s.count, s.first, s.last))
	return s.err
}

func (s *Scanner[T]) corrupt(found, want string) error { return s.r.corrupt(s.off, found, want) }

func (r *Reader[T]) corrupt(off uint64, found, want string) error {
	return r.fault(fault.Corrupt, blockAt(off), found, want)
}

func (r *Reader[T]) beyond(off uint64) error {
	return r.corrupt(off, "a position beyond the last row", "")
}

func blockAt(off uint64) string { return fmt.Sprintf("block at byte %d", off) }

// block is a block that was read, and whose checksum holds.
type block struct {
	from        uint64 // from where it was looked for
	off, next   uint64 // of it, and of what follows it
	count       uint32
	first, last uint64
	sum         [4]byte
	columns     string
	err         error // io.EOF itself: there is none from there on
}

// block reads the block at from, passing over index pages.
func (r *Reader[T]) block(from uint64) (b block) {
	b.from, b.off = from, from
	b.err = r.read(&b)
	return b
}

func (r *Reader[T]) read(b *block) error {
	var head [blockHead]byte
	for {
		if b.off >= r.t.directory {
			if b.off > r.t.directory {
				return r.beyond(b.off)
			}
			return io.EOF
		}
		h := head[:pageHead]
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
	h := head[:]
	if err := r.readAt(h, int64(b.off)); err != nil {
		return err
	}
	u32 := func(at int) uint32 { return binary.LittleEndian.Uint32(h[at:]) }
	codec, stored, raw, sum := u32(4), u32(8), u32(12), u32(36)
	b.count = u32(16)
	b.first, b.last = binary.LittleEndian.Uint64(h[20:]), binary.LittleEndian.Uint64(h[28:])
	b.next = b.off + blockHead + uint64(stored)
	copy(b.sum[:], h[36:])
	switch {
	case string(h[:4]) != blockMagic:
		return r.corrupt(b.off, fmt.Sprintf("%q", h[:4]), `"`+blockMagic+`"`)
	case codec > codecZstd:
		return r.fault(fault.Version, blockAt(b.off), fmt.Sprintf("codec %d", codec), "0 or 1")
	case raw > MaxBlockRaw || stored > raw || codec == codecStored && stored != raw:
		return r.corrupt(b.off, fmt.Sprintf("%d bytes stored for %d", stored, raw), fmt.Sprintf("at most %d", MaxBlockRaw))
	case b.count == 0 || b.count > MaxBlockRows:
		return r.corrupt(b.off, fmt.Sprintf("%d rows", b.count), fmt.Sprintf("1 to %d", MaxBlockRows))
	case b.first > b.last || b.next > r.t.directory:
		return r.corrupt(b.off, fmt.Sprintf("orders %d to %d, %d bytes", b.first, b.last, stored), "a block within the file")
	}
	buf := buffers.Get().(*buffer)
	defer buffers.Put(buf)
	buf.stored = slices.Grow(buf.stored[:0], int(stored))[:stored]
	if err := r.readAt(buf.stored, int64(b.off)+blockHead); err != nil {
		return err
	}
	if got := crc32.Update(crc32.Checksum(h[:36], castagnoli), castagnoli, buf.stored); got != sum {
		return r.corrupt(b.off, fmt.Sprintf("checksum %08x", got), fmt.Sprintf("%08x", sum))
	}
	columns := buf.stored
	if codec == codecZstd {
		var err error
		buf.raw, err = decoder().DecodeAll(buf.stored, slices.Grow(buf.raw[:0], int(raw)))
		if err != nil || len(buf.raw) != int(raw) {
			return r.corrupt(b.off, fmt.Sprintf("a zstd frame of %d bytes", len(buf.raw)), fmt.Sprintf("%d bytes", raw))
		}
		columns = buf.raw
	}
	b.columns = string(columns)
	return nil
}

// open opens the block at s.next, or what follows there.
func (s *Scanner[T]) open() error {
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
	rest := b.columns
	for i := range s.c.left {
		n, k := uvarint(rest)
		if k == 0 || n > uint64(len(rest)-k) {
			return s.corrupt(fmt.Sprintf("column %d runs past the block", i+1), "")
		}
		s.c.left[i] = rest[k:][:n]
		s.c.prev[i] = 0
		rest = rest[k:][n:]
	}
	if len(rest) != 0 {
		return s.corrupt(fmt.Sprintf("%d bytes after the last column", len(rest)), "")
	}
	s.next = b.next
	s.count, s.row, s.behind, s.first, s.last = b.count, 0, 0, b.first, b.last
	s.copying.made, s.copying.zeros = false, s.copying.zeros[:0]
	s.blocks++
	s.rows += uint64(b.count)
	s.sum = crc32.Update(s.sum, castagnoli, b.sum[:])
	for skip := s.skip; skip > 0; skip-- {
		s.skip = 0
		var row T
		if err := s.Next(&row); err != nil {
			return err
		}
	}
	return nil
}

// ReadAhead has blocks read in another goroutine, each beside the rows of the one before it, from
// here on and for as long as none is passed over. The caller calls Stop before it closes the file.
func (s *Scanner[T]) ReadAhead() { s.beside = true }

// Stop waits until the file is not read. The scanner is of no more use.
func (s *Scanner[T]) Stop() {
	if s.ahead != nil {
		<-s.ahead
		s.ahead = nil
	}
}

// fetch gives the block at s.next.
func (s *Scanner[T]) fetch() (b block) {
	there := s.ahead != nil
	if there {
		b = <-s.ahead
		s.ahead = nil
	}
	if !there || b.from != s.next {
		b = s.r.block(s.next)
	}
	if s.beside && !s.jumped && b.err == nil {
		ahead := make(chan block, 1)
		s.ahead = ahead
		go func() { ahead <- s.r.block(b.next) }()
	}
	s.jumped = false
	return b
}

// table reads a page or the directory at off and returns its entries.
func (r *Reader[T]) table(off uint64, magic string, limit uint64) ([]byte, error) {
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

// before returns the number of the last entry whose first order is below order,
// or 0: rows of that order begin there or later.
func before(entries []byte, order uint64) int {
	n := sort.Search(len(entries)/entrySize, func(i int) bool { return entryFirst(entries, i) >= order })
	return max(n-1, 0)
}

// Seek fills row with the next row whose order is at least order; io.EOF if there is
// none. See Pass.
func (s *Scanner[T]) Seek(order uint64, row *T) error {
	if _, err := s.Pass(order); err != nil {
		return err
	}
	return s.Next(row)
}

// Pass passes over the rows whose orders are below order, and over blocks that have no other, and
// returns the order of the row that Next gives next; io.EOF itself if there is none. It never
// moves back. Of hosts that it passes over it checks the orders only.
func (s *Scanner[T]) Pass(order uint64) (next uint64, err error) {
	if s.err != nil {
		return 0, s.err
	}
	if s.row == s.count || order > s.last {
		off, err := s.find(order)
		if err != nil {
			s.err = err
			return 0, err
		}
		if off > s.next {
			s.next, s.skip, s.jumped = off, 0, true
		}
		s.row, s.count = 0, 0
	}
	var row T
	_, byColumn := any(&row).(*Host)
	for {
		if next, err = s.Peek(); err != nil || next >= order {
			return next, err
		}
		if !byColumn {
			if err = s.Next(&row); err != nil {
				return 0, err
			}
			continue
		}
		if err = s.passOrders(order); err != nil {
			return 0, err
		}
	}
}

// passOrders passes over rows of the open block in its column of orders, up to one that is not below order.
func (s *Scanner[T]) passOrders(order uint64) error {
	left, at, row := s.c.left[0], s.c.prev[0], s.row
	for ; row < s.count; row++ {
		z, n := uvarint(left)
		next := at + unzigzag(z)
		if n == 0 {
			return s.undecoded(row)
		}
		if next < at && row > 0 || next > s.last || row == 0 && next != s.first || row == s.count-1 && next != s.last {
			return s.misplaced(row, next)
		}
		if next >= order {
			break
		}
		left, at = left[n:], next
	}
	s.behind += row - s.row
	s.c.left[0], s.c.prev[0], s.row, s.order = left, at, row, at
	return nil
}

// catchUp brings the other columns to where that of the orders is. It reports whether they go so far.
func (s *Scanner[T]) catchUp() bool {
	var row T
	s.c.i, s.c.pass = 0, uint64(s.behind)
	fieldsOf(&row).fields(&s.c)
	s.c.pass, s.behind = 0, 0
	return !s.c.bad
}

// find returns the offset of the block where rows of order begin, or would.
func (s *Scanner[T]) find(order uint64) (uint64, error) {
	r := s.r
	if order > r.t.last || r.t.rows == 0 {
		return r.t.directory, nil
	}
	if r.dir == nil {
		dir, err := r.table(r.t.directory, dirMagic, (r.t.blocks+pageEntries-1)/pageEntries)
		if err != nil {
			return 0, err
		}
		r.dir = dir
	}
	p := before(r.dir, order)
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
	return entryOffset(s.page, before(s.page, order)), nil
}

// Verify reads the whole file and compares it with its index and trailer.
func (r *Reader[T]) Verify() error {
	s := r.Scan(Start)
	var page, dir []byte
	var offset uint64
	var row T
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
		err := s.Next(&row)
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
	if s.blocks != r.t.blocks || s.rows != r.t.rows || s.sum != r.t.sum || s.order != r.t.last {
		return r.fault(fault.Corrupt, "trailer", fmt.Sprintf("%d blocks, %d rows, checksum %08x, last order %d", s.blocks, s.rows, s.sum, s.order),
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
