//go:build !linux

package browser

import (
	"syscall"

	"mercator/pkg/base/coprocess"
)

// attributes are those of the browser's process. Systems other than Linux have no networks for one process: the switches alone keep it from any.
func attributes(bool) (a *syscall.SysProcAttr, is bool) {
	a = coprocess.EndWithUs()
	a.Setpgid = true
	return a, false
}
