package bloom

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mercator/pkg/fault"
	"mercator/pkg/fingerprint"
)

var update = flag.Bool("update", false, "write testdata from the vectors in this file")

// vector is one file of testdata. Bad ones carry the rule that they break.
type vector struct {
	name  string
	bytes []byte
	keys  []uint64 // of a good one
	class error    // of a bad one
	says  string   // part of its error
}

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

func open(b []byte) (*Reader, error) { return Open(bytes.NewReader(b), int64(len(b)), "test") }

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

func vectors() []vector {
	one := must(1, example...)
	g := func(name string, b []byte, keys ...uint64) vector {
		return vector{name: "good/" + name, bytes: b, keys: keys}
	}
	bad := func(name string, class error, says string, b []byte) vector {
		return vector{name: "bad/" + name, bytes: b, class: class, says: says}
	}
	var corrupt, cut error = fault.Corrupt, fault.Truncated
	return []vector{
		g("01-empty", must(1)),
		g("02-example", one, example...),
		g("03-two-pages", must(2, 0, 1, 1<<63, 1<<64-1), 0, 1, 1<<63, 1<<64-1),

		bad("R1-magic", fault.WrongKind, "not a Bloom filter", edit(one, "", func(b []byte) { b[1] = 'X' })),
		bad("R2-nothing", cut, "the end", nil),
		bad("R2-header", cut, "a header of 64", one[:40]),
		bad("R2-page", cut, "8256 bytes for 1 pages", one[:5000]),
		bad("R3-major", fault.Version, "format version 2.0", edit(one, "", func(b []byte) { b[8] = 2 })),
		bad("R4-header-checksum", corrupt, "header: checksum", edit(one, "header", func(b []byte) { b[24]++ })),
		bad("R5-features", fault.Version, "unknown features 00000001", edit(one, "", func(b []byte) { b[12] = 1 })),
		bad("R6-no-pages", corrupt, "0 pages", edit(one, "", func(b []byte) { b[32] = 0 })),
		bad("R6-many-pages", corrupt, "pages, want 1 to", edit(one, "", func(b []byte) { b[39] = 1 })),
		bad("R7-reserved", corrupt, "reserved bytes", edit(one, "", func(b []byte) { b[56] = 1 })),
		bad("R7-rate", corrupt, "a rate out of range", edit(one, "", func(b []byte) { le.PutUint64(b[48:], math.Float64bits(math.NaN())) })),
		bad("R8-size", corrupt, "8257 bytes of file", append(slices.Clone(one), 0)),
		bad("R9-page-checksum", corrupt, "page 0 at byte 64: checksum", edit(one, "page", func(b []byte) { b[100] ^= 1 })),
		bad("R10-page-number", corrupt, "page number 1", edit(one, "", func(b []byte) { b[headerSize+numberAt] = 1 })),
		bad("R11-padding", corrupt, "bits outside", edit(one, "", func(b []byte) { b[headerSize+pageBlocks*blockBytes] = 1 })),
		bad("R12-page-ones", corrupt, "bits set", edit(one, "", func(b []byte) { b[headerSize+onesAt]++ })),
		bad("R13-ones", corrupt, "as counted", edit(one, "", func(b []byte) { b[40]++ })),
		bad("R13-rate", corrupt, "as counted", edit(one, "", func(b []byte) { b[48] ^= 1 })),
	}
}

// decode checks a file and returns which of keys it holds.
func decode(b []byte, keys []uint64) ([]bool, error) {
	r, err := open(b)
	if err != nil {
		return nil, err
	}
	if err := r.Check(nil); err != nil {
		return nil, err
	}
	seen := make([]bool, len(keys))
	return seen, r.ContainsAll(keys, seen)
}

func TestVectors(t *testing.T) {
	want := map[string]bool{}
	for _, v := range vectors() {
		path := filepath.Join("testdata", v.name+".bloom")
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
		seen, err := decode(b, v.keys)
		switch {
		case v.class == nil && (err != nil || slices.Contains(seen, false)):
			t.Errorf("%s: %v, %v", v.name, seen, err)
		case v.class != nil && (!errors.Is(err, v.class) || !strings.Contains(err.Error(), v.says)):
			t.Errorf("%s: %v, want %v with %q", v.name, err, v.class, v.says)
		}
	}
	files, _ := filepath.Glob("testdata/*/*.bloom")
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
			if _, err := os.Stat(filepath.Join("testdata/bad", m[1]+".bloom")); err != nil {
				t.Errorf("rule %s names %s: %v", rule, m[1], err)
			}
		}
	}
}

// annotated is the hex of a worked example: the header, and of its one page every
// block that is not empty and the end.
func annotated(b []byte) string {
	var out strings.Builder
	line := func(p []byte, note string) {
		for len(p) > 16 {
			fmt.Fprintf(&out, "    % x\n", p[:16])
			p = p[16:]
		}
		fmt.Fprintf(&out, "    %-47s   # %s\n", fmt.Sprintf("% x", p), note)
	}
	line(b[0:8], "magic")
	line(b[8:12], "version 1.0")
	line(b[12:16], "features")
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

// TestExample compares the annotated hex of SPEC.md with the encoder.
func TestExample(t *testing.T) {
	spec, err := os.ReadFile("SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(spec), "<!-- example -->\n")
	text, _, _ = strings.Cut(text, "<!-- end -->")
	if want := annotated(must(1, example...)); text != want {
		t.Errorf("SPEC.md has\n%s\nthe encoder writes\n%s", text, want)
	}
}
