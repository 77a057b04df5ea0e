package cli

import (
	"fmt"
	"testing"

	"github.com/alecthomas/kong"
)

// TestVerbsOfHelp: help lists all verbs, also where its flag is one of a group; else a command builds those that it may need.
func TestVerbsOfHelp(t *testing.T) {
	for _, test := range []struct {
		args  []string
		verbs int
	}{{[]string{"-q"}, 1}, {[]string{"-q", "more"}, 2}, {[]string{"--hosts"}, 1}, {[]string{"-h"}, 3}, {[]string{"-qh"}, 3}, {[]string{"x", "-hq"}, 3}, {[]string{"--help"}, 3}} {
		t.Run(fmt.Sprint(test.args), func(t *testing.T) {
			var grammar struct {
				Main  struct{} `cmd:"" default:"withargs"`
				More  struct{} `cmd:""`
				Other struct{} `cmd:""`
			}
			parser, err := kong.New(&grammar, kong.IgnoreFields(withoutOthers(&grammar, test.args)))
			if err != nil {
				t.Fatal(err)
			}
			if have := len(parser.Model.Children); have != test.verbs {
				t.Errorf("%q: %d verbs, want %d", test.args, have, test.verbs)
			}
		})
	}
}
