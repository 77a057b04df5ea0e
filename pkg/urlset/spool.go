package urlset

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"
	"os"
	"slices"
	"unsafe"

	"mercator/formats/record"
	"mercator/pkg/fault"
	"mercator/pkg/merge"
)

// spool keeps url rows, in order, in a temporary file without a name.
//
// A row is written as what differs from the row before it: links of one page share
// their via, time and depth, and most of their text. Measured, to write and read a link
// (BenchmarkSpool): 68 bytes, and a quarter of the time of a record stream, which has
// 190. zstd on top makes it 17 bytes in three and a half times the time: more than
// a disk of 200 MB/s takes for what is spared. The file is blocks: length and
// CRC-32C, 4 little-endian bytes each, then rows. The first row of a block is
// written against the empty row.
type spool struct {
	like  *record.Schema // whose unknown columns rows may carry; may be nil
	file  *os.File
	block []byte // being written, its head included; being read
	prev  record.URL

	at   int    // reading: place in block
	end  int64  // reading: bytes of the file that are left
	text []byte // reading: memory that rows' text is cut from
}

const (
	spoolBlock = 256 << 10 // bytes at which a block is written
	spoolHead  = 8
	textChunk  = 64 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func newSpool(dir string, like *record.Schema) (*spool, error) {
	f, err := merge.TempFile(dir)
	if err != nil {
		return nil, err
	}
	if like != nil && len(like.ExtraColumns()) == 0 {
		like = nil
	}
	return &spool{like: like, file: f, block: make([]byte, spoolHead, spoolBlock+spoolBlock/4)}, nil
}

func (s *spool) close() error { return s.file.Close() }

// Parts of a row that may equal those of the row before: a bit of the row's first
// byte for each that does not.
const (
	newHost = 1 << iota
	newVia
	newDiscovered
	newRank // priority, attempt, depth, score
	newRest
)

// write appends a row. It keeps the row's text until the next one.
func (s *spool) write(row *record.URL) error {
	p := &s.prev
	b := append(s.block, 0)
	first := len(b) - 1
	b = binary.LittleEndian.AppendUint64(b, row.Key)
	b = appendText(b, p.URL, row.URL)
	if row.Host != p.Host {
		b[first] |= newHost
		b = appendText(b, p.Host, row.Host)
	}
	if row.Via != p.Via {
		b[first] |= newVia
		b = appendText(b, p.Via, row.Via)
	}
	if row.Discovered != p.Discovered {
		b[first] |= newDiscovered
		b = binary.AppendVarint(b, int64(row.Discovered))
	}
	if row.Priority != p.Priority || row.Attempt != p.Attempt || row.Depth != p.Depth || math.Float32bits(row.Score) != math.Float32bits(p.Score) {
		b[first] |= newRank
		b = append(b, row.Priority, row.Attempt)
		b = binary.LittleEndian.AppendUint16(b, row.Depth)
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(row.Score))
	}
	if row.Due != p.Due || row.Addr != p.Addr || row.AddrExpires != p.AddrExpires || row.AddrError != p.AddrError ||
		row.ETag != p.ETag || row.LastModified != p.LastModified || row.LastContentFP != p.LastContentFP {
		b[first] |= newRest
		b = binary.AppendVarint(b, int64(row.Due))
		b = binary.AppendVarint(b, int64(row.AddrExpires))
		b = binary.LittleEndian.AppendUint64(b, row.LastContentFP)
		b = appendText(b, p.Addr, row.Addr)
		b = appendText(b, p.AddrError, row.AddrError)
		b = appendText(b, p.ETag, row.ETag)
		b = appendText(b, p.LastModified, row.LastModified)
	}
	if s.like != nil {
		b = record.AppendRow(b, &record.URL{Extra: row.Extra})
	}
	s.block, s.prev = b, *row
	if len(b) >= spoolBlock {
		return s.flush()
	}
	return nil
}

// appendText writes text as the length of what it shares with old, the length of
// the rest, and the rest.
func appendText(b []byte, old, text string) []byte {
	n := min(len(old), len(text))
	i := 0
	for i+8 <= n && load64(old, i) == load64(text, i) {
		i += 8
	}
	for i < n && old[i] == text[i] {
		i++
	}
	b = binary.AppendUvarint(b, uint64(i))
	b = binary.AppendUvarint(b, uint64(len(text)-i))
	return append(b, text[i:]...)
}

// load64 returns 8 bytes of s from i on, in whatever order.
func load64(s string, i int) uint64 {
	b := unsafe.Slice(unsafe.StringData(s), len(s))[i : i+8]
	return binary.LittleEndian.Uint64(b)
}

