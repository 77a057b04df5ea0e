package clitest

import (
	"github.com/alecthomas/kong"

	"mercator/pkg/cli"
)

// Settings are the flags of each verb of a command that are settings of crawl.toml: key by flag.
func Settings(c cli.Command) map[string]map[string]string {
	app := kong.Must(c.Grammar(), kong.Vars{"version": "", "memory": "", "memory_setting": c.Setting})
	all := map[string]map[string]string{}
	for _, verb := range app.Model.Children {
		all[verb.Name] = map[string]string{}
		if c.Setting != "" {
			all[verb.Name]["memory"] = c.Setting
		}
		for _, f := range verb.Flags {
			if key := f.Tag.Get("key"); key != "" {
				all[verb.Name][f.Name] = key
			}
		}
	}
	return all
}
