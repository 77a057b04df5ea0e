package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"mercator/formats/spectest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

// Crafted messages under right checksums: random bytes, and words that are
// typical lengths and offsets, are put into the messages of a good stream.
func TestCraftedMessages(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	words := []uint32{0, 1, 4, 7, 8, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 20, 1 << 24, 1 << 30}
	rows := vectorURLs()
	schema := withExtra(rows)
	for name, b := range map[string][]byte{
		"url":   encode(t, rows, WriterOptions{Like: schema, Txn: "r1", Now: 5}),
		"fetch": encode(t, vectorFetches(), WriterOptions{}),
	} {
		msgs, tr := messages(t, b)
		for range 6000 {
			crafted := make([][]byte, len(msgs))
			for i := range msgs {
				crafted[i] = bytes.Clone(msgs[i])
			}
			m := crafted[rng.IntN(2)]
			for range 1 + rng.IntN(3) {
				if rng.IntN(2) == 0 {
					m[rng.IntN(len(m))] = byte(rng.Uint32())
				} else {
					binary.LittleEndian.PutUint32(m[rng.IntN(len(m)/4)*4:], words[rng.IntN(len(words))])
				}
			}
			_, _, err := readAny(bytes.NewReader(seal(t, crafted, tr)), ReaderOptions{Name: name})
			if err != nil && fault.ClassOf(err) == "" {
				t.Fatalf("an error without class: %v", err)
			}
			readAny(bytes.NewReader(bytes.Join(crafted, nil)), ReaderOptions{Name: name}) // plain Arrow
		}
	}
}

// heapWhile runs fn under the memory limit of a command, and returns by how much
// the heap grew at most, looking at each read of the input.
func heapWhile(in io.Reader, fn func(io.Reader)) uint64 {
	p := &heapProbe{in: in}
	debug.FreeOSMemory()
	p.look()
	before := p.most
	old := debug.SetMemoryLimit(int64(before) + 44<<20)
	defer debug.SetMemoryLimit(old)
	fn(p)
	p.look()
	return p.most - before
}

type heapProbe struct {
	in   io.Reader
	most uint64
}

func (p *heapProbe) look() {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	p.most = max(p.most, m.HeapAlloc)
}

func (p *heapProbe) Read(b []byte) (int, error) {
	p.look()
	return p.in.Read(b)
}

// rleFrame is a zstd frame of a few bytes that decodes to size bytes.
func rleFrame(size int, fill byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, zstdMagic)
	b = append(b, storedDescriptor)
	b = binary.LittleEndian.AppendUint32(b, uint32(size))
	for rest := size; rest > 0; {
		n := min(rest, blockMax)
		rest -= n
		head := uint32(n)<<3 | blockRLE<<1
		if rest == 0 {
			head |= 1
		}
		b = append(b, byte(head), byte(head>>8), byte(head>>16), fill)
	}
	return binary.LittleEndian.AppendUint32(b, uint32(xxhash.Sum64(bytes.Repeat([]byte{fill}, size))))
}

// What an input claims costs no memory; what it holds, at most a few messages.
func TestMemoryIsBounded(t *testing.T) {
	good := encode(t, vectorURLs(), WriterOptions{})
	msgs, tr := messages(t, good)
	head := appendStored(nil, msgs[0])
	claim := func(size uint32, more []byte) []byte {
		b := append(bytes.Clone(head), 0x28, 0xB5, 0x2F, 0xFD, storedDescriptor)
		return append(binary.LittleEndian.AppendUint32(b, size), more...)
	}
	bomb := bytes.Clone(head)
	for range 8 {
		bomb = append(bomb, rleFrame(MaxMessage, 0xFF)...)
	}
	// As many rows as fit into a message of empty strings: the largest honest batches.
	big := encode(t, make([]Module, 400000), WriterOptions{Level: Fast})
	huge := []Module{{Module: strings.Repeat("x", MaxRow-100)}}
	var rows bytes.Buffer
	for range 6 {
		rows.Write(encode(t, huge, WriterOptions{}))
	}
	trailerClaim := append(bytes.Clone(good[:len(good)-len(trailerFor(t, nil, tr))]), 0x5D, 0x2A, 0x4D, 0x18, 0xFF, 0xFF, 0xFF, 0x7F)
	bare := append(bytes.Clone(msgs[0]), 0xFF, 0xFF, 0xFF, 0xFF, 0xF8, 0xFF, 0xFF, 0x00)
	for _, c := range []struct {
		name string
		in   []byte
		ok   bool
	}{
		{"claims 16 MiB", claim(MaxMessage, nil), false},
		{"claims 4 GiB", claim(0xFFFFFFFF, nil), false},
		{"a block for ever", claim(MaxMessage, bytes.Repeat([]byte{0, 0, 0}, 1<<20)), false},
		{"expands to 16 MiB", bomb, false},
		{"trailer claims 2 GiB", trailerClaim, false},
		{"plain Arrow claims 16 MiB", bare, false},
		{"many small rows", big, true},
		{"rows of 14 MiB", rows.Bytes(), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var err error
			most := heapWhile(bytes.NewReader(c.in), func(in io.Reader) { _, _, err = readAny(in, ReaderOptions{}) })
			if (err == nil) != c.ok {
				t.Errorf("%s: %v", c.name, err)
			}
			if most > 48<<20 {
				t.Errorf("%s: %d MiB of heap", c.name, most>>20)
			}
			t.Logf("%s: %d MiB of heap: %v", c.name, most>>20, err)
		})
	}
}

