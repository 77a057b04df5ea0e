package http1

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/fetch"
	"mercator/pkg/fetch/cookies"
	"mercator/pkg/web/httpmsg"
)

// echo answers each request with its own text.
func echo(c net.Conn) {
	for {
		head := readHead(c)
		if head == "" {
			return
		}
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(head))
		if !strings.HasPrefix(head, "HEAD") {
			io.WriteString(c, head)
		}
	}
}

func readHead(c net.Conn) string {
	var b []byte
	one := make([]byte, 1)
	for !strings.HasSuffix(string(b), "\r\n\r\n") {
		if _, err := c.Read(one); err != nil {
			return ""
		}
		b = append(b, one[0])
	}
	return string(b)
}

func body(x *exchange) string {
	if x.Response == nil {
		return x.Outcome + ": " + x.Error
	}
	b, _ := io.ReadAll(x.body())
	return string(b)
}

func TestHead(t *testing.T) {
	client := testClient(t)
	var conn Conn
	defer conn.Close()
	url := serve(t, echo)
	for i, method := range []string{"HEAD", "GET", "HEAD"} {
		x := client.do(context.Background(), &fetch.Request{Method: method, URL: url, Addr: loopback}, &conn)
		if x.Outcome != record.OutcomeFetched || x.Truncated != "" || x.NoBody != (method == "HEAD") || x.reused != (i > 0) || (body(x) == "") != x.NoBody {
			t.Errorf("%s: %q, truncated %q, reused %v, body %q", method, x.Outcome, x.Truncated, x.reused, body(x))
		}
		if want := int64(x.head.Size); x.NoBody && x.Length != want {
			t.Errorf("%d bytes kept, want %d", x.Length, want)
		}
		x.Close()
	}
}

// Passwords are sent to their own origin, and are not in what is kept.
func TestLoginsAndHeaders(t *testing.T) {
	url := serve(t, echo)
	file := filepath.Join(t.TempDir(), "logins")
	must.OK(t, os.WriteFile(file, []byte("# mine\n\nhttps://example.org anna:other\n"+strings.TrimSuffix(url, "/")+"  Aladdin:open:sesame\n"), 0o600))
	client := testClient(t)
	var err error
	client.Logins, err = ReadLogins(file)
	must.OK(t, err)
	client.Header = []httpmsg.Field{{Name: "Accept-Language", Value: "de"}}
	x := client.once(context.Background(), &fetch.Request{URL: url, Addr: loopback})
	defer x.Close()
	const login = "Authorization: Basic QWxhZGRpbjpvcGVuOnNlc2FtZQ==\r\n"
	sent := body(x)
	if !strings.Contains(sent, "\r\n"+login) || !strings.Contains(sent, "\r\nAccept-Language: de\r\n") || strings.Replace(sent, login, "", 1) != string(x.Sent) {
		t.Errorf("sent %q, kept %q", sent, x.Sent)
	}
	other := client.once(context.Background(), &fetch.Request{URL: strings.Replace(url, "127.0.0.1", "localhost", 1), Addr: loopback})
	defer other.Close()
	if strings.Contains(body(other), "Authorization") {
		t.Errorf("another host was sent %q", body(other))
	}
	for _, line := range []string{"https://example.org", "https://example.org anna", "example.org anna:x", "https://example.org/path anna:x", "https://example.org :x", "gopher://x anna:x", "socks5://h anna:x",
		"https://example.org header Host: a", "https://example.org header Authorization:", "https://example.org header Range: bytes=0-", "ftp://example.org header X: a", "socks5://127.0.0.1:1 header X: a", "http://example.org certificate a.pem", "https://example.org certificate",
		"https://example.org form", "https://example.org form /login", "https://example.org form login a=anna:x ", "https://example.org form //other.test/ a=anna:x ", "https://example.org form /login#a a=anna:x ", "https://example.org form /login a=%zzanna:x ",
		"ftp://example.org form /login a=anna:x ", "https://example.org check /home", "https://example.org form /login a=anna:x \nhttps://example.org form /login2 a=anna:x ", "https://example.org form /login a=anna:x \nhttps://example.org check home",
		"https://example.org anna:x \nhttps://example.org anna:x ", "https://example.org anna:x \nhttps://example.org header authorization: b", "https://example.org header Authorization: a\nhttps://example.org header Authorization: b",
		"https://example.org header Cookie: a=b\nhttps://example.org header cookie: a=b", "https://example.org certificate a.pem\nhttps://example.org certificate b.pem", "localhost\tTRUE\t/\tFALSE\t0\tsid\tanna:x ", "127.0.0.1\tTRUE\t/\tFALSE\t0\tsid\tanna:x ",
		"co.uk\tTRUE\t/\tFALSE\t0\tsid\tanna:x ", "example.org\tTRUE\tin\tFALSE\t0\tsid\tanna:x ", "example.org\tTRUE\t/\tFALSE\tsoon\tsid\tanna:x ", "example.org\tyes\t/\tFALSE\t0\tsid\tanna:x ", "example.org\tTRUE\t/\tFALSE\t0\tsid=anna:x ",
		strings.Repeat("# much to say\n", 80_000) + "https://example.org anna:x\n"} {
		must.OK(t, os.WriteFile(file, []byte(line), 0o600))
		if _, err := ReadLogins(file); fault.ClassOf(err) != fault.Usage || strings.Contains(err.Error(), "anna:x ") {
			t.Errorf("%.100q: %v", line, err)
		}
	}
	must.OK(t, os.WriteFile(file, []byte("https://example.org anna:x\n"), 0o600))
	for mode, good := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o700: true, 0o640: false, 0o644: false, 0o620: false, 0o604: false, 0o602: false} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			must.OK(t, os.Chmod(file, mode))
			_, err := ReadLogins(file)
			if f := (*fault.Error)(nil); good != (err == nil) || !good && (!errors.As(err, &f) || f.Class != fault.Usage || f.Hint != "chmod 600 "+file) {
				t.Errorf("mode %v: %v", mode, err)
			}
		})
	}
	must.OK(t, os.Chmod(file, 0o600))
	for line, good := range map[string]bool{
		"DNT: 1": true, "X-A:b": true, "Accept: text/html": true, "Host: x": false, "cookie: a=b": false, "AUTHORIZATION: x": false, "no colon": false,
		": x": false, "a b: c": false, "X:": false, "X: a\r\nHost: b": false, "Range: bytes=0-1": false, "Accept-Encoding: x": false,
	} {
		t.Run(fmt.Sprintf("%.60s", line), func(t *testing.T) {
			if _, err := ParseHeader(line); (err == nil) != good {
				t.Errorf("%q: %v", line, err)
			}
		})
	}
}

