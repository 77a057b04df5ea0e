// Package cli is what all commands share above their grammar: streams, flags,
// progress, signals, exit codes, and the one place that prints errors.
//
// A Command has a kong grammar that embeds Common. Its verbs have
// Run(ctx context.Context, std *cli.Std) error. Main does the rest. Nothing
// below this package prints, logs or exits.
package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/release"
	"mercator/pkg/base/setting"
	"mercator/pkg/base/trace"
	"mercator/pkg/config"
	"mercator/pkg/crawl"
	"mercator/pkg/web/canon"
)

// Common holds the flags of every command; embed it in the grammar (embed:"").
type Common struct {
	Threads  int              `more:"" range:"0 1024" group:"Common flags:" short:"@" placeholder:"N" help:"Worker threads (default: all processors)."`
	Memory   Size             `more:"" group:"Common flags:" placeholder:"${memory}" help:"Memory limit."`
	Config   configFlag       `more:"" group:"Common flags:" placeholder:"FILE" help:"Settings (default: crawl.toml of the crawl folder)."`
	Stats    string           `more:"" group:"Common flags:" placeholder:"FILE" help:"Write statistics to this file as JSON."`
	Profile  string           `more:"" group:"Common flags:" placeholder:"FILE" help:"Write a CPU profile, for go tool pprof."`
	Progress string           `group:"Common flags:" placeholder:"MODE" enum:"auto,plain,json,off" default:"auto" help:"auto (a bar on a terminal), plain, json or off."`
	Quiet    bool             `group:"Common flags:" short:"q" help:"Print errors only."`
	Version  kong.VersionFlag `group:"Common flags:" help:"Print the version."`
	Manuals  manualsFlag      `hidden:"" placeholder:"DIR" help:"Write the manual pages as Markdown into this folder."`
}

func (c *Common) common() *Common { return c }

// Output holds the flags of a command that writes records.
type Output struct {
	Output string   `group:"Output:" short:"o" placeholder:"FILE" help:"Write to this file instead of standard output."`
	Copy   []string `group:"Output:" sep:"none" more:"" placeholder:"FILE" help:"Write to this file too."`
}

// TxnFlags hold the flags of a command that changes a store.
type TxnFlags struct {
	Txn      string        `group:"Transaction:" placeholder:"NAME" help:"Name of this change; repeating it changes nothing."`
	LockWait time.Duration `group:"Transaction:" default:"70s" more:"" help:"Wait this long for a store that is in use."`
}

// Size is a number of bytes; text with K, M, G (powers of 1024).
type Size = config.Size

// Std is the world as a command sees it. Tests make their own.
type Std struct {
	Name   string // command
	In     io.Reader
	Out    io.Writer
	Err    io.Writer
	Now    func() time.Time
	Common *Common

	defaultMemory Size
	keys          map[string]string // of the verb's flags, those that are settings
	has           []string          // flags of the command line and of crawl.toml
	manual        string            // manual.md of the command
	args          []string          // of the command line
	call          *Call             // in which the command runs; nil: it is a process
	parser        *parser           // of the command line
	hintSets      bool              // the hint that was printed is the command that changes a setting
	parsed        error             // error in the command line
	given         []string          // flags of the command line
	takesText     bool              // the verb has the flag --text
	stats         stats
	profile       bytes.Buffer
	AtOnce        atomic.Pointer[string]   // the hint after a second signal, which ends the command at once; nil: the first signal's hint
	bar           atomic.Pointer[Progress] // set while the command runs, which a signal may outlast
}

// grace is how long a command may take to stop after a signal. Stores and files
// survive a sudden end, so it only spares temporary files.
const grace = 3 * time.Second

// Command is a command of the toolkit: its grammar, and what it is called.
type Command struct {
	Name    string
	About   string     // for --help
	Memory  Size       // bound on resident memory, where --memory is not given
	Grammar func() any // a pointer to a new kong struct that embeds Common
	Setting string     // setting that gives the default of --memory; "": none

	Arguments func([]string) []string // rewrites the command line before it is parsed; nil: as it is
}

