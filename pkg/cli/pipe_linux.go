package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// pipeBytes is the pipe size asked for: a batch in one write, at most.
const pipeBytes = 1 << 20

// widenPipe enlarges a pipe's buffer. It is a wish: the kernel may refuse.
func widenPipe(f any) {
	if file, ok := f.(*os.File); ok && isPipe(f) {
		_, _ = unix.FcntlInt(file.Fd(), unix.F_SETPIPE_SZ, pipeBytes)
	}
}
