package driver

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mercator/pkg/crawl"
	"mercator/pkg/fault"
	"mercator/pkg/stats"
)

// A record of times is added to by the stages of a round, and the later attempt of a command counts; one that is damaged is an error that
// says what to type, until the next stage replaces it.
func TestTimesFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "rounds", "r1"), 0o755); err != nil {
		t.Fatal(err)
	}
	d, file := &Driver{}, filepath.Join(dir, "rounds", "r1", crawl.TimesFile)
	keep := func(spent ...stats.Spent) {
		t.Helper()
		if err := d.keepTimes(plan{crawl: dir}, "r1", spent); err != nil {
			t.Fatal(err)
		}
	}
	if spent, err := readTimes(file); spent != nil || err != nil {
		t.Fatalf("%v, %v", spent, err)
	}
	keep(stats.Spent{Command: "mresolve", OwnS: 1}, stats.Spent{Command: "mfetch", OwnS: 1})
	keep(stats.Spent{Command: "mfetch", OwnS: 2})
	spent, err := readTimes(file)
	if err != nil || len(spent) != 2 || spent[0].OwnS != 1 || spent[1].OwnS != 2 {
		t.Fatalf("%+v, %v", spent, err)
	}
	for _, bad := range []string{"", "{", `{"version":2}`, `{"version":1,"commands":[{"command":"mfetch","own_s":-1}]}`, `{"version":1,"commands":[{"command":"mfetch","elapsed_s":1e300}]}`,
		`{"version":1,"commands":[` + strings.Repeat(" ", timesMax) + `]}`} {
		if err := os.WriteFile(file, []byte(bad), 0o644); err != nil {
			t.Fatal(err)
		}
		var f *fault.Error
		if _, err := readTimes(file); !errors.As(err, &f) || f.Class != fault.Corrupt || f.File != file || !strings.HasPrefix(f.Hint, `"rm `) {
			t.Errorf("%.60q: %v", bad, err)
		}
	}
	keep(stats.Spent{Command: "mfetch", OwnS: 3})
	if spent, err := readTimes(file); err != nil || len(spent) != 1 || spent[0].OwnS != 3 {
		t.Errorf("%+v, %v", spent, err)
	}
}
