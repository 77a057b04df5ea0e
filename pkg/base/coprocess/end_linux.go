package coprocess

import "syscall"

// EndWithUs is Apart, and lets the process be killed when the thread that starts it ends, which it
// does at the latest with this program, however that ends.
func EndWithUs() *syscall.SysProcAttr {
	a := Apart()
	a.Pdeathsig = syscall.SIGKILL
	return a
}
