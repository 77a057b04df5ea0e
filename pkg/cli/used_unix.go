//go:build unix

package cli

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// used is the processor time that this process has taken, and the most memory that it had, in bytes.
func used() (cpu time.Duration, rss int64, known bool) {
	var ru syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &ru) != nil {
		return 0, 0, false
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano()), peakRSS(&ru), true
}

// peakRSS is the most memory that was resident, in bytes. Linux's ru_maxrss
// also counts what the parent had when it forked, so its own mark is read there.
func peakRSS(ru *syscall.Rusage) int64 {
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		var kb int64
		_, after, found := strings.Cut(string(status), "\nVmHWM:")
		if _, err := fmt.Sscan(after, &kb); found && err == nil {
			return kb << 10
		}
	}
	if runtime.GOOS == "darwin" {
		return int64(ru.Maxrss)
	}
	return int64(ru.Maxrss) << 10 // kilobytes everywhere but there
}
