package e2e

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"
)

// TestTutorial runs each line of tutorial.md; those in Python are for "make pages".
func TestTutorial(t *testing.T) {
	t.Parallel()
	p := freePorts(t, 5)
	runSteps(t, pageSteps(t, "tutorial.md"), t.TempDir(), "", "18080", p[0], "15353", p[1], "18081", p[2], "15354", p[3], "8100", p[4])
}

// TestWaits: where a page waits for the ready file of a command in the background, it waits no longer than the command runs.
func TestWaits(t *testing.T) {
	t.Parallel()
	for page, waits := range map[string]int{"tutorial.md": 2, "recipes/reproduce.md": 1} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		loops := regexp.MustCompile(`(?m)^    until .*$`).FindAllString(string(text), -1)
		if len(loops) != waits {
			t.Errorf("%s waits %d times, want %d", page, len(loops), waits)
		}
		for _, loop := range loops {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			cmd := exec.CommandContext(ctx, "sh", "-c", "false & web=$! replay=$!; wait; "+loop)
			cmd.Dir, cmd.WaitDelay = t.TempDir(), time.Second
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %s: %v\n%s", page, loop, err, out)
			}
		}
	}
}
