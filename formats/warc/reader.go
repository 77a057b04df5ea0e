package warc

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"mercator/pkg/base/fault"
)

// ReaderOptions say how a file is read.
type ReaderOptions struct {
	Name   string // file name for messages
	Offset int64  // of the input's first byte in the file
	Verify bool   // check WARC-Block-Digest where a record has one (SHA-1 only)
	CRC    bool   // for Reader.Inflated

	HeaderMax int // bytes of a record header; 0: 64 KiB
	FieldsMax int // named fields of a header; 0: 512

	// Tolerance is for archives of other programs; nil: what SPEC.md's R1 to R16 say is refused.
	Tolerance *Tolerance
}

// Bounds of a header, and those where there is a Tolerance.
const (
	headerMax         = 64 << 10
	headerFieldsMax   = 512
	tolerantHeaderMax = 1 << 20
	tolerantFieldsMax = 4096
)

// windowMax bounds a zstd frame's window, and so a Reader's memory.
const windowMax = 8 << 20

// Reader reads the records of a WARC file in order. Each record may be a gzip
// member, a zstd frame or bare.
type Reader struct {
	opt   ReaderOptions
	src   counter
	in    *bufio.Reader // over src
	inner *bufio.Reader // over the member that is open
	plain *bufio.Reader // where the record comes from: inner, or in if it is bare
	gz    *gzip.Reader
	zs    *zstd.Decoder
	frame frameReader
	codec Codec
	head  int64       // bytes of the gzip member's header
	crc   hash.Hash32 // of what the member inflates to; nil: not asked for

	rec    Record
	block  block
	open   bool // a record was handed out and its end not read yet
	number int64
	start  int64 // offset of the record
	good   int64
	err    error

	dict     *Dictionary // dictionary at the begin of the file
	dictOf   string      // the file
	withDict *zstd.Decoder
	file     io.ReaderAt // of At

	tolerant
}

// tolerant is the extra state of a Reader with a Tolerance.
type tolerant struct {
	front  []byte       // first bytes of the file
	seen   bool         // a record was found
	held   *fault.Error // the first damage, until a record is found
	damage *fault.Error // damage that ended the current record
	arc    bool         // there are ARC records
	isARC  bool         // the current record is one
	member int64        // offset of the member that was opened last
	broken bool         // the member does not decompress
	more   bool         // the member goes on with a record
	last   Codec        // of the last record that was found
	inside bool         // the current record is not the first of its member

	lengths []int64 // of the current record that are longer than the one that is tried, ascending
}

// NewReader reads records from in.
func NewReader(in io.Reader, opt ReaderOptions) *Reader {
	if opt.HeaderMax == 0 {
		if opt.HeaderMax = headerMax; opt.Tolerance != nil {
			opt.HeaderMax = tolerantHeaderMax
		}
	}
	if opt.FieldsMax == 0 {
		if opt.FieldsMax = headerFieldsMax; opt.Tolerance != nil {
			opt.FieldsMax = tolerantFieldsMax
		}
	}
	r := &Reader{opt: opt, src: counter{keeps: opt.Tolerance != nil}, good: opt.Offset}
	r.src.open(in)
	r.in = bufio.NewReaderSize(&r.src, 64<<10)
	return r
}

// OpenAt returns the record at offset of a file. length is its length there, as
// Writer.Append returned it; 0 reads as far as the record goes.
func OpenAt(file io.ReaderAt, offset, length int64, opt ReaderOptions) (*Record, *Reader, error) {
	r := NewReader(nil, opt)
	rec, err := r.At(file, opt.Name, offset, length)
	return rec, r, err
}

// At is OpenAt with a Reader that was used before, for its memory and decompressors.
// name is the file's name for messages.
func (r *Reader) At(file io.ReaderAt, name string, offset, length int64) (*Record, error) {
	from := max(offset, 0)
	if length <= 0 {
		length = 1<<63 - 1 - from
	}
	r.opt.Name, r.opt.Offset = name, offset
	r.src.open(io.NewSectionReader(file, from, length))
	r.in.Reset(&r.src)
	r.open, r.number, r.start, r.good, r.err = false, 0, offset, offset, nil
	r.tolerant, r.file = tolerant{front: r.front[:0:0]}, file
	if offset < 0 {
		return nil, r.fault(fault.Corrupt, "a negative offset", "the place of a record")
	}
	rec, err := r.Next()
	if err == io.EOF {
		err = r.fault(fault.Truncated, "end of file", "a record")
	}
	return rec, err
}

