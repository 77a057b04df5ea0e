package httpmsg

import (
	"io"
	"strconv"
)

// lineMax bounds a chunk-size line with its extensions; trailersMax all trailers together.
const (
	lineMax     = 4 << 10
	trailersMax = 64 << 10
)

type chunkState uint8

const (
	chunkSize chunkState = iota
	chunkExt             // after the digits, up to the line's end
	chunkData
	chunkDataEnd // the line end after the data
	chunkTrailer // at the start of a trailer line
	chunkTrailerLine
	chunkDone
)

// Chunked takes a chunked body (RFC 9112 section 7.1) apart as it arrives. The
// zero value stands before the first chunk. It accepts LF for CRLF, white space
// and extensions after a size, and skips trailers.
type Chunked struct {
	state chunkState
	left  uint64 // bytes of the chunk to come
	line  int    // bytes of the line, or of all trailers, so far
}

// Done reports whether the body's end has been seen.
func (c *Chunked) Done() bool { return c.state == chunkDone }

// Next consumes the start of p: used bytes, with the payload data among them. It
// returns at the end of each run of payload; call it until used is len(p), Done
// or an error.
func (c *Chunked) Next(p []byte) (data []byte, used int, err error) {
	for i := 0; i < len(p); i++ {
		b := p[i]
		switch c.state {
		case chunkSize:
			d, isHex := hexDigit(b)
			switch {
			case isHex:
				if c.left>>60 != 0 {
					return nil, i, refuse("a chunk size beyond 64 bits", "less")
				}
				if c.line++; c.line > lineMax {
					return nil, i, refuse("a chunk size longer than "+strconv.Itoa(lineMax)+" digits", "a shorter one")
				}
				c.left = c.left<<4 | uint64(d)
				continue
			case c.line == 0:
				return nil, i, refuse("chunk size line beginning "+strconv.QuoteRune(rune(b)), "a hexadecimal number")
			case b != ';' && b != ' ' && b != '\t' && b != '\r' && b != '\n':
				return nil, i, refuse("chunk size ending in "+strconv.QuoteRune(rune(b)), "a hexadecimal number")
			}
			c.state = chunkExt
			i-- // again, as the line's rest
		case chunkExt:
			if c.line++; c.line > lineMax {
				return nil, i, refuse("a chunk size line longer than "+strconv.Itoa(lineMax)+" bytes", "a shorter one")
			}
			if b != '\n' {
				continue
			}
			c.line = 0
			c.state = chunkData
			if c.left == 0 {
				c.state = chunkTrailer
			}
		case chunkData:
			n := min(uint64(len(p)-i), c.left)
			c.left -= n
			if c.left == 0 {
				c.state = chunkDataEnd
			}
			return p[i : i+int(n)], i + int(n), nil
		case chunkDataEnd:
			switch b {
			case '\r':
			case '\n':
				c.state = chunkSize
			default:
				return nil, i, refuse(strconv.QuoteRune(rune(b))+" after a chunk", "the end of the line")
			}
			if c.line++; c.line > 2 {
				return nil, i, refuse("carriage returns after a chunk", "the end of the line")
			}
			if c.state == chunkSize {
				c.line = 0
			}
		case chunkTrailer, chunkTrailerLine:
			if c.line++; c.line > trailersMax {
				return nil, i, refuse("trailers longer than "+strconv.Itoa(trailersMax)+" bytes", "shorter ones")
			}
			switch {
			case b == '\n' && c.state == chunkTrailer:
				c.state = chunkDone
				return nil, i + 1, nil
			case b == '\n':
				c.state = chunkTrailer
			case b != '\r':
				c.state = chunkTrailerLine
			}
		case chunkDone:
			return nil, i, nil
		}
	}
	return nil, len(p), nil
}

func hexDigit(b byte) (byte, bool) {
	switch {
	case '0' <= b && b <= '9':
		return b - '0', true
	case 'a' <= b && b <= 'f':
		return b - 'a' + 10, true
	case 'A' <= b && b <= 'F':
		return b - 'A' + 10, true
	}
	return 0, false
}

// NewChunkedReader returns the payload of a chunked body. An input that ends
// before the body does gives io.ErrUnexpectedEOF.
func NewChunkedReader(in io.Reader) io.Reader { return &chunkedReader{in: in} }

type chunkedReader struct {
	in  io.Reader
	c   Chunked
	buf [8 << 10]byte
	raw []byte // of buf, not consumed
	err error
}

func (r *chunkedReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if r.c.Done() {
			return 0, io.EOF
		}
		if len(r.raw) > 0 {
			// No more than fits into p, so that data needs no second buffer.
			data, used, err := r.c.Next(r.raw[:min(len(r.raw), len(p))])
			n := copy(p, data)
			r.raw = r.raw[used:]
			if n > 0 || err != nil {
				return n, err
			}
			continue
		}
		if r.err != nil {
			if r.err == io.EOF {
				return 0, io.ErrUnexpectedEOF
			}
			return 0, r.err
		}
		n, err := r.in.Read(r.buf[:])
		r.raw, r.err = r.buf[:n], err
	}
}