// Main runs the command that the command line asks for, prints the error if there is one, and returns the exit code. manual is the
// command's manual.md.
func (c Command) Main(manual string) int {
	out := &stdout{f: os.Stdout}
	std := &Std{Name: c.Name, In: standardInput(), Out: out, Err: os.Stderr, Now: time.Now, args: os.Args[1:], manual: manual, defaultMemory: c.Memory}
	if c.Arguments != nil {
		std.args = c.Arguments(std.args)
	}
	collectLate()
	log.SetOutput(io.Discard) // net/http writes a line there for what a server does, as often as that likes
	var err error
	if std.Err, err = logTo(os.Stderr, c.Name, time.Now); err != nil {
		std.Common = &Common{}
		return std.fail(err)
	}
	// A reader that goes away is seen as EPIPE, so that temporary files are removed.
	// To ignore the signal would do too, but programs that this one starts inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	kctx, code := c.parse(std, out)
	if out.failed() != nil { // --help or --version
		return std.fail(out.failed())
	}
	if std.parsed != nil {
		return std.fail(std.parsed)
	}
	if kctx == nil {
		return code
	}
	if file := os.Getenv(trace.Variable); file != "" {
		if err := startTrace(file); err != nil {
			return std.fail(err)
		}
		defer func() {
			if err := trace.End(); err != nil {
				std.WarnAlways("%s is not whole: %v", trace.Variable, err)
			}
		}()
	}
	BoundMemory(std.MemoryLimit())
	if n := std.Common.Threads; n > 0 {
		runtime.GOMAXPROCS(max(n, 2)) // one more than the work, for the collector and I/O
	}
	return std.run(kctx)
}

// startTrace traces what the environment names. URLs are looked for in the form that they have in a crawl.
func startTrace(file string) error {
	var of []string
	for _, u := range strings.Fields(os.Getenv(trace.For)) { // a canonical URL has no blank
		if strings.Contains(u, "://") {
			c, _, err := canon.URL(u)
			if err != nil {
				return &fault.Error{Class: fault.Usage, Place: trace.For, Found: u, Want: "URLs and hosts, with blanks between", Err: err}
			}
			u = c
		}
		of = append(of, u)
	}
	return trace.Start(file, of)
}

// parse reads the command line. Without a verb to run it returns nil: std.parsed says what is wrong, or --help or --version was answered on out, and
// code is the exit code.
func (c Command) parse(std *Std, out io.Writer) (kctx *kong.Context, code int) {
	exit := -1
	p := c.parser(std,
		kong.Writers(out, std.Err),
		kong.Exit(func(code int) { exit = code; panic(exited{}) }),
		kong.Bind(std),
	)
	parser, grammar := p.kong, p.grammar
	std.parser, std.Common = p, grammar.(interface{ common() *Common }).common()
	if std.call == nil && completes(parser) {
		return nil, 0
	}
	fail := func(err error) (*kong.Context, int) {
		std.parsed = err
		return nil, -1
	}
	for _, arg := range std.args {
		if !utf8.ValidString(arg) { // kong would change it
			return fail(&fault.Error{Class: fault.Usage, Found: fmt.Sprintf("argument %q", arg), Want: "UTF-8", Hint: "a symbolic link gives a file another name"})
		}
	}
	kctx, err := parse(parser, std.args)
	if exit >= 0 {
		return nil, exit
	}
	if err != nil {
		return fail(usage(err, kctx))
	}
	if err := mistyped(kctx, verbs(grammar)); err != nil {
		return fail(err)
	}
	std.Stat("flags", flagValues(kctx))
	for _, p := range kctx.Path {
		if p.Flag != nil && !p.Resolved {
			std.given = append(std.given, p.Flag.Name)
		}
		if p.Flag != nil {
			std.has = append(std.has, p.Flag.Name)
		}
	}
	std.keys = map[string]string{}
	for _, f := range kctx.Flags() {
		std.keys[f.Name] = keyOf(kctx.Model, f)
	}
	std.takesText = slices.ContainsFunc(kctx.Flags(), func(f *kong.Flag) bool { return f.Name == "text" })
	if err := check(kctx); err != nil {
		return fail(err)
	}
	if err := std.warnOfFlags(kctx); err != nil {
		return fail(err)
	}
	return kctx, 0
}

// commonFlags is the heading of the flags in Common.
const commonFlags = "Common flags:"

// screen is how many lines a help has at most; the manual has the rest. wide is a line's width.
const (
	screen = 40
	wide   = 80
)

