//go:build unix

package config

import (
	"io/fs"
	"syscall"
)

// ownerOf is the user who owns a file.
func ownerOf(st fs.FileInfo) (uid uint32, known bool) {
	s, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return s.Uid, true
}
