// Command mrender runs the scripts of pages in a browser, for the links and the text that they make.
package main

import (
	_ "embed"
	"os"

	"mercator/pkg/command/mrender"
)

//go:embed manual.md
var manual string

func main() { os.Exit(mrender.Command.Main(manual)) }
