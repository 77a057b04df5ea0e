// Package cli is what all commands share above their grammar: streams, flags,
// progress, signals, exit codes, and the one place that prints errors.
package cli

import (
	"context"
	"io"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/stage"
)

// Common holds the flags of every command; embed it in the grammar (embed:"").
type Common struct {
	Threads  int    `short:"@" default:"0" help:"Worker threads (0: all processors)."`
	Memory   Size   `default:"0" help:"Bound on peak resident memory, such as 64M (0: the command's default)."`
	Config   string `type:"path" help:"Read settings from this crawl.toml; flags win."`
	Stats    string `type:"path" help:"Write statistics as JSON to this file when done."`
	Progress string `enum:"auto,plain,json,off" default:"auto" help:"Progress on standard error: auto, plain, json or off."`
	Quiet    bool   `short:"q" help:"Print errors only."`
}

// Output holds the flags of a command that writes records.
type Output struct {
	Output string   `short:"o" type:"path" help:"Write to this file, which appears complete or not at all, instead of standard output."`
	Copy   []string `type:"path" help:"Also keep the output in this file, published before the stream's trailer goes down the pipe."`
}

// TxnFlags hold the flags of a command that changes a store.
type TxnFlags struct {
	Txn      string        `help:"Name of this change. Repeating a committed one returns its output."`
	LockWait time.Duration `default:"70s" help:"How long to wait for a store that another process is changing."`
}

// Size is a number of bytes; text with K, M, G (powers of 1024).
type Size int64

// UnmarshalText parses "64M".
func (s *Size) UnmarshalText(text []byte) error { panic("seam") }

// Std is the world as a command sees it. Tests make their own.
type Std struct {
	Name   string // command
	In     io.Reader
	Out    io.Writer
	Err    io.Writer
	Now    func() time.Time
	Common *Common
}

// Main parses the command line into grammar (a pointer to a kong struct that embeds
// Common; its commands have Run(ctx context.Context, std *cli.Std) error), runs the
// command, prints the error if any, and returns the exit code.
// defaultMemory bounds RSS where --memory is not given (it becomes the Go memory limit).
func Main(name, about string, grammar any, defaultMemory Size) int { panic("seam") }

// MemoryLimit is --memory or the command's default, in bytes.
func (s *Std) MemoryLimit() int64 { panic("seam") }

// Threads is -@, or the number of processors.
func (s *Std) Threads() int { panic("seam") }

// Warn prints a line on standard error, unless --quiet, without control characters.
func (s *Std) Warn(format string, args ...any) { panic("seam") }

// Stat adds a value to what --stats writes.
func (s *Std) Stat(key string, value any) { panic("seam") }

// Progress of long work: n of total units (total 0: unknown). Safe for many goroutines.
type Progress struct{}

func (s *Std) StartProgress(unit string, total int64) *Progress { panic("seam") }
func (p *Progress) Add(n int64)                                 { panic("seam") }
func (p *Progress) Done()                                       { panic("seam") }

// OpenRecords opens files ("-" or none: standard input) as one input of rows.
func OpenRecords[T record.Row](s *Std, files []string) (stage.Input[T], error) { panic("seam") }

// OpenSource opens files as record streams whose kind the caller chooses by afterwards.
func OpenSource(s *Std, files []string) (*Records, error) { panic("seam") }

// Records is an input of one kind, not read yet.
type Records struct{}

func (r *Records) Kind() record.Kind                          { panic("seam") }
func RowsOf[T record.Row](r *Records) (stage.Input[T], error) { panic("seam") }

// OpenText reads lines of URLs as url rows; convert makes a row of a line, and an
// error from it names the line. Bad lines are counted, warned of and skipped, or with
// strict are an error. Lines that are empty or begin with # are skipped.
func OpenText(s *Std, files []string, strict bool, convert func(line string, row *record.URL) error) (stage.Input[record.URL], error) {
	panic("seam")
}

// IsText says whether files are to be read as text: --text, or all named *.txt.
func IsText(text bool, files []string) bool { panic("seam") }

// Sinks opens the places where rows go: -o FILE or standard output (refused if it
// is a terminal), and the copies.
func (s *Std) Sinks(o Output) ([]stage.Sink, error) { panic("seam") }

// OpenStore opens a store with the flags' lock wait.
func (s *Std) OpenStore(dir, kind, version string, f TxnFlags) (*store.Store, error) { panic("seam") }

// RunStage is stage.Run with the books put into --stats and the summary on standard error.
func RunStage[In, Out record.Row](ctx context.Context, s *Std, spec stage.Spec, in stage.Input[In], sinks []stage.Sink, body func(ctx context.Context, b *stage.Batch[In, Out]) error) error {
	panic("seam")
}
