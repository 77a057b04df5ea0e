package shard

import (
	"fmt"
	"strconv"
	"strings"

	"mercator/pkg/base/fault"
)

// ParseBuckets reads a list of buckets and ranges of them, such as "17,100-140".
func ParseBuckets(text string) (list []int, err error) {
	bad := &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("buckets %.80q", text), Want: fmt.Sprintf("numbers from 0 to %d and ranges of them, such as 17,100-140", Buckets-1)}
	given := [Buckets]bool{}
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.ParseUint(first, 10, 16)
		to, err2 := strconv.ParseUint(last, 10, 16)
		if err1 != nil || err2 != nil || from > to || to >= Buckets {
			return nil, bad
		}
		for b := from; b <= to; b++ {
			given[b] = true
		}
	}
	for b, is := range given {
		if is {
			list = append(list, b)
		}
	}
	return list, nil
}

// BucketsText is the reverse of ParseBuckets, of a list in order.
func BucketsText(list []int) string {
	var parts []string
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		if j == i {
			parts = append(parts, strconv.Itoa(list[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", list[i], list[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}
