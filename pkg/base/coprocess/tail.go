package coprocess

import (
	"regexp"
	"strings"
	"sync"
)

// maxTail bounds what a Tail keeps, in bytes.
const maxTail = 4 << 10

// Tail keeps the end of a program's standard error. It may be used by several goroutines.
type Tail struct {
	mu sync.Mutex
	b  []byte
}

// Write implements io.Writer.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p[max(0, len(p)-maxTail):]...)
	t.b = t.b[max(0, len(t.b)-maxTail):]
	return len(p), nil
}

// named matches the lines in which interpreters name an error. Some print a traceback before it (Python), others behind it (Node, Java, Go).
var named = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(\S+ in thread \S+ )?[\w.]*(Error|Exception|Interrupt)\b|^(panic|fatal error): `)
})

// Why is the last line that names an error, else the last line; "" if nothing was written.
func (t *Tail) Why() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	why, last := "", ""
	for line := range strings.Lines(string(t.b)) {
		if line = strings.TrimRight(line, " \t\r\n"); strings.TrimSpace(line) == "" {
			continue
		}
		if last = strings.TrimSpace(line); named().MatchString(line) {
			why = last
		}
	}
	if why == "" {
		return last
	}
	return why
}