// printHelp prints what --help shows, which fits on a screen: what a verb does, its arguments,
// its own flags, and examples; the flags of all verbs stand in the help of the command. A verb's Help method returns what its
// summary leaves out, in a sentence or two, and below a line "Examples:" two or three of them,
// indented. If that is too long, flags with the tag more:"" are only named. The rest stands in manual.md beside the command.
func printHelp(o kong.HelpOptions, ctx *kong.Context) error {
	app := ctx.Model
	shown := app.Node
	app.HelpFlag.Help, app.HelpFlag.Group = "Print this help.", &kong.Group{Key: commonFlags, Title: commonFlags}
	if verb := ctx.Selected(); verb != nil {
		shown = verb
		verb.Flags, app.Flags = append(verb.Flags, app.Flags...), nil
	}
	common := func(f *kong.Flag) bool { return f.Group != nil && f.Group.Key == commonFlags }
	own := slices.DeleteFunc(slices.Clone(shown.Flags), common)
	all := own
	if shown == app.Node {
		all = slices.Concat(own, slices.DeleteFunc(shown.Flags, func(f *kong.Flag) bool { return !common(f) }))
	}
	shown.Flags = all
	var examples string
	shown.Detail, examples, _ = strings.Cut(shown.Detail, "Examples:\n")
	out := ctx.Stdout
	defer func() { ctx.Stdout = out }()
	page := func(more string) (string, error) {
		var text strings.Builder
		ctx.Stdout = &text
		if err := kong.DefaultHelpPrinter(o, ctx); err != nil {
			return "", err
		}
		text.WriteString(more)
		if shown != app.Node {
			fmt.Fprintf(&text, "\n%s \"%s --help\" shows them.\n", commonFlags, app.Name)
		}
		if examples != "" {
			fmt.Fprintf(&text, "\nExamples:\n%s\n", examples)
		}
		return text.String(), nil
	}
	text, err := page("")
	if err == nil && strings.Count(text, "\n") > screen {
		text, err = page(fold(all))
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, text)
	return err
}

// fold hides the flags that have the tag more. It returns a paragraph with their names.
func fold(flags []*kong.Flag) string {
	text := "\nMore flags, explained in the manual:\n"
	line := " "
	for _, f := range flags {
		if f.Hidden || !f.Tag.Has("more") {
			continue
		}
		f.Hidden = true
		name := " --" + f.Name
		if len(line)+len(name) > wide {
			text += line + "\n"
			line = " "
		}
		line += name
	}
	if line == " " {
		return ""
	}
	return text + line + "\n"
}

// exited unwinds kong after --help and --version.
type exited struct{}

func parse(p *kong.Kong, args []string) (ctx *kong.Context, err error) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(exited); !ok {
				panic(r)
			}
		}
	}()
	return p.Parse(args)
}

// mistyped refuses an argument that is taken for the verb that needs no name, and looks like the name of
// another: it names no file, and is near one of verbs.
func mistyped(kctx *kong.Context, verbs []string) error {
	verb := kctx.Selected()
	if verb == nil || verb.Parent.DefaultCmd != verb {
		return nil
	}
	first := slices.IndexFunc(kctx.Args, func(arg string) bool { return !strings.HasPrefix(arg, "-") })
	if first < 0 || slices.ContainsFunc(kctx.Path, func(p *kong.Path) bool { return p.Command == verb && kctx.Args[first] == verb.Name }) {
		return nil
	}
	name := kctx.Args[first]
	isArgument := slices.ContainsFunc(kctx.Path, func(p *kong.Path) bool {
		if p.Positional == nil {
			return false
		}
		list, _ := p.Positional.Target.Interface().([]string)
		return p.Positional.Target.Kind() == reflect.String && p.Positional.Target.String() == name || slices.Contains(list, name)
	})
	hint := fault.DidYouMean(name, verbs)
	if _, err := os.Stat(name); err == nil || !isArgument || hint == "" || strings.ContainsAny(name, "./") {
		return nil
	}
	return &fault.Error{Class: fault.Usage, File: name, Found: "no such file, and no verb", Want: "one of them", Hint: hint}
}

// ofOneURL matches kong's error for a URL behind a verb that takes none.
var ofOneURL = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^unexpected argument (\S+://\S+)`)
})

