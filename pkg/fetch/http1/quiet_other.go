//go:build !unix

package http1

// quiet is false: a socket cannot be asked here, so no connection is used again.
func quiet(uintptr, []byte) bool { return false }
