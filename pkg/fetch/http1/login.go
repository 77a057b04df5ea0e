package http1

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/fetch"
	"mercator/pkg/fetch/cookies"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/httpmsg"
)

// Logins are the means by which servers know us: user names and passwords by origin ("https://host:8443"), which are sent as Basic authentication
// (RFC 7617), other header fields by origin, and cookies. They are sent with every request to their origin and to no other; or to the
// proxy of that URL. Those of ftp origins are for package ftp.
type Logins struct {
	origins map[string]login
	cookies *cookies.Jar // nil: none
}

type login struct {
	user, password string
	fields         []httpmsg.Field
	file           string // of a certificate and its key, relative to the file of logins
	certificate    *tls.Certificate
	form           *formLogin
}

// basic is the value of Authorization, "" for nobody.
func (l login) basic() string {
	if l.user == "" {
		return ""
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(l.user+":"+l.password))
}

const loginsMax = 1 << 20 // bytes of a file

// wantLogin describes a line of a file of logins.
const wantLogin = "ORIGIN USER:PASSWORD, such as https://example.org anna:secret, ORIGIN header NAME: VALUE, ORIGIN certificate FILE, ORIGIN form PATH NAME=VALUE&NAME=VALUE with or without ORIGIN check PATH, or a line of a cookies.txt"

// ReadLogins reads a file of lines "ORIGIN USER:PASSWORD", such as "https://example.org anna:secret", or "ORIGIN header NAME: VALUE",
// such as "https://example.org header Authorization: Bearer abc", or "ORIGIN certificate FILE", a file with a certificate of ours and its key in
// PEM, "ORIGIN form PATH NAME=VALUE&NAME=VALUE", a page with a form (form.go), "ORIGIN check PATH", a page that has status 200 for who has
// sent the form, and lines of a cookies.txt, as browsers' add-ons, curl and wget write it:
// domain, whether its subdomains are meant, path, whether https is needed, expiry in seconds, name and value, with tabs between. Empty lines
// and lines that begin with # (but not with #HttpOnly_) mean nothing. A file that others may read or change is refused, as ssh does.
func ReadLogins(path string) (*Logins, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &fault.Error{Class: fault.Usage, File: path, Err: err}
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, &fault.Error{Class: fault.Usage, File: path, Err: err}
	}
	if err := private(path, st, "the passwords"); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, loginsMax+1))
	if err != nil {
		return nil, &fault.Error{Class: fault.Usage, File: path, Err: err}
	}
	if len(b) > loginsMax {
		return nil, &fault.Error{Class: fault.Usage, File: path, Found: "a longer file", Want: fmt.Sprintf("at most %d bytes", loginsMax)}
	}
	all, err := ParseLogins(path, b)
	if err != nil {
		return nil, err
	}
	for origin, l := range all.origins {
		if l.form != nil {
			l.form.resume(path)
		}
		if l.file == "" {
			continue
		}
		file := l.file
		if !filepath.IsAbs(file) {
			file = filepath.Join(filepath.Dir(path), file)
		}
		var c tls.Certificate
		st, err := os.Stat(file)
		if err == nil {
			if err := private(file, st, "the key"); err != nil {
				return nil, err
			}
			c, err = tls.LoadX509KeyPair(file, file)
		}
		if err != nil {
			return nil, &fault.Error{Class: fault.Usage, File: file, Place: "certificate for " + origin, Err: err, Want: "a certificate and its private key, in PEM"}
		}
		l.certificate = &c
		all.origins[origin] = l
	}
	return all, nil
}

// private refuses a file that others may read or change.
func private(path string, st os.FileInfo, what string) error {
	if mode := st.Mode(); mode.IsRegular() && mode.Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		return &fault.Error{Class: fault.Usage, File: path, Found: fmt.Sprintf("mode %#o: other users can read %s, or change them", mode.Perm(), what), Want: "0600", Hint: fault.Quote("chmod", "600", path)}
	}
	return nil
}

