package coprocess

import "syscall"

// EndWithUs lets a process be killed when the thread that starts it ends, which it does at the
// latest with this program, however that ends.
func EndWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
