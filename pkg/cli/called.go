package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// OneOf runs the command that the process is called as, in a program that is several commands by links to it; the first of them where it has
// another name. manual returns the manual.md of a command.
func OneOf(manual func(command string) string, commands ...Command) int {
	c := commands[calledAs(os.Args[0], commands)]
	return c.Main(manual(c.Name))
}

// calledAs is the place in commands of the first name on the way from a process's own name along the links; 0: none is one.
func calledAs(as string, commands []Command) int {
	at := func(path string) int {
		return slices.IndexFunc(commands, func(c Command) bool { return c.Name == filepath.Base(path) })
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
	return 0
}
