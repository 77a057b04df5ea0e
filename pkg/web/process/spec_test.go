package process

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/formats/spectest"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

const exampleTotals = "a\t3\t12\nerror\t1\t0\np\t2\t7\n"

// tarOf is a tar archive of empty files and folders with these headers.
func tarOf(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := range headers {
		must.OK(t, w.WriteHeader(&headers[i]))
	}
	must.OK(t, w.Close())
	return b.Bytes()
}

func file(name string) tar.Header { return tar.Header{Name: name, Mode: 0o600, Typeflag: tar.TypeReg} }

func stateVectors(t testing.TB) []spectest.Vector {
	dir := t.TempDir()
	must.OK(t, os.MkdirAll(dir+"/d/e", 0o777), os.WriteFile(dir+"/d/f", []byte("x"), 0o666), os.WriteFile(dir+"/d.run", []byte("#!/bin/sh\n"), 0o777))
	var packed, empty bytes.Buffer
	must.OK(t, pack(&packed, dir), pack(&empty, t.TempDir()))
	good := func(name string, b []byte) spectest.Vector {
		return spectest.Vector{Name: "good/" + name, Bytes: b, Gives: string(b)}
	}
	bad := func(name, says, text string) spectest.Vector {
		return spectest.Vector{Name: "bad/" + name, Bytes: []byte(text), Class: fault.Corrupt, Says: says}
	}
	damaged := func(name string, class fault.Class, says, text string) spectest.Vector {
		return spectest.Vector{Name: "bad/" + name, Class: class, Says: says, Case: func(t testing.TB) error {
			_, err := readState(t, "tags", tagsModule{}, []byte(exampleTotals), []byte(text))
			return err
		}}
	}
	large := func(name, says string, m Stateful, text []byte) spectest.Vector { // no file of testdata
		return spectest.Vector{Name: "bad/" + name, Class: fault.Corrupt, Says: says, Case: func(t testing.TB) error {
			_, err := readState(t, m.Name(), m, text, text)
			return err
		}}
	}
	other := func(name string, class fault.Class, says, kind string, version int, m Stateful) spectest.Vector {
		return spectest.Vector{Name: "bad/" + name, Class: class, Says: says, Case: func(t testing.TB) error {
			opt := store.Options{FS: crashtest.New()}
			must.OK(t, store.Create("/tags", kind, version, nil, opt))
			_, err := OpenChange(t.Context(), "/tags", m, "", opt)
			return err
		}}
	}
	var claim bytes.Buffer
	huge := file("x")
	huge.Size = MaxStateBytes + 1
	must.OK(t, tar.NewWriter(&claim).WriteHeader(&huge))
	holes := file("x") // the writer makes none of its own
	holes.PAXRecords = map[string]string{"GNU_sparse.major": "0", "GNU_sparse.minor": "1", "GNU_sparse.numblocks": "1", "GNU_sparse.map": "0,0", "GNU_sparse.size": "1073741824"}
	return []spectest.Vector{
		good("empty.totals", nil),
		good("example.totals", []byte(exampleTotals)),
		good("ends.totals", []byte("\t1\t18446744073709551615\n\xff=gif\t18446744073709551615\t0\n")),
		good("empty.tar", empty.Bytes()),
		good("folder.tar", packed.Bytes()),

		other("R1-kind", fault.WrongKind, "dns", "dns", Version, tagsModule{}),
		other("R1-version", fault.Version, "store version 2, want 1", Kind, 2, tagsModule{}),
		other("R1-module", fault.WrongKind, "the store of module tags, want that of image", Kind, Version, imageModule{}),
		damaged("R2-short", fault.Truncated, "its end, want 23 bytes, as in the manifest", exampleTotals[:20]),
		damaged("R2-long", fault.Corrupt, "more bytes, want 23, as in the manifest", exampleTotals+"q\t1\t1\n"),
		damaged("R2-sum", fault.Corrupt, "whole file: checksum", strings.Replace(exampleTotals, "7", "8", 1)),
		bad("R3-two-fields.totals", "want KEY<tab>FINDINGS<tab>SUM", "a\t1\n"),
		bad("R3-four-fields.totals", "want KEY<tab>FINDINGS<tab>SUM", "a\t1\t1\nb\t1\t1\t1\n"),
		bad("R3-empty-line.totals", "want KEY<tab>FINDINGS<tab>SUM", "a\t1\t1\n\n"),
		bad("R4-word.totals", "want two numbers", "a\t1\t1\nb\tx\t1\n"),
		bad("R4-sign.totals", "want two numbers", "a\t1\t-1\n"),
		bad("R4-zero.totals", "want two numbers", "a\t01\t1\n"),
		bad("R4-large.totals", "want two numbers", "a\t1\t18446744073709551616\n"),
		bad("R5-twice.totals", "want keys that ascend", "a\t1\t1\na\t2\t2\n"),
		bad("R5-fall.totals", "want keys that ascend", "b\t1\t1\na\t2\t2\n"),
		{Name: "bad/R6-no-end.totals", Bytes: []byte("a\t1\t1\nb\t1\t1"), Class: fault.Truncated, Says: "line 2: \"b\\t1\\t1\", want an end of line"},
		large("R7-long-line", "want an end of line within", tagsModule{}, []byte("a"+strings.Repeat("b", maxLine)+"\t1\t1\n")),
		{Name: "bad/R8-failures", Class: fault.Corrupt, Says: `state failures: "many"`, Case: func(t testing.TB) error {
			opt := store.Options{FS: crashtest.New()}
			st := stateStore(t, "tags", []byte(exampleTotals), "many", opt)
			_, err := CopyState(new(bytes.Buffer), st.Dir(), opt)
			return err
		}},
		bad("R9-text.tar", "entry 1 of the archive: archive/tar: invalid tar header", strings.Repeat("x", 1024)),
		bad("R9-cut.tar", "unexpected EOF", packed.String()[:700]),
		large("R10-entries", "entry 4 of the archive: 0 bytes so far, want 3 files", threeFiles{program}, tarOf(t, file("1"), file("2"), file("3"), file("4"))),
		large("R10-bytes", "4294967297 bytes so far, want 10000 files with 4294967296 bytes at most", program, claim.Bytes()),
		bad("R11-above.tar", "want one within the folder", string(tarOf(t, file("../x")))),
		bad("R11-absolute.tar", "want one within the folder", string(tarOf(t, file("/x")))),
		bad("R12-link.tar", "want a file or a folder", string(tarOf(t, tar.Header{Name: "x", Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink}))),
		bad("R12-holes.tar", "want a file or a folder", strings.ReplaceAll(string(tarOf(t, holes)), "GNU_sparse", "GNU.sparse")),
		bad("R13-twice.tar", "file exists", string(tarOf(t, file("x"), file("x")))),
		bad("R13-below-a-file.tar", "not a directory", string(tarOf(t, file("x"), file("x/y")))),
	}
}

