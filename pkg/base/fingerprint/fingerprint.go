// Package fingerprint computes Mercator's 64-bit Rabin fingerprints (FP64) and
// the keys that are made of them.
//
// FP64 reads a string as a polynomial over GF(2), prefixed by a one, and takes
// the remainder modulo a fixed irreducible polynomial of degree 64, after
// Rabin ("Fingerprinting by random polynomials", 1981) by Broder's table
// method ("Some applications of Rabin's fingerprinting method", 1993). The
// coefficient of x⁰ stands in the top bit, so the empty string's fingerprint is
// the polynomial itself.
//
// # What is promised
//
//   - Two strings of at most n bits, chosen without knowledge of a random
//     polynomial, collide with probability at most n/(2⁶⁴ − 2³²). Against people
//     who choose strings to collide, use such a polynomial (RandomPoly).
//   - A fingerprint can be extended: Of(a+b) follows from Of(a) and b.
//   - Values are the same in every version: they stand in files. SPEC.md beside
//     this file has the definition, the odds of false answers, and what somebody
//     gains who makes strings collide.
//
// # Bounds and averages
//
// The difference of two strings of at most m bits has no more than m/64 factors of degree 64, hence the bound. Two have
// the same low 48 bits with probability at most (m+64)/(2⁴⁸ − 2¹⁶): P then divides the difference times x⁶⁴ less one of 2¹⁶
// remainders. For URLs of 64 bytes that is 576 times the average, and the average is what URLs do. FP64 is linear: if two
// strings collide, so do all pairs that differ in the same way. The leading one tells apart strings that begin with zeros.
//
// # How it is computed
//
// Short strings go through tables, 16 bytes a step; long ones, where the machine
// has carry-less multiplication (amd64, arm64), through clmul. Every path gives the same.
//
// All functions are safe for many goroutines.
package fingerprint

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"strconv"
	"unsafe"

	"mercator/pkg/base/fault"
)

// Polynomial is the one that Mercator published. The coefficient of x⁰ is the
// top bit; the coefficient of x⁶⁴, which is one, is not stored.
const Polynomial = 0x911498AE0E66BAD6

// HostBits is the number of high bits of a URL checksum that come from the
// host. A host's URLs then lie within one 2⁻¹⁶th of the key space, which makes
// batches local, and 10⁷ URLs of one host still expect only 0.2 false "seen"
// answers (10¹⁴/2⁴⁹). With 24 bits they would be 45; with 8, 0.0007 and 256 times less locality.
const HostBits = 16

const hostMask uint64 = (1<<HostBits - 1) << (64 - HostBits)

var mercator = newPoly(Polynomial)

// Of returns the FP64 of b.
func Of(b []byte) uint64 { return mercator.Of(b) }

// OfString returns the FP64 of s. It does not allocate.
func OfString(s string) uint64 { return mercator.OfString(s) }

// SHA256 returns the first eight bytes of the SHA-256 of s, for where somebody gains who makes two strings of one FP64.
func SHA256(s string) uint64 {
	h := sha256.Sum256([]byte(s))
	return binary.BigEndian.Uint64(h[:])
}

// New returns a hash; Sum64 gives the FP64 of the bytes written, and Sum appends
// it in big-endian order. The hash is an encoding.BinaryMarshaler too.
func New() hash.Hash64 { return mercator.New() }

// URLKey returns the URL checksum: the top 16 bits of the host's FP64, then the
// low 48 bits of the canonical URL's (HostBits says why 16).
func URLKey(host, canonicalURL string) uint64 { return mercator.URLKey(host, canonicalURL) }

// JoinKey is URLKey of the FP64 of the host and the FP64 of the canonical URL.
func JoinKey(host, url uint64) uint64 { return host&hostMask | url&^hostMask }

// Format returns v as 16 hexadecimal digits, the form of every 64-bit value in text.
func Format(v uint64) string { return string(Append(nil, v)) }

