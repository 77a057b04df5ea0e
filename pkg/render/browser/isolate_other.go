//go:build !linux

package browser

import (
	"syscall"

	"mercator/pkg/base/coprocess"
)

// attributes returns the attributes of the browser's process. Only Linux has network namespaces: elsewhere the switches alone keep it off the network.
func attributes(bool) *syscall.SysProcAttr { return coprocess.EndWithUs() }
