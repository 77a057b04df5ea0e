package mextract

import (
	"context"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/config"
	"mercator/pkg/folder/ownstage"
	"mercator/pkg/folder/stage"
	"mercator/pkg/web/process"
)

type filterCmd struct {
	Store string   `arg:"" help:"Store of the program's state, such as crawl/modules/links."`
	Files []string `arg:"" optional:"" help:"Link or url records; default: standard input."`
	config.FilterPrograms
	config.ProgramTime
	cli.TxnFlags
	cli.Output
}

// Help is part of --help.
func (*filterCmd) Help() string {
	return `The program reads a row a line, as JSON, and answers each by a line: {} passes it
on, null drops it, {"priority":2,"score":0.5} changes columns (of links score).

Examples:
  mextract create modules/links
  mextract filter modules/links --links ./mine links.arrows.zst`
}

func (c *filterCmd) Run(ctx context.Context, std *cli.Std) error {
	src, err := cli.OpenSource(std, c.Files, cli.Links)
	if err != nil {
		return err
	}
	if src.Kind() == record.KindLink {
		return filterRows[record.Link](ctx, std, c, src, ownstage.Program{Setting: "stages.links", Command: c.Links}, ownstage.OfLinks)
	}
	return filterRows[record.URL](ctx, std, c, src, ownstage.Program{Setting: "stages.new", Command: c.New}, ownstage.OfFilters)
}

func filterRows[T record.Row](ctx context.Context, std *cli.Std, c *filterCmd, src *cli.Records, own ownstage.Program, columns []string) error {
	own.Timeout = c.ProgramTimeout
	// The store first: where it is missing nobody knows the crawl, and so its settings.
	st, err := own.Open(c.Store, process.Kind, process.Version, std.StoreOptions(c.TxnFlags))
	if err != nil {
		return err
	}
	if own.Command == "" {
		return &fault.Error{Class: fault.Usage, Place: own.Setting, Found: "no program for " + string(src.Kind()) + " records", Want: "a command", Hint: "--links COMMAND is for link records, --new COMMAND for url records"}
	}
	in, err := cli.RowsOf[T](src)
	if err != nil {
		return err
	}
	sinks, err := std.Sinks(c.Output)
	if err != nil {
		return err
	}
	progress := std.StartProgress("rows", 0)
	defer progress.Done()
	spec := stage.Spec{Name: "mextract filter", Verb: process.Verb, Store: st, Txn: c.Txn}
	return cli.RunStage(ctx, std, spec, in, sinks, func(ctx context.Context, b *stage.Batch[T, T]) error {
		return ownstage.Run(ctx, b, st, c.Txn, own, ownstage.Rows[T, T]{Convert: ownstage.All[T], Columns: columns, Drop: "filtered", Progress: progress.Add})
	})
}
