// Command mresolve turns the host names of URL records into addresses.
package main

import (
	_ "embed"
	"os"

	"mercator/pkg/command/mresolve"
)

//go:embed manual.md
var manual string

func main() { os.Exit(mresolve.Command.Main(manual)) }
