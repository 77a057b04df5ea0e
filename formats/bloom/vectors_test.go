package bloom

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"mercator/formats/spectest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
)

// example is the set of the worked example in SPEC.md.
var example = []uint64{0x07fa663713929c3e, 0x3b6e25bd6e0e10fb, 0x4b7d239c4d186c4f, fingerprint.Polynomial}

// buffer is a file in memory.
type buffer struct{ b []byte }

func (f *buffer) Write(p []byte) (int, error) { f.b = append(f.b, p...); return len(p), nil }
func (f *buffer) WriteAt(p []byte, off int64) (int, error) {
	return copy(f.b[off:], p), nil
}

// places gives the places of keys in order.
func places(keys []uint64) func() (uint64, error) {
	var list []uint64
	for _, k := range keys {
		list = append(list, Place(k))
	}
	slices.Sort(list)
	return func() (uint64, error) {
		if len(list) == 0 {
			return 0, io.EOF
		}
		p := list[0]
		list = list[1:]
		return p, nil
	}
}

func must(pages int64, keys ...uint64) []byte {
	var f buffer
	if _, err := Write(&f, fingerprint.Polynomial, pages, nil, places(keys)); err != nil {
		panic(err)
	}
	return f.b
}

func open(b []byte) (*Reader, error) { return Open(bytes.NewReader(b), int64(len(b)), "x.bloom") }

// edit applies f to a copy of b and then repairs the checksums but those that keep
// names: "header", "page".
func edit(b []byte, keep string, f func(b []byte)) []byte {
	b = slices.Clone(b)
	f(b)
	if keep != "header" {
		le.PutUint32(b[60:], checksum(b[:60]))
	}
	for at := headerSize; keep != "page" && at+PageSize <= len(b); at += PageSize {
		p := b[at:][:PageSize]
		le.PutUint32(p[sumAt:], checksum(p[:sumAt]))
	}
	return b
}

func vectors() []spectest.Vector {
	one := must(1, example...)
	g := func(name string, pages int64, keys ...uint64) spectest.Vector {
		return spectest.Vector{Name: "good/" + name, Bytes: must(pages, keys...), Gives: fmt.Sprintf("%x", keys)}
	}
	bad := func(name string, class fault.Class, says string, b []byte) spectest.Vector {
		return spectest.Vector{Name: "bad/" + name, Bytes: b, Class: class, Says: says}
	}
	const corrupt, cut = fault.Corrupt, fault.Truncated
	return []spectest.Vector{
		g("01-empty", 1),
		g("02-example", 1, example...),
		g("03-two-pages", 2, 0, 1, 1<<63, 1<<64-1),

		bad("R1-magic", fault.WrongKind, "not a Bloom filter", edit(one, "", func(b []byte) { b[1] = 'X' })),
		bad("R2-nothing", cut, "the end", nil),
		bad("R2-header", cut, "a header of 64", one[:40]),
		bad("R2-page", cut, "8256 bytes for 1 pages", one[:5000]),
		bad("R3-older", fault.Version, "format version 1", edit(one, "", func(b []byte) { b[8] = 1 })),
		bad("R3-newer", fault.Version, "format version 3", edit(one, "", func(b []byte) { b[8] = 3 })),
		bad("R4-header-checksum", corrupt, "header: checksum", edit(one, "header", func(b []byte) { b[24]++ })),
		bad("R5-no-pages", corrupt, "0 pages", edit(one, "", func(b []byte) { b[32] = 0 })),
		bad("R5-many-pages", corrupt, "pages, want 1 to", edit(one, "", func(b []byte) { b[39] = 1 })),
		bad("R6-reserved", corrupt, "reserved bytes", edit(one, "", func(b []byte) { b[56] = 1 })),
		bad("R6-reserved-12", corrupt, "reserved bytes", edit(one, "", func(b []byte) { b[12] = 1 })),
		bad("R6-rate", corrupt, "a rate out of range", edit(one, "", func(b []byte) { le.PutUint64(b[48:], math.Float64bits(math.NaN())) })),
		bad("R7-size", corrupt, "8257 bytes of file", append(slices.Clone(one), 0)),
		bad("R8-page-checksum", corrupt, "page 0 at byte 64: checksum", edit(one, "page", func(b []byte) { b[100] ^= 1 })),
		bad("R9-page-number", corrupt, "page number 1", edit(one, "", func(b []byte) { b[headerSize+numberAt] = 1 })),
		bad("R10-padding", corrupt, "bits outside", edit(one, "", func(b []byte) { b[headerSize+pageBlocks*blockBytes] = 1 })),
		bad("R11-page-ones", corrupt, "bits set", edit(one, "", func(b []byte) { b[headerSize+onesAt]++ })),
		bad("R12-ones", corrupt, "as counted", edit(one, "", func(b []byte) { b[40]++ })),
		bad("R12-rate", corrupt, "as counted", edit(one, "", func(b []byte) { b[48] ^= 1 })),
	}
}

