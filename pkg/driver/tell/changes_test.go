package tell

import (
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"
)

func TestSharedLines(t *testing.T) {
	for _, tt := range []struct{ name, was, now, want string }{
		{"a line that stands twice, between changed ones", "a twice b twice c", "A twice B twice C", "-a +A  twice -b +B  twice -c +C"},
		{"one that is added", "x twice a twice y", "x twice twice A twice y", " x  twice -a +twice +A  twice  y"},
		{"moved", "a a b b", "b b a a", "-a -a  b  b +a +a"},
		{"all is new", "", "a a", "+a +a"},
		{"all is gone", "a a", "", "-a -a"},
		{"as they are", "a b c", "a B c", " a -b +B  c"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lines := func(s string) (text []byte) {
				for word := range strings.FieldsSeq(s) {
					text = append(text, word+"\n"...)
				}
				return text
			}
			_, text, _ := strings.Cut(string(diff.Diff("was", lines(tt.was), "now", lines(tt.now))), "\n")
			got := strings.Split(strings.TrimSuffix(sharedLines(text), "\n"), "\n")[3:] // behind the names and the place
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("%q, want %q", s, tt.want)
			}
			var was, now []string
			for _, line := range got {
				if line[0] != '+' {
					was = append(was, line[1:])
				}
				if line[0] != '-' {
					now = append(now, line[1:])
				}
			}
			if !slices.Equal(was, strings.Fields(tt.was)) || !slices.Equal(now, strings.Fields(tt.now)) {
				t.Errorf("from %q to %q", was, now)
			}
		})
	}
	large := strings.Repeat("-a\n", 1<<12) + strings.Repeat("+a\n", 1<<12)
	if got := sharedLines(large); got != large {
		t.Error("a block above the bound was changed")
	}
}
