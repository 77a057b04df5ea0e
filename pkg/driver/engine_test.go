package driver

import (
	"errors"
	"testing"
	"time"
)

// TestOutage: an error of squeue is told once, and ends the run when it has lasted.
func TestOutage(t *testing.T) {
	a, b := errors.New("no connection"), errors.New("no such user")
	begun := time.Unix(0, 0)
	var o outage
	for _, c := range []struct {
		err       error
		after     time.Duration
		news, end bool
	}{
		{a, 0, true, false},
		{a, time.Minute, false, false},
		{b, 2 * time.Minute, true, false},
		{nil, 3 * time.Minute, false, false},
		{b, 4 * time.Minute, true, false},
		{a, 13 * time.Minute, true, false},
		{a, 14 * time.Minute, false, true},
	} {
		if news, end := o.note(c.err, begun.Add(c.after)); news != c.news || end != c.end {
			t.Errorf("%v after %v: news %v, end %v; want %v, %v", c.err, c.after, news, end, c.news, c.end)
		}
	}
}
