// Command murlset answers the URL-seen test from a set of URL checksums.
package main

import (
	_ "embed"
	"os"

	"mercator/pkg/command/murlset"
)

//go:embed manual.md
var manual string

func main() { os.Exit(murlset.Command.Main(manual)) }
