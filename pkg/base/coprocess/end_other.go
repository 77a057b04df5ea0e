//go:build !linux

package coprocess

import "syscall"

// EndWithUs is Apart where the system cannot tell a process that its parent has ended: it
// ends with its pipe, and holds a lock that it inherited until then.
func EndWithUs() *syscall.SysProcAttr { return Apart() }
