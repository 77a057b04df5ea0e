// Package fault is the one error type that users of the commands see.
//
// Every package below cmd reports bad input, a busy store or a broken pipe as
// a *fault.Error, which names the file, the place in it, what was found and
// what was wanted. Package cli prints it once and turns its class into the
// exit code; nothing below cli exits or logs.
//
// errors.Is(err, fault.Corrupt) works through any wrapping, because a Class is
// itself an error.
package fault

import (
	"errors"
	"strings"
)

// Class sorts faults by what the caller can do about them. Each has an exit
// code of its own (see ExitCode).
type Class string

// The classes. An error that carries none of them is an ordinary failure.
const (
	Usage       Class = "usage"                      // the command line or crawl.toml is wrong, or a file is not there that they name
	Corrupt     Class = "corrupt"                    // a checksum, a bound or a rule of a format does not hold
	Truncated   Class = "truncated"                  // a file ends before its trailer
	WrongKind   Class = "wrong kind"                 // the input is another kind of file or record
	Version     Class = "unsupported version"        // of another version
	Upstream    Class = "the pipe ended early"       // standard input ended without its trailer
	Busy        Class = "busy"                       // another process holds the store
	No          Class = "no"                         // a check or a test answered no
	Program     Class = "a program failed"           // one that the user named: a filter's, a prioritizer
	Interrupted Class = "interrupted"                // the user stopped the command
	Superseded  Class = "superseded"                 // another process has taken over the work of this one
	Conflict    Class = "conflict with stored state" // a transaction name, round or epoch does not fit the store
)

func (c Class) Error() string { return string(c) }

// ExitCode is the process exit code for the class, as README.md lists them.
func (c Class) ExitCode() int {
	switch c {
	case Usage:
		return 2
	case Corrupt, Truncated, WrongKind, Version:
		return 3
	case Upstream:
		return 4
	case Busy:
		return 5
	case No:
		return 6
	case Program:
		return 7
	case Superseded:
		return 8
	case Interrupted:
		return 130
	}
	return 1
}

// OfExitCode is the class that an exit code tells; "" where it tells none.
func OfExitCode(code int) Class {
	for _, c := range []Class{Usage, Corrupt, Upstream, Busy, No, Program, Superseded, Interrupted} {
		if c.ExitCode() == code {
			return c
		}
	}
	return ""
}

// Error is a fault with its place. Empty fields are left out of the message:
//
//	seen.fps: block 17 at byte 1048576: checksum 9f3a01c2, want 77d0be4e
type Error struct {
	Class Class
	File  string // path, or "standard input"
	Place string // "block 17 at byte 1048576", "line 3"; may be empty
	Found string // what was found
	Want  string // what was wanted; may be empty
	Hint  string // one sentence that says what to do; may be empty
	Err   error  // the cause, for errors.Is; its text is not printed when Found is set
}

func (e *Error) Error() string {
	var b strings.Builder
	for _, s := range []string{e.File, e.Place} {
		if s != "" {
			b.WriteString(s)
			b.WriteString(": ")
		}
	}
	switch {
	case e.Found != "":
		b.WriteString(e.Found)
	case e.Err != nil:
		b.WriteString(e.Err.Error())
	default:
		b.WriteString(string(e.Class))
	}
	if e.Want != "" {
		b.WriteString(", want ")
		b.WriteString(e.Want)
	}
	return b.String()
}

// Is reports whether target is the error's class.
func (e *Error) Is(target error) bool {
	c, ok := target.(Class)
	return ok && c == e.Class
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// As sets a Class to the error's, if it has one.
func (e *Error) As(target any) bool {
	c, ok := target.(*Class)
	if ok = ok && e.Class != ""; ok {
		*c = e.Class
	}
	return ok
}

// ClassOf returns the outermost class in err's chain, or "". An Error without a class takes its cause's.
func ClassOf(err error) (c Class) {
	errors.As(err, &c)
	return c
}

// HintOf returns the first hint in err's chain, or "".
//
// A command in a hint stands behind a colon, to the hint's end or to a semicolon, as Quote makes it, so that it can be typed as it is printed.
func HintOf(err error) string {
	for err != nil {
		var e *Error
		if !errors.As(err, &e) {
			return ""
		}
		if e.Hint != "" {
			return e.Hint
		}
		err = e.Err
	}
	return ""
}
