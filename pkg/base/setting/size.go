package setting

import (
	"fmt"
	"strconv"
	"strings"
)

// Size is a number of bytes; text with K, M, G, T (powers of 1024).
type Size int64

// UnmarshalText parses "64M", "1GiB" or a plain number of bytes.
func (s *Size) UnmarshalText(text []byte) error {
	t := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(string(text)), "IB"), "B")
	shift := 0
	if n := len(t); n > 0 {
		switch t[n-1] {
		case 'K':
			shift = 10
		case 'M':
			shift = 20
		case 'G':
			shift = 30
		case 'T':
			shift = 40
		}
		if shift > 0 {
			t = t[:n-1]
		}
	}
	n, err := strconv.ParseInt(t, 10, 64)
	if err != nil || n < 0 || n > (1<<62)>>shift {
		return fmt.Errorf("size %q, want a number of bytes such as 64M", text)
	}
	*s = Size(n << shift)
	return nil
}
