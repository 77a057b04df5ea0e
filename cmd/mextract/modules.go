package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/cli"
	"mercator/pkg/extract"
	"mercator/pkg/fault"
	"mercator/pkg/process"
	"mercator/pkg/stage"
)

// moduleFlags choose processing modules.
type moduleFlags struct {
	Modules       string        `group:"Processing modules:" type:"path" placeholder:"FILE" help:"Write findings to this file."`
	Module        []string      `group:"Processing modules:" sep:"none" placeholder:"SPEC" help:"NAME, NAME=TYPES or NAME=TYPES:COMMAND."`
	ModuleTimeout time.Duration `group:"Processing modules:" default:"10s" help:"Time for a command and a document."`
	ModuleState   []string      `group:"Processing modules:" placeholder:"NAME" help:"Keep the state of this module over the crawl."`
	ModuleStores  string        `group:"Processing modules:" type:"path" placeholder:"DIR" help:"Stores of states (default: CRAWL/modules)."`
	LockWait      time.Duration `group:"Processing modules:" default:"70s" help:"Wait this long for a store in use."`
}

// modules are those that run, and where their findings go.
type modules struct {
	selected []process.Selected
	file     *findings // nil without --modules
	changes  []keeper  // those that keep state
	inCrawl  bool
}

type keeper struct {
	name   string
	change *process.Change
}

// selection reads --module and --module-state. Without --modules only modules
// that keep state are left.
func (c *moduleFlags) selection(std *cli.Std) ([]process.Selected, error) {
	var selected []process.Selected
	find := func(name string) int {
		return slices.IndexFunc(selected, func(m process.Selected) bool { return m.Module.Name() == name })
	}
	for _, spec := range c.Module {
		m, err := process.Parse(spec, process.ExecLimits{Timeout: c.ModuleTimeout})
		if err == nil && find(m.Module.Name()) >= 0 {
			err = fmt.Errorf("module %s is given twice", m.Module.Name())
		}
		if err != nil {
			return nil, &fault.Error{Class: fault.Usage, File: "--module " + spec, Err: err}
		}
		selected = append(selected, m)
	}
	if len(selected) == 0 {
		for _, m := range process.Default() {
			selected = append(selected, process.Selected{Module: m})
		}
	}
	for _, name := range c.ModuleState {
		i := find(name)
		if i < 0 {
			return nil, &fault.Error{Class: fault.Usage, File: "--module-state " + name, Found: "no module of that name", Want: "one that runs", Hint: "choose it with --module"}
		}
		if _, ok := selected[i].Module.(process.Stateful); !ok {
			return nil, &fault.Error{Class: fault.Usage, File: "--module-state " + name, Found: "a module that keeps no state", Want: "tags, image or a command"}
		}
	}
	if c.Modules == "" {
		if len(c.Module) > 0 && len(c.ModuleState) == 0 {
			std.Warn("no module runs: there is no --modules FILE for what they find, and none keeps state")
		}
		selected = slices.DeleteFunc(selected, func(m process.Selected) bool { return !slices.Contains(c.ModuleState, m.Module.Name()) })
	}
	return selected, nil
}

// openModules makes the file of findings, and begins the changes of modules'
// stores. Without --txn, and no --module-stores, state is left alone: the batch is read
// again for some other end.
func (c *linksCmd) openModules(ctx context.Context, std *cli.Std, in *record.Schema) (m *modules, err error) {
	m = &modules{}
	if m.selected, err = c.selection(std); err != nil {
		return nil, err
	}
	names := c.ModuleState
	if c.Txn == "" && c.ModuleStores == "" {
		names = nil
	}
	dir := c.ModuleStores
	if len(names) > 0 && dir == "" {
		crawl := filepath.Dir(filepath.Clean(c.WARC))
		if c.WARC == "" || !store.IsCrawl(crawl, store.Options{}) {
			return nil, &fault.Error{Class: fault.Usage, Found: "--module-state without a crawl folder", Want: "--warc CRAWL/fetch, or --module-stores DIR"}
		}
		dir = filepath.Join(crawl, "modules")
	}
	m.inCrawl = store.IsCrawl(filepath.Dir(filepath.Clean(dir)), store.Options{})
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		i := slices.IndexFunc(m.selected, func(s process.Selected) bool { return s.Module.Name() == name })
		change, err := process.OpenChange(ctx, filepath.Join(dir, name), m.selected[i].Module.(process.Stateful), c.Txn, store.Options{LockWait: c.LockWait, Maker: "mextract create"})
		if err != nil {
			m.close(ctx)
			return nil, err
		}
		m.changes = append(m.changes, keeper{name, change})
		if change.Done() && c.Modules == "" {
			m.selected = slices.Delete(m.selected, i, i+1)
		}
	}
	if len(names) == 0 && c.Modules == "" {
		m.selected = nil
	}
	if c.Modules == "" {
		return m, nil
	}
	txn := c.Txn
	if txn == "" {
		txn = in.Txn
	}
	if m.file, err = createFindings(std, c.Modules, txn, in); err != nil {
		m.close(ctx)
		return nil, err
	}
	return m, nil
}

