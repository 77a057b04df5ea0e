package coprocess

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"mercator/pkg/base/fault"
)

// ask asks a program n questions, the numbers from 0 on, and closes it.
func ask(t *testing.T, p *Program, n int) (answers []string, err error) {
	t.Helper()
	var questions strings.Builder
	for k := range n {
		fmt.Fprintln(&questions, k)
	}
	err = p.Ask(t.Context(), []byte(questions.String()), n, func(k int) string { return fmt.Sprint("question ", k) }, func(k int, answer string) error {
		if k != len(answers) {
			t.Errorf("answer %d after %d", k, len(answers))
		}
		if answer == "bad" {
			return errors.New("a bad answer")
		}
		answers = append(answers, answer)
		return nil
	})
	return answers, errors.Join(err, p.Close())
}

func TestAnswers(t *testing.T) {
	p := &Program{Command: "sed -u s/^/x/"}
	for _, n := range []int{0, 1, 20_000} { // the last is more than pipes hold
		got, err := ask(t, p, n)
		if err != nil || len(got) != n || n > 0 && got[n-1] != fmt.Sprint("x", n-1) {
			t.Fatal(n, len(got), err)
		}
	}
}

func TestRestart(t *testing.T) {
	p := &Program{Command: "read l; echo $l", Deaths: 100}
	if got, err := ask(t, p, 50); err != nil || strings.Join(got[:3], " ") != "0 1 2" {
		t.Fatal(got, err)
	}
	if _, err := ask(t, &Program{Command: "read l; echo $l"}, 2); !errors.Is(err, fault.Program) || !strings.HasSuffix(err.Error(), "it ended without an answer, asked for question 1") {
		t.Fatal(err)
	}
}

func TestFailures(t *testing.T) {
	for command, want := range map[string]string{
		"true":                            "it ended without an answer, asked for question 0",
		"no-such-program-here":            "it ended without an answer",
		"sed -u s/1/bad/":                 "a bad answer, asked for question 1",
		"cat > /dev/null":                 "no answer for 500ms, asked for question 0",
		"sed -u 's/.*/a\\nb/'":            "more answers than questions",
		"cat; echo more":                  "more answers than questions",
		"cat; exit 4":                     "it ended with exit status 4",
		"cat; sleep 100":                  "no end within 500ms of its input's",
		"read x; tr -d '\\n' < /dev/zero": "an answer of more than 4096 bytes",
		"echo why >&2; exit 1":            "hint: it wrote: why",
		"cat > /dev/null; sleep 100":      "hint: an answer must not wait in a buffer",
	} {
		t.Run(command, func(t *testing.T) {
			p := &Program{Command: command, Timeout: time.Minute}
			if strings.Contains(command, "> /dev/null") || strings.Contains(command, "sleep") { // those that are waited for in vain
				p.Timeout = 500 * time.Millisecond
			}
			_, err := ask(t, p, 3)
			if text := fmt.Sprintf("%v hint: %s", err, fault.HintOf(errors.Unwrap(wrapped{err}))); !strings.Contains(text, want) || !errors.Is(err, fault.Program) {
				t.Errorf("%s: %v, want %q", command, text, want)
			}
		})
	}
}

// wrapped takes apart what errors.Join has put together.
type wrapped struct{ error }

func (w wrapped) Unwrap() error {
	if j, ok := w.error.(interface{ Unwrap() []error }); ok {
		return j.Unwrap()[0]
	}
	return w.error
}

func TestCancelled(t *testing.T) {
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(context.Background())
	time.AfterFunc(50*time.Millisecond, func() { cancel(gone) })
	p := &Program{Command: "sleep 100"}
	defer p.Kill()
	if err := p.Ask(ctx, []byte("a\n"), 1, func(int) string { return "a" }, func(int, string) error { return nil }); !errors.Is(err, gone) {
		t.Error(err)
	}
}
