package warc

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
)

// gunzip reads a member with the standard library.
func gunzip(t testing.TB, b []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// shortInputs are named by what is special about them.
func shortInputs() map[string][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, shortMax)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	var text []byte
	for i := 0; len(text) < shortMax; i++ {
		text = fmt.Appendf(text, "url: http://h%d.example.org/page/%d.html\r\n", r.IntN(9), r.IntN(1000))
	}
	all := map[string][]byte{"empty": nil, "far": append(bytes.Clone(noise[:shortMax/2]), noise[:shortMax/2]...)}
	for _, n := range []int{1, 3, 4, 7, 8, 9, 11, 12, 257, 258, 259, 600, shortMax - 1, shortMax} {
		all[fmt.Sprint("zeros ", n)] = make([]byte, n)
		all[fmt.Sprint("noise ", n)] = noise[:n]
		all[fmt.Sprint("text ", n)] = text[:n]
	}
	return all
}

func TestShort(t *testing.T) {
	for name, in := range shortInputs() {
		out := appendShort([]byte("before"), in)
		if !bytes.HasPrefix(out, []byte("before")) {
			t.Fatalf("%s: what stood before is lost", name)
		}
		if got := gunzip(t, out[6:]); !bytes.Equal(got, in) {
			t.Errorf("%s: %d bytes came back as %d", name, len(in), len(got))
		}
	}
}

// TestShortEveryMatch: each length, at each of the distances around the borders of
// their codes, comes back.
func TestShortEveryMatch(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for n := 4; n <= matchMax+1; n++ {
		for d := 1; d+n <= shortMax-8; d = d*5/4 + 1 {
			in := make([]byte, d+n+8)
			for i := range in {
				in[i] = byte(r.Uint32())
			}
			for i := range n {
				in[d+i] = in[i]
			}
			if got := gunzip(t, appendShort(nil, in)); !bytes.Equal(got, in) {
				t.Fatalf("a match of %d at distance %d does not come back", n, d)
			}
		}
	}
}

func FuzzShort(f *testing.F) {
	for _, in := range shortInputs() {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		in = in[:min(len(in), shortMax)]
		if got := gunzip(t, appendShort(nil, in)); !bytes.Equal(got, in) {
			t.Errorf("%d bytes came back as %d", len(in), len(got))
		}
	})
}
