package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"mercator/formats/record"
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
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"cut-short": cutShort, "flip": flip, "filter": filter, "urls": urls, "show": show},
	})
}

// cutShort FILE removes the last byte of a file.
func cutShort(ts *testscript.TestScript, _ bool, args []string) {
	b := ts.ReadFile(args[0])
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(b[:len(b)-1]), 0o666))
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

// urls FILE TABLE makes url records of lines "key etag score".
func urls(ts *testscript.TestScript, _ bool, args []string) {
	f, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	w, err := record.NewWriter[record.URL](f, record.WriterOptions{Name: args[0]})
	ts.Check(err)
	for line := range strings.Lines(ts.ReadFile(args[1])) {
		var row record.URL
		_, err := fmt.Sscanf(line, "%x %s %g", &row.Key, &row.ETag, &row.Score)
		ts.Check(err)
		row.URL = fmt.Sprintf("http://a.test/%x", row.Key)
		row.Host = "a.test"
		ts.Check(w.Write(&row))
	}
	rows, hash, err := w.Finish()
	ts.Check(err)
	_, err = w.Commit(record.Ledger{Stages: []record.Stage{{Name: "test", Out: rows, OutHash: hash.String(), Made: []record.Count{{Reason: "test", N: rows}}}}})
	ts.Check(err)
	ts.Check(f.Close())
}

// show OUT FILE prints url records as urls reads them, and balances their books.
func show(ts *testscript.TestScript, _ bool, args []string) {
	f, err := os.Open(ts.MkAbs(args[1]))
	ts.Check(err)
	defer f.Close()
	r, err := record.NewReader[record.URL](f, record.ReaderOptions{Name: args[1]})
	ts.Check(err)
	out := ""
	var row record.URL
	for err = r.Read(&row); err == nil; err = r.Read(&row) {
		out += fmt.Sprintf("%x %s %g\n", row.Key, row.ETag, row.Score)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(out), 0o666))
}
