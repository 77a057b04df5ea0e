package tell

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/crawl"
	"mercator/pkg/view/stats"
)

// Each stage of a round adds to the record of times; stages may run the same command. The later attempt of a stage counts. A damaged record is an error that
// says what to type, until the next stage replaces the record.
func TestTimesFile(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, os.MkdirAll(filepath.Join(dir, "rounds", "r1"), 0o755))
	file, stage := filepath.Join(dir, "rounds", "r1", crawl.TimesFile), ""
	keep := func(spent ...stats.Spent) {
		if err := KeepTimes(file, stage, spent); err != nil {
			t.Error(err)
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
		must.OK(t, os.WriteFile(file, []byte(bad), 0o644))
		var f *fault.Error
		if _, err := readTimes(file); !errors.As(err, &f) || f.Class != fault.Corrupt || f.File != file || !strings.Contains(f.Hint, ": rm ") {
			t.Errorf("%.60q: %v", bad, err)
		}
	}
	keep(stats.Spent{Command: "mfetch", OwnS: 3})
	if spent, err := readTimes(file); err != nil || len(spent) != 1 || spent[0].OwnS != 3 {
		t.Errorf("%+v, %v", spent, err)
	}
	for _, s := range []string{"mark", "fetch", "mark"} { // fetch sends twice
		stage = s
		keep(slices.Repeat([]stats.Spent{{Command: "mmerge split", OwnS: 4}}, len(s)-3)...)
	}
	spent, err = readTimes(file)
	if err != nil || len(spent) != 4 || spent[1].Stage != "fetch" || spent[2].Stage != "fetch" || spent[3].Stage != "mark" {
		t.Errorf("%+v, %v", spent, err)
	}
}
