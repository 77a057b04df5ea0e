//go:build unix

package snapshot

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"mercator/pkg/base/must"
)

// TestChildren: a program that copies is in a process group of its own, so that a terminal's Ctrl-C comes to this program alone. It ends with ctx, all of the
// group, and the error is the cause.
func TestChildren(t *testing.T) {
	lock, err := os.Create(filepath.Join(t.TempDir(), "lock"))
	must.OK(t, err)
	defer lock.Close()
	c := children{remote: "backup:crawl", lock: lock}
	out, _, err := c.run(t.Context(), nil, "sh", "-c", "ps -o pgid= -p $$")
	group, _ := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil || group == 0 || group == syscall.Getpgrp() {
		t.Errorf("process group %d, %v; that of the test is %d", group, err, syscall.Getpgrp())
	}
	begun := filepath.Join(t.TempDir(), "begun")
	must.OK(t, syscall.Mkfifo(begun, 0o666))
	ctx, stop := context.WithCancelCause(t.Context())
	why := errors.New("why")
	go func() {
		_, _ = os.ReadFile(begun) // until the program has opened it, and closed it
		stop(why)
	}()
	if _, _, err := c.run(ctx, nil, "sh", "-c", "echo >"+begun+"; sleep 99; echo"); err != why {
		t.Errorf("%v, want %v", err, why)
	}
}
