//go:build unix && !linux

package durable

import "golang.org/x/sys/unix"

// blockLen is the length of the blocks that statfs counts, in bytes.
func blockLen(st *unix.Statfs_t) int64 { return int64(st.Bsize) }
