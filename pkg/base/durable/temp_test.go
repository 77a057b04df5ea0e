package durable

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
		for len(want) < length {
			p := make([]byte, min(length-len(want), 1+rng.IntN(tempMin/4)))
			for i := range p {
				p[i] = byte(rng.Uint32())
			}
			if n, err := temp.Write(p); n != len(p) || err != nil {
				t.Fatal(n, err)
			}
			want = append(want, p...)
		}
		got, err := io.ReadAll(io.NewSectionReader(temp, 0, temp.Size()))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("length %d: %d bytes of %d, or other ones; %v", length, len(got), len(want), err)
		}
		if (temp.file != nil) != (length > tempMin) {
			t.Errorf("length %d: a file: %v", length, temp.file != nil)
		}
		if n, err := temp.ReadAt(make([]byte, length+6), 0); n != length || err != io.EOF {
			t.Errorf("length %d: read %d, %v, want the end", length, n, err)
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
