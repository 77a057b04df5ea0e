//go:build unix

package program

import (
	"context"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/fetch"
	"mercator/pkg/fetch/addrguard"
)

func get(ctx context.Context, t *testing.T, command, url string) (*fetch.Reply, string) {
	t.Helper()
	m := &Module{Command: command, UserAgent: "test/1", Limits: fetch.Limits{
		BodyMax: 1000, TempDir: t.TempDir(), Guard: addrguard.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}}
	r := m.Fetch(ctx, &fetch.Request{URL: url, Host: "h.test", Addr: netip.MustParseAddr("127.0.0.1")})
	if r.Err != nil {
		t.Fatalf("an error of this machine: %v", r.Err)
	}
	if r.Response == nil {
		return r, ""
	}
	b, err := io.ReadAll(r.Response)
	must.OK(t, err)
	r.Memory.Close()
	return r, string(b)
}

func TestPrograms(t *testing.T) {
	const url = "x://h.test/$(id)`id`;'\"a b"
	for _, c := range []struct {
		name, command string
		outcome, body string
		media         string
		status        int
		truncated     string
		err           string
	}{
		{"document", `printf 'Content-Type: text/gemini; charset=utf-8\r\nX-Other: 1\r\n\r\nhello'; :`, record.OutcomeFetched, "hello", "text/gemini; charset=utf-8", 0, "", ""},
		{"argument and environment", `f() { printf '\n%s|%s|%s|%s|%s' "$1" "$MERCATOR_URL" "$MERCATOR_ADDR" "$MERCATOR_HOST" "$MERCATOR_USER_AGENT"; }; f`,
			record.OutcomeFetched, url + "|" + url + "|127.0.0.1|h.test|test/1", "application/octet-stream", 0, "", ""},
		{"media type that is empty", `printf 'Content-Type:\n\nHTTP/1.1 404 No\r\n\r\n'; :`, record.OutcomeFetched, "HTTP/1.1 404 No\r\n\r\n", "application/octet-stream", 0, "", ""},
		{"status", `printf 'Status: 404 Not Found\n\nno'; :`, record.OutcomeFetched, "no", "application/octet-stream", 404, "", ""},
		{"redirect", `printf 'Location: x://h.test/b\n\n'; :`, record.OutcomeFetched, "", "application/octet-stream", 302, "", ""},
		{"more than is kept", `printf '\n'; yes; :`, record.OutcomeFetched, strings.Repeat("y\n", 500), "application/octet-stream", 0, "length", ""},
		{"fails", `echo one >&2; echo two >&2; exit 3; :`, record.OutcomeProtocol, "", "", 0, "", "two"},
		{"fails after a document", `printf '\nhalf'; exit 1; :`, record.OutcomeProtocol, "", "", 0, "", "status 1"},
		{"fails for now", `echo busy >&2; exit 75; :`, record.OutcomeConnect, "", "", 0, "", "busy"},
		{"is killed by itself", `kill -9 $$; :`, record.OutcomeProtocol, "", "", 0, "", "empty line"},
		{"says nothing", `:`, record.OutcomeProtocol, "", "", 0, "", "empty line"},
		{"header without an end", `yes 'A: b'; :`, record.OutcomeProtocol, "", "", 0, "", "header"},
		{"endless line", `tr '\0' x < /dev/zero; :`, record.OutcomeProtocol, "", "", 0, "", "header"},
		{"no header line", `printf 'hello\n\n'; :`, record.OutcomeProtocol, "", "", 0, "", "hello"},
		{"bad status", `printf 'Status: 99\n\n'; :`, record.OutcomeProtocol, "", "", 0, "", "99"},
		{"much on standard error", `yes error | head -c 1000000 >&2; exit 1; :`, record.OutcomeProtocol, "", "", 0, "", "erro"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, body := get(context.Background(), t, c.command, url)
			if r.Outcome != c.outcome || body != c.body || r.Media != c.media || r.Status != c.status || r.Truncated != c.truncated || !strings.Contains(r.Error, c.err) {
				t.Errorf("outcome %q (%s), media %q, status %d, truncated %q, body %.200q", r.Outcome, r.Error, r.Media, r.Status, r.Truncated, body)
			}
		})
	}
}

