package setup

import (
	"path/filepath"
	"testing"

	"mercator/pkg/base/must"
	"mercator/pkg/config"
)

// TestCheckFiles: the file of each setting that names one is read before a run.
func TestCheckFiles(t *testing.T) {
	for _, name := range PathKeys("seeds") {
		t.Run(name, func(t *testing.T) {
			conf, err := config.Parse(filepath.Join(t.TempDir(), config.Name), []byte(name+" = \"none\"\n"))
			must.OK(t, err)
			if _, err := CheckFiles(conf, []string{name}); err == nil {
				t.Error("a file that is not there is no error")
			}
		})
	}
}
