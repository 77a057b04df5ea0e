package main

import (
	"fmt"
	"hash/crc64"
	"math/rand/v2"
	"runtime"

	"mercator/pkg/base/fingerprint"
)

// fp64 fingerprints strings of one length, 256 MiB of them in all.
func fp64(b *bench) error {
	const total = 256 << 20
	data := make([]byte, 1<<20)
	rng := rand.New(rand.NewPCG(b.seed, 7))
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	table := crc64.MakeTable(crc64.ECMA)
	head()
	var sink uint64
	for _, c := range []struct {
		length  int
		atLeast float64
	}{{16, 0}, {64, 1.8}, {256, 0}, {1 << 10, 15}, {16 << 10, 15}, {1 << 20, 15}} {
		each := func(f func([]byte) uint64) func() error {
			return func() error {
				for done := 0; done < total; done += c.length {
					at := done & (len(data) - 1)
					sink ^= f(data[at : at+c.length])
				}
				return nil
			}
		}
		took, err := b.turns(
			contender{"FP64", nil, each(fingerprint.Of)},
			contender{"crc64", nil, each(func(p []byte) uint64 { return crc64.Update(0, table, p) })},
		)
		if err != nil {
			return err
		}
		want := ""
		if c.atLeast > 0 {
			want = fmt.Sprintf("≥ %g", c.atLeast)
		}
		b.row(fmt.Sprintf("FP64 of %d B", c.length), took[0], total, "B", "hash/crc64, ECMA", took[1], want, c.atLeast)
	}
	runtime.KeepAlive(sink)
	return nil
}
