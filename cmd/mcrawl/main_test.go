package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"mercator/pkg/cli/clitest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"mcrawl": main})
}

// TestScripts runs testdata/script beside a small site on loopback, whose address is in $SITE:
// a page with links to three others, of which one links back and one is not there. /same is the same page as /a. /moved redirects to another site,
// and /start to a port that is not fetched from.
func TestScripts(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/start" {
			http.Redirect(w, r, "http://127.0.0.77:9/", http.StatusMovedPermanently)
			return
		}
		links := map[string]string{"/": "/a /b /gone", "/a": "/", "/b": "/c /a", "/c": "", "/x/b": "/a /x/../b"}
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "http://elsewhere.example/", http.StatusMovedPermanently)
			return
		}
		if r.URL.Path == "/same" {
			r.URL.Path = "/a"
		}
		list, found := links[r.URL.Path]
		if !found {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		for _, l := range strings.Fields(list) {
			fmt.Fprintf(w, "<a href=%q>to %[1]s from %s</a>\n", l, r.URL.Path)
		}
	}))
	t.Cleanup(site.Close)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("SITE", site.URL)
			here, err := os.Getwd()
			if err != nil {
				return err
			}
			env.Setenv("PIPELINES", filepath.Join(here, "..", "..", "pipelines"))
			_, port, err := net.SplitHostPort(site.Listener.Addr().String())
			env.Setenv("PORT", port)
			env.Setenv("PATH", env.Getenv("PATH")+string(os.PathListSeparator)+commands(t))
			return err
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			// code N COMMAND…: the command ends with this exit code
			"code": clitest.Exits,
		},
	})
}

// commands is the folder of the commands: MERCATOR_BIN, as make has it, or one that is built now.
func commands(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("MERCATOR_BIN"); dir != "" {
		return dir
	}
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "mercator/cmd/...").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}
