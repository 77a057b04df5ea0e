// Package mfocus turns a query into topics and keeps a crawl on them.
package mfocus

import (
	"mercator/pkg/cli"
)

const about = `Focus a crawl on what a query means: words, senses, relevance. The verbs stand in the order of their use. Each works in a pipe.`

type grammar struct {
	cli.Common `embed:""`

	Query    queryCmd    `cmd:"" help:"Say whether a query is a word, a set of words or a URL."`
	Words    wordsCmd    `cmd:"" help:"Keep the important words of a text."`
	Senses   sensesCmd   `cmd:"" help:"Look words up in the dictionary."`
	Expand   expandCmd   `cmd:"" help:"Put the words of a query into a database, with similar ones."`
	Topics   topicsCmd   `cmd:"" help:"Print the topics of a database: the senses of its queries."`
	Train    trainCmd    `cmd:"" help:"Make a model of topics from their words and example pages."`
	Score    ScoreCmd    `cmd:"" help:"Give fetched documents their relevance and topic."`
	Explain  explainCmd  `cmd:"" help:"Show which words moved the score of a document."`
	Passages passagesCmd `cmd:"" help:"Write the passages of documents about a query or a topic."`
	Distill  DistillCmd  `cmd:"" help:"Score hubs and authorities, and write the URLs that good hubs link to."`
	URLs     urlsCmd     `cmd:"" name:"urls" help:"Print the URLs database: sense, relevance, hub and authority of each URL."`
}

// Command is mfocus.
var Command = cli.Command{Name: "mfocus", About: about, Memory: 64 << 20, Setting: "memory.stages", Grammar: func() any { return &grammar{} }}
