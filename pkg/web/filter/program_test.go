//go:build unix

package filter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mercator/pkg/base/coprocess"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

// judge has a rule file judge n URLs http://h/0, http://h/1, … and returns the reasons of the refusals, "" where
// a URL is wanted.
func judge(t *testing.T, rules string, n int) ([]string, error) {
	t.Helper()
	f, err := Parse("rules", strings.NewReader(rules))
	must.OK(t, err)
	j := f.NewJudge()
	var candidates []Candidate
	for i := range n {
		candidates = append(candidates, *candidate(t, fmt.Sprintf("http://h/%d", i)))
	}
	verdicts := make([]Verdict, n)
	err = errors.Join(j.URLs(t.Context(), candidates, verdicts), j.Close())
	reasons := make([]string, n)
	for i, v := range verdicts {
		if !v.Allow {
			reasons[i] = v.Reason()
		}
	}
	return reasons, err
}

// quoted is a command as it stands in a rule.
func quoted(command string) string { return `"` + strings.ReplaceAll(command, `"`, `\"`) + `"` }

// even says yes to URLs with an even number.
const even = `sed -u -E 's/^[^\t]*[02468]\t.*/yes\teven/; t; s/.*/no/'`

func TestProgram(t *testing.T) {
	// Programs of several rules, and one of two rules: each is asked for what the rules before it left open.
	got, err := judge(t, `deny three: suffix 3
deny even: exec `+quoted(even)+` and not suffix 4
allow : suffix 5
deny again: not exec `+quoted(even)+` and exec "sed -u s/.*/yes/"
`, 5000)
	must.OK(t, err)
	for i, reason := range got {
		want := ""
		switch {
		case i%10 == 3:
			want = "filter:three"
		case i%2 == 0 && i%10 != 4:
			want = "filter:even"
		case i%10 == 5 || i%2 == 0:
		default:
			want = "filter:again"
		}
		if reason != want {
			t.Fatalf("%d: %q, want %q", i, reason, want)
		}
	}
}

