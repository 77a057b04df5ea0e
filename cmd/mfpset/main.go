// Command mfpset answers the content-seen test from a set of fingerprints.
package main

import (
	_ "embed"
	"os"

	"mercator/pkg/command/mfpset"
)

//go:embed manual.md
var manual string

func main() { os.Exit(mfpset.Command.Main(manual)) }
