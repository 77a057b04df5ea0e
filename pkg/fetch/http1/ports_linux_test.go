package http1_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mercator/formats/record"
	"mercator/pkg/base/must"
	"mercator/pkg/base/needs"
	"mercator/pkg/fetch"
	"mercator/pkg/fetch/addrguard"
	"mercator/pkg/fetch/http1"
)

// alone runs the test that calls it again, in a process with a network of its own, where
// this returns true. Its caller returns where it is false.
func alone(t *testing.T) bool {
	const mark = "MERCATOR_TEST_OWN_NETWORK"
	if os.Getenv(mark) == "" {
		cmd := exec.Command(os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), mark+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
		out, err := cmd.CombinedOutput()
		if _, ran := err.(*exec.ExitError); err != nil && !ran {
			needs.Skip(t, "no network namespaces here: ", err)
		}
		if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
			t.Errorf("%v\n%s", err, out)
		}
		return false
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	must.OK(t, err)
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	must.OK(t, err)
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	must.OK(t, unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo))
	return true
}

// TestLocalPortsAreShared: connections to different addresses may have the same local port,
// so that ten of them are enough for forty connections.
func TestLocalPortsAreShared(t *testing.T) {
	if !alone(t) {
		return
	}
	must.OK(t, os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("40000 40009"), 0))
	l, err := net.Listen("tcp4", "0.0.0.0:8080")
	must.OK(t, err)
	defer l.Close()
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "text") }))
	c := http1.Client{UserAgent: "mercator", Limits: fetch.Limits{Timeout: time.Minute, Guard: addrguard.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}}
	for i := range 40 {
		addr := netip.AddrFrom4([4]byte{127, 0, 0, byte(i + 1)})
		x := c.Fetch(context.Background(), &fetch.Request{URL: fmt.Sprintf("http://%s:8080/", addr), Addr: addr})
		if x.Outcome != record.OutcomeFetched {
			t.Fatalf("connection %d: %s: %s", i+1, x.Outcome, x.Error)
		}
		defer x.Session.Close()
		x.Memory.Close()
	}
}
