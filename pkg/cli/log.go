package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"
	"time"

	"mercator/pkg/base/fault"
)

// LogVariable is the environment variable that makes standard error lines of JSON.
const LogVariable = "MERCATOR_LOG"

// entry is a line of the log. The names are explained in pipelines/operate.md.
type entry struct {
	Time     string          `json:"time"`
	Level    string          `json:"level"` // error, warning or progress
	Command  string          `json:"command"`
	Message  string          `json:"message,omitempty"`
	Hint     string          `json:"hint,omitempty"`
	Class    string          `json:"class,omitempty"` // of an error, such as "corrupt"
	Exit     int             `json:"exit,omitempty"`
	Progress json.RawMessage `json:"progress,omitempty"` // line of --progress json
}

// jsonLog makes each line that is written to it an entry. All of a line comes in one write.
type jsonLog struct {
	out     io.Writer
	command string
	now     func() time.Time
}

// logTo is standard error as the environment wants it. Programs that this one starts write text: what they say comes back to it, or is their user's.
func logTo(out io.Writer, command string, now func() time.Time) (io.Writer, error) {
	switch mode := os.Getenv(LogVariable); mode {
	case "":
		return out, nil
	case "json":
		return &jsonLog{out, command, now}, os.Unsetenv(LogVariable)
	default:
		return out, &fault.Error{Class: fault.Usage, Place: LogVariable, Found: mode, Want: "json, or nothing for text"}
	}
}

func (l *jsonLog) put(e entry) error {
	e.Time = l.now().UTC().Format("2006-01-02T15:04:05.000Z07:00")
	if e.Command == "" {
		e.Command = l.command
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(&e); err != nil {
		return err
	}
	_, err := l.out.Write(b.Bytes())
	return err
}

// Write takes lines that begin with the name of a command, and lines of --progress json.
func (l *jsonLog) Write(p []byte) (int, error) { return l.lines("warning", p) }

// LogError writes a line of what another command failed of: a log has it at level error.
func LogError(w io.Writer, line string) {
	if l, is := w.(*jsonLog); is {
		_, _ = l.lines("error", []byte(line)) // nobody is left to tell
		return
	}
	_, _ = io.WriteString(w, line+"\n")
}

func (l *jsonLog) lines(level string, p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		line = strings.TrimSuffix(line, "\n")
		e := entry{Level: level, Message: line}
		if name, text, ok := strings.Cut(line, ": "); ok && ours(name) {
			e.Command, e.Message = name, text
			if hint, ok := strings.CutPrefix(text, "hint: "); ok {
				e.Message, e.Hint = "", hint
			}
		} else if json.Valid([]byte(line)) && strings.HasPrefix(line, "{") {
			e = entry{Level: "progress", Progress: json.RawMessage(line)}
		}
		if err := l.put(e); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// ours reports whether a name may be one of our commands: m and some letters.
func ours(name string) bool {
	return len(name) > 1 && name[0] == 'm' && !strings.ContainsFunc(name, func(r rune) bool { return r < 'a' || r > 'z' })
}

// LogsJSON reports whether standard error is lines of JSON.
func (s *Std) LogsJSON() bool {
	_, ok := s.Err.(*jsonLog)
	return ok
}
