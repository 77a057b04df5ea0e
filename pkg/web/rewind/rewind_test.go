package rewind

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"testing/iotest"

	"mercator/pkg/base/must"
)

func pattern(n int) []byte {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

var sizes = []int{0, 1, MemoryMin - 1, MemoryMin, MemoryMin + 1, MemoryMax - 1, MemoryMax, MemoryMax + 1,
	MemoryMax + windowLen - 1, MemoryMax + windowLen, MemoryMax + windowLen + 1, MemoryMax + 3*windowLen + 17}

// useUp takes the budget of long starts until the test ends.
func useUp(t *testing.T) {
	large.Add(budget)
	t.Cleanup(func() { large.Add(-budget) })
}

func TestReadsBackAndRewinds(t *testing.T) {
	t.Run("budget", func(t *testing.T) {
		readsBack(t, LargeMax, append(sizes, LargeMax-1, LargeMax, LargeMax+1, LargeMax+windowLen+1))
	})
	t.Run("no budget", func(t *testing.T) {
		useUp(t)
		readsBack(t, MemoryMax, sizes)
	})
	if n := large.Load(); n != 0 {
		t.Errorf("%d bytes of the budget were not given back", n)
	}
}

func readsBack(t *testing.T, most int, sizes []int) {
	dir := t.TempDir()
	s := New(dir, 2<<20) // one Stream for all, as a connection uses it
	defer s.Close()
	for i, n := range sizes {
		want := pattern(n)
		s.Reset(2 << 20)
		if i%2 == 1 {
			s.Expect(int64(n))
		}
		if got, err := s.ReadFrom(iotest.HalfReader(bytes.NewReader(want))); got != int64(n) || err != nil || s.Truncated() {
			t.Fatalf("size %d: read %d, %v, truncated %v", n, got, err, s.Truncated())
		}
		for range 2 {
			s.Seek(0, io.SeekStart)
			if got, err := io.ReadAll(s); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("size %d: read back %d bytes, %v", n, len(got), err)
			}
		}
		start := n
		if n >= most { // what reads on asks for more
			start = MemoryMax
		}
		if got := len(s.Start()); got != start {
			t.Errorf("size %d: %d bytes in memory, want %d", n, got, start)
		}
		for _, off := range []int{0, 1, n / 2, n - 1, n} {
			if off < 0 || off > n {
				continue
			}
			got, err := io.ReadAll(io.NewSectionReader(s, int64(off), int64(n-off)))
			if err != nil || !bytes.Equal(got, want[off:]) {
				t.Fatalf("size %d from %d: %v", n, off, err)
			}
		}
		for _, cut := range []int{n - 1, n - windowLen - 1, 10} {
			if cut < 0 || cut > n {
				continue
			}
			s.Cut(int64(cut))
			s.Seek(0, io.SeekStart)
			if got, err := io.ReadAll(s); err != nil || !bytes.Equal(got, want[:cut]) {
				t.Fatalf("size %d cut to %d: %d bytes, %v", n, cut, len(got), err)
			}
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("%d files left while in use: the backing file has a name", len(left))
	}
}

// TestBudget: Streams share the budget; those that come later use their files, and the first one gives back what it took.
func TestBudget(t *testing.T) {
	dir := t.TempDir()
	var all []*Stream
	inMemory := 0
	for range 2 * budget / LargeMax {
		s := New(dir, 2<<20)
		s.Expect(LargeMax)
		_, err := s.Write(pattern(LargeMax))
		must.OK(t, err)
		if len(s.Start()) == LargeMax {
			inMemory++
		}
		all = append(all, s)
	}
	if inMemory != budget/LargeMax {
		t.Errorf("%d documents of 1 MiB are in memory, want %d", inMemory, budget/LargeMax)
	}
	for _, s := range all {
		s.Close()
		s.Close()
	}
	if n := large.Load(); n != 0 {
		t.Errorf("%d bytes of the budget were not given back", n)
	}
}

// TestStalledStreams: documents that were announced and do not come hold what has come of them, and not the budget.
func TestStalledStreams(t *testing.T) {
	dir := t.TempDir()
	for range budget / LargeMax {
		s := New(dir, 2<<20)
		defer s.Close()
		s.Expect(LargeMax)
		_, err := s.Write(pattern(MemoryMax + 1))
		must.OK(t, err)
	}
	s := New(dir, 2<<20)
	defer s.Close()
	s.Expect(LargeMax)
	_, err := s.Write(pattern(LargeMax))
	must.OK(t, err)
	if n := len(s.Start()); n != LargeMax {
		t.Errorf("%d bytes of a document that came are in memory, want %d: %d bytes of the budget are taken", n, LargeMax, large.Load())
	}
}

func TestConformsToReader(t *testing.T) {
	useUp(t)
	want := pattern(MemoryMax + windowLen + 5000)
	s := New(t.TempDir(), 1<<20)
	defer s.Close()
	s.Write(want)
	if err := iotest.TestReader(s, want); err != nil {
		t.Error(err)
	}
}

func TestLimit(t *testing.T) {
	for _, n := range []int64{1, MemoryMax - 1, MemoryMax, MemoryMax + 1, MemoryMax + windowLen + 1} {
		for extra := range int64(2) {
			in := pattern(int(n + extra))
			a, b := New(t.TempDir(), n), New(t.TempDir(), n)
			_, err := a.ReadFrom(bytes.NewReader(in))
			must.OK(t, err)
			if got, err := b.Write(in); got != len(in) || err != nil {
				t.Fatal(got, err)
			}
			for _, s := range []*Stream{a, b} {
				if s.Len() != n || s.Truncated() != (extra > 0) {
					t.Errorf("limit %d, %d more: %d bytes, truncated %v", n, extra, s.Len(), s.Truncated())
				}
				s.Close()
			}
		}
	}
}

func TestEndlessReaderIsBounded(t *testing.T) {
	s := New(t.TempDir(), 2<<20)
	defer s.Close()
	allocs := testing.AllocsPerRun(1, func() {
		s.Reset(2 << 20)
		if n, err := s.ReadFrom(zeros{}); n != 2<<20 || err != nil || !s.Truncated() {
			t.Fatal(n, err)
		}
	})
	if allocs > 20 {
		t.Errorf("%v allocations for a reused stream", allocs)
	}
	if _, err := New("", 10).ReadFrom(stuck{}); err != io.ErrNoProgress {
		t.Errorf("reader without progress: %v", err)
	}
	broken := errors.New("broken")
	if _, err := s.ReadFrom(iotest.ErrReader(broken)); err != broken {
		t.Errorf("broken reader: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

func TestNoFolderForTheFile(t *testing.T) {
	useUp(t)
	s := New(t.TempDir()+"/missing", 1<<20)
	defer s.Close()
	if _, err := s.ReadFrom(io.LimitReader(zeros{}, 200<<10)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestLexing(t *testing.T) {
	useUp(t)
	// The same text lies in memory, across the edge of memory, and in the file.
	for _, before := range []int{0, MemoryMax - 7, MemoryMax + windowLen + 11} {
		s := New(t.TempDir(), 1<<20)
		s.Write(bytes.Repeat([]byte{'x'}, before))
		s.Write([]byte(" \t\r\n\fkey=value;last"))
		s.Write(bytes.Repeat([]byte{' '}, 1000))
		for range 2 {
			s.Seek(int64(before), io.SeekStart)
			must.OK(t, s.SkipSpace())
			if b, err := s.Peek(3); string(b) != "key" || err != nil {
				t.Fatalf("peek %q %v", b, err)
			}
			if _, err := s.TakeUntil('=', 2); err != ErrTooLong {
				t.Errorf("delimiter beyond the bound: %v", err)
			}
			if b, err := s.TakeUntil('=', 100); string(b) != "key" || err != nil {
				t.Errorf("%q %v", b, err)
			}
			if c, err := s.ReadByte(); c != 'v' || err != nil {
				t.Errorf("%q %v", c, err)
			}
			if b, err := s.TakeUntil(';', 4); string(b) != "alue" && err != ErrTooLong {
				t.Errorf("%q %v", b, err)
			}
			s.TakeUntil(';', 100)
			if b, err := s.Peek(4); string(b) != "last" || err != nil {
				t.Errorf("%q %v", b, err)
			}
			if b, err := s.TakeUntil(';', 5000); len(b) != 1004 || err != io.EOF {
				t.Errorf("%d bytes, %v", len(b), err)
			}
			if b, err := s.Peek(1); len(b) != 0 || err != io.EOF {
				t.Errorf("at the end: %q %v", b, err)
			}
			if err := s.SkipSpace(); err != nil {
				t.Error(err)
			}
		}
		s.Close()
	}
}

func TestOfReadsMemoryThatIsLent(t *testing.T) {
	b := []byte("  one\ntwo" + string(bytes.Repeat([]byte("x"), 2*MemoryMax)))
	s := Of(b)
	must.OK(t, s.SkipSpace())
	if line, err := s.TakeUntil('\n', 100); string(line) != "one" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	if _, err := s.TakeUntil('\n', 100); err != ErrTooLong {
		t.Errorf("%v, want %v", err, ErrTooLong)
	}
	if n, err := s.Write([]byte("more")); n != 4 || err != nil || !s.Truncated() {
		t.Errorf("written %d, %v, truncated %v", n, err, s.Truncated())
	}
	s.Close() // must not put b into the pools
	again := New(t.TempDir(), 0)
	defer again.Close()
	_, err := again.Write(bytes.Repeat([]byte("y"), 2*MemoryMax))
	must.OK(t, err)
	if bytes.IndexByte(b, 'y') >= 0 {
		t.Error("the memory was written to")
	}
}
