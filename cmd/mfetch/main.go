// Command mfetch contacts servers, politely: it makes fetch records of url
// records and keeps every byte in WARC files.
package main

import (
	_ "embed"
	"os"

	"mercator/pkg/command/mfetch"
)

//go:embed manual.md
var manual string

func main() { os.Exit(mfetch.Command.Main(manual)) }
