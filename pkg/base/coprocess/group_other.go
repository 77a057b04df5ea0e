//go:build !unix

package coprocess

import (
	"os"
	"syscall"
)

// Apart starts a process as the system does: there are no groups here.
func Apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// SignalGroup kills a process: there are no other signals here, and no groups.
func SignalGroup(p *os.Process, _ syscall.Signal) error { return p.Kill() }

// readNow reads nothing: pipes block here.
func readNow(uintptr, []byte) int { return 0 }
