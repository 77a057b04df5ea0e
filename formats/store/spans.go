package store

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Spans is a set of numbers above 0, as text: "1-3,7". It is in order, and no two of its parts touch.
type Spans string

// Each calls f with the ends of every part, until it returns false. ok: the text is as Spans are.
func (s Spans) Each(f func(first, last uint64) bool) (ok bool) {
	if s == "" {
		return true
	}
	before := uint64(0)
	for part := range strings.SplitSeq(string(s), ",") {
		from, to, run := strings.Cut(part, "-")
		if !run {
			to = from
		}
		first, err1 := strconv.ParseUint(from, 10, 64)
		last, err2 := strconv.ParseUint(to, 10, 64)
		if err1 != nil || err2 != nil || first == 0 || before > 0 && first < before+2 || last < first || last > MaxGeneration || spanText(first, last) != part {
			return false
		}
		if !f(first, last) {
			return true
		}
		before = last
	}
	return true
}

func spanText(first, last uint64) string {
	if first == last {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d-%d", first, last)
}

// SpansOf is the set of numbers that are in order.
func SpansOf(numbers []uint64) Spans {
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		parts = append(parts, spanText(numbers[i], numbers[j]))
		i = j + 1
	}
	return Spans(strings.Join(parts, ","))
}

// Has reports whether a number is in the set.
func (s Spans) Has(n uint64) (has bool) {
	s.Each(func(first, last uint64) bool {
		has = first <= n && n <= last
		return n > last
	})
	return has
}

// With is the set and a number.
func (s Spans) With(n uint64) Spans {
	if s.Has(n) {
		return s
	}
	list := [][2]uint64{{n, n}}
	s.Each(func(first, last uint64) bool {
		list = append(list, [2]uint64{first, last})
		return true
	})
	slices.SortFunc(list, func(a, b [2]uint64) int {
		if a[0] < b[0] {
			return -1
		}
		return 1
	})
	var parts []string
	for i := 0; i < len(list); {
		first, last := list[i][0], list[i][1]
		for i++; i < len(list) && list[i][0] == last+1; i++ {
			last = list[i][1]
		}
		parts = append(parts, spanText(first, last))
	}
	return Spans(strings.Join(parts, ","))
}
