package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// pipeBytes is the pipe size asked for: a batch in one write, at most.
const pipeBytes = 1 << 20

// widenPipe enlarges a pipe's buffer. It is a wish: the kernel may refuse.
func widenPipe(f any) {
	file, ok := fileOf(f)
	if !ok || !isPipe(f) {
		return
	}
	if conn, err := file.SyscallConn(); err == nil { // after Fd no read could be ended any more
		_ = conn.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeBytes) })
	}
}

// standardInput returns os.Stdin. It opens a pipe once more, without blocking, so that a deadline can end a read
// that waits. To change os.Stdin itself would change it for all processes that share it.
func standardInput() *os.File {
	if isPipe(os.Stdin) {
		if file, err := os.OpenFile("/proc/self/fd/0", unix.O_NONBLOCK, 0); err == nil { // a socket cannot be opened
			return file
		}
	}
	return os.Stdin
}
