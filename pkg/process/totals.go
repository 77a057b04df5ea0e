package process

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"mercator/pkg/fault"
)

// total is what is kept of one key.
type total struct{ findings, sum uint64 }

// totals is the state of the modules tags and image: for each key the number of
// findings and the sum of their values, in lines "KEY<tab>FINDINGS<tab>SUM", sorted
// by key. A value that is no number is part of the key, "format=gif", and adds
// nothing. Failed documents are counted as "error". It is small: both modules have
// few keys, and few values that are no numbers.
type totals map[string]total

func (tagsModule) Begin(_ context.Context, old io.Reader, _ string) (State, error) {
	return readTotals(old)
}

func (imageModule) Begin(_ context.Context, old io.Reader, _ string) (State, error) {
	return readTotals(old)
}

func readTotals(old io.Reader) (totals, error) {
	t := make(totals)
	lines := bufio.NewScanner(old)
	last := ""
	for n := 1; lines.Scan(); n++ {
		f := strings.Split(lines.Text(), "\t")
		bad := &fault.Error{Class: fault.Corrupt, Place: fmt.Sprintf("totals, line %d", n), Found: fmt.Sprintf("%q", cut(lines.Text(), 80)), Want: "KEY<tab>FINDINGS<tab>SUM"}
		if len(f) != 3 {
			return nil, bad
		}
		findings, err := strconv.ParseUint(f[1], 10, 64)
		sum, errSum := strconv.ParseUint(f[2], 10, 64)
		if err != nil || errSum != nil {
			return nil, bad
		}
		if n > 1 && f[0] <= last {
			bad.Want = "keys that ascend"
			return nil, bad
		}
		last = f[0]
		t[last] = total{findings, sum}
	}
	return t, lines.Err()
}

func (t totals) Add(_ uint64, f Finding) error {
	key := f.Key
	n, err := strconv.ParseUint(f.Value, 10, 64)
	if err != nil && key != KeyError {
		key += "=" + f.Value
	}
	s := t[key]
	t[key] = total{s.findings + 1, s.sum + n}
	return nil
}

func (t totals) Write(_ context.Context, out io.Writer) error {
	keys := make([]string, 0, len(t))
	for k := range t {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	w := bufio.NewWriter(out)
	for _, k := range keys {
		fmt.Fprintf(w, "%s\t%d\t%d\n", k, t[k].findings, t[k].sum)
	}
	return w.Flush()
}

func (totals) Close(context.Context) {}
