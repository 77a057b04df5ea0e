package httpmsg

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// codingsMax is how many content codings may be stacked.
const codingsMax = 4

// zstdWindowMax is the window that RFC 9659 lets a sender use.
const zstdWindowMax = 8 << 20

// Values of Body.Truncated, which are also values of WARC-Truncated.
const (
	TruncatedLength      = "length"
	TruncatedTime        = "time"
	TruncatedDisconnect  = "disconnect"
	TruncatedUnspecified = "unspecified"
)

// Body is a payload without its codings: gzip, deflate (with or without zlib's
// frame), br and zstd, also stacked. A payload that does not begin as its gzip or
// zstd coding says, or is text where deflate or br is said, is passed as it is, since servers lie. So is text, as its media
// type and its first bytes say, that has a coding which nobody knows ("none",
// "utf-8"); Err tells. Close returns the decoders.
type Body struct {
	r         io.Reader
	left      int64
	truncated string
	err       error // why the payload ended early, or of a coding that nobody knows
	done      bool
	undo      []func()
}

// NewBody decodes the payload of a reply, as Head.Codings says, and hands out at most
// max bytes (max ≤ 0: no bound).
func NewBody(h *Head, payload io.Reader, max int64) *Body {
	b := &Body{r: payload, left: max}
	if max <= 0 {
		b.left = 1<<63 - 1
	}
	coded := h.Codings()
	if coded == "" {
		return b
	}
	codings := strings.Split(coded, ",")
	if len(codings) > codingsMax {
		b.fail(refuse("more than four content codings", "fewer"))
		return b
	}
	unknown := ""
	for i := len(codings) - 1; i >= 0; i-- {
		coding := strings.ToLower(strings.TrimSpace(codings[i]))
		switch coding {
		case "", "identity":
		case "gzip", "x-gzip", "deflate", "br", "zstd":
			if err := b.push(coding); err != nil {
				b.ended(err)
				return b
			}
		default:
			unknown = coding
		}
	}
	if unknown != "" {
		b.passOver(unknown, h.Get("Content-Type"))
	}
	return b
}

// passOver takes a body with a coding that nobody knows as it is, if it is text.
func (b *Body) passOver(coding, contentType string) {
	head, err := b.buffer().Peek(512)
	if len(head) == 0 && err == io.EOF {
		return // an empty payload is an empty body
	}
	mime, _ := MediaType(contentType)
	typed := strings.HasPrefix(mime, "text/")
	for _, word := range [...]string{"html", "xml", "json", "javascript"} {
		typed = typed || strings.Contains(mime, word)
	}
	typed = typed || mime == "" && bytes.HasPrefix(bytes.TrimLeft(head, "\xef\xbb\xbf \t\r\n"), []byte("<"))
	coding = strconv.Quote(coding[:min(len(coding), 40)])
	if typed && IsText(head) {
		b.err = refuse("text with content coding "+coding, "none")
		return
	}
	b.fail(refuse("content coding "+coding, "gzip, deflate, br or zstd"))
}

// IsText reports whether b, the first bytes of a body, has no byte that text has not
// (WHATWG MIME Sniffing, section 7.2), or begins with a byte order mark.
func IsText(b []byte) bool {
	for _, mark := range [...]string{"\xef\xbb\xbf", "\xfe\xff", "\xff\xfe"} {
		if bytes.HasPrefix(b, []byte(mark)) {
			return true
		}
	}
	return bytes.IndexFunc(b, func(r rune) bool {
		return r < ' ' && r != '\t' && r != '\n' && r != '\r' && r != '\f' && r != 0x1B
	}) < 0
}

// buffer puts a buffer above b.r.
func (b *Body) buffer() *bufio.Reader {
	in := bufPool.Get().(*bufio.Reader)
	in.Reset(b.r)
	b.undo = append(b.undo, func() { in.Reset(nil); bufPool.Put(in) })
	b.r = in
	return in
}

func (b *Body) fail(err error) {
	b.done, b.err = true, err
	if b.truncated == "" {
		b.truncated = TruncatedUnspecified
	}
}

// Read returns decoded bytes. It ends with io.EOF whatever happened to the
// payload: Truncated and Err tell.
func (b *Body) Read(p []byte) (int, error) {
	if b.done {
		return 0, io.EOF
	}
	if b.left == 0 {
		// At the bound: is there more?
		var one [1]byte
		n, err := io.ReadFull(b.r, one[:])
		if n > 0 {
			b.truncated = TruncatedLength
		} else if err != io.EOF {
			b.ended(err)
		}
		b.done = true
		return 0, io.EOF
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	if err != nil {
		b.done = true
		if err != io.EOF {
			b.ended(err)
		}
		err = io.EOF
	}
	return n, err
}

func (b *Body) ended(err error) {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		b.truncated = TruncatedDisconnect
	}
	b.fail(err)
}

// Truncated says, after io.EOF, why bytes are missing: "" (none are), "length"
// (the bound), "disconnect" (the payload ended inside its coding) or
// "unspecified" (the coding is damaged or unknown).
func (b *Body) Truncated() string { return b.truncated }

