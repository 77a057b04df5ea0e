// Command mfrontier keeps the URLs that are still to be fetched and says which are next. It is also the other small commands, where it is called
// by their names: they start faster in a program without what reads text and languages, which is cmd/mcrawl.
package main

import (
	"os"

	"mercator/cmd"
	"mercator/pkg/cli"
	"mercator/pkg/command/mfpset"
	"mercator/pkg/command/mfrontier"
	"mercator/pkg/command/mmerge"
	"mercator/pkg/command/mrender"
	"mercator/pkg/command/mresolve"
	"mercator/pkg/command/msearch"
	"mercator/pkg/command/murlset"
	"mercator/pkg/command/mweb"
)

func main() {
	os.Exit(cli.OneOf(cmd.Manual, mfrontier.Command, mfpset.Command, mmerge.Command, mrender.Command, mresolve.Command,
		msearch.Command, murlset.Command, mweb.Command))
}
