package cli

import "mercator/pkg/fpset"

// SetFlags hold the flags of a command that asks a set of fingerprints for keys.
type SetFlags struct {
	Prefilter bool `help:"Keep filters of the set's smaller files in memory, an eighth of --memory at most. They spare reads where most keys are not in the set and few are asked beside its size; answers are the same."`
}

// SetOptions are those with which a set is opened.
func (s *Std) SetOptions(f SetFlags) fpset.Options {
	opt := fpset.Options{Workers: s.Threads()}
	if f.Prefilter {
		opt.Prefilter = s.MemoryLimit() / 8
	}
	return opt
}