// ParseLogins reads the text of such a file.
func ParseLogins(path string, b []byte) (*Logins, error) {
	now := time.Now()
	all, checks := &Logins{origins: map[string]login{}}, map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimPrefix(lines.Text(), "#HttpOnly_")
		if c, ok := parseCookie(text); ok {
			if all.cookies == nil {
				all.cookies = cookies.New()
			}
			expired := !c.Expires.IsZero() && !c.Expires.After(now)
			if !expired && !all.cookies.Put(c, now) {
				return nil, &fault.Error{Class: fault.Usage, File: path, Place: fmt.Sprintf("line %d", n), Found: "a cookie of " + c.Domain + " that no server could have set",
					Want: "one of a host, or of a domain that is no public suffix, as browsers keep it", Hint: "FALSE in place of the first TRUE makes it a cookie of that host alone"}
			}
			if all.cookies.Evicted() {
				return nil, &fault.Error{Class: fault.Usage, File: path, Place: fmt.Sprintf("line %d", n), Found: "one cookie of " + c.Domain + " too many",
					Want: cookies.Bounds, Hint: "take out those that the crawl does not need"}
			}
			continue
		}
		line := strings.TrimSpace(text)
		if line == "" || line[0] == '#' {
			continue
		}
		origin, who, _ := strings.Cut(line, " ")
		who = strings.TrimSpace(who)
		var field httpmsg.Field
		header, isField := strings.CutPrefix(who, "header ")
		file, isFile := strings.CutPrefix(who, "certificate ")
		page, isForm := strings.CutPrefix(who, "form ")
		check, isCheck := strings.CutPrefix(who, "check ")
		user, password, ok := strings.Cut(who, ":")
		ok = ok && user != "" || isFile || isForm || isCheck
		if isFile {
			ok = strings.HasPrefix(origin, "https:") && file != ""
		}
		if isField {
			field, ok = parseField(header)
			ok = ok && (strings.EqualFold(field.Name, "Authorization") || strings.EqualFold(field.Name, "Cookie") || !slices.Contains(ours, strings.ToLower(field.Name)))
		}
		switch scheme, _, _ := strings.Cut(origin, "://"); scheme {
		case "http", "https", "ftp":
			url, host, err := canon.URL(origin)
			ok = ok && (scheme != "ftp" || !isField && !isForm && !isCheck) && err == nil && url == scheme+"://"+host+"/"
			origin = scheme + "://" + host
		case "socks5":
			_, err := ParseProxy(origin, nil)
			ok = ok && !isField && !isForm && !isCheck && err == nil
			origin = strings.TrimSuffix(origin, "/")
		default:
			ok = false
		}
		l := all.origins[origin]
		var form *formLogin
		switch {
		case ok && isForm:
			form, ok = parseForm(origin, page)
			ok = ok && l.form == nil
		case ok && isCheck:
			check, ok = pathOn(origin, strings.TrimSpace(check))
			ok = ok && checks[origin] == ""
		}
		if !ok {
			// The line holds a password, so it is not shown.
			return nil, &fault.Error{Class: fault.Usage, File: path, Place: fmt.Sprintf("line %d", n), Found: "no login", Want: wantLogin}
		}
		if twice := l.twice(field.Name, isFile, isForm || isCheck); twice != "" {
			return nil, &fault.Error{Class: fault.Usage, File: path, Place: fmt.Sprintf("line %d", n), Found: fmt.Sprintf("a second %s for %s", twice, origin), Want: "one"}
		}
		switch {
		case isForm:
			l.form = form
		case isCheck:
			checks[origin] = check
			continue
		case isField:
			l.fields = append(l.fields, field)
		case isFile:
			l.file = strings.TrimSpace(file)
		default:
			l.user, l.password = user, password
		}
		all.origins[origin] = l
	}
	if err := lines.Err(); err != nil {
		return nil, &fault.Error{Class: fault.Usage, File: path, Err: err}
	}
	for origin, url := range checks {
		if all.origins[origin].form == nil {
			return nil, &fault.Error{Class: fault.Usage, File: path, Place: origin, Found: "check without form", Want: wantLogin}
		}
		all.origins[origin].form.check = url
	}
	return all, nil
}

