package mmerge

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/must"
	"mercator/pkg/cli/clitest"
	"mercator/pkg/folder/shard"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"mmerge": func() { os.Exit(Command.Main("")) }})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("LC_ALL", "C")
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"cut-short": clitest.CutShort, "flip": flip, "filter": filter, "urls": urls, "show": show, "random-set": randomSet, "shards": shards},
	})
}

// flip FILE flips a bit in the middle of a file.
func flip(ts *testscript.TestScript, _ bool, args []string) {
	b := []byte(ts.ReadFile(args[0]))
	b[len(b)/2] ^= 4
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o666))
}

// random-set FILE makes a set of 20,000 random fingerprints.
func randomSet(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(makeSet(ts.MkAbs(args[0]), rand.New(rand.NewPCG(3, 4)), 20_000, false))
}

// shards CRAWL N makes a crawl folder of N shards, without stores.
func shards(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	ts.Check(makeShards(ts.MkAbs(args[0]), n))
}

func makeShards(dir string, n int) error {
	m, err := shard.New(n)
	if err != nil {
		return err
	}
	data, err := m.Encode()
	if err != nil {
		return err
	}
	return errors.Join(os.Mkdir(dir, 0o777), os.WriteFile(shard.File(dir, 1), data, 0o666), store.WriteCurrent(durable.OS, dir, store.Current{Epoch: 2, Map: 1}))
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

// show OUT FILE prints url records as urls reads them, and balances their ledger.
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

// TestCheck flips a bit in each of many places of a set and of a record stream:
// check finds every one, with exit code 3.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	rnd := rand.New(rand.NewPCG(1, 2))
	set := filepath.Join(dir, "a.fps")
	writeSet(t, set, rnd, 5000, false)
	rows, err := os.ReadFile("../../../formats/record/testdata/good/fetch.arrows.zst")
	must.OK(t, err)
	stream := filepath.Join(dir, "a.arrows.zst")
	must.OK(t, os.WriteFile(stream, rows, 0o666))
	for _, name := range []string{set, stream} {
		if out, err := exec.Command("mmerge", "check", name).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		good, err := os.ReadFile(name)
		must.OK(t, err)
		for range 25 {
			bad := bytes.Clone(good)
			at := rnd.IntN(len(bad))
			bad[at] ^= 1 << rnd.IntN(8)
			must.OK(t, os.WriteFile(name, bad, 0o666))
			cmd := exec.Command("mmerge", "check", name)
			if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 3 || !strings.Contains(string(out), name) {
				t.Errorf("byte %d of %d of %s: %v, want exit code 3\n%s", at, len(bad), name, err, out)
			}
		}
	}
}
