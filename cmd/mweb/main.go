// Command mweb serves a synthetic web, or a saved one, on loopback addresses:
// HTTP, DNS, robots, and the oracle that says what a crawl must find.
package main

import (
	_ "embed"
	"os"

	"mercator/pkg/command/mweb"
)

//go:embed manual.md
var manual string

func main() { os.Exit(mweb.Command.Main(manual)) }
