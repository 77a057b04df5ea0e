package localfault_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"mercator/pkg/base/needs"
	"mercator/pkg/fetch/localfault"
)

func dialError(addr string, errno syscall.Errno) error {
	to, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		panic(err)
	}
	return fmt.Errorf("proxy: %w", &net.OpError{Op: "dial", Net: "tcp", Addr: to, Err: os.NewSyscallError("connect", errno)})
}

// TestOf: loopback always has a route, so what is unreachable there was told by a router.
func TestOf(t *testing.T) {
	read := &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.EHOSTUNREACH)}
	for _, c := range []struct {
		err  error
		want string
	}{
		{dialError("127.0.0.1:80", syscall.EADDRNOTAVAIL), localfault.NoPort},
		{dialError("127.0.0.1:80", syscall.EADDRINUSE), localfault.NoPort},
		{dialError("127.0.0.1:80", syscall.EMFILE), localfault.NoFile},
		{&fs.PathError{Op: "open", Path: "body", Err: syscall.ENFILE}, localfault.NoFile},
		{dialError("127.0.0.1:80", syscall.ENOBUFS), localfault.NoMemory},
		{&fs.PathError{Op: "fork/exec", Path: "/bin/sh", Err: syscall.EAGAIN}, localfault.NoMemory},
		{dialError("127.0.0.1:80", syscall.ENETDOWN), localfault.Down},
		{dialError("127.0.0.1:80", syscall.EPERM), localfault.Firewall},
		{dialError("127.0.0.1:80", syscall.EACCES), localfault.Firewall},
		{&net.OpError{Op: "write", Net: "udp", Addr: &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 53}, Err: os.NewSyscallError("write", syscall.EPERM)}, localfault.Firewall},
		{&net.OpError{Op: "write", Net: "udp", Addr: &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 53}, Err: os.NewSyscallError("write", syscall.ECONNREFUSED)}, ""},
		{dialError("127.0.0.1:80", syscall.ENETUNREACH), ""},
		{dialError("127.0.0.1:80", syscall.EHOSTUNREACH), ""},
		{dialError("127.0.0.1:80", syscall.ECONNREFUSED), ""},
		{dialError("127.0.0.1:80", syscall.ETIMEDOUT), ""},
		{&fs.PathError{Op: "open", Path: "body", Err: syscall.EACCES}, ""},
		{&fs.PathError{Op: "write", Path: "body", Err: syscall.ENOSPC}, ""},
		{read, ""},
		{errors.New("too many open files"), ""},
		{nil, ""},
	} {
		t.Run(fmt.Sprint(c.err), func(t *testing.T) {
			got, ok := localfault.Of(c.err)
			if got != c.want || ok != (c.want != "") || ok != localfault.Is(got) {
				t.Errorf("%v: %q, %v, want %q", c.err, got, ok, c.want)
			}
		})
	}
}

// TestNoRoute asks a machine that has loopback alone, where it can be made.
func TestNoRoute(t *testing.T) {
	const mark = "MERCATOR_TEST_OWN_NETWORK"
	if os.Getenv(mark) == "" {
		if runtime.GOOS != "linux" {
			needs.Skip(t, "no network namespaces here")
		}
		cmd := exec.Command("unshare", "--user", "--map-root-user", "--net", os.Args[0], "-test.v", "-test.run=^TestNoRoute$")
		cmd.Env = append(os.Environ(), mark+"=1")
		out, err := cmd.CombinedOutput()
		if !strings.Contains(string(out), "=== RUN") {
			needs.Skip(t, "no network namespaces here: ", err, string(out))
		}
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	expect := func(addr, want string) {
		_, err := net.Dial("tcp", addr)
		if got, _ := localfault.Of(err); got != want {
			t.Errorf("%s: %v: %q, want %q", addr, err, got, want)
		}
	}
	expect("192.0.2.1:80", localfault.NoRoute)
	expect("[2001:db8::1]:80", localfault.NoRoute)
	ip := func(args string) {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			needs.Skip(t, "ip ", args, ": ", err, string(out))
		}
	}
	ip("link set lo up")
	for _, kind := range []string{"prohibit", "unreachable", "blackhole"} {
		want := localfault.NoRoute // to anything
		if kind == "prohibit" {
			want = localfault.Firewall
		}
		ip("route add " + kind + " default")
		expect("198.51.100.1:80", want)
		ip("route del " + kind + " default")
	}
	ip("route add 192.0.2.0/24 dev lo")
	expect("[2001:db8::1]:80", localfault.NoIPv6)
	expect("203.0.113.1:80", localfault.NoRoute)
	for _, kind := range []string{"prohibit", "unreachable", "blackhole"} { // there is a way to others
		ip("route add " + kind + " 198.51.100.0/24")
		expect("198.51.100.1:80", "")
		ip("route del " + kind + " 198.51.100.0/24")
	}
}