func (s *spool) flush() error {
	body := s.block[spoolHead:]
	binary.LittleEndian.PutUint32(s.block, uint32(len(body)))
	binary.LittleEndian.PutUint32(s.block[4:], crc32.Checksum(body, castagnoli))
	_, err := s.file.Write(s.block)
	s.block, s.prev = s.block[:spoolHead], record.URL{}
	return named(err)
}

// named says what kind of file an error of a file without a name is about.
func named(err error) error {
	if err == nil {
		return nil
	}
	return &fault.Error{File: "temporary file", Err: err, Hint: "TMPDIR names the folder for temporary files"}
}

// rewind ends writing; the rows can be read from the first one on.
func (s *spool) rewind() (err error) {
	if len(s.block) > spoolHead {
		if err := s.flush(); err != nil {
			return err
		}
	}
	if s.end, err = s.file.Seek(0, io.SeekCurrent); err != nil {
		return named(err)
	}
	_, err = s.file.Seek(0, io.SeekStart)
	s.block, s.at = s.block[:0], 0
	return named(err)
}

// damaged is the error of a file that does not hold what was written.
func damaged() error {
	return &fault.Error{Class: fault.Corrupt, File: "temporary file", Found: "other bytes than were written", Hint: "TMPDIR names the folder for temporary files"}
}

// load reads the next block; io.EOF after the last.
func (s *spool) load() error {
	if s.end == 0 {
		return io.EOF
	}
	var head [spoolHead]byte
	if _, err := io.ReadFull(s.file, head[:]); err != nil {
		return named(err)
	}
	n := int64(binary.LittleEndian.Uint32(head[:]))
	if s.end -= spoolHead + n; s.end < 0 {
		return damaged()
	}
	s.block = slices.Grow(s.block[:0], int(n))[:n]
	if _, err := io.ReadFull(s.file, s.block); err != nil {
		return named(err)
	}
	if crc32.Checksum(s.block, castagnoli) != binary.LittleEndian.Uint32(head[4:]) {
		return damaged()
	}
	s.at, s.prev = 0, record.URL{}
	return nil
}

// read returns the next row, whose text stays valid; io.EOF after the last.
func (s *spool) read(row *record.URL) error {
	if s.at == len(s.block) {
		if err := s.load(); err != nil {
			return err
		}
	}
	p := &s.prev
	part := s.block[s.at]
	p.Key = binary.LittleEndian.Uint64(s.block[s.at+1:])
	s.at += 9
	s.takeText(&p.URL)
	if part&newHost != 0 {
		s.takeText(&p.Host)
	}
	if part&newVia != 0 {
		s.takeText(&p.Via)
	}
	if part&newDiscovered != 0 {
		p.Discovered = record.Time(s.takeInt())
	}
	if part&newRank != 0 {
		b := s.block[s.at:]
		p.Priority, p.Attempt = b[0], b[1]
		p.Depth = binary.LittleEndian.Uint16(b[2:])
		p.Score = math.Float32frombits(binary.LittleEndian.Uint32(b[4:]))
		s.at += 8
	}
	if part&newRest != 0 {
		p.Due, p.AddrExpires = record.Time(s.takeInt()), record.Time(s.takeInt())
		p.LastContentFP = binary.LittleEndian.Uint64(s.block[s.at:])
		s.at += 8
		for _, text := range []*string{&p.Addr, &p.AddrError, &p.ETag, &p.LastModified} {
			s.takeText(text)
		}
	}
	if s.like != nil {
		var only record.URL
		n, err := record.ParseRow(string(s.block[s.at:]), &only, s.like)
		if err != nil {
			return damaged()
		}
		s.at += n
		p.Extra = only.Extra
	}
	*row = *p
	return nil
}

func (s *spool) takeInt() int64 {
	v, n := binary.Varint(s.block[s.at:])
	s.at += n
	return v
}

func (s *spool) takeLength() int {
	v, n := binary.Uvarint(s.block[s.at:])
	s.at += n
	return int(v)
}

// takeText reads text that was written against *text.
func (s *spool) takeText(text *string) {
	shared := s.takeLength()
	rest := s.takeLength()
	n := shared + rest
	if cap(s.text)-len(s.text) < n {
		s.text = make([]byte, 0, max(textChunk, n))
	}
	from := len(s.text)
	s.text = append(s.text, (*text)[:shared]...)
	s.text = append(s.text, s.block[s.at:s.at+rest]...)
	s.at += rest
	// No byte of s.text is written twice, so the string does not change.
	*text = unsafe.String(unsafe.SliceData(s.text[from:]), n)
}