// notInEnum matches kong's error for a value that the flag does not allow.
var notInEnum = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(--[\w-]+) must be one of (\S+) but got "(.*)"$`)
})

// notNumber matches kong's error for a value that is no time or no number, noValue its error where a flag or nothing stands in place of a value. Kong
// then advises how to pass the flag as the value, which helps nobody.
var (
	notNumber = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(--[\w-]+): expected (?:an? )?(?:valid \d+ bit )?(duration|uint|int|float)(?: value)? but got "([^"]*)"`)
	})
	noValue = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(--[\w-]+): (?:missing value|expected .* but got (?:"EOL" \(<EOL>\)|("[^"]*") \(.*; perhaps try ))`)
	})
)

// negative matches kong's error for a negative number in the place of an argument.
var negative = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^unknown flag -\d`) })

// notVerb matches kong's error for a verb that a command lacks; others lists the verbs that people look for in the wrong one of mckpt and mcrawl.
var (
	notVerb = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^unexpected argument ([\w-]+)`)
	})
	others = map[string][]string{
		"mckpt":  {"init", "commit", "abandon", "list", "show", "verify", "restore", "gc", "hold", "files", "push", "pull"},
		"mcrawl": {"try", "new", "site", "run", "stage", "stages", "status", "stats", "move", "balance", "set", "seal", "export", "add", "again", "broken", "changes", "refused"},
	}
	// elsewhere has what people look for in mcrawl, and other commands do.
	elsewhere = map[string]string{"search": "msearch query", "replay": "mweb replay", "serve": "mweb replay"}
)

// wanted describes the value of a flag, as its help has it: "ADDRESS: the operator's address".
func wanted(kctx *kong.Context, name string) string {
	if kctx != nil {
		flags := kctx.Flags()
		if verb := kctx.Model.DefaultCmd; verb != nil && kctx.Selected() == nil {
			flags = append(flags, verb.Flags...)
		}
		for _, f := range flags {
			if "--"+f.Name == name {
				what, help := f.FormatPlaceHolder(), strings.TrimSuffix(strings.SplitN(f.Help, ". ", 2)[0], ".")
				if f.Default != "" && (f.PlaceHolder == "" || f.PlaceHolder == f.Default) {
					what = "a value such as " + f.Default
				}
				return what + ": " + help
			}
		}
	}
	return "a value"
}