var program = &Exec{ModuleName: "p", Command: "true"}

// threeFiles is a program that may keep three files: ten thousand are slow to make.
type threeFiles struct{ *Exec }

func (p threeFiles) Begin(ctx context.Context, old io.Reader, txn string) (State, error) {
	return p.beginState(ctx, old, txn, 3)
}

// stateStore makes the store of a module with a state, in the folder of its name.
func stateStore(t testing.TB, name string, state []byte, failures string, opt store.Options) *store.Store {
	t.Helper()
	dir := "/" + name
	must.OK(t, CreateStore(dir, opt))
	st, err := store.Open(dir, Kind, Version, opt)
	must.OK(t, err)
	tx, _, err := st.Begin(t.Context(), Verb, "")
	must.OK(t, err)
	defer tx.Abort()
	f, err := tx.Create("state/", ".state", roleState)
	if err == nil {
		_, err = f.Write(state)
	}
	if err == nil {
		err = f.Close()
	}
	if failures != "" {
		tx.SetState(keyFailures, failures)
	}
	if err == nil {
		_, err = tx.Commit(0, "", record.Ledger{})
	}
	must.OK(t, err)
	return st
}

// readState commits a module's state file, replaces its content, and begins a change of the module. It returns the
// state that the module writes when nothing was found.
func readState(t testing.TB, name string, m Stateful, committed, now []byte) (string, error) {
	t.Helper()
	opt := store.Options{FS: crashtest.New()}
	st := stateStore(t, name, committed, "", opt)
	must.OK(t, durable.WriteFile(opt.FS, st.Path("state/000002-0.state"), now))
	c, err := OpenChange(t.Context(), st.Dir(), m, "", opt)
	if err != nil {
		var f *fault.Error
		if !errors.As(err, &f) || f.File != st.Path("state/000002-0.state") {
			t.Errorf("%v, want a fault of the state's file", err)
		}
		return "", err
	}
	defer c.Close(context.Background())
	var b bytes.Buffer
	must.OK(t, c.state.Write(t.Context(), &b))
	return b.String(), nil
}

