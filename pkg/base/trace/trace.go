// Package trace writes what becomes of chosen URLs into a file, decision by decision, for people who ask why (MERCATOR_DEBUG).
//
// Each line is a time, the stage, the URL or the host, and what was decided, with tabs between. Processes of one pipe append to one file: a line
// is one write. Where nothing is traced a question costs a look at one variable.
package trace

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Of the environment: the file, and the hosts and URLs, with commas between; without them all are traced.
const (
	Variable = "MERCATOR_DEBUG"
	For      = "MERCATOR_DEBUG_FOR"
)

type tracer struct {
	file  *os.File
	urls  []string // URLs traced, besides all of the hosts
	hosts []string
	of    []string // hosts of urls: their waits are of interest, too
	mu    sync.Mutex
	err   error // the first of writing
}

// now is set before the work begins, by Start.
var now atomic.Pointer[tracer]

// Start traces URLs and hosts into a file. Any number of processes may write to it. An entry with "://" is a canonical URL, others are hosts.
func Start(file string, urls []string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	t := &tracer{file: f}
	for _, u := range urls {
		if strings.Contains(u, "://") {
			t.urls, t.of = append(t.urls, u), append(t.of, hostOf(u))
		} else {
			t.hosts = append(t.hosts, strings.ToLower(u))
		}
	}
	now.Store(t)
	return nil
}

// End ends what Start began. The error says that lines are missing.
func End() error {
	t := now.Swap(nil)
	if t == nil {
		return nil
	}
	if err := t.file.Close(); t.err == nil {
		t.err = err
	}
	return t.err
}

// Started reports whether anything is traced.
func Started() bool { return now.Load() != nil }

// On reports whether a URL is traced.
func On(url string) bool {
	t := now.Load()
	return t != nil && t.on(url)
}

// OnHost reports whether a host is traced, as such or for a URL.
func OnHost(host string) bool {
	t := now.Load()
	return t != nil && t.onHost(host, true)
}

func (t *tracer) on(url string) bool {
	return slices.Contains(t.urls, url) || t.onHost(hostOf(url), false)
}

func (t *tracer) onHost(host string, ofURL bool) bool {
	if len(t.urls)+len(t.hosts) == 0 {
		return true
	}
	name := host
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		name = host[:i]
	}
	return slices.Contains(t.hosts, host) || slices.Contains(t.hosts, name) || ofURL && slices.Contains(t.of, host)
}

// hostOf is the host of a canonical URL, with its port.
func hostOf(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	return rest
}

// lineMax bounds a line: what it quotes may come from a server.
const lineMax = 4 << 10

// Say writes a line about a URL or a host.
func Say(stage, of, format string, args ...any) {
	t := now.Load()
	if t == nil {
		return
	}
	clean := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return ' '
			}
			return r
		}, s)
	}
	line := fmt.Sprintf("%s\t%s\t%s\t%s", time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"), stage, clean(of), clean(fmt.Sprintf(format, args...)))
	if len(line) > lineMax {
		line = strings.ToValidUTF8(line[:lineMax], "")
	}
	_, err := t.file.WriteString(line + "\n")
	if err != nil {
		t.mu.Lock()
		if t.err == nil {
			t.err = err
		}
		t.mu.Unlock()
	}
}
