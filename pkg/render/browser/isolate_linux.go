package browser

import (
	"os"
	"syscall"

	"mercator/pkg/base/coprocess"
)

// attributes returns the attributes of the browser's process: it ends with us and has a process group of its own. apart: it has a network
// namespace without any interface, even loopback, so that the kernel refuses connections that the switches should have refused.
func attributes(apart bool) *syscall.SysProcAttr {
	a := coprocess.EndWithUs()
	if !apart {
		return a
	}
	a.Cloneflags = syscall.CLONE_NEWNET
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	}
	return a
}
