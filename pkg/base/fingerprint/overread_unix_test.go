//go:build unix

package fingerprint

import (
	"testing"

	"golang.org/x/sys/unix"

	"mercator/pkg/base/must"
)

// TestOverread: no path reads before or behind its input. The input ends, and
// then begins, at a page that must not be touched.
func TestOverread(t *testing.T) {
	page := unix.Getpagesize()
	m, err := unix.Mmap(-1, 0, 3*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	must.OK(t, err)
	defer unix.Munmap(m)
	for _, guard := range [][]byte{m[:page], m[2*page:]} {
		must.OK(t, unix.Mprotect(guard, unix.PROT_NONE))
	}
	b := m[page : 2*page]
	for i := range b {
		b[i] = byte(i * 7)
	}
	for name, path := range paths() {
		for n := max(path.min, 1); n <= 1100; n++ {
			for _, b := range [][]byte{b[:n], b[page-n:]} {
				if got, want := path.extend(mercator, Polynomial, b), mercator.slice(Polynomial, append([]byte(nil), b...)); got != want {
					t.Fatalf("%s, %d bytes: %016x, want %016x", name, n, got, want)
				}
			}
		}
	}
}
