package must

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Child is a process that a program of the user's leaves running. A named pipe tells of it, so no test waits for a time.
type Child struct {
	Script  string          // what a shell runs: the child, without the & behind it
	Started <-chan struct{} // closed once the child runs
	ended   chan string     // what came after its beginning
}

// NewChild makes a child that lives for a minute, unless it is killed.
func NewChild(t testing.TB) *Child {
	t.Helper()
	pipe := filepath.Join(t.TempDir(), "child")
	OK(t, exec.Command("mkfifo", pipe).Run())
	started := make(chan struct{})
	c := &Child{Script: "exec 9> " + pipe + "; (echo up >&9; sleep 60; echo alive >&9)", Started: started, ended: make(chan string, 1)}
	go func() {
		f, err := os.Open(pipe) // once the shell opens it
		if err != nil {
			c.ended <- err.Error()
			return
		}
		defer f.Close()
		r := bufio.NewReader(f)
		if up, _ := r.ReadString('\n'); up != "" {
			close(started)
		}
		rest, _ := io.ReadAll(r)
		c.ended <- string(rest)
	}()
	return c
}

// Killed waits for the end of the child, which must come before its time.
func (c *Child) Killed(t testing.TB) {
	t.Helper()
	if rest := <-c.ended; rest != "" {
		t.Errorf("the child was not killed: %q", rest)
	}
}
