package fetch

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"mercator/pkg/base/fault"
	"mercator/pkg/web/canon"
)

// Deny is the operator's list of what is not to be contacted, from a file that
// is read again when it changes. Each line is a host (which stands for all hosts
// below it too, on any port), a host with a port (that server alone), or the
// beginning of a URL; empty lines and lines that begin with # mean nothing. Hosts
// and URLs are brought into canonical form; a line that is neither is an error,
// since what it was to stop would not be stopped.
//
// Check may be called by many goroutines, Reload by one.
type Deny struct {
	path  string
	form  canon.Options
	rules atomic.Pointer[denyRules]
	read  os.FileInfo
}

type denyRules struct {
	hosts    map[string]struct{} // names, and names with ports
	prefixes []string
}

const denyMax = 64 << 20 // bytes of a file

// OpenDeny reads the list at path. form is how URLs are written.
func OpenDeny(path string, form canon.Options) (*Deny, error) {
	d := &Deny{path: path, form: form}
	return d, d.Reload()
}

// Reload reads the file if it is another, or its time or size changed. A file that
// cannot be read is an error, and leaves the rules as they were; so is a line that
// cannot be understood, but the others hold from then on.
func (d *Deny) Reload() error {
	fi, err := os.Stat(d.path)
	if err != nil {
		return &fault.Error{Class: fault.Usage, File: d.path, Err: err}
	}
	if d.read != nil && os.SameFile(fi, d.read) && fi.ModTime().Equal(d.read.ModTime()) && fi.Size() == d.read.Size() {
		return nil
	}
	if fi.Size() > denyMax {
		return &fault.Error{Class: fault.Usage, File: d.path, Found: fmt.Sprintf("%d bytes", fi.Size()), Want: fmt.Sprintf("at most %d", denyMax)}
	}
	b, err := os.ReadFile(d.path)
	if err != nil {
		return &fault.Error{Class: fault.Usage, File: d.path, Err: err}
	}
	rules := &denyRules{hosts: map[string]struct{}{}}
	sc := bufio.NewScanner(bytes.NewReader(b))
	sc.Buffer(nil, 1<<20)
	var bad error
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimSpace(strings.TrimPrefix(sc.Text(), "\ufeff"))
		if line == "" || line[0] == '#' {
			continue
		}
		if !rules.addLine(line, d.form) && bad == nil {
			bad = &fault.Error{Class: fault.Usage, File: d.path, Place: fmt.Sprintf("line %d", n), Found: fmt.Sprintf("%.100q", line),
				Want: "a host, such as example.org, or the beginning of a URL, such as https://example.org/private", Hint: "a host stands for all hosts below it, too"}
		}
	}
	if err := sc.Err(); err != nil {
		return &fault.Error{Class: fault.Usage, File: d.path, Err: err}
	}
	d.rules.Store(rules)
	d.read = fi
	return bad
}

// held names the rules that stay in force after Reload returned an error.
func (d *Deny) held(err error) string {
	var f *fault.Error
	if errors.As(err, &f) && f.Place != "" {
		return "the other lines hold"
	}
	return "the rules read before still hold"
}

// addLine takes one line in. It reports whether the line could be understood.
func (r *denyRules) addLine(line string, form canon.Options) bool {
	scheme, rest, isURL := strings.Cut(line, "://")
	if !isURL {
		name := strings.Trim(strings.TrimPrefix(line, "*."), ".")
		if strings.Count(name, ":") > 1 && name[0] != '[' {
			name = "[" + name + "]"
		}
		_, host, err := canon.URL("http://" + name + "/")
		if err != nil || strings.ContainsAny(name, "/?#@*\\") {
			return false
		}
		bare, port := canon.SplitPort(host)
		if port == "" || port == canon.DefaultPort("https") || port == canon.DefaultPort("ftp") || port == canon.DefaultPort("gopher") {
			host = strings.Trim(bare, "[]") // a host column has no default ports
		}
		r.hosts[host] = struct{}{}
		return true
	}
	authority := rest
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority = rest[:i]
	}
	if strings.ContainsAny(authority, "@*") {
		return false
	}
	// The beginning as it stands, and as canonical URLs have it.
	r.prefixes = append(r.prefixes, strings.ToLower(scheme+"://"+authority)+rest[len(authority):])
	url, _, err := form.URL(line)
	if err == nil {
		r.prefixes = append(r.prefixes, url)
	}
	return err == nil || rest == "" || canon.ReasonOf(err) == canon.ReasonScheme // of what is not crawled
}

// Check returns the rule that forbids a URL, or "".
func (d *Deny) Check(url, host string) string {
	if d == nil {
		return ""
	}
	r := d.rules.Load()
	if _, ok := r.hosts[host]; ok {
		return host
	}
	name := hostname(host)
	for {
		if _, ok := r.hosts[name]; ok {
			return name
		}
		_, rest, ok := strings.Cut(name, ".")
		if !ok {
			break
		}
		name = rest
	}
	for _, p := range r.prefixes {
		if strings.HasPrefix(url, p) {
			return p
		}
	}
	return ""
}

// hostname is a host without its port and brackets.
func hostname(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:i]
	}
	return strings.Trim(host, "[]")
}
