package fetch

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"mercator/pkg/fault"
)

// Deny is the operator's list of what is not to be contacted, from a file that
// is read again when it changes. Each line is a host (which stands for all hosts
// below it too, on any port), or the beginning of a URL; empty lines and lines
// that begin with # mean nothing.
//
// Check may be called by many goroutines, Reload by one.
type Deny struct {
	path  string
	rules atomic.Pointer[denyRules]
	mtime time.Time
	size  int64
}

type denyRules struct {
	hosts    map[string]struct{}
	prefixes []string
}

const denyMax = 64 << 20 // bytes of a file

// OpenDeny reads the list at path.
func OpenDeny(path string) (*Deny, error) {
	d := &Deny{path: path}
	return d, d.Reload()
}

// Reload reads the file if its time or size changed. A file that cannot be read
// is an error, and leaves the rules as they were.
func (d *Deny) Reload() error {
	fi, err := os.Stat(d.path)
	if err != nil {
		return &fault.Error{Class: fault.Usage, File: d.path, Err: err}
	}
	if d.rules.Load() != nil && fi.ModTime().Equal(d.mtime) && fi.Size() == d.size {
		return nil
	}
	if fi.Size() > denyMax {
		return &fault.Error{Class: fault.Usage, File: d.path, Found: fmt.Sprintf("%d bytes", fi.Size()), Want: fmt.Sprintf("at most %d", denyMax)}
	}
	b, err := os.ReadFile(d.path)
	if err != nil {
		return err
	}
	rules := &denyRules{hosts: map[string]struct{}{}}
	sc := bufio.NewScanner(bytes.NewReader(b))
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		line := strings.TrimSpace(sc.Text())
		switch {
		case line == "" || line[0] == '#':
		case strings.Contains(line, "://"):
			rules.prefixes = append(rules.prefixes, line)
		default:
			rules.hosts[strings.Trim(strings.ToLower(line), ".")] = struct{}{}
		}
	}
	if err := sc.Err(); err != nil {
		return &fault.Error{Class: fault.Usage, File: d.path, Err: err}
	}
	d.rules.Store(rules)
	d.mtime, d.size = fi.ModTime(), fi.Size()
	return nil
}

// Check returns the rule that forbids a URL, or "".
func (d *Deny) Check(url, host string) string {
	if d == nil {
		return ""
	}
	r := d.rules.Load()
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
