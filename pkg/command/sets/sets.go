// Package sets has the verbs that mfpset, murlset and mmerge share.
package sets

import (
	"context"
	"encoding/json"
	"os"

	"mercator/formats/store"
	"mercator/pkg/cli"
	"mercator/pkg/config"
	"mercator/pkg/fpset"
	"mercator/pkg/merge"
)

// Write writes what op makes of sets to output as fpset.Export does, and nothing
// unless all of them were good.
func Write(s *cli.Std, output string, text bool, op merge.Op, in []*fpset.Input) error {
	var sets []merge.Set
	var total uint64
	for _, i := range in {
		files, err := i.Files()
		if err != nil {
			return err
		}
		sets = append(sets, files)
		total += i.Count
	}
	progress := s.StartProgress("fingerprints", int64(total))
	defer progress.Done()
	n, err := fpset.Export(output, text, s.Out, in[0].Polynomial, s.Threads(), func(dst merge.Dest) error {
		return merge.Files(dst, op, sets, merge.Options{Threads: s.Threads(), Memory: s.MemoryLimit() * 3 / 8, Progress: progress.Add})
	})
	s.Stat("inputs", len(in))
	s.Stat("keys_in", total)
	s.Stat("keys", n)
	return err
}

// Add adds the keys of in to the set of st, and closes in.
func Add(ctx context.Context, s *cli.Std, st *store.Store, txn string, in []*fpset.Input) error {
	defer fpset.CloseInputs(in)
	stats, err := fpset.Add(ctx, st, txn, in, fpset.Options{Workers: s.Threads()})
	s.Stat("keys", stats.Distinct)
	s.Stat("fresh", stats.Fresh)
	s.Stat("set", stats.Set)
	return err
}

// one is the argument of a verb that reads one set.
type one struct {
	Set string `arg:"" help:"A store, a crawl folder, *.fps or *.txt."`
}

// open opens it; a store is of the kind.
func (o one) open(s *cli.Std, kind string) (*fpset.Input, error) {
	set := o.Set
	if info, err := os.Stat(set); err == nil && info.IsDir() {
		st, err := s.OpenStore(set, kind, fpset.Version, cli.TxnFlags{})
		if err != nil {
			return nil, err
		}
		set = st.Dir()
	}
	in, err := fpset.OpenInputs([]string{set}, false, 0, s.In, s.MemoryLimit()/4)
	if err != nil {
		return nil, err
	}
	return in[0], nil
}

// Dump is the verb dump.
type Dump struct {
	one
	Output string `short:"o" placeholder:"FILE" help:"Write a fingerprint file, or text if it is named *.txt."`
}

// Help is part of --help.
func (Dump) Help() string {
	return `The keys are in ascending order, 16 hexadecimal digits each.

Examples:
  murlset dump crawl/urls | wc -l
  mfpset dump crawl/content -o content.fps`
}

// Write runs the verb on a set of the kind.
func (d Dump) Write(s *cli.Std, kind string) error {
	in, err := d.open(s, kind)
	if err != nil {
		return err
	}
	defer in.Close()
	return Write(s, d.Output, false, merge.OpUnion, []*fpset.Input{in})
}

// Stat is the verb stat.
type Stat struct{ one }

// Help is part of --help.
func (Stat) Help() string {
	return `Examples:
  murlset stat crawl/urls | jq .count`
}

// Print runs the verb on a set of the kind.
func (c Stat) Print(s *cli.Std, kind string) error {
	in, err := c.open(s, kind)
	if err != nil {
		return err
	}
	defer in.Close()
	sum, err := in.Describe()
	if err != nil {
		return err
	}
	e := json.NewEncoder(s.Out)
	e.SetIndent("", "  ")
	return e.Encode(sum)
}

// Check is the verb check.
type Check struct{ one }

// Help is part of --help.
func (Check) Help() string {
	return `The exit code is 0, or 3 with the place of the damage.

Examples:
  murlset check crawl/urls`
}

// Read runs the verb on a set of the kind.
func (c Check) Read(s *cli.Std, kind string) error {
	in, err := c.open(s, kind)
	if err != nil {
		return err
	}
	defer in.Close()
	progress := s.StartProgress("bytes", 0)
	defer progress.Done()
	return in.Check(progress.Add)
}

// Options returns the options to create a set with. crawl.toml has one size for both sets of a crawl, so a size
// from there is no error if the set is no Bloom filter.
func Options(s *cli.Std, impl string, f config.NewSet) (fpset.CreateOptions, error) {
	p, err := cli.ChoosePolynomial(f.Polynomial)
	size := int64(f.BloomSize)
	if impl != fpset.Bloom && !s.Given("bloom-size") {
		size = 0
	}
	return fpset.CreateOptions{Polynomial: p, Impl: impl, Size: size}, err
}
