package warc

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"mercator/pkg/base/must"
)

// gunzip reads a member with the standard library.
func gunzip(t testing.TB, b []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(b))
	must.OK(t, err)
	got, err := io.ReadAll(z)
	must.OK(t, err)
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

// TestStored: parts of any length come back, and cost little more than their bytes.
func TestStored(t *testing.T) {
	r := rand.NewChaCha8([32]byte{5})
	noise := make([]byte, 3*storedMax)
	r.Read(noise)
	for _, first := range shortInputs() {
		for _, n := range []int{0, 1, storedMax - 1, storedMax, storedMax + 1, 2*storedMax + 7} {
			out := appendStored([]byte("before"), first, noise[:n], []byte(recordEnd))
			want := append(append(bytes.Clone(first), noise[:n]...), recordEnd...)
			if got := gunzip(t, out[6:]); !bytes.Equal(got, want) {
				t.Fatalf("%d and %d bytes came back as %d", len(first), n, len(got))
			}
			if most := len(want) + len(first)/8 + 60 + n/storedMax*5; len(out) > most {
				t.Errorf("%d and %d bytes became %d, want at most %d", len(first), n, len(out), most)
			}
		}
	}
}

// TestNoise: what a compressor made is stored, whatever is before it; what shrinks is compressed.
func TestNoise(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 7))
	var text bytes.Buffer
	for text.Len() < 400<<10 {
		fmt.Fprintf(&text, "<li><a href=\"/page/%d.html\">%x</a>\n", r.IntN(1e6), r.Uint64())
	}
	var gz bytes.Buffer
	w := gzip.NewWriter(&gz)
	w.Write(text.Bytes())
	w.Close()
	packed := gz.Bytes()
	head := "HTTP/1.1 200 OK\r\nServer: test\r\n\r\n"
	for name, c := range map[string]struct {
		block string
		want  bool
	}{
		"gzip":         {head + string(packed), true},
		"long head":    {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 3*shortMax) + "\r\n\r\n" + string(packed), false},
		"no head":      {string(packed), true},
		"short":        {string(packed[:noiseMin-1]), false},
		"small":        {head + string(packed[:noiseMin]), true},
		"text":         {head + text.String(), false},
		"base64":       {head + base64.StdEncoding.EncodeToString(packed), false},
		"half":         {head + string(packed[:50000]) + text.String()[:50000], false},
		"other half":   {head + text.String()[:50000] + string(packed[:50000]), false},
		"zeros within": {head + string(packed[:40000]) + string(make([]byte, 8000)) + string(packed[:40000]), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := noise([]byte(c.block)); got != c.want {
				t.Errorf("%s: noise %v, want %v", name, got, c.want)
			}
			rec := &Record{Type: TypeResponse, Date: testDate, TargetURI: "http://example.org/" + strings.Repeat("u", len(name)*300), Block: strings.NewReader(c.block), Length: int64(len(c.block))}
			out, err := Encoder{}.Append(nil, rec)
			must.OK(t, err)
			if got := gunzip(t, out); !bytes.HasSuffix(got, []byte("\r\n\r\n"+c.block+recordEnd)) {
				t.Errorf("%s: the block did not come back", name)
			}
		})
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
