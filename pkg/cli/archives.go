package cli

import "mercator/formats/warc"

// ArchiveFlags are flags of commands that read archives of other programs.
type ArchiveFlags struct {
	Strict bool `more:"" help:"Stop at the first damage in a WARC or ARC file, instead of skipping it."`
}

// Tolerance reads such archives as far as they can be read, with a note of what is odd or damaged in them. all: of each oddity, not
// only the first of its kind.
func (s *Std) Tolerance(f ArchiveFlags, all bool) *warc.Tolerance {
	say := s.Warn
	if all {
		say = s.WarnAlways
	}
	return &warc.Tolerance{Strict: f.Strict, All: all, Say: func(line string) { say("%s", line) }}
}