// tolerantVersion judges the first line of a record. arc: it was the line of an ARC record, which has no further header.
func (r *Reader) tolerantVersion(line string, left int) (arc bool, err error) {
	if a, ok := parseARC(line); ok {
		if strings.HasSuffix(line, " -1") {
			r.odd("length", "Archive-length -1")
		}
		r.arcRecord(a, left)
		return true, nil
	}
	v, ok := strings.CutPrefix(line, "WARC/")
	if !ok && isWARC([]byte(line)) {
		v, ok = line[len("WARC/"):], true
		r.odd("version", fmt.Sprintf("version line %q", cut([]byte(line))))
	}
	if words := strings.Fields(v); ok && len(words) > 1 && isVersion(words[0]) {
		return false, r.fault(fault.Version, "version "+words[0]+", which has its header in one line", "0.17 to 1.1")
	}
	if v = strings.TrimSpace(v); !ok || !isVersion(v) {
		return false, r.fault(fault.Corrupt, fmt.Sprintf("version line %q", cut([]byte(line))), `"WARC/1.1"`)
	}
	if v != "1.0" && v != "1.1" {
		r.odd("version", "version "+v)
	}
	return false, nil
}

// oddLine notes a header line that does not end in CRLF.
func (r *Reader) oddLine(line []byte) {
	if !r.isARC && (r.rec.Length < 0 || !r.open) {
		if isLF := len(line) < 2 || line[len(line)-2] != '\r'; isLF {
			if _, ok := parseARC(string(line)); !ok {
				r.odd("line feeds", fmt.Sprintf("header line %q ends without a carriage return", cut(line)))
			}
			return
		}
		r.odd("carriage returns", fmt.Sprintf("header line %q ends with several carriage returns", cut(line)))
	}
}

// Good is the offset of the first byte after the last record that was read
// whole. When a file's tail is damaged, what stands before Good is sound.
func (r *Reader) Good() int64 { return r.good }

// Number is how many records Next has returned.
func (r *Reader) Number() int64 { return r.number }

// Codec says how the current record was compressed.
func (r *Reader) Codec() Codec { return r.codec }

// Inflated describes the gzip member of the current record when that was read whole
// (Finish): the bytes of its header, and the CRC-32 of what it inflates to if
// ReaderOptions.CRC asked for it.
func (r *Reader) Inflated() (header int64, crc uint32) {
	if r.crc != nil {
		crc = r.crc.Sum32()
	}
	return r.head, crc
}

// Close releases the decompressor. Records are not to be used afterwards.
func (r *Reader) Close() {
	if r.zs != nil {
		r.zs.Close()
		r.zs = nil
	}
	r.forgetDictionary()
	if r.err == nil {
		r.err = errClosed
	}
}

var errClosed = errors.New("warc: reader is closed")

func (r *Reader) offset() int64 { return r.opt.Offset + r.src.n - int64(r.in.Buffered()) }

func (r *Reader) fault(class fault.Class, found, want string) error {
	return &fault.Error{Class: class, File: r.opt.Name, Place: r.place(), Found: found, Want: want}
}

func (r *Reader) place() string { return fmt.Sprintf("record %d at byte %d", r.number, r.start) }

