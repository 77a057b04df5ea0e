package http1

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/pkg/base/must"
	"mercator/pkg/fetch"
	"mercator/pkg/fetch/cookies"
)

const loginForm = `<form method=post action=/in><input type=hidden name=token value=abc><input name=user><input type=password name=pass></form>`

// logIn goes through the steps of a login, and returns what was asked for and why nobody was let in.
func logIn(t *testing.T, client *Client, url string) (asked []string, why string) {
	t.Helper()
	var conn Conn
	defer conn.Close()
	for range 2 * formSteps {
		step, page, why := client.Logins.Step(url)
		if step == "" {
			return asked, why
		}
		reply := client.enter(context.Background(), &fetch.Request{URL: step, Addr: loopback, Login: true}, &conn)
		if reply.Response != nil || reply.Sent != nil || reply.Head != nil || reply.Err != nil {
			t.Errorf("%s: %+v", step, reply)
		}
		if reply.Outcome != record.OutcomeFetched {
			client.Logins.Failed(url, reply.Outcome+": "+reply.Error, false)
		}
		asked = append(asked, fmt.Sprint(strings.TrimPrefix(step, strings.TrimSuffix(page, "/login")), " ", reply.Status))
	}
	t.Fatal("no end")
	return nil, ""
}

func TestFormLogin(t *testing.T) {
	page := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, text) }
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(code) }
	}
	to := func(url string, code int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, url, code) }
	}
	many := strings.Repeat("<input type=hidden name=a value=b>", 10_000)
	for name, test := range map[string]struct {
		login, in, home, check http.HandlerFunc
		want, why              string
	}{
		"in":              {want: "/login 200, /in 200"},
		"redirect":        {in: to("/home", 303), want: "/login 200, /in 303, /home 200"},
		"moved page":      {login: to("/login2", 301), want: "/login 301, /login2 200, /in 200"},
		"again":           {in: page(loginForm), want: "/login 200, /in 200", why: "it comes again after it was sent: are name and password right?"},
		"refused":         {in: status(422), want: "/login 200, /in 422", why: "status 422 after it was sent: are name and password right?"},
		"check":           {in: to("https://other.test/", 302), check: page("members"), want: "/login 200, /in 302, /check 200"},
		"check fails":     {check: page(loginForm), want: "/login 200, /in 200, /check 200", why: "the page of check has it after it was sent: are name and password right?"},
		"check forbids":   {check: status(403), want: "/login 200, /in 200, /check 403", why: "the page of check has status 403 after it was sent: are name and password right?"},
		"no page":         {login: status(404), want: "/login 404", why: "status 404"},
		"no form":         {login: page("<form><input name=q></form><input type=password name=pass>"), want: "/login 200", why: errNoForm.Error()},
		"by GET":          {login: page(strings.Replace(loginForm, "post", "get", 1)), want: "/login 200", why: "the form is not sent by POST: its fields would be part of a URL"},
		"action":          {login: page(strings.Replace(loginForm, "/in", "https://thief.test/in", 1)), want: "/login 200", why: "it is sent to another server, https://thief.test"},
		"base":            {login: page("<base href=//thief.test/>" + loginForm), want: "/login 200", why: "it is sent to another server, http://thief.test"},
		"script":          {login: page(strings.Replace(loginForm, "/in", "javascript:go()", 1)), want: "/login 200", why: "it is sent to another server, which has no URL"},
		"leaves":          {in: to("https://thief.test/", 302), want: "/login 200, /in 302", why: "it redirects to another server, https://thief.test"},
		"loop":            {in: to("/in2", 302), want: "/login 200, /in 302, /in2 302, /in2 302, /in2 302, /in2 302, /in2 302", why: "more than 5 redirects"},
		"loop before":     {login: to("/login", 302), want: "/login 302, /login 302, /login 302, /login 302, /login 302, /login 302", why: "more than 5 redirects"},
		"10,000 inputs":   {login: page(strings.Replace(loginForm, "<input", many+"<input", 1)), want: "/login 200", why: "the page has more than 1000 fields and forms"},
		"10,000 forms":    {login: page(strings.Repeat("<form></form>", 10_000)), want: "/login 200", why: "the page has more than 1000 fields and forms"},
		"much hidden":     {login: page(strings.Replace(loginForm, "abc", strings.Repeat("x", inputsSize), 1)), want: "/login 200", why: "the page has more than 65536 bytes of hidden fields"},
		"no end of form":  {login: page(strings.TrimSuffix(loginForm, "</form>")), want: "/login 200, /in 200"},
		"long before":     {login: page(strings.Repeat(" ", formMax) + loginForm), want: "/login 200", why: errNoForm.Error()},
		"one long tag":    {login: page("<form " + strings.Repeat("a ", formMax)), want: "/login 200", why: errNoForm.Error()},
		"many at home":    {in: page(strings.Repeat("<form></form>", 10_000)), want: "/login 200, /in 200"},
		"busy":            {login: status(503), want: "/login 503, /login 503, /login 503", why: "3 logins in one batch, the last: status 503"},
		"other form":      {in: page("<form method=post><input type=password name=new></form>"), want: "/login 200, /in 200"},
		"names of others": {login: page(strings.NewReplacer("name=user", "name=u", "name=pass", "name=p").Replace(loginForm)), want: "/login 200, /in 200"},
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			handle := func(path string, own, usual http.HandlerFunc) {
				if own == nil {
					own = usual
				}
				mux.HandleFunc(path, own)
			}
			handle("/login", test.login, page(loginForm))
			handle("/login2", nil, page(loginForm))
			handle("/in", test.in, func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost || r.PostFormValue("token") != "abc" || r.PostFormValue("user") != "anna" || r.PostFormValue("pass") != "a b" || r.Header.Get("Origin") == "" || r.Referer() == "" {
					status(400)(w, r)
				}
			})
			handle("/in2", nil, to("/in2", 302))
			handle("/home", test.home, page("home"))
			handle("/check", test.check, status(500))
			server := httptest.NewServer(mux)
			defer server.Close()
			lines := server.URL + " form /login user=anna&pass=a+b\n"
			if test.check != nil {
				lines += server.URL + " check /check\n"
			}
			client := testClient(t)
			client.Cookies = cookies.New()
			var err error
			client.Logins, err = ParseLogins("", []byte(lines))
			must.OK(t, err)
			asked, why := logIn(t, client, server.URL+"/a")
			if s := strings.Join(asked, ", "); s != test.want {
				t.Errorf("asked for %s, want %s", s, test.want)
			}
			if test.why != "" {
				test.why = "form at " + server.URL + "/login: " + test.why
			}
			if why != test.why || strings.Contains(why, "a b") || strings.Contains(why, "a+b") {
				t.Errorf("%q, want %q", why, test.why)
			}
		})
	}
}

