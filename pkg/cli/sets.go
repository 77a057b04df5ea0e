package cli

import (
	"encoding/json"

	"github.com/alecthomas/kong"

	"mercator/formats/store"
	"mercator/pkg/fpset"
)

// LoadSet opens the set of the kind in dir as it is now.
func (s *Std) LoadSet(dir, kind string) (fpset.Set, error) {
	st, err := s.openSet(dir, kind)
	if err != nil {
		return nil, err
	}
	return fpset.LoadCurrent(st, fpset.Options{Workers: s.Threads()})
}

func (s *Std) openSet(dir, kind string) (*store.Store, error) {
	return s.OpenStore(dir, kind, fpset.Version, TxnFlags{})
}

// DumpSet is the verb dump: it writes the set to output as fpset.Dump does.
func (s *Std) DumpSet(dir, kind, output string) error {
	st, err := s.openSet(dir, kind)
	if err != nil {
		return err
	}
	return fpset.Dump(st, output, s.Out)
}

// StatSet is the verb stat: it describes the set, as JSON.
func (s *Std) StatSet(dir, kind string) error {
	st, err := s.openSet(dir, kind)
	if err != nil {
		return err
	}
	sum, err := fpset.Describe(st)
	if err != nil {
		return err
	}
	e := json.NewEncoder(s.Out)
	e.SetIndent("", "  ")
	return e.Encode(sum)
}

// CheckSet is the verb check: it reads the whole set and verifies it.
func (s *Std) CheckSet(dir, kind string) error {
	set, err := s.LoadSet(dir, kind)
	if err != nil {
		return err
	}
	defer set.Close()
	progress := s.StartProgress("bytes", 0)
	defer progress.Done()
	return set.Check(progress.Add)
}

// CreateSetFlags hold the flags of a command that makes a set of fingerprints.
type CreateSetFlags struct {
	Impl       string        `placeholder:"NAME" default:"sorted" help:"Implementation: sorted (runs, the default) or bloom (lossy)."`
	BloomSize  Size          `placeholder:"SIZE" default:"0" help:"Size of a Bloom filter, such as 64M; each change writes all of it. 12 bits a key give 0.4 % of false \"seen\" (0: 64M)."`
	Polynomial NewPolynomial `placeholder:"random|HEX" help:"By which the set's fingerprints are made: one that nobody knows, or that of another set (default: Mercator's)."`

	configured bool // BloomSize is crawl.toml's
}

// AfterApply notes whether crawl.toml gave the size of Bloom filters: it is that of
// either set of a crawl, and no error where one is none.
func (f *CreateSetFlags) AfterApply(ctx *kong.Context) error {
	for _, p := range ctx.Path {
		f.configured = f.configured || p.Resolved && p.Flag.Name == "bloom-size"
	}
	return nil
}

// Options are those with which the set is made.
func (f CreateSetFlags) Options() (fpset.CreateOptions, error) {
	p, err := f.Polynomial.Choose()
	size := int64(f.BloomSize)
	if f.configured && f.Impl != fpset.Bloom {
		size = 0
	}
	return fpset.CreateOptions{Polynomial: p, Impl: f.Impl, Size: size}, err
}
