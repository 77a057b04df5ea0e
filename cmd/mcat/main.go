// Command mcat shows what is in the toolkit's files, and makes record streams of text.
package main

import (
	_ "embed"
	"os"

	"mercator/pkg/command/mcat"
)

//go:embed manual.md
var manual string

func main() { os.Exit(mcat.Command.Main(manual)) }
