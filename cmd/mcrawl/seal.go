package main

import (
	"context"
	"fmt"
	"path/filepath"

	"mercator/pkg/cli"
	"mercator/pkg/driver"
	"mercator/pkg/driver/tell"
)

type sealCmd struct {
	Crawl string `arg:"" help:"The crawl folder."`
}

// Help is part of --help.
func (*sealCmd) Help() string {
	return `A run does this at the crawl's end. It changes no checkpoint, and you can go on
afterwards: that begins new WARC files. The index is crawl/index/index.cdxj.

Examples:
  mcrawl seal crawl
  wayback -d crawl/index    # pywb serves it: http://localhost:8080/crawl/`
}

func (c *sealCmd) Run(ctx context.Context, std *cli.Std) error {
	progress := std.StartLong("records")
	defer progress.Done()
	sealed, err := driver.Seal(ctx, c.Crawl, progress.Add)
	if err != nil {
		return err
	}
	replay, err := tell.Replay(c.Crawl)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.Out, "%s sealed; the index is in %s\nto replay: %s\n", cli.Count(sealed, "WARC file"), filepath.Join(c.Crawl, tell.IndexDir), replay)
	return err
}
