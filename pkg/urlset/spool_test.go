package urlset

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"mercator/formats/record"
	"mercator/pkg/fault"
)

// rowsOf makes n rows in which each part changes now and then.
func rowsOf(n int) []record.URL {
	rnd := rand.New(rand.NewPCG(1, uint64(n)))
	word := func() string { return strings.Repeat(string(rune('a'+rnd.IntN(26))), rnd.IntN(30)) }
	rows := make([]record.URL, n)
	var row record.URL
	for i := range rows {
		row.Key = rnd.Uint64()
		row.URL = "http://" + row.Host + "/" + word()
		change := func(one int) bool { return rnd.IntN(one) == 0 }
		if change(5) {
			row.Host = word() + ".test"
		}
		if change(9) {
			row.Via, row.Discovered = "http://"+word(), record.Time(rnd.Int64())
		}
		if change(9) {
			row.Priority, row.Attempt, row.Depth, row.Score = uint8(rnd.Uint32()), uint8(rnd.Uint32()), uint16(rnd.Uint32()), rnd.Float32()
		}
		if change(20) {
			row.Due, row.AddrExpires, row.LastContentFP = record.Time(rnd.Int64()), -record.Time(rnd.Int64()), rnd.Uint64()
			row.Addr, row.AddrError, row.ETag, row.LastModified = word(), word(), word(), word()
		}
		if change(500) {
			row = record.URL{URL: strings.Repeat("long", rnd.IntN(200_000))}
		}
		rows[i] = row
	}
	return rows
}

