package fingerprint_test

import (
	"crypto/md5"
	"crypto/sha1"
	"fmt"
	"hash/crc64"
	"testing"

	"mercator/pkg/base/fingerprint"
)

// BenchmarkChecksums sets FP64 beside what the papers name instead of it, and
// beside CRC-64 of the standard library: by its own polynomial, for which it has
// tables at every length, and by Mercator's, for which it makes them from 2 KiB on.
// bench/fingerprint.sh prints the ratios.
func BenchmarkChecksums(b *testing.B) {
	own, mercator := crc64.MakeTable(crc64.ECMA), crc64.MakeTable(fingerprint.Polynomial)
	random := fingerprint.RandomPoly(func() uint64 { return 0xd800000000000000 })
	for _, n := range []int{16, 64, 1 << 10, 16 << 10} {
		buf := make([]byte, n)
		for _, c := range []struct {
			name string
			sum  func()
		}{
			{"fp64", func() { fingerprint.Of(buf) }},
			{"other-polynomial", func() { random.Of(buf) }},
			{"crc64-ecma", func() { crc64.Checksum(buf, own) }},
			{"crc64-mercator", func() { crc64.Checksum(buf, mercator) }},
			{"md5", func() { md5.Sum(buf) }},
			{"sha1", func() { sha1.Sum(buf) }},
		} {
			b.Run(fmt.Sprintf("%dB/%s", n, c.name), func(b *testing.B) {
				b.SetBytes(int64(n))
				for b.Loop() {
					c.sum()
				}
			})
		}
	}
}
