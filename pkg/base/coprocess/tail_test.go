package coprocess

import (
	"fmt"
	"strings"
	"testing"
)

// TestWhy: interpreters print an error before or behind its traceback.
func TestWhy(t *testing.T) {
	for name, c := range map[string]struct{ wrote, want string }{
		"nothing":     {"", ""},
		"one line":    {"cannot open x\n", "cannot open x"},
		"empty lines": {"\n  \nusage: x\n\n", "usage: x"},
		"python":      {"Traceback (most recent call last):\n  File \"bad.py\", line 2, in <module>\n    raise ValueError(7)\nValueError: bad row 7\n", "ValueError: bad row 7"},
		"a module's":  {"Traceback (most recent call last):\n  File \"x\", line 1\njson.decoder.JSONDecodeError: Expecting value\n", "json.decoder.JSONDecodeError: Expecting value"},
		"chained": {"Traceback (most recent call last):\n  File \"a\"\nKeyError: 'x'\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\nRuntimeError: no x\n",
			"RuntimeError: no x"},
		"node": {"/a/b.js:1\nthrow new Error(\"no row\")\n^\n\nError: no row\n    at Object.<anonymous> (/a/b.js:1:7)\n\nNode.js v18.13.0\n", "Error: no row"},
		"java": {"Exception in thread \"main\" java.lang.IllegalStateException: no row\n\tat Main.main(Main.java:3)\n", "Exception in thread \"main\" java.lang.IllegalStateException: no row"},
		"go":   {"panic: no row\n\ngoroutine 1 [running]:\nmain.main()\n\t/a/main.go:3 +0x25\nexit status 2\n", "panic: no row"},
		"perl": {"no row at bad.pl line 3.\n", "no row at bad.pl line 3."},
		"long": {strings.Repeat("warning\n", maxTail) + "no row\n", "no row"},
	} {
		t.Run(name, func(t *testing.T) {
			var tail Tail
			for part := range strings.SplitAfterSeq(c.wrote, " ") {
				fmt.Fprint(&tail, part)
			}
			if got := tail.Why(); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
