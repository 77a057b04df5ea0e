package process

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mercator/pkg/base/must"
)

// answering is a program for sh that reads a question after another, with its line in
// $line and its body in $body, and runs the given commands for each.
func answering(commands string) string {
	return `while IFS= read -r line; do n=${line##*:}; body=$(head -c "${n%\}}"); ` + commands + `; done`
}

// stayed runs a program over documents with these bodies, the findings of each on a line.
func stayed(t *testing.T, command string, limits ExecLimits, bodies ...string) (findings []string, end map[string]error) {
	t.Helper()
	m, err := Parse("m=*/*:stay "+command, limits)
	must.OK(t, err)
	r := NewRunner([]Selected{m})
	for i, body := range bodies {
		if file, ok := strings.CutPrefix(body, "go on: "); ok { // and wait until it has
			must.OK(t, os.WriteFile(file, nil, 0o666))
			for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(time.Millisecond) {
				if _, err := os.Stat(file); err != nil {
					break
				}
			}
			continue
		}
		doc := &Document{URL: fmt.Sprintf("http://h/%d?a&b", i), Key: uint64(i), MIME: "text/plain", Charset: "utf-8", Status: 203, Body: []byte(body)}
		found, failed := r.Run(context.Background(), doc)
		if len(failed) > 0 != (len(found) == 1 && found[0].Key == KeyError) {
			t.Errorf("document %d: %v, failed %v", i, found, failed)
		}
		var line []string
		for _, f := range found {
			line = append(line, f.Key+"="+f.Value)
		}
		findings = append(findings, strings.Join(line, " "))
	}
	return findings, r.Close()
}

func TestStay(t *testing.T) {
	big := strings.Repeat("one\ntwo\x00 ", 200_000) // more than pipes hold
	starts := filepath.Join(t.TempDir(), "starts")
	got, end := stayed(t, "echo x >> "+starts+"; "+
		`while IFS= read -r line; do n=${line##*:}; printf '{"question":%s,"bytes":%d}\n' "$line" "$(head -c "${n%\}}" | wc -c)"; done`,
		ExecLimits{Timeout: time.Minute}, "a\n\nb", "", big)
	want := []string{}
	for i, n := range []int{4, 0, len(big)} {
		want = append(want, fmt.Sprintf(`question={"url":"http://h/%d?a&b","url_key":"%016x","type":"text/plain","charset":"utf-8","status":203,"truncated":"","length":%d} bytes=%d`, i, i, n, n))
	}
	if diff := cmp.Diff(want, got); diff != "" || end != nil {
		t.Error(diff, end)
	}
	if b, _ := os.ReadFile(starts); string(b) != "x\n" {
		t.Errorf("started %q times, want once", b)
	}
}

func TestStayAnswers(t *testing.T) {
	for answer, want := range map[string]string{
		`{}`:    "",
		` { } `: "",
		`{"b":1.50,"a":"x\n\u00e9","b":true,"n":null,"s":"null"}`: "b=1.50 a=x\né b=true s=null",
		`{"l":["x",2,null,[3],{"k":4}],"o":{"k":"v"},"e":[]}`:     `l=x l=2 l=[3] l={"k":4} o={"k":"v"}`,
		``:                      `error=answer "", want a JSON object`,
		`7`:                     `error=answer "7", want a JSON object`,
		`{"a":1`:                `error=answer "{\"a\":1", want a JSON object`,
		`{"a":1} {}`:            `error=answer "{\"a\":1} {}", want a JSON object`,
		`{"a":1,"b":x}`:         `error=answer "{\"a\":1,\"b\":x}", want a JSON object`,
		strings.Repeat("[", 99): `error=answer "` + strings.Repeat("[", 80) + `", want a JSON object`,
		`{"a":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`: `error=answer "{\"a\":` + strings.Repeat("[", 75) + `", want a JSON object`,
	} {
		t.Run(fmt.Sprintf("%.60s", answer), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "answer")
			must.OK(t, os.WriteFile(file, []byte(answer+"\n"), 0o666))
			got, end := stayed(t, answering("cat "+file), ExecLimits{Timeout: time.Minute}, "x", "y")
			for _, g := range got {
				if g, _, _ = strings.Cut(g, ", asked for "); g != want || end != nil {
					t.Errorf("%.100s: %q, end %v, want %q", answer, g, end, want)
				}
			}
		})
	}
}