// Append appends the 16 hexadecimal digits of v to b.
func Append(b []byte, v uint64) []byte {
	const digits = "0123456789abcdef"
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, digits[v>>shift&15])
	}
	return b
}

// Parse reads 16 hexadecimal digits of either case. Other text is fault.Corrupt.
func Parse(s string) (uint64, error) {
	if len(s) == 16 {
		// The base 16 of ParseUint takes no sign, prefix or underscore.
		if v, err := strconv.ParseUint(s, 16, 64); err == nil {
			return v, nil
		}
	}
	if len(s) > 32 {
		s = s[:32] + "…"
	}
	return 0, &fault.Error{Class: fault.Corrupt, Found: strconv.Quote(s), Want: "16 hexadecimal digits"}
}

// slices is the number of bytes that one step of Poly.slice consumes.
const slices = 16

// Poly fingerprints by one polynomial. Package-level functions use Mercator's.
type Poly struct {
	p uint64
	// table[k][b] is what byte b, followed by k zero bytes, adds to the remainder.
	table [slices][256]uint64
	fold  *folding
}

// NewPoly makes the tables (32 KiB) for p, written as Polynomial is. A
// polynomial that is not irreducible is fault.Usage: its collisions have no bound.
func NewPoly(p uint64) (*Poly, error) {
	if p == Polynomial {
		return mercator, nil
	}
	if !Irreducible(p) {
		return nil, &fault.Error{Class: fault.Usage, Found: "polynomial " + Format(p) + " is reducible",
			Want: "an irreducible polynomial of degree 64"}
	}
	return newPoly(p), nil
}

// RandomPoly draws irreducible polynomials from random until it finds one, in
// 64 tries on average. random must give uniform 64-bit values that nobody who
// chooses strings can guess.
func RandomPoly(random func() uint64) *Poly {
	for {
		if p := random(); Irreducible(p) {
			return newPoly(p)
		}
	}
}

func newPoly(p uint64) *Poly {
	f := &Poly{p: p, fold: newFolding(p)}
	for b := range f.table[0] {
		v := uint64(b)
		for range 8 {
			v = timesX(v, p)
		}
		f.table[0][b] = v
	}
	for k := 1; k < slices; k++ {
		for b, v := range f.table[k-1] {
			f.table[k][b] = v>>8 ^ f.table[0][byte(v)]
		}
	}
	return f
}

// timesX multiplies v by x: the coefficient of x⁶³, which is the low bit, overflows.
func timesX(v, p uint64) uint64 { return v>>1 ^ p&-(v&1) }

// Polynomial returns the polynomial, written as the constant of that name is.
func (f *Poly) Polynomial() uint64 { return f.p }

// Of returns the fingerprint of b.
func (f *Poly) Of(b []byte) uint64 { return f.extend(f.p, b) }

// OfString returns the fingerprint of s. It does not allocate.
func (f *Poly) OfString(s string) uint64 {
	return f.extend(f.p, unsafe.Slice(unsafe.StringData(s), len(s))) // extend only reads
}

// URLKey is the package's URLKey with this polynomial.
func (f *Poly) URLKey(host, canonicalURL string) uint64 {
	return JoinKey(f.OfString(host), f.OfString(canonicalURL))
}

// DocKey returns the key by which a document is known to the content-seen test:
// the fingerprint of contentFP and length in eight big-endian bytes each and one byte
// that is 1 for a truncated body, else 0.
func (f *Poly) DocKey(contentFP uint64, length int64, truncated bool) uint64 {
	var b [17]byte
	binary.BigEndian.PutUint64(b[0:], contentFP)
	binary.BigEndian.PutUint64(b[8:], uint64(length))
	if truncated {
		b[16] = 1
	}
	return f.Of(b[:])
}

// New returns a hash with this polynomial.
func (f *Poly) New() hash.Hash64 { return &digest{poly: f, fp: f.p} }

