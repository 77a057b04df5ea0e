package stats

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Of few groups of walks resampling tells no range: it says so.
func TestRange(t *testing.T) {
	for n, want := range map[int]string{2: "? to ?", leastGroups - 1: "? to ?", leastGroups: "1.000 to 1.000"} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			groups := make([]sums, n, n+50)
			for i := range groups {
				groups[i] = sums{{2, 2}, {2, 2}}
			}
			for range 50 { // walks without visits that count
				groups = append(groups, make(sums, 2))
			}
			got := resampled([]string{"all"}, groups)[0].Quality
			if s := fmt.Sprintf("%v to %v", got.Low, got.High); s != want || got.Share != 1 {
				t.Errorf("%d groups: %v, %s, want %s", n, got.Share, s, want)
			}
			data, err := json.Marshal(got)
			if null := strings.Contains(string(data), `"low":null,"high":null`); err != nil || null != (n < leastGroups) {
				t.Errorf("%d groups: %s, %v", n, data, err)
			}
		})
	}
}
