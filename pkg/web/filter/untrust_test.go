package filter

import (
	"slices"
	"strings"
	"testing"
)

func TestUntrust(t *testing.T) {
	for _, c := range []struct {
		name, text string
		programs   []string
		includes   []string
	}{
		{"none", "deny a: host b\nallow executive: host exec.test\n", nil, nil},
		{"one", "\ufeffdeny a: exec \"judge -v\"\ndefault deny\n", []string{"judge -v"}, nil},
		{"without a name, tabs", "\t deny\t: \texec\tjudge # text\n", []string{"judge"}, nil},
		{"in conditions", "allow x: host b and (not exec one or exec \"two 2\")\r\nallow y: host c\r\n", []string{"one", "two 2"}, nil},
		{"first of all", "match all\nallow z: (exec one)\n", []string{"one"}, nil},
		{"a quoted word", "deny q: host \"exec\"\n", nil, nil},
		{"includes", "include sub/more.rules without a\ninclude default\ninclude \"/etc/r s\"\ndeny a: host b\n", nil, []string{"dir/sub/more.rules", "/etc/r s"}},
		{"in a comment", "# deny a: exec judge\ndeny b: host c # exec judge\n", nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			clean, programs, includes := Untrust("dir/my.rules", []byte(c.text))
			if !slices.Equal(programs, c.programs) || !slices.Equal(includes, c.includes) {
				t.Errorf("programs %q, want %q; includes %q, want %q", programs, c.programs, includes, c.includes)
			}
			if len(c.programs) == 0 && string(clean) != c.text {
				t.Errorf("changed: %q", clean)
			}
			if len(c.includes) > 0 {
				return
			}
			f, err := Parse("dir/my.rules", strings.NewReader(string(clean)))
			if err != nil {
				t.Fatalf("%v of %q", err, clean)
			}
			defer f.Close()
			if len(f.programs) > 0 {
				t.Errorf("%q still runs %q", clean, f.programs)
			}
			if was, err := Parse("dir/my.rules", strings.NewReader(c.text)); err != nil || !slices.Equal(was.programs, c.programs) || len(was.Rules) != len(f.Rules) {
				t.Errorf("the text itself: %v, programs %q", err, was.programs)
			}
		})
	}
}
