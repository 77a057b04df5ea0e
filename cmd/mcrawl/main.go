// Command mcrawl runs whole crawls: it makes a crawl folder and runs the other commands in it.
package main

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/alecthomas/kong"

	"mercator/cmd"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/setting"
	"mercator/pkg/cli"
	"mercator/pkg/command/mcat"
	"mercator/pkg/command/mckpt"
	"mercator/pkg/command/mextract"
	"mercator/pkg/command/mfetch"
	"mercator/pkg/command/mfocus"
	"mercator/pkg/config"
	"mercator/pkg/driver"
	"mercator/pkg/driver/tell"
)

const about = "Run a crawl: mcrawl site https://www.example.org/ --contact you@example.org"

// A verb stands in a file of its name.
type grammar struct {
	cli.Common
	Try     tryCmd     `cmd:"" help:"Crawl an embedded web, and compare with its oracle."`
	New     newCmd     `cmd:"" help:"Make a crawl folder from seeds and settings."`
	Site    siteCmd    `cmd:"" help:"Crawl a site, or several, into a folder of its name."`
	Focus   focusCmd   `cmd:"" help:"Crawl for pages about what a query means."`
	Run     runCmd     `cmd:"" help:"Go on with a crawl until its end, a bound, or Ctrl-C."`
	Stage   stageCmd   `cmd:"" help:"Run one stage of a round, until it is done."`
	Stages  stagesCmd  `cmd:"" help:"Show the stages of a round, and which are done."`
	Status  statusCmd  `cmd:"" help:"Show where a crawl stands, also while it runs."`
	Stats   statsCmd   `cmd:"" help:"Count what a crawl found: types, sizes, hosts, changes."`
	Report  reportCmd  `cmd:"" help:"Write a page of plots and tables of what a crawl found."`
	Watch   watchCmd   `cmd:"" help:"Serve the page of mcrawl report on this machine."`
	Measure measureCmd `cmd:"" help:"Estimate from a random walk which share of a web sets of URLs hold."`
	Move    moveCmd    `cmd:"" help:"Move buckets of hosts to another shard."`
	Balance balanceCmd `cmd:"" help:"Show how even the shards are, and moves that make them so."`
	Reshard reshardCmd `cmd:"" help:"Add shards to a crawl of several."`
	Set     setCmd     `cmd:"" help:"Change settings of a crawl, or print them."`
	Seal    sealCmd    `cmd:"" help:"Give the WARC files their final names, and write their index."`
	Export  exportCmd  `cmd:"" help:"Write a crawl as WACZ, Parquet, CDXJ, WET or WAT."`
	Add     addCmd     `cmd:"" help:"Add URLs to a crawl, also while it runs."`
	Take    takeCmd    `cmd:"" hidden:"" help:"Take in what mcrawl add and again ask for; the caller holds the crawl."`
	Again   againCmd   `cmd:"" help:"Fetch URLs once more."`
	Broken  brokenCmd  `cmd:"" help:"Print links whose target failed; exit code 6 if there are any."`
	Changes changesCmd `cmd:"" help:"Print pages that are new, changed or gone since then."`
	Refused refusedCmd `cmd:"" help:"Print the URLs that were not followed, and why."`
	Explain explainCmd `cmd:"" help:"Print what the crawl decides of one URL, and when it is fetched."`
}

// A call by the name of another command is that command.
func main() {
	os.Exit(cli.OneOf(cmd.Manual, cli.Command{Name: "mcrawl", About: about, Memory: 64 << 20, Grammar: func() any { return &grammar{} }, Arguments: resolveAlias},
		mckpt.Command, mextract.Command, mfetch.Command, mfocus.Command, mcat.Command))
}

// resolveAlias replaces a verb of other programs by mcrawl's.
func resolveAlias(args []string) []string {
	switch {
	case len(args) == 0:
	case args[0] == "help":
		return append(resolveAlias(args[1:]), "--help")
	case args[0] == "version":
		return append([]string{"--version"}, args[1:]...)
	case args[0] == "resume":
		return append([]string{"run"}, args[1:]...)
	}
	return args
}

// AfterApply refuses common flags that would be of no effect: the commands of a crawl read its crawl.toml.
func (g *grammar) AfterApply(kctx *kong.Context) error {
	verb, dir := kctx.Selected(), "FOLDER"
	for _, arg := range verb.Positional {
		if arg.Name == "crawl" {
			dir = arg.Target.String()
		}
	}
	var flag string
	how, set := "see them: ", []string{"mcrawl", "set", dir}
	switch makes, runs := []string{"new", "site", "focus"}, []string{"run", "site", "try", "stage"}; {
	case g.Config != "" && !slices.Contains(makes, verb.Name):
		flag = "--config"
	case g.Memory != 0 && slices.Contains(runs, verb.Name):
		flag, how, set = "--memory", "change one: ", append(set, "memory.total="+setting.Text(max(g.Memory, 512<<20))) // which one task has room in
	default:
		return nil
	}
	return &fault.Error{Class: fault.Usage, Found: flag, Want: "the settings of " + filepath.Join(dir, config.Name) + " alone", Hint: how + fault.Quote(set...)}
}

// driverOptions are the options of a driver that reports its progress.
func driverOptions(std *cli.Std) driver.Options {
	mode := std.Common.Progress
	t := &tell.Reporter{Out: std.Screen(), Err: std.Err, JSON: mode == "json" || std.LogsJSON(), Seldom: mode != "json", Silent: mode == "off", Quiet: std.Common.Quiet}
	if mode == "auto" {
		t.Width = std.Width()
	}
	return driver.Options{Threads: std.Common.Threads, Now: std.Now, Warn: std.Warn, Reporter: t}
}
