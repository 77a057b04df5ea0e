package mfetch

import (
	"archive/tar"
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/process"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"mfetch": func() { os.Exit(Command.Main("")) }, "mkurls": mkurls, "keys": keys, "mkstate": mkstate, "state": state})
}

// mkstate makes the store $1 of a program's state.
func mkstate() {
	if err := process.CreateStore(os.Args[1], store.Options{}); err != nil {
		panic(err)
	}
}

// state unpacks the file $2 of the state in the store $1, and says how many changes are missing.
func state() {
	var b bytes.Buffer
	missing, err := process.CopyState(&b, os.Args[1], store.Options{})
	for r := tar.NewReader(&b); err == nil; {
		var h *tar.Header
		if h, err = r.Next(); err == nil && h.Name == os.Args[2] {
			_, err = io.Copy(os.Stdout, r)
		}
	}
	if err != io.EOF {
		panic(err)
	}
	if missing > 0 {
		fmt.Println("missing", missing)
	}
}

// mkurls makes url records of transaction $1 from lines of "URL [ADDR]" on
// standard input.
func mkurls() {
	w, err := record.NewWriter[record.URL](os.Stdout, record.WriterOptions{Name: "standard output", Txn: os.Args[1], Now: 1})
	in := bufio.NewScanner(os.Stdin)
	for err == nil && in.Scan() {
		text, addr, _ := strings.Cut(in.Text(), " ")
		var url, host string
		if url, host, err = canon.URL(text); err == nil {
			err = w.Write(&record.URL{URL: url, Host: host, Key: fingerprint.URLKey(host, url), Addr: addr})
		}
	}
	if err == nil {
		rows, hash, ferr := w.Finish()
		if err = ferr; err == nil {
			_, err = w.Commit(record.Ledger{Stages: []record.Stage{{
				Name: "mkurls", Out: rows, OutHash: hash.String(), Made: []record.Count{{Reason: "line", N: rows}},
			}}})
		}
	}
	if err != nil {
		panic(err)
	}
}

// keys prints the checksums and URLs of the fetch records on standard input.
func keys() {
	r, err := record.NewReader[record.Fetch](os.Stdin, record.ReaderOptions{Name: "standard input"})
	for err == nil {
		var row record.Fetch
		if err = r.Read(&row); err == nil {
			fmt.Printf("%016x %s\n", row.Key, row.URL)
		}
	}
	if err != io.EOF {
		panic(err)
	}
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script"})
}
