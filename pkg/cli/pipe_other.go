//go:build !linux

package cli

import "os"

// widenPipe does nothing where pipes have one size.
func widenPipe(any) {}

// standardInput is os.Stdin. A read of it that waits cannot be ended.
func standardInput() *os.File { return os.Stdin }
