//go:build unix

package coprocess

import (
	"os"
	"syscall"
)

// Apart starts a process in a group of its own: what it starts ends with it by SignalGroup, and a terminal's Ctrl-C does not reach it.
func Apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// SignalGroup sends a signal to a process that was started Apart and to what it has started.
func SignalGroup(p *os.Process, signal syscall.Signal) error { return syscall.Kill(-p.Pid, signal) }

// readNow reads from a pipe that does not block.
func readNow(fd uintptr, b []byte) int {
	n, _ := syscall.Read(int(fd), b)
	return n
}
