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
		out := new(deflater).appendShort([]byte("before"), in)
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
			if got := gunzip(t, new(deflater).appendShort(nil, in)); !bytes.Equal(got, in) {
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
			out := new(deflater).appendStored([]byte("before"), first, noise[:n], []byte(recordEnd))
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

// memberInputs are of lengths around the borders of blocks, and of bytes whose codes are short, long, or none.
func memberInputs() map[string][]byte {
	r := rand.New(rand.NewPCG(8, 9))
	var text []byte
	for i := 0; len(text) < 3*storedMax; i++ {
		text = fmt.Appendf(text, "<li><a href=\"/page/%d.html\">%x</a>\n", r.IntN(1e4), r.Uint32())
	}
	noise := make([]byte, 2*storedMax)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	// Frequencies that double make the longest codes; what is plain must not match.
	var steep []byte
	for c, n := 0, 1; n < storedMax/4; c, n = c+1, n+n/2+1 {
		for range n {
			steep = append(steep, byte(c))
		}
	}
	r.Shuffle(len(steep), func(i, j int) { steep[i], steep[j] = steep[j], steep[i] })
	all := map[string][]byte{"steep": steep, "noise, text": append(bytes.Clone(noise), text[:9999]...)}
	for _, n := range []int{shortMax + 1, distanceMax, storedMax - 1, storedMax, storedMax + 1, storedMax + slack, 2*storedMax + 3} {
		all[fmt.Sprint("zeros ", n)] = make([]byte, n)
		all[fmt.Sprint("noise ", n)] = noise[:min(n, len(noise))]
		all[fmt.Sprint("text ", n)] = text[:n]
	}
	for _, d := range []int{distanceMax - 1, distanceMax, distanceMax + 1, storedMax, storedMax + 1} {
		all[fmt.Sprint("far ", d)] = append(bytes.Clone(noise[:d]), noise[:1000]...)
	}
	return all
}

// TestMember: what is longer comes back, and is not longer than the bytes themselves, in blocks.
func TestMember(t *testing.T) {
	d := &deflater{}
	for name, in := range memberInputs() {
		out := d.appendMember([]byte("before"), in)
		if got := gunzip(t, out[6:]); !bytes.Equal(got, in) {
			t.Errorf("%s: %d bytes came back as %d", name, len(in), len(got))
		}
		if again := new(deflater).appendMember(nil, in); !bytes.Equal(again, out[6:]) {
			t.Errorf("%s: %d bytes, and %d where nothing was compressed before", name, len(out)-6, len(again))
		}
		if most := len(in) + 40 + len(in)/storedMax*5; len(out) > most {
			t.Errorf("%s: %d bytes became %d, want at most %d", name, len(in), len(out), most)
		}
		if most := len(in)/2 + 200; strings.HasPrefix(name, "text") && len(out) > most {
			t.Errorf("%s: %d bytes became %d, want at most %d", name, len(in), len(out), most)
		}
	}
}

// TestCodeLengths: codes are complete, none is too long, and what is more frequent has no longer one.
func TestCodeLengths(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 11))
	for range 500 {
		count := make([]uint32, 2+r.IntN(literals-2))
		count[0], count[1] = 1, 1
		for i := range count[2:] {
			count[2+i] = uint32(r.Uint64() >> (48 + r.IntN(17)))
		}
		for _, most := range []int{9, codeMax} {
			lens := make([]uint8, len(count))
			codeLengths(lens, count, most)
			room := 1 << most
			for s, n := range lens {
				if int(n) > most || (n == 0) != (count[s] == 0) {
					t.Fatalf("a symbol that stands %d times has a code of %d bits, want at most %d", count[s], n, most)
				}
				if n > 0 {
					room -= 1 << (most - int(n))
				}
				for other, m := range lens {
					if count[s] > count[other] && n > m && m > 0 {
						t.Fatalf("codes of %d and %d bits for symbols that stand %d and %d times", n, m, count[s], count[other])
					}
				}
			}
			if room != 0 {
				t.Fatalf("%d codes of %d bits are left, want none", room, most)
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
		if got := noise([]byte(c.block)); got != c.want {
			t.Errorf("%s: noise %v, want %v", name, got, c.want)
		}
		rec := &Record{Type: TypeResponse, Date: testDate, TargetURI: "http://example.org/" + strings.Repeat("u", len(name)*300), Block: strings.NewReader(c.block), Length: int64(len(c.block))}
		out, err := Encoder{}.Append(nil, rec)
		if err != nil {
			t.Fatal(err)
		}
		if got := gunzip(t, out); !bytes.HasSuffix(got, []byte("\r\n\r\n"+c.block+recordEnd)) {
			t.Errorf("%s: the block did not come back", name)
		}
	}
}

func FuzzMember(f *testing.F) {
	for name, in := range memberInputs() {
		if !strings.HasPrefix(name, "noise") {
			f.Add(in[:min(len(in), 9999)])
		}
	}
	d := &deflater{}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) == 0 {
			return
		}
		if got := gunzip(t, d.appendMember(nil, in)); !bytes.Equal(got, in) {
			t.Errorf("%d bytes came back as %d", len(in), len(got))
		}
	})
}

func FuzzShort(f *testing.F) {
	for _, in := range shortInputs() {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		in = in[:min(len(in), shortMax)]
		if got := gunzip(t, new(deflater).appendShort(nil, in)); !bytes.Equal(got, in) {
			t.Errorf("%d bytes came back as %d", len(in), len(got))
		}
	})
}
