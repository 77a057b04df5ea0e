// Command mfocus turns a query into topics and keeps a crawl on them.
package main

import (
	_ "embed"
	"os"

	"mercator/pkg/command/mfocus"
)

//go:embed manual.md
var manual string

func main() { os.Exit(mfocus.Command.Main(manual)) }
