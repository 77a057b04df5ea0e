package fpfile

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"mercator/formats/spectest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
)

// example is the set of the worked example in SPEC.md.
var example = []uint64{0x07fa663713929c3e, 0x3b6e25bd6e0e10fb, 0x4b7d239c4d186c4f, fingerprint.Polynomial}

// pair is a file of two blocks of two fingerprints each, which no writer makes
// so early but every reader takes.
func pair() []byte {
	var b bytes.Buffer
	w := NewWriter(&b, fingerprint.Polynomial)
	w.Add(10)
	w.Add(20)
	w.cut(w.keys, capacity(0))
	w.flush()
	w.keys = w.keys[:0]
	w.Add(30)
	w.Add(40)
	if err := w.Finish(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// fileOf encodes without a testing.TB.
func fileOf(keys ...uint64) []byte {
	var b bytes.Buffer
	w := NewWriter(&b, fingerprint.Polynomial)
	for _, k := range keys {
		w.Add(k)
	}
	if err := w.Finish(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// edit applies f to a copy of b and then repairs all checksums but those that
// keep names: "header", "footer", "root", "page", "block".
func edit(b []byte, keep string, f func(b []byte)) []byte {
	r, err := open(b)
	if err != nil {
		panic(err)
	}
	b = slices.Clone(b)
	f(b)
	if keep != "header" {
		le.PutUint32(b[28:], checksum(b[:28]))
	}
	for k := range r.geo.blocks {
		off, n := r.geo.block(k)
		if v := b[off:][:n]; keep != "block" {
			le.PutUint32(v, checksum(v[4:]))
		}
	}
	for p := range r.geo.pages() {
		off, n := r.geo.page(p)
		if v := b[off:][:n]; keep != "page" {
			le.PutUint32(v, checksum(v[4:]))
		}
	}
	foot := b[len(b)-footerSize:]
	off, n := r.geo.root()
	if keep != "root" {
		le.PutUint32(foot[28:], checksum(b[off:][:n]))
	}
	if keep != "footer" {
		le.PutUint32(foot[36:], checksum(foot[:36]))
	}
	return b
}

func vectors() []spectest.Vector {
	const block = headerSize
	small := fileOf(10, 20, 25)
	two := pair()
	good := fileOf(example...)
	foot := len(small) - footerSize
	g := func(name string, b []byte, keys ...uint64) spectest.Vector {
		return spectest.Vector{Name: "good/" + name, Bytes: b, Gives: fmt.Sprintf("%x", keys)}
	}
	bad := func(name string, class fault.Class, says string, b []byte) spectest.Vector {
		return spectest.Vector{Name: "bad/" + name, Bytes: b, Class: class, Says: says}
	}
	page := pageOf(small)
	root := page + pageHeader + 8
	twoPage := pageOf(two)
	return []spectest.Vector{
		g("01-empty", fileOf()),
		g("02-one", fileOf(0x4b7d239c4d186c4f), 0x4b7d239c4d186c4f),
		g("03-example", good, example...),
		g("04-ends", fileOf(0, 1<<64-1), 0, 1<<64-1),
		g("05-dense", fileOf(1<<64-4, 1<<64-3, 1<<64-2, 1<<64-1), 1<<64-4, 1<<64-3, 1<<64-2, 1<<64-1),
		g("06-two-blocks", two, 10, 20, 30, 40),

		bad("R01-magic", fault.WrongKind, "not a fingerprint file", []byte("0123456789abcdef\n")),
		bad("R02-cut-in-magic", fault.Truncated, "byte 5: no trailer", small[:5]),
		bad("R02-cut-in-block", fault.Truncated, "no trailer", small[:block+20]),
		bad("R02-cut-in-footer", fault.Truncated, "no trailer", small[:len(small)-1]),
		bad("R02-nothing", fault.Truncated, "byte 0: no trailer", nil),
		bad("R03-version", fault.Version, "format version 2, want 1", edit(small, "", func(b []byte) { b[8] = 2 })),
		bad("R04-header-checksum", fault.Corrupt, "header: checksum", edit(small, "header", func(b []byte) { b[16] ^= 1 })),
		bad("R05-reserved", fault.Corrupt, "byte 12: reserved bytes 00000004", edit(small, "", func(b []byte) { b[12] = 4 })),
		bad("R06-header-reserved", fault.Corrupt, "header: reserved bytes", edit(small, "", func(b []byte) { b[24] = 1 })),
		bad("R07-footer-checksum", fault.Corrupt, "footer at byte 74: checksum", edit(small, "footer", func(b []byte) { b[foot] ^= 1 })),
		bad("R08-footer-reserved", fault.Corrupt, "footer at byte 74: reserved bytes", edit(small, "", func(b []byte) { b[foot+32] = 1 })),
		bad("R09-blocks", fault.Corrupt, "blocks, want at most 1073741824", edit(small, "", func(b []byte) { b[foot+15] = 0x7f })),
		bad("R10-empty-with-count", fault.Corrupt, "an empty file with fingerprints", edit(fileOf(), "", func(b []byte) { b[headerSize] = 1 })),
		bad("R11-last-length", fault.Corrupt, "a last block of 15 bytes", edit(small, "", func(b []byte) { b[foot+24] = 15 })),
		bad("R12-size", fault.Corrupt, "bytes of file", edit(small, "", func(b []byte) { b[foot+8] = 2 })),
		bad("R13-root-checksum", fault.Corrupt, "root at byte 66: checksum", edit(small, "root", func(b []byte) { b[root] ^= 1 })),
		bad("R14-root-order", fault.Corrupt, "entry 0 is ff0000000000000a", edit(small, "", func(b []byte) { b[root+7] = 0xff })),
		bad("R15-page-checksum", fault.Corrupt, "index page 0 at byte 50: checksum", edit(small, "page", func(b []byte) { b[page+8] ^= 1 })),
		bad("R16-page-number", fault.Corrupt, "page number 7", edit(small, "", func(b []byte) { b[page+4] = 7 })),
		bad("R17-page-first", fault.Corrupt, "as in the root", edit(small, "", func(b []byte) { b[page+8] = 9 })),
		bad("R18-page-order", fault.Corrupt, "entry 1 is 000000000000000a", edit(two, "", func(b []byte) { b[twoPage+16] = 10 })),
		bad("R19-block-checksum", fault.Corrupt, "block 0 at byte 32: checksum", edit(small, "block", func(b []byte) { b[block+16] ^= 1 })),
		bad("R20-no-keys", fault.Corrupt, "0 fingerprints, want 1 to 4096", edit(small, "", func(b []byte) { b[block+4] = 0 })),
		bad("R20-many-keys", fault.Corrupt, "4097 fingerprints", edit(small, "", func(b []byte) { b[block+4], b[block+5] = 1, 16 })),
		bad("R21-width", fault.Corrupt, "low-bit width 64", edit(small, "", func(b []byte) { b[block+6] = 64 })),
		bad("R22-block-reserved", fault.Corrupt, "reserved byte 01", edit(small, "", func(b []byte) { b[block+7] = 1 })),
		bad("R23-low-length", fault.Corrupt, "bytes of low bits", edit(small, "", func(b []byte) { b[block+6] = 60 })),
		bad("R24-stray-low", fault.Corrupt, "stray low bits", edit(fileOf(10, 20, 25, 26), "", func(b []byte) { b[block+16] |= 0xc0 })),
		bad("R25-few-ones", fault.Corrupt, "1 ones in the high bits, want 2", edit(small, "", func(b []byte) { b[block+17] &= b[block+17] - 1 })),
		bad("R25-many-ones", fault.Corrupt, "3 ones in the high bits, want 2", edit(small, "", func(b []byte) { b[block+17] |= 0x80 })),
		bad("R26-order", fault.Corrupt, "is not above the one before it", edit(small, "", func(b []byte) { b[block+16], b[block+17] = 0, 3 })),
		bad("R26-overflow", fault.Corrupt, "is not above the one before it", edit(small, "", func(b []byte) { // first+difference passes 2⁶⁴
			for _, at := range []int{block + 8, page + 8, root, foot + 16} {
				le.PutUint64(b[at:], 1<<64-1)
			}
		})),
		bad("R27-block-first", fault.Corrupt, "as in the index", edit(small, "", func(b []byte) { b[block+8] = 11 })),
		bad("R28-block-order", fault.Corrupt, "the last of a block before", edit(two, "", func(b []byte) {
			b[BlockSize+8], b[twoPage+16] = 15, 15
			b[len(b)-footerSize+16] = 25
		})),
		bad("R29-last", fault.Corrupt, "as in the footer", edit(small, "", func(b []byte) { b[foot+16] = 26 })),
		bad("R30-count", fault.Corrupt, "count 4, want 3", edit(small, "", func(b []byte) { b[foot] = 4 })),
		bad("R30-few", fault.Corrupt, "count 0, want 1 to 4096 in 1 blocks", edit(small, "", func(b []byte) { b[foot] = 0 })),
		bad("R30-many", fault.Corrupt, "want 2 to 8192 in 2 blocks", edit(two, "", func(b []byte) {
			le.PutUint64(b[len(b)-footerSize:], 1<<64-1)
		})),
	}
}

// pageOf returns the place of index page 0.
func pageOf(b []byte) int {
	r, err := open(b)
	if err != nil {
		panic(err)
	}
	off, _ := r.geo.page(0)
	return int(off)
}

// TestSpec holds the reader to SPEC.md and its vectors.
func TestSpec(t *testing.T) {
	spectest.Check(t, spectest.Format{
		Ext:     ".fps",
		Vectors: vectors(),
		Read: func(_ testing.TB, name string, file []byte) (string, error) {
			keys, err := decodeNamed(file, name)
			return fmt.Sprintf("%x", keys), err
		},
		Example: fileOf(example...),
	})
}
