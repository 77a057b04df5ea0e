// Package spectest holds a format's reader to its page and to its test vectors. Tests alone import it.
//
// The page is SPEC.md in the test's folder. It has rules that readers must follow, numbered from R1 on,
// each with the names of the vectors that break it,
//
//   - **R7** a block of no fingerprints, or of more than 4,096: `R7-no-keys`, `R7-many-keys`
//
// and a worked example between <!-- example --> and <!-- end -->. The vectors are the files of
// testdata/good and testdata/bad; go test -update writes them, and the regions of the page that a test makes.
package spectest

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mercator/pkg/base/fault"
)

var update = flag.Bool("update", false, "write testdata, and what SPEC.md shows, from the vectors of the test")

const page = "SPEC.md"

// A Vector is a file that readers must take (good/NAME) or refuse (bad/R7-WHAT), or a case of a rule that is no file.
type Vector struct {
	Name  string // of the file below testdata, without Format.Ext; bad ones begin with the rule that they break
	Bytes []byte // of the file
	Loose bool   // the file may differ from Bytes, since another program made it, or another version of a library. It is written only where there is none
	Gives string // result of reading a good one
	Class fault.Class
	Says  string                   // part of a bad one's error, which has a place, but of none of another rule's
	Case  func(t testing.TB) error // reads a vector that is no file
}

// A Format has the vectors of a format and the functions that read its files. Check compares it with the page.
type Format struct {
	Ext     string
	Vectors []Vector

	// Read reads a whole file as strictly as the page asks for. What it gives says what was in it.
	Read func(t testing.TB, name string, file []byte) (gives string, err error)
	// File returns the name that errors give a file; nil: the file's own.
	File func(name string) string
	// Every is how many bytes lie between two that are cut at or damaged, where another format holds the file and is itself
	// damaged at each; 0: none.
	Every int
	// Whole says that the first n bytes of a good file are a file themselves; nil: never.
	Whole func(name string, file []byte, n int) bool
	// Open says that a good file in which byte at was damaged may be taken, since no checksum covers it; nil: never.
	Open func(name string, file, damaged []byte, at int) bool

	// Text: people write the file. It has no checksum, so what was cut or damaged may be taken, and it is refused as a wrong usage.
	Text bool

	Example []byte            // in hex in the region "example"; nil: none
	Regions map[string]string // text of other regions
}

// Check runs all checks: vectors, rules, what the page shows, and damage.
func Check(t *testing.T, f Format) {
	t.Run("vectors", func(t *testing.T) { f.vectors(t) })
	t.Run("rules", func(t *testing.T) { f.rules(t) })
	t.Run("page", func(t *testing.T) { f.shown(t) })
	t.Run("damage", func(t *testing.T) { f.damage(t) })
}

func (f *Format) rules(t testing.TB) {
	var names []string
	for _, v := range f.Vectors {
		if name, bad := strings.CutPrefix(v.Name, "bad/"); bad {
			names = append(names, name)
		}
	}
	Rules(t, names)
}

func (f *Format) file(name string) string {
	if f.File == nil {
		return name
	}
	return f.File(name)
}

