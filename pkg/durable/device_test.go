package durable

import (
	"errors"
	"testing"

	"mercator/pkg/fault"
)

// TestCreateKeepsFolders: what is no regular file is not replaced.
func TestCreateKeepsFolders(t *testing.T) {
	if _, err := Create(OS, t.TempDir()); !errors.Is(err, fault.Usage) {
		t.Errorf("a folder: %v, want fault.Usage", err)
	}
}
