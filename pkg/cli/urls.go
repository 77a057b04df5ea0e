package cli

import (
	"fmt"

	"mercator/pkg/canon"
	"mercator/pkg/fault"
)

// URLFlags hold what the commands of a crawl must agree on about canonical URLs and
// their keys.
type URLFlags struct {
	Scheme   []string `group:"URLs:" more:"" default:"http,https,ftp,gopher" placeholder:"NAME" help:"Crawl these schemes (http,https,ftp,gopher)."`
	MaxURL   int      `group:"URLs:" more:"" name:"max-url" default:"2083" help:"Longest canonical URL, in bytes."`
	KeyRules []string `group:"URLs:" more:"" placeholder:"RULE" help:"Differences that the URL-seen test ignores."`
}

// RewriteFlags are URLFlags of a command that makes URLs canonical.
type RewriteFlags struct {
	URLFlags `embed:""`

	URLRules []string `group:"URLs:" more:"" placeholder:"RULE" help:"Rewrite URLs; \"murlset key\" lists the rules."`
}

// Canon reads the flags.
func (f URLFlags) Canon() (opt canon.Options, err error) {
	if f.MaxURL < 1 {
		return opt, &fault.Error{Class: fault.Usage, Place: "--max-url", Found: fmt.Sprint(f.MaxURL), Want: "at least 1"}
	}
	opt.MaxURL = f.MaxURL
	if opt.Schemes, err = canon.ParseSchemes(f.Scheme); err != nil {
		return opt, &fault.Error{Class: fault.Usage, Place: "--scheme", Err: err}
	}
	opt.KeyRules, err = rules("--key-rules", f.KeyRules)
	return opt, err
}

// Canon reads the flags.
func (f RewriteFlags) Canon() (canon.Options, error) {
	opt, err := f.URLFlags.Canon()
	if err != nil {
		return opt, err
	}
	opt.URLRules, err = rules("--url-rules", f.URLRules)
	return opt, err
}

func rules(flag string, names []string) (canon.Rules, error) {
	r, err := canon.ParseRules(names)
	if err != nil {
		return 0, &fault.Error{Class: fault.Usage, Place: flag, Err: err}
	}
	return r, nil
}
