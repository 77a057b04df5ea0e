// Package must ends a test at an error that is not what the test is about. Tests alone import it.
package must

import "testing"

// OK ends the test at the first error.
func OK(t testing.TB, errs ...error) {
	for _, err := range errs {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
}
