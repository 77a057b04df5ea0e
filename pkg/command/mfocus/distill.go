package mfocus

import (
	"cmp"
	"context"
	"path/filepath"
	"strings"

	"mercator/formats/record"
	"mercator/pkg/cli"
	"mercator/pkg/config"
	"mercator/pkg/crawl"
	"mercator/pkg/focus/distill"
	"mercator/pkg/folder/stage"
	"mercator/pkg/frontier"
)

// Dir is the folder of a crawl with what is derived for its focus.
const Dir = "focus"

// CrawlArg is the crawl folder of a verb.
type CrawlArg struct {
	Crawl string `arg:"" help:"The crawl folder."`
}

type DistillCmd struct {
	CrawlArg
	Hubs      int     `default:"1000" range:"1 10000000" help:"How many hubs count, the best first."`
	Least     float64 `default:"0.2" range:"0 1" help:"Raise only URLs with this promise or more."`
	Threshold float64 `default:"0.5" range:"0 <1" help:"Relevance above which a page may be an authority."`
	Steps     int     `default:"5" range:"1 100" help:"Steps of the recursion."`
	Update    bool    `help:"Only bring the scores up to date: write no URLs."`
	cli.Output
}

// Help is part of --help.
func (DistillCmd) Help() string {
	return `Scores hubs and authorities from the record files of all rounds, and keeps the
scores in CRAWL/focus. Writes url rows: the URLs that are not fetched and that the
best hubs link to. The score of a row is the promise: the mean relevance of what
the hub links to, as far as it was fetched. Its priority is the front queue that
--prioritizer score gives such a score.

Examples:
  mfocus distill crawl | mfrontier raise crawl/frontier --txn raise7 &&
    mckpt commit crawl --txn raise7
  mfocus distill crawl | mcat --format tsv --columns url,score,via`
}

func (c *DistillCmd) Run(ctx context.Context, std *cli.Std) error {
	var sinks []stage.Output
	if !c.Update {
		var err error
		if sinks, err = std.Sinks(c.Output); err != nil {
			return err
		}
	}
	folder, err := c.Scored(ctx, std, distill.Options{Threshold: c.Threshold, Steps: c.Steps})
	if err != nil {
		for _, s := range sinks {
			s.Abort()
		}
		return err
	}
	if c.Update {
		return nil
	}
	conf, err := config.Load(filepath.Join(c.Crawl, config.Name))
	if err != nil {
		return err
	}
	queues := cmp.Or(conf.File.Frontier.Queues, frontier.DefaultQueues)
	spec := stage.Spec{Name: "mfocus distill", Shape: stage.Source}
	return cli.RunStage(ctx, std, spec, nil, sinks, func(ctx context.Context, b *stage.Batch[record.URL, record.URL]) error {
		return folder.Raise(ctx, c.Hubs, func(r *distill.Raised) error {
			if r.Promise < c.Least {
				return nil
			}
			u := r.URL
			u.Score = float32(r.Promise)
			u.Priority = frontier.ScoreQueue(u.Score, queues)
			return b.Make("hub", &u)
		})
	})
}

// Scored brings the scores of a crawl up to date.
func (c *CrawlArg) Scored(ctx context.Context, std *cli.Std, opt distill.Options) (*distill.Folder, error) {
	files, err := c.records(std)
	if err != nil {
		return nil, err
	}
	progress := std.StartProgress("rows", 0)
	defer progress.Done()
	opt.Memory, opt.Progress = std.MemoryLimit()/2, progress.Add
	opt.Waiting = func(err error) { std.Warn("%v; waiting", err) }
	folder := distill.Open(filepath.Join(c.Crawl, Dir), opt)
	changed, err := folder.Update(ctx, files)
	std.Stat("changed", changed)
	return folder, err
}

// records lists the record files of a crawl's closed rounds that the scores are made of.
func (c *CrawlArg) records(std *cli.Std) (files []distill.File, err error) {
	in, err := crawl.Open(c.Crawl, crawl.Options{Warn: func(err error) { std.Warn("%v", err) }})
	if err != nil {
		return nil, err
	}
	kept, err := in.Files()
	if err != nil {
		return nil, err
	}
	kept = kept.Closed()
	outcomes, err := kept.Outcomes()
	if err != nil {
		return nil, err
	}
	paths, err := kept.Files(outcomes, "links")
	for _, path := range paths {
		files = append(files, distill.File{Path: path, Links: strings.HasPrefix(filepath.Base(path), "links.")})
	}
	return files, err
}
