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
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"mercator/formats/fpfile"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
	"mercator/pkg/merge"
)

// list collects what an operation gives, and refuses what does not ascend.
type list []uint64

func (l *list) AddKeys(keys []uint64) error {
	for _, k := range keys {
		if n := len(*l); n > 0 && k <= (*l)[n-1] {
			return fmt.Errorf("%x after %x", k, (*l)[n-1])
		}
		*l = append(*l, k)
	}
	return nil
}

// encode returns keys as a fingerprint file.
func encode(t testing.TB, keys []uint64) []byte {
	t.Helper()
	var b bytes.Buffer
	w := fpfile.NewWriter(&b, fingerprint.Polynomial)
	must.OK(t, w.AddKeys(keys), w.Finish())
	return b.Bytes()
}

func open(t testing.TB, file []byte) *fpfile.Reader {
	t.Helper()
	r, err := fpfile.Open(bytes.NewReader(file), int64(len(file)), "set")
	must.OK(t, err)
	return r
}

// set cuts keys, one here and one there, into several files that overlap.
func set(t testing.TB, rnd *rand.Rand, keys []uint64, files int) (s merge.Set) {
	t.Helper()
	parts := make([][]uint64, files)
	for _, k := range keys {
		p := rnd.IntN(files)
		parts[p] = append(parts[p], k)
		if q := rnd.IntN(3 * files); q < files && q != p {
			parts[q] = append(parts[q], k) // in two files
		}
	}
	for _, p := range parts {
		s = append(s, open(t, encode(t, p)))
	}
	return s
}

// someKeys are random keys of some size and density.
func someKeys(rnd *rand.Rand) []uint64 {
	m := map[uint64]bool{}
	span, shift := uint64(1)<<(4+rnd.IntN(24)), rnd.IntN(40)
	n := rnd.IntN(6000)
	switch rnd.IntN(6) {
	case 0:
		n = 0
	case 1:
		n = 1
	case 2:
		n *= 20
	}
	base := rnd.Uint64N(4) << 58
	for i := range n {
		if i%2000 == 1999 && rnd.IntN(2) == 0 { // another host
			base = rnd.Uint64N(1<<16) << 48
		}
		m[base+rnd.Uint64N(span)<<shift] = true
	}
	if rnd.IntN(3) == 0 {
		m[0], m[1<<64-1] = true, true
	}
	return slices.Sorted(maps.Keys(m))
}

// TestFiles compares the operations with maps, under random Options, over 1 to 9
// sets of different size and density, of 1 to 3 files each.
func TestFiles(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 40 {
		sets := make([][]uint64, 1+rnd.IntN(9))
		count := map[uint64]int{}
		for i := range sets {
			sets[i] = someKeys(rnd)
			if i > 0 && rnd.IntN(2) == 0 { // much that is in several
				for _, k := range sets[rnd.IntN(i)] {
					if rnd.IntN(4) > 0 {
						sets[i] = append(sets[i], k)
					}
				}
				slices.Sort(sets[i])
				sets[i] = slices.Compact(sets[i])
			}
			for _, k := range sets[i] {
				count[k]++
			}
		}
		want := map[merge.Op][]uint64{}
		for k, n := range count {
			want[merge.OpUnion] = append(want[merge.OpUnion], k)
			if n == len(sets) {
				want[merge.OpIntersect] = append(want[merge.OpIntersect], k)
			}
			if _, first := slices.BinarySearch(sets[0], k); first && n == 1 {
				want[merge.OpDiff] = append(want[merge.OpDiff], k)
			}
		}
		do := func(op merge.Op, sets ...[]uint64) []uint64 {
			t.Helper()
			var in []merge.Set
			for _, keys := range sets {
				in = append(in, set(t, rnd, keys, 1+rnd.IntN(3)))
			}
			var got list
			opt := merge.Options{Threads: rnd.IntN(6), Memory: 1 << (10 + rnd.IntN(16))}
			must.OK(t, merge.Files(&got, op, in, opt))
			return got
		}
		for _, op := range []merge.Op{merge.OpUnion, merge.OpIntersect, merge.OpDiff} {
			slices.Sort(want[op])
			if got := do(op, sets...); !slices.Equal(got, want[op]) {
				t.Fatalf("round %d: operation %d on %d sets: %d keys, want %d", round, op, len(sets), len(got), len(want[op]))
			}
		}
		// union(a,b) = union(b,a), of streams too; diff then union restores.
		reversed := slices.Clone(sets)
		slices.Reverse(reversed)
		if !slices.Equal(do(merge.OpUnion, reversed...), want[merge.OpUnion]) {
			t.Fatal("the union depends on the order of the sets")
		}
		var sources []merge.Source
		for _, keys := range sets {
			sources = append(sources, open(t, encode(t, keys)).All())
		}
		var streamed list
		if err := merge.Union(&streamed, sources...); err != nil || !slices.Equal(streamed, want[merge.OpUnion]) {
			t.Fatalf("the union of streams has %d keys, %v; want %d", len(streamed), err, len(want[merge.OpUnion]))
		}
		a, b := sets[0], sets[len(sets)-1]
		if r := do(merge.OpUnion, do(merge.OpDiff, a, b), do(merge.OpIntersect, a, b)); !slices.Equal(r, a) {
			t.Fatalf("diff and intersection make %d keys, want the %d of a", len(r), len(a))
		}
	}
}

