// Package mfocus has the verbs of mfocus that rounds run: documents get their relevance, and URLs that good hubs link to are found.
package mfocus

import "mercator/pkg/cli"

type grammar struct {
	cli.Common `embed:""`

	Score   ScoreCmd   `cmd:"" help:"Give fetched documents their relevance and topic."`
	Distill DistillCmd `cmd:"" help:"Score hubs and authorities, and write the URLs that good hubs link to."`
}

// Command is mfocus with these verbs; the others bring a database.
var Command = cli.Command{Name: "mfocus", Memory: 64 << 20, Setting: "memory.stages", Grammar: func() any { return &grammar{} }}
