package mfetch

import (
	"fmt"

	"mercator/pkg/base/fault"
)

// filesBeside is how many files are open that no connection has: the store's,
// pipes, sockets of DNS, the runtime's.
const filesBeside = 64

// FilesOf is how many files a fetcher may have open. A connection has a socket, and a file while a body beyond 64 KiB comes in: one for every
// second connection is reckoned with.
func FilesOf(connections int) uint64 {
	return uint64(connections) + uint64(connections)/2 + filesBeside
}

// enoughFiles refuses more connections than the process may have open files for:
// else servers would be blamed for what this machine cannot do.
func enoughFiles(connections int) error {
	limit, known := FilesLimit()
	want := FilesOf(connections)
	if !known || limit >= want {
		return nil
	}
	hint := fmt.Sprintf("the machine's administrator raises it: ulimit -H -n %d", want)
	if limit >= filesBeside+2 {
		hint = fmt.Sprintf("give --connections %d; or %s", (limit-filesBeside)*2/3, hint)
	}
	return &fault.Error{Class: fault.Usage, Place: "--connections", Found: fmt.Sprintf("a limit of %d open files", limit), Want: fmt.Sprintf("%d for %d connections", want, connections), Hint: hint}
}
