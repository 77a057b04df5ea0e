package cli

import (
	"os"
	"path/filepath"
	"testing"

	"mercator/pkg/base/must"
)

func TestCalledAs(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"mone", "program"} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), nil, 0o777))
	}
	for name, to := range map[string]string{"mtwo": "mone", "direct": "mtwo", "over": "direct", "whole": filepath.Join(dir, "mtwo"), "round": "round", "gone": "nowhere", "other": "program"} {
		must.OK(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	t.Setenv("PATH", dir)
	commands := []Command{{Name: "mone"}, {Name: "mtwo"}}
	for name, c := range map[string]struct {
		as   string
		want int
	}{
		"its own name":                       {"mone", 0},
		"the name of a link":                 {"mtwo", 1},
		"with its folder":                    {dir + "/mtwo", 1},
		"a name in a folder that is not":     {"/nowhere/mtwo", 1},
		"a link to the link":                 {"direct", 1},
		"two links on":                       {"over", 1},
		"by an absolute link":                {dir + "/whole", 1},
		"a link to itself":                   {"round", -1},
		"a link to nothing":                  {"gone", -1},
		"a link to a file of another name":   {"other", -1},
		"a file of another name":             {"program", -1},
		"nothing in PATH":                    {"absent", -1},
		"no name":                            {"", -1},
		"a copy with another ending":         {"mtwo.old", 1},
		"a copy with a version":              {dir + "/mone-1.0", 0},
		"a name that only begins as another": {"mtwofold", -1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := calledAs(c.as, commands); got != c.want {
				t.Errorf("called as %q: command %d, want %d", c.as, got, c.want)
			}
		})
	}
}
