package warc

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"
)

// Codec is how a record is compressed.
type Codec string

// The codecs. The empty Codec is Gzip.
const (
	Gzip Codec = "gzip" // a gzip member per record; every WARC reader has it
	Zstd Codec = "zstd" // a zstd frame per record, with content size and checksum
	None Codec = "none"
)

// Suffix is the usual end of the name of a file of this codec.
func (c Codec) Suffix() string {
	switch c {
	case Zstd:
		return ".warc.zst"
	case None:
		return ".warc"
	}
	return ".warc.gz"
}

// dateLayout keeps the microsecond, so that a fetch time survives the archive.
const dateLayout = "2006-01-02T15:04:05.000000Z"

// FormatDate is the text of an instant in WARC-Date and WARC-Refers-To-Date.
func FormatDate(t time.Time) string { return t.UTC().Format(dateLayout) }

// Encoder turns records into bytes that can be appended to a file. The zero
// value writes gzip at level 1, without block digests; blocks that a compressor made are stored. It holds no state, so many
// goroutines may encode, and one Writer append what they made.
type Encoder struct {
	Codec       Codec
	BlockDigest bool // write WARC-Block-Digest: one SHA-1 pass over the block

	// Dictionary is the dictionary of zstd frames; nil: none. The file must begin with its Frame. One goroutine.
	Dictionary *Dictionary
}

// compressor is one pooled set of what encoding needs.
type compressor struct {
	block    []byte // memory for blocks that have to be read
	header   []byte
	whole    []byte    // the record, where it is compressed in one piece
	name     [256]byte // input of a record's id, and then the id
	date     time.Time // date that dateText shows: records come in groups of one date
	dateText []byte
	out      appender
	gzip     *gzip.Writer
}

// appender is a writer that appends to a slice, for compressed bytes.
type appender []byte

func (a *appender) Write(p []byte) (int, error) {
	*a = append(*a, p...)
	return len(p), nil
}

var compressors = sync.Pool{New: func() any {
	c := &compressor{}
	c.gzip, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed)
	return c
}}

// One zstd encoder serves all goroutines through EncodeAll. The window of a frame in a single segment is all of its
// content, so records above windowMax take another encoder, with a window of 4 MiB.
var (
	zstdEncoder      = sync.OnceValue(func() *zstd.Encoder { return mustZstd(true) })
	zstdLargeEncoder = sync.OnceValue(func() *zstd.Encoder { return mustZstd(false) })
)

func newZstd(single bool, more ...zstd.EOption) (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, append([]zstd.EOption{zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(windowMax / 2), zstd.WithSingleSegment(single),
		zstd.WithEncoderCRC(true), zstd.WithLowerEncoderMem(true)}, more...)...)
}

func mustZstd(single bool) *zstd.Encoder {
	e, err := newZstd(single)
	if err != nil {
		panic(err) // the options are constants
	}
	return e
}

// keepMax bounds the buffers that go back to the pool.
const keepMax = 256 << 10

// ID returns the record id that Append gives rec: a version 5 UUID (RFC 9562
// section 5.5) of type, target URI, date and a 128-bit hash of the block. Block,
// if not nil, must be an io.Seeker and is left at its start.
func ID(rec *Record) (string, error) {
	c := compressors.Get().(*compressor)
	defer c.release()
	block, err := c.read(rec)
	if err != nil {
		return "", err
	}
	if s, ok := rec.Block.(io.Seeker); ok {
		if _, err := s.Seek(0, io.SeekStart); err != nil {
			return "", err
		}
	}
	c.format(rec.Date)
	return string(c.id(rec, block)), nil
}

// format makes dateText the text of date.
func (c *compressor) format(date time.Time) {
	if c.dateText == nil || !c.date.Equal(date) {
		c.date, c.dateText = date, date.UTC().AppendFormat(c.dateText[:0], dateLayout)
	}
}

