package murlset

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mercator/pkg/base/must"
)

// TestKill kills the command at random moments, with every implementation and in
// both modes: the set is sound each time, and the command run to its end gives what
// it gives when nobody kills it.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	var text strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&text, "http://h%d.test/%d\n", i%50, i%15_000)
	}
	seeds := filepath.Join(dir, "seeds.txt")
	must.OK(t, os.WriteFile(seeds, []byte(text.String()), 0o666))
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("murlset", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("murlset %s: %v\n%s", args, err, out)
		}
		return string(out)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, impl := range []string{"sorted", "bloom"} {
		for _, mode := range []string{"batch", "online"} {
			set := filepath.Join(dir, impl+mode)
			run("create", set, "--impl", impl)
			killed := 0
			for range 4 {
				cmd := exec.Command("murlset", "new", set, "--txn", "r1", "--mode", mode, seeds, "-o", filepath.Join(dir, "killed"))
				must.OK(t, cmd.Start())
				time.Sleep(time.Duration(rnd.IntN(400)) * time.Millisecond)
				_ = cmd.Process.Kill() // or it has ended
				if cmd.Wait() != nil {
					killed++
				}
				run("check", set)
			}
			run("new", set, "--txn", "r1", "--mode", mode, seeds, "-o", filepath.Join(dir, "rows"))
			if got := run("stat", set); !strings.Contains(got, `"count": 15000,`) && impl != "bloom" {
				t.Errorf("%s, %s, killed %d times: %s", impl, mode, killed, got)
			}
			run("check", set)
			run("test", set, seeds)
			t.Logf("%s, %s: killed %d times", impl, mode, killed)
		}
	}
}
