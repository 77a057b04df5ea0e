package cli

import (
	"crypto/rand"
	"encoding/binary"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
)

// Polynomial is a flag of commands that fingerprint something, or read
// fingerprints as text, which does not say by which polynomial they were made:
// 16 hexadecimal digits, as "murlset stat" prints it.
type Polynomial uint64

// UnmarshalText refuses what is no irreducible polynomial.
func (p *Polynomial) UnmarshalText(text []byte) error {
	v, err := fingerprint.Parse(string(text))
	if err == nil {
		_, err = fingerprint.NewPoly(v)
	}
	if err != nil {
		return &fault.Error{Class: fault.Usage, Err: err, Hint: "murlset stat and mfpset stat print that of a set"}
	}
	*p = Polynomial(v)
	return nil
}

// String is the text that UnmarshalText reads; "" if the flag was not given.
func (p Polynomial) String() string {
	if p == 0 {
		return ""
	}
	return fingerprint.Format(uint64(p))
}

// Or is the polynomial, or other if the flag was not given.
func (p Polynomial) Or(other uint64) uint64 {
	if p == 0 {
		return other
	}
	return uint64(p)
}

// RandomPolynomial asks for a polynomial that nobody knows.
const RandomPolynomial = "random"

// ChoosePolynomial returns the polynomial that a setting has, Mercator's if there is none, or draws
// one from the system's source of randomness.
func ChoosePolynomial(text string) (uint64, error) {
	switch text {
	case "":
		return fingerprint.Polynomial, nil
	case RandomPolynomial:
		return fingerprint.RandomPoly(func() uint64 {
			var b [8]byte
			rand.Read(b[:]) // never fails
			return binary.LittleEndian.Uint64(b[:])
		}).Polynomial(), nil
	}
	var v Polynomial
	err := v.UnmarshalText([]byte(text))
	return uint64(v), err
}
