package segment

import (
	"encoding/binary"
	"math"
	"strings"

	"mercator/pkg/fault"
	"mercator/pkg/fingerprint"
)

// Rows of a queue are copied column by column, without making values of Go's of them: merges copy
// most of what a frontier writes. What a column is made of stands here once more, beside
// (*Entry).fields; TestCopy compares the two.

type columnType uint8

const (
	deltas     columnType = iota // numbers, each as its difference to the last
	numbers                      // at most most
	lengths                      // the same, of the characters in the next column
	characters                   // what the lengths before it count
	fixed                        // eight bytes
)

// column is what Copy knows of one. Where flag is not 0, only rows with that flag have a value.
type column struct {
	columnType
	most uint64
	flag uint64
}

const (
	flagsColumn = 2
	urlColumn   = 3
	keyColumn   = 7
	visitColumn = 26 // the first of a visit
)

var entryColumns = [visitColumn + 7]column{
	{deltas, 0, 0}, // order
	{deltas, 0, 0}, // place
	{numbers, 0, 0},
	{lengths, MaxString, 0}, {characters, 0, 0},
	{lengths, 0, 0}, {characters, 0, 0}, // host, of rows that have none
	{fixed, 0, keyGiven},
	{numbers, math.MaxUint8, 0}, {numbers, math.MaxUint32, 0}, {numbers, math.MaxUint16, 0}, {numbers, math.MaxUint8, 0},
	{lengths, MaxString, 0}, {characters, 0, 0}, // via
	{deltas, 0, 0}, {deltas, 0, 0},
	{lengths, MaxString, 0}, {characters, 0, 0}, // addr
	{deltas, 0, 0},
	{lengths, MaxString, 0}, {characters, 0, 0}, // addr_error
	{lengths, MaxString, 0}, {characters, 0, 0}, // etag
	{lengths, MaxString, 0}, {characters, 0, 0}, // last_modified
	{fixed, 0, hasFP},
	{numbers, math.MaxUint32, hasVisit}, {numbers, math.MaxUint32, hasVisit}, {numbers, math.MaxUint64, hasVisit}, {deltas, 0, hasVisit}, {numbers, math.MaxUint8, hasVisit},
	{deltas, 0, hasVisit}, {numbers, math.MaxUint8, hasVisit},
}

// plan is how the rows left of a block are copied.
type plan struct {
	made  bool
	zeros []int  // columns in which all of them have 0; they are not read
	live  []int  // others that have values, without those of characters
	read  uint32 // rows up to which zeros are read
}

// plan makes the open block's plan.
func (s *Scanner[T]) plan() {
	p := &s.copying
	if p.made {
		return
	}
	p.made, p.read, p.zeros, p.live = true, s.row, p.zeros[:0], p.live[:0]
	for i, left := range s.c.left {
		switch f := &entryColumns[i]; {
		case f.columnType == characters:
		case i > 0 && f.flag == 0 && s.c.prev[i] == 0 && len(left) == int(s.count-s.row) && strings.Count(left, "\x00") == len(left):
			p.zeros = append(p.zeros, i)
		default:
			p.live = append(p.live, i)
		}
	}
}

// readZeros reads what Copy did not.
func (s *Scanner[T]) readZeros() {
	p := &s.copying
	for _, i := range p.zeros {
		s.c.left[i] = s.c.left[i][s.row-p.read:]
	}
	p.read = s.row
}

// Copy appends the next row of from: the bytes and the errors are those of Next and Add, at
// less cost, because no string is made and no checksum of a URL computed. io.EOF itself if
// there is no row. It is Next and Add for rows of other kinds than queues, of URLs whose host is not what
// they tell, and between segments of different features, as of an older version and this one.
func (w *Writer[T]) Copy(from *Scanner[T]) error {
	if w.err != nil {
		return w.err
	}
	order, err := from.Peek() // which also opens its block, passing over rows
	if err != nil {
		return err
	}
	if _, queue := any(&w.row).(*Entry); queue && from.r.feat == w.c.feat {
		allowed := uint64(keyGiven | hasFP)
		if w.c.feat&Visits != 0 {
			allowed |= hasVisit
		}
		if flags, n := uvarint(from.c.left[flagsColumn]); n > 0 && flags&^allowed == 0 {
			return w.copyRow(from, order, flags)
		}
	}
	if err := from.Next(&w.row); err != nil {
		return err
	}
	return w.Add(&w.row)
}

// copyRow copies the next row, which has these flags.
func (w *Writer[T]) copyRow(from *Scanner[T], order, flags uint64) error {
	if err := w.ascend(order); err != nil {
		return err
	}
	from.plan()
	from.row++
	ok := w.c.copyColumns(&from.c, &from.copying, flags)
	if ok && from.row == from.count {
		from.readZeros()
		for _, left := range from.c.left {
			ok = ok && left == ""
		}
	}
	if !ok {
		w.err = from.undecoded(from.row - 1) // what was copied of the row stands in the columns
		return w.err
	}
	from.order = order
	return w.added()
}

