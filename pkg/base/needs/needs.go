// Package needs skips tests that need what not every machine has. Tests alone import it.
package needs

import (
	"os"
	"testing"
)

// Skip skips a test because this machine lacks something. Where MERCATOR_NO_SKIP is set, as in .ci/run, the test fails instead, as nobody
// reads there which tests were skipped.
func Skip(t testing.TB, why ...any) {
	t.Helper()
	if os.Getenv("MERCATOR_NO_SKIP") != "" {
		t.Fatal(why...)
	}
	t.Skip(why...)
}
