package browser

import (
	"os"
	"syscall"

	"mercator/pkg/base/coprocess"
)

// attributes are those of the browser's process: it ends with us, in a group of its own. Apart, it is in a network of its own that has no
// interface, not even loopback, so that the kernel refuses what the switches should have refused.
func attributes(apart bool) (a *syscall.SysProcAttr, is bool) {
	a = coprocess.EndWithUs()
	a.Setpgid = true
	if !apart {
		return a, false
	}
	a.Cloneflags = syscall.CLONE_NEWNET
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	}
	return a, true
}
