package warc

import (
	"bufio"
	"errors"
	"io"
)

const frameMagic = 0xfd2fb528

var (
	errFrame      = errors.New("damaged frame header")
	errDictionary = errors.New("a frame that needs dictionary")
)

// frameReader reads exactly one zstd frame of its input (RFC 8878 section 3.1.1),
// so that the decoder, which reads ahead, stops where the record does.
type frameReader struct {
	in       *bufio.Reader
	started  bool
	checksum bool
	left     int // bytes of the current part that may be passed on
	last     bool
	done     bool
}

func (f *frameReader) Read(p []byte) (int, error) {
	for f.left == 0 {
		if f.done {
			return 0, io.EOF
		}
		if err := f.part(); err != nil {
			return 0, err
		}
	}
	n, err := f.in.Read(p[:min(len(p), f.left)])
	f.left -= n
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// complete reports whether the whole frame was read.
func (f *frameReader) complete() bool { return f.done && f.left == 0 }

// part sets left to the size of the next part: frame header, a block with its
// header, or the checksum.
func (f *frameReader) part() error {
	switch {
	case !f.started:
		b, err := f.in.Peek(5)
		if err != nil {
			return f.short(err)
		}
		d := b[4]
		f.checksum = d&4 != 0
		if d&8 != 0 {
			return errFrame
		}
		f.left = 5 + [...]int{0, 2, 4, 8}[d>>6] + [...]int{0, 1, 2, 4}[d&3]
		if single := d&0x20 != 0; !single || d>>6 == 0 {
			f.left++ // window descriptor, or the one-byte content size
		}
		f.started = true
	case !f.last:
		b, err := f.in.Peek(3)
		if err != nil {
			return f.short(err)
		}
		h := int(b[0]) | int(b[1])<<8 | int(b[2])<<16
		f.last = h&1 != 0
		f.left = 3 + h>>3
		if h>>1&3 == 1 { // RLE: one byte
			f.left = 4
		}
		f.done = f.last && !f.checksum
	default:
		f.left, f.done = 4, true
	}
	return nil
}

// short uses up what is left of an input that ends inside the frame.
func (f *frameReader) short(err error) error {
	if err == io.EOF {
		f.in.Discard(f.in.Buffered())
		return io.ErrUnexpectedEOF
	}
	return err
}