// TestFormSession: the session's cookies are in no request and no reply that is kept, and its end is seen: by a redirect to the form, and with a check by
// status 401 and 403.
func TestFormSession(t *testing.T) {
	in, logins, forbidden := false, 0, false
	mux := http.NewServeMux()
	mux.HandleFunc("/login", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, loginForm) })
	mux.HandleFunc("/in", func(w http.ResponseWriter, r *http.Request) {
		logins++
		in = true
		w.Header().Add("Set-Cookie", "sid=s3cret; Path=/")
	})
	mux.HandleFunc("/check", func(w http.ResponseWriter, r *http.Request) {
		if !in {
			w.WriteHeader(http.StatusForbidden)
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		_, err := r.Cookie("sid")
		w.Header().Add("Set-Cookie", "sid=s3cret; Path=/")
		w.Header().Add("set-cookie", "theme=s3cret")
		switch {
		case (!in || err != nil) && forbidden, r.URL.Path == "/forbidden":
			w.WriteHeader(http.StatusForbidden)
		case !in || err != nil, r.URL.Path == "/redirect":
			http.Redirect(w, r, "/login?next=1", http.StatusFound)
		}
		fmt.Fprint(w, "page")
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	for _, check := range []string{"", server.URL + " check /check\n"} {
		client := testClient(t)
		client.Cookies = cookies.New()
		var err error
		client.Logins, err = ParseLogins("", []byte(server.URL+" form /login user=anna&pass=a\n"+check))
		must.OK(t, err)
		var conn Conn
		defer conn.Close()
		in, logins, forbidden = false, 0, false
		get := func(path string, status, contacts int) {
			t.Helper()
			url := server.URL + path
			for n := 1; ; n++ {
				if _, why := logIn(t, client, url); why != "" {
					t.Fatalf("%s: %s", path, why)
				}
				reply := client.Fetch(context.Background(), &fetch.Request{URL: url, Addr: loopback})
				if reply.LoggedOut {
					if reply.Response != nil || reply.Sent != nil {
						t.Errorf("%s: %+v", path, reply)
					}
					continue
				}
				defer reply.Memory.Close()
				if _, err := reply.Response.Seek(0, io.SeekStart); err != nil {
					t.Fatal(err)
				}
				raw, _ := io.ReadAll(reply.Response)
				kept := string(raw)
				if n != contacts || reply.Head.Status != status || strings.Contains(kept+string(reply.Sent), "s3cret") || !strings.Contains(kept, "page") {
					t.Errorf("check %q: %s: status %d after %d contacts, want %d after %d; sent %q, kept %q", check, path, reply.Head.Status, n, status, contacts, reply.Sent, kept)
				}
				return
			}
		}
		get("/a", 200, 1)
		in = false
		get("/b", 200, 2)
		get("/redirect", 302, 2)
		get("/c", 200, 1)
		if check != "" {
			get("/forbidden", 403, 2)
			in, forbidden = false, true
			get("/d", 200, 2)
		} else {
			get("/forbidden", 403, 1)
			get("/redirect", 302, 1) // there are no more logins in the batch, and it was the page's own before
		}
		if logins != 3 {
			t.Errorf("check %q: %d logins", check, logins)
		}
		if all := client.Cookies.All(client.now()); len(all) > 0 {
			t.Errorf("the crawl's jar has %+v", all)
		}
		if client.Check(server.URL+"/logout") == nil {
			t.Error("it asks for /logout")
		}
	}
}

// TestFormOverHTTP2: a form goes to a server that speaks HTTP/2 alone, and only if its certificate can be verified.
func TestFormOverHTTP2(t *testing.T) {
	url, client := newTwo(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/login":
			fmt.Fprint(w, loginForm)
		case r.PostFormValue("token") != "abc" || r.PostFormValue("pass") != "a b":
			w.WriteHeader(http.StatusForbidden)
		}
	})
	logins := func() *Logins {
		logins, err := ParseLogins("", []byte(url+" form /login user=anna&pass=a+b\n"))
		must.OK(t, err)
		return logins
	}
	client.Logins = logins()
	if asked, why := logIn(t, client, url+"/a"); why != "" {
		t.Errorf("asked for %q: %s", asked, why)
	}
	stranger := &Client{Limits: client.Limits, Logins: logins(), InsecureTLS: true}
	if asked, why := logIn(t, stranger, url+"/a"); len(asked) != 3 || !strings.Contains(why, "certificate") {
		t.Errorf("asked for %q: %s", asked, why)
	}
}

