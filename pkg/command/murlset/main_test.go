package murlset

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/must"
	"mercator/pkg/cli/clitest"
	"mercator/pkg/urlset"
	"mercator/pkg/web/canon"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"murlset": func() { os.Exit(Command.Main("")) }})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/script",
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": clitest.Exits, "rows": rows, "cut-short": clitest.CutShort, "flip": flip, "hold": hold, "newer": newer, "modules": modules},
	})
}

// rows OUT FILE prints the URLs of url records, and how they were found.
func rows(ts *testscript.TestScript, _ bool, args []string) {
	f, err := os.Open(ts.MkAbs(args[1]))
	ts.Check(err)
	defer f.Close()
	r, err := record.NewReader[record.URL](f, record.ReaderOptions{Name: args[1]})
	ts.Check(err)
	out := ""
	var row record.URL
	for err = r.Read(&row); err == nil; err = r.Read(&row) {
		out += row.URL + "\n"
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(out), 0o666))
}

// flip FOLDER BYTE flips a bit of the newest file in a folder: names begin with generations.
func flip(ts *testscript.TestScript, _ bool, args []string) {
	list, err := filepath.Glob(ts.MkAbs(args[0]) + "/*")
	ts.Check(err)
	if len(list) == 0 {
		ts.Fatalf("no file in %s", args[0])
	}
	b, err := os.ReadFile(list[len(list)-1])
	ts.Check(err)
	at, err := strconv.Atoi(args[1])
	ts.Check(err)
	b[at] ^= 1
	ts.Check(os.WriteFile(list[len(list)-1], b, 0o666))
}

// hold STORE VERB TXN changes a store, and does not end before the script does.
func hold(ts *testscript.TestScript, _ bool, args []string) {
	st, err := store.Open(ts.MkAbs(args[0]), urlset.Kind, urlset.Version, store.Options{})
	ts.Check(err)
	tx, _, err := st.Begin(context.Background(), args[1], args[2])
	ts.Check(err)
	ts.Defer(func() { tx.Abort() })
}

// newer STORE makes a store of another version.
func newer(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(store.Create(ts.MkAbs(args[0]), urlset.Kind, urlset.Version+1, nil, store.Options{}))
}

// modules FILE makes a stream of module records.
func modules(ts *testscript.TestScript, _ bool, args []string) {
	f, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	w, err := record.NewWriter[record.Module](f, record.WriterOptions{Name: args[0]})
	ts.Check(err)
	_, err = w.Commit(record.Ledger{})
	ts.Check(err)
	ts.Check(f.Close())
}

// The manual lists what the rules take away.
func TestManualListsRules(t *testing.T) {
	page, err := os.ReadFile("../../../cmd/murlset/manual.md")
	must.OK(t, err)
	for _, name := range canon.Trackers {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("%s is not in manual.md", name)
		}
	}
}