// TestFilesDamaged: a damaged block ends the operation with its error, whichever
// worker meets it, and so does a Dest that is full.
func TestFilesDamaged(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	keys := make([]uint64, 300_000)
	for i := range keys {
		keys[i] = rnd.Uint64()
	}
	slices.Sort(keys)
	good := encode(t, keys)
	bad := slices.Clone(good)
	bad[len(bad)/2] ^= 1
	for threads := range 4 {
		opt := merge.Options{Threads: threads, Memory: 1 << 20}
		for op := merge.OpUnion; op <= merge.OpDiff; op++ {
			err := merge.Files(new(list), op, []merge.Set{{open(t, good)}, {open(t, bad)}}, opt)
			if !errors.Is(err, fault.Corrupt) {
				t.Errorf("operation %d of a damaged set: %v", op, err)
			}
		}
		err := merge.Files(full{}, merge.OpUnion, []merge.Set{{open(t, good)}}, opt)
		if !errors.Is(err, errFull) {
			t.Errorf("a full disk: %v", err)
		}
	}
}

var errFull = errors.New("full")

type full struct{}

func (full) AddKeys([]uint64) error { return errFull }

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
		must.OK(t, err)
		return string(out)
	}
	a, b := text(), text()
	must.OK(t, os.WriteFile(filepath.Join(dir, "a.in"), []byte(a), 0o666), os.WriteFile(filepath.Join(dir, "b.in"), []byte(b), 0o666))
	for _, c := range []struct {
		script string
		op     merge.Op
	}{{"sort -m -u a b", merge.OpUnion}, {"comm -12 a b", merge.OpIntersect}, {"comm -23 a b", merge.OpDiff}} {
		t.Run(c.script, func(t *testing.T) {
			var sets []merge.Set
			for _, s := range []string{a, b} {
				k, err := merge.SortKeys(merge.NewText(strings.NewReader(s), "text"), 0, dir, fingerprint.Polynomial)
				must.OK(t, err)
				defer k.Close()
				r, err := k.Finish()
				must.OK(t, err)
				sets = append(sets, merge.Set{r})
			}
			var keys list
			must.OK(t, merge.Files(&keys, c.op, sets, merge.Options{}))
			var got bytes.Buffer
			must.OK(t, merge.WriteText(&got, merge.Keys(keys)))
			if want := gnu(c.script); got.String() != want {
				t.Errorf("%s: %d bytes, want %d", c.script, got.Len(), len(want))
			}
		})
	}
}

func TestText(t *testing.T) {
	want := []uint64{10, 0xfedcba9876543210, 0, 1<<64 - 1, 0xabcdef}
	text := "# keys\n\n 000000000000000A \r\nFEDCBA9876543210\n0000000000000000\n" +
		strings.Repeat("#", 70) + "\nffffffffffffffff\n0000000000abcDEF"
	for name, in := range map[string]io.Reader{
		"whole": strings.NewReader(text), "bytewise": iotest.OneByteReader(strings.NewReader(text)),
		"with its end": iotest.DataErrReader(strings.NewReader(text + "\n")),
	} {
		t.Run(name, func(t *testing.T) {
			r := merge.NewText(in, "x.txt")
			var got []uint64
			dst := make([]uint64, 3)
			n, err := 0, error(nil)
			for err == nil {
				n, err = r.Read(dst)
				got = append(got, dst[:n]...)
			}
			if err != io.EOF || !slices.Equal(got, want) {
				t.Errorf("%s: %x, %v; want %x", name, got, err, want)
			}
		})
	}
	for bad, place := range map[string]string{
		"12\n": "line 1", strings.Repeat("0", 300_000): "line 1", "0000000000000001\n\n000000000000000g\n": "line 3",
		"0000000000000001\n00000000000000 1\n": "line 2", "#\n" + strings.Repeat("0", 17): "line 2",
	} {
		t.Run(bad[:min(len(bad), 60)], func(t *testing.T) {
			r := merge.TextKeys(strings.NewReader(bad), "x.txt")
			var err error
			for err == nil {
				_, err = r()
			}
			if !errors.Is(err, fault.Corrupt) || !strings.HasPrefix(err.Error(), "x.txt: "+place+": ") || !strings.Contains(err.Error(), "16 hexadecimal digits") {
				t.Errorf("%.40q: %v", bad, err)
			}
		})
	}
	wrong := errors.New("broken")
	if _, err := merge.TextKeys(iotest.ErrReader(wrong), "x.txt")(); err != wrong {
		t.Errorf("%v, want the reader's error", err)
	}
}

