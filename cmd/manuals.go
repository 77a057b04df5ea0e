// Package cmd has the manuals of all commands, for the program that is all of them.
package cmd

import "embed"

//go:embed m*/manual.md
var manuals embed.FS

// Manual is the manual.md of a command.
func Manual(command string) string {
	text, err := manuals.ReadFile(command + "/manual.md")
	if err != nil {
		panic(err) // it is no command
	}
	return string(text)
}
