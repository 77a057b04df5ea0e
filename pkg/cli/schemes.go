package cli

import (
	"mercator/pkg/canon"
	"mercator/pkg/fault"
)

// SchemeFlags hold the flag of a command that gives URLs their canonical form.
type SchemeFlags struct {
	Scheme []string `default:"http,https,ftp,gopher" placeholder:"NAME" help:"Schemes that are crawled: http, https, ftp, gopher, or another with its default port, such as gemini:1965."`
}

// Schemes reads the flag.
func (f SchemeFlags) Schemes() (*canon.Schemes, error) {
	s, err := canon.ParseSchemes(f.Scheme)
	if err != nil {
		return nil, &fault.Error{Class: fault.Usage, Place: "--scheme", Err: err}
	}
	return s, nil
}