func TestCookiesTravel(t *testing.T) {
	url := serve(t, func(c net.Conn) {
		head := readHead(c)
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nSet-Cookie: seen=yes; Max-Age=60\r\nContent-Length: %d\r\n\r\n%s", len(head), head)
	})
	client := testClient(t)
	for i, jar := range []*cookies.Jar{nil, nil, cookies.New()} {
		client.Cookies = jar
		now := time.Unix(1e9, 0)
		client.Now = func() time.Time { return now }
		for again := range 3 {
			if again == 2 {
				now = now.Add(time.Minute)
			}
			x := client.once(context.Background(), &fetch.Request{URL: url, Addr: loopback})
			if got := strings.Contains(body(x), "Cookie: seen=yes"); got != (jar != nil && again == 1) {
				t.Errorf("%d: request %d: %q", i, again, body(x))
			}
			x.Close()
		}
	}
}

// splice carries bytes both ways until one side ends.
func splice(a, b net.Conn) {
	go func() {
		io.Copy(a, b)
		a.Close()
	}()
	io.Copy(b, a)
	b.Close()
}

// httpProxy answers CONNECT to 127.0.0.1 and forwards the rest; asked is told what for.
func httpProxy(asked chan<- string) func(net.Conn) {
	return func(c net.Conn) {
		head := readHead(c)
		asked <- head
		line := strings.Fields(head)
		if !strings.Contains(head, "\r\nProxy-Authorization: Basic dTpw\r\n") {
			io.WriteString(c, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
			return
		}
		if line[0] != "CONNECT" {
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(head), head)
			return
		}
		far, err := net.Dial("tcp", line[1])
		if err != nil {
			io.WriteString(c, "HTTP/1.1 502 Bad Gateway\r\n\r\n")
			return
		}
		io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
		splice(c, far)
	}
}