// fail turns an error from reading the member into a fault with its place.
// io.EOF from a decompressor is the member's proper end, come too early.
func (r *Reader) fail(err error) error {
	var f *fault.Error
	if r.codec == Zstd && err == io.EOF && !r.frame.complete() {
		err = io.ErrUnexpectedEOF // the decoder does not always tell them apart
	}
	switch {
	case errors.As(err, &f):
		return err
	case r.codec != None && err != io.EOF:
		r.broken = true
	}
	switch {
	case r.src.err != nil && r.src.err != io.EOF:
		return &fault.Error{File: r.opt.Name, Place: r.place(), Err: r.src.err}
	case errors.Is(err, errDictionary):
		return r.fault(fault.Version, err.Error(), "the dictionary at the beginning of the file")
	case err == io.EOF && r.codec != None:
		return r.fault(fault.Corrupt, string(r.codec)+" member ends inside the record", "the whole record in one member")
	case (err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF)) && r.src.err == io.EOF && r.in.Buffered() == 0:
		return r.fault(fault.Truncated, "file ends inside the record", "")
	}
	return r.fault(fault.Corrupt, string(r.codec)+": "+err.Error(), "")
}

// Next reads the rest of the record before, checks its end, and returns the
// header of the next one. io.EOF comes only after a whole record, or from an
// empty input. The Record is reused by the following call.
//
// With a Tolerance it skips damage. If the block or end of a record is damaged, Read, Finish and
// CheckPayload report it (Damaged); the next call of Next goes on.
func (r *Reader) Next() (*Record, error) {
	if r.opt.Tolerance != nil {
		return r.nextTolerant()
	}
	if r.err != nil {
		return nil, r.err
	}
	rec, err := r.next()
	if err != nil {
		r.err = err
		return nil, err
	}
	return rec, nil
}

func (r *Reader) next() (*Record, error) {
	if err := r.finish(); err != nil {
		return nil, err
	}
	if err := r.openMember(); err != nil {
		return nil, err
	}
	if err := r.header(); err != nil {
		return nil, err
	}
	r.rec.Inside = r.inside
	r.block = block{r: r, left: r.rec.Length}
	if r.opt.Verify {
		if want, ok := parseSHA1(r.rec.Get(FieldBlockDigest)); ok {
			r.block.sum, r.block.want = sha1.New(), want
			r.block.settle()
			if err := r.block.verify(); err != nil { // of an empty block nothing is read
				return nil, err
			}
		}
	}
	r.rec.Block = &r.block
	r.open = true
	return &r.rec, nil
}

// Finish reads the rest of the current record and checks its end, so that Good
// counts it. Next does the same.
func (r *Reader) Finish() error {
	if r.err != nil {
		return r.err
	}
	if err := r.finish(); err != nil {
		return r.ended(err)
	}
	return nil
}

func (r *Reader) finish() error {
	if !r.open {
		return nil
	}
	if r.opt.Tolerance != nil {
		return r.finishTolerant()
	}
	if _, err := io.Copy(io.Discard, &r.block); err != nil {
		return err
	}
	var end [4]byte
	for i := range end {
		var err error
		if end[i], err = r.plain.ReadByte(); err != nil {
			return r.fail(err)
		}
	}
	if string(end[:]) != "\r\n\r\n" {
		return r.fault(fault.Corrupt, fmt.Sprintf("%q after the block", end[:]), `"\r\n\r\n"`)
	}
	if r.codec != None {
		switch _, err := r.plain.ReadByte(); err {
		case io.EOF:
		case nil:
			return &fault.Error{Class: fault.Corrupt, File: r.opt.Name, Place: r.place(),
				Found: string(r.codec) + " member goes on after the record", Want: "one record in a member",
				Hint: "a file that was compressed as a whole can be read after decompressing it"}
		default:
			return r.fail(err)
		}
	}
	r.open = false
	r.good = r.offset()
	return nil
}

// openMember finds out how the next record is compressed and opens it.
func (r *Reader) openMember() error {
	if r.opt.Tolerance != nil {
		return r.openTolerant()
	}
	r.start = r.offset()
	r.number++
	r.codec = None
	magic, err := r.in.Peek(5)
	if len(magic) == 0 {
		if err == io.EOF {
			r.number--
			return io.EOF
		}
		return r.fail(err)
	}
	if err != nil && err != io.EOF {
		return r.fail(err)
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}), len(magic) >= 4 && binary.LittleEndian.Uint32(magic) == frameMagic:
		if err := r.openCodec(); err != nil {
			return r.failHead(err)
		}
	case isSkippable(magic):
		if err := r.skippable(); err != nil {
			return err
		}
		r.number--
		return r.openMember()
	case strings.HasPrefix("WARC/", string(magic)):
		r.plain = r.in // bare, perhaps cut; header tells
	default:
		if isPrefixOfMagic(magic) {
			return r.fault(fault.Truncated, "file ends inside the record", "")
		}
		return r.fault(fault.Corrupt, fmt.Sprintf("%q", magic), `"WARC/", a gzip member or a zstd frame`)
	}
	return nil
}

