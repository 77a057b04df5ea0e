// Command msearch keeps a full-text index of a crawl's pages and answers queries from it.
package main

import (
	_ "embed"
	"os"

	"mercator/pkg/command/msearch"
)

//go:embed manual.md
var manual string

func main() { os.Exit(msearch.Command.Main(manual)) }
