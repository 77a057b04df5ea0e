package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// beginWriteBack asks the system to begin writing n bytes of f from off to the disk.
// It makes nothing durable, and where it is refused nothing changes: Sync follows.
func beginWriteBack(f File, off, n int64) {
	if f, ok := f.(*os.File); ok {
		_ = unix.SyncFileRange(int(f.Fd()), off, n, unix.SYNC_FILE_RANGE_WRITE)
	}
}
