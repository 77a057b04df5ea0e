package fpfile

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// huge asks the kernel to back b, which was not touched yet, by huge pages: a
// lookup in a large set waits for the tables of small ones longer than for its
// data. It is advice; where it is not taken nothing changes.
func huge(b []byte) {
	page := uintptr(os.Getpagesize())
	if uintptr(len(b)) < 2*page {
		return
	}
	from := -uintptr(unsafe.Pointer(&b[0])) % page
	to := from + (uintptr(len(b))-from)/page*page
	_ = unix.Madvise(b[from:to], unix.MADV_HUGEPAGE)
}
