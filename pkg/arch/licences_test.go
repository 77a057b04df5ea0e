package arch

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mercator/pkg/base/must"
)

var update = flag.Bool("update", false, "write the list of licences")

// licenceList is the list of licences of what is linked into the commands.
const licenceList = "../LICENCES.md"

// words are those that a licence is known by, the more special first.
var words = []struct{ name, words string }{
	{"Apache-2.0", "Apache License"},
	{"MPL-2.0", "Mozilla Public License"},
	{"MIT", "Permission is hereby granted, free of charge"},
	{"ISC", "Permission to use, copy, modify, and/or distribute this software for any purpose"},
	{"BSD-3-Clause", "endorse or promote products"},
	{"BSD-2-Clause", "Redistribution and use in source and binary forms"},
	{"Unlicense", "free and unencumbered software"},
	{"FTL or GPL-2.0-or-later", "The FreeType License, which is similar to the original BSD license"},
}

// licencesIn names the licences of a folder of another project.
func licencesIn(t *testing.T, dir string) string {
	t.Helper()
	var names, files []string
	for _, begin := range []string{"[Ll][Ii][Cc][Ee][Nn]*", "COPYING*", "UNLICENSE*", "README*"} {
		found, _ := filepath.Glob(filepath.Join(dir, begin)) // the patterns are right
		files = append(files, found...)
	}
	for _, file := range files {
		if st, err := os.Stat(file); err != nil || st.IsDir() || strings.HasPrefix(filepath.Base(file), "README") && len(names) > 0 {
			continue
		}
		b, err := os.ReadFile(file)
		must.OK(t, err)
		text := strings.Join(strings.Fields(string(b)), " ")
		for _, w := range words {
			if strings.Contains(text, w.words) && !(w.name == "BSD-2-Clause" && slices.Contains(names, "BSD-3-Clause")) && !slices.Contains(names, w.name) {
				names = append(names, w.name)
			}
		}
	}
	return strings.Join(names, ", ")
}

// TestLicences: the list has what is linked into the commands for Linux and macOS, each module with a licence that allows it. "make licences" writes it.
func TestLicences(t *testing.T) {
	modules := map[string]string{} // path and version: folder
	for _, system := range []string{"linux", "darwin"} {
		cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not (or .Main .Replace)}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", module+"cmd/...")
		cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH=amd64")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		for line := range strings.Lines(string(out)) {
			if name, dir, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
				modules[name] = dir
			}
		}
	}
	var b strings.Builder
	modules["uPlot 1.6.32"] = "../view/report/uplot" // which pages of reports carry
	b.WriteString("# Licences of what is linked in\n\n`make licences` writes this list, and a test compares it. `make dist` puts the texts into each package.\n\n")
	names := make([]string, 0, len(modules))
	for name := range modules {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		licence := licencesIn(t, modules[name])
		if licence == "" {
			t.Errorf("%s: no licence that is known here in %s", name, modules[name])
		}
		fmt.Fprintf(&b, "- %s: %s\n", name, licence)
	}
	b.WriteString("- Go's standard library: BSD-3-Clause\n")
	if *update {
		must.OK(t, os.WriteFile(licenceList, []byte(b.String()), 0o666))
	}
	if got, err := os.ReadFile(licenceList); err != nil || string(got) != b.String() {
		t.Errorf("%s is not what is linked in: %v; write it with \"make licences\"", filepath.Clean(licenceList), err)
	}
}