// Err is the cause where Truncated is "disconnect" or "unspecified", or tells of a
// coding that nobody knows.
func (b *Body) Err() error { return b.err }

// Close returns the decoders to their pools.
func (b *Body) Close() error {
	for i := len(b.undo) - 1; i >= 0; i-- {
		b.undo[i]()
	}
	b.undo, b.done = nil, true
	return nil
}

var (
	bufPool    = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 8<<10) }}
	gzipPool   = sync.Pool{New: func() any { return new(members) }}
	brotliPool = sync.Pool{New: func() any { return brotli.NewReader(nil) }}
	zstdPool   = sync.Pool{New: func() any {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdWindowMax))
		if err != nil {
			panic(err) // the options are constants
		}
		return d
	}}
)

// members reads the members of a gzip body. What follows the last and begins no other
// does not count, as in browsers.
type members struct {
	z  gzip.Reader
	in *bufio.Reader
}

func (m *members) reset(in *bufio.Reader) error {
	m.in = in
	if err := m.z.Reset(in); err != nil {
		return err
	}
	m.z.Multistream(false)
	return nil
}

func (m *members) Read(p []byte) (int, error) {
	for {
		n, err := m.z.Read(p)
		if n > 0 && err == io.EOF {
			err = nil // it comes again
		}
		if n > 0 || err != io.EOF {
			return n, err
		}
		if head, _ := m.in.Peek(2); !bytes.Equal(head, gzipMagic) {
			return 0, io.EOF
		}
		if err := m.reset(m.in); err != nil {
			return 0, unexpected(err)
		}
	}
}

var gzipMagic = []byte{0x1f, 0x8b}

// push puts the decoder of one coding above b.r.
func (b *Body) push(coding string) error {
	in := b.buffer()
	head, err := in.Peek(4)
	if len(head) == 0 {
		if err == io.EOF {
			return nil // an empty payload is an empty body
		}
		return err
	}
	switch coding {
	case "gzip", "x-gzip":
		if !bytes.HasPrefix(head, gzipMagic) {
			return nil
		}
		z := gzipPool.Get().(*members)
		b.undo = append(b.undo, func() { z.in = nil; gzipPool.Put(z) })
		if err := z.reset(in); err != nil {
			return unexpected(err)
		}
		b.r = z
	case "deflate":
		if plainText(in) {
			return nil
		}
		if len(head) > 1 && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
			z, err := zlib.NewReader(in)
			if err != nil {
				return unexpected(err)
			}
			b.r = z
		} else {
			b.r = flate.NewReader(in)
		}
	case "br":
		if plainText(in) {
			return nil
		}
		z := brotliPool.Get().(*brotli.Reader)
		b.undo = append(b.undo, func() { brotliPool.Put(z) })
		if err := z.Reset(in); err != nil {
			return err
		}
		b.r = z
	case "zstd":
		if !bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
			return nil
		}
		z := zstdPool.Get().(*zstd.Decoder)
		b.undo = append(b.undo, func() {
			if z.Reset(nil) == nil {
				zstdPool.Put(z)
			}
		})
		if err := z.Reset(in); err != nil {
			return unexpected(err)
		}
		b.r = z
	}
	return nil
}

// plainText reports whether what is said to be deflate or br, which begin with no magic, is text: of at least 64 bytes none is a
// control character. A coded body has one among so many but for one in a thousand.
func plainText(in *bufio.Reader) bool {
	b, _ := in.Peek(512)
	return len(b) >= 64 && IsText(b) && bytes.IndexByte(b, 0x1b) < 0
}

// unexpected turns io.EOF into io.ErrUnexpectedEOF: a coding was cut within its head.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Message is a stored reply: the block of a WARC response record.
type Message struct {
	Head    Head
	Payload io.Reader // body without transfer coding; content coding kept
}

// Open reads the head of a stored reply, as strictly as ParseHead does, and opens its payload. A block that ends
// early gives a payload that ends in io.ErrUnexpectedEOF. A body that is not chunked, although the header
// says so, is read as it is: some archivers remove the chunks. The caller decodes:
//
//	m, err := httpmsg.Open(rec.Block)
//	body := httpmsg.NewBody(&m.Head, m.Payload, 1<<20)
//	defer body.Close()
func Open(block io.Reader) (*Message, error) {
	in := bufio.NewReaderSize(block, 4<<10)
	if b, err := in.Peek(1); err == nil && Bare(b) {
		return &Message{Head: BareHead(), Payload: in}, nil
	}
	raw, lead, err := readHead(in, false)
	if err != nil {
		return nil, err
	}
	h, err := ParseHead(raw)
	if err != nil {
		return nil, err
	}
	h.Size += lead
	return &Message{Head: h, Payload: payload(&h, in)}, nil
}

