package mfocus

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
)

// maxLine bounds a line of text, in bytes.
const maxLine = 1 << 20

// eachLine calls do for each line of files ("-" or none: standard input) that is not empty.
func eachLine(std *cli.Std, files []string, do func(line string) error) error {
	in, err := std.OpenLines(files)
	if err != nil {
		return err
	}
	defer in.Close()
	s := bufio.NewScanner(in)
	s.Buffer(nil, maxLine)
	n := 0
	for s.Scan() {
		n++
		line := strings.TrimSpace(s.Text())
		if line == "" {
			continue
		}
		if err := do(line); err != nil {
			if e, ok := errors.AsType[*fault.Error](err); ok && e.Place == "" {
				e.Place = fmt.Sprintf("line %d", n)
			}
			return err
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return &fault.Error{Class: fault.Corrupt, File: "input", Place: fmt.Sprintf("line %d", n+1), Found: "a longer line", Want: fmt.Sprintf("at most %d bytes", maxLine), Hint: "break it: fold -s -w 1000"}
	}
	return s.Err()
}

// joined is text that the shell has split at its spaces. An argument that has spaces stays together, as
// the shell's quotes had it, only where there are several.
func joined(args []string) string {
	if len(args) == 1 {
		return args[0]
	}
	list := make([]string, len(args))
	for i, a := range args {
		if list[i] = a; strings.Contains(a, " ") && !strings.Contains(a, `"`) {
			list[i] = `"` + a + `"`
		}
	}
	return strings.Join(list, " ")
}
