package release

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each page that says a version says the newest of the table, and each line of the table is of such a page.
func TestPages(t *testing.T) {
	pages := map[string]string{}
	for _, top := range []string{"../../../formats/*/SPEC.md", "../../../pkg/*/SPEC.md", "../../../pkg/*/*/SPEC.md"} {
		files, err := filepath.Glob(top)
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			title, _, _ := strings.Cut(string(text), "\n")
			if m := regexp.MustCompile(`, version (\d+)$`).FindStringSubmatch(title); m != nil {
				pages[strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), "../../../")] = m[1]
			}
		}
	}
	for format, f := range formats {
		t.Run(string(format), func(t *testing.T) {
			newest := f.versions[len(f.versions)-1]
			if f.page != "" && pages[f.page] != fmt.Sprint(newest.n) {
				t.Errorf("its page %s says version %q, want %d", f.page, pages[f.page], newest.n)
			}
			if newest.read != "" {
				t.Errorf("version %d is written, and read by release %s alone", newest.n, newest.read)
			}
			for i, v := range f.versions[1:] {
				if v.n <= f.versions[i].n {
					t.Errorf("version %d stands behind %d", v.n, f.versions[i].n)
				}
			}
		})
	}
}

func TestHint(t *testing.T) {
	some := []version{{3, "1.0.0", "1.4.0"}, {4, "1.2.0", ""}, {5, "1.5.0", ""}}
	for found, want := range map[uint64]string{
		2: "it is older than release 1.0.0, the first whose files are read",
		3: "release 1.4.0 reads it",
		4: "release 1.2.0 or a later one reads it",
		6: "a release after " + Version + " wrote it: use that one, or a later one; if there was none, the file is damaged",
	} {
		t.Run(fmt.Sprint(found), func(t *testing.T) {
			if got := hint(some, found); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}
