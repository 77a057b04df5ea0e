package cli

import "fmt"

// Count is a number and what it counts: "1 URL", "2 URLs".
func Count[N ~int | ~int64 | ~uint64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
