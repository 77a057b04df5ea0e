package fingerprint_test

import (
	"encoding"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc64"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
)

func TestVectors(t *testing.T) {
	for _, v := range []struct {
		in   string
		want uint64
	}{
		{"", fingerprint.Polynomial},
		{"a", 0x4b7d239c4d186c4f},
		{"abc", 0x3b6e25bd6e0e10fb},
		{"http://www.example.com/", 0x07fa663713929c3e},
	} {
		t.Run(v.in, func(t *testing.T) {
			if got := fingerprint.Of([]byte(v.in)); got != v.want {
				t.Errorf("Of(%q) = %016x, want %016x", v.in, got, v.want)
			}
			if got := fingerprint.OfString(v.in); got != v.want {
				t.Errorf("OfString(%q) = %016x, want %016x", v.in, got, v.want)
			}
		})
	}
}

func TestHashState(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	other := fingerprint.RandomPoly(rnd.Uint64)
	s := strings.Repeat("some document ", 200)
	for _, f := range []func() hash.Hash64{fingerprint.New, other.New} {
		whole := f()
		whole.Write([]byte(s))
		for _, cut := range []int{0, 1, 17, 1000, len(s)} {
			a, b := f(), f()
			a.Write([]byte(s[:cut]))
			state, err := a.(encoding.BinaryMarshaler).MarshalBinary()
			must.OK(t, err)
			must.OK(t, b.(encoding.BinaryUnmarshaler).UnmarshalBinary(state))
			b.Write([]byte(s[cut:]))
			if b.Sum64() != whole.Sum64() {
				t.Errorf("gone on at %d: %016x, want %016x", cut, b.Sum64(), whole.Sum64())
			}
		}
	}
	h := fingerprint.New().(encoding.BinaryUnmarshaler)
	if err := h.UnmarshalBinary(make([]byte, 15)); !errors.Is(err, fault.Corrupt) {
		t.Errorf("15 bytes: %v, want fault.Corrupt", err)
	}
	state, _ := other.New().(encoding.BinaryMarshaler).MarshalBinary()
	if err := h.UnmarshalBinary(state); !errors.Is(err, fault.WrongKind) {
		t.Errorf("another polynomial: %v, want fault.WrongKind", err)
	}
}

// byCRC is a second implementation: CRC-64 with the same polynomial, freed of
// the inversions that hash/crc64 applies.
func byCRC(p uint64, b []byte) uint64 { return ^crc64.Update(^p, crc64.MakeTable(p), b) }

func TestAgainstCRC64(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 300)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	other := fingerprint.RandomPoly(rnd.Uint64)
	for n := range len(b) + 1 {
		if got, want := fingerprint.Of(b[:n]), byCRC(fingerprint.Polynomial, b[:n]); got != want {
			t.Fatalf("%d bytes: %016x, by CRC %016x", n, got, want)
		}
		if got, want := other.Of(b[:n]), byCRC(other.Polynomial(), b[:n]); got != want {
			t.Fatalf("polynomial %016x, %d bytes: %016x, by CRC %016x", other.Polynomial(), n, got, want)
		}
	}
}

func FuzzOf(f *testing.F) {
	f.Add([]byte(""), 0)
	f.Add([]byte("http://www.example.com/"), 7)
	f.Add([]byte(strings.Repeat("abc", 50)), 16)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		want := byCRC(fingerprint.Polynomial, b)
		if got := fingerprint.Of(b); got != want {
			t.Fatalf("Of = %016x, want %016x", got, want)
		}
		if cut < 0 || cut > len(b) {
			cut = len(b) / 2
		}
		h := fingerprint.New()
		h.Write(b[:cut])
		h.Write(b[cut:])
		if got := h.Sum64(); got != want {
			t.Fatalf("written in two pieces: %016x, want %016x", got, want)
		}
	})
}

func TestHash(t *testing.T) {
	h := fingerprint.New()
	for _, c := range []byte("http://www.example.com/") {
		h.Write([]byte{c})
	}
	if got := h.Sum64(); got != 0x07fa663713929c3e {
		t.Errorf("Sum64 = %016x", got)
	}
	if got := h.Sum([]byte{1}); len(got) != 9 || binary.BigEndian.Uint64(got[1:]) != h.Sum64() {
		t.Errorf("Sum = %x", got)
	}
	s := strings.Repeat("0123456789", 300)
	rnd := rand.New(rand.NewPCG(7, 8))
	for range 100 {
		h.Reset()
		for rest := s; rest != ""; {
			n := 1 + rnd.IntN(min(len(rest), 1+rnd.IntN(700)))
			io.WriteString(h, rest[:n])
			rest = rest[n:]
		}
		if got := h.Sum64(); got != fingerprint.OfString(s) {
			t.Fatalf("in pieces: %016x, want %016x", got, fingerprint.OfString(s))
		}
	}
	h.Reset()
	if got := h.Sum64(); got != fingerprint.Polynomial {
		t.Errorf("after Reset: %016x", got)
	}
}

