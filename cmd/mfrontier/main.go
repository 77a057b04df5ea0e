// Command mfrontier keeps the URLs that are still to be fetched and says which are next.
package main

import (
	_ "embed"
	"os"

	"mercator/pkg/command/mfrontier"
)

//go:embed manual.md
var manual string

func main() { os.Exit(mfrontier.Command.Main(manual)) }
