package cli

import "mercator/pkg/fpset"

// SetFlags hold the flags of a command that asks a set of fingerprints for keys.
type SetFlags struct {
	Prefilter bool `help:"Keep filters of the set's smaller files in memory, an eighth of --memory at most. They spare reads where a set is asked again and again for keys most of which are not in it, as by mfpset mark; answers are the same."`
}

// SetOptions are those with which a set is opened.
func (s *Std) SetOptions(f SetFlags) fpset.Options {
	opt := fpset.Options{Workers: s.Threads()}
	if f.Prefilter {
		opt.Prefilter = s.MemoryLimit() / 8
	}
	return opt
}

// CreateSetFlags hold the flags of a command that makes a set of fingerprints.
type CreateSetFlags struct {
	Impl       string        `placeholder:"NAME" default:"sorted" help:"Implementation: sorted (runs, the default), btree, or bloom (lossy)."`
	BloomSize  Size          `placeholder:"SIZE" default:"0" help:"Size of a Bloom filter, such as 64M; each change writes all of it. 12 bits a key give 0.4 % of false \"seen\" (0: 64M)."`
	Polynomial NewPolynomial `placeholder:"random|HEX" help:"By which the set's fingerprints are made: one that nobody knows, or that of another set (default: Mercator's)."`
}

// Options are those with which the set is made.
func (f CreateSetFlags) Options() (fpset.CreateOptions, error) {
	p, err := f.Polynomial.Choose()
	return fpset.CreateOptions{Polynomial: p, Impl: f.Impl, Size: int64(f.BloomSize)}, err
}
