// Package process runs processing modules over documents: Mercator's step 5,
// where a crawl computes something of each page besides its links.
//
// A Module is chosen by media type and makes one Instance for each thread, so
// that modules need no locks. An instance sees one document at a time and reports
// findings, pairs of a key and a value. Modules of the house are built in (see
// Builtin); any program is a module by way of Exec.
//
// # Invariants
//
//   - A module that fails, panics or, as a program, hangs costs its own findings
//     of that document and nothing else. It is counted, and the document gets one
//     finding with the key "error".
//   - A document gets at most MaxFindings findings of a module, each value cut
//     to MaxValue bytes.
//   - Findings depend on the document alone, never on threads or on the
//     documents before it.
//   - A module's state (Stateful) is folded from findings in the order of the
//     documents, and changes with the round's transaction or not at all.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"mercator/pkg/base/fault"
)

// Bounds of what a module may report of one document.
const (
	MaxFindings = 1000
	MaxKey      = 256
	MaxValue    = 4096
)

// KeyError is the key of the finding that stands for a failure.
const KeyError = "error"

// Document is a fetched document as modules see it. They must not change it.
type Document struct {
	URL       string
	Key       uint64 // URL checksum
	Header    http.Header
	MIME      string // media type, lower case
	Charset   string // of HTML and text how they are written, of others what the header says; or ""
	Status    int    // of the reply; 0 if it has none
	Truncated string // why Body is not whole, or ""
	Body      []byte // decoded
	Agent     string // product name of the crawler, for directives that are for it; "": DefaultAgent
}

// Finding is one thing that a module found.
type Finding struct {
	Module, Key, Value string
}

// Instance works on one document at a time. One goroutine. One that is an io.Closer is
// closed after its last document.
type Instance interface {
	// Process reports what it finds. ctx ends when the batch is given up.
	Process(ctx context.Context, doc *Document, report func(key, value string)) error
}

// Module makes instances.
type Module interface {
	Name() string
	// Types are the media types that it is for, when the configuration gives
	// none: "text/html", "image/*", "*/*".
	Types() []string
	New() Instance
}

// Selected is a module with the media types that it is to see.
type Selected struct {
	Module Module
	Types  []string // nil: the module's own
}

// ErrSpec is wrapped by the errors of Parse.
var ErrSpec = errors.New("not a module")

// Parse reads a choice of module as it stands on a command line or in
// crawl.toml: "NAME", "NAME=TYPE,TYPE" for a built-in module,
// "NAME=TYPE,TYPE:COMMAND" for a program, run by the shell for each document, or
// "NAME=TYPE,TYPE:stay COMMAND" for one that stays.
func Parse(spec string, limits ExecLimits) (Selected, error) {
	name, rest, _ := strings.Cut(spec, "=")
	types, command, isExec := strings.Cut(rest, ":")
	name = strings.TrimSpace(name)
	if err := CheckName(name); err != nil {
		return Selected{}, err
	}
	var s Selected
	for _, t := range strings.Split(types, ",") {
		if t = strings.ToLower(strings.TrimSpace(t)); t == "" {
			continue
		}
		if major, minor, ok := strings.Cut(t, "/"); !ok || major == "" || minor == "" {
			return Selected{}, fmt.Errorf("%w: media type %q, want one such as text/html or image/*", ErrSpec, t)
		}
		s.Types = append(s.Types, t)
	}
	if isExec {
		command = strings.TrimSpace(command)
		rest, stay := strings.CutPrefix(command+" ", stays+" ")
		if stay {
			command = strings.TrimSpace(rest)
		}
		if command == "" {
			return Selected{}, fmt.Errorf("%w: %q has no command after the colon", ErrSpec, spec)
		}
		if len(s.Types) == 0 {
			return Selected{}, fmt.Errorf("%w: %q has no media types", ErrSpec, spec)
		}
		s.Module = &Exec{ModuleName: name, Command: command, Stay: stay, Limits: limits}
		return s, nil
	}
	for _, m := range Builtin() {
		if m.Name() == name {
			s.Module = m
			return s, nil
		}
	}
	var known []string
	for _, m := range Builtin() {
		known = append(known, m.Name())
	}
	return Selected{}, fmt.Errorf("%w: %q without a command, want one of %s", ErrSpec, name, strings.Join(known, ", "))
}

