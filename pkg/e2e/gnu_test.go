package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"mercator/bench/sets/keys"
	"mercator/pkg/base/must"
)

// setCase is two sets of keys, as text in no order.
type setCase struct {
	name string
	n    int                // lines of each
	a, b func(i int) uint64 // the key in line i
}

func setCases(n int) []setCase {
	one := func(v uint64) func(int) uint64 { return func(int) uint64 { return v } }
	// drawn gives line i one of n values, of which the sets share half; many come again.
	drawn := func(value func(i uint64) uint64, from int) func(int) uint64 {
		rng := rand.New(rand.NewPCG(1, uint64(from)))
		return func(int) uint64 { return value(uint64(from) + rng.Uint64N(uint64(n))) }
	}
	uniform := func(i uint64) uint64 { return keys.Mix(7, i) }
	// A host's share falls with its number, so that the first has a thirteenth of all.
	clustered := func(i uint64) uint64 {
		u := float64(keys.Mix(8, i)>>11) / (1 << 53)
		host := uint64(math.Pow(1e6, u))
		return keys.Mix(9, host)>>48<<48 | keys.Mix(7, i)>>16
	}
	equalHosts := func(i uint64) uint64 { return 0xfedc<<48 | keys.Mix(7, i)>>16 }
	ends := func(i uint64) uint64 { return []uint64{0, 1, 2, math.MaxUint64, math.MaxUint64 - 1, 1 << 63}[i%6] }
	small := min(n, 100000)
	return []setCase{
		{"uniform", n, drawn(uniform, 0), drawn(uniform, n/2)},
		{"clustered by host", n, drawn(clustered, 0), drawn(clustered, n/2)},
		{"all hosts equal", small, drawn(equalHosts, 0), drawn(equalHosts, n/2)},
		{"consecutive", small, func(i int) uint64 { return uint64(i) }, func(i int) uint64 { return uint64(i + i/2) }},
		{"much smaller", small, drawn(uniform, 0), func(i int) uint64 { return uniform(uint64(i % 97)) }},
		{"apart", 5000, func(i int) uint64 { return uint64(i) }, func(i int) uint64 { return 1<<63 + uint64(i)<<40 }},
		{"the same", 5000, func(i int) uint64 { return uniform(uint64(i)) }, func(i int) uint64 { return uniform(uint64(4999 - i)) }},
		{"one key, again and again", 5000, one(42), one(42)},
		{"nothing", 0, nil, nil},
		{"one key", 1, one(42), one(43)},
		{"zero", 1, one(0), one(0)},
		{"zero and the largest", 1, one(0), one(math.MaxUint64)},
		{"the ends", 60, func(i int) uint64 { return ends(uint64(i)) }, func(i int) uint64 { return ends(uint64(i / 20)) }},
	}
}

// writeKeys writes n lines.
func writeKeys(t *testing.T, name string, n int, key func(i int) uint64) {
	t.Helper()
	f, err := os.Create(name)
	must.OK(t, err)
	w := bufio.NewWriter(f)
	for i := range n {
		fmt.Fprintf(w, "%016x\n", key(i))
	}
	must.OK(t, w.Flush(), f.Close())
}

// script runs lines of sh in a folder, with the commands in PATH; every line must
// end well. A tool that is missing fails the test.
func script(t *testing.T, dir, lines string) {
	t.Helper()
	cmd := exec.Command("sh", "-euc", lines)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "PATH="+bin+":"+os.Getenv("PATH"), "TMPDIR="+dir)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out.String(), lines)
	}
}

// lines is how long the texts are that sort and comm are asked about: MERCATOR_LINES,
// which "make test-sets" puts at ten million.
func lines(t *testing.T) int {
	s := os.Getenv("MERCATOR_LINES")
	if s == "" {
		return 100_000
	}
	n, err := strconv.Atoi(s)
	must.OK(t, err)
	return n
}

// What the set commands give is what sort and comm give of the same text.
func TestSetsEqualSortAndComm(t *testing.T) {
	t.Parallel()
	for _, c := range setCases(lines(t)) {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			writeKeys(t, filepath.Join(dir, "a.txt"), c.n, c.a)
			writeKeys(t, filepath.Join(dir, "b.txt"), c.n, c.b)
			script(t, dir, `
				sort -u a.txt > a.sorted
				sort -u b.txt > b.sorted
				sort -m -u a.sorted b.sorted > union.sorted
				comm -12 a.sorted b.sorted > intersect.sorted
				comm -23 a.sorted b.sorted > diff.sorted
				comm -13 a.sorted b.sorted > new.sorted`)

			// Built, from text in no order, and printed.
			script(t, dir, `
				for s in a b; do
					mfpset build --text -o $s.fps $s.txt
					mmerge union $s.fps > $s.dump
					cmp $s.dump $s.sorted
				done`)

			// From file to file on one thread and several, and from text to text. One
			// set has one encoding.
			script(t, dir, `
				for op in union intersect diff; do
					mmerge $op -@ 1 -o $op.fps a.fps b.fps
					mmerge $op -@ 3 -o $op.three.fps a.fps b.fps
					cmp $op.fps $op.three.fps
					mmerge union $op.fps > $op.dump
					cmp $op.dump $op.sorted
					mmerge $op --text a.txt b.txt > $op.text
					cmp $op.text $op.sorted
					mmerge $op --text a.sorted b.sorted > $op.text
					cmp $op.text $op.sorted
				done
				mmerge diff b.fps a.fps > new.dump
				cmp new.dump new.sorted`)

			// A store takes the second set as a batch: what was there before is seen, the
			// rest is new, and the whole is the union.
			script(t, dir, `
				mfpset create store
				mfpset add store a.fps
				mfpset dump store > store.dump
				cmp store.dump a.sorted
				mfpset test store b.txt > answers || test $? = 6
				awk '$1 == "seen" { print $2 }' answers | sort -u > seen
				cmp seen intersect.sorted
				awk '$1 == "unseen" { print $2 }' answers | sort -u > unseen
				cmp unseen new.sorted
				mfpset add --text store b.txt
				mfpset dump store > store.dump
				cmp store.dump union.sorted
				mfpset dump -o store.fps store
				cmp store.fps union.fps`)
		})
	}
}

// The URLs that murlset lets through are those that comm finds, each once.
func TestNewURLsEqualSortAndComm(t *testing.T) {
	t.Parallel()
	n := uint64(lines(t) / 2)
	dir := t.TempDir()
	for i, name := range []string{"one.txt", "two.txt"} {
		f, err := os.Create(filepath.Join(dir, name))
		must.OK(t, err)
		w := bufio.NewWriter(f)
		next := keys.NewWeb(uint64(i), 10_000, 1.1).URLs(n)
		for range n {
			fmt.Fprintln(w, next())
		}
		must.OK(t, w.Flush(), f.Close())
	}
	script(t, dir, `
		sort -u one.txt > one.sorted
		sort -u two.txt > two.sorted
		comm -13 one.sorted two.sorted > new.sorted
		murlset create urls
		murlset new urls one.txt | mcat --format text - | sort > one.new
		cmp one.new one.sorted
		murlset new urls two.txt | mcat --format text - | sort > two.new
		cmp two.new new.sorted
		murlset dump urls > dump
		cat one.txt two.txt | murlset key | cut -f 1 | sort -u > both.sorted
		cmp dump both.sorted`)
}
