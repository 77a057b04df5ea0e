//go:build unix

package mckpt

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"mercator/pkg/cli"
)

// become runs a program in place of this one. It inherits the lock. It returns only with an error.
func become(program string, words []string, lock *os.File) error {
	if _, err := unix.FcntlInt(lock.Fd(), unix.F_SETFD, 0); err != nil {
		return err
	}
	return syscall.Exec(program, words, append(os.Environ(), cli.DriverVariable+"=1"))
}