// A program that misbehaves on one document loses the findings of that document, and the
// next is asked of a new one.
func TestStayFailures(t *testing.T) {
	starts := filepath.Join(t.TempDir(), "starts")
	for _, tt := range []struct{ commands, want string }{
		{`echo x >> ` + starts + `; echo why >&2; exit 3`, "error=it ended 3 times without an answer to all it was asked, in the end for http://h/1?a&b; it wrote: why"},
		{`sleep 600`, "error=no answer for 2s, asked for http://h/1?a&b; an answer must not wait"},
		{`head -c 100000 /dev/zero | tr '\0' y`, "error=an answer of more than 65536 bytes"},
		{`printf '{}\n{}\n'`, "error=more answers than questions"},
		{`echo debugging`, `error=answer "debugging", want a JSON object`},
		{`printf '{"a":1'; exec >&-; sleep 600`, "error=it ended 3 times"},
	} {
		t.Run(fmt.Sprintf("%.60s", tt.want), func(t *testing.T) {
			bound := ExecLimits{Timeout: time.Minute}
			if strings.HasPrefix(tt.commands, "sleep") { // those that are waited for in vain
				bound.Timeout = 2 * time.Second
			}
			got, end := stayed(t, answering(`case $body in bad) `+tt.commands+` ;; *) printf '{"k":"%s"}\n' "$body" ;; esac`), bound, "one", "bad", "two")
			if end != nil || len(got) != 3 || got[0] != "k=one" || !strings.HasPrefix(got[1], tt.want) || got[2] != "k=two" {
				t.Errorf("%s: %q, end %v, want %q", tt.commands, got, end, tt.want)
			}
			if b, _ := os.ReadFile(starts); strings.Contains(tt.commands, starts) && string(b) != "x\nx\nx\n" {
				t.Errorf("tried %q times, want 3", b)
			}
		})
	}

	// One that answers a single document each time it is started.
	if got, end := stayed(t, `read -r line; n=${line##*:}; head -c "${n%\}}" > /dev/null; echo '{"k":1}'`, ExecLimits{Timeout: time.Minute}, "a", "b", "c"); strings.Join(got, " ") != "k=1 k=1 k=1" || end != nil {
		t.Error(got, end)
	}
	// One that does not read the document, which would be read as the next question.
	got, end := stayed(t, `head -c 1 > /dev/null; echo '{"k":1}'; exec sleep 600`, ExecLimits{Timeout: 500 * time.Millisecond}, strings.Repeat("x", 1<<20))
	if !strings.HasPrefix(got[0], "error=an answer before it had read all of the question") || end != nil {
		t.Error(got, end)
	}
	got, end = stayed(t, "no-such-program 2> /dev/null", ExecLimits{Timeout: time.Minute}, "x")
	if !strings.HasPrefix(got[0], "error=it ended 3 times") || end != nil {
		t.Error(got, end)
	}
	// Answers that nobody asked for are found at the next document, or at the end.
	file := filepath.Join(t.TempDir(), "file")
	late := answering(`echo '{}'; case $body in bad) (until [ -e ` + file + ` ]; do sleep 0.01; done; echo '{}'; rm ` + file + `) & ;; esac`)
	if got, end := stayed(t, late, ExecLimits{Timeout: time.Minute}, "bad", "go on: "+file, "x"); !strings.HasPrefix(strings.Join(got, "|"), "|error=more answers") || end != nil {
		t.Error(got, end)
	}
	if got, end := stayed(t, late, ExecLimits{Timeout: time.Minute}, "bad", "go on: "+file); got[0] != "" || !strings.Contains(fmt.Sprint(end["m"]), "more answers than questions") {
		t.Error(got, end)
	}
	if _, end := stayed(t, answering(`echo '{}'`)+"; exit 4", ExecLimits{Timeout: time.Minute}, "x"); !strings.Contains(fmt.Sprint(end["m"]), "exit status 4") {
		t.Error(end)
	}
	for spec, want := range map[string]string{"m=*/*:stay": "no command", "m=*/*: stay ": "no command"} {
		if _, err := Parse(spec, ExecLimits{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", spec, err, want)
		}
	}
	if m, err := Parse("m=*/*:stayed x", ExecLimits{}); err != nil || m.Module.(*Exec).Stay || m.Module.(*Exec).Command != "stayed x" {
		t.Error(m, err)
	}
}

// A program that stays keeps state as others do.
func TestStayState(t *testing.T) {
	m, err := Parse("m=*/*:stay case $MERCATOR_EVENT in document) "+answering(`printf '{"k":"%s"}\n' "$body"`)+` ;; commit) cat > "$MERCATOR_MODULE_DIR/all" ;; esac`, ExecLimits{})
	must.OK(t, err)
	r := NewRunner([]Selected{m})
	state, err := m.Module.(Stateful).Begin(t.Context(), &bytes.Buffer{}, "r1")
	must.OK(t, err)
	defer state.Close(t.Context())
	found, _ := r.Run(t.Context(), &Document{Body: []byte("hello")})
	if err := r.Close(); err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	must.OK(t, state.Add(7, found[0]))
	var out bytes.Buffer
	if err := state.Write(t.Context(), &out); err != nil || !strings.Contains(out.String(), "0000000000000007\tk\thello\n") {
		t.Errorf("%q %v", out.String(), err)
	}
}
