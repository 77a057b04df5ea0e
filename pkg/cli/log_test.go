package cli

import (
	"bytes"
	"testing"
	"time"
)

// What is written to standard error, and what a program reads of it.
func TestLog(t *testing.T) {
	at := func() time.Time { return time.Date(2030, 1, 2, 3, 4, 5, 6_000_000, time.FixedZone("", 3600)) }
	for _, c := range []struct{ name, line, want string }{
		{"warning", "mfetch: no connection to <a>\n", `"level":"warning","command":"mfetch","message":"no connection to <a>"}`},
		{"hint", "mfetch: hint: wait: a while\n", `"level":"warning","command":"mfetch","hint":"wait: a while"}`},
		{"of another", "http://a.test: \"x\"\n", `"level":"warning","command":"mcrawl","message":"http://a.test: \"x\""}`},
		{"progress", `{"command":"mfetch","n":1}` + "\n", `"level":"progress","command":"mcrawl","progress":{"command":"mfetch","n":1}}`},
		{"error", "", `"level":"error","command":"mfetch","message":"no room"}`},
		{"no JSON", "{x}\n", `"level":"warning","command":"mcrawl","message":"{x}"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			log := &jsonLog{&out, "mcrawl", at}
			if n, err := log.Write([]byte(c.line)); n != len(c.line) || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
			if c.name == "error" {
				out.Reset()
				LogError(log, "mfetch: no room")
			}
			if want := `{"time":"2030-01-02T02:04:05.006Z",` + c.want + "\n"; out.String() != want {
				t.Errorf("%s, want %s", out.String(), want)
			}
		})
	}
}
