package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"mercator/pkg/base/fault"
)

// OneOf runs the command that the process is called as, in a program that is several commands by links to it. manual returns the manual.md of a
// command.
func OneOf(manual func(command string) string, commands ...Command) int {
	i := calledAs(os.Args[0], commands)
	if i < 0 {
		var names []string
		for _, c := range commands {
			names = append(names, c.Name)
		}
		fmt.Fprintf(os.Stderr, "%s: the name of no command here, want %s\n", Printable(filepath.Base(os.Args[0])), strings.Join(names, ", "))
		return fault.Usage.ExitCode()
	}
	return commands[i].Main(manual(commands[i].Name))
}

// calledAs is the place in commands of the first name on the way from a process's own name along the links, such as mfetch, or mfetch.old
// of a copy; -1: none is one.
func calledAs(as string, commands []Command) int {
	at := func(path string) int {
		name := filepath.Base(path)
		if i := strings.IndexFunc(name, func(r rune) bool { return r < 'a' || r > 'z' }); i >= 0 {
			name = name[:i]
		}
		return slices.IndexFunc(commands, func(c Command) bool { return c.Name == name })
	}
	if i := at(as); i >= 0 {
		return i
	}
	path, err := exec.LookPath(as)
	for n := 0; err == nil && n < 40; n++ { // a system follows as many
		if i := at(path); i >= 0 {
			return i
		}
		var to string
		if to, err = os.Readlink(path); err == nil && !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return -1
}