// TestSpool: rows come back as they were, over the ends of blocks too.
func TestSpool(t *testing.T) {
	for _, n := range []int{0, 1, 2, 20_000} {
		rows := rowsOf(n)
		s, err := newSpool(t.TempDir(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		for i := range rows {
			if err := s.write(&rows[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.rewind(); err != nil {
			t.Fatal(err)
		}
		back := make([]record.URL, n) // all kept: text must stay what it was
		for i := range back {
			if err := s.read(&back[i]); err != nil {
				t.Fatal(err)
			}
		}
		for i := range back {
			if back[i] != rows[i] {
				t.Fatalf("row %d: %+v, want %+v", i, back[i], rows[i])
			}
		}
		if err := s.read(&record.URL{}); err != io.EOF {
			t.Errorf("behind the last row: %v", err)
		}
	}
}

// TestSpoolExtra: columns that this version does not know come back.
// A score comes back to the bit: the hash of the rows is made of its bits.
func TestSpoolScores(t *testing.T) {
	s, err := newSpool(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	scores := []float32{0, float32(math.Copysign(0, -1)), 0, float32(math.NaN()), 1}
	for _, score := range scores {
		if err := s.write(&record.URL{Score: score}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.rewind(); err != nil {
		t.Fatal(err)
	}
	for i, score := range scores {
		var row record.URL
		if err := s.read(&row); err != nil {
			t.Fatal(err)
		}
		if got, want := math.Float32bits(row.Score), math.Float32bits(score); got != want {
			t.Errorf("row %d: score %08x, want %08x", i, got, want)
		}
	}
}

func TestSpoolExtra(t *testing.T) {
	f, err := os.Open("../../formats/record/testdata/good/extra-column.arrows.zst")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := record.NewReader[record.URL](f, record.ReaderOptions{Name: f.Name()})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Schema().ExtraColumns()) == 0 {
		t.Fatal("the vector has no column that is not known")
	}
	s, err := newSpool(t.TempDir(), r.Schema())
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	var rows []record.URL
	for {
		var row record.URL
		err := r.Read(&row)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := s.write(&row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	if err := s.rewind(); err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		var back record.URL
		if err := s.read(&back); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(record.AppendRow(nil, &back), record.AppendRow(nil, &rows[i])) {
			t.Errorf("row %d differs", i)
		}
	}
}

// TestSpoolDamaged: a temporary file that was changed is refused.
func TestSpoolDamaged(t *testing.T) {
	rows := rowsOf(200)
	s, err := newSpool(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for i := range rows {
		if err := s.write(&rows[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.rewind(); err != nil {
		t.Fatal(err)
	}
	size := s.end
	for at := int64(0); at < size; at += 1 + size/300 {
		var was [1]byte
		if _, err := s.file.ReadAt(was[:], at); err != nil {
			t.Fatal(err)
		}
		if _, err := s.file.WriteAt([]byte{was[0] ^ 1}, at); err != nil {
			t.Fatal(err)
		}
		if _, err := s.file.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		s.end, s.block, s.at = size, s.block[:0], 0
		var row record.URL
		err := error(nil)
		for err == nil {
			err = s.read(&row)
		}
		if err == io.EOF || fault.ClassOf(err) != fault.Corrupt {
			t.Fatalf("byte %d of %d changed: %v", at, size, err)
		}
		if _, err := s.file.WriteAt(was[:], at); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPairs: pairs come by key, those of one key by arrival, in whatever memory.
func TestPairs(t *testing.T) {
	for _, c := range []struct {
		n    int
		mem  int64
		keys uint64
	}{{0, 0, 1}, {1, 0, 1}, {5000, 0, 1}, {300_000, 0, 1 << 63}, {300_000, 0, 100}, {50_000, 1 << 30, 1000}} {
		rnd := rand.New(rand.NewPCG(1, uint64(c.n)))
		p := newPairs(c.mem, t.TempDir())
		for i := range c.n {
			if err := p.add(rnd.Uint64N(c.keys)<<1, uint64(i)); err != nil {
				t.Fatal(err)
			}
			if len(p.list) > p.most {
				t.Fatalf("%d pairs in memory, want at most %d", len(p.list), p.most)
			}
		}
		next, err := p.sort()
		if err != nil {
			t.Fatal(err)
		}
		var last pair
		came := make([]bool, c.n)
		for i := range c.n {
			e, err := next()
			if err != nil {
				t.Fatal(err)
			}
			if i > 0 && (e.key < last.key || e.key == last.key && e.arrival <= last.arrival) {
				t.Fatalf("%+v behind %+v", e, last)
			}
			came[e.arrival] = true
			last = e
		}
		if _, err := next(); err != io.EOF {
			t.Errorf("behind the last pair: %v", err)
		}
		for i := range came {
			if !came[i] {
				t.Fatalf("pair %d is missing", i)
			}
		}
		if err := p.close(); err != nil {
			t.Fatal(err)
		}
	}
}

// BenchmarkSpool writes and reads the links of pages: as the spool does, the same
// compressed, and as record streams.
func BenchmarkSpool(b *testing.B) {
	rows := make([]record.URL, 100_000)
	for i := range rows {
		page := i / 30
		host := fmt.Sprintf("h%d.example.test", (page+i%3)%1000)
		rows[i] = record.URL{URL: fmt.Sprintf("http://%s/folder/%d/page-%d.html", host, page%77, i*7919%100_000), Key: uint64(i) * 0x9e3779b97f4a7c15,
			Host: host, Via: fmt.Sprintf("http://h%d.example.test/folder/%d/index.html", page%1000, page), Discovered: record.Time(page + 1)}
	}
	report := func(b *testing.B, size int64) {
		b.ReportMetric(float64(size)/float64(len(rows)), "bytes/row")
		b.ReportMetric(float64(len(rows)*b.N)/b.Elapsed().Seconds(), "rows/s")
	}
	b.Run("spool", func(b *testing.B) {
		var size int64
		for range b.N {
			size = spoolOnce(b, rows, nil)
		}
		report(b, size)
	})
	b.Run("spool-zstd", func(b *testing.B) {
		enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
		if err != nil {
			b.Fatal(err)
		}
		dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
		if err != nil {
			b.Fatal(err)
		}
		defer dec.Close()
		var size int64
		for range b.N {
			size = 0
			spoolOnce(b, rows, func(block []byte) {
				packed := enc.EncodeAll(block, nil)
				size += int64(len(packed))
				if _, err := dec.DecodeAll(packed, make([]byte, 0, len(block))); err != nil {
					b.Fatal(err)
				}
			})
		}
		report(b, size)
	})
	for _, level := range []record.Level{record.Stored, record.Fast} {
		b.Run(fmt.Sprintf("record-level-%d", level), func(b *testing.B) {
			var size int64
			for range b.N {
				var buf bytes.Buffer
				w, err := record.NewWriter[record.URL](&buf, record.WriterOptions{Level: level})
				if err != nil {
					b.Fatal(err)
				}
				for i := range rows {
					if err := w.Write(&rows[i]); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := w.Commit(record.Ledger{}); err != nil {
					b.Fatal(err)
				}
				size = int64(buf.Len())
				r, err := record.NewReader[record.URL](&buf, record.ReaderOptions{})
				if err != nil {
					b.Fatal(err)
				}
				var row record.URL
				for err == nil {
					err = r.Read(&row)
				}
				if err != io.EOF {
					b.Fatal(err)
				}
			}
			report(b, size)
		})
	}
}

// spoolOnce writes rows and reads them again; each is shown the blocks.
func spoolOnce(b *testing.B, rows []record.URL, each func([]byte)) (size int64) {
	s, err := newSpool(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer s.close()
	for i := range rows {
		if err := s.write(&rows[i]); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.rewind(); err != nil {
		b.Fatal(err)
	}
	size = s.end
	var row record.URL
	for err == nil {
		if s.at == len(s.block) && s.end > 0 && each != nil {
			if err = s.load(); err == nil {
				each(s.block)
			}
		}
		err = s.read(&row)
	}
	if err != io.EOF {
		b.Fatal(err)
	}
	return size
}