func (f *Format) vectors(t testing.TB) {
	listed, said := map[string]bool{}, map[string]string{}
	for i := range f.Vectors {
		v := &f.Vectors[i]
		name := v.Name + f.Ext
		var gives string
		var err error
		if v.Case != nil {
			err = v.Case(t)
		} else {
			if listed[name] {
				t.Errorf("%s twice", name)
			}
			listed[name] = true
			gives, err = f.Read(t, name, f.load(t, v))
		}
		switch {
		case strings.HasPrefix(v.Name, "good/"):
			if err != nil || gives != v.Gives {
				t.Errorf("%s: error %v, read as (-want +got):\n%s", name, err, diff(v.Gives, gives))
			}
		case !strings.HasPrefix(v.Name, "bad/") || v.Class == "" || v.Says == "":
			t.Errorf("%s: want good/NAME, or bad/NAME with a class and a part of its error", name)
		default:
			if !errors.Is(err, v.Class) || !strings.Contains(fmt.Sprint(err), v.Says) {
				t.Errorf("%s: %v (%s), want %s with %q", name, err, fault.ClassOf(err), v.Class, v.Says)
			} else if e := (*fault.Error)(nil); !errors.As(err, &e) || e.File == "" || v.Case == nil && !f.refused(err, name, len(v.Bytes) > 0) {
				t.Errorf("%s: %v, want a fault of file %s with its place", name, err, f.file(name))
			} else {
				said[v.Name] = strings.TrimPrefix(err.Error(), e.File)
			}
		}
	}
	for _, v := range f.Vectors {
		for _, other := range slices.Sorted(maps.Keys(said)) {
			if v.Says != "" && ruleOf(v.Name) != ruleOf(other) && strings.Contains(said[other], v.Says) {
				t.Errorf("%s: %q does not tell its rule from that of %s: %s", v.Name, v.Says, other, said[other])
			}
		}
	}
	for _, dir := range []string{"good", "bad"} {
		files, _ := os.ReadDir(filepath.Join("testdata", dir))
		for _, file := range files {
			if name := dir + "/" + file.Name(); !listed[name] {
				t.Errorf("testdata/%s is no vector of this test", name)
			}
		}
	}
}

// diff compares texts by their lines.
func diff(before, after string) string {
	return cmp.Diff(strings.SplitAfter(before, "\n"), strings.SplitAfter(after, "\n"))
}

