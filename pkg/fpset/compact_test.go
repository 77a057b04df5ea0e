package fpset

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/must"
)

// played are the figures of one row of SPEC.md's table.
type played struct{ written, runs, miss, hit, alone, worst float64 }

// play plays the rule through, and gives the figures at each number of batches.
// It fails where the runs that are kept are not the runs of before, or are too many.
func play(t *testing.T, at ...uint64) map[uint64]played {
	t.Helper()
	figures := map[uint64]played{}
	var runs []uint64
	var sum played // over all batches
	for n := uint64(1); n <= at[len(at)-1]; n++ {
		next, keep := binomialRuns(n), keptRuns(n)
		if keep > len(runs) || len(next) > maxRuns || len(next) != keep+1 {
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
		if merged == 1 {
			sum.alone++
		}
		runs = next
		sum.written += float64(merged)
		sum.runs += float64(len(runs))
		for i, r := range runs {
			sum.hit += float64(r) * float64(i+1) / float64(n)
		}
		sum.worst = max(sum.worst, float64(merged))
		if len(at) > 0 && n == at[0] {
			b := float64(n)
			figures[n] = played{sum.written / b, sum.runs / b, sum.runs / b, sum.hit / b, 100 * sum.alone / b, sum.worst}
			at = at[1:]
			if len(at) == 0 {
				break
			}
		}
	}
	return figures
}

// TestCompaction compares the table of SPEC.md with the rule.
func TestCompaction(t *testing.T) {
	spec, err := os.ReadFile("SPEC.md")
	must.OK(t, err)
	rows := regexp.MustCompile(`(?m)^\| (1000+) \|.*$`).FindAllString(string(spec), -1)
	if len(rows) != 3 {
		t.Fatalf("SPEC.md has %d rows of figures, want 3", len(rows))
	}
	at := []uint64{1e3, 1e4, 1e5}
	figures := play(t, at...)
	for i, n := range at {
		f := figures[n]
		if want := fmt.Sprintf("| %d | %.2f | %.2f | %.2f | %.2f | %.0f %% | %.0f |", n, f.written, f.runs, f.miss, f.hit, f.alone, f.worst); rows[i] != want {
			t.Errorf("SPEC.md has\n%s\nthe rule gives\n%s", rows[i], want)
		}
	}
}

// TestFormula compares SPEC.md's formula with the rule, where t is a C(n, 8).
func TestFormula(t *testing.T) {
	var at []uint64
	choose := uint64(1)
	for n := uint64(9); n <= 19; n++ {
		choose = choose * n / (n - 8)
		at = append(at, choose)
	}
	figures := play(t, at...)
	for i, batches := range at {
		n := float64(9 + i)
		f := figures[batches]
		if written := 1 + 8*(n-8)/9; !near(f.written, written) {
			t.Errorf("%d batches: written %.4f times, the formula says %.4f", batches, f.written, written)
		}
		// What a batch meets is what the one before it left; the last left one run.
		if met, runs := f.runs-1/float64(batches), 8*(n-8)/(n-7); !near(met, runs) {
			t.Errorf("%d batches: a batch meets %.4f runs, the formula says %.4f", batches, met, runs)
		}
	}
}

func near(a, b float64) bool { return a-b < 1e-3 && b-a < 1e-3 }

// TestRealBatches makes 1,000 batches of a real set, and counts what is written.
func TestRealBatches(t *testing.T) {
	const batches, size = 1000, 8
	st := newStore(t, crashtest.New())
	key, written := uint64(0), uint64(0)
	newest := ""
	for range batches {
		keys := make([]uint64, size)
		for i := range keys {
			key += 0x9e3779b97f4a7c15 // odd: no key comes twice
			keys[i] = key
		}
		_, err := markAll(st, "", keys, size, 0, Options{})
		must.OK(t, err)
		sum, err := Describe(st)
		must.OK(t, err)
		last := sum.Runs[len(sum.Runs)-1]
		if len(sum.Runs) > maxRuns || last.Path == newest {
			t.Fatalf("%d runs, the last %s", len(sum.Runs), last.Path)
		}
		newest = last.Path
		written += last.Count
	}
	want := play(t, batches)[batches].written
	if got := float64(written) / (batches * size); !near(got, want) {
		t.Errorf("written %.3f times, want %.3f", got, want)
	}
	if n := len(keysOf(t, st)); n != batches*size {
		t.Errorf("the set has %d keys", n)
	}
}
