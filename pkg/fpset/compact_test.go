package fpset

import "testing"

// TestCompaction plays the rule through: the runs that it keeps are always a
// prefix of the runs before, and each batch is rewritten as seldom as the
// package promises.
func TestCompaction(t *testing.T) {
	var runs []uint64
	var written, reads uint64
	want := map[uint64]float64{1e3: 4.4, 1e4: 7.2, 1e5: 10.5}
	for n := uint64(1); n <= 1e5; n++ {
		next := binomialRuns(n)
		keep := keptRuns(n)
		if keep > len(runs) || len(next) > maxRuns {
			t.Fatalf("batch %d keeps %d of %d runs, and makes %d", n, keep, len(runs), len(next))
		}
		merged := uint64(1)
		for i, r := range runs {
			if i < keep && r != next[i] {
				t.Fatalf("batch %d: run %d holds %d batches, the rule says %d", n, i, r, next[i])
			}
			if i >= keep {
				merged += r
			}
		}
		if next[keep] != merged {
			t.Fatalf("batch %d: the new run holds %d batches, the rule says %d", n, merged, next[keep])
		}
		written += merged
		reads += uint64(len(next))
		runs = next
		if most, ok := want[n]; ok {
			amp, runsPerTest := float64(written)/float64(n), float64(reads)/float64(n)
			t.Logf("%6d batches: write amplification %.2f, runs on average %.2f", n, amp, runsPerTest)
			if amp > most {
				t.Errorf("%d batches: write amplification %.2f, want at most %.1f", n, amp, most)
			}
		}
	}
}
