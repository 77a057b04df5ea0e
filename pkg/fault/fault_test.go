package fault

import (
	"errors"
	"fmt"
	"testing"
)

// TestClassOf: an error without a class, which adds a hint or a file, has that of its cause.
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
