package warc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

func TestPart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.warc")
	must.OK(t, os.WriteFile(path, []byte("committed, tail"), 0o666))
	for length, want := range map[int64]int64{-1: 15, 0: 0, 9: 9, 15: 15} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			f, n, err := Part{Path: path, Length: length}.Open()
			if err != nil || n != want {
				t.Fatalf("Length %d: %d bytes, %v; want %d", length, n, err, want)
			}
			if b, err := io.ReadAll(f); len(b) != 15 || err != nil {
				t.Errorf("Length %d: the file gives %q, %v", length, b, err)
			}
			f.Close()
		})
	}
	if _, _, err := (Part{Path: path, Length: 16}).Open(); !errors.Is(err, fault.Truncated) {
		t.Errorf("a file that became shorter: %v", err)
	}
	if _, _, err := (Part{Path: path + "x", Length: -1}).Open(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is missing: %v", err)
	}
}
