//go:build !unix

package mfetch

// FilesLimit is not known here.
func FilesLimit() (limit uint64, known bool) { return 0, false }
