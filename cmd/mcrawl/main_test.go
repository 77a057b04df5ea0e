package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
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

// TestScripts runs testdata/script beside a small site on loopback at $SITE:
// a page with links to three others: one links back and one is not there. /same is the same page as /a. /moved redirects to another site,
// and /start to a port that is not fetched from. $FILES is a site of the script's own: its folder www.
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
		if ends(w, r) {
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
	bin := commands(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("SITE", site.URL)
			files := httptest.NewServer(folder(filepath.Join(env.WorkDir, "www")))
			env.Defer(files.Close)
			env.Setenv("FILES", files.URL)
			here, err := os.Getwd()
			if err != nil {
				return err
			}
			env.Setenv("PIPELINES", filepath.Join(here, "..", "..", "pipelines"))
			_, port, err := net.SplitHostPort(site.Listener.Addr().String())
			env.Setenv("PORT", port)
			env.Setenv("PATH", env.Getenv("PATH")+string(os.PathListSeparator)+bin)
			return err
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			// code N COMMAND…: the command ends with this exit code
			"code": clitest.Exits,
		},
	})
}

// folder serves the files of a folder. A file NAME.to redirects from NAME to the path in it.
func folder(dir string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".html.gz") {
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Type", "text/html")
		}
		if to, err := os.ReadFile(filepath.Join(dir, r.URL.Path+".to")); err == nil {
			http.Redirect(w, r, strings.TrimSpace(string(to)), http.StatusMovedPermanently)
			return
		}
		http.FileServer(http.Dir(dir)).ServeHTTP(w, r)
	}
}

// ends answers for pages at which the crawl of a site ends without having anything, all below /ends/.
func ends(w http.ResponseWriter, r *http.Request) bool {
	name, is := strings.CutPrefix(r.URL.Path, "/ends/")
	if !is {
		return false
	}
	html := func(text string) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, text)
	}
	switch name {
	case "refresh":
		html("<meta http-equiv=refresh content='0; url=http://elsewhere.example/'>")
	case "field":
		w.Header().Set("Refresh", "0; url=http://elsewhere.example/")
		html("It has moved.")
	case "frames":
		html("<frameset><frame src=http://elsewhere.example/></frameset><noframes><a href=http://elsewhere.example/>here</a></noframes>")
	case "iframe":
		html("<title>Elsewhere</title><iframe src=http://elsewhere.example/>frames, please</iframe>")
	case "film":
		html("<title>A film</title><p>We made it in May.</p><iframe src=http://elsewhere.example/></iframe>")
	case "canonical":
		html("<link rel=canonical href=http://elsewhere.example/>Some text.")
	case "script":
		html("<script>location = '/elsewhere'</script>")
	case "forbidden":
		w.WriteHeader(http.StatusForbidden)
		html("No.")
	case "noplace":
		w.WriteHeader(http.StatusFound)
	case "empty":
		html("")
	case "circle":
		http.Redirect(w, r, "/ends/back", http.StatusFound)
	case "back":
		http.Redirect(w, r, "/ends/circle", http.StatusFound)
	case "login":
		http.Redirect(w, r, "http://login.example/?return=http%3A%2F%2F"+url.QueryEscape(r.Host)+"%2F", http.StatusMovedPermanently)
	case "private": // with its sign-in, a site of two pages for who has no session
		if _, err := r.Cookie("session"); err != nil {
			http.Redirect(w, r, "/ends/sign_in?from=private", http.StatusFound)
			return true
		}
		html("The members' page. <a href=/ends/members>All members</a>")
	case "sign_in":
		if r.Method == http.MethodPost && r.FormValue("password") == "secret" {
			http.SetCookie(w, &http.Cookie{Name: "session", Value: "1", Path: "/"})
			http.Redirect(w, r, "/ends/private", http.StatusSeeOther)
			return true
		}
		html("<form method=post><input name=user><input type=password name=password></form> <a href=/ends/forgot>Forgotten?</a>")
	case "members":
		html("Anna, Bert.")
	case "forgot":
		html("Ask the office.")
	case "locked":
		w.Header().Set("WWW-Authenticate", "Basic")
		w.WriteHeader(http.StatusUnauthorized)
		html("No.")
	case "half":
		html("Welcome. <a href=/ends/locked>The rest</a>")
	case "one":
		http.Redirect(w, r, "/ends/two", http.StatusMovedPermanently)
	case "two":
		html("<meta http-equiv=refresh content='0; url=/ends/forbidden'>")
	case "text", "slides":
		html("Some text. <a href=http://elsewhere.example/>elsewhere</a><iframe src=http://video.example/></iframe><meta http-equiv=refresh content='5; url=/ends/" + name + "'>")
	default:
		http.NotFound(w, r)
	}
	return true
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
