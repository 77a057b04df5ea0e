//go:build unix

package mfetch

import "syscall"

// FilesLimit is how many files the process may have open, after raising that to
// what an unprivileged process is allowed. The Go runtime raises it too, but not
// where something has touched the limit before.
func FilesLimit() (limit uint64, known bool) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0, false
	}
	if l.Cur < l.Max {
		raised := l
		raised.Cur = l.Max
		if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised) == nil {
			l = raised
		}
	}
	return uint64(l.Cur), true
}
