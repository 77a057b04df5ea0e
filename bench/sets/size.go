package main

import (
	"fmt"
	"math"

	"mercator/bench/sets/keys"
	"mercator/formats/fpfile"
	"mercator/pkg/base/fingerprint"
)

// counter counts what is written.
type counter int64

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

// size writes sets to nowhere: uniform keys and URL checksums of a Zipf web.
func size(b *bench) error {
	const hosts = 1e6
	fmt.Println("The bound is 64 − log₂ n + 1.443 bits a key. A Zipf web's own bound is the same within each value of the 16\nhigh bits, the number of keys of each taken as known. Zipf: s = 1.1, 10⁶ hosts.")
	fmt.Println("\n| keys | n | bytes | bits a key | bound | times the bound | own bound | times | wanted | |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|---|")
	web := keys.NewWeb(b.seed, hosts, 1.1)
	for _, n := range sizes(b.n) {
		for _, kind := range []string{"uniform", "Zipf web"} {
			src := keys.Uniform(b.seed, n)
			if kind != "uniform" {
				src = web.Checksums(n)
			}
			var out counter
			w := fpfile.NewWriter(&out, fingerprint.Polynomial)
			chunk := make([]uint64, 0, 1<<13)
			for more := true; more; chunk = chunk[:0] {
				for len(chunk) < cap(chunk) && more {
					var key uint64
					if key, more = src(); more {
						chunk = append(chunk, key)
					}
				}
				if err := w.AddKeys(chunk); err != nil {
					return err
				}
			}
			if err := w.Finish(); err != nil {
				return err
			}
			bits := 8 * float64(out) / float64(n)
			bound := 64 - math.Log2(float64(n)) + math.Log2(math.E)
			own := " | "
			if kind != "uniform" {
				least := entropy(web.Buckets(n)) / float64(n)
				own = fmt.Sprintf("%.3f | %.4f", least, bits/least)
			}
			word := "met"
			if bits > 1.03*bound {
				word = "missed"
			}
			fmt.Printf("| %s | %s | %d | %.3f | %.3f | %.4f | %s | ≤ 1.03 | %s |\n", kind, power(n), out, bits, bound, bits/bound, own, word)
		}
	}
	return nil
}

// entropy is the bits that keys take at least, which are uniform within buckets of
// these sizes.
func entropy(buckets []uint64) (bits float64) {
	for _, k := range buckets {
		if k > 0 {
			bits += float64(k) * (64 - fingerprint.HostBits - math.Log2(float64(k)) + math.Log2(math.E))
		}
	}
	return bits
}

// sizes returns the sizes to print, up to n.
func sizes(n uint64) []uint64 {
	list := []uint64{}
	for _, s := range []uint64{1e6, 1e7, 1e8, 2e8} {
		if s < n {
			list = append(list, s)
		}
	}
	return append(list, n)
}