func usage(err error, kctx *kong.Context) error {
	if fault.ClassOf(err) != "" || systemHint(err) != "" { // a crawl.toml that may not be read is no wrong usage
		return err
	}
	hint := ""
	if m := notInEnum().FindStringSubmatch(err.Error()); m != nil {
		words := strings.Split(strings.ReplaceAll(m[2], `"`, ""), ",")
		e := setting.Wrong(m[1], m[3], setting.Or(words))
		e.Hint = fault.DidYouMean(m[3], words)
		return e
	}
	if pe, ok := errors.AsType[*kong.ParseError](err); ok && pe.Context != nil {
		kctx = pe.Context
	}
	if m := noValue().FindStringSubmatch(err.Error()); m != nil && m[2] == "" {
		return &fault.Error{Class: fault.Usage, Place: m[1], Found: "no value", Want: wanted(kctx, m[1])}
	}
	if m := notNumber().FindStringSubmatch(err.Error()); m != nil {
		want := map[string]string{"duration": "a time such as 2h or 30s", "uint": "a whole number of 0 or more", "int": "a whole number", "float": "a number"}[m[2]]
		return setting.Wrong(m[1], m[3], want)
	}
	if m := noValue().FindStringSubmatch(err.Error()); m != nil {
		return &fault.Error{Class: fault.Usage, Place: m[1], Found: m[2], Want: wanted(kctx, m[1])}
	}
	if kctx != nil {
		if m := notVerb().FindStringSubmatch(err.Error()); m != nil && kctx.Selected() == nil {
			for name, verbs := range others {
				if name != kctx.Model.Name && others[kctx.Model.Name] != nil && slices.Contains(verbs, m[1]) {
					return &fault.Error{Class: fault.Usage, Err: err, Hint: fmt.Sprintf("did you mean %q?", name+" "+m[1])}
				}
			}
			if other := elsewhere[m[1]]; other != "" && kctx.Model.Name == "mcrawl" {
				return &fault.Error{Class: fault.Usage, Err: err, Hint: fmt.Sprintf("did you mean %q?", other)}
			}
		}
		cmd := kctx.Model.Name
		if n := kctx.Selected(); n != nil {
			cmd = n.FullPath()
		}
		hint = "see: " + cmd + " --help"
		if rest, ok := strings.CutPrefix(err.Error(), `expected "<crawl>`); ok && cmd != "mcrawl new" {
			rest, _, _ = strings.Cut(rest, `"`)
			return &fault.Error{Class: fault.Usage, Found: "no folder", Want: "that of a crawl, such as: " + cmd + " www.example.org" + rest, Hint: hint}
		}
		if text := err.Error(); text == "unknown flag --log" || strings.HasPrefix(text, "unknown flag --log,") {
			return &fault.Error{Class: fault.Usage, Found: "unknown flag --log", Want: "a variable in the environment", Hint: "for lines of JSON: export " + LogVariable + "=json"}
		}
		if m := ofOneURL().FindStringSubmatch(err.Error()); m != nil && kctx.Model.Name == "mcrawl" {
			if p := slices.IndexFunc(kctx.Path, func(p *kong.Path) bool { return p.Positional != nil && p.Positional.Name == "crawl" }); p >= 0 {
				hint = "what the crawl knows of one URL: " + fault.Quote("mcrawl", "explain", kctx.Value(kctx.Path[p]).String(), m[1])
			}
		}
		if n := kctx.Selected(); n != nil && n.Parent.DefaultCmd == n && slices.Contains(kctx.Args, n.Name) && strings.HasPrefix(err.Error(), "expected ") {
			if _, err := os.Stat(n.Name); err == nil {
				args := append([]string{kctx.Model.Name}, kctx.Args...)
				args[slices.Index(kctx.Args, n.Name)+1] = "./" + n.Name
				hint = fmt.Sprintf("%s is read as the verb; the store of that name is ./%[1]s: %s", n.Name, fault.Quote(args...))
			}
		}
	}
	if n := kctx; n != nil && n.Selected() != nil && strings.HasPrefix(err.Error(), "unknown flag -") && !strings.HasPrefix(err.Error(), "unknown flag --") {
		if args := n.Selected().Positional; len(args) > 0 && args[len(args)-1].IsCumulative() {
			hint += "; words that begin with - and are no flags stand behind --: " + n.Selected().FullPath() + " -- …"
		}
	}
	if m := negative().FindString(err.Error()); m != "" && kctx != nil { // for which no flag was meant; kong gives the first digit alone
		found := m[strings.LastIndex(m, "-"):]
		if i := slices.IndexFunc(kctx.Args, func(arg string) bool { return strings.HasPrefix(arg, found) }); i >= 0 {
			found = kctx.Args[i]
		}
		return &fault.Error{Class: fault.Usage, Found: found, Want: "a flag, or a number of 0 or more", Hint: hint}
	}
	return &fault.Error{Class: fault.Usage, Err: err, Hint: hint}
}

// run runs the parsed command until it ends or a signal stops it.
func (s *Std) run(kctx *kong.Context) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	sig := make(chan os.Signal, 2)
	// A shell without job control starts what a script runs in the background with SIGINT
	// ignored. Who sends it to such a command means it.
	signal.Notify(sig, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // by nohup
		signal.Notify(sig, syscall.SIGHUP)
	}
	defer signal.Stop(sig)

	if err := s.startProfile(); err != nil {
		return s.fail(err)
	}
	in, _ := s.In.(*os.File) // PeekIn may exchange it
	done := make(chan error, 1)
	started := time.Now()
	go func() { done <- s.runHere(ctx, kctx) }()
	var err error
	select {
	case err = <-done:
	case <-sig:
		interrupted := &fault.Error{Class: fault.Interrupted, Found: "interrupted", Hint: "committed work is kept; run the same command again to go on"}
		cancel(interrupted)
		if in != nil {
			_ = in.SetReadDeadline(s.Now()) // a read that waits ends, where it can be
		}
		first, late := s.Now(), time.After(grace)
		for same := true; same; {
			same = false
			select {
			case err = <-done:
				if err != nil && fault.ClassOf(err) != fault.Interrupted { // unless the command says more of it
					err = interrupted
				}
			case <-late:
				err = interrupted
			case <-sig:
				if same = sameSignal(first, s.Now()); same {
					continue
				}
				if hint := s.AtOnce.Load(); hint != nil {
					interrupted.Hint = *hint
				}
				err = interrupted
			}
		}
	}
	s.barDone()
	if out, ok := s.Out.(*stdout); ok {
		if err == nil {
			err = out.failed()
		}
	}
	for _, werr := range []error{s.writeStats(started, err), s.writeProfile()} {
		if err == nil {
			err = werr
		}
	}
	return s.fail(err)
}

