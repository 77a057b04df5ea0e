package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
)

func TestScreen(t *testing.T) {
	const url = "http://www.example.org/a/long/path/to/a/page.html"
	tests := []struct {
		name  string
		width int
		in    string
		want  string
	}{
		{"no terminal", 0, "found\t" + url + " and more\n", "found\t" + url + " and more\n"},
		{"fits", 60, "found " + url + "\n", "found " + url + "\n"},
		{"the middle goes", 40, "found " + url + "\n", "found http://www.exampl…h/to/a/page.html\n"},
		{"the longest goes first", 70, "from http://www.example.org/ " + url + "\n", "from http://www.example.org/ http://www.example.o…/path/to/a/page.html\n"},
		{"never below its least", 10, "found " + url + "\n", "found http://w…ge.html\n"},
		{"other words stay", 10, "a line without an address\n", "a line without an address\n"},
		{"a command stays", 20, "next: \x1b[36mmcrawl site " + url + " x\x1b[0m\n", "next: \x1b[36mmcrawl site " + url + " x\x1b[0m\n"},
		{"colours take no room", 55, "\x1b[1mfound\x1b[0m " + url + "\n", "\x1b[1mfound\x1b[0m " + url + "\n"},
		{"characters count, not bytes", 54, "größe " + url[:48] + "\n", "größe " + url[:48] + "\n"},
		{"tabs are columns", 60, url + "\trule\thttp://b/\n" + "http://a/\ta-longer-name\thttp://b/\n",
			"http://www.…/page.html  rule          http://b/\nhttp://a/              a-longer-name  http://b/\n"},
		{"a first cell that is no URL", 60, "mailto:a@b\trule\thttp://b/\n", "mailto:a@b              rule          http://b/\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, size := range []int{1, 7, len(tt.in)} { // of a write
				var out bytes.Buffer
				w := &Screen{out: &out, width: tt.width}
				for part := []byte(tt.in); len(part) > 0; part = part[min(size, len(part)):] {
					if _, err := w.Write(part[:min(size, len(part))]); err != nil {
						t.Fatal(err)
					}
				}
				if got := out.String(); got != tt.want {
					t.Errorf("%s, %d bytes a write:\n%q, want\n%q", tt.name, size, got, tt.want)
				}
			}
		})
	}
}

// TestHeading: the heading of a table is lined up as if it had no style.
func TestHeading(t *testing.T) {
	for _, of := range []struct {
		w    Screen
		want string
	}{{Screen{width: 80, colors: true}, "\x1b[1ma   b\x1b[0m\n10  20\n"}, {Screen{}, "a   b\n10  20\n"}} {
		var out bytes.Buffer
		of.w.out = &out
		table := tabwriter.NewWriter(&of.w, 0, 0, 2, ' ', 0)
		fmt.Fprintf(table, "%s\n10\t20\n", of.w.Paint("heading", "a\tb"))
		table.Flush()
		if out.String() != of.want {
			t.Errorf("%q, want %q", out.String(), of.want)
		}
	}
}

// TestScreenIsBounded writes a line that does not end.
func TestScreenIsBounded(t *testing.T) {
	var out bytes.Buffer
	w := &Screen{out: &out, width: 80}
	for range 40 {
		fmt.Fprint(w, strings.Repeat("x", longestPart/16))
	}
	if len(w.line) > longestPart || out.Len()+len(w.line) != 40*longestPart/16 {
		t.Fatalf("%d bytes written, %d held", out.Len(), len(w.line))
	}
}
