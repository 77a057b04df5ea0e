package mfocus

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/focus/words"
)

type topicsCmd struct {
	DB       string        `arg:"" help:"The words database."`
	Query    []string      `sep:"none" placeholder:"QUERY" help:"Print the topics of this query only. May be given again: a sense that several have is printed once."`
	Topic    []string      `placeholder:"NAME" help:"Print these topics only, such as mouse.n.01."`
	Output   string        `short:"o" placeholder:"FILE" help:"Write to this file instead of standard output."`
	LockWait time.Duration `default:"10s" help:"Wait this long for a database that is in use."`
}

// Help is part of --help.
func (topicsCmd) Help() string {
	return `A JSON line for each topic, which is one sense of a query, with its words and
their weights. "mfocus train" reads them.

Examples:
  mfocus topics words.db | jq -r '[.topic, .gloss] | @tsv'
  mfocus topics words.db --topic mouse.n.01,mouse.n.04 -o topics.jsonl`
}

func (c *topicsCmd) Run(ctx context.Context, std *cli.Std) error {
	db, err := words.OpenDB(ctx, c.DB, false, c.LockWait)
	if err != nil {
		return err
	}
	defer db.Close()
	var file *durable.Atomic
	to := io.Writer(std.Out)
	if c.Output != "" && c.Output != "-" {
		if file, err = durable.CreateOutput(c.Output); err != nil {
			return err
		}
		defer file.Abort()
		to = file
	}
	out := bufio.NewWriter(to)
	e := encoder(out)
	missing := slices.Clone(c.Topic)
	var topics []words.Topic
	n := 0
	wanted := func(query, topic string) bool {
		named := func(list []string, name string) bool {
			return len(list) == 0 || slices.ContainsFunc(list, func(s string) bool { return strings.EqualFold(strings.Join(strings.Fields(s), " "), name) })
		}
		return named(c.Query, query) && named(c.Topic, topic)
	}
	err = db.Topics(ctx, wanted, func(t words.Topic) error {
		n++
		missing = slices.DeleteFunc(missing, func(s string) bool { return strings.EqualFold(s, t.Topic) })
		if len(c.Query) > 1 {
			topics = append(topics, t)
			return nil
		}
		return e.Encode(t)
	})
	for _, t := range words.Join(topics) {
		if err == nil {
			err = e.Encode(t)
		}
	}
	switch {
	case err != nil:
		return err
	case len(missing) > 0:
		return &fault.Error{Class: fault.Usage, File: c.DB, Found: fmt.Sprintf("no topic %q", missing[0]), Want: "one that it has", Hint: "list them: " + fault.Quote("mfocus", "topics", c.DB) + " | jq -r .topic"}
	case n == 0:
		return &fault.Error{Class: fault.Usage, File: c.DB, Found: "no topics", Want: "those of a query", Hint: "make them: " + fault.Quote("mfocus", "expand", c.DB, "mouse")}
	}
	if err := out.Flush(); err != nil || file == nil {
		return err
	}
	return file.Commit()
}
