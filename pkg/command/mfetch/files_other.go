//go:build !unix

package mfetch

func filesLimit() (limit uint64, known bool) { return 0, false }
