package msearch

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"mercator/pkg/cli/clitest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"msearch": func() { os.Exit(Command.Main("")) }})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script", Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": clitest.Exits}})
}
