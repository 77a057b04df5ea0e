// Command mmerge merges, compares, cuts and checks sets and record streams.
package main

import (
	_ "embed"
	"os"

	"mercator/pkg/command/mmerge"
)

//go:embed manual.md
var manual string

func main() { os.Exit(mmerge.Command.Main(manual)) }
