// Command mextract finds the links of fetched documents, and runs processing
// modules over them.
package main

import (
	_ "embed"
	"os"

	"mercator/pkg/command/mextract"
)

//go:embed manual.md
var manual string

func main() { os.Exit(mextract.Command.Main(manual)) }
