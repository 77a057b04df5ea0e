package pipelines

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A crawl whose batches are taken while the rounds before them are out finds
// what the oracle knows, and goes on from a checkpoint that was made with a batch out.
func TestOverlap(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 11, 30, 30)
	c := newCrawl(t, w)
	frontier := filepath.Join(c.dir, "frontier")
	c.finish(t, "mercator.mk", "BATCH=10", "ROUNDS=1")
	const rounds = 4
	for n := 2; n <= rounds; n++ {
		d := filepath.Join(c.dir, "rounds", fmt.Sprint("r", n))
		if err := os.MkdirAll(d, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, "epoch"), []byte(output(t, "mckpt", "show", "--epoch", c.dir)), 0o666); err != nil {
			t.Fatal(err)
		}
		cmd := c.command("mercator.mk", "BATCH=10")
		cmd.Args = append(cmd.Args, filepath.Join(d, "marked.arrows.zst"), fmt.Sprint("R=", n))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("round %d: %v\n%s", n, err, tail(out))
		}
		round, batch := fmt.Sprint("r", n+1), filepath.Join(t.TempDir(), "batch.arrows.zst")
		output(t, "mfrontier", "next", frontier, "--overlap", "-n", "10", "--txn", round, "-o", batch)
		if err := try("mresolve", filepath.Join(c.dir, "dns"), "--txn", round, batch, "-o", batch+".resolved"); err == nil || !strings.Contains(err.Error(), "is open") {
			t.Fatalf("another store has taken round %d: %v", n+1, err)
		}
		c.finish(t, "mercator.mk", "BATCH=10", fmt.Sprint("ROUNDS=", n))
	}
	c.finish(t, "mercator.mk")
	c.check(t)

	// Number 1 holds the seeds, number n+1 round n, with the batch of the next.
	output(t, "mckpt", "restore", c.dir, fmt.Sprint(rounds))
	if show := output(t, "mckpt", "show", c.dir); !strings.Contains(show, fmt.Sprintf("ahead       r%d\n", rounds)) {
		t.Errorf("no batch is out:\n%s", show)
	}
	c.finish(t, "stream.sh")
	c.check(t)
}

// try runs a command; its error has what it wrote on standard error.
func try(name string, args ...string) error {
	var stderr bytes.Buffer
	cmd := exec.Command(bin+name, args...)
	cmd.Stderr = &stderr
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", name, err, stderr.String())
	}
	return err
}
