package cli

import (
	"errors"
	"os"

	"github.com/alecthomas/kong"

	"mercator/pkg/config"
	"mercator/pkg/fault"
)

// configFlag is --config: when kong meets it, the file becomes a source of
// defaults for all flags that the command line leaves out.
type configFlag string

// BeforeResolve reads the file before kong asks its resolvers.
func (configFlag) BeforeResolve(ctx *kong.Context, trace *kong.Path) error {
	path, _ := ctx.FlagValue(trace.Flag).(configFlag)
	return useConfig(ctx, string(path))
}

// BeforeResolve looks for the configuration of the crawl folder that an argument
// lies in, unless --config names one.
func (c *Common) BeforeResolve(ctx *kong.Context) error {
	for _, p := range ctx.Path {
		if p.Flag != nil && p.Flag.Name == "config" {
			return nil
		}
	}
	path := config.Find(os.Args[1:])
	if path == "" {
		return nil
	}
	return useConfig(ctx, path)
}

func useConfig(ctx *kong.Context, path string) error {
	c, err := config.Load(path)
	if err != nil {
		return err
	}
	ctx.AddResolver(settings{c})
	return nil
}

// settings lets kong ask crawl.toml for flags.
type settings struct{ *config.Config }

// Validate has nothing to check: config.Load has.
func (settings) Validate(*kong.Application) error { return nil }

// Resolve returns the value of a flag, or nil.
func (s settings) Resolve(ctx *kong.Context, parent *kong.Path, flag *kong.Flag) (any, error) {
	if ctx.Model == nil {
		return nil, errors.New("no grammar")
	}
	verb := ""
	if n := ctx.Selected(); n != nil {
		verb = n.Name
	}
	v, _ := s.Lookup(ctx.Model.Name, verb, flag.Name)
	return v, nil
}

// Servers are the DNS servers of --server.
type Servers []string

// AfterApply refuses a flag without an address, as an empty variable of a script leaves it:
// it would mean those of the system.
func (s Servers) AfterApply(p *kong.Path) error {
	if len(s) > 0 || p.Resolved {
		return nil
	}
	return &fault.Error{Class: fault.Usage, Found: "--server with no address", Want: "the IP address of a DNS server"}
}
