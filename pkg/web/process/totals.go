package process

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"mercator/pkg/base/fault"
)

// total holds the totals of one key.
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

// maxLine bounds a line of totals, in bytes: a finding has at most 4,096.
const maxLine = 64 << 10

// readTotals takes what Write writes, and nothing else.
func readTotals(old io.Reader) (totals, error) {
	t := make(totals)
	in := bufio.NewReaderSize(old, maxLine)
	last := ""
	for n := 1; ; n++ {
		b, err := in.ReadSlice('\n')
		line := strings.TrimSuffix(string(b), "\n")
		refuse := func(class fault.Class, want string) (totals, error) {
			return nil, &fault.Error{Class: class, Place: fmt.Sprintf("totals, line %d", n), Found: fmt.Sprintf("%q", cut(line, 80)), Want: want}
		}
		switch {
		case err == io.EOF && line == "":
			return t, nil
		case err == io.EOF:
			return refuse(fault.Truncated, "an end of line")
		case err == bufio.ErrBufferFull:
			return refuse(fault.Corrupt, fmt.Sprintf("an end of line within %d bytes", maxLine))
		case err != nil:
			return nil, err
		}
		f := strings.Split(line, "\t")
		if len(f) != 3 {
			return refuse(fault.Corrupt, "KEY<tab>FINDINGS<tab>SUM")
		}
		findings, ok := decimal(f[1])
		sum, okSum := decimal(f[2])
		switch {
		case !ok || !okSum:
			return refuse(fault.Corrupt, "two numbers below 2⁶⁴ behind the key")
		case n > 1 && f[0] <= last:
			return refuse(fault.Corrupt, "keys that ascend")
		}
		last = f[0]
		t[last] = total{findings, sum}
	}
}

// decimal reads a number as it is written.
func decimal(s string) (uint64, bool) {
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil && strconv.FormatUint(n, 10) == s
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