// Select reads several choices of modules, without any Default, and the names of those among them that are to keep a state.
func Select(specs, states []string, limits ExecLimits) (selected []Selected, err error) {
	find := func(name string) int {
		return slices.IndexFunc(selected, func(m Selected) bool { return m.Module.Name() == name })
	}
	for _, spec := range specs {
		m, err := Parse(spec, limits)
		if err == nil && find(m.Module.Name()) >= 0 {
			err = errors.New("it is given twice")
		}
		if err != nil {
			return nil, &fault.Error{Class: fault.Usage, Place: fmt.Sprintf("module %q", spec), Err: err}
		}
		selected = append(selected, m)
	}
	if len(selected) == 0 {
		for _, m := range Default() {
			selected = append(selected, Selected{Module: m})
		}
	}
	for _, name := range states {
		place := fmt.Sprintf("state of module %q", name)
		i := find(name)
		if i < 0 {
			return nil, &fault.Error{Class: fault.Usage, Place: place, Found: "no module of that name", Want: "one of those that run"}
		}
		if _, ok := selected[i].Module.(Stateful); !ok {
			return nil, &fault.Error{Class: fault.Usage, Place: place, Found: "a module that keeps no state", Want: "tags, image or a command"}
		}
	}
	return selected, nil
}

// CheckName refuses a name that no module can have.
func CheckName(name string) error {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool {
		return r != '-' && r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	}) {
		return fmt.Errorf("%w: name %q, want lower-case letters, digits, - and _", ErrSpec, name)
	}
	return nil
}

// Builtin lists the modules of the house.
func Builtin() []Module {
	return []Module{pageModule{}, tagsModule{}, imageModule{}, formsModule{}, simhashModule{}, textModule{}}
}

// Default returns the modules that run when nothing is chosen: all of the house but text, which
// is as long as the documents.
func Default() []Module {
	return slices.DeleteFunc(Builtin(), func(m Module) bool { return m.Name() == textModule{}.Name() })
}

// Runner runs a selection of modules. It belongs to one thread.
type Runner struct {
	modules []running
}

type running struct {
	Selected
	instance Instance
}

// NewRunner makes an instance of each module.
func NewRunner(modules []Selected) *Runner {
	r := &Runner{}
	for _, m := range modules {
		if m.Types == nil {
			m.Types = m.Module.Types()
		}
		r.modules = append(r.modules, running{m, m.Module.New()})
	}
	return r
}

// Run gives the document to each module that is for its media type, in the order
// of the selection. failed says why modules failed on it, by name.
func (r *Runner) Run(ctx context.Context, doc *Document) (findings []Finding, failed map[string]string) {
	for i := range r.modules {
		m := &r.modules[i]
		if !slices.ContainsFunc(m.Types, func(t string) bool { return matchType(t, doc.MIME) }) {
			continue
		}
		name := m.Module.Name()
		start := len(findings)
		err := runOne(ctx, m.instance, doc, func(key, value string) {
			if len(findings)-start < MaxFindings {
				findings = append(findings, Finding{name, cut(key, MaxKey), cut(value, MaxValue)})
			}
		})
		if err != nil {
			why := cut(err.Error(), MaxValue)
			findings = append(findings[:start], Finding{name, KeyError, why})
			if failed == nil {
				failed = make(map[string]string)
			}
			failed[name] = why
			m.instance = m.Module.New() // the old one's state is not to be trusted
		}
	}
	return findings, failed
}

// Close ends the modules' instances. It returns what went wrong then, by module: findings
// of documents before may be wrong.
func (r *Runner) Close() map[string]error {
	var failed map[string]error
	for _, m := range r.modules {
		c, ok := m.instance.(io.Closer)
		if !ok {
			continue
		}
		if err := c.Close(); err != nil {
			if failed == nil {
				failed = make(map[string]error)
			}
			failed[m.Module.Name()] = err
		}
	}
	return failed
}

// runOne turns a panic of a module into its error.
func runOne(ctx context.Context, in Instance, doc *Document, report func(key, value string)) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return in.Process(ctx, doc, report)
}

func matchType(pattern, mime string) bool {
	if pattern == mime || pattern == "*/*" {
		return true
	}
	major, ok := strings.CutSuffix(pattern, "*")
	return ok && strings.HasPrefix(mime, major)
}

// cut bounds s at a character and makes it valid UTF-8.
func cut(s string, limit int) string {
	if len(s) > limit {
		for limit > 0 && !utf8.RuneStart(s[limit]) {
			limit--
		}
		s = s[:limit]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