// twice names what a line would give an origin a second time: a header field, a certificate, or a password, which is sent as Authorization; "" if nothing.
func (l login) twice(field string, certificate, page bool) string {
	const password = "Authorization"
	has := func(name string) bool {
		return slices.ContainsFunc(l.fields, func(f httpmsg.Field) bool { return strings.EqualFold(f.Name, name) })
	}
	switch {
	case page:
	case certificate && l.file != "":
		return "certificate"
	case certificate:
	case field == "" || strings.EqualFold(field, password):
		if l.user != "" || has(password) {
			return password
		}
	case strings.EqualFold(field, "Cookie") && has(field):
		return field
	}
	return ""
}

// parseCookie reads a line of a cookies.txt.
func parseCookie(line string) (c cookies.Cookie, ok bool) {
	f := strings.Split(strings.TrimRight(line, "\r"), "\t")
	if len(f) != 7 {
		return c, false
	}
	seconds, err := strconv.ParseInt(strings.TrimSuffix(f[4], ".0"), 10, 64)
	name, _, nameErr := canon.URL("http://" + strings.TrimPrefix(f[0], "."))
	yes := func(s string) bool { return strings.EqualFold(s, "TRUE") }
	if err != nil || nameErr != nil || !yes(f[1]) && !strings.EqualFold(f[1], "FALSE") || !yes(f[3]) && !strings.EqualFold(f[3], "FALSE") {
		return c, false
	}
	c = cookies.Cookie{Domain: cookies.TargetOf(name).Name, HostOnly: !yes(f[1]), Path: f[2], Secure: yes(f[3]), Name: f[5], Value: f[6]}
	if seconds > 0 {
		c.Expires = time.Unix(seconds, 0)
	}
	return c, true
}

// Any reports whether there is one.
func (l *Logins) Any() bool { return l != nil && (len(l.origins) > 0 || l.cookies != nil) }

// Login returns the name and the password for an origin.
func (l *Logins) Login(origin string) (user, password string, ok bool) {
	who := l.of(origin)
	return who.user, who.password, who.user != ""
}

func (l *Logins) of(origin string) login {
	if l == nil {
		return login{}
	}
	return l.origins[origin]
}

// fields are the header fields for a server, except cookies.
func (l *Logins) fields(t *target) []httpmsg.Field {
	who := l.of(t.scheme + "://" + t.host)
	if who.user == "" {
		return who.fields
	}
	return append([]httpmsg.Field{{Name: "Authorization", Value: who.basic()}}, who.fields...)
}

// hasCookie reports whether the file has a line Cookie for a server: it is the only one then.
func (l *Logins) hasCookie(t *target) bool {
	return slices.ContainsFunc(l.of(t.scheme+"://"+t.host).fields, func(f httpmsg.Field) bool { return strings.EqualFold(f.Name, "Cookie") })
}

// line is the header field Cookie for a server, and the names of its cookies.
func (l *Logins) line(t *target, now time.Time) (line string, names []string) {
	if l == nil {
		return "", nil
	}
	for _, jar := range append(l.jars(), l.cookies) {
		if jar == nil {
			continue
		}
		if more := jar.Line(t.cookies(), now, names...); more != "" {
			line = strings.TrimPrefix(line+"; "+more, "; ")
			names = append(names, strings.Split(jar.Names(t.cookies(), now), ";")...)
		}
	}
	return line, names
}

// Kinds names the credentials that only the server of a URL gets, without secrets.
func (l *Logins) Kinds(url string, now time.Time) (kinds []string) {
	t, err := parseTarget(url)
	if err != nil {
		return nil
	}
	who := l.of(t.scheme + "://" + t.host)
	for _, f := range l.fields(&t) {
		kinds = append(kinds, "header "+f.Name)
	}
	if who.certificate != nil {
		kinds = append(kinds, "certificate "+who.file)
	}
	if who.form != nil {
		kinds = append(kinds, "form "+who.form.page)
	}
	if _, names := l.line(&t, now); len(names) > 0 {
		kinds = append(kinds, "cookies "+strings.Join(names, ", "))
	}
	return kinds
}

