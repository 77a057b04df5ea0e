package ownstage_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/folder/ownstage"
	"mercator/pkg/folder/stage"
	"mercator/pkg/web/process"
)

// pass sends URLs through a program, and returns those that it passes on, with their priorities.
func pass(t *testing.T, dir, txn, command, drop string, urls ...string) (string, error) {
	t.Helper()
	// A child that is being started has a copy of a lock for a moment.
	return passOn(t, dir, txn, command, drop, store.Options{LockWait: time.Minute}, func() {}, urls...)
}

// passOn calls do when the program has begun, before the first row.
func passOn(t *testing.T, dir, txn, command, drop string, opt store.Options, do func(), urls ...string) (string, error) {
	var rows []record.URL
	for i, url := range urls {
		rows = append(rows, record.URL{URL: "http://h.test/" + url, Key: uint64(i + 1), Host: "h.test"})
	}
	r := recordtest.Reader[record.URL](t, recordtest.Stream(t, record.WriterOptions{}, rows...))
	p := ownstage.Program{Setting: "stages.seen", Command: command}
	if strings.Contains(command, "sleep 600") {
		p.Timeout = time.Second
	}
	st, err := p.Open(dir, "urls", 1, opt)
	if err != nil {
		return "", err
	}
	out := &recordtest.Output{}
	convert := func(in, out *record.URL) bool {
		if in.Key == 1 {
			do()
		}
		return ownstage.All(in, out)
	}
	spec := stage.Spec{Name: "test", Verb: p.Verb("new"), Store: st, Txn: txn}
	_, err = stage.Run(t.Context(), spec, r, []stage.Output{out}, func(ctx context.Context, b *stage.Batch[record.URL, record.URL]) error {
		return ownstage.Run(ctx, b, st, txn, p, ownstage.Rows[record.URL, record.URL]{Convert: convert, Columns: ownstage.OfFilters, Drop: drop, Progress: func(int64) {}})
	})
	if err != nil {
		return "", err
	}
	var text strings.Builder
	passed, _ := recordtest.Rows[record.URL](t, out)
	for _, u := range passed {
		fmt.Fprintf(&text, "%s=%d ", strings.TrimPrefix(u.URL, "http://h.test/"), u.Priority)
	}
	return text.String(), nil
}

// atRows is a script that does something for the rows alone.
func atRows(script string) string { return `[ "$MERCATOR_EVENT" = rows ] || exit 0; ` + script }

// first passes each line on once, over all rounds.
var first = atRows(`cd "$MERCATOR_MODULE_DIR"; touch seen; while read -r line; do if grep -qxF "${line%%,*}" seen; then echo null; else echo "${line%%,*}" >> seen; echo '{"priority":3}'; fi; done`)

func newStore(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "urls")
	must.OK(t, process.CreateStore(dir, store.Options{}))
	return dir
}

func TestStateGoesWithTheTransaction(t *testing.T) {
	dir := newStore(t)
	for _, step := range []struct{ txn, command, urls, want string }{
		{"r1", first, "a b a", "a=3 b=3 "},
		{"r2", first, "b c", "c=3 "},
		{"r2", "exit 9", "b c", "c=3 "}, // committed: the program is not asked
		{"r3", first, "", ""},
		{"", first, "c d", "d=3 "},
	} {
		if got, err := pass(t, dir, step.txn, step.command, "seen", strings.Fields(step.urls)...); err != nil || got != step.want {
			t.Errorf("%s of %q: %q, %v, want %q", step.txn, step.urls, got, err, step.want)
		}
	}
	var f *fault.Error
	if _, err := pass(t, dir, "r2", first, "seen", "other"); !errors.As(err, &f) || f.Class != fault.Conflict {
		t.Errorf("other rows in a committed transaction: %v", err)
	}
}

// A program that does not keep to the contract ends the stage by one error that names it, and changes nothing.
func TestBadPrograms(t *testing.T) {
	for name, test := range map[string]struct{ command, drop, says string }{
		"none":             {"/none/such", "seen", "failed at begin: exit status 127"},
		"dies":             {atRows("read -r x; exit 3"), "seen", "it ended without an answer, asked for http://h.test/a"},
		"killed":           {atRows("read -r x; kill -9 $$"), "seen", "it ended without an answer"},
		"hangs":            {atRows("sleep 600"), "seen", "no answer for 1s, asked for http://h.test/a"},
		"answers fewer":    {atRows("read -r x; echo {}"), "seen", "it ended without an answer, asked for http://h.test/b"},
		"answers more":     {atRows("while read -r x; do echo {}; echo {}; done"), "seen", "more answers than questions"},
		"junk":             {atRows("while read -r x; do echo yes; done"), "seen", `the answer "yes", want a JSON object or null, asked for http://h.test/a`},
		"no JSON":          {atRows("while read -r x; do echo '{\"priority\":'; done"), "seen", "not a JSON object"},
		"long answer":      {atRows("head -c 100000 /dev/zero | tr '\\0' x"), "seen", "an answer of more than 4096 bytes"},
		"another column":   {atRows(`while read -r x; do echo '{"url":"http://other.test/"}'; done`), "seen", `column "url" cannot be changed here, want one of priority, score`},
		"no value":         {atRows(`while read -r x; do echo '{"priority":null}'; done`), "seen", `column "priority": null, want a value`},
		"too large":        {atRows(`while read -r x; do echo '{"priority":256}'; done`), "seen", `column "priority"`},
		"drops":            {atRows("while read -r x; do echo null; done"), "", `the answer "null", want a JSON object`},
		"fails at begin":   {`[ "$MERCATOR_EVENT" != begin ] || { echo no disk >&2; exit 4; }`, "seen", "failed at begin: exit status 4: no disk"},
		"fails at the end": {atRows("while read -r x; do echo {}; done; exit 5"), "seen", "it ended with exit status 5"},
		"fails at commit":  {`case $MERCATOR_EVENT in rows) while read -r x; do echo {}; done;; commit) exit 6;; esac`, "seen", "failed at commit: exit status 6"},
		"leaves a link":    {atRows(`ln -s / "$MERCATOR_MODULE_DIR/root"; while read -r x; do echo {}; done`), "seen", "root in its folder is neither a file nor a folder"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := newStore(t)
			_, err := pass(t, dir, "r1", test.command, test.drop, "a", "b")
			var f *fault.Error
			if !errors.As(err, &f) || f.Class != fault.Program || f.Place != "stages.seen" || strings.Contains(err.Error(), "module failed") || !strings.Contains(err.Error(), test.says) || (name == "hangs") != strings.HasSuffix(f.Hint, "by stages.timeout") {
				t.Fatalf("%v, want %q", err, test.says)
			}
			empty(t, dir)
			if got, err := pass(t, dir, "r1", first, "seen", "a", "b"); err != nil || got != "a=3 b=3 " {
				t.Errorf("after it: %q, %v", got, err)
			}
		})
	}
}