// socksProxy speaks SOCKS 5 (RFC 1928) with the login u:p (RFC 1929).
func socksProxy(asked chan<- string) func(net.Conn) {
	return func(c net.Conn) {
		in := bufio.NewReader(c)
		read := func(n int) []byte {
			b := make([]byte, n)
			io.ReadFull(in, b)
			return b
		}
		read(int(read(2)[1])) // version, and so many methods
		c.Write([]byte{5, 2})
		read(1)
		user := read(int(read(1)[0]))
		password := read(int(read(1)[0]))
		if string(user) != "u" || string(password) != "p" {
			c.Write([]byte{1, 1})
			return
		}
		c.Write([]byte{1, 0})
		if kind := read(4)[3]; kind != 1 {
			asked <- fmt.Sprintf("address of type %d", kind)
			return
		}
		addr := netip.AddrFrom4([4]byte(read(4)))
		to := netip.AddrPortFrom(addr, binary.BigEndian.Uint16(read(2))).String()
		asked <- to
		far, err := net.Dial("tcp", to)
		if err != nil {
			c.Write([]byte{5, 5, 0, 1, 0, 0, 0, 0, 0, 0})
			return
		}
		c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
		splice(c, far)
	}
}

// mustProxy reads a proxy, USER:PASSWORD@ included.
func mustProxy(t *testing.T, url string) *Proxy {
	t.Helper()
	var logins *Logins
	if scheme, rest, _ := strings.Cut(url, "://"); strings.Contains(rest, "@") {
		who, host, _ := strings.Cut(rest, "@")
		url = scheme + "://" + host
		file := filepath.Join(t.TempDir(), "logins")
		err := os.WriteFile(file, []byte(url+" "+who+"\n"), 0o600)
		if err == nil {
			logins, err = ReadLogins(file)
		}
		must.OK(t, err)
	}
	p, err := ParseProxy(url, logins)
	must.OK(t, err)
	return p
}

// TestSecrets: header fields and cookies of a file of logins go to whom they are for, and are not in what is kept. They take the place of
// cookies of the same name that a server has set; the others are sent beside them.
func TestSecrets(t *testing.T) {
	url := serve(t, echo)
	port := url[strings.LastIndexByte(url, ':'):]
	file := filepath.Join(t.TempDir(), "logins")
	lines := "http://a.test" + strings.TrimSuffix(port, "/") + " header Authorization: Bearer b64:x\n" +
		"http://a.test" + strings.TrimSuffix(port, "/") + " header X-Key: k1\n" +
		"# Netscape HTTP Cookie File\n\n" +
		".site.test\tTRUE\t/\tFALSE\t0\tsid\tabc=\r\n" +
		"#HttpOnly_site.test\tFALSE\t/in\tFALSE\t4102444800\tinner\t\n" +
		"#HttpOnly_www.site.test\tFALSE\t/\tTRUE\t4102444800.0\tsecure\tx\n" +
		strings.Repeat("site.test\tFALSE\t/\tFALSE\t1000\told\tx\n", 100) // expired: they take no other's place
	must.OK(t, os.WriteFile(file, []byte(lines), 0o600))
	client := testClient(t)
	var err error
	client.Logins, err = ReadLogins(file)
	must.OK(t, err)
	client.Cookies = cookies.New()
	for _, field := range []string{"sid=anonymous; Domain=site.test", "theme=dark; Domain=site.test"} {
		client.Cookies.Keep(cookies.Target{Name: "site.test", Path: "/"}, field, time.Now())
	}
	for _, test := range []struct{ host, path, secret, kept string }{
		{"a.test", "/", "Authorization: Bearer b64:x|X-Key: k1|", ""},
		{"b.test", "/", "", ""},
		{"site.test", "/", "Cookie: sid=abc=; theme=dark|", "Cookie: theme=dark|"},
		{"www.site.test", "/in/x", "Cookie: sid=abc=; theme=dark|", "Cookie: theme=dark|"},
		{"site.test", "/in/x", "Cookie: inner=; sid=abc=; theme=dark|", "Cookie: theme=dark|"},
		{"other-site.test", "/", "", ""},
	} {
		t.Run(test.host+test.path, func(t *testing.T) {
			x := client.once(t.Context(), &fetch.Request{URL: "http://" + test.host + strings.TrimSuffix(port, "/") + test.path, Addr: loopback})
			defer x.Close()
			lines := func(head string) string {
				all := strings.ReplaceAll(head, "\r\n", "|")
				return strings.TrimSuffix(all[strings.Index(all, "br, zstd|")+len("br, zstd|"):], "|")
			}
			if got := lines(body(x)); got != test.secret {
				t.Errorf("sent %q, want %q", got, test.secret)
			}
			if got := lines(string(x.Sent)); got != test.kept {
				t.Errorf("kept %q, want %q", got, test.kept)
			}
		})
	}
}