// know reports whether anything is sent to a server that is for nobody else.
func (l *Logins) know(t *target, now time.Time) bool {
	line, _ := l.line(t, now)
	who := l.of(t.scheme + "://" + t.host)
	return line != "" || len(l.fields(t)) > 0 || who.certificate != nil || who.form != nil
}

// logout matches the names by which common software ends a session, with all but letters removed: "logout" or "signoff", and usual
// words around it, such as "user" or "action". A page about logging out has other words: "how-to-sign-off".
var logout = sync.OnceValue(func() *regexp.Regexp {
	const around = `(?:do|perform|process|submit|confirm|special|user|users|session|account|member|customer|client|admin|auth|oauth|sso|saml|oidc|wp|my|me|now|all|page|form|action|servlet|handler|controller|index|ajax|php|aspx?|jspx?|cgi|pl|cfm|html?)*`
	return regexp.MustCompile(`(?i)^` + around + `(?:(?:log|sign)(?:me|us|user)?(?:out|off)|endsession)` + around + `$`)
})

// endsSession reports whether a segment of a path, or a name or a value of a query, consists of such words.
func endsSession(path string) bool {
	if plain, err := url.PathUnescape(path); err == nil {
		path = plain
	}
	for part := range strings.FieldsFuncSeq(path, func(r rune) bool { return strings.ContainsRune("/?&=;:", r) }) {
		letters := strings.Map(func(r rune) rune {
			if r < 0x80 && (r|0x20 < 'a' || r|0x20 > 'z') {
				return -1
			}
			return r
		}, part)
		if logout().MatchString(letters) {
			return true
		}
	}
	return false
}

// Check implements fetch.Protocol. Every canonical URL of http and https can be asked for, but for those that would end a login.
func (c *Client) Check(url string) error {
	if !c.Logins.Any() {
		return nil
	}
	t, err := parseTarget(url)
	if err != nil || !endsSession(t.path) {
		return nil
	}
	if line, _ := c.Logins.line(&t, c.now()); line == "" && len(c.Logins.of(t.scheme+"://"+t.host).fields) == 0 && c.Logins.form(&t) == nil {
		return nil // a password is sent each time
	}
	return &fetch.Failure{Outcome: record.OutcomeDenied, Err: errors.New(record.EndsLogin)}
}

// ours are header fields that the Client writes itself, or that would change what
// a reply means or whom a secret goes to.
var ours = []string{"accept-encoding", "authorization", "connection", "content-length", "cookie", "expect", "host", "if-match",
	"if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "keep-alive", "proxy-authorization", "proxy-connection",
	"range", "te", "trailer", "transfer-encoding", "upgrade", "user-agent"}

// parseField reads a line "Name: value".
func parseField(line string) (f httpmsg.Field, ok bool) {
	name, value, ok := strings.Cut(line, ":")
	f = httpmsg.Field{Name: name, Value: strings.TrimSpace(value)}
	token := name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	})
	return f, ok && token && f.Value != "" && !strings.ContainsFunc(f.Value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// ParseHeader reads a line "Name: value" for Client.Header.
func ParseHeader(line string) (httpmsg.Field, error) {
	f, ok := parseField(line)
	if !ok {
		return f, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("header %q", line), Want: "one line \"Name: value\""}
	}
	if slices.Contains(ours, strings.ToLower(f.Name)) {
		e := &fault.Error{Class: fault.Usage, Found: "header " + f.Name, Want: "one that is the same for every server and that mfetch does not write itself"}
		switch strings.ToLower(f.Name) {
		case "user-agent":
			e.Hint = "--user-agent and --contact make it"
		case "authorization", "cookie":
			e.Hint = "a line \"https://HOST header " + f.Name + ": VALUE\" in the file of fetch.login (--login) sends it to that host alone"
		}
		return f, e
	}
	return f, nil
}

// SecretHeader is the name of the first header line that by its name holds a secret; "" if none does.
func SecretHeader(lines ...string) string {
	for _, line := range lines {
		name, _, _ := strings.Cut(line, ":")
		for _, word := range []string{"auth", "key", "token", "secret", "password", "session", "credential"} {
			if strings.Contains(strings.ToLower(name), word) {
				return name
			}
		}
	}
	return ""
}
