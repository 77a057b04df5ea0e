package merge_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mercator/formats/fpfile"
	"mercator/pkg/fault"
	"mercator/pkg/fingerprint"
	"mercator/pkg/merge"
)

// list collects what an operation gives, and refuses what does not ascend.
type list []uint64

func (l *list) Add(k uint64) error {
	if n := len(*l); n > 0 && k <= (*l)[n-1] {
		return fmt.Errorf("%x after %x", k, (*l)[n-1])
	}
	*l = append(*l, k)
	return nil
}

// source encodes keys as a fingerprint file.
func source(t *testing.T, keys []uint64) merge.Source {
	t.Helper()
	var b bytes.Buffer
	w := fpfile.NewWriter(&b, fingerprint.Polynomial)
	for _, k := range keys {
		if err := w.Add(k); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	r, err := fpfile.Open(bytes.NewReader(b.Bytes()), int64(b.Len()), "set")
	if err != nil {
		t.Fatal(err)
	}
	return r.All()
}

func do(t *testing.T, op func(dst merge.Dest, s []merge.Source) error, sets ...[]uint64) []uint64 {
	t.Helper()
	var sources []merge.Source
	for _, s := range sets {
		sources = append(sources, source(t, s))
	}
	got := list{}
	if err := op(&got, sources); err != nil {
		t.Fatal(err)
	}
	return got
}

func union(d merge.Dest, s []merge.Source) error     { return merge.Union(d, s...) }
func intersect(d merge.Dest, s []merge.Source) error { return merge.Intersect(d, s...) }
func diff(d merge.Dest, s []merge.Source) error      { return merge.Diff(d, s[0], s[1:]...) }

// TestSets compares the operations with maps, over random sets of different
// size and density, 1 to 9 of them.
func TestSets(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 60 {
		span := uint64(1) << (4 + rnd.IntN(20))
		shift := rnd.IntN(40)
		sets := make([][]uint64, 1+rnd.IntN(9))
		count := map[uint64]int{}
		for i := range sets {
			m := map[uint64]bool{}
			for range rnd.IntN(6000) * rnd.IntN(2) {
				m[rnd.Uint64N(span)<<shift] = true
			}
			if rnd.IntN(3) == 0 {
				m[0], m[1<<64-1] = true, true
			}
			sets[i] = slices.Sorted(maps.Keys(m))
			if sets[i] == nil {
				sets[i] = []uint64{}
			}
			for k := range m {
				count[k]++
			}
		}
		first := map[uint64]bool{}
		for _, k := range sets[0] {
			first[k] = true
		}
		want := map[string][]uint64{}
		for k, n := range count {
			want["union"] = append(want["union"], k)
			if n == len(sets) {
				want["intersect"] = append(want["intersect"], k)
			}
			if first[k] && n == 1 {
				want["diff"] = append(want["diff"], k)
			}
		}
		got := map[string][]uint64{"union": do(t, union, sets...), "intersect": do(t, intersect, sets...), "diff": do(t, diff, sets...)}
		for op := range got {
			slices.Sort(want[op])
			if !slices.Equal(got[op], want[op]) {
				t.Fatalf("round %d: %s of %d sets: %d keys, want %d", round, op, len(sets), len(got[op]), len(want[op]))
			}
		}
		// union(a,b) = union(b,a); diff then union restores.
		reversed := slices.Clone(sets)
		slices.Reverse(reversed)
		if !slices.Equal(do(t, union, reversed...), got["union"]) {
			t.Fatal("the union depends on the order of the sets")
		}
		a, b := sets[0], sets[len(sets)-1]
		if r := do(t, union, do(t, diff, a, b), do(t, intersect, a, b)); !slices.Equal(r, a) {
			t.Fatalf("diff and intersection make %d keys, want the %d of a", len(r), len(a))
		}
	}
}

// TestAgainstSort compares with GNU sort and comm on the same text.
func TestAgainstSort(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	dir := t.TempDir()
	text := func() string {
		var b strings.Builder
		for range 100_000 {
			// Half are clustered as the URLs of a few hosts are; there are duplicates.
			k := rnd.Uint64N(1<<17) << 47
			if rnd.IntN(2) == 0 {
				k = rnd.Uint64N(3)<<48 | rnd.Uint64N(1<<20)
			}
			fmt.Fprintln(&b, fingerprint.Format(k))
		}
		return b.String()
	}
	gnu := func(script string) string {
		cmd := exec.Command("sh", "-c", "sort -u a.in >a; sort -u b.in >b; "+script)
		cmd.Dir = dir
		cmd.Env = []string{"LC_ALL=C", "PATH=/usr/bin:/bin"}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	a, b := text(), text()
	for name, s := range map[string]string{"a.in": a, "b.in": b} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(s), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		script string
		op     func(merge.Dest, []merge.Source) error
	}{{"sort -m -u a b", union}, {"comm -12 a b", intersect}, {"comm -23 a b", diff}} {
		var sources []merge.Source
		for _, s := range []string{a, b} {
			k, err := merge.SortKeys(merge.TextKeys(strings.NewReader(s), "text"), 0, dir, fingerprint.Polynomial)
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			r, err := k.Finish()
			if err != nil {
				t.Fatal(err)
			}
			sources = append(sources, r.All())
		}
		var keys list
		if err := c.op(&keys, sources); err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := merge.WriteText(&got, merge.Keys(keys)); err != nil {
			t.Fatal(err)
		}
		if want := gnu(c.script); got.String() != want {
			t.Errorf("%s: %d bytes, want %d", c.script, got.Len(), len(want))
		}
	}
}

func TestTextKeys(t *testing.T) {
	next := merge.TextKeys(strings.NewReader("# keys\n\n 000000000000000A \r\n"), "x.txt")
	if k, err := next(); k != 10 || err != nil {
		t.Errorf("%d, %v", k, err)
	}
	if _, err := next(); err != io.EOF {
		t.Errorf("%v at the end", err)
	}
	for _, bad := range []string{"12\n", strings.Repeat("0", 100_000)} {
		if _, err := merge.TextKeys(strings.NewReader(bad), "x.txt")(); !errors.Is(err, fault.Corrupt) || !strings.HasPrefix(err.Error(), "x.txt: line 1: ") {
			t.Errorf("%.20q: %v", bad, err)
		}
	}
}
