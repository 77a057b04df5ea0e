package e2e

import (
	"encoding/json"
	"math/rand/v2"
	"os/exec"
	"testing"
	"time"

	"mercator/pkg/base/must"
)

// staged is what "mcrawl stages --json" prints.
type staged struct {
	Round  string
	Empty  bool
	Stages []struct {
		Stage, State string
		Left         []int
	}
}

// ready is the stage that can be run.
func (s staged) ready() string {
	for _, stage := range s.Stages {
		if stage.State == "ready" {
			return stage.Stage
		}
	}
	return ""
}

func (c *crawl) stages(t *testing.T) (s staged) {
	t.Helper()
	must.OK(t, json.Unmarshal([]byte(output(t, "mcrawl", "stages", c.dir, "--json")), &s))
	return s
}

// TestStagesAreKilled makes a crawl stage by stage. Each stage is killed at random moments with SIGKILL
// and run again until it ends well. Every URL has exactly one outcome in the end.
func TestStagesAreKilled(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 41, 8, 150)
	c := newCrawl(t, w, "BATCH=60")
	c.command(t, "mcrawl") // makes the folder
	rng := rand.New(rand.NewPCG(20, 27))
	killed, missed := map[string]int{}, map[string]int{}
	for {
		s := c.stages(t)
		if s.Empty {
			break
		}
		stage := s.ready()
		if stage == "" {
			t.Fatalf("no stage is ready: %+v", s)
		}
		cmd := exec.Command(bin+"mcrawl", "stage", c.dir, stage, "--round", s.Round)
		must.OK(t, cmd.Start())
		if killed[stage] < 4 {
			wait := time.Duration(10+rng.IntN(120)) * time.Millisecond >> min(missed[stage], 6) // sooner where a stage was faster
			timer := time.AfterFunc(wait, func() { cmd.Process.Kill() })
			err := cmd.Wait()
			if !timer.Stop() && err != nil {
				killed[stage]++
				time.Sleep(50 * time.Millisecond) // what it started ends with it
			} else if err != nil {
				t.Fatalf("%s of %s: %v", stage, s.Round, err)
			} else {
				missed[stage]++
			}
			continue
		}
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%s of %s: %v", stage, s.Round, err)
		}
	}
	if killed["fetch"] == 0 || killed["update"] == 0 {
		t.Errorf("kills that hit a stage: %v", killed)
	}
	c.check(t)
}