// stores are those that the stage commits to, as the ledger names them.
func (m *modules) stores() (names []string) {
	for _, k := range m.changes {
		if m.inCrawl {
			names = append(names, "modules/"+k.name)
		}
	}
	return names
}

func (m *modules) write(ctx context.Context, row *record.Module) error {
	for _, k := range m.changes {
		if k.name == row.Module {
			if err := k.change.Add(ctx, row.Key, process.Finding{Module: row.Module, Key: row.Name, Value: row.Value}); err != nil {
				return err
			}
		}
	}
	if m.file == nil {
		return nil
	}
	return m.file.write(row)
}

// publish commits the states, and then makes the file of findings appear. It tells
// which modules failed, and on how many documents.
func (m *modules) publish(ctx context.Context, std *cli.Std, report extract.Report, in record.Trailer) error {
	for _, s := range m.selected {
		if n := report.ModuleFailures[s.Module.Name()]; n > 0 {
			std.Warn("module %s failed on %s: its findings with the key %q say why", s.Module.Name(), cli.Count(n, "document"), process.KeyError)
		}
	}
	missed := make(map[string]string)
	for _, k := range m.changes {
		if err := k.change.Commit(ctx, "mextract module", in); err != nil {
			return err
		}
		if err := k.change.Failed(); err != nil {
			std.Warn("module %s: its state stays as it was before this batch: %v", k.name, err)
			missed[k.name] = err.Error()
		}
	}
	if len(missed) > 0 {
		std.Stat("module_states_missed", missed)
	}
	if m.file == nil {
		return nil
	}
	return m.file.publish(in)
}

// close gives up what was not published.
func (m *modules) close(ctx context.Context) {
	for _, k := range m.changes {
		k.change.Close(ctx)
	}
	if m.file != nil {
		m.file.sink.Abort()
	}
}

// findings is the file of module records.
type findings struct {
	sink stage.Output
	w    *record.Writer[record.Module]
	txn  string
	made map[string]uint64
}

func createFindings(std *cli.Std, path, txn string, in *record.Schema) (*findings, error) {
	sinks, err := std.Sinks(cli.Output{Output: path})
	if err != nil {
		return nil, err
	}
	opt := sinks[0].Options()
	opt.Txn, opt.Now, opt.Epoch, opt.Threads = txn, in.Now, in.Epoch, std.Threads()
	w, err := record.NewWriter[record.Module](sinks[0], opt)
	if err != nil {
		sinks[0].Abort()
		return nil, err
	}
	return &findings{sink: sinks[0], w: w, txn: txn, made: make(map[string]uint64)}, nil
}

func (f *findings) write(row *record.Module) error {
	f.made[row.Module]++
	return f.w.Write(row)
}

// publish makes the file appear. Its ledger is that of the rows that the modules
// saw, and one stage more.
func (f *findings) publish(in record.Trailer) error {
	rows, hash, err := f.w.Finish()
	if err != nil {
		return err
	}
	counts := record.Stage{
		Name: "mextract modules", Txn: f.txn, In: in.Rows, InHash: in.Hash.String(), Consumed: in.Rows,
		Out: rows, OutHash: hash.String(),
	}
	for module, n := range f.made {
		counts.Made = append(counts.Made, record.Count{Reason: module, N: n})
	}
	slices.SortFunc(counts.Made, func(a, b record.Count) int { return strings.Compare(a.Reason, b.Reason) })
	l := in.Ledger
	l.Stages = append(l.Stages[:len(l.Stages):len(l.Stages)], counts)
	if _, err := f.w.Commit(l); err != nil {
		return err
	}
	return f.sink.Publish()
}

type stateCmd struct {
	Store string `arg:"" type:"existingdir" help:"Store of the module, such as crawl/modules/tags."`
}

// Help is part of --help.
func (*stateCmd) Help() string {
	return `Examples:
  mextract state crawl/modules/tags
  mextract state crawl/modules/words | tar t`
}

func (c *stateCmd) Run(std *cli.Std) error {
	out := io.Writer(std.Out)
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		out = textOnly{out}
	}
	failures, err := process.CopyState(out, c.Store, store.Options{Maker: "mextract create"})
	if err != nil {
		return err
	}
	if failures > 0 {
		std.Warn("without %s, on which the module failed as a whole", cli.Count(failures, "round"))
	}
	return nil
}

// textOnly refuses an archive.
type textOnly struct{ io.Writer }

func (w textOnly) Write(p []byte) (int, error) {
	if bytes.IndexByte(p, 0) >= 0 {
		return 0, &fault.Error{Class: fault.Usage, File: "standard output", Found: "a terminal", Want: "a file or a pipe", Hint: `the state is a tar archive: pipe it into "tar t"`}
	}
	return w.Writer.Write(p)
}

type createCmd struct {
	Store string `arg:"" help:"Folder to make, with the name of the module."`
}

// Help is part of --help.
func (*createCmd) Help() string {
	return `The stores of a whole crawl are made by "mckpt init".

Examples:
  mextract create totals/tags
  mextract pages.warc.gz --module tags --module-state tags \
    --module-stores totals > links.arrows.zst`
}

func (c *createCmd) Run() error { return process.CreateStore(c.Store, store.Options{}) }
