package durable

import "golang.org/x/sys/unix"

// blockLen is the length of the blocks that statfs counts, in bytes. Some file systems (FUSE, NFS) give a longer
// Bsize, which is then the best length of a transfer; kernels before 2.6 leave Frsize at 0.
func blockLen(st *unix.Statfs_t) int64 {
	if st.Frsize > 0 {
		return int64(st.Frsize)
	}
	return int64(st.Bsize)
}
