package mckpt

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"mercator/pkg/base/must"
	"mercator/pkg/cli/clitest"
)

// TestMain lets the scripts run this command. The other commands of a round are
// not in this package: they are built, or taken from the folder MERCATOR_BIN, as
// make does.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"mckpt": func() { os.Exit(Command.Main("")) }})
}

func TestScripts(t *testing.T) {
	bin := t.TempDir()
	for _, name := range []string{"murlset", "mfpset", "mfrontier", "mcat", "mmerge"} {
		if dir := os.Getenv("MERCATOR_BIN"); dir != "" {
			built := filepath.Join(dir, name)
			_, err := os.Stat(built)
			must.OK(t, err, os.Symlink(built, filepath.Join(bin, name)))
			continue
		}
		if out, err := exec.Command("go", "build", "-o", filepath.Join(bin, name), "mercator/cmd/"+name).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			// flip FILE: changes a bit in the middle of a file
			"flip": func(ts *testscript.TestScript, neg bool, args []string) {
				file := ts.MkAbs(args[0])
				b, err := os.ReadFile(file)
				ts.Check(err)
				b[len(b)/2] ^= 1
				ts.Check(os.WriteFile(file, b, 0o666))
			},
			// polynomial OUT STORE: writes the polynomial of a store of a set
			"polynomial": func(ts *testscript.TestScript, neg bool, args []string) {
				b := ts.ReadFile(filepath.Join(args[1], "MANIFEST-000001"))
				_, rest, ok := strings.Cut(b, `"polynomial":`)
				if !ok {
					ts.Fatalf("no polynomial in %s", b)
				}
				ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Split(rest, `"`)[1]), 0o666))
			},
			// same-rows FILE FILE: two record files hold the same rows
			"same-rows": func(ts *testscript.TestScript, neg bool, args []string) {
				var rows [2][]byte
				for i, file := range args {
					var err error
					rows[i], err = exec.Command(filepath.Join(bin, "mcat"), "--canonical", ts.MkAbs(file)).Output()
					ts.Check(err)
				}
				if !bytes.Equal(rows[0], rows[1]) {
					ts.Fatalf("%s and %s hold different rows", args[0], args[1])
				}
			},
			// code N COMMAND…: the command ends with this exit code
			"code": clitest.Exits,
		},
	})
}
