package config

import (
	"os"
	"path/filepath"

	"mercator/pkg/base/fault"
)

// hintLost is what to do where a crawl has lost its configuration; "" of another file.
func hintLost(path string) string {
	dir := filepath.Dir(path)
	if _, err := os.Stat(filepath.Join(dir, "CURRENT")); err != nil || filepath.Base(path) != Name {
		return ""
	}
	return "put it back from a copy; or make one in which no setting is changed: " + fault.Quote("mckpt", "init", dir)
}
