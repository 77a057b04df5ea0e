package merge_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/base/needs"
	"mercator/pkg/merge"
)

type rec struct {
	key     uint64
	payload string
}

// sorted runs recs through a Sorter.
func sorted(t *testing.T, mem int64, recs []rec) []rec {
	t.Helper()
	dir := t.TempDir()
	s := merge.NewSorter(mem, dir)
	defer s.Close()
	for _, r := range recs {
		must.OK(t, s.Add(r.key, []byte(r.payload)))
	}
	it, err := s.Sort()
	must.OK(t, err)
	if names, _ := os.ReadDir(dir); len(names) != 0 {
		t.Fatalf("temporary files have names: %v", names)
	}
	var out []rec
	for {
		key, payload, err := it.Next()
		if err == io.EOF {
			return out
		}
		must.OK(t, err)
		out = append(out, rec{key, string(payload)})
	}
}

func TestSorter(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 2, 1000, 60000, 200000} {
		for _, keys := range []uint64{1, 10, 1 << 20, 0} {
			t.Run(fmt.Sprintf("%d of %d", n, keys), func(t *testing.T) {
				recs := make([]rec, n)
				for i := range recs {
					key := rnd.Uint64()
					if keys > 0 {
						key %= keys
					}
					// The payload tells the order of arrival, in some length.
					recs[i] = rec{key, fmt.Sprintf("%08d%*s", i, rnd.IntN(20), "")}
				}
				want := slices.Clone(recs)
				slices.SortStableFunc(want, func(a, b rec) int {
					switch {
					case a.key < b.key:
						return -1
					case a.key > b.key:
						return 1
					}
					return 0
				})
				for _, mem := range []int64{0, 8 << 20, 1 << 30} {
					if got := sorted(t, mem, recs); !slices.Equal(got, want) {
						t.Fatalf("with %d bytes of memory: %d records, wrong order", mem, len(got))
					}
				}
			})
		}
	}
}

// TestSorterLarge has payloads near and above the memory.
func TestSorterLarge(t *testing.T) {
	var recs, want []rec
	for i := range 20 {
		recs = append(recs, rec{uint64(20 - i), string(bytes.Repeat([]byte{byte(i)}, i*200_000))})
	}
	want = slices.Clone(recs)
	slices.Reverse(want)
	if got := sorted(t, 1<<20, recs); !slices.Equal(got, want) {
		t.Error("wrong order")
	}
}

// TestSorterPasses has more runs than are merged at a time: 1 MiB holds buffers for 32.
func TestSorterPasses(t *testing.T) {
	const n = 500_000
	s := merge.NewSorter(1<<20, t.TempDir())
	defer s.Close()
	rnd := rand.New(rand.NewPCG(3, 4))
	var sum uint64
	for i := range n {
		k := rnd.Uint64() >> 50 // many ties
		sum += k
		must.OK(t, s.Add(k, binary.BigEndian.AppendUint64(nil, uint64(i))))
	}
	it, err := s.Sort()
	must.OK(t, err)
	var count int
	var lastKey, lastArrival uint64
	for {
		k, p, err := it.Next()
		if err == io.EOF {
			break
		}
		must.OK(t, err)
		arrival := binary.BigEndian.Uint64(p)
		if count > 0 && (k < lastKey || k == lastKey && arrival <= lastArrival) {
			t.Fatalf("record %d: key %d arrival %d after %d %d", count, k, arrival, lastKey, lastArrival)
		}
		lastKey, lastArrival = k, arrival
		sum -= k
		count++
	}
	if count != n || sum != 0 {
		t.Errorf("%d records, want %d", count, n)
	}
}

// TestSorterMemory: the heap stays near the bound however much is added.
func TestSorterMemory(t *testing.T) {
	const mem = 4 << 20
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := merge.NewSorter(mem, t.TempDir())
	defer s.Close()
	payload := make([]byte, 40)
	var most int64
	for i := range 1_000_000 {
		must.OK(t, s.Add(uint64(i)*0x9e3779b97f4a7c15, payload))
		if i%200_000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			most = max(most, int64(now.HeapAlloc)-int64(before.HeapAlloc))
		}
	}
	if most > mem+mem/4 {
		t.Errorf("heap grew by %d bytes, want about %d at most", most, mem)
	}
}

