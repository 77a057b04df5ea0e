//go:build !linux

package main

import "errors"

func dropCache(string) error {
	return errors.New("the group cold needs posix_fadvise, which is had on Linux only")
}

// hugePages returns n keys of zero; other systems choose their pages alone.
func hugePages(n int) ([]uint64, error) { return make([]uint64, n), nil }