// sameSignal reports whether a signal at now is the one at first once more: timeout(1) sends its signal to a command and to its process group.
func sameSignal(first, now time.Time) bool { return now.Sub(first) < 300*time.Millisecond }

// runHere runs the parsed command, and ends its bar.
func (s *Std) runHere(ctx context.Context, kctx *kong.Context) error {
	defer s.barDone()
	kctx.BindTo(ctx, (*context.Context)(nil))
	return named(kctx, kctx.Run())
}

func (s *Std) barDone() {
	if bar := s.bar.Load(); bar != nil {
		bar.Done()
	}
}

// named makes an error of class usage of one that says only that a file is not there, if
// the command line or crawl.toml names that file; what is missing in a store is no
// mistake of the user's.
func named(kctx *kong.Context, err error) error {
	var pe *fs.PathError
	if !errors.As(err, &pe) || !errors.Is(pe, fs.ErrNotExist) || fault.ClassOf(err) != "" {
		return err
	}
	for _, p := range kctx.Path {
		v := p.Positional
		if p.Flag != nil {
			v = p.Flag.Value
		}
		if v == nil {
			continue
		}
		list, _ := v.Target.Interface().([]string)
		if v.Target.Kind() == reflect.String {
			list = []string{v.Target.String()}
		}
		if slices.Contains(list, pe.Path) {
			return &fault.Error{Class: fault.Usage, Err: err}
		}
	}
	return err
}

// ExitReaderGone is the exit code where nobody reads the output any more: what a shell shows of a program that SIGPIPE ended.
const ExitReaderGone = 128 + int(syscall.SIGPIPE)

// exitCode is 0 for no error, and otherwise the exit code of err's class.
func exitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case readerGone(err):
		return ExitReaderGone
	}
	return fault.ClassOf(err).ExitCode()
}

// hintURLs says how to list the URLs of an index of archives, and of an archive that stands where text or records of URLs are wanted.
func hintURLs(err error, hint string) string {
	e := (*fault.Error)(nil)
	if !errors.As(err, &e) || e.File == "" {
		return ""
	}
	if info, err := os.Stat(e.File); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	f, openErr := os.Open(e.File)
	if openErr != nil {
		return ""
	}
	defer f.Close()
	front := make([]byte, 4<<10)
	n, _ := io.ReadFull(f, front) // what there is
	unfit := e.Class == fault.Usage || e.Class == fault.WrongKind
	if warc.Sniff(front[:n]) && !(unfit && (e.Place == "line 1" || strings.Contains(hint, "text") || strings.HasPrefix(hint, "unpack it"))) {
		return ""
	}
	return warc.HintURLs(front[:n], e.File)
}

// fail prints err and returns the exit code.
func (s *Std) fail(err error) int {
	code := exitCode(err)
	if code == 0 || code == ExitReaderGone { // quietly: the reader had enough
		return code
	}
	text := err.Error()
	var pe *fs.PathError
	if errors.As(err, &pe) && slices.Contains([]string{"open", "stat", "read", "write", "sync", "mkdir", "fork/exec"}, pe.Op) { // the file first, as all errors have it, and once
		path := pe.Path
		if name := durable.TempOf(filepath.Base(path)); name != "" { // the user knows it by the name that it was to have
			path = filepath.Join(filepath.Dir(path), name)
		}
		named := path + ": " + pe.Err.Error()
		text = strings.Replace(text, pe.Error(), named, 1)
		text = strings.Replace(text, pe.Path+": "+named, named, 1)
	}
	if fault.ClassOf(err) == fault.No && text == string(fault.No) {
		return code // the answer is the exit code alone
	}
	hint := fault.HintOf(err)
	noStream := errors.Is(err, record.ErrNoStream) && !strings.HasPrefix(hint, "unpack it")
	if s.takesText && noStream {
		hint = "add --text if that is text, one URL a line; mcat shows what a file is"
	} else if s.Name == "mcat" && noStream {
		hint = "text becomes records with mcat --from json"
		if e := (*fault.Error)(nil); errors.As(err, &e) && filepath.Base(e.File) == config.Name {
			hint = "the settings of a crawl, told by key: " + fault.Quote("mcrawl", "set", filepath.Dir(e.File))
		}
	}
	hint = cmp.Or(hintURLs(err, hint), hint)
	if hint == "" && fault.ClassOf(err) == fault.Usage {
		hint = fault.Suggest(err)
	}
	if hint == "" {
		hint = systemHint(err)
	}
	if hint == "" {
		hint = s.damageHint(err)
	}
	text, _ = s.inSettings(text)
	if hint != "" {
		hint, s.hintSets = s.inSettings(hint)
	}
	text, hint = shown(text), shown(hint)
	if log, ok := s.Err.(*jsonLog); ok {
		_ = log.put(entry{Level: "error", Message: text, Hint: hint, Class: string(fault.ClassOf(err)), Exit: code}) // nobody is left to tell
		return code
	}
	colors := hasColors(s.Err)
	fmt.Fprintf(s.Err, "%s: %s\n", paint(colors, "bad", s.Name), text)
	if hint != "" {
		fmt.Fprintf(s.Err, "%s: %s %s\n", s.Name, paint(colors, "command", "hint:"), hint)
	}
	return code
}

