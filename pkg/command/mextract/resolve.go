package mextract

import (
	"context"

	"mercator/formats/record"
	"mercator/pkg/cli"
	"mercator/pkg/extract"
	"mercator/pkg/folder/stage"
)

type resolveCmd struct {
	cli.Output `embed:""`
	candidates `embed:""`

	Files []string `arg:"" optional:"" help:"Link records; default: standard input."`
	Txn   string   `placeholder:"NAME" help:"Name of the round."`
}

// Help is part of --help.
func (*resolveCmd) Help() string {
	return `The result is what "mextract links" writes without --raw. Links that are
absolute already stay as they are: this applies another filter to them.

Examples:
  mextract links --raw pages.warc.gz -o raw.arrows.zst
  mextract resolve raw.arrows.zst --filter my.rules -o links.arrows.zst`
}

func (c *resolveCmd) Run(ctx context.Context, std *cli.Std) error {
	opt, rules, err := c.load(std)
	if err != nil {
		return err
	}
	if rules != nil {
		defer rules.Close()
	}
	in, err := cli.OpenRecords[record.Link](std, c.Files)
	if err != nil {
		return err
	}
	sinks, err := std.Sinks(c.Output)
	if err != nil {
		return err
	}
	progress := std.StartProgress("links", 0)
	defer progress.Done()
	return cli.RunStage(ctx, std, stage.Spec{Name: "mextract resolve", Txn: c.Txn}, in, sinks, func(ctx context.Context, b *stage.Batch[record.Link, record.Link]) error {
		return extract.Resolve(ctx, b, opt, rules, func() { progress.Add(1) })
	})
}
