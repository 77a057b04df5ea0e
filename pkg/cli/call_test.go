package cli

import (
	"io"
	"strings"
	"testing"
)

// A line of standard error that does not end is told in pieces, and nothing of it is lost.
func TestLines(t *testing.T) {
	var got []string
	l := LineWriter{Emit: func(line string) { got = append(got, line) }}
	long := strings.Repeat("x", 3*longestPiece)
	io.WriteString(&l, "a\nb")
	io.WriteString(&l, "c\n\n")
	for i := 0; i < len(long); i += 1000 {
		io.WriteString(&l, long[i:min(i+1000, len(long))])
		if len(l.rest) > longestPiece+1000 {
			t.Fatalf("%d bytes are held", len(l.rest))
		}
	}
	l.End()
	l.End()
	if strings.Join(got[:3], ",") != "a,bc," || strings.Join(got[3:], "") != long || len(got) < 5 {
		t.Errorf("%d lines, %.60q", len(got), got)
	}
}
