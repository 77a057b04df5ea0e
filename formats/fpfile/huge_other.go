//go:build !linux

package fpfile

// huge does nothing: only Linux is known to need advice on huge pages.
func huge([]byte) {}