func TestURLKey(t *testing.T) {
	const host, url = "www.example.com", "http://www.example.com/"
	key := fingerprint.URLKey(host, url)
	if key>>48 != fingerprint.OfString(host)>>48 {
		t.Errorf("top bits %04x are not the host's", key>>48)
	}
	if key&(1<<48-1) != 0x663713929c3e {
		t.Errorf("low bits of %016x are not the URL's", key)
	}
}

func TestDocKey(t *testing.T) {
	poly, err := fingerprint.NewPoly(fingerprint.Polynomial)
	must.OK(t, err)
	b := []byte{0x3b, 0x6e, 0x25, 0xbd, 0x6e, 0x0e, 0x10, 0xfb, 0, 0, 0, 0, 0, 0, 0, 3, 1}
	if got, want := poly.DocKey(0x3b6e25bd6e0e10fb, 3, true), fingerprint.Of(b); got != want {
		t.Errorf("DocKey = %016x, want %016x", got, want)
	}
	b[16] = 0
	if got, want := poly.DocKey(0x3b6e25bd6e0e10fb, 3, false), fingerprint.Of(b); got != want {
		t.Errorf("DocKey = %016x, want %016x", got, want)
	}
}

func TestText(t *testing.T) {
	for _, v := range []uint64{0, 1, fingerprint.Polynomial, 1<<64 - 1} {
		s := fingerprint.Format(v)
		if got, err := fingerprint.Parse(s); err != nil || got != v || len(s) != 16 {
			t.Errorf("Parse(%q) = %x, %v", s, got, err)
		}
		if got, err := fingerprint.Parse(strings.ToUpper(s)); err != nil || got != v {
			t.Errorf("Parse(%q) = %x, %v", strings.ToUpper(s), got, err)
		}
	}
	for _, s := range []string{"", "0", "0x911498AE0E66BA", "+911498ae0e66bad", "911498ae_e66bad6", "911498ae0e66bad60", "911498ae0e66badg", " 911498ae0e66bad"} {
		if _, err := fingerprint.Parse(s); !errors.Is(err, fault.Corrupt) {
			t.Errorf("Parse(%q): %v, want a fault", s, err)
		}
	}
}

func TestIrreducible(t *testing.T) {
	if !fingerprint.Irreducible(fingerprint.Polynomial) {
		t.Error("Mercator's polynomial is irreducible")
	}
	// x⁶⁴+x⁴+x³+x+1, the usual GF(2⁶⁴): bits 0, 1, 3 and 4 from the top.
	if !fingerprint.Irreducible(0xd800000000000000) {
		t.Error("x⁶⁴+x⁴+x³+x+1 is irreducible")
	}
	for p, why := range map[uint64]string{
		0:                       "x⁶⁴",
		1 << 63:                 "(x+1)⁶⁴",
		0xc000000000000000:      "x⁶⁴+x+1 has small factors",
		0x8000000080000000:      "(x³²+x¹⁶+1)², by squares",
		0xd800000000000000 >> 1: "divisible by x",
	} {
		t.Run(fmt.Sprint(p), func(t *testing.T) {
			if fingerprint.Irreducible(p) {
				t.Errorf("%016x: reducible (%s)", p, why)
			}
			if _, err := fingerprint.NewPoly(p); !errors.Is(err, fault.Usage) {
				t.Errorf("NewPoly(%016x): %v, want fault.Usage", p, err)
			}
		})
	}
	// One polynomial in 64 is irreducible.
	rnd := rand.New(rand.NewPCG(3, 4))
	n := 0
	for range 6400 {
		if fingerprint.Irreducible(rnd.Uint64()) {
			n++
		}
	}
	if n < 60 || n > 140 {
		t.Errorf("%d of 6400 random polynomials are irreducible, want about 100", n)
	}
}

func TestNoAllocation(t *testing.T) {
	s := strings.Repeat("x", 100)
	if n := testing.AllocsPerRun(100, func() { fingerprint.URLKey("example.com", s) }); n != 0 {
		t.Errorf("URLKey: %v allocations", n)
	}
}
