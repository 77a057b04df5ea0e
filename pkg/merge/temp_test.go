package merge

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"testing"
)

// TestTemp: what is written is read back, whether the file is in memory, on the disk, or went there. It makes a file only when it is
// longer than tempMin, and says so if it cannot.
func TestTemp(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, length := range []int{0, 1, tempMin - 1, tempMin, tempMin + 1, 3 * tempMin} {
		temp := &Temp{Dir: t.TempDir()}
		var want []byte
		same := func() {
			t.Helper()
			got, err := io.ReadAll(temp.Reader())
			if err != nil || !bytes.Equal(got, want) || temp.Size() != int64(len(want)) {
				t.Fatalf("length %d: %d bytes of %d, or other ones; size %d, %v", length, len(got), len(want), temp.Size(), err)
			}
		}
		for len(want) < length {
			p := make([]byte, min(length-len(want), 1+rng.IntN(tempMin/4)))
			for i := range p {
				p[i] = byte(rng.Uint32())
			}
			if n, err := temp.Write(p); n != len(p) || err != nil {
				t.Fatal(n, err)
			}
			want = append(want, p...)
			at := rng.IntN(len(want))
			p = p[:min(len(p), len(want)-at, 8)]
			if n, err := temp.WriteAt(p, int64(at)); n != len(p) || err != nil {
				t.Fatal(n, err)
			}
			copy(want[at:], p)
		}
		same()
		if (temp.file != nil) != (length > tempMin) {
			t.Errorf("length %d: a file: %v", length, temp.file != nil)
		}
		if _, err := temp.WriteAt([]byte("end"), int64(length)+5); err != nil { // behind a gap
			t.Fatal(err)
		}
		want = append(want, "\x00\x00\x00\x00\x00end"...)
		same()
		if n, err := temp.ReadAt(make([]byte, 9), temp.Size()-3); n != 3 || err != io.EOF {
			t.Errorf("length %d: read %d behind the end, %v", length, n, err)
		}
		if err := temp.Close(); err != nil {
			t.Error(err)
		}
		if list, err := os.ReadDir(temp.Dir); err != nil || len(list) > 0 {
			t.Error(list, err)
		}
	}
	none := &Temp{Dir: "/nowhere"}
	if n, err := none.Write(make([]byte, tempMin+1)); n != 0 || !errors.Is(err, fs.ErrNotExist) {
		t.Error(n, err)
	}
}
