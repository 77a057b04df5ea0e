// Package needs skips tests that need what not every machine has. Tests alone import it.
package needs

import (
	"os"
	"testing"
)

// Skip skips a test for want of something, but fails it where MERCATOR_NO_SKIP is set, as .ci/run does: nobody reads there which tests were skipped.
func Skip(t testing.TB, why ...any) {
	t.Helper()
	if os.Getenv("MERCATOR_NO_SKIP") != "" {
		t.Fatal(why...)
	}
	t.Skip(why...)
}
