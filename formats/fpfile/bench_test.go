package fpfile

import (
	"encoding/binary"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
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
			var k uint64
			for i := range keys { // the gaps of random numbers
				k += 1 + uint64(rnd.ExpFloat64()*(1<<64/1e8)*0.999)
				keys[i] = k
			}
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
	with, folding := useAVX512, useFold
	useAVX512, useFold = false, false
	b.Run("go", run)
	useAVX512, useFold = with, folding
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

// BenchmarkMark tests one key for each hundred of the file, half of them in it.
func BenchmarkMark(b *testing.B) {
	keys := benchKeys()
	data := encode(b, keys)
	path := filepath.Join(b.TempDir(), "x.fps")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		b.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	rnd := rand.New(rand.NewPCG(27, 28))
	batch := make([]uint64, len(keys)/100)
	for i := range batch {
		k := keys[rnd.IntN(len(keys))]
		batch[i] = k + rnd.Uint64N(2)
	}
	slices.Sort(batch)
	seen := make([]bool, len(batch))
	r, err := Open(f, int64(len(data)), path)
	if err != nil {
		b.Fatal(err)
	}
	it := r.All()
	b.Run("mark", func(b *testing.B) {
		perKey(b, len(batch), func() {
			if err := it.Mark(batch, seen); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("read alone", func(b *testing.B) {
		buf := make([]byte, readAhead)
		perKey(b, len(batch), func() {
			for at := 0; at < len(data); at += len(buf) {
				f.ReadAt(buf, int64(at))
			}
		})
	})
	b.Run("copy alone", func(b *testing.B) {
		out := make([]byte, len(data))
		perKey(b, len(batch), func() { copy(out, data) })
	})
}
