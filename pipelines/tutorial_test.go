package pipelines

import "testing"

// TestTutorial runs each line of tutorial.md; those in Python are for "make pages".
func TestTutorial(t *testing.T) {
	t.Parallel()
	p := freePorts(t, 5)
	runSteps(t, pageSteps(t, "tutorial.md"), t.TempDir(), "", "18080", p[0], "15353", p[1], "18081", p[2], "15354", p[3], "8100", p[4])
}
