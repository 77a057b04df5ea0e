package mfocus

import (
	"context"
	"fmt"
	"strings"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/config"
	"mercator/pkg/extract"
	"mercator/pkg/focus/classify"
	"mercator/pkg/folder/stage"
	"mercator/pkg/web/process"
)

type passagesCmd struct {
	Files []string `arg:"" optional:"" help:"A crawl folder, fetch records, or WARC files; default: standard input."`
	Query string   `placeholder:"TEXT" help:"Passages with words of this text; with --model about its topics of this query."`
	Model string   `placeholder:"FILE" help:"Passages about the topics of this model."`
	Topic []string `sep:"none" placeholder:"TOPIC" help:"Only these topics of it."`
	Most  int      `short:"n" range:"0" default:"5" placeholder:"5" help:"The best passages of a document; 0: all."`
	Least float64  `default:"0" range:"0 1" placeholder:"0" help:"Only documents with this relevance or more."`
	archiveFlags
	cli.Output
}

// Help is part of --help.
func (passagesCmd) Help() string {
	return `Writes a row for each passage: key is the topic, value the text, and start, end, start_char, end_char its
place in the document's text, in bytes and in characters (the text of the module "text" and of mcat --wet).

Examples:
  mfocus passages --query "house mouse" crawl | mcat --format text
  mfocus passages --model mouse.model --topic mouse.n.01 --least 0.5 crawl |
    mcat --columns url,start,end,value`
}

func (c *passagesCmd) Run(ctx context.Context, std *cli.Std) error {
	std.BoundHeap(30 << 20)
	m, err := c.model()
	if err != nil {
		return err
	}
	in, local, err := c.rows(std, c.Files)
	if local {
		err = &fault.Error{Class: fault.Usage, File: c.Files[0], Found: "neither fetch records nor a WARC file", Want: "one of them, or a crawl folder"}
	}
	if err != nil {
		return err
	}
	sinks, err := std.Sinks(c.Output)
	if err != nil {
		return err
	}
	source := ""
	if len(c.Files) == 1 {
		source = c.Files[0]
	}
	warc := c.WARC
	if warc == "" && store.IsCrawl(source, store.Options{}) {
		warc = store.Within(source, "fetch", store.Options{})
	}
	f, err := classify.FitIn(m, warc, "")
	if err != nil {
		return err
	}
	from, scorer := c.reader(source), classify.NewScorer(f)
	defer from.Close()
	progress := std.StartProgress("documents", 0)
	defer progress.Done()
	spec := stage.Spec{Name: "mfocus passages", Like: classify.PassageSchema()}
	return cli.RunStage(ctx, std, spec, in, sinks, func(ctx context.Context, b *stage.Batch[record.Fetch, record.Module]) error {
		return record.Each(b, func(row *record.Fetch) error {
			if err := c.document(b, from, scorer, row); err != nil {
				return err
			}
			progress.Add(1)
			return context.Cause(ctx)
		})
	})
}

// document makes rows of the passages of a document.
func (c *passagesCmd) document(b *stage.Batch[record.Fetch, record.Module], from *extract.Documents, scorer *classify.Scorer, row *record.Fetch) error {
	if reason := noDocument(row); reason != "" {
		b.Drop(reason)
		return nil
	}
	doc, err := from.Read(row)
	if err != nil {
		return err
	}
	if doc == nil {
		b.Drop("no-body")
		return nil
	}
	text, err := process.Content(doc, classify.MaxText)
	if err != nil {
		b.Drop("no-text")
		return nil
	}
	if texts, _ := classify.ReadTexts(doc); c.Least > 0 && float64(scorer.Texts(texts, row.Score).Score) < c.Least {
		b.Drop("not-relevant")
		return nil
	}
	for _, found := range scorer.Rows(row, scorer.Passages(text, c.Most)) {
		if err := b.Make("passage", &found); err != nil {
			return err
		}
	}
	b.Consume()
	return nil
}

// noDocument says why a row has no document that counts; "" if it may have one.
func noDocument(row *record.Fetch) string {
	switch {
	case !row.OfPage():
		return row.Role
	case row.Outcome != record.OutcomeFetched:
		return row.Outcome
	case row.Status/100 != 2:
		return fmt.Sprintf("status-%dxx", row.Status/100)
	case row.Duplicate:
		return "duplicate"
	}
	return ""
}

// model returns the model of --model, or one made from the words of --query.
func (c *passagesCmd) model() (*classify.Model, error) {
	query := strings.TrimSpace(c.Query)
	switch {
	case c.Model != "":
		m, err := ModelFlags{ModelFlag: config.ModelFlag{Model: c.Model}, Topic: c.Topic}.Load()
		if err != nil || query == "" {
			return m, err
		}
		return m.OfQuery(query, c.Model)
	case len(c.Topic) > 0:
		return nil, &fault.Error{Class: fault.Usage, Found: "--topic without a model", Want: "--model FILE"}
	case query == "":
		return nil, &fault.Error{Class: fault.Usage, Found: "neither a query nor a model", Want: `--query TEXT or --model FILE`, Hint: `mfocus passages --query "house mouse" crawl | mcat --format text`}
	}
	return classify.OfWords(query)
}
