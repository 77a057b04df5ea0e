package murlset

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
	"mercator/pkg/cli/clitest"
)

// batches are inputs of n rows that are hard on memory, by name.
var batches = []struct {
	name string
	url  func(i int) (host, url string)
	part int // of n, for rows that are large
}{
	{"new", func(i int) (string, string) {
		host := fmt.Sprintf("h%d.test", i%1000)
		return host, fmt.Sprintf("http://%s/%d", host, i)
	}, 1},
	{"one-host", func(i int) (string, string) { return "a.test", fmt.Sprintf("http://a.test/%d", i) }, 1},
	{"equal", func(i int) (string, string) { return "a.test", "http://a.test/" }, 1},
	{"long", func(i int) (string, string) {
		return "a.test", fmt.Sprintf("http://a.test/%d/%s/%d", i, strings.Repeat("x", 1970), i)
	}, 20},
}

// peakOf lets n rows of a batch through a new set, and returns the peak of the
// resident memory in bytes.
func peakOf(t *testing.T, n int, url func(int) (string, string), flags ...string) (peak int64) {
	t.Helper()
	dir := t.TempDir()
	set, stats := filepath.Join(dir, "urls"), filepath.Join(dir, "stats.json")
	if out, err := exec.Command("murlset", "create", set).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command("murlset", append([]string{"new", set, "--txn", "r1", "--stats", stats}, flags...)...)
	cmd.Stdout, cmd.Stderr = io.Discard, os.Stderr
	in, err := cmd.StdinPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	w, err := record.NewWriter[record.Link](in, record.WriterOptions{Name: "links"})
	must.OK(t, err)
	for i := range n {
		host, u := url(i)
		row := record.Link{SrcURL: "http://a.test/", URL: u, Host: host, Key: fingerprint.URLKey(host, u), Discovered: 1}
		must.OK(t, w.Write(&row))
	}
	rows, hash, err := w.Finish()
	must.OK(t, err)
	_, err = w.Commit(record.Ledger{Stages: []record.Stage{{Name: "test", Out: rows, OutHash: hash.String(), Made: []record.Count{{Reason: "test", N: rows}}}}})
	must.OK(t, err)
	in.Close()
	must.OK(t, cmd.Wait())
	var got struct {
		Peak int64 `json:"peak_rss_bytes"`
		URLs struct {
			Fresh uint64 `json:"fresh"`
		} `json:"urls"`
	}
	clitest.JSON(t, stats, &got)
	_, first := url(0)
	_, last := url(n - 1)
	if want := uint64(n); first != last && got.URLs.Fresh != want {
		t.Errorf("%d fresh rows, want %d", got.URLs.Fresh, want)
	}
	return got.Peak
}

// TestMemory holds the command to 64 MiB, and to the same for ten times the input,
// in both modes. MERCATOR_LONG=1 takes 10⁶ and 10⁷ rows instead of fewer.
func TestMemory(t *testing.T) {
	n := 40_000
	if os.Getenv("MERCATOR_LONG") != "" {
		n = 1_000_000
	}
	for _, b := range batches {
		for _, mode := range []string{"batch", "online"} {
			t.Run(b.name+"/"+mode, func(t *testing.T) {
				small := peakOf(t, n/b.part, b.url, "--mode", mode)
				large := peakOf(t, 10*n/b.part, b.url, "--mode", mode)
				t.Logf("peak %d MiB for %d rows, %d MiB for %d", small>>20, n/b.part, large>>20, 10*n/b.part)
				if small >= 64<<20 || large >= 64<<20 {
					t.Errorf("peak %d and %d bytes, want below 64 MiB", small, large)
				}
			})
		}
	}
}
