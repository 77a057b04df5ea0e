package mfpset

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"mercator/formats/record"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/cli/clitest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"mfpset": func() { os.Exit(Command.Main("")) }})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/script",
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"fetched": fetched, "marks": marks, "exits": clitest.Exits, "flip": flip, "cut": clitest.CutShort},
	})
}

// flip FILE flips a bit of the first fingerprint in a fingerprint file.
func flip(ts *testscript.TestScript, _ bool, args []string) {
	b := []byte(ts.ReadFile(args[0]))
	b[32+8] ^= 4
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o666))
}

// fetched FILE TABLE makes fetch records of lines "role outcome status truncated
// body", with an empty body for "-".
func fetched(ts *testscript.TestScript, _ bool, args []string) {
	f, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	w, err := record.NewWriter[record.Fetch](f, record.WriterOptions{Name: args[0]})
	ts.Check(err)
	for i, line := range strings.Split(strings.TrimSpace(ts.ReadFile(args[1])), "\n") {
		var body string
		row := record.Fetch{URL: fmt.Sprintf("http://a.test/%d", i), Host: "a.test", Key: uint64(i)}
		_, err := fmt.Sscan(line, &row.Role, &row.Outcome, &row.Status, &row.Truncated, &body)
		ts.Check(err)
		if row.Truncated == "whole" {
			row.Truncated = ""
		}
		if body != "-" {
			row.BodyLength = int64(len(body))
			row.ContentFP = fingerprint.OfString(body)
		}
		ts.Check(w.Write(&row))
	}
	_, _, err = w.Finish()
	ts.Check(err)
	_, err = w.Commit(record.Ledger{})
	ts.Check(err)
	ts.Check(f.Close())
}

// marks OUT FILE prints the number of each row, and whether it is a duplicate.
func marks(ts *testscript.TestScript, _ bool, args []string) {
	f, err := os.Open(ts.MkAbs(args[1]))
	ts.Check(err)
	defer f.Close()
	r, err := record.NewReader[record.Fetch](f, record.ReaderOptions{Name: args[1]})
	ts.Check(err)
	out := ""
	var row record.Fetch
	for err = r.Read(&row); err == nil; err = r.Read(&row) {
		out += fmt.Sprintln(row.Key, row.Duplicate)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(out), 0o666))
}