// extend returns the fingerprint of a+b; fp is the fingerprint of a.
func (f *Poly) extend(fp uint64, b []byte) uint64 {
	if len(b) >= clmulMin {
		return clmul(f.fold, fp, &b[0], len(b), wideMin)
	}
	return f.slice(fp, b)
}

// slice is extend by the table method, sixteen or eight bytes a step.
func (f *Poly) slice(fp uint64, b []byte) uint64 {
	t := &f.table
	for len(b) >= slices {
		// The sums are trees, and the second half waits for nothing of the step before.
		lo := fp ^ binary.LittleEndian.Uint64(b)
		hi := binary.LittleEndian.Uint64(b[8:])
		second := ((t[7][byte(hi)] ^ t[6][byte(hi>>8)]) ^ (t[5][byte(hi>>16)] ^ t[4][byte(hi>>24)])) ^
			((t[3][byte(hi>>32)] ^ t[2][byte(hi>>40)]) ^ (t[1][byte(hi>>48)] ^ t[0][hi>>56]))
		first := ((t[15][byte(lo)] ^ t[14][byte(lo>>8)]) ^ (t[13][byte(lo>>16)] ^ t[12][byte(lo>>24)])) ^
			((t[11][byte(lo>>32)] ^ t[10][byte(lo>>40)]) ^ (t[9][byte(lo>>48)] ^ t[8][lo>>56]))
		fp = first ^ second
		b = b[slices:]
	}
	if len(b) >= 8 {
		lo := fp ^ binary.LittleEndian.Uint64(b)
		fp = t[7][byte(lo)] ^ t[6][byte(lo>>8)] ^ t[5][byte(lo>>16)] ^ t[4][byte(lo>>24)] ^
			t[3][byte(lo>>32)] ^ t[2][byte(lo>>40)] ^ t[1][byte(lo>>48)] ^ t[0][lo>>56]
		b = b[8:]
	}
	// Fewer than eight bytes, none waiting for the one before it.
	rest := fp >> (8 * len(b))
	for i, c := range b {
		rest ^= t[(len(b)-1-i)&7][byte(fp)^c]
		fp >>= 8
	}
	return rest
}

// digest is the hash of New. Its saved state, by encoding.BinaryMarshaler, is
// the polynomial and the fingerprint so far, in big-endian order.
type digest struct {
	poly *Poly
	fp   uint64
}

func (d *digest) Write(b []byte) (int, error) {
	d.fp = d.poly.extend(d.fp, b)
	return len(b), nil
}

func (d *digest) WriteString(s string) (int, error) {
	d.fp = d.poly.extend(d.fp, unsafe.Slice(unsafe.StringData(s), len(s)))
	return len(s), nil
}

func (d *digest) Sum(b []byte) []byte { return binary.BigEndian.AppendUint64(b, d.fp) }
func (d *digest) Sum64() uint64       { return d.fp }
func (d *digest) Reset()              { d.fp = d.poly.p }
func (d *digest) Size() int           { return 8 }
func (d *digest) BlockSize() int      { return slices }

func (d *digest) AppendBinary(b []byte) ([]byte, error) {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, d.poly.p), d.fp), nil
}

func (d *digest) MarshalBinary() ([]byte, error) { return d.AppendBinary(nil) }

func (d *digest) UnmarshalBinary(b []byte) error {
	if len(b) != 16 {
		return &fault.Error{Class: fault.Corrupt, Place: "state of a hash", Found: strconv.Itoa(len(b)) + " bytes", Want: "16"}
	}
	if p := binary.BigEndian.Uint64(b); p != d.poly.p {
		return &fault.Error{Class: fault.WrongKind, Place: "state of a hash", Found: "polynomial " + Format(p), Want: Format(d.poly.p)}
	}
	d.fp = binary.BigEndian.Uint64(b[8:])
	return nil
}