// openCodec opens the gzip member or the zstd frame that is next.
func (r *Reader) openCodec() (err error) {
	magic, _ := r.in.Peek(2)
	if magic[0] == 0x1f {
		r.codec = Gzip
		start := r.offset()
		if r.gz == nil {
			r.gz = new(gzip.Reader)
		}
		if err := r.gz.Reset(r.in); err != nil {
			return err
		}
		r.gz.Multistream(false)
		r.head = r.offset() - start
		if r.opt.CRC {
			r.crc = crc32.NewIEEE()
			r.wrap(io.TeeReader(r.gz, r.crc))
		} else {
			r.wrap(r.gz)
		}
		return nil
	}
	r.codec = Zstd
	z, err := r.decoder()
	if err != nil {
		return err
	}
	r.frame = frameReader{in: r.in}
	if err := z.Reset(&r.frame); err != nil {
		return err
	}
	r.wrap(z)
	return nil
}

// failHead is fail for an error at a member's head, where no more is read.
func (r *Reader) failHead(err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return r.fail(err)
}

func isPrefixOfMagic(b []byte) bool {
	return strings.HasPrefix("\x1f\x8b", string(b)) || strings.HasPrefix("\x28\xb5\x2f\xfd", string(b))
}

func (r *Reader) wrap(in io.Reader) {
	if r.inner == nil {
		r.inner = bufio.NewReaderSize(in, 16<<10)
	}
	r.inner.Reset(in)
	r.plain = r.inner
}

// line reads one header line without its CRLF.
func (r *Reader) line(left *int) (string, error) {
	var long []byte
	for {
		part, err := r.plain.ReadSlice('\n')
		if *left -= len(part); *left < 0 {
			return "", r.fault(fault.Corrupt, fmt.Sprintf("header longer than %d bytes", r.opt.HeaderMax), "a shorter one")
		}
		if err != nil || long != nil { // the buffer is used again, by carriesOn too
			long = append(long, part...)
			part = long
		}
		if err == bufio.ErrBufferFull || err == io.EOF && r.codec != None && r.carriesOn() {
			continue
		}
		if err != nil {
			return "", r.fail(err)
		}
		if r.opt.Tolerance != nil {
			line := bytes.TrimRight(part, "\r\n")
			if len(part)-len(line) != 2 {
				r.oddLine(part)
			}
			return string(line), nil
		}
		if len(part) < 2 || part[len(part)-2] != '\r' {
			return "", r.fault(fault.Corrupt, fmt.Sprintf("header line %q ends without a carriage return", cut(part)), "CRLF")
		}
		return string(part[:len(part)-2]), nil
	}
}

// cut shortens what a message quotes.
func cut(b []byte) []byte {
	b = bytes.TrimRight(b, "\r\n")
	return b[:min(len(b), 60)]
}

