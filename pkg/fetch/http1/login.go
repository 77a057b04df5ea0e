package http1

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"mercator/pkg/canon"
	"mercator/pkg/fault"
	"mercator/pkg/httpmsg"
)

// Logins are user names and passwords by origin ("https://host:8443"). They are
// sent as Basic authentication (RFC 7617), with every request to their origin and
// to no other; or to the proxy of that URL. Those of ftp origins are for package ftp.
type Logins map[string]login

type login struct{ user, password string }

// basic is the value of Authorization, "" for nobody.
func (l login) basic() string {
	if l.user == "" {
		return ""
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(l.user+":"+l.password))
}

const loginsMax = 1 << 20 // bytes of a file

// ReadLogins reads a file of lines "ORIGIN USER:PASSWORD", such as
// "https://example.org anna:secret". Empty lines and those that begin with # mean nothing.
// A file that others may read or change is refused, as ssh does.
func ReadLogins(path string) (Logins, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &fault.Error{Class: fault.Usage, File: path, Err: err}
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, &fault.Error{Class: fault.Usage, File: path, Err: err}
	}
	if mode := st.Mode(); mode.IsRegular() && mode.Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, &fault.Error{Class: fault.Usage, File: path, Found: fmt.Sprintf("mode %#o: other users can read the passwords, or change them", mode.Perm()), Want: "0600", Hint: fault.Quote("chmod", "600", path)}
	}
	b, err := io.ReadAll(io.LimitReader(f, loginsMax+1))
	if err != nil {
		return nil, &fault.Error{Class: fault.Usage, File: path, Err: err}
	}
	if len(b) > loginsMax {
		return nil, &fault.Error{Class: fault.Usage, File: path, Found: "a longer file", Want: fmt.Sprintf("at most %d bytes", loginsMax)}
	}
	return ParseLogins(path, b)
}

// ParseLogins reads the text of such a file.
func ParseLogins(path string, b []byte) (Logins, error) {
	all := Logins{}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		origin, who, _ := strings.Cut(line, " ")
		user, password, ok := strings.Cut(strings.TrimSpace(who), ":")
		switch scheme, _, _ := strings.Cut(origin, "://"); scheme {
		case "http", "https", "ftp":
			url, host, err := canon.URL(origin)
			ok = ok && err == nil && url == scheme+"://"+host+"/"
			origin = scheme + "://" + host
		case "socks5":
			_, err := ParseProxy(origin, nil)
			ok = ok && err == nil
			origin = strings.TrimSuffix(origin, "/")
		default:
			ok = false
		}
		if !ok || user == "" {
			// The line holds a password, so it is not shown.
			return nil, &fault.Error{Class: fault.Usage, File: path, Place: fmt.Sprintf("line %d", n), Found: "no login", Want: "ORIGIN USER:PASSWORD, such as https://example.org anna:secret"}
		}
		all[origin] = login{user, password}
	}
	if err := lines.Err(); err != nil {
		return nil, &fault.Error{Class: fault.Usage, File: path, Err: err}
	}
	return all, nil
}

// Login returns the name and the password for an origin.
func (l Logins) Login(origin string) (user, password string, ok bool) {
	who, ok := l[origin]
	return who.user, who.password, ok
}

func (l Logins) basic(t *target) string {
	if len(l) == 0 {
		return ""
	}
	return l[t.scheme+"://"+t.host].basic()
}

// ours are header fields that the Client writes itself, or that would change what
// a reply means or whom a secret goes to.
var ours = []string{"accept-encoding", "authorization", "connection", "content-length", "cookie", "expect", "host", "if-match",
	"if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "keep-alive", "proxy-authorization", "proxy-connection",
	"range", "te", "trailer", "transfer-encoding", "upgrade", "user-agent"}

// ParseHeader reads a line "Name: value" for Client.Header.
func ParseHeader(line string) (httpmsg.Field, error) {
	name, value, ok := strings.Cut(line, ":")
	f := httpmsg.Field{Name: name, Value: strings.TrimSpace(value)}
	token := name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	})
	if !ok || !token || f.Value == "" || strings.ContainsFunc(f.Value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return f, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("header %q", line), Want: "one line \"Name: value\""}
	}
	if slices.Contains(ours, strings.ToLower(name)) {
		e := &fault.Error{Class: fault.Usage, Found: "header " + name, Want: "one that is the same for every server and that mfetch does not write itself"}
		if strings.EqualFold(name, "User-Agent") {
			e.Hint = "--user-agent and --contact make it"
		}
		return f, e
	}
	return f, nil
}
