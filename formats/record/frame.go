package record

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"
)

// zstd's numbers (RFC 8878, section 3.1.1).
const (
	zstdMagic  = 0xFD2FB528
	arrowMagic = 0xFFFFFFFF
	blockMax   = 128 << 10
	blockRaw   = 0
	blockRLE   = 1
	blockZstd  = 2

	// Descriptor of the frames that are written: 4-byte content size, single segment, checksum.
	storedDescriptor = 0xA4
)

// appendStored appends a zstd frame of raw blocks: no compression, but a
// content size and a checksum.
func appendStored(dst, content []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, zstdMagic)
	dst = append(dst, storedDescriptor)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(content)))
	for rest := content; ; {
		n := min(len(rest), blockMax)
		head := uint32(n)<<3 | blockRaw<<1
		if n == len(rest) {
			head |= 1 // last block
		}
		dst = append(dst, byte(head), byte(head>>8), byte(head>>16))
		dst = append(dst, rest[:n]...)
		if rest = rest[n:]; len(rest) == 0 {
			break
		}
	}
	return binary.LittleEndian.AppendUint32(dst, uint32(xxhash.Sum64(content)))
}

// atOnce bounds the messages that are compressed, and those that are decompressed, at a time by one process.
var atOnce = min(runtime.GOMAXPROCS(0), 4)

// encoder compresses the messages of all streams. A message is seldom longer than the window (batchBytes), which is what
// a compressor keeps in memory. It and decoder are complete when the program starts: they have
// channels, and channels that are made in a bubble of testing/synctest are of no use outside.
var encoder = func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(true),
		zstd.WithWindowSize(1<<20), zstd.WithSingleSegment(true), zstd.WithLowerEncoderMem(true), zstd.WithEncoderConcurrency(atOnce))
	if err != nil {
		panic(err) // the options are constants
	}
	e.EncodeAll(nil, nil)
	return e
}()

// packMin is the shortest content that is compressed, in bytes. For less the compressor's table, 256 KiB, takes longer to
// come from the system than all else that a stream of few rows costs, and a file takes a block of the disk anyway.
const packMin = 4 << 10

// appendPacked appends a compressed frame; a stored one if the content is short.
func appendPacked(dst, content []byte) []byte {
	if len(content) < packMin {
		return appendStored(dst, content)
	}
	return encoder.EncodeAll(content, dst)
}

// decoder decompresses the frames of all streams.
var decoder = func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(atOnce), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(MaxMessage))
	if err != nil {
		panic(err) // the options are constants
	}
	return d
}()

// errCut says that the input ended inside a frame or message.
var errCut = errors.New("cut")

// framer reads an input frame by frame, or bare Arrow message by message. It
// allocates for what has arrived, or up to MaxMessage for what a checked header says.
type framer struct {
	in       *bufio.Reader
	bare     bool  // bare Arrow
	n        int   // number of the current frame; the first is 1
	at       int64 // where it begins
	off      int64 // bytes read
	wire     xxh3.Hasher
	buf      []byte // the current frame as it came
	maxBytes int    // bytes that the current frame can have at most, once that is known
}

// place says where the current frame is.
func (f *framer) place() string {
	unit := "frame"
	if f.bare {
		unit = "message"
	}
	return fmt.Sprintf("%s %d at byte %d", unit, f.n, f.at)
}

// beginFrame starts the next frame. io.EOF means that the input ended before it.
func (f *framer) beginFrame() (magic uint32, err error) {
	f.n++
	f.at = f.off
	f.buf = f.buf[:0]
	f.maxBytes = blockMax
	switch err := f.readBytes(4); {
	case err == errCut && len(f.buf) == 0:
		return 0, io.EOF
	case err != nil:
		return 0, err
	}
	return binary.LittleEndian.Uint32(f.buf), nil
}

// readBytes appends n more bytes of the input to f.buf; errCut if there are fewer.
// The buffer grows with what arrives, not with n.
func (f *framer) readBytes(n int) error {
	for n > 0 {
		step := min(n, blockMax)
		old := len(f.buf)
		if cap(f.buf)-old < step {
			grown := make([]byte, old, max(min(2*cap(f.buf), f.maxBytes), old+step))
			copy(grown, f.buf)
			f.buf = grown
		}
		got, err := io.ReadFull(f.in, f.buf[old:old+step])
		f.buf = f.buf[:old+got]
		f.off += int64(got)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return errCut
		}
		if err != nil {
			return &readError{err}
		}
		n -= step
	}
	return nil
}

// readError is an error of the input itself, not of what is in it.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }
func (e *readError) Unwrap() error { return e.err }

// message reads the rest of a zstd frame and returns its content, in memory of its own.
func (f *framer) message(limit int) ([]byte, error) {
	p, err := f.packed(limit)
	if err != nil {
		return nil, err
	}
	return f.unpack(p)
}

// packed is a whole frame in f.buf, not yet decoded.
type packed struct {
	size  int  // of the content
	first int  // where the blocks begin
	raw   bool // no block is compressed
}