func (r *Reader) header() error {
	left := r.opt.HeaderMax
	version, err := r.line(&left)
	if err != nil {
		return err
	}
	r.isARC, r.lengths = false, nil
	rec := &r.rec
	*rec = Record{Offset: r.start, Length: -1, Fields: rec.Fields[:0]}
	if r.opt.Tolerance != nil {
		if arc, err := r.tolerantVersion(version, left); arc || err != nil {
			return err
		}
	} else if version != "WARC/1.0" && version != "WARC/1.1" {
		if v, ok := strings.CutPrefix(version, "WARC/"); ok && isVersion(v) {
			return r.fault(fault.Version, "version "+v, "1.0 or 1.1")
		}
		return r.fault(fault.Corrupt, fmt.Sprintf("version line %q", cut([]byte(version))), `"WARC/1.1"`)
	}
	var all []Field
	var folded strings.Builder // the last field's value, if it has further lines
	for {
		line, err := r.line(&left)
		if err != nil {
			return err
		}
		if line != "" && (line[0] == ' ' || line[0] == '\t') { // folded: ISO 28500 section 4
			if len(all) == 0 && r.opt.Tolerance != nil {
				r.odd("no field", fmt.Sprintf("header line %q", cut([]byte(line))))
				continue
			}
			if len(all) == 0 {
				return r.fault(fault.Corrupt, "a folded line before the first field", "a named field")
			}
			if folded.Len() == 0 {
				folded.WriteString(all[len(all)-1].Value)
			}
			if text := strings.TrimSpace(line); text != "" {
				folded.WriteString(" " + text)
			}
			continue
		}
		if folded.Len() > 0 {
			all[len(all)-1].Value = strings.TrimSpace(folded.String())
			folded.Reset()
		}
		if line == "" {
			break
		}
		name, value, ok := strings.Cut(line, ":")
		if r.opt.Tolerance != nil {
			if name = strings.TrimRight(name, " \t"); !ok || !isToken(name) {
				r.odd("no field", fmt.Sprintf("header line %q", cut([]byte(line))))
				continue
			}
		}
		if !ok || !isToken(name) {
			return r.fault(fault.Corrupt, fmt.Sprintf("header line %q", cut([]byte(line))), `"name: value"`)
		}
		if len(all) == r.opt.FieldsMax {
			return r.fault(fault.Corrupt, fmt.Sprintf("more than %d named fields", r.opt.FieldsMax), "fewer")
		}
		all = append(all, Field{name, strings.Trim(value, " \t")})
	}
	if rec.Header = r.opt.HeaderMax - left; r.opt.Tolerance != nil && (rec.Header > headerMax || len(all) > headerFieldsMax) {
		r.odd("long header", fmt.Sprintf("a header of %d bytes and %d named fields", rec.Header, len(all)))
	}
	return r.fill(all)
}

// fill sorts the named fields into the record and checks the mandatory ones.
func (r *Reader) fill(all []Field) error {
	rec := &r.rec
	seen := map[string]bool{}
	badLength := ""
	for _, f := range all {
		name := strings.ToLower(f.Name)
		switch name {
		case "warc-type", "warc-record-id", "warc-date", "warc-target-uri", "content-type", "content-length":
			if seen[name] && r.opt.Tolerance != nil { // the first counts, or the length that fits
				r.odd("two "+name, "two fields "+f.Name)
				if name == "content-length" {
					r.otherLength(f.Value)
				}
				continue
			}
			if seen[name] {
				return r.fault(fault.Corrupt, "two fields "+f.Name, "one")
			}
			seen[name] = true
		}
		switch name {
		case "warc-type":
			rec.Type = strings.ToLower(f.Value)
		case "warc-record-id":
			rec.ID = unbracket(f.Value)
		case "warc-date":
			t, ok := parseDate(f.Value)
			if !ok && r.opt.Tolerance != nil {
				if t, ok = looseDate(f.Value); !ok {
					t = time.Unix(0, 0).UTC()
				}
				r.odd("date", fmt.Sprintf("WARC-Date %q", cut([]byte(f.Value))))
				rec.Date = t
				continue
			}
			if !ok {
				return r.fault(fault.Corrupt, fmt.Sprintf("WARC-Date %q", cut([]byte(f.Value))), "a UTC time such as 2026-01-31T12:00:00Z")
			}
			rec.Date = t
		case "warc-target-uri":
			rec.TargetURI = unbracket(f.Value)
		case "content-type":
			rec.ContentType = f.Value
		case "content-length":
			n, err := strconv.ParseUint(f.Value, 10, 63) // which takes no sign
			if err != nil && r.opt.Tolerance != nil {
				badLength = f.Value
				continue
			}
			if err != nil {
				return r.fault(fault.Corrupt, fmt.Sprintf("Content-Length %q", cut([]byte(f.Value))), "a number of bytes")
			}
			rec.Length = int64(n)
		default:
			rec.Fields = append(rec.Fields, f)
		}
	}
	for _, m := range []struct {
		name string
		ok   bool
	}{
		{"WARC-Type", rec.Type != ""},
		{"WARC-Record-ID", rec.ID != ""},
		{"WARC-Date", seen["warc-date"]},
		{"Content-Length", rec.Length >= 0},
	} {
		if !m.ok && r.opt.Tolerance != nil && m.name != "Content-Length" {
			if r.odd("no "+m.name, "no "+m.name); m.name == "WARC-Date" {
				rec.Date = time.Unix(0, 0).UTC()
			}
			continue
		}
		if !m.ok && badLength != "" {
			return r.fault(fault.Corrupt, fmt.Sprintf("Content-Length %q", cut([]byte(badLength))), "a number of bytes")
		}
		if !m.ok {
			return r.fault(fault.Corrupt, "no "+m.name, "one")
		}
	}
	return nil
}

