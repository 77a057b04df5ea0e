package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"mercator/pkg/base/must"
)

// application lets in who sends its form with the token that it gave last, and renews the session with every page.
type application struct {
	mu       sync.Mutex
	tokens   int
	logins   int
	refused  int // forms with a wrong password or token
	renewed  int
	session  string
	password string
	stops    map[string]func() // called once, before the path is answered
}

func (a *application) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if stop := a.stops[r.URL.Path]; stop != nil {
		delete(a.stops, r.URL.Path)
		stop()
	}
	w.Header().Set("Content-Type", "text/html")
	session, err := r.Cookie("session")
	in := err == nil && a.session != "" && session.Value == a.session
	renew := func() {
		a.renewed++
		a.session = fmt.Sprintf("s3cret-session-%d", a.renewed)
		http.SetCookie(w, &http.Cookie{Name: "session", Value: a.session, Path: "/"})
	}
	form := func() {
		a.tokens++
		http.SetCookie(w, &http.Cookie{Name: "begun", Value: fmt.Sprint("s3cret-begun-", a.tokens), Path: "/"})
		fmt.Fprintf(w, `<form action=/search><input name=q></form><form method=post action="/login?do=in"><input type=hidden name=token value=token-%d>
			<input name=user><input type=password name=password><button name=go value=1>in</button></form>`, a.tokens)
	}
	switch {
	case r.URL.Path == "/login" && r.Method == http.MethodPost:
		begun, err := r.Cookie("begun")
		if err != nil || begun.Value != fmt.Sprint("s3cret-begun-", a.tokens) || r.FormValue("token") != fmt.Sprint("token-", a.tokens) || r.FormValue("user") != "anna" || r.PostFormValue("password") != a.password {
			a.refused++
			form()
			return
		}
		a.logins++
		renew()
		http.Redirect(w, r, "/", http.StatusFound)
	case r.URL.Path == "/login":
		form()
	case r.URL.Path == "/robots.txt":
		http.NotFound(w, r)
	case !in, r.URL.Path == "/admin":
		http.Redirect(w, r, "/login?next="+r.URL.Path, http.StatusFound)
	case r.URL.Path == "/":
		renew()
		io.WriteString(w, "<a href=/m/1>in</a> <a href=\"/?do=signOff\">out</a>")
	case r.URL.Path == "/m/6":
		io.WriteString(w, "<a href=/admin>more</a>")
	default:
		renew()
		n := 0
		fmt.Sscanf(r.URL.Path, "/m/%d", &n)
		fmt.Fprintf(w, "<a href=/m/%d>minutes</a>", n+1)
	}
}

// TestForms: the pages of an association that lets its members in by a form. A kill, and a session that the server ends, cost a login each and
// no page. Neither password nor session is in the crawl's files or in its copy.
func TestForms(t *testing.T) {
	t.Parallel()
	app := &application{password: "s3cret word&=", stops: map[string]func(){}}
	server := httptest.NewServer(app)
	defer server.Close()
	dir := t.TempDir()
	folder, login := filepath.Join(dir, "crawl"), filepath.Join(dir, "login.txt")
	say := func(password string) {
		must.OK(t, os.WriteFile(login, []byte(server.URL+" form /login user=anna&password="+password+"\n"), 0o600))
	}
	args := []string{"site", server.URL + "/", "--into", folder, "--set", "fetch.warc_codec=none", "--set", "network.allow_net=127.0.0.0/8", "--set", "politeness.min_delay=1ms",
		"--set", "politeness.delay_factor=0", "--set", "politeness.addr_delay=0s", "--set", "fetch.login=" + login}

	// A wrong password is sent once, and nothing is fetched without a login.
	say("s3cret-wrong")
	out, err := exec.Command(bin+"mcrawl", args...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "nothing was fetched: login: form at "+server.URL+"/login: it comes again after it was sent: are name and password right?") ||
		!strings.Contains(string(out), "hint: ") || strings.Contains(string(out), "s3cret") || app.refused != 1 {
		t.Fatalf("%v, %d refused\n%s", err, app.refused, out)
	}

	// The crawl goes on with the right one, and is killed.
	say("s3cret+word%26%3D")
	run := exec.Command(bin+"mcrawl", "run", folder)
	app.mu.Lock()
	app.stops["/m/3"] = func() { run.Process.Kill() }
	app.stops["/m/5"] = func() { app.session = "" }
	app.mu.Unlock()
	if out, err := run.CombinedOutput(); err == nil {
		t.Fatalf("it was not killed\n%s", out)
	}
	output(t, "mcrawl", "run", folder)
	if app.logins != 4 || app.refused != 1 { // one after the kill, one after the session ended, one to see whether /admin is for members
		t.Errorf("%d logins, %d refused", app.logins, app.refused)
	}
	pages := output(t, "mcat", "--format", "tsv", "--columns", "role,url,status,outcome", folder)
	for _, line := range []string{"/\t200\tfetched", "/m/1\t200\tfetched", "/m/2\t200\tfetched", "/m/3\t200\tfetched", "/m/4\t200\tfetched", "/m/5\t200\tfetched", "/m/6\t200\tfetched",
		"/?do=signOff\t0\tdenied", "/admin\t302\tfetched"} {
		if strings.Count(pages, "page\t"+server.URL+line) != 1 {
			t.Errorf("no %s in\n%s", line, pages)
		}
	}
	if n := strings.Count(pages, "login\t"+server.URL+"/login\t"); n < 9 {
		t.Errorf("%d contacts of logins in\n%s", n, pages)
	}
	output(t, "mckpt", "verify", folder)
	text, err := os.ReadFile(login)
	notes := filepath.Join(folder, "notes.txt") // is left out of the copy for what it has
	if err == nil {
		err = os.WriteFile(notes, append([]byte("ours\n"), text...), 0o600)
	}
	must.OK(t, err)
	output(t, "mckpt", "push", folder, filepath.Join(dir, "copy"))
	err = filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || name == login || name == notes {
			return err
		}
		text, err := os.ReadFile(name)
		if strings.Contains(string(text), "s3cret") {
			t.Errorf("%s has a secret", name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
