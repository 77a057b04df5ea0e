// Command mfocus turns a query into topics and keeps a crawl on them.
package main

import (
	_ "embed"
	"os"

	"mercator/pkg/command/mfocus"
)

type grammar struct {
	mfocus.Grammar `embed:""`
	URLs           urlsCmd `cmd:"" name:"urls" help:"Print the URLs database: sense, relevance, hub and authority of each URL."`
}

//go:embed manual.md
var manual string

func main() {
	c := mfocus.Command
	c.Grammar = func() any { return &grammar{} }
	os.Exit(c.Main(manual))
}
