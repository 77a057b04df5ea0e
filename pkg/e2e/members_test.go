package e2e

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"mercator/pkg/base/must"
)

// TestMembers: the site of an association: HTTP/2 alone, a certificate of its own authority, pages for members who have logged in, and an interface
// that wants a token. The session comes from a browser's cookies.txt. No secret is in the crawl's files, and a copy leaves their file out.
func TestMembers(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		got = append(got, r.URL.Path)
		mu.Unlock()
		session, err := r.Cookie("session")
		member := err == nil && session.Value == "s3cret-cookie"
		if member {
			http.SetCookie(w, &http.Cookie{Name: "session", Value: "s3cret-cookie", Path: "/"}) // as servers do that prolong it
		}
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/":
			io.WriteString(w, `<a href=/members/>in</a>`)
		case "/members/":
			if !member {
				http.Redirect(w, r, "/login", http.StatusFound)
				return
			}
			io.WriteString(w, `<a href=/members/minutes>minutes</a><a href=/members/logout>out</a><a href="/members/?do=signOff">out</a><a href=/api>api</a>`)
		case "/members/minutes":
			fmt.Fprintf(w, "member %v over %s", member, r.Proto)
		case "/api":
			if r.Header.Get("Authorization") != "Bearer s3cret-token" {
				w.WriteHeader(http.StatusForbidden)
			}
		default:
			http.NotFound(w, r)
		}
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if slices.Contains(hello.SupportedProtos, "h2") {
			return nil, nil
		}
		other := server.TLS.Clone()
		other.NextProtos, other.GetConfigForClient = []string{"other"}, nil
		return other, nil
	}}
	server.StartTLS()
	defer server.Close()
	dir := t.TempDir()
	folder := filepath.Join(dir, "crawl")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	login := "# Netscape HTTP Cookie File\n127.0.0.1\tFALSE\t/\tTRUE\t0\tsession\ts3cret-cookie\n" + server.URL + " header Authorization: Bearer s3cret-token\n"
	for name, text := range map[string]string{"ca.pem": string(ca), "login.txt": login} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	end := output(t, "mcrawl", "site", server.URL+"/", "--into", folder, "--set", "fetch.warc_codec=none", "--set", "network.allow_net=127.0.0.0/8", "--set", "politeness.min_delay=1ms", "--set", "politeness.delay_factor=0",
		"--set", "politeness.addr_delay=0s", "--set", "fetch.tls_ca="+filepath.Join(dir, "ca.pem"), "--set", "fetch.login="+filepath.Join(dir, "login.txt"))
	if !strings.Contains(end, "\nnext: mcrawl export ") { // URLs that would log out wait for nothing
		t.Error(end)
	}
	slices.Sort(got)
	if s := strings.Join(slices.Compact(got), " "); s != "/ /api /members/ /members/minutes /robots.txt" {
		t.Errorf("asked for %s", s)
	}
	if text := output(t, "mcat", "--format", "tsv", "--columns", "url,status,outcome,error", folder); !strings.Contains(text, "/members/?do=signOff\t0\tdenied\tit might end the login of fetch.login") || strings.Contains(text, "\t403\t") {
		t.Error(text)
	}
	archive := ""
	files, _ := filepath.Glob(filepath.Join(folder, "fetch", "*.warc*"))
	for _, name := range files {
		text, err := os.ReadFile(name)
		must.OK(t, err)
		archive += string(text)
	}
	if n := strings.Count(archive, "WARC-Protocol: h2"); n == 0 || !strings.Contains(archive, "member true over HTTP/2.0") {
		t.Errorf("%d replies over HTTP/2", n)
	}
	output(t, "mckpt", "push", folder, filepath.Join(dir, "copy"))
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || name == filepath.Join(dir, "login.txt") {
			return err
		}
		text, err := os.ReadFile(name)
		if strings.Contains(string(text), "s3cret") {
			t.Errorf("%s has a secret", name)
		}
		return err
	})
	if err != nil || strings.Contains(archive, "s3cret") {
		t.Error("the archive has a secret", err)
	}
}