// What a program gets is one line, whatever stands in the candidate.
func TestQuestion(t *testing.T) {
	c := candidate(t, "http://h:8080/a?b\tc")
	c.Kind, c.MIME = "a\tb\nc", "text/html"
	if got, want := string(appendQuestion(nil, c)), "http://h:8080/a?bc\th:8080\t3\ta b c\ttext/html\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A program that dies is started again and asked for what it has not answered.
func TestProgramDies(t *testing.T) {
	for _, command := range []string{
		`head -n 7 | sed -u 's/.*/yes/'`, // it answers seven and ends
		`read l; echo yes`,
	} {
		n := 60
		if strings.HasPrefix(command, "head") {
			n = 490 // seven times seventy: it writes when it has seven
		}
		got, err := judge(t, "deny x: exec "+quoted(command), n)
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		for i, reason := range got {
			if reason != "filter:x" {
				t.Fatalf("%s: %d: %q", command, i, reason)
			}
		}
	}
}

func TestProgramErrors(t *testing.T) {
	marks := filepath.Join(t.TempDir(), "starts")
	for command, want := range map[string]string{
		"true":                           "it ended 3 times without an answer to all it was asked, in the end for http://h/0",
		"echo starting >> " + marks:      "it ended 3 times",
		"exit 3":                         "it ended 3 times",
		"no-such-program-here":           "it ended 3 times",
		"read l; echo yes":               "it ended 100 times",
		"read l; echo maybe; sleep 1000": `answer "maybe", want yes or no, asked for http://h/0`,
		"read l; echo yes; read l; echo; sleep 1000": `answer "", want yes or no, asked for http://h/1`,
		"sleep 1000":                    "no answer for 300ms, asked for http://h/0",
		"sed -u s/.*/yes/ & sleep 1000": "it ended|no answer|no end",
		"exec < /dev/null; sleep 1000":  "no answer for 300ms",
		"read x; head -c 100000 /dev/zero | tr '\\0' y; sleep 1000": "an answer of more than 4096 bytes",
		"sed -u 's/.*/yes\\nno/'":                                   "more answers than questions",
		"sed -u s/.*/yes/; echo no":                                 "more answers than questions",
		"sed -u s/.*/yes/; exit 4":                                  "it ended with exit status 4",
		"sed -u s/.*/yes/; sleep 1000":                              "no end within 1s of its input's",
	} {
		t.Run(command, func(t *testing.T) {
			start := time.Now()
			timeout := "1m" // so that a machine that is busy does not change the error
			if strings.Contains(want, "for 300ms") {
				timeout = "300ms"
			} else if strings.Contains(want, "no end") {
				timeout = "1s"
			}
			_, err := judge(t, "timeout "+timeout+"\ndeny x: exec "+quoted(command), 200)
			ok := false
			for _, w := range strings.Split(want, "|") {
				ok = ok || err != nil && strings.Contains(err.Error(), w)
			}
			if !ok || !strings.HasPrefix(err.Error(), "exec "+command+": ") {
				t.Errorf("%s: %v, want %q", command, err, want)
			}
			if d := time.Since(start); d > 5*time.Minute { // the programs would take 1000 s
				t.Errorf("%s: took %v, want its timeout of %s", command, d, timeout)
			}
		})
	}
	if b, _ := os.ReadFile(marks); strings.Count(string(b), "\n") != coprocess.Fruitless {
		t.Errorf("started %q times, want %d", b, coprocess.Fruitless)
	}
}

// A program that ends and leaves another one running leaves nothing.
func TestProgramLeavesNothing(t *testing.T) {
	child := must.NewChild(t)
	_, err := judge(t, "deny x: exec "+quoted(child.Script+" > /dev/null 2>&1 < /dev/null & exec sed -u s/.*/no/"), 1)
	must.OK(t, err)
	child.Killed(t)
}

// The last line of standard error tells the user what happened.
func TestProgramStderr(t *testing.T) {
	_, err := judge(t, `deny x: exec "echo one >&2; echo cannot find my rules >&2; exit 1"`, 1)
	if err == nil || !strings.Contains(fault.HintOf(err), "cannot find my rules") {
		t.Errorf("%v, hint %q", err, fault.HintOf(err))
	}
}

func TestProgramIsCancelled(t *testing.T) {
	f, err := Parse("rules", strings.NewReader(`deny x: exec "sleep 1000"`))
	must.OK(t, err)
	j := f.NewJudge()
	defer j.Close()
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(context.Background())
	time.AfterFunc(100*time.Millisecond, func() { cancel(gone) })
	start := time.Now()
	if err := j.URLs(ctx, []Candidate{*candidate(t, "http://h/")}, make([]Verdict, 1)); !errors.Is(err, gone) {
		t.Error(err)
	}
	if d := time.Since(start); d > 5*time.Minute { // the program would take 1000 s
		t.Errorf("took %v after it was cancelled", d)
	}
}

func TestProgramIsExplained(t *testing.T) {
	f, err := Parse("rules", strings.NewReader("deny odd: not exec "+quoted(even)+"\ndeny x: exec "+quoted(even)+" and exec \"sed -u s/.*/no/\" and any"))
	must.OK(t, err)
	j := f.NewJudge()
	traces, v, err := j.Explain(context.Background(), *candidate(t, "http://h/8"), false)
	must.OK(t, err, j.Close())
	var got []string
	for _, r := range traces {
		for _, x := range r.Tests {
			got = append(got, fmt.Sprintf("%s %v %.8s %s %q", r.Rule.Name, r.Holds, x.Test, x.Outcome, x.Value))
		}
	}
	want := `odd false exec "se yes "even"
x false exec "se yes "even"
x false exec "se no ""
x false any not needed ""`
	if s := strings.Join(got, "\n"); s != want || !v.Allow {
		t.Errorf("%v\n%s\nwant\n%s", v, s, want)
	}
}
