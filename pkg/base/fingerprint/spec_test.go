package fingerprint_test

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
)

// TestSpec holds the tables of SPEC.md against the code and the formulas.
func TestSpec(t *testing.T) {
	page, err := os.ReadFile("SPEC.md")
	must.OK(t, err)
	vectors := regexp.MustCompile("(?m)^\\| `(.*)` \\| ([0-9a-f]{16}) \\|$").FindAllStringSubmatch(string(page), -1)
	if len(vectors) != 4 {
		t.Errorf("%d vectors, want 4", len(vectors))
	}
	for _, v := range vectors {
		if got := fingerprint.Format(fingerprint.OfString(v[1])); got != v[2] {
			t.Errorf("%q: %s, the page says %s", v[1], got, v[2])
		}
	}

	var sum, squares float64 // of the Zipf web
	for k := 1.0; k <= 1e6; k++ {
		p := math.Pow(k, -1.1)
		sum, squares = sum+p, squares+p*p
	}
	rows := regexp.MustCompile(`(?m)^\| 10(\S+) \| (\S+) \| (\S+) \| (\S+) \| (\S+) \|$`).FindAllStringSubmatch(string(page), -1)
	if len(rows) != 4 {
		t.Errorf("%d rows of false answers, want 4", len(rows))
	}
	for _, row := range rows {
		exponent, _ := strconv.Atoi(strings.NewReplacer("⁰", "0", "¹", "1", "⁷", "7", "⁸", "8", "⁹", "9").Replace(row[1]))
		n := math.Pow10(exponent)
		across := n * n / math.Exp2(65)
		for i, want := range []float64{
			across,
			n*n/1e6/math.Exp2(49) + across,
			n*n*squares/sum/sum/math.Exp2(49) + across,
			n * n / math.Exp2(49),
		} {
			said, err := strconv.ParseFloat(strings.ReplaceAll(row[2+i], ",", ""), 64)
			if err != nil || math.Abs(said-want) > want*0.03 {
				t.Errorf("n = 1e%d, column %d: the page says %s, by the formula it is %s", exponent, i, row[2+i], fmt.Sprint(want))
			}
		}
	}
}
