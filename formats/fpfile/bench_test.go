package fpfile

import (
	"encoding/binary"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// benchKeys are uniform keys: FPFILE_BENCH_KEYS of them, or 4 million. Their
// density is that of 10⁸ in all 64 bits, so that blocks are as in a set of that size.
var benchKeys = func() func() []uint64 {
	var keys []uint64
	return func() []uint64 {
		if keys == nil {
			n, err := strconv.Atoi(os.Getenv("FPFILE_BENCH_KEYS"))
			if err != nil {
				n = 4e6
			}
			rnd := rand.New(rand.NewPCG(21, 22))
			keys = make([]uint64, n)
			for i := range keys {
				keys[i] = rnd.Uint64N(uint64(float64(1<<64-1) * min(1, float64(n)/1e8)))
			}
			slices.Sort(keys)
			keys = slices.Compact(keys)
		}
		return keys
	}
}()

// perKey runs f and reports the time of its fastest run, by the key: other
// work on the machine lengthens the others.
func perKey(b *testing.B, keys int, f func()) {
	least := time.Duration(math.MaxInt64)
	for b.Loop() {
		start := time.Now()
		f()
		least = min(least, time.Since(start))
	}
	b.ReportMetric(float64(least.Nanoseconds())/float64(keys), "ns/key")
}

// eachWay runs a benchmark with and without assembly.
func eachWay(b *testing.B, run func(b *testing.B)) {
	if useAVX512 {
		b.Run("avx512", run)
	}
	with := useAVX512
	useAVX512 = false
	b.Run("go", run)
	useAVX512 = with
}

func BenchmarkDecode(b *testing.B) {
	keys := benchKeys()
	data := encode(b, keys)
	eachWay(b, func(b *testing.B) {
		r, _ := open(data)
		it := r.All()
		perKey(b, len(keys), func() {
			it.Reset()
			for {
				if _, err := it.Block(); err != nil {
					break
				}
			}
		})
	})
	b.Run("uvarint", func(b *testing.B) {
		var deltas []byte
		var prev uint64
		for _, k := range keys {
			deltas = binary.AppendUvarint(deltas, k-prev)
			prev = k
		}
		out := make([]uint64, 4096)
		perKey(b, len(keys), func() {
			prev, i := uint64(0), 0
			for rest := deltas; len(rest) > 0; i++ {
				d, n := binary.Uvarint(rest)
				prev += d
				out[i&4095] = prev
				rest = rest[n:]
			}
		})
	})
	b.Run("checksum alone", func(b *testing.B) {
		perKey(b, len(keys), func() {
			for at := 0; at+BlockSize <= len(data); at += BlockSize {
				checksum(data[at:][:BlockSize])
			}
		})
	})
	b.Run("copy alone", func(b *testing.B) {
		out := make([]byte, len(data))
		perKey(b, len(keys), func() {
			copy(out, data)
		})
	})
}

func BenchmarkEncode(b *testing.B) {
	keys := benchKeys()
	eachWay(b, func(b *testing.B) {
		perKey(b, len(keys), func() {
			w := NewWriter(io.Discard, 1)
			w.AddKeys(keys)
			w.Finish()
		})
	})
}
