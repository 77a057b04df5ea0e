//go:build !linux

package main

import "errors"

func dropCache(string) error {
	return errors.New("the group cold needs posix_fadvise, which is had on Linux only")
}
