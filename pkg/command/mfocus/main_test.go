package mfocus

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"mercator/pkg/base/must"
	"mercator/pkg/cli/clitest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"mfocus": func() { os.Exit(Command.Main("")) }})
}

// TestScripts runs testdata/script. $WORDNET is a small dictionary with the layout of WordNet's files.
func TestScripts(t *testing.T) {
	wordnet, err := filepath.Abs("../../../pkg/focus/words/testdata/wordnet")
	must.OK(t, err)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("WORDNET", wordnet)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": clitest.Exits, "fetched": fetched, "show": show},
	})
}
