package mfocus

import (
	"bytes"
	"cmp"
	"context"
	"path/filepath"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/config"
	"mercator/pkg/focus/classify"
	"mercator/pkg/folder/stage"
	"mercator/pkg/frontier"
	"mercator/pkg/web/process"
)

type ScoreCmd struct {
	Files   []string `arg:"" optional:"" help:"Fetch records; default: standard input."`
	Txn     string   `placeholder:"NAME" help:"Name of the round."`
	Learned string   `more:"" type:"path" placeholder:"STORE" help:"Store of what is learned of the crawl (default: CRAWL/modules/focus)."`
	ModelFlags
	ArchiveFlags
	cli.Output
}

// Help is part of --help.
func (ScoreCmd) Help() string {
	return `The same records are written in the same order: score is the relevance of the document, 0 to 1, and the
further column topic says which topic it is about. A document without text has the score that its links
promise; duplicates have 0. Records of URLs that were not fetched keep their score. In a crawl focus.model
in crawl.toml names the model, and a round teaches: what was learned is in CRAWL/modules/focus. A crawl
folder is judged again by all that its rounds have taught: early pages, too.

Examples:
  mfpset mark crawl/content --txn r1 fetched.arrows.zst |
    mfocus score --model mouse.model --warc crawl/fetch --txn r1 \
      -o marked.arrows.zst
  mfocus score --model crawl/focus.model crawl |
    mcat --columns score,topic,url --format tsv | sort -rn`
}

// perThread is the memory of a thread that scores, besides bodies, in bytes.
const perThread = 12 << 20

func (c *ScoreCmd) Run(ctx context.Context, std *cli.Std) error {
	std.BoundHeap(30 << 20)
	m, err := c.Load()
	if err != nil {
		return err
	}
	crawl := len(c.Files) == 1 && store.IsCrawl(c.Files[0], store.Options{})
	if c.WARC == "" && crawl {
		c.WARC = c.Files[0]
	}
	if c.WARC != "" {
		c.WARC = store.Within(c.WARC, "fetch", store.Options{})
	}
	if err := c.checkPolicy(); err != nil {
		return err
	}
	records, err := cli.OpenRecords[record.Fetch](std, c.Files)
	if err != nil {
		return err
	}
	in := withTopic{records, records.Schema().WithText(classify.TopicColumn)}
	sinks, err := std.Sinks(c.Output)
	if err != nil {
		return err
	}
	progress := std.StartProgress("documents", 0)
	defer progress.Done()
	st, learned, err := c.learned(records.Schema().Txn)
	if err != nil {
		for _, s := range sinks {
			s.Abort()
		}
		return err
	}
	taught := false
	if crawl && c.Txn == "" { // no round: all pages are judged again
		taught, st = st != nil, nil
	}
	settings := classify.Settings{Model: m, Learned: learned, Archive: c.WARC, MaxBody: int64(c.MaxBody), Schema: in.schema, Taught: taught, Done: func() { progress.Add(1) },
		Threads: min(std.Threads(), int(std.MemoryLimit()/perThread))}
	spec := stage.Spec{Name: "mfocus score", Txn: c.Txn, Threads: (std.Threads() + 3) / 4}
	if st != nil {
		spec.Shape, spec.Verb, spec.Store = stage.Gate, "score", st
	}
	return cli.RunStage(ctx, std, spec, in, sinks, func(ctx context.Context, b *stage.Batch[record.Fetch, record.Fetch]) error {
		report, err := classify.Batch(ctx, b, settings)
		std.Stat("score", report)
		if err != nil || st == nil {
			return err
		}
		tx, err := b.Begin(ctx)
		if err != nil {
			return err
		}
		var state bytes.Buffer
		if err := learned.Write(&state); err != nil {
			return err
		}
		return process.ReplaceState(tx, bytes.NewReader(state.Bytes()))
	})
}

// learned opens the store of what rounds have learned, if this is a round of a crawl that has one, and reads it.
func (c *ScoreCmd) learned(txn string) (*store.Store, *classify.Learned, error) {
	dir := c.Learned
	if dir == "" && c.WARC != "" {
		dir = classify.LearnedIn(c.WARC)
	}
	if cmp.Or(c.Txn, txn) == "" || dir == "" {
		l, err := classify.ReadLearned(nil, "")
		return nil, l, err
	}
	return classify.OpenLearned(dir)
}

// Fitted is Fit of the model.
func (f ModelFlags) Fitted(warc, stores string) (*classify.Fitted, error) {
	m, err := f.Load()
	if err != nil {
		return nil, err
	}
	return classify.FitIn(m, warc, stores)
}

// checkPolicy refuses a round of a crawl if its policy uses the column score for itself.
func (c *ScoreCmd) checkPolicy() error {
	crawl := store.Folder(c.WARC, store.Options{}).CrawlDir()
	if crawl == "" || c.Txn == "" {
		return nil
	}
	f, err := frontier.Open(filepath.Join(filepath.Dir(filepath.Clean(c.WARC)), frontier.Kind), store.Options{})
	if err != nil {
		return nil // there is none: a crawl of one's own
	}
	if own, err := f.OwnScores(); err != nil || !own {
		return err
	}
	return &fault.Error{Class: fault.Usage, File: crawl, Found: "a crawl whose policy uses scores for itself (opic, walk)", Want: "another policy for relevance",
		Hint: "score its documents when it is done: " + fault.Quote("mfocus", "score", "--model", c.Model, crawl)}
}

// Load reads the model.
func (f ModelFlags) Load() (*classify.Model, error) {
	if f.Model == "" {
		return nil, &fault.Error{Class: fault.Usage, Found: "no model", Want: "--model FILE, or focus.model in the crawl's crawl.toml", Hint: "mfocus train --help"}
	}
	m, err := classify.Read(f.Model)
	if err != nil {
		return nil, err
	}
	return m.Only(f.Topic, f.Model)
}

// withTopic wraps an input; its rows go out with one more column, the topic.
type withTopic struct {
	stage.Input[record.Fetch]
	schema *record.Schema
}

func (in withTopic) Schema() *record.Schema { return in.schema }

// ModelFlags choose a model.
type ModelFlags struct {
	config.ModelFlag
	Topic []string `sep:"none" placeholder:"TOPIC" help:"Only these topics of it."`
}

// ArchiveFlags say where documents are.
type ArchiveFlags struct {
	WARC string `name:"warc" type:"existingdir" placeholder:"STORE" help:"Fetch store with the documents of the records."`
	config.MaxBodyFlag
}