// copyColumns moves the first row that is left in from's columns to the end of c's. It
// reports whether the row is one that Next accepts.
func (c *coder) copyColumns(from *coder, p *plan, flags uint64) bool {
	for _, i := range p.zeros {
		c.putZero(i)
	}
	var url string
	var key, visit uint64
	for _, i := range p.live {
		f := &entryColumns[i]
		if f.flag&^flags != 0 {
			continue
		}
		left := from.left[i]
		if f.columnType == fixed {
			if len(left) < 8 {
				return false
			}
			v := binary.LittleEndian.Uint64([]byte(left[:8]))
			if i == keyColumn {
				key = v
			} else if v == 0 {
				return false
			}
			c.cols[i], from.left[i] = append(c.cols[i], left[:8]...), left[8:]
			continue
		}
		v, n := uvarint(left)
		if n == 0 {
			return false
		}
		from.left[i] = left[n:]
		if f.columnType == deltas {
			from.prev[i] += unzigzag(v)
			v = from.prev[i]
			c.putDelta(i, v)
		} else {
			if v > f.most && i != flagsColumn {
				return false
			}
			c.cols[i] = binary.AppendUvarint(c.cols[i], v)
			if f.columnType == lengths {
				chars := from.left[i+1]
				if v > uint64(len(chars)) {
					return false
				}
				c.cols[i+1], from.left[i+1] = append(c.cols[i+1], chars[:v]...), chars[v:]
				if i == urlColumn {
					url = chars[:v]
				}
			}
		}
		if i >= visitColumn {
			visit |= v
		}
	}
	if flags&keyGiven != 0 && key == fingerprint.URLKey(authority(url), url) {
		return false
	}
	return flags&hasVisit == 0 || visit != 0
}

// putDelta appends a number to a column of deltas.
func (c *coder) putDelta(i int, x uint64) {
	c.cols[i] = appendDelta(c.cols[i], x-c.prev[i])
	c.prev[i] = x
}

// putZero appends 0 to a column of numbers, lengths or deltas.
func (c *coder) putZero(i int) {
	if c.prev[i] != 0 {
		c.putDelta(i, 0)
		return
	}
	c.cols[i] = append(c.cols[i], 0)
}

// AddCoded appends a row of a queue that a RowCoder has encoded with order and place 0, of this order and place:
// the bytes and the errors are those of Decode and Add, at less cost.
func (w *Writer[T]) AddCoded(order, place uint64, row []byte) error {
	if w.err != nil {
		return w.err
	}
	entry, queue := any(&w.row).(*Entry)
	if !queue {
		return &fault.Error{Class: fault.Usage, File: w.name, Found: "an encoded row for another kind than a queue"}
	}
	if len(row) <= flagsColumn || row[0]|row[1] != 0 {
		return undecodedRow()
	}
	if flags := uint64(row[flagsColumn]); flags&^(keyGiven|hasFP) == 0 {
		if err := w.ascend(order); err != nil {
			return err
		}
		w.c.putDelta(0, order)
		w.c.putDelta(1, place)
		if !w.c.copyCoded(row[flagsColumn:], flags) {
			w.err = undecodedRow()
			return w.err
		}
		return w.added()
	}
	var coded RowCoder[Entry]
	if err := coded.Decode(row, entry); err != nil {
		return err
	}
	entry.Key, entry.Place = order, place
	return w.Add(&w.row)
}

// copyCoded moves a row without visit, from its flags on, to the end of c's columns. It
// reports whether the row is one that Decode accepts.
func (c *coder) copyCoded(row []byte, flags uint64) bool {
	var url string
	var key uint64
	for i := flagsColumn; i < visitColumn; i++ {
		f := &entryColumns[i]
		switch {
		case f.columnType == characters || f.flag&^flags != 0:
			continue
		case f.columnType == fixed:
			if len(row) < 8 {
				return false
			}
			v := binary.LittleEndian.Uint64(row)
			if i == keyColumn {
				key = v
			} else if v == 0 {
				return false
			}
			c.cols[i], row = append(c.cols[i], row[:8]...), row[8:]
			continue
		case len(row) > 0 && row[0] == 0:
			c.putZero(i)
			row = row[1:]
			continue
		}
		v, n := binary.Uvarint(row)
		if n <= 0 {
			return false
		}
		row = row[n:]
		if f.columnType == deltas {
			c.putDelta(i, unzigzag(v))
			continue
		}
		if v > f.most && i != flagsColumn {
			return false
		}
		c.cols[i] = binary.AppendUvarint(c.cols[i], v)
		if f.columnType == lengths {
			if v > uint64(len(row)) {
				return false
			}
			if i == urlColumn && flags&keyGiven != 0 {
				url = string(row[:v])
			}
			c.cols[i+1], row = append(c.cols[i+1], row[:v]...), row[v:]
		}
	}
	return len(row) == 0 && (flags&keyGiven == 0 || key != fingerprint.URLKey(authority(url), url))
}
