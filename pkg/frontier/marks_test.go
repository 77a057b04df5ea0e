package frontier

import (
	"fmt"
	"testing"
)

// TestMarks: all rows are marked, be they few or many, and hardly any other.
func TestMarks(t *testing.T) {
	for _, rows := range []int{0, 1, 3, fewRows - 1, fewRows, fewRows + 1, 3 * fewRows} {
		t.Run(fmt.Sprint(rows), func(t *testing.T) {
			var l lookup
			for i := range rows {
				l.markKey(mix(uint64(i)))
			}
			if l.marked == nil {
				l.markFew(len(l.few))
			}
			for i := range rows {
				if !l.marked.has(mix(uint64(i))) {
					t.Fatalf("row %d is not marked", i)
				}
			}
			others := 0
			for i := range rows {
				if l.marked.has(mix(uint64(1<<40 + i))) {
					others++
				}
			}
			if others > rows/10+1 {
				t.Errorf("%d of %d other keys are taken for marked, want a tenth at most", others, rows)
			}
		})
	}
}