// id is valid until the compressor's next.
func (c *compressor) id(rec *Record, block []byte) []byte {
	sum := xxh3.Hash128(block).Bytes()
	b := append(c.name[:0], idNamespace...)
	b = append(b, rec.Type...)
	b = append(b, '\n')
	b = append(b, rec.TargetURI...)
	b = append(b, '\n')
	b = append(b, c.dateText...)
	b = append(b, '\n')
	b = append(b, sum[:]...)
	u := sha1.Sum(b)
	u[6] = u[6]&0x0f | 0x50
	u[8] = u[8]&0x3f | 0x80
	out := append(b[:0], "urn:uuid:"...)
	for i, n := range [...]int{4, 6, 8, 10, 16} {
		from := 0
		if i > 0 {
			from = [...]int{0, 4, 6, 8, 10}[i]
			out = append(out, '-')
		}
		out = hex.AppendEncode(out, u[from:n])
	}
	return out
}

// idNamespace is the UUID namespace of record ids: the one for URLs in RFC 9562.
const idNamespace = "\x6b\xa7\xb8\x11\x9d\xad\x11\xd1\x80\xb4\x00\xc0\x4f\xd4\x30\xc8"

// memory is a Block that can hand out all its bytes.
type memory interface{ Whole() ([]byte, bool) }

// read returns the whole block.
func (c *compressor) read(rec *Record) (block []byte, err error) {
	size := int64(0)
	if m, ok := rec.Block.(memory); ok {
		if block, ok = m.Whole(); ok && int64(len(block)) == rec.Length {
			return block, nil
		}
	}
	if rec.Block != nil {
		s, ok := rec.Block.(io.Seeker)
		if !ok {
			return nil, fmt.Errorf("warc: block is a %T, want an io.ReadSeeker", rec.Block)
		}
		if size, err = s.Seek(0, io.SeekEnd); err != nil {
			return nil, err
		}
		if _, err := s.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
	}
	if size != rec.Length {
		return nil, fmt.Errorf("warc: block has %d bytes, want %d", size, rec.Length)
	}
	c.block = slices.Grow(c.block[:0], int(size))[:size]
	if size > 0 {
		_, err = io.ReadFull(rec.Block, c.block)
	}
	return c.block, err
}

// recordEnd follows each block.
const recordEnd = "\r\n\r\n"

// Append encodes rec as one member and appends it to dst. A record without an id
// is given the one that ID returns. The record and its compressed form are held in memory.
func (e Encoder) Append(dst []byte, rec *Record) ([]byte, error) {
	c := compressors.Get().(*compressor)
	defer c.release()
	if rec.Type == "" || rec.Date.IsZero() {
		return dst, fmt.Errorf("warc: record of type %q and date %v, want both set", rec.Type, rec.Date)
	}
	block, err := c.read(rec)
	if err != nil {
		return dst, err
	}
	c.format(rec.Date)
	if rec.ID == "" {
		rec.ID = string(c.id(rec, block))
	}
	c.header = e.appendHeader(c.header[:0], rec, c.dateText, block)
	size := len(c.header) + len(block) + len(recordEnd)
	switch e.Codec {
	case None:
		return c.appendTo(slices.Grow(dst, size), block), nil
	case Zstd:
		c.whole = c.appendTo(slices.Grow(c.whole[:0], size), block)
		if e.Dictionary != nil {
			z, err := e.Dictionary.encoder(size)
			if err != nil {
				return dst, err
			}
			return z.EncodeAll(c.whole, dst), nil
		}
		if size > windowMax {
			return zstdLargeEncoder().EncodeAll(c.whole, dst), nil
		}
		return zstdEncoder().EncodeAll(c.whole, dst), nil
	case Gzip, "":
		if size <= shortMax {
			c.whole = c.appendTo(slices.Grow(c.whole[:0], size), block)
			return appendShort(dst, c.whole), nil
		}
		if n := headLen(block); noise(block[n:]) {
			n = max(0, min(n, shortMax-len(c.header)))
			first := min(len(c.header), shortMax)
			c.whole = append(append(c.whole[:0], c.header[:first]...), block[:n]...)
			return appendStored(dst, c.whole, c.header[first:], block[n:], []byte(recordEnd)), nil
		}
		c.out = dst
		c.gzip.Reset(&c.out)
		for _, part := range [...][]byte{c.header, block, []byte(recordEnd)} {
			if _, err := c.gzip.Write(part); err != nil {
				return dst, err
			}
		}
		if err := c.gzip.Close(); err != nil {
			return dst, err
		}
		return c.out, nil
	}
	return dst, fmt.Errorf("warc: codec %q, want gzip, zstd or none", e.Codec)
}