// TestSorterMemoryOfLargeRows: where blocks of runs are larger, fewer are merged at a time. One large row is
// of one run.
func TestSorterMemoryOfLargeRows(t *testing.T) {
	const mem = 4 << 20
	var before, now runtime.MemStats
	for _, rows := range [][]int{slices.Repeat([]int{300 << 10}, 300), append(slices.Repeat([]int{1 << 10}, 60_000), 3<<20)} {
		runtime.GC()
		runtime.ReadMemStats(&before)
		s := merge.NewSorter(mem, t.TempDir())
		for i, size := range rows {
			must.OK(t, s.Add(uint64(i)*0x9e3779b97f4a7c15, make([]byte, size)))
		}
		it, err := s.Sort()
		n, most := 0, int64(0)
		for last := uint64(0); err == nil; n++ {
			var key uint64
			if key, _, err = it.Next(); err == nil && key < last {
				t.Fatalf("key %x after %x", key, last)
			}
			last = key
			if n%(len(rows)/8) == 0 {
				runtime.GC()
				runtime.ReadMemStats(&now)
				most = max(most, int64(now.HeapAlloc)-int64(before.HeapAlloc))
			}
		}
		if err != io.EOF || n != len(rows)+1 {
			t.Errorf("%d rows, %v", n-1, err)
		}
		if most > mem+mem/4 {
			t.Errorf("%d rows: heap grew by %d bytes, want about %d at most", len(rows), most, mem)
		}
		s.Close()
	}
}

// TestSorterDamage: a bit that changes on the disk while rows wait there is found, whichever it is.
func TestSorterDamage(t *testing.T) {
	if runtime.GOOS != "linux" {
		needs.Skip(t, "needs /proc, to open a file without a name")
	}
	const rows = 50_000
	whole := 0
	for i := range 40 {
		dir := t.TempDir()
		s := merge.NewSorter(1<<20, dir)
		for i := range rows {
			must.OK(t, s.Add(uint64(i)*0x9e3779b97f4a7c15, binary.BigEndian.AppendUint64(nil, uint64(i))))
		}
		it, err := s.Sort()
		must.OK(t, err)
		f := spilled(t, dir)
		size, err := f.Seek(0, io.SeekEnd)
		must.OK(t, err)
		at := (2*int64(i) + 1) * size / 80 // past the first blocks, which are in memory
		var b [1]byte
		_, err = f.ReadAt(b[:], at)
		must.OK(t, err)
		b[0] ^= 1 << (i % 8)
		if _, err := f.WriteAt(b[:], at); err != nil {
			t.Fatal(err)
		}
		f.Close()
		var sum, n uint64
		for err == nil {
			var payload []byte
			if _, payload, err = it.Next(); err == nil {
				sum += binary.BigEndian.Uint64(payload)
				n++
			}
		}
		switch fault.ClassOf(err) {
		case fault.Corrupt, fault.Truncated:
		default: // what was read already, or is not read again: a header, the directory
			if err != io.EOF || n != rows || sum != rows*(rows-1)/2 {
				t.Errorf("bit %d of byte %d of %d: %d rows, %v", i%8, at, size, n, err)
			}
			whole++
		}
		s.Close()
	}
	if whole > 10 {
		t.Errorf("%d of 40 flips changed nothing that is read", whole)
	}
}

// spilled opens the file without a name that stands in dir.
func spilled(t *testing.T, dir string) *os.File {
	t.Helper()
	names, err := filepath.Glob("/proc/self/fd/*")
	for _, name := range names {
		if target, err := os.Readlink(name); err == nil && strings.HasPrefix(target, dir) {
			f, err := os.OpenFile(name, os.O_RDWR, 0)
			must.OK(t, err)
			return f
		}
	}
	t.Fatalf("no file of %s is open: %v", dir, err)
	return nil
}

func TestSorterNoFolder(t *testing.T) {
	s := merge.NewSorter(0, t.TempDir()+"/missing")
	var err error
	for i := 0; err == nil && i < 100_000; i++ {
		err = s.Add(uint64(i), make([]byte, 100))
	}
	if err == nil {
		t.Error("spilling to a folder that does not exist succeeded")
	}
	if _, again := s.Sort(); again != err {
		t.Errorf("then sorted: %v, want %v", again, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