// packed reads the rest of a zstd frame.
func (f *framer) packed(limit int) (p packed, err error) {
	if err := f.readBytes(1); err != nil {
		return p, err
	}
	d := f.buf[4]
	single := d&0x20 != 0
	switch {
	case d&0x08 != 0:
		return p, errors.New("a reserved bit of the zstd frame is set")
	case d&0x03 != 0:
		return p, errors.New("a zstd frame with a dictionary")
	case d&0x04 == 0:
		return p, errors.New("a zstd frame without a checksum")
	case d>>6 == 0 && !single:
		return p, errors.New("a zstd frame without a content size")
	}
	sizeBytes := 1 << (d >> 6)
	head := sizeBytes
	if !single {
		head++ // window descriptor
	}
	if err := f.readBytes(head); err != nil {
		return p, err
	}
	var sz [8]byte
	copy(sz[:], f.buf[len(f.buf)-sizeBytes:])
	size := binary.LittleEndian.Uint64(sz[:])
	if sizeBytes == 2 {
		size += 256
	}
	if size > uint64(limit) {
		return p, fmt.Errorf("a message of %d bytes, want at most %d", size, limit)
	}
	p.size, p.first = int(size), len(f.buf)
	if p.raw, err = f.blocks(p.size); err != nil {
		return p, err
	}
	f.wire.Write(f.buf)
	return p, nil
}

// unpack returns the content of the frame in f.buf, in memory of its own.
func (f *framer) unpack(p packed) (content []byte, err error) {
	if p.raw {
		return f.join(p.first, p.size)
	}
	if content, err = decoder.DecodeAll(f.buf, make([]byte, 0, p.size)); err != nil {
		return nil, err
	}
	if len(content) != p.size {
		return nil, fmt.Errorf("%d bytes in a zstd frame that says %d", len(content), p.size)
	}
	return content, nil
}

// blocks reads all blocks of a frame and its checksum; raw says that none is compressed. Raw blocks have size bytes together, so that
// f.most bounds how many there are.
func (f *framer) blocks(size int) (raw bool, err error) {
	raw = true
	sum := 0
	f.maxBytes = len(f.buf) + size + size>>8 + 1024
	for last := false; !last; {
		if err := f.readBytes(3); err != nil {
			return raw, err
		}
		b := f.buf[len(f.buf)-3:]
		head := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
		last = head&1 != 0
		n := int(head >> 3)
		if n > blockMax {
			return raw, fmt.Errorf("a zstd block of %d bytes, want at most %d", n, blockMax)
		}
		switch head >> 1 & 3 {
		case blockRaw:
		case blockRLE:
			raw, n = false, 1
		case blockZstd:
			raw = false
		default:
			return raw, errors.New("a zstd block of the reserved type")
		}
		if len(f.buf)+n > f.maxBytes {
			return raw, fmt.Errorf("more bytes in a zstd frame than its %d of content can need", size)
		}
		if err := f.readBytes(n); err != nil {
			return raw, err
		}
		sum += n
	}
	if raw && sum != size {
		return raw, fmt.Errorf("raw blocks that do not make the %d bytes that the zstd frame says", size)
	}
	return raw, f.readBytes(4)
}

// keepBuffer is the content size from which join makes the frame's buffer into
// the content: one copy less of what may be 16 MiB.
const keepBuffer = 2 << 20

// join puts the raw blocks of the frame, which begin at f.buf[at:], together.
func (f *framer) join(at, size int) ([]byte, error) {
	end := len(f.buf) - 4
	want := binary.LittleEndian.Uint32(f.buf[end:])
	var blocks [][]byte
	for at < end {
		b := f.buf[at:]
		n := int((uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16) >> 3)
		blocks = append(blocks, b[3:3+n])
		at += 3 + n
	}
	whole := size >= keepBuffer
	var content []byte
	if whole {
		content = f.buf[:0]
		for _, b := range blocks {
			content = append(content, b...)
		}
	} else {
		content = bytes.Join(blocks, nil) // in memory that is not cleared before
	}
	if got := uint32(xxhash.Sum64(content)); got != want {
		return nil, &checksumError{got, want}
	}
	if whole {
		f.buf = nil
	}
	return content, nil
}

type checksumError struct{ got, want uint32 }

func (e *checksumError) Error() string { return fmt.Sprintf("checksum %08x", e.got) }

// trailer reads the rest of a skippable frame.
func (f *framer) trailer() ([]byte, error) {
	if err := f.readBytes(4); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(f.buf[4:])
	if n < trailerFixed-8+trailerSum || n > trailerFixed-8+trailerSum+MaxLedger {
		return nil, fmt.Errorf("a trailer of %d bytes, want %d to %d", n, trailerFixed-8+trailerSum, trailerFixed-8+trailerSum+MaxLedger)
	}
	f.maxBytes = 8 + int(n)
	if err := f.readBytes(int(n)); err != nil {
		return nil, err
	}
	return f.buf, nil
}

// arrow reads the rest of a bare Arrow message and returns it whole, in memory
// of its own.
func (f *framer) arrow(limit int) ([]byte, error) {
	if err := f.readBytes(4); err != nil {
		return nil, err
	}
	n := int64(int32(binary.LittleEndian.Uint32(f.buf[4:])))
	if n == 0 {
		return f.buf, nil
	}
	if n < 0 || n%8 != 0 || n > int64(limit) {
		return nil, fmt.Errorf("metadata of %d bytes", n)
	}
	f.maxBytes = limit + 8
	if err := f.readBytes(int(n)); err != nil {
		return nil, err
	}
	fl := &flat{b: f.buf[8:]}
	body := fl.root().i64(3)
	if fl.err != nil {
		return nil, fl.err
	}
	if body < 0 || body > int64(limit)-n {
		return nil, fmt.Errorf("a message with a body of %d bytes, want at most %d", body, int64(limit)-n)
	}
	if err := f.readBytes(int(body)); err != nil {
		return nil, err
	}
	msg := f.buf
	f.buf = nil // rows share its memory
	return msg, nil
}
