package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"mercator/pkg/base/must"
)

// totals folds what the module tags found in the rounds' files into what its store
// must hold.
func totals(t *testing.T, files ...string) string {
	t.Helper()
	type total struct{ findings, sum uint64 }
	sums := make(map[string]total)
	for line := range strings.Lines(output(t, "mcat", files...)) {
		var row struct{ Module, Key, Value string }
		must.OK(t, json.Unmarshal([]byte(line), &row))
		if row.Module != "tags" {
			continue
		}
		n, err := strconv.ParseUint(row.Value, 10, 64)
		must.OK(t, err)
		s := sums[row.Key]
		sums[row.Key] = total{s.findings + 1, s.sum + n}
	}
	var lines []string
	for key, s := range sums {
		lines = append(lines, fmt.Sprintf("%s\t%d\t%d\n", key, s.findings, s.sum))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// TestModules runs a crawl with modules chosen in crawl.toml; two of them keep state.
// mextract is killed at several moments and run again. In the end the states are what
// the findings of all rounds say; a restore takes them back, the rounds after it bring
// them where they were, and the crawl repeated from its records has the same.
func TestModules(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 5, 2, 30)
	conf := filepath.Join(t.TempDir(), "crawl.toml")
	// The program's folder holds the findings of all rounds, in order.
	must.OK(t, os.WriteFile(conf, []byte(`[extract]
modules = ["page", "tags", 'sizes=text/html:case $MERCATOR_EVENT in document) wc -c ;; commit) cat >> "$MERCATOR_MODULE_DIR/all" ;; esac']
module_state = ["tags", "sizes"]
`), 0o666))
	for driver := range drivers {
		if !long && driver == "mercator.mk" {
			continue
		}
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			c := newCrawl(t, w, "CONFIG="+conf, "BATCH=12", "TMPDIR="+t.TempDir()) // where a killed command leaves its copy of a folder
			for _, after := range []string{"0.001", "0.02", "0.1"} {
				killed := wrap(t, "mextract", "timeout -s KILL "+after+" "+bin+"mextract \"$@\"\nkill -9 $$\n")
				out, err := c.command(t, driver, "ROUNDS=2", "BIN="+killed).CombinedOutput()
				if err == nil && after == "0.001" { // later it may have done its work, and the pipe does not miss it
					t.Fatalf("mextract did not die\n%s", tail(out))
				}
			}
			check := func(last int) (sizes string) {
				t.Helper()
				var files []string
				for n := 1; n <= last; n++ {
					files = append(files, fmt.Sprintf("%s/rounds/r%d/modules.arrows.zst", c.dir, n))
				}
				want := totals(t, files...)
				if got := output(t, "mextract", "state", c.dir+"/modules/tags"); got != want || want == "" {
					t.Errorf("after round %d: tags:\n%s\nwant\n%s", last, got, want)
				}
				archive := filepath.Join(t.TempDir(), "sizes.tar")
				must.OK(t, os.WriteFile(archive, []byte(output(t, "mextract", "state", c.dir+"/modules/sizes")), 0o666))
				sizes = archive
				for _, f := range files {
					rows := 0
					for line := range strings.Lines(output(t, "mcat", f)) {
						if strings.Contains(line, `"module":"sizes"`) {
							rows++
						}
					}
					if rows == 0 {
						t.Errorf("%s: no findings of sizes", f)
					}
				}
				return sizes
			}
			c.finish(t, driver, "ROUNDS=3")
			third := check(3)
			c.finish(t, driver, "ROUNDS=4")
			check(4)
			output(t, "mckpt", "restore", c.dir, "4") // the seeds are checkpoint 1
			if err := sameFile(third, check(3)); err != nil {
				t.Error(err)
			}
			c.finish(t, driver)
			output(t, "mckpt", "verify", c.dir)
			dir := c.replay(t)
			if got := output(t, "mextract", "state", dir+"/modules/tags"); got != output(t, "mextract", "state", c.dir+"/modules/tags") {
				t.Error("the repeated crawl has another state")
			}
			wet := filepath.Join(t.TempDir(), "crawl.warc.wet.gz")
			output(t, "mcat", "--wet", c.dir, "-o", wet)
			if n, err := strconv.Atoi(strings.TrimSpace(output(t, "mcat", "--count", wet))); err != nil || n < 20 {
				t.Errorf("%d records of text, %v", n, err)
			}
			output(t, "mckpt", "gc", c.dir, "--keep", "1")
			output(t, "mckpt", "verify", c.dir)
		})
	}
}

func sameFile(a, b string) error {
	one, err := os.ReadFile(a)
	if err != nil {
		return err
	}
	two, err := os.ReadFile(b)
	if err == nil && string(one) != string(two) {
		err = fmt.Errorf("%s and %s differ", a, b)
	}
	return err
}
