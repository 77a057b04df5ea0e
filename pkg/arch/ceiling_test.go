package arch

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ceilings bound the size of the project, in lines or words. Whoever raises one adds behind it for which user.
var ceilings = map[string]int{
	"lines of floor 0": 3_480, // whoever gives a compressed list is told how to unpack it; whoever reads tests: must has how three packages wait for the end of a child; who builds on Windows: what differs by system stands here; whoever reads tests: package must took 2,000 lines from them; whoever needs a temporary file: its one maker came from floor 1
	"lines of floor 1": 19_400,
	"lines of floor 2": 53_820, // whose server speaks HTTP/2 alone, or whose clock is set back; who checks links to servers that are down; who puts archives of several crawls side by side; who raises a limit of depth or of URLs lists what it dropped, and takes it in with its depth; who crawls by importance on many machines; whoever archives pages that name no encoding: Russian among English, IBM866, Thai; who exports a part of a crawl whose documents are kept once; who searches or archives slides, workbooks and books: their text and links
	"lines of floor 3": 30_440, // who puts archives of several crawls side by side
	"lines of floor 4": 11_600,
	"lines of floor 5": 10_630, // who raises a limit of depth or of URLs lists what it dropped; who checks links is told which pages were not read for them, and a hint keeps all that a person gave; who crawls by importance on many machines; whoever reads three long functions in pieces; who crawls a site behind a login is told how to log in; who adds URLs while a run waits has them taken in; who mends links reads each target once, not each link
	"lines of floor 6": 6_350,
	"lines of tests":   78_100, // whose site speaks HTTP/2 alone; whose clock is set back; who crawls by importance on many machines; whoever runs one case of a table alone; whoever crawls a site that goes away for a while; who searches slides, workbooks and books
	"words of pages":   50_000,
}

// TestCeilings: what the project has to read and test does not grow unseen.
func TestCeilings(t *testing.T) {
	root := filepath.Join("..", "..")
	size := map[string]int{}
	err := filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && file != root && (e.Name() == "bin" || e.Name() == "testdata" || strings.HasPrefix(e.Name(), ".") && e.Name() != ".github"):
			return filepath.SkipDir
		case !e.Type().IsRegular():
			return nil
		}
		ext := filepath.Ext(file)
		if ext != ".go" && ext != ".md" {
			return nil
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(file))
		floor, known := floorOf(filepath.ToSlash(folder))
		switch {
		case err != nil:
			return err
		case ext == ".md":
			size["words of pages"] += len(bytes.Fields(b))
		case strings.HasSuffix(file, "_test.go"):
			size["lines of tests"] += bytes.Count(b, []byte("\n"))
		case known:
			size[fmt.Sprintf("lines of floor %d", floor)] += bytes.Count(b, []byte("\n"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for what, most := range ceilings {
		switch n := size[what]; {
		case n > most:
			t.Errorf("%s: %d, want at most %d: what else can go, or who needs this?", what, n, most)
		case n < most-most/20:
			t.Errorf("%s: %d: lower the ceiling of %d to just above", what, n, most)
		}
	}
}
