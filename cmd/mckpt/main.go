// Command mckpt keeps the checkpoints of a crawl folder.
package main

import (
	_ "embed"
	"os"

	"mercator/pkg/command/mckpt"
)

//go:embed manual.md
var manual string

func main() { os.Exit(mckpt.Command.Main(manual)) }
