package mweb

import (
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"mweb": func() { os.Exit(Command.Main("")) }})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"get":   get,
			"await": await,
		},
	})
}

// await FILE waits until the file is there.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await FILE")
	}
	for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
	}
	ts.Fatalf("no %s after a minute", args[0])
}

// get READY HOST TARGET STATUS asks a web on its port for a page, by Host
// header, and compares the status.
func get(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: get READY HOST TARGET STATUS")
	}
	var ready readyLine
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &ready))
	target := &url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(ready.Port)), Path: args[2]}
	req, err := http.NewRequest("GET", target.String(), nil)
	ts.Check(err)
	req.Host = args[1]
	req.Close = true
	resp, err := http.DefaultTransport.RoundTrip(req)
	ts.Check(err)
	resp.Body.Close()
	if got := strconv.Itoa(resp.StatusCode); got != args[3] {
		ts.Fatalf("%s%s: status %s, want %s", args[1], args[2], got, args[3])
	}
}

// The web's time does not go back, however fast it runs.
func TestClock(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := serveCmd{Clock: now.AddDate(1, 0, 0), Speed: 1e9}
	clock := c.clock(func() time.Time { return now })
	last := clock()
	for range 20 {
		now = now.Add(time.Second)
		if at := clock(); at.Before(last) {
			t.Fatalf("%v after %v", at, last)
		} else {
			last = at
		}
	}
}
