package config

import (
	"os"
	"path/filepath"

	"mercator/pkg/base/fault"
)

// hintLost returns the hint for a crawl that has lost its configuration; "" for another file.
func hintLost(path string) string {
	dir := filepath.Dir(path)
	if _, err := os.Stat(filepath.Join(dir, "CURRENT")); err != nil || filepath.Base(path) != Name {
		return ""
	}
	return "put it back from a copy; or make one in which no setting is changed: " + fault.Quote("mckpt", "init", dir)
}