// OpenArchived is Open for replies that any program archived. Of a status line the three digits after the
// first blank count ("HTTP/2 200", "HTTP 200 OK"; Head.ParseArchived). Interim replies (1xx) before the reply are
// passed over. A block that ends inside the head is a head. The body ends with the block, whatever
// Content-Length says: programs that archive decoded bodies leave the length of the coded one. A block that is
// shorter gives a payload that ends in io.ErrUnexpectedEOF.
func OpenArchived(block io.Reader) (*Message, error) {
	in := bufio.NewReaderSize(block, 4<<10)
	if b, err := in.Peek(1); err == nil && Bare(b) {
		return &Message{Head: BareHead(), Payload: in}, nil
	}
	m := &Message{}
	for size := 0; ; {
		raw, lead, err := readHead(in, true)
		if err != nil {
			return nil, err
		}
		if err := m.Head.ParseArchived(raw); err != nil {
			return nil, err
		}
		size += lead + len(raw)
		m.Head.Size = size
		if m.Head.Status >= 200 || m.Head.Status == 101 || size > ArchivedHeadMax || !archivedHead(in) {
			break
		}
	}
	m.Payload = in
	switch framing, n := m.Head.Framing(); {
	case framing == ByChunks && looksChunked(in):
		m.Payload = NewChunkedReader(in)
	case framing == ByLength:
		m.Payload = &atLeast{r: in, left: n}
	case framing == NoBody:
		m.Payload = bytes.NewReader(nil)
	}
	return m, nil
}

// archivedHead reports whether another head follows.
func archivedHead(in *bufio.Reader) bool {
	b, _ := in.Peek(64)
	b = bytes.TrimLeft(b, " \t\r\n")
	return len(b) >= 4 && (hasPrefixFold(b, "HTTP") || hasPrefixFold(b, "ICY "))
}

// readHead reads a head with its blank line. lead is how many bytes of line ends, which are no part of it, stand before.
// With short, the end of the block is the end of the head, a blank line may have more carriage returns than one, and the
// head may have ArchivedHeadMax bytes.
func readHead(in *bufio.Reader, short bool) (raw []byte, lead int, err error) {
	most := HeadMax
	if short {
		most = ArchivedHeadMax
	}
	for start := 0; ; { // of the line
		line, err := in.ReadSlice('\n')
		if len(raw) == 0 && err == nil && len(bytes.Trim(line, "\r\n")) == 0 {
			if lead += len(line); lead > HeadMax {
				return nil, 0, tooLong(HeadMax)
			}
			continue
		}
		from := len(raw)
		if raw = append(raw, line...); len(raw) > most {
			return nil, 0, tooLong(most)
		}
		if HeadEnd(raw, from) >= 0 {
			return raw, lead, nil
		}
		if err == io.EOF {
			if short && len(bytes.TrimSpace(raw)) > 0 {
				return raw, lead, nil
			}
			return nil, 0, refuse("the block ends inside the head", "a blank line")
		}
		if err != nil && err != bufio.ErrBufferFull {
			return nil, 0, err
		}
		if err == nil {
			if short && len(bytes.Trim(raw[start:], "\r\n")) == 0 {
				return raw, lead, nil
			}
			start = len(raw)
		}
	}
}

// atLeast hands out all of r, which ends in io.ErrUnexpectedEOF if that is less than left bytes.
type atLeast struct {
	r    io.Reader
	left int64
}

func (a *atLeast) Read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	a.left -= int64(n)
	if err == io.EOF && a.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// NewPayload returns the body of a reply, which begins where its head ended,
// without its transfer coding.
func NewPayload(h *Head, body io.Reader) io.Reader {
	if framing, _ := h.Framing(); framing == ByChunks {
		return payload(h, bufio.NewReaderSize(body, 64))
	}
	return payload(h, body)
}

func payload(h *Head, body io.Reader) io.Reader {
	switch framing, n := h.Framing(); framing {
	case NoBody:
		return bytes.NewReader(nil)
	case ByLength:
		return &exact{r: body, left: n}
	case ByChunks:
		if in := body.(*bufio.Reader); looksChunked(in) {
			return NewChunkedReader(in)
		}
	}
	return body
}

// BareHead is the head of a reply that has none (HTTP/0.9).
func BareHead() Head { return Head{Major: 0, Minor: 9, Status: 200} }

// looksChunked reports whether the input begins with a chunk size and, as far as the buffer has the chunk, with
// a chunk: text may begin with digits.
func looksChunked(in *bufio.Reader) bool {
	b, err := in.Peek(24)
	digits, size := 0, uint64(0)
	for digits < len(b) {
		d, ok := hexDigit(b[digits])
		if !ok {
			break
		}
		size = size<<4 | uint64(d)
		digits++
	}
	if digits == len(b) {
		return true
	}
	if digits == 0 || strings.IndexByte("; \t\r\n", b[digits]) < 0 {
		return false
	}
	if err == nil {
		b, _ = in.Peek(in.Buffered())
	}
	line := bytes.IndexByte(b, '\n')
	if line < 0 || digits > 8 || size == 0 || uint64(len(b)-line-1) <= size {
		return true
	}
	return b[line+1+int(size)] == '\r' || b[line+1+int(size)] == '\n'
}

// exact hands out left bytes; an input that has fewer ends in io.ErrUnexpectedEOF.
type exact struct {
	r    io.Reader
	left int64
}

func (e *exact) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > e.left {
		p = p[:e.left]
	}
	n, err := e.r.Read(p)
	e.left -= int64(n)
	if err == io.EOF && e.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
