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

// TestPacked: a list that is compressed is told from one whose first line begins alike, and the hint works for a file of any name.
func TestPacked(t *testing.T) {
	for _, c := range []struct{ name, head, file, found, hint string }{
		{"gzip", "\x1f\x8b\x08\x00", "a.gz", "gzip data", "unpack it first: gunzip -k a.gz"},
		{"xz", "\xfd7zXZ\x00", "a b.xz", "xz data", "unpack it first: unxz -k 'a b.xz'"},
		{"bzip2", "BZh91A", "a.bz2", "bzip2 data", "unpack it first: bunzip2 -k a.bz2"},
		{"bzip2 by four bytes", "BZh1", "a.bz2", "bzip2 data", "unpack it first: bunzip2 -k a.bz2"},
		{"without its ending", "\x1f\x8b\x08\x00", "seeds.txt", "gzip data", "unpack it first: gunzip < seeds.txt > unpacked"},
		{"standard input", "BZh91A", "-", "bzip2 data", "unpack it first: put bunzip2 -c | before this command"},
		{"a host", "BZh.ex", "seeds.txt", "", ""},
		{"a host with a digit", "BZh1.e", "seeds.txt", "", ""},
		{"short", "BZh", "seeds.txt", "", ""},
		{"empty", "", "seeds.txt", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if found, hint := Packed(c.head, c.file); found != c.found || hint != c.hint {
				t.Errorf("%q, %q, want %q, %q", found, hint, c.found, c.hint)
			}
		})
	}
}