// otherLength notes a second Content-Length: the shortest one at which a record can end is right, else the longest.
func (r *Reader) otherLength(value string) {
	n, err := strconv.ParseUint(value, 10, 63)
	switch length := int64(n); {
	case err != nil || length == r.rec.Length || slices.Contains(r.lengths, length):
		return
	case r.rec.Length < 0:
		r.rec.Length = length
	default:
		r.lengths = append(r.lengths, max(length, r.rec.Length))
		r.rec.Length = min(length, r.rec.Length)
		slices.Sort(r.lengths)
	}
}

// unbracket removes the angle brackets of record ids, which WARC/1.0 also puts
// around target URIs.
func unbracket(s string) string {
	if strings.HasPrefix(s, "<") && strings.HasSuffix(s, ">") {
		return s[1 : len(s)-1]
	}
	return s
}

// parseDate reads the forms of W3C-DTF that ISO 28500 section 5.4 allows.
func parseDate(s string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02", "2006-01", "2006"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

func isVersion(s string) bool {
	major, minor, ok := strings.Cut(s, ".")
	return ok && isDigits(major) && isDigits(minor)
}

func isDigits(s string) bool {
	return s != "" && len(s) < 6 && strings.Trim(s, "0123456789") == ""
}

// isToken: ISO 28500 section 4 takes field names from HTTP's token.
func isToken(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`()<>@,;:\"/[]?={}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// block is the current record's block. An input that ends inside it is an
// error, never io.EOF.
type block struct {
	r    *Reader
	left int64
	sum  hash.Hash
	want [sha1.Size]byte
}

// settle goes over to the next of several lengths if the record cannot end after the one before.
func (b *block) settle() {
	for t := &b.r.tolerant; b.left == 0 && len(t.lengths) > 0; t.lengths = t.lengths[1:] {
		if b.r.endsHere() {
			t.lengths = nil
			return
		}
		b.left = t.lengths[0] - b.r.rec.Length
		b.r.rec.Length = t.lengths[0]
	}
}

// verify compares the digest once the block has been read.
func (b *block) verify() error {
	if b.left > 0 {
		return nil
	}
	if got := [sha1.Size]byte(b.sum.Sum(nil)); got != b.want {
		err := b.r.fault(fault.Corrupt, "block digest "+FormatSHA1(got), FormatSHA1(b.want))
		if t := b.r.opt.Tolerance; t == nil || t.Strict && t.All {
			return err
		}
		b.r.wrongDigest(err)
	}
	return nil
}

func (b *block) Read(p []byte) (int, error) {
	if b.r.err != nil {
		return 0, b.r.err
	}
	if b.settle(); b.left == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.r.plain.Read(p)
	b.left -= int64(n)
	if b.sum != nil {
		b.sum.Write(p[:n])
		b.settle()
		if err := b.verify(); err != nil {
			return n, b.r.ended(err)
		}
	}
	if err != nil {
		if err == io.EOF && (b.left == 0 || b.r.codec != None && b.r.carriesOn()) {
			return n, nil
		}
		return n, b.r.ended(b.r.fail(err))
	}
	return n, nil
}