// TestFormOfDomain: the session's cookie may be for the other hosts of a domain. These renew it without a trace in what is kept.
func TestFormOfDomain(t *testing.T) {
	url := serve(t, say("HTTP/1.1 200 OK\r\nSet-Cookie:sid=s3cret-2; Domain=site.test;\r\n Path=/\r\nset-cookie: theme=dark; Domain=site.test\r\nContent-Length: 2\r\n\r\nhi"))
	port := strings.TrimSuffix(url[strings.LastIndexByte(url, ':'):], "/")
	client := testClient(t)
	client.Cookies = cookies.New()
	var err error
	client.Logins, err = ParseLogins("", []byte("http://www.site.test"+port+" form /login a=b\n"))
	must.OK(t, err)
	jar := client.Logins.jars()[0]
	jar.Keep(cookies.Target{Name: "www.site.test", Path: "/"}, "sid=s3cret-1; Domain=site.test", client.now())
	for _, test := range []struct{ host, secret string }{{"img.site.test", "sid=s3cret-2; theme=dark"}, {"other.test", ""}} {
		x := client.once(context.Background(), &fetch.Request{URL: "http://" + test.host + port + "/", Addr: loopback})
		defer x.Close()
		all, _ := io.ReadAll(x.Response)
		if strings.Contains(string(all)+string(x.Sent), "s3cret") != (test.secret == "") {
			t.Errorf("%s: sent %q, kept %q", test.host, x.Sent, all)
		}
		target := cookies.Target{Name: test.host, Path: "/"}
		if line := jar.Line(target, client.now()); line != test.secret {
			t.Errorf("%s: the session has %q, want %q", test.host, line, test.secret)
		}
	}
}

// FuzzForm: what is sent has the fields given, and no more than the bounds.
func FuzzForm(f *testing.F) {
	f.Add([]byte(loginForm))
	f.Add([]byte("<base href=//x/><form METHOD=Post action='?a'><select name=user><textarea name=pass></form><form"))
	f.Fuzz(func(t *testing.T, page []byte) {
		fields := url.Values{"user": {"anna"}, "pass": {"x"}}
		form, err := findForm(page, fields)
		if err != nil {
			return
		}
		if form.values.Get("user") != "anna" || form.values.Get("pass") != "x" || len(form.marks) == 0 || !form.in(page) || len(form.values) > inputsMax+2 {
			t.Errorf("%+v", form)
		}
	})
}
