package mcat

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"mercator/formats/fpfile"
	"mercator/formats/record"
	"mercator/formats/run"
	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/base/must"
	"mercator/pkg/cli/clitest"
	"mercator/pkg/fetch"
	"mercator/pkg/frontier"
	"mercator/pkg/resolve"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"mcat": func() { os.Exit(Command.Main("")) }})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			fps, err := filepath.Abs("../../../formats/fpfile/testdata")
			if err != nil {
				return err
			}
			env.Setenv("FPFILE", fps)
			return os.WriteFile(env.WorkDir+"/x.warc", oneRecord(t), 0o666)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"cut":      cut,
			"status":   clitest.Exits,
			"fps":      writeFPS,
			"runs":     writeRuns,
			"manifest": writeManifest,
		},
	})
}

// TestPause: what a pipe has brought is shown while it pauses.
func TestPause(t *testing.T) {
	var rows bytes.Buffer
	w, err := record.NewWriter[record.URL](&rows, record.WriterOptions{})
	must.OK(t, err)
	must.OK(t, w.Write(&record.URL{URL: "http://a.test/"}), w.Flush())
	for name, c := range map[string]struct {
		args  []string
		input []byte
	}{
		"json":  {[]string{"--quiet"}, rows.Bytes()},
		"tsv":   {[]string{"--format", "tsv"}, rows.Bytes()},
		"arrow": {[]string{"--format", "arrow"}, rows.Bytes()},
		"bare":  {[]string{"--bare"}, rows.Bytes()},
		"warc":  {nil, append(oneRecord(t), "WARC/1.1\r\n"...)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, "mcat", c.args...)
			in, errIn := cmd.StdinPipe()
			out, errOut := cmd.StdoutPipe()
			must.OK(t, errIn, errOut, cmd.Start())
			_, err := in.Write(c.input)
			var shown []byte
			for b := make([]byte, 64<<10); err == nil && !bytes.Contains(shown, []byte("http://a.test/")); {
				var n int
				n, err = out.Read(b)
				shown = append(shown, b[:n]...)
			}
			if err != nil {
				t.Errorf("%v after %q", err, shown)
			}
			in.Close()
			if err := cmd.Wait(); err == nil {
				t.Error("a stream without its end is whole")
			}
		})
	}
}

// oneRecord is a WARC file with one reply.
func oneRecord(t *testing.T) []byte {
	block := "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello"
	rec := &warc.Record{Type: "response", Date: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC),
		TargetURI: "http://a.test/", ContentType: warc.MediaResponse, Block: strings.NewReader(block), Length: int64(len(block))}
	rec.Add(warc.FieldPayloadDigest, warc.FormatSHA1(sha1.Sum([]byte("hello"))))
	b, err := warc.Encoder{Codec: warc.None}.Append(nil, rec)
	must.OK(t, err)
	return b
}

// cut FILE NEW N: a copy without its last N bytes.
func cut(ts *testscript.TestScript, _ bool, args []string) {
	b := ts.ReadFile(args[0])
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(b[:len(b)-n]), 0o666))
}

// fps FILE KEY…: a fingerprint file.
func writeFPS(ts *testscript.TestScript, _ bool, args []string) {
	var b bytes.Buffer
	w := fpfile.NewWriter(&b, 1)
	for _, a := range args[1:] {
		n, err := strconv.ParseUint(a, 10, 64)
		ts.Check(err)
		ts.Check(w.Add(n))
	}
	ts.Check(w.Finish())
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b.Bytes(), 0o666))
}

// runs QUEUE HOSTS DOMAINS OTHER BAD ANSWERS PAYLOADS: a queue of two URLs, runs of one host, of one domain and of one row of a kind that
// mcat does not know, and one of hosts with a row that does not decode. Then one answer of name servers, and one payload.
func writeRuns(ts *testscript.TestScript, _ bool, args []string) {
	write := func(name, kind string, payloads ...[]byte) {
		var b bytes.Buffer
		w := run.NewWriter(&b, kind)
		for i, payload := range payloads {
			ts.Check(w.Add(uint64(i), payload))
		}
		ts.Check(w.Close())
		ts.Check(os.WriteFile(ts.MkAbs(name), b.Bytes(), 0o666))
	}
	var queue [][]byte
	for _, url := range []string{"http://a.test/", "http://b.test/"} {
		e := frontier.Entry{URL: record.URL{URL: url, Key: 1, Host: "a.test", Depth: 2}}
		queue = append(queue, e.Append(nil))
	}
	host := frontier.Host{Host: "a.test", Discovered: 2}
	domain := frontier.Domain{Domain: "a.test", Sources: []uint32{3, 5}}
	write(args[0], frontier.KindQueue, queue...)
	write(args[1], frontier.KindHosts, host.Append(nil))
	write(args[2], frontier.KindDomains, domain.Append(nil))
	write(args[3], "other", []byte("abc\n"))
	write(args[4], frontier.KindHosts, []byte("abc"))
	write(args[5], resolve.KindAnswers, record.AppendRow(nil, &record.URL{Host: "a.test", Addr: "127.0.0.1", AddrExpires: 5, Via: "b.test"}))
	payload := []byte("\x01\x02\x03\x04\x05\x06\x07\x08")
	for _, n := range []int64{7, 9, int64(len("x.warc.gz"))} {
		payload = binary.AppendVarint(payload, n)
	}
	write(args[6], fetch.KindPayloads, append(payload, "x.warc.gzhttp://a.test/?a&b"...))
}

// manifest FILE: a store's manifest with one file.
func writeManifest(ts *testscript.TestScript, _ bool, args []string) {
	m := store.Manifest{Kind: "urls", Version: 1, Generation: 2, Parent: 1, Base: 1, Files: []store.Entry{
		{Path: "runs/000001-0.fps", Role: "run", Length: 10, Sum: strings.Repeat("0", 32), Born: 1}}}
	b, err := m.Encode()
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o666))
}
