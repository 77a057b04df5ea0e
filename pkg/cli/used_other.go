//go:build !unix

package cli

import "time"

// used is not known here.
func used() (cpu time.Duration, rss int64, known bool) { return 0, 0, false }
