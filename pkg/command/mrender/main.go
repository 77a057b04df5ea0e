// Package mrender runs the scripts of pages in a browser. No command but mrender is built with it.
package mrender

import (
	"context"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/cli"
	"mercator/pkg/config"
	"mercator/pkg/extract"
	"mercator/pkg/folder/stage"
	"mercator/pkg/render"
	"mercator/pkg/render/browser"
	"mercator/pkg/web/filter"
)

const about = `Run the scripts of pages in Chromium, for the links and the text that they make.

    mrender crawl/render --txn r1 --warc crawl/fetch \
      --outcomes marked.arrows.zst < links.arrows.zst > more.arrows.zst`

type grammar struct {
	cli.Common `embed:""`

	Links  linksCmd  `cmd:"" default:"withargs" help:"Pass links on, with those that scripts make (the default)."`
	Create createCmd `cmd:"" help:"Make an empty store."`
}

type linksCmd struct {
	Store    string   `arg:"" help:"The render store, such as crawl/render."`
	Files    []string `arg:"" optional:"" help:"Link records of the batch; default: standard input."`
	Outcomes string   `required:"" type:"path" placeholder:"FILE" help:"Fetch records of the batch, a file: it is read twice."`
	WARC     string   `name:"warc" required:"" type:"existingdir" placeholder:"STORE" help:"Fetch store with their documents."`
	Found    string   `type:"path" placeholder:"FILE" help:"Write what pages show to this file."`
	config.Render
	config.FilterFlag
	config.RewriteFlags
	config.LinkSources
	config.UserAgentFlag
	config.MaxBodyFlag
	cli.TxnFlags
	cli.Output
}

// Help is part of --help.
func (*linksCmd) Help() string {
	return `The browser has no network. What a page asks for and the archive has not becomes
a link; when that was fetched, the page is rendered again.

Examples:
  mrender crawl/render links.arrows.zst --outcomes marked.arrows.zst \
    --warc crawl/fetch --pages auto -o rendered.arrows.zst`
}

func (c *linksCmd) Run(ctx context.Context, std *cli.Std) error {
	opt, err := c.Canon()
	if err != nil {
		return err
	}
	var rules [2]*filter.Filter
	for i, file := range []string{c.Filter, c.Rules} {
		if file == "" {
			continue
		}
		if rules[i], err = filter.Load(file, filter.Options{Memory: std.MemoryLimit() / 8, Schemes: opt.Schemes}); err != nil {
			return err
		}
		defer rules[i].Close()
	}
	from, err := extract.ParseSources(c.From)
	if err != nil {
		return err
	}
	st, err := std.OpenStore(c.Store, render.Kind, render.Version, c.TxnFlags)
	if err != nil {
		return err
	}
	in, err := cli.OpenRecords[record.Link](std, c.Files)
	if err != nil {
		return err
	}
	sinks, err := std.Sinks(c.Output)
	if err != nil {
		return err
	}
	progress := std.StartProgress("pages", 0)
	defer progress.Done()
	set := render.Settings{
		Pages: c.Pages, Filter: rules[0], Rules: rules[1], Archive: store.Within(c.WARC, "fetch", store.Options{}), MaxBody: int64(c.MaxBody), Attempts: c.Attempts, Browsers: c.Browsers,
		Links: extract.Options{Canon: opt, Sources: from, IgnoreNofollow: c.IgnoreNofollow, Agent: c.UserAgent},
		Page: render.Page{Wait: c.Wait, Timeout: c.Timeout, Requests: c.Requests, Bytes: int64(c.Bytes), Document: int(c.MaxBody), Scroll: c.Scroll, More: c.More,
			Screenshot: c.Screenshot},
		Start: func(ctx context.Context) (render.Browser, error) {
			return browser.Start(ctx, browser.Options{Program: c.Browser, Memory: int64(c.BrowserMax)})
		},
		Outcomes: func() (stage.Input[record.Fetch], error) {
			return cli.OpenRecords[record.Fetch](std, []string{c.Outcomes})
		},
		Done: func() { progress.Add(1) },
	}
	spec := stage.Spec{Name: "mrender", Verb: render.Verb, Shape: stage.Gate, Store: st, Txn: c.Txn}
	return cli.RunStage(ctx, std, spec, in, sinks, func(ctx context.Context, b *stage.Batch[record.Link, record.Link]) error {
		var found *cli.Side[record.Module]
		if c.Found != "" {
			if found, err = cli.CreateSide[record.Module](std, c.Found, record.WriterOptions{Txn: c.Txn, Now: in.Schema().Now, Epoch: in.Schema().Epoch}); err != nil {
				return err
			}
		}
		defer found.Abort()
		set.Finding = func(row *record.Module) error { return found.Write(row.Module, row) }
		report, err := render.Batch(ctx, st, b, set)
		if err != nil {
			return err
		}
		std.Stat("render", report)
		if report.Failed > 0 {
			std.Warn("%s not rendered: the browser ended or was too large each time", cli.Count(report.Failed, "page"))
		}
		t := in.Trailer()
		return found.Publish(record.Stage{Name: "mrender found", In: t.Rows, InHash: t.Hash.String(), Consumed: t.Rows}, t.Ledger)
	})
}

type createCmd struct {
	Store string `arg:"" help:"Folder to make."`
}

// Help is part of --help.
func (*createCmd) Help() string {
	return `"mckpt init" makes it for a crawl with render.pages or render.filter. Making the same
again is no error.

Examples:
  mrender create crawl/render`
}

func (c *createCmd) Run() error { return render.CreateStore(c.Store, store.Options{}) }

// Command is mrender.
var Command = cli.Command{Name: "mrender", About: about, Memory: 128 << 20, Setting: "memory.stages", Grammar: func() any { return &grammar{} }}