// TestLogout: what would end a login is not asked for, at servers that have one that can be ended.
func TestLogout(t *testing.T) {
	client := testClient(t)
	var err error
	client.Logins, err = ParseLogins("", []byte("https://basic.test anna:x\nhttps://key.test header X-Key: k\nsite.test\tTRUE\t/\tTRUE\t0\tsid\tx\n"))
	must.OK(t, err)
	for url, refused := range map[string]bool{
		"https://www.site.test/logout": true, "https://site.test/users/sign_out": true, "https://site.test/wp-login.php?action=logout&_wpnonce=1": true,
		"https://site.test/index.php?title=Special:UserLogout": true, "https://site.test/Account/LogOff": true, "https://site.test/accounts/log-out/": true, "https://key.test/signout": true,
		"https://site.test/doLogout": true, "https://site.test/log%20out": true, "https://site.test/index.php?title=Special:Userlogout": true, "https://site.test/SSOLogoutServlet": true, "https://site.test/a/logout.php;jsessionid=1": true,
		"https://site.test/?logout": true, "https://site.test/?q=user/logout": true, "https://site.test/connect/endsession": true, "https://site.test/log_me_out": true, "https://site.test/LogOff.aspx": true,
		"https://site.test/docs/how-to-sign-off.html": false, "https://site.test/docs/logout-explained/": false, "https://site.test/sign-off-sheet": false, "https://site.test/icons/logout.svg": false, "https://site.test/wp-login.php?loggedout=true": false,
		"https://site.test/log/out": false, "https://site.test/?logoutRedirect=%2Fhome": false, "https://site.test/%zz/a": false, "https://site.test/blogoff": false, "https://site.test/\u00fclogout": false,
		"https://site.test/login": false, "https://site.test/catalogout": false, "https://site.test/logoutput.html": false, "https://site.test/design-outlook": false,
		"https://basic.test/logout": false, "https://other.test/logout": false, "http://site.test/logout": false,
	} {
		t.Run(url, func(t *testing.T) {
			if err := client.Check(url); (err != nil) != refused {
				t.Errorf("%s: %v", url, err)
			}
		})
	}
}