// TestEmptyBlocks: a frame of five million empty raw blocks takes the memory of its bytes, not of a list of blocks.
func TestEmptyBlocks(t *testing.T) {
	schema, _ := messages(t, encode(t, vectorURLs(), WriterOptions{}))
	in := binary.LittleEndian.AppendUint32(appendStored(nil, schema[0]), zstdMagic)
	in = binary.LittleEndian.AppendUint32(append(in, storedDescriptor), MaxMessage)
	in = append(in, make([]byte, 3*((MaxMessage+MaxMessage>>8)/3))...)
	in = binary.LittleEndian.AppendUint32(append(in, 1, 0, 0), uint32(xxhash.Sum64(nil)))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err := readAny(bytes.NewReader(in), ReaderOptions{})
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "raw blocks that do not make") {
		t.Errorf("%v, want an error about raw blocks", err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 6*MaxMessage {
		t.Errorf("%d MiB for a frame of %d", n>>20, len(in)>>20)
	}
}

// An error of the input itself is no damage.
func TestInputError(t *testing.T) {
	b := encode(t, randomRows[URL](100, 1), WriterOptions{})
	gone := errors.New("input/output error")
	for _, n := range []int{0, 2, 100, 2000} {
		_, _, err := readAny(io.MultiReader(bytes.NewReader(b[:n]), failing{gone}), ReaderOptions{Name: "x"})
		if !errors.Is(err, gone) || fault.ClassOf(err) != "" {
			t.Errorf("after %d bytes: %v [%s]", n, err, fault.ClassOf(err))
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error)  { return 0, f.err }
func (f failing) Write([]byte) (int, error) { return 0, f.err }

func FuzzReader(f *testing.F) {
	spectest.Seeds(f, vectors(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Open(bytes.NewReader(b), ReaderOptions{})
		if err != nil || s.Kind() != KindURL {
			return
		}
		r, err := Rows[URL](s)
		must.OK(t, err)
		var rows []URL
		for {
			var row URL
			if err := r.Read(&row); err == io.EOF {
				break
			} else if err != nil {
				return
			}
			rows = append(rows, row)
		}
		// What was accepted encodes again to the same.
		again, tr, err := decode[URL](encode(t, rows, WriterOptions{Like: r.Schema()}))
		if err != nil || len(again) != len(rows) || tr.Hash != r.Trailer().Hash {
			t.Fatalf("%d rows with hash %v, again %d with %v: %v", len(rows), r.Trailer().Hash, len(again), tr.Hash, err)
		}
	})
}

// FuzzMessage puts its input into a stream as a message, under right checksums.
func FuzzMessage(f *testing.F) {
	good := encode(f, vectorURLs(), WriterOptions{})
	msgs, tr := messages(f, good)
	f.Add(msgs[1], false)
	f.Add(msgs[0], true)
	f.Fuzz(func(t *testing.T, msg []byte, schema bool) {
		all := [][]byte{msgs[0], msg, msgs[2]}
		if schema {
			all = [][]byte{msg, msgs[1], msgs[2]}
		}
		if len(msg) == 0 {
			return
		}
		readAny(bytes.NewReader(seal(t, all, tr)), ReaderOptions{})
	})
}

func FuzzRoundTrip(f *testing.F) {
	f.Add("http://a.test/", uint64(1), "a.test", uint8(1), float32(0.5), int64(7), "\xff\x00é")
	f.Fuzz(func(t *testing.T, url string, key uint64, host string, priority uint8, score float32, when int64, etag string) {
		in := []URL{{URL: url, Key: key, Host: host, Priority: priority, Score: score, Due: Time(when), ETag: etag}}
		b := encode(t, in, WriterOptions{})
		out, tr, err := decode[URL](b)
		must.OK(t, err)
		want := in[0]
		for _, p := range []*string{&want.URL, &want.Host, &want.ETag} {
			*p = strings.ToValidUTF8(*p, "\uFFFD")
		}
		if got := AppendRow(nil, &out[0]); !bytes.Equal(got, AppendRow(nil, &want)) || len(out) != 1 {
			t.Fatalf("%+v, want %+v", out, want)
		}
		var h RowHasher[URL]
		h.Add(&in[0])
		if _, hash := h.Sum(); hash != tr.Hash {
			t.Fatalf("row hash %v, trailer %v", hash, tr.Hash)
		}
	})
}

// FuzzRow: what is taken for a row has no other form, and no length or flag leads outside.
func FuzzRow(f *testing.F) {
	rows := vectorURLs()
	schema := withExtra(rows)
	for i := range rows {
		f.Add(AppendRow(nil, &rows[i]))
	}
	f.Add(AppendRow(nil, &vectorFetches()[0]))
	f.Add(AppendRow(nil, &vectorModules()[0]))
	f.Fuzz(func(t *testing.T, b []byte) {
		formsAgain[URL](t, b, schema)
		formsAgain[Fetch](t, b, nil)
		formsAgain[Link](t, b, nil)
		formsAgain[Module](t, b, nil)
	})
}

func formsAgain[T Row](t *testing.T, b []byte, s *Schema) {
	var row T
	n, err := ParseRow(string(b), &row, s)
	if err != nil {
		return
	}
	again := AppendRow(nil, &row)
	if !utf8.Valid(b[:n]) { // as names and text of the row may not be
		return
	}
	if last := rowTypeOf[T]().flags - 1; b[last/8]>>(last%8)&1 != 0 { // columns that s does not have do not come back
		if m, err := ParseRow(string(again), &row, s); err != nil || m != len(again) || !bytes.Equal(AppendRow(nil, &row), again) {
			t.Fatalf("%x, %v", again, err)
		}
		return
	}
	if !bytes.Equal(again, b[:n]) {
		t.Fatalf("%x was taken for %x", b[:n], again)
	}
}