// systemHint returns the hint for an error of the system that any command may meet; "" for others.
func systemHint(err error) string {
	var pe *fs.PathError
	if !errors.As(err, &pe) {
		return ""
	}
	if named := os.Getenv("TMPDIR"); named != "" {
		rel, relErr := filepath.Rel(named, pe.Path)
		st, statErr := os.Stat(named)
		unfit := statErr != nil || !st.IsDir() || slices.Contains([]error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EACCES}, pe.Err)
		if relErr == nil && unfit && (rel == "." || strings.HasPrefix(rel, "mcrawl-") || strings.HasPrefix(rel, "mercator-")) {
			return "temporary files go to the folder that TMPDIR names: name one that can be written to and has room, such as export TMPDIR=/var/tmp"
		}
	}
	for _, of := range []struct {
		errno syscall.Errno
		hint  string
	}{
		{syscall.ENOSPC, "make room on that disk, and run the same command again: df -h shows the disks"},
		{syscall.EDQUOT, "make room for this user, and run the same command again: quota shows what is used"},
		{syscall.EROFS, "mount that disk for writing, or work on a copy of the folder elsewhere"},
		{syscall.EACCES, permissionHint(pe.Path)},
		{syscall.EMFILE, "the hard limit of open files is too low: ulimit -Hn shows it, and the machine's administrator raises it"},
	} {
		if errors.Is(pe, of.errno) {
			return of.hint
		}
	}
	return ""
}

// permissionHint returns the hint for a file that this user may not read or write: change its permission, or its owner.
func permissionHint(path string) string {
	const owner = "run it as the user who owns the file or the folder: ls -ld shows whose it is"
	st, err := os.Stat(path)
	for err != nil && filepath.Dir(path) != path { // the lowest folder above it that can be looked at is the one that is closed
		path = filepath.Dir(path)
		st, err = os.Stat(path)
	}
	if err != nil {
		return owner
	}
	mode := "u+rw"
	if st.IsDir() {
		mode = "u+rwx"
	}
	if user, known := durable.UserOf(st); !known || int(user) != os.Geteuid() {
		return owner
	}
	return "give its owner the permission: " + fault.Quote("chmod", mode, path)
}

