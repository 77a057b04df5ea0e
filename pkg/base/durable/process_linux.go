package durable

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// bootID returns the kernel's boot id and this process's PID namespace: a container has process numbers of its own.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, errSpace := os.Readlink("/proc/self/ns/pid")
	if err != nil || errSpace != nil {
		return ""
	}
	return strings.TrimSpace(string(id)) + " " + space
}

// startOf is when a process started, in ticks since the boot; "" where there is none of the number, or one that has ended and
// that its parent has not asked for.
func startOf(pid int) string {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	const start = 19 // place after the name, which ends with the last bracket and may hold spaces
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= start || fields[0][0] == 'Z' || fields[0][0] == 'X' {
		return ""
	}
	return string(fields[start])
}
