//go:build !linux

package driver

import "syscall"

// endWithUs does nothing where the system cannot tell a process that its parent has ended: it
// ends with its pipe, and holds the crawl until then.
func endWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