// headLen is how long the HTTP head is with which a block begins, if it has one that is not longer than shortMax.
func headLen(block []byte) int {
	if i := bytes.Index(block[:min(len(block), shortMax)], []byte("\r\n\r\n")); i >= 0 {
		return i + 4
	}
	return 0
}

// appendTo appends the record of c.header.
func (c *compressor) appendTo(dst, block []byte) []byte {
	return append(append(append(dst, c.header...), block...), recordEnd...)
}

func (c *compressor) release() {
	if cap(c.block) > keepMax {
		c.block = nil
	}
	if cap(c.whole) > keepMax {
		c.whole = nil
	}
	c.out = nil
	compressors.Put(c)
}

func (e Encoder) appendHeader(b []byte, rec *Record, date, block []byte) []byte {
	b = append(b, "WARC/1.1\r\n"...)
	b = appendField(b, "WARC-Type", rec.Type)
	b = append(append(append(b, "WARC-Record-ID: <"...), rec.ID...), ">\r\n"...)
	b = append(append(append(b, "WARC-Date: "...), date...), "\r\n"...)
	if rec.TargetURI != "" {
		b = appendField(b, "WARC-Target-URI", rec.TargetURI)
	}
	for _, f := range rec.Fields {
		b = appendField(b, f.Name, f.Value)
	}
	if e.BlockDigest {
		b = appendField(b, FieldBlockDigest, FormatSHA1(sha1.Sum(block)))
	}
	if rec.ContentType != "" {
		b = appendField(b, "Content-Type", rec.ContentType)
	}
	b = strconv.AppendInt(append(b, "Content-Length: "...), rec.Length, 10)
	return append(b, "\r\n\r\n"...)
}

// Writer appends encoded records to a file in large writes. Errors stick.
type Writer struct {
	w      io.Writer
	buf    []byte
	offset int64 // of the next record
	err    error
}

// bufferSize is how many bytes a Writer gathers before it writes.
const bufferSize = 1 << 20

// NewWriter returns a Writer that appends to w. offset is the length of w in bytes.
func NewWriter(w io.Writer, offset int64) *Writer {
	return &Writer{w: w, offset: offset}
}

// Append adds one encoded record and returns where it begins and its length.
// The bytes are in the file only once Flush has returned.
func (w *Writer) Append(member []byte) (offset, length int64, err error) {
	if w.err != nil {
		return 0, 0, w.err
	}
	if len(w.buf)+len(member) > bufferSize {
		if err := w.Flush(); err != nil {
			return 0, 0, err
		}
	}
	offset, length = w.offset, int64(len(member))
	if len(member) >= bufferSize {
		if err := w.write(member); err != nil {
			return 0, 0, err
		}
	} else {
		w.buf = append(w.buf, member...)
	}
	w.offset += length
	return offset, length, nil
}

// Write encodes rec and appends it.
func (w *Writer) Write(rec *Record, e Encoder) (offset, length int64, err error) {
	b, err := e.Append(nil, rec)
	if err != nil {
		return 0, 0, err
	}
	return w.Append(b)
}

// Flush writes what was gathered.
func (w *Writer) Flush() error {
	if w.err != nil || len(w.buf) == 0 {
		return w.err
	}
	err := w.write(w.buf)
	w.buf = w.buf[:0]
	return err
}

func (w *Writer) write(b []byte) error {
	n, err := w.w.Write(b)
	if err == nil && n != len(b) {
		err = io.ErrShortWrite
	}
	w.err = err
	return err
}

// Offset is where the next record will begin.
func (w *Writer) Offset() int64 { return w.offset }
