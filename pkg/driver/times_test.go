package driver

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mercator/pkg/base/fault"
	"mercator/pkg/crawl"
	"mercator/pkg/fetch"
	"mercator/pkg/view/stats"
)

// A record of times is added to by the stages of a round, which may run the same command, and the later attempt of a stage counts; one that is damaged is an error that
// says what to type, until the next stage replaces it.
func TestTimesFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "rounds", "r1"), 0o755); err != nil {
		t.Fatal(err)
	}
	d, file := &Driver{}, filepath.Join(dir, "rounds", "r1", crawl.TimesFile)
	d.opt.Warn = func(format string, args ...any) { t.Errorf(format, args...) }
	stage := ""
	keep := func(spent ...stats.Spent) { d.keepTimes(plan{crawl: dir}, "r1", stage, spent) }
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

// A record that cannot be written is a warning, and leaves nothing behind.
func TestTimesNotWritten(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "rounds", "r1", crawl.TimesFile)
	if err := os.MkdirAll(file, 0o755); err != nil {
		t.Fatal(err)
	}
	var said []string
	d := &Driver{opt: Options{Warn: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }}}
	d.keepTimes(plan{crawl: dir}, "r1", "", []stats.Spent{{Command: "mfetch"}})
	left, err := os.ReadDir(filepath.Dir(file))
	if len(said) != 1 || !strings.Contains(said[0], file) || len(left) != 1 || err != nil {
		t.Errorf("%q, %v, %v", said, left, err)
	}
}

// What mfetch waited while commands before it in the pipe worked is not in its end, whenever it tells of it.
func TestWaitedAtTheEnd(t *testing.T) {
	began := time.Unix(1000, 0)
	at := func(s float64) time.Time { return began.Add(time.Duration(s * float64(time.Second))) }
	for name, c := range map[string]struct {
		says [][2]float64 // seconds, and how many of them were bound by politeness
		want float64
	}{
		"as it ends":   {[][2]float64{{2, 2}, {4, 4}, {6, 5}}, 1},
		"between":      {[][2]float64{{3, 2}, {5, 4}, {6, 5}}, 2},
		"only at last": {[][2]float64{{6, 3}}, 1},
		"before alone": {[][2]float64{{3, 3}, {6, 3}}, 0},
		"nothing":      {nil, 0},
	} {
		var p runner
		said := make([]commandReports, 2)
		said[1].ahead.Store(1)
		for _, s := range c.says {
			if s[0] > 4 { // mresolve has ended
				said[1].ahead.Store(0)
			}
			said[1].keepReport(fetch.Progress{Bound: s[1]}, at(s[0]))
		}
		p.keepTimes(Pipe{{"mresolve", "dns"}, {"mfetch", "fetch"}}, said, began, []time.Time{at(4), at(6)})
		if s := p.spent[1]; s.OwnS != 2 || math.Abs(s.WaitedS-c.want) > 1e-9 {
			t.Errorf("%s: waited %g s of %g, want %g", name, s.WaitedS, s.OwnS, c.want)
		}
	}
}