// TestUnchanged: what a reply said of its document comes back with the next request, which "304" may answer.
func TestUnchanged(t *testing.T) {
	for _, c := range []struct {
		name, etag, modified, command string
		outcome                       string
		status                        int
		knows                         [2]string
	}{
		{"first time", "", "", `printf 'ETag: "1"\nlast-modified:  May\n\nhello'; :`, record.OutcomeFetched, 0, [2]string{`"1"`, "May"}},
		{"same", `"1"`, "May", `printf 'Status: 304\nETag: %s\n\nno document' "$MERCATOR_ETAG"; :`, record.OutcomeNotModified, 304, [2]string{`"1"`, ""}},
		{"same by its time", "", "May", `test "$MERCATOR_LAST_MODIFIED" = May && printf 'Status: 304\n\n'; :`, record.OutcomeNotModified, 304, [2]string{}},
		{"nothing was known", "", "", `printf 'Status: 304\n\n'; :`, record.OutcomeFetched, 304, [2]string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &Module{Command: c.command, Limits: fetch.Limits{TempDir: t.TempDir(), Guard: addrguard.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}}
			r := m.Fetch(t.Context(), &fetch.Request{URL: "x://h.test/", Host: "h.test", Addr: netip.MustParseAddr("127.0.0.1"), ETag: c.etag, LastModified: c.modified})
			if r.Err != nil || r.Outcome != c.outcome || r.Status != c.status || [2]string{r.ETag, r.LastModified} != c.knows || (r.Response == nil) != (c.outcome == record.OutcomeNotModified) {
				t.Errorf("%s: outcome %q (%s, %v), status %d, etag %q, last modified %q", c.name, r.Outcome, r.Error, r.Err, r.Status, r.ETag, r.LastModified)
			}
			r.Memory.Close()
		})
	}
}

// TestNoProgram: a command that cannot be run is the operator's to mend, and no URL bears it.
func TestNoProgram(t *testing.T) {
	file := filepath.Join(t.TempDir(), "text")
	must.OK(t, os.WriteFile(file, []byte("no program"), 0o600))
	for _, command := range []string{"/does/not/exist", file} {
		m := &Module{Command: command, Limits: fetch.Limits{TempDir: t.TempDir(), Guard: addrguard.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}}
		r := m.Fetch(t.Context(), &fetch.Request{URL: "x://h.test/", Host: "h.test", Addr: netip.MustParseAddr("127.0.0.1")})
		if fault.ClassOf(r.Err) != fault.Program || !strings.Contains(r.Err.Error(), command) {
			t.Errorf("%s: %v, outcome %q", command, r.Err, r.Outcome)
		}
	}
}

func TestKilledWithItsGroup(t *testing.T) {
	for name, c := range map[string]struct{ command, outcome string }{
		"late":                            {`CHILD & wait; :`, record.OutcomeTimeout},
		"late in a body":                  {`printf '\nx'; CHILD & wait; :`, record.OutcomeTimeout},
		"leaves a child":                  {`CHILD > /dev/null 2>&1 & printf '\nx'; :`, record.OutcomeFetched},
		"leaves a child that could write": {`CHILD & printf '\nx'; :`, record.OutcomeFetched},
		"writes too much":                 {`CHILD & printf '\n'; yes; :`, record.OutcomeFetched},
	} {
		t.Run(name, func(t *testing.T) {
			child := must.NewChild(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.outcome == record.OutcomeTimeout { // its time is over once the child runs
				go func() {
					<-child.Started
					cancel()
				}()
			}
			if r, _ := get(ctx, t, strings.ReplaceAll(c.command, "CHILD", child.Script), "x://h.test/"); r.Outcome != c.outcome {
				t.Errorf("outcome %q (%s), want %q", r.Outcome, r.Error, c.outcome)
			}
			child.Killed(t)
		})
	}
}

// TestWhatCannotBeAnArgument is an outcome of the URL, and does not end the run.
func TestWhatCannotBeAnArgument(t *testing.T) {
	for _, url := range []string{"x://h.test/\x00", "x://h.test/" + strings.Repeat("a", 200_000)} {
		if r, _ := get(t.Context(), t, "true", url); r.Outcome != record.OutcomeScheme {
			t.Errorf("%.40q: outcome %q (%.100s)", url, r.Outcome, r.Error)
		}
	}
}

func TestGuard(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ran")
	m := &Module{Command: "touch " + file + "; :"}
	r := m.Fetch(context.Background(), &fetch.Request{URL: "x://h.test/", Addr: netip.MustParseAddr("127.0.0.1")})
	if _, err := os.Stat(file); r.Outcome != record.OutcomeAddress || err == nil {
		t.Errorf("outcome %q, %v", r.Outcome, err)
	}
}