// decode checks a file and returns which of keys it holds.
func decode(b []byte, name string, keys ...uint64) (held []uint64, err error) {
	r, err := Open(bytes.NewReader(b), int64(len(b)), name)
	if err != nil {
		return nil, err
	}
	if err := r.Check(nil); err != nil {
		return nil, err
	}
	seen := make([]bool, len(keys))
	if err := r.ContainsAll(keys, seen); err != nil {
		return nil, err
	}
	for i, yes := range seen {
		if yes {
			held = append(held, keys[i])
		}
	}
	return held, nil
}

// annotated is the hex of a worked example: the header, and of its one page every
// block that is not empty and the end.
func annotated(b []byte) string {
	var out strings.Builder
	line := func(p []byte, note string) {
		for len(p) > 16 {
			fmt.Fprintf(&out, "    %x\n", p[:16])
			p = p[16:]
		}
		fmt.Fprintf(&out, "    %-32x # %s\n", p, note)
	}
	line(b[0:8], "magic")
	line(b[8:12], "version 2")
	line(b[12:16], "reserved")
	line(b[16:24], fmt.Sprintf("polynomial %016x", le.Uint64(b[16:])))
	line(b[24:32], fmt.Sprintf("%d fingerprints", le.Uint64(b[24:])))
	line(b[32:40], fmt.Sprintf("%d page", le.Uint64(b[32:])))
	line(b[40:48], fmt.Sprintf("%d bits set", le.Uint64(b[40:])))
	line(b[48:56], fmt.Sprintf("rate %.3g", math.Float64frombits(le.Uint64(b[48:]))))
	line(b[56:60], "reserved")
	line(b[60:64], "checksum of the header")
	p := b[headerSize:]
	for i := range pageBlocks {
		if block := p[i*blockBytes:][:blockBytes]; !bytes.Equal(block, make([]byte, blockBytes)) {
			line(block, fmt.Sprintf("block %d, at byte %d", i, headerSize+i*blockBytes))
		}
	}
	line(p[onesAt:numberAt], "bits set in page 0, at byte 8236")
	line(p[numberAt:sumAt], "number of the page")
	line(p[sumAt:], "checksum of the page")
	return out.String()
}

// TestSpec holds the reader to SPEC.md and its vectors. Each file is asked for what any of them holds.
func TestSpec(t *testing.T) {
	asked := append(slices.Clone(example), 0, 1, 1<<63, 1<<64-1)
	spectest.Check(t, spectest.Format{
		Ext:     ".bloom",
		Vectors: vectors(),
		Read: func(_ testing.TB, name string, file []byte) (string, error) {
			held, err := decode(file, name, asked...)
			return fmt.Sprintf("%x", held), err
		},
		Regions: map[string]string{"example": annotated(must(1, example...))},
	})
}