// empty checks that nothing is left of a program's folders.
func empty(t *testing.T, dir string) {
	t.Helper()
	if list, err := os.ReadDir(filepath.Join(dir, store.WorkDir)); err != nil || len(list) > 0 {
		t.Errorf("left: %v, %v", list, err)
	}
}

// leave makes a folder of a program as a killed process leaves it, in a folder that the program has locked.
func leave(t *testing.T, dir, attempt string, mode os.FileMode) {
	t.Helper()
	locked := filepath.Join(dir, store.WorkDir, attempt, "mercator-module-urls-1", "locked")
	must.OK(t, os.MkdirAll(locked, 0o777), os.WriteFile(filepath.Join(locked, "seen"), []byte("a"), 0o666), os.Chmod(locked, mode))
	t.Cleanup(func() { _ = os.Chmod(locked, 0o700) }) // if it is there still
}

// What a killed process has left in the store's folder goes.
func TestLeftovers(t *testing.T) {
	for name, mode := range map[string]os.FileMode{"open": 0o777, "not writable": 0o500, "not readable": 0} {
		t.Run(name, func(t *testing.T) {
			dir := newStore(t)
			leave(t, dir, "000002-1", mode)
			if got, err := pass(t, dir, "r1", first, "seen", "a"); err != nil || got != "a=3 " {
				t.Errorf("%q, %v", got, err)
			}
			empty(t, dir)
		})
	}
}

// noLocks is a file system as two machines see it, with locks that hold for nobody.
type noLocks struct{ durable.FS }

func (noLocks) Lock(string, string) (io.Closer, error) { return io.NopCloser(nil), nil }

// An attempt that another machine takes over removes its own folder alone, and is told so. What attempts at earlier
// generations have left goes.
func TestTakeover(t *testing.T) {
	crawl := t.TempDir()
	dir := filepath.Join(crawl, "shard", "000", "urls")
	opt := store.Options{FS: noLocks{durable.OS}}
	must.OK(t, store.CreateCurrent(durable.OS, crawl, 1), process.CreateStore(dir, opt))
	leave(t, dir, "000001-1", 0o500)
	begun, ended, all := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var got string
	var after error
	second := func() {
		defer close(all)
		got, after = passOn(t, dir, "r1", first, "seen", opt, func() { close(begun); <-ended }, "a", "b")
	}
	_, err := passOn(t, dir, "r1", first, "seen", opt, func() { go second(); <-begun }, "a", "b")
	if !errors.Is(err, fault.Superseded) {
		t.Errorf("the first: %v", err)
	}
	close(ended)
	if <-all; after != nil || got != "a=3 b=3 " {
		t.Errorf("the second: %q, %v", got, after)
	}
	empty(t, dir)
}

// Without its program a stage cannot go on, and says how it can.
func TestOpenWithoutTheProgram(t *testing.T) {
	crawl := t.TempDir()
	dir := filepath.Join(crawl, "urls")
	must.OK(t, store.CreateCurrent(durable.OS, crawl, 0), process.CreateStore(dir, store.Options{}))
	want := "set stages.seen to the program that the crawl was made with: mcrawl set " + crawl + " stages.seen=COMMAND"
	var f *fault.Error
	if _, err := (ownstage.Program{Setting: "stages.seen"}).Open(crawl, "urls", 1, store.Options{}); !errors.As(err, &f) || f.Class != fault.WrongKind || f.Hint != want {
		t.Errorf("%v", err)
	}
}

func TestOpenRefusesASet(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "urls")
	must.OK(t, store.Create(dir, "urls", 1, nil, store.Options{}))
	_, err := ownstage.Program{Setting: "stages.seen", Command: "cat"}.Open(dir, "urls", 1, store.Options{})
	var f *fault.Error
	if !errors.As(err, &f) || f.Class != fault.WrongKind || f.Place != "stages.seen" || !strings.Contains(f.Hint, "when the crawl is made") {
		t.Errorf("%v", err)
	}
}
