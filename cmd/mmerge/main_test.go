package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"mmerge": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("LC_ALL", "C")
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"cut-short": cutShort, "flip": flip, "filter": filter},
	})
}

// cutShort FILE N removes the last N bytes of a file.
func cutShort(ts *testscript.TestScript, _ bool, args []string) {
	b := ts.ReadFile(args[0])
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(b[:len(b)-len(args[1])]), 0o666))
}

// flip FILE flips a bit in the middle of a file.
func flip(ts *testscript.TestScript, _ bool, args []string) {
	b := []byte(ts.ReadFile(args[0]))
	b[len(b)/2] ^= 4
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o666))
}

// filter OUT COMMAND ARGS… runs a command of the system and keeps its output.
func filter(ts *testscript.TestScript, _ bool, args []string) {
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.Output()
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), out, 0o666))
}
