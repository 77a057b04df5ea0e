package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"mfocus": main})
}

// TestScripts runs testdata/script. $WORDNET is a small dictionary with the layout of WordNet's files.
func TestScripts(t *testing.T) {
	wordnet, err := filepath.Abs("../../pkg/focus/words/testdata/wordnet")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("WORDNET", wordnet)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits, "fetched": fetched, "show": show},
	})
}

// exits CODE PROGRAM [ARG…] runs a program that must end with this code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	e := (*exec.ExitError)(nil)
	if !errors.As(err, &e) || strconv.Itoa(e.ExitCode()) != args[0] {
		ts.Fatalf("%v, want exit status %s", err, args[0])
	}
}