// damageHint returns the hint for a damaged file of a crawl; "" for other errors.
func (s *Std) damageHint(err error) string {
	class := fault.ClassOf(err)
	if class.ExitCode() != fault.Corrupt.ExitCode() && !((class == "" || class == fault.Usage) && errors.Is(err, fs.ErrNotExist)) {
		return ""
	}
	var files []string
	var f *fault.Error
	for e := err; errors.As(e, &f); e = f.Err {
		files = append(files, f.File)
	}
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		files = append(files, pe.Path)
	}
	for _, file := range files {
		if file == "" {
			continue
		}
		if st, err := os.Stat(file); err == nil && st.IsDir() && (filepath.Base(file) == store.LockFile || filepath.Base(file) == crawl.DriverFile) {
			return "it stands where an empty file is made: move it away: " + fault.Quote("mv", file, file+".old")
		}
		const deepest = 8                                       // shard/007/modules/NAME/state/FILE
		ofStore := class.ExitCode() == fault.Corrupt.ExitCode() // else a name that the user gave may be wrong
		for dir, n := filepath.Dir(file), 0; n < deepest; dir, n = filepath.Dir(dir), n+1 {
			if _, err := os.Stat(filepath.Join(dir, store.HeadFile)); err == nil {
				ofStore = true
			}
			if ofStore && store.IsCrawl(dir, store.Options{}) {
				return "see what is missing or damaged, and what to do: " + fault.Quote("mckpt", "verify", dir)
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return ""
}

// readerGone reports whether err came from writing to standard output after its
// reader had gone. A broken pipe to a program or a server does not count.
func readerGone(err error) bool {
	var pe *fs.PathError
	return errors.As(err, &pe) && pe.Path == os.Stdout.Name() && pe.Err == syscall.EPIPE
}

// longestLine bounds a line on standard error, in bytes: what it quotes may be megabytes.
const longestLine = 4 << 10

// shown is a line for standard error: Printable, and of what is longer than
// longestLine without its middle.
func shown(s string) string {
	if end := longestLine / 8; len(s) > longestLine {
		s = strings.ToValidUTF8(s[:longestLine-end], "") + " … " + strings.ToValidUTF8(s[len(s)-end:], "")
	}
	return Printable(s)
}

// Printable replaces control characters, and those that change the direction of the text after them (UAX 9), which may come from a server, so that
// none reaches a terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 || config.Turns(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}

// Given reports whether the command line has a flag, by its long name. Values of crawl.toml do not count.
func (s *Std) Given(flag string) bool { return slices.Contains(s.given, flag) }

// Has reports whether the command line or crawl.toml has a flag, by its long name.
func (s *Std) Has(flag string) bool { return slices.Contains(s.has, flag) }

// MemoryLimit is --memory or the command's default, in bytes.
func (s *Std) MemoryLimit() int64 {
	if s.Common.Memory > 0 {
		return int64(s.Common.Memory)
	}
	return int64(s.defaultMemory)
}

// BoundMemory keeps the process to so many bytes of resident memory: of them the Go heap gets what the program's text and the runtime's
// own pages leave.
func BoundMemory(rss int64) {
	const outside = 28 << 20
	debug.SetMemoryLimit(max(rss-outside, rss/4))
}

// Alone reports whether the command has the process for itself.
func (s *Std) Alone() bool { return s.call == nil }

// BoundHeap is for a command that keeps more outside the Go heap than others, so many bytes: of its memory the heap gets the rest.
func (s *Std) BoundHeap(outside int64) {
	if s.Alone() { // else the process has one bound for all
		debug.SetMemoryLimit(max(s.MemoryLimit()-outside, s.MemoryLimit()/4))
	}
}

// CollectAt has garbage collected when the heap has grown by so many percent.
func (s *Std) CollectAt(percent int) {
	if s.Alone() {
		debug.SetGCPercent(percent)
	}
}

// collectLate has the first garbage collection wait until the heap has 12 MiB instead of 4; from then on it is as usual. A process
// of a small round is done before. It comes before the grammar is read, which fills most of the 4.
func collectLate() {
	const first, usual = 300, 100 // percent
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(first)
	runtime.AddCleanup(new([64]byte), func(struct{}) {
		if now := debug.SetGCPercent(usual); now != first { // the command has set its own
			debug.SetGCPercent(now)
		}
	}, struct{}{})
}

// Threads is -@, or the number of processors.
func (s *Std) Threads() int {
	if s.Common.Threads > 0 {
		return s.Common.Threads
	}
	return runtime.NumCPU()
}

// Warn prints a line on standard error, unless --quiet, without control characters.
func (s *Std) Warn(format string, args ...any) {
	if !s.Common.Quiet {
		s.WarnAlways(format, args...)
	}
}

// WarnAlways is Warn, also with --quiet: of losses.
func (s *Std) WarnAlways(format string, args ...any) {
	text, _ := s.inSettings(fmt.Sprintf(format, args...))
	fmt.Fprintf(s.Err, "%s: %s\n", paint(hasColors(s.Err), "note", s.Name), shown(text))
}

// buildInfo describes the binary: release, commit and Go version.
func buildInfo() string {
	var rev, dirty string
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	for _, kv := range info.Settings {
		switch kv.Key {
		case "vcs.revision":
			rev = " " + kv.Value[:min(12, len(kv.Value))]
		case "vcs.modified":
			if kv.Value == "true" {
				dirty = "+changes"
			}
		}
	}
	return fmt.Sprintf("%s%s%s %s %s/%s", release.Version, rev, dirty, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