// FuzzText compares each line with fingerprint.Parse, and prints what it reads.
func FuzzText(f *testing.F) {
	f.Add([]byte("0123456789abcdef\nFEDCBA9876543210\n"))
	f.Add([]byte("0123456789abcde:\n0123456789abcde`\n0123456789abcd@f\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var want []uint64
		good := true
		for line := range bytes.Lines(b) {
			line = bytes.TrimSpace(line)
			if len(line) == 0 || line[0] == '#' {
				continue
			}
			k, err := fingerprint.Parse(string(line))
			if good = err == nil; !good {
				break
			}
			want = append(want, k)
		}
		next := merge.TextKeys(bytes.NewReader(b), "x")
		var got []uint64
		k, err := next()
		for ; err == nil; k, err = next() {
			got = append(got, k)
		}
		if (err == io.EOF) != good || !slices.Equal(got, want) {
			t.Fatalf("%x, %v; want %x", got, err, want)
		}
		var out bytes.Buffer
		must.OK(t, merge.WriteText(&out, merge.Keys(got)))
		for i, line := range strings.Fields(out.String()) {
			if line != fingerprint.Format(got[i]) {
				t.Fatalf("%s, want %s", line, fingerprint.Format(got[i]))
			}
		}
	})
}

// TestSortKeys sorts more than fits its memory: many runs, and some go on
// where the one before ended.
func TestSortKeys(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	shapes := map[string]func(i int) uint64{
		"random":     func(int) uint64 { return rnd.Uint64() },
		"ascending":  func(i int) uint64 { return uint64(i) / 3 },
		"descending": func(i int) uint64 { return uint64(-i) },
		"few":        func(int) uint64 { return rnd.Uint64N(1000) },
	}
	for name, key := range shapes {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{0, 1, 4096, 600_000} {
				keys := make([]uint64, n)
				for i := range keys {
					keys[i] = key(i)
				}
				i := 0
				f, err := merge.SortKeys(merge.KeysOf(func() (uint64, error) {
					if i == n {
						return 0, io.EOF
					}
					i++
					return keys[i-1], nil
				}), 0, t.TempDir(), fingerprint.Polynomial) // 147 runs of 4,096 keys
				must.OK(t, err)
				r, err := f.Finish()
				must.OK(t, err)
				var got list
				must.OK(t, merge.Copy(&got, r.All()))
				slices.Sort(keys)
				if want := slices.Compact(keys); !slices.Equal(got, want) {
					t.Errorf("%s: %d keys, want %d", name, len(got), len(want))
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestSortKeysMemory: runs that wait to be merged take no writer's memory.
func TestSortKeysMemory(t *testing.T) {
	const runs, chunk = 60, 1 << 12 // the least that is sorted at a time
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	before, n, grown := heap(), 0, int64(0)
	f, err := merge.SortKeys(merge.KeysOf(func() (uint64, error) {
		if n == runs*chunk {
			grown = heap() - before
			return 0, io.EOF
		}
		n++
		return rnd.Uint64(), nil
	}), 1, t.TempDir(), fingerprint.Polynomial)
	must.OK(t, err)
	defer f.Close()
	if r, err := f.Finish(); err != nil || r.Count() != runs*chunk {
		t.Errorf("%v, want %d keys", err, runs*chunk)
	}
	if grown > 1<<20 {
		t.Errorf("%d runs take %d bytes, want less than 1 MiB", runs, grown)
	} else {
		t.Logf("%d runs take %d bytes", runs, grown)
	}
}
