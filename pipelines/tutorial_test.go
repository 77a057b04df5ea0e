package pipelines

import "testing"

// TestTutorial runs each line of tutorial.md.
func TestTutorial(t *testing.T) {
	if len(has) == 0 {
		t.Skip("make pages runs it")
	}
	t.Parallel()
	p := freePorts(t, 5)
	runSteps(t, pageSteps(t, "tutorial.md"), t.TempDir(), "", "18080", p[0], "15353", p[1], "18081", p[2], "15354", p[3], "8100", p[4])
}
