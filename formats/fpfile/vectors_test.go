package fpfile

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mercator/pkg/fingerprint"
)

var update = flag.Bool("update", false, "write testdata from the vectors in this file")

// vector is one file of testdata. Bad ones carry the rule that they break.
type vector struct {
	name  string // "good/03-two-blocks", "bad/R07-footer-checksum"
	bytes []byte
	keys  []uint64 // of a good one
	class error    // of a bad one
	says  string   // part of its error
}

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

// must encodes without a testing.TB.
func must(keys ...uint64) []byte {
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

func vectors() []vector {
	const block = headerSize
	small := must(10, 20, 25)
	two := pair()
	good := must(example...)
	foot := len(small) - footerSize
	g := func(name string, b []byte, keys ...uint64) vector {
		return vector{name: "good/" + name, bytes: b, keys: keys}
	}
	bad := func(name string, class error, says string, b []byte) vector {
		return vector{name: "bad/" + name, bytes: b, class: class, says: says}
	}
	page := pageOf(small)
	root := page + pageHeader + 8
	twoPage := pageOf(two)
	return []vector{
		g("01-empty", must()),
		g("02-one", must(0x4b7d239c4d186c4f), 0x4b7d239c4d186c4f),
		g("03-example", good, example...),
		g("04-ends", must(0, 1<<64-1), 0, 1<<64-1),
		g("05-dense", must(1<<64-4, 1<<64-3, 1<<64-2, 1<<64-1), 1<<64-4, 1<<64-3, 1<<64-2, 1<<64-1),
		g("06-two-blocks", two, 10, 20, 30, 40),

		bad("R01-magic", ErrWrongKind, "not a fingerprint file", []byte("0123456789abcdef\n")),
		bad("R02-cut-in-magic", ErrTruncated, "byte 5: no trailer", small[:5]),
		bad("R02-cut-in-block", ErrTruncated, "no trailer", small[:block+20]),
		bad("R02-cut-in-footer", ErrTruncated, "no trailer", small[:len(small)-1]),
		bad("R02-nothing", ErrTruncated, "byte 0: no trailer", nil),
		bad("R03-major", ErrVersion, "format version 2.0, want 1.x", edit(small, "", func(b []byte) { b[8] = 2 })),
		bad("R04-header-checksum", ErrCorrupt, "header: checksum", edit(small, "header", func(b []byte) { b[16] ^= 1 })),
		bad("R05-features", ErrVersion, "unknown features 00000004", edit(small, "", func(b []byte) { b[12] = 4 })),
		bad("R06-header-reserved", ErrCorrupt, "reserved bytes", edit(small, "", func(b []byte) { b[24] = 1 })),
		bad("R07-footer-checksum", ErrCorrupt, "footer at byte", edit(small, "footer", func(b []byte) { b[foot] ^= 1 })),
		bad("R08-footer-reserved", ErrCorrupt, "reserved bytes", edit(small, "", func(b []byte) { b[foot+32] = 1 })),
		bad("R09-blocks", ErrCorrupt, "blocks, want at most 1073741824", edit(small, "", func(b []byte) { b[foot+15] = 0x7f })),
		bad("R10-empty-with-count", ErrCorrupt, "an empty file with fingerprints", edit(must(), "", func(b []byte) { b[headerSize] = 1 })),
		bad("R11-last-length", ErrCorrupt, "a last block of 15 bytes", edit(small, "", func(b []byte) { b[foot+24] = 15 })),
		bad("R12-size", ErrCorrupt, "bytes of file", edit(small, "", func(b []byte) { b[foot+8] = 2 })),
		bad("R13-root-checksum", ErrCorrupt, "root at byte", edit(small, "root", func(b []byte) { b[root] ^= 1 })),
		bad("R14-root-order", ErrCorrupt, "entry 0 is ff0000000000000a", edit(small, "", func(b []byte) { b[root+7] = 0xff })),
		bad("R15-page-checksum", ErrCorrupt, "index page 0 at byte", edit(small, "page", func(b []byte) { b[page+8] ^= 1 })),
		bad("R16-page-number", ErrCorrupt, "page number 7", edit(small, "", func(b []byte) { b[page+4] = 7 })),
		bad("R17-page-first", ErrCorrupt, "as in the root", edit(small, "", func(b []byte) { b[page+8] = 9 })),
		bad("R18-page-order", ErrCorrupt, "entry 1 is 000000000000000a", edit(two, "", func(b []byte) { b[twoPage+16] = 10 })),
		bad("R19-block-checksum", ErrCorrupt, "block 0 at byte 32: checksum", edit(small, "block", func(b []byte) { b[block+16] ^= 1 })),
		bad("R20-no-keys", ErrCorrupt, "0 fingerprints, want 1 to 4096", edit(small, "", func(b []byte) { b[block+4] = 0 })),
		bad("R20-many-keys", ErrCorrupt, "4097 fingerprints", edit(small, "", func(b []byte) { b[block+4], b[block+5] = 1, 16 })),
		bad("R21-width", ErrCorrupt, "low-bit width 64", edit(small, "", func(b []byte) { b[block+6] = 64 })),
		bad("R22-block-reserved", ErrCorrupt, "reserved byte 01", edit(small, "", func(b []byte) { b[block+7] = 1 })),
		bad("R23-low-length", ErrCorrupt, "bytes of low bits", edit(small, "", func(b []byte) { b[block+6] = 60 })),
		bad("R24-stray-low", ErrCorrupt, "stray low bits", edit(must(10, 20, 25, 26), "", func(b []byte) { b[block+16] |= 0xc0 })),
		bad("R25-few-ones", ErrCorrupt, "1 ones in the high bits, want 2", edit(small, "", func(b []byte) { b[block+17] &= b[block+17] - 1 })),
		bad("R25-many-ones", ErrCorrupt, "3 ones in the high bits, want 2", edit(small, "", func(b []byte) { b[block+17] |= 0x80 })),
		bad("R26-order", ErrCorrupt, "is not above the one before it", edit(small, "", func(b []byte) { b[block+16], b[block+17] = 0, 3 })),
		bad("R26-overflow", ErrCorrupt, "is not above the one before it", edit(small, "", func(b []byte) { // first+difference passes 2⁶⁴
			for _, at := range []int{block + 8, page + 8, root, foot + 16} {
				le.PutUint64(b[at:], 1<<64-1)
			}
		})),
		bad("R27-block-first", ErrCorrupt, "as in the index", edit(small, "", func(b []byte) { b[block+8] = 11 })),
		bad("R28-block-order", ErrCorrupt, "the last of a block before", edit(two, "", func(b []byte) {
			b[BlockSize+8], b[twoPage+16] = 15, 15
			b[len(b)-footerSize+16] = 25
		})),
		bad("R29-last", ErrCorrupt, "as in the footer", edit(small, "", func(b []byte) { b[foot+16] = 26 })),
		bad("R30-count", ErrCorrupt, "count 4, want 3", edit(small, "", func(b []byte) { b[foot] = 4 })),
		bad("R30-few", ErrCorrupt, "count 0, want 1 to 4096 in 1 blocks", edit(small, "", func(b []byte) { b[foot] = 0 })),
		bad("R30-many", ErrCorrupt, "want 2 to 8192 in 2 blocks", edit(two, "", func(b []byte) {
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

func TestVectors(t *testing.T) {
	want := map[string]bool{}
	for _, v := range vectors() {
		path := filepath.Join("testdata", v.name+".fps")
		want[path] = true
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, v.bytes, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("%v (go test -update writes it)", err)
		}
		if !bytes.Equal(b, v.bytes) {
			t.Errorf("%s differs from what this version makes", path)
		}
		keys, err := decode(b)
		switch {
		case v.class == nil && (err != nil || !slices.Equal(keys, v.keys)):
			t.Errorf("%s: %x, %v, want %x", v.name, keys, err, v.keys)
		case v.class != nil && (!errors.Is(err, v.class) || !strings.Contains(err.Error(), v.says)):
			t.Errorf("%s: %v, want %v with %q", v.name, err, v.class, v.says)
		}
	}
	files, _ := filepath.Glob("testdata/*/*.fps")
	for _, f := range files {
		if !want[f] {
			t.Errorf("%s is no vector of this test", f)
		}
	}
}

// TestRules: each rule of SPEC.md names its vectors, and each bad vector its rule.
func TestRules(t *testing.T) {
	spec, err := os.ReadFile("SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^- \*\*(R\d+)\*\* (.*(?:\n  .*)*)`).FindAllStringSubmatch(string(spec), -1) {
		if _, twice := rules[m[1]]; twice {
			t.Errorf("SPEC.md has rule %s twice", m[1])
		}
		rules[m[1]] = m[2]
	}
	if len(rules) == 0 {
		t.Fatal("SPEC.md has no rules")
	}
	used := map[string]bool{}
	for _, v := range vectors() {
		if v.class == nil {
			continue
		}
		name := strings.TrimPrefix(v.name, "bad/")
		rule, _, _ := strings.Cut(name, "-")
		rule = strings.Replace(rule, "R0", "R", 1)
		used[rule] = true
		if text, ok := rules[rule]; !ok || !strings.Contains(text, "`"+name+"`") {
			t.Errorf("%s: rule %s of SPEC.md does not name it", name, rule)
		}
	}
	for rule, text := range rules {
		if !used[rule] {
			t.Errorf("rule %s has no vector: %s", rule, text)
		}
		for _, m := range regexp.MustCompile("`(R\\d+-[a-z-]+)`").FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join("testdata/bad", m[1]+".fps")); err != nil {
				t.Errorf("rule %s names %s: %v", rule, m[1], err)
			}
		}
	}
}

// TestExample compares the annotated hex of SPEC.md with the encoder.
func TestExample(t *testing.T) {
	spec, err := os.ReadFile("SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(spec), "<!-- example -->")
	text, _, _ = strings.Cut(text, "<!-- end -->")
	var got []byte
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		for _, f := range strings.Fields(line) {
			var c byte
			if n, err := fmt.Sscanf(f, "%02x", &c); n == 1 && err == nil && len(f) == 2 {
				got = append(got, c)
			}
		}
	}
	if want := must(example...); !bytes.Equal(got, want) {
		t.Errorf("SPEC.md has\n% x\nthe encoder writes\n% x", got, want)
	}
}