func TestProxy(t *testing.T) {
	secure := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "secure "+r.Host) }))
	secure.Config.ErrorLog = discardLog
	secure.StartTLS()
	defer secure.Close()
	_, port, _ := net.SplitHostPort(secure.Listener.Addr().String())
	plain := serve(t, echo)
	_, plainPort, _ := net.SplitHostPort(strings.TrimSuffix(strings.TrimPrefix(plain, "http://"), "/"))
	asked := make(chan string, 1)
	web := strings.TrimPrefix(serve(t, httpProxy(asked)), "http://")
	socks := strings.TrimPrefix(serve(t, socksProxy(asked)), "http://")
	client := testClient(t)
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	client.TLS = &tls.Config{RootCAs: roots}
	for _, c := range []struct{ proxy, url, asked, body string }{
		{"http://u:p@" + web, "http://example.com:" + plainPort + "/x", "GET http://example.com:" + plainPort + "/x HTTP/1.1\r\n", "GET http://example.com"},
		{"http://u:p@" + web, "https://example.com:" + port + "/", "CONNECT 127.0.0.1:" + port + " HTTP/1.1\r\nHost: 127.0.0.1:" + port + "\r\n", "secure example.com:" + port},
		{"socks5://u:p@" + socks, "http://example.com:" + plainPort + "/x", "127.0.0.1:" + plainPort, "GET /x HTTP/1.1\r\nHost: example.com:"},
		{"socks5://u:p@" + socks, "https://example.com:" + port + "/", "127.0.0.1:" + port, "secure example.com:" + port},
	} {
		client.Proxy = mustProxy(t, c.proxy)
		x := client.once(context.Background(), &fetch.Request{URL: c.url, Addr: loopback})
		if got := body(x); !strings.HasPrefix(got, c.body) || x.Outcome != record.OutcomeFetched {
			t.Errorf("%s by %s: %q", c.url, c.proxy, got)
		} else if got := <-asked; !strings.HasPrefix(got, c.asked) {
			t.Errorf("%s by %s: the proxy was asked for %q", c.url, c.proxy, got)
		}
		if want := strings.HasPrefix(c.asked, "GET http://"); x.Forwarded != want {
			t.Errorf("%s by %s: forwarded %v", c.url, c.proxy, x.Forwarded)
		}
		if strings.Contains(string(x.Sent), "Proxy-") {
			t.Errorf("kept %q", x.Sent)
		}
		x.Close()
	}

	// A proxy that does not serve us is no server that failed to.
	garbage := strings.TrimPrefix(serve(t, hold("HTTP/1.1 200 OK\r\n\r\n\x16\x03")), "http://")
	mute := strings.TrimPrefix(serve(t, func(c net.Conn) { io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") }), "http://")
	endless := strings.TrimPrefix(serve(t, forever("HTTP/1.1 200 OK\r\n", "X: y\r\n")), "http://")
	for _, c := range []struct{ proxy, url, says string }{
		{"http://u:p@" + web, "https://example.com:1/", ""}, // refused before
		{"http://" + garbage, "https://example.com/", "proxy: bytes after its reply"},
		{"http://" + endless, "https://example.com/", "proxy: no end of its reply"},
		{"socks5://" + mute, "https://example.com/", "proxy: "},
	} {
		client.Proxy = mustProxy(t, c.proxy)
		x := client.once(context.Background(), &fetch.Request{URL: c.url, Addr: loopback})
		want := record.OutcomeConnect
		if c.says == "" {
			want = record.OutcomePort
		}
		if x.Outcome != want || !strings.HasPrefix(x.Error, c.says) {
			t.Errorf("%s by %s: %q (%s)", c.url, c.proxy, x.Outcome, x.Error)
		}
		x.Close()
		select {
		case <-asked:
		default:
		}
	}

	// A proxy that serves nobody is no fault of a URL: the run ends.
	for _, c := range []struct{ proxy, url, says string }{
		{"http://" + web, "http://example.com/", "status 407"},
		{"http://" + web, "https://example.com/", "status 407"},
		{"socks5://u:wrong@" + socks, "http://example.com/", "authentication"},
		{"http://127.0.0.1:1", "http://example.com/", "refused"},
		{"socks5://127.0.0.1:1", "https://example.com/", "refused"},
	} {
		client.Proxy = mustProxy(t, c.proxy)
		x := client.once(context.Background(), &fetch.Request{URL: c.url, Addr: loopback})
		if x.Outcome != record.OutcomeDeferred || x.Err == nil || !strings.Contains(x.Err.Error(), c.says) || strings.Contains(x.Err.Error(), "wrong") {
			t.Errorf("%s by %s: %q, %v", c.url, c.proxy, x.Outcome, x.Err)
		}
		x.Close()
		select {
		case <-asked:
		default:
		}
	}

	// The guard judges the server's address, proxy or not.
	client.Proxy = mustProxy(t, "socks5://u:p@"+socks)
	if x := client.once(context.Background(), &fetch.Request{URL: "http://h/", Addr: netip.MustParseAddr("10.0.0.1")}); x.Outcome != record.OutcomeAddress {
		t.Errorf("a private address by proxy: %q", x.Outcome)
	}
	for _, bad := range []string{"", "127.0.0.1:80", "https://h:1", "socks4://h:1", "http://h", "http://:1", "http://h:1/path", "http://h:1?q", "http://u:p@h:1", "socks5://u@h:1"} {
		if _, err := ParseProxy(bad, nil); fault.ClassOf(err) != fault.Usage {
			t.Errorf("proxy %q: %v", bad, err)
		}
	}
}

// TestLoginCookieBounds: a file with more cookies than are kept is refused, with the line of the first that is too many. Expired ones do not count.
func TestLoginCookieBounds(t *testing.T) {
	lines := func(n int, expires string) (text string) {
		for i := range n {
			text += fmt.Sprintf("site.test\tFALSE\t/\tFALSE\t%s\tc%d\tx\n", expires, i)
		}
		return text
	}
	for _, c := range []struct{ name, text, want string }{
		{"as many as are kept", lines(50, "0"), ""},
		{"one more", lines(51, "0"), "login.txt: line 51: one cookie of site.test too many"},
		{"expired ones", lines(30, "1") + lines(50, "0"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseLogins("login.txt", []byte(c.text))
			if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
