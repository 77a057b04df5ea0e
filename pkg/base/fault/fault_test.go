package fault

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// TestClassOf: an error without a class, which adds a hint or a file, has the class of its cause.
func TestClassOf(t *testing.T) {
	damaged := &Error{Class: Corrupt, File: "j"}
	for _, c := range []struct {
		err  error
		want Class
	}{
		{nil, ""}, {errors.New("x"), ""}, {Busy, Busy}, {damaged, Corrupt},
		{&Error{Err: damaged, Hint: "h"}, Corrupt}, {&Error{Err: fmt.Errorf("in a file: %w", &Error{Err: fmt.Errorf("%w", damaged)})}, Corrupt},
		{&Error{Class: Usage, Err: damaged}, Usage}, {&Error{Err: Busy}, Busy}, {&Error{Found: "x"}, ""}, {&Error{Err: errors.New("x")}, ""},
		{errors.Join(&Error{Found: "x"}, damaged), Corrupt}, {errors.Join(damaged, &Error{Class: Usage}), Corrupt},
	} {
		if got := ClassOf(c.err); got != c.want {
			t.Errorf("%v: class %q, want %q", c.err, got, c.want)
		}
	}
}

// A command in a hint can be typed as it is printed, whatever a server put into it.
func TestHintsCanBeTyped(t *testing.T) {
	for _, word := range []string{"http://h/a'b;touch$IFS/tmp/x;'c", `back\slash`, `"quoted"`, "a b", "$(id)", "`id`", `'\''`, `\\'"`} {
		t.Run(word, func(t *testing.T) {
			err := &Error{Found: "x", Hint: "do: " + Quote("printf", "%s", word)}
			command := strings.TrimPrefix(HintOf(err), "do: ")
			if out, err := exec.Command("sh", "-c", command).Output(); err != nil || string(out) != word {
				t.Errorf("%s gives %q, %v; want %q", command, out, err, word)
			}
		})
	}
}