// TestSpec holds the readers to SPEC.md and their vectors. A good one is committed whole, and damaged then.
func TestSpec(t *testing.T) {
	spectest.Check(t, spectest.Format{
		Vectors: stateVectors(t),
		Read: func(t testing.TB, name string, file []byte) (string, error) {
			committed := file
			if strings.HasPrefix(name, "good/") {
				var err error
				committed, err = os.ReadFile(filepath.Join("testdata", name))
				must.OK(t, err)
			}
			if filepath.Ext(name) == ".tar" {
				return readState(t, "p", program, committed, file)
			}
			return readState(t, "tags", tagsModule{}, committed, file)
		},
		Every: 40,
		File: func(name string) string {
			if filepath.Ext(name) == ".tar" {
				return "/p/state/000002-0.state"
			}
			return "/tags/state/000002-0.state"
		},
		Example: []byte(exampleTotals),
	})
}

// What is accepted is written again as it was; what is not, is a fault.
func FuzzTotals(f *testing.F) {
	for _, v := range stateVectors(f) {
		if filepath.Ext(v.Name) == ".totals" {
			f.Add(v.Bytes)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		state, err := readTotals(bytes.NewReader(b))
		if err != nil {
			if fault.ClassOf(err) == "" {
				t.Fatalf("%v has no class", err)
			}
			return
		}
		var again bytes.Buffer
		if err := state.Write(t.Context(), &again); err != nil || !bytes.Equal(again.Bytes(), b) {
			t.Fatalf("%q is written as %q, %v", b, again.Bytes(), err)
		}
	})
}

// An archive makes files below its folder and nowhere else, or is refused; the folder packs and unpacks to the same.
func FuzzUnpack(f *testing.F) {
	for _, v := range stateVectors(f) {
		if filepath.Ext(v.Name) == ".tar" {
			f.Add(v.Bytes)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		above := t.TempDir()
		in, again := filepath.Join(above, "in"), filepath.Join(above, "again")
		must.OK(t, os.Mkdir(in, 0o700), os.Mkdir(again, 0o700))
		if err := unpack(in, bytes.NewReader(b), MaxStateFiles); err != nil {
			if fault.ClassOf(err) == "" {
				t.Fatalf("%v has no class", err)
			}
			return
		}
		if list, err := os.ReadDir(above); err != nil || len(list) != 2 {
			t.Fatalf("%v beside the folder, %v", list, err)
		}
		var one, two bytes.Buffer
		must.OK(t, pack(&one, in), unpack(again, bytes.NewReader(one.Bytes()), MaxStateFiles), pack(&two, again))
		if !bytes.Equal(one.Bytes(), two.Bytes()) {
			t.Fatal("the copy's archive differs")
		}
	})
}