// load returns the file of a vector.
func (f *Format) load(t testing.TB, v *Vector) []byte {
	t.Helper()
	path := filepath.Join("testdata", v.Name+f.Ext)
	_, err := os.Stat(path)
	if *update && (!v.Loose || v.Bytes != nil && os.IsNotExist(err)) {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, v.Bytes, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if !v.Loose && !bytes.Equal(b, v.Bytes) {
		t.Errorf("%s is not what this version makes; go test -update writes it (-file +this version):\n%s", path, diff(hex.Dump(b), hex.Dump(v.Bytes)))
	}
	return b
}

var (
	ruleText   = regexp.MustCompile(`(?m)^- \*\*R(\d+)\*\* .*(?:\n  .*)*`)
	vectorName = regexp.MustCompile("`(R\\d+-[^`]+)`")
	ruleNumber = regexp.MustCompile(`^(?:bad/)?R0*(\d+)-`)
)

// ruleOf is the number of the rule that a vector breaks, 0 if its name says none.
func ruleOf(name string) int {
	m := ruleNumber.FindStringSubmatch(name)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// Rules holds the rules of the page to vectors by their names: each rule names one or more, and each is named by its rule
// and nowhere else.
func Rules(t testing.TB, names []string) {
	text := read(t)
	want := map[string]int{}
	for _, name := range names {
		want[name]++
		if want[name] > 1 {
			t.Errorf("vector %s twice", name)
		}
	}
	named := map[string]bool{}
	for i, m := range ruleText.FindAllStringSubmatch(text, -1) {
		if m[1] != strconv.Itoa(i+1) {
			t.Errorf("rule %d of %s is R%s", i+1, page, m[1])
		}
		vectors := vectorName.FindAllStringSubmatch(m[0], -1)
		if len(vectors) == 0 {
			t.Errorf("rule R%s has no vector", m[1])
		}
		for _, v := range vectors {
			if want[v[1]] == 0 || strconv.Itoa(ruleOf(v[1])) != m[1] || named[v[1]] {
				t.Errorf("rule R%s names %s, which is no vector of it, or named twice", m[1], v[1])
			}
			named[v[1]] = true
		}
		text = strings.Replace(text, m[0], "", 1)
	}
	if len(named) == 0 {
		t.Errorf("%s has no rules", page)
	}
	for _, name := range names {
		if !named[name] {
			t.Errorf("no rule of %s names %s", page, name)
		}
	}
	for _, v := range vectorName.FindAllStringSubmatch(text, -1) {
		t.Errorf("%s names %s outside of the rules", page, v[1])
	}
}

func read(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// region returns the place of the text between <!-- name --> and <!-- end -->.
func region(t testing.TB, text, name string) (from, to int) {
	t.Helper()
	begin := "<!-- " + name + " -->\n"
	before, rest, found := strings.Cut(text, begin)
	inside, rest, ended := strings.Cut(rest, "<!-- end -->")
	if !found || !ended || strings.Contains(rest, begin) {
		t.Fatalf("%s has no region %q, or no end of it, or two", page, name)
	}
	from = len(before) + len(begin)
	return from, from + len(inside)
}

// shown compares the regions of the page with what the test makes.
func (f *Format) shown(t testing.TB) {
	if f.Example == nil && len(f.Regions) == 0 {
		t.Error("no worked example")
	}
	text := read(t)
	if f.Example != nil {
		from, to := region(t, text, "example")
		var got []byte
		for line := range strings.Lines(text[from:to]) {
			digits, _, _ := strings.Cut(line, "#")
			b, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
			if err != nil {
				t.Errorf("%s: %q: %v", page, line, err)
			}
			got = append(got, b...)
		}
		if !bytes.Equal(got, f.Example) {
			t.Errorf("the example in %s is not what the encoder gives; its comments are for you to write (-page +encoder):\n%s", page, diff(hex.Dump(got), hex.Dump(f.Example)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Regions)) {
		from, to := region(t, text, name)
		want := f.Regions[name]
		if *update {
			text = text[:from] + want + text[to:]
			if err := os.WriteFile(page, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		} else if text[from:to] != want {
			t.Errorf("region %s in %s is not what the test makes; go test -update writes it (-page +test):\n%s", name, page, diff(text[from:to], want))
		}
	}
}

// damage cuts each good vector at every byte, and flips a bit of every byte.
func (f *Format) damage(t testing.TB) {
	for i := range f.Vectors {
		v := &f.Vectors[i]
		if v.Case != nil || !strings.HasPrefix(v.Name, "good/") {
			continue
		}
		name := v.Name + f.Ext
		b := f.load(t, v)
		wrong := 0
		report := func(format string, args ...any) {
			if wrong++; wrong <= 5 { // where nothing of a file is noticed, a few bytes are enough
				t.Errorf("%s, %s, want a fault of %s with its place", name, fmt.Sprintf(format, args...), f.file(name))
			}
		}
		for n := 0; n < len(b); n += 1 + f.Every {
			_, err := f.Read(t, name, b[:n])
			if whole := f.Whole != nil && f.Whole(name, b, n); whole && err != nil {
				t.Errorf("%s, cut at %d where it is whole: %v", name, n, err)
			} else if !whole && !f.refused(err, name, n > 0) && (err != nil || !f.Text) {
				report("cut at %d of %d: %v", n, len(b), err)
			}
		}
		for at := 0; at < len(b); at += 1 + f.Every {
			c := bytes.Clone(b)
			c[at] ^= 1 << (at % 8)
			if _, err := f.Read(t, name, c); !f.refused(err, name, true) && (err != nil || !f.Text && (f.Open == nil || !f.Open(name, b, c, at))) {
				report("bit %d of byte %d of %d flipped: %v", at%8, at, len(b), err)
			}
		}
		if wrong > 5 {
			t.Errorf("%s: and %d more", name, wrong-5)
		}
	}
}

// refused reports whether err says which file was refused, as what, and where in it. In an empty file there is no place, and
// what is no file of the format at all needs none.
func (f *Format) refused(err error, name string, place bool) bool {
	var e *fault.Error
	if !errors.As(err, &e) || e.File != f.file(name) {
		return false
	}
	switch e.Class {
	case fault.WrongKind:
		return true
	case fault.Usage:
		return f.Text && (e.Place != "" || !place)
	case fault.Corrupt, fault.Truncated, fault.Version:
		return e.Place != "" || !place
	}
	return false
}

// Seeds adds the files of all vectors to a fuzz target of one argument.
func Seeds(f *testing.F, vectors []Vector) {
	for _, v := range vectors {
		if v.Case == nil {
			f.Add(v.Bytes)
		}
	}
}
