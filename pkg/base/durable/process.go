package durable

import (
	"fmt"
	"hash/fnv"
	"os"
	"sync"
)

// Process is a process of some machine that shares our files.
type Process struct {
	Host  string `json:"host"`            // for people: two machines may have one name
	Boot  string `json:"boot,omitempty"`  // differs with each start of a machine, and with each set of process numbers on it; "": not known
	PID   int    `json:"pid"`             // the number of the process
	Start string `json:"start,omitempty"` // when it started, as its machine counts; "": not known
}

// Self is this process.
var Self = sync.OnceValue(func() Process {
	host, _ := os.Hostname() // for messages only
	return Process{Host: host, Boot: bootID(), PID: os.Getpid(), Start: startOf(os.Getpid())}
})

// String names the process and its machine.
func (p Process) String() string { return fmt.Sprintf("process %d on %s", p.PID, p.Host) }

// Gone reports whether the process is known to have ended. Of another machine, or of an earlier start of this one,
// nothing is known: false.
func (p Process) Gone() bool {
	self := Self()
	return p.Boot != "" && p.Boot == self.Boot && (Gone(p.PID) || p.Start != "" && p.Start != startOf(p.PID))
}

// hostTag tells machines apart in the names of unpublished files.
var hostTag = sync.OnceValue(func() string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(Self().Host))
	return fmt.Sprintf("%08x", hash.Sum32())
})
