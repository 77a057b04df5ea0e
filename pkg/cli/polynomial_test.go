package cli

import (
	"testing"

	"mercator/pkg/base/fingerprint"
)

func TestPolynomial(t *testing.T) {
	const other = "D800000000000000"
	var p Polynomial
	if p.Or(7) != 7 || p.String() != "" {
		t.Errorf("not given: %x, %q", p.Or(7), p)
	}
	if err := p.UnmarshalText([]byte(other)); err != nil || p.Or(7) != 0xd800000000000000 || p.String() != "d800000000000000" {
		t.Errorf("%s: %v, %x, %q", other, err, p.Or(7), p)
	}
	for _, text := range []string{"", "random", "5", "0000000000000000", "c000000000000000"} {
		if err := p.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was taken as %v", text, p)
		}
	}
	seen := map[uint64]bool{}
	for text, want := range map[string]uint64{"": fingerprint.Polynomial, other: 0xd800000000000000, "random": 0} {
		v, err := ChoosePolynomial(text)
		if err != nil || want != 0 && v != want || !fingerprint.Irreducible(v) || seen[v] {
			t.Errorf("%q: %016x, %v", text, v, err)
		}
		seen[v] = true
	}
	for _, text := range []string{"Random", "c000000000000000"} {
		if _, err := ChoosePolynomial(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
