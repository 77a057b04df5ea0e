package mextract

import (
	"bytes"
	"context"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/term"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/config"
	"mercator/pkg/extract"
	"mercator/pkg/web/process"
)

// moduleFlags choose processing modules.
type moduleFlags struct {
	Modules string `group:"Processing modules:" type:"path" placeholder:"FILE" help:"Write findings to this file."`
	config.ModuleFlags
	ModuleStores string        `more:"" group:"Processing modules:" type:"path" placeholder:"DIR" help:"Stores of states (default: CRAWL/modules)."`
	LockWait     time.Duration `more:"" group:"Processing modules:" default:"70s" help:"Wait this long for a store in use."`
}

// modules are those that run, and where their findings go.
type modules struct {
	selected []process.Selected
	file     *cli.Side[record.Module] // nil without --modules
	changes  []keeper                 // the modules that keep state
	dir      string                   // the folder of the stores of these modules
}

type keeper struct {
	name   string
	change *process.Change
}

// selection reads --module and --module-state. Without --modules only modules
// that keep state are left.
func (c *moduleFlags) selection(std *cli.Std) ([]process.Selected, error) {
	selected, err := process.Select(c.Module, c.ModuleState, process.ExecLimits{Timeout: c.ModuleTimeout})
	if err != nil {
		return nil, err
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
		if c.WARC == "" || store.Folder(c.WARC, store.Options{}).CrawlDir() == "" {
			return nil, &fault.Error{Class: fault.Usage, Found: "--module-state without a crawl folder", Want: "--warc CRAWL/fetch, or --module-stores DIR"}
		}
		dir = filepath.Join(filepath.Dir(filepath.Clean(c.WARC)), store.ModulesDir)
	}
	m.dir = dir
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
	if m.file, err = cli.CreateSide[record.Module](std, c.Modules, c.sideOptions(in)); err != nil {
		m.close(ctx)
		return nil, err
	}
	return m, nil
}

// stores are those that the stage commits to, as the ledger names them.
func (m *modules) stores() (names []string) {
	for _, k := range m.changes {
		if s := store.Folder(filepath.Join(m.dir, k.name), store.Options{}); s.CrawlDir() != "" {
			names = append(names, s.NameInCrawl())
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
	return m.file.Write(row.Module, row)
}

// failures says on how many documents a module failed, and why on the first.
func failures(name string, report extract.Report) string {
	return cli.Count(report.ModuleFailures[name], "document") + ", first: " + report.FirstFailures[name]
}

// publish commits the states, and then makes the file of findings appear. It tells
// which modules failed, and on how many documents.
func (m *modules) publish(ctx context.Context, std *cli.Std, report extract.Report, in record.Trailer) error {
	for _, s := range m.selected {
		if name := s.Module.Name(); report.ModuleFailures[name] > 0 {
			std.Warn("module %s failed on %s", name, failures(name, report))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(report.ModuleEnds)) {
		std.Warn("module %s: %s: findings of this batch may be wrong", name, report.ModuleEnds[name])
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
	counts := record.Stage{Name: "mextract modules", In: in.Rows, InHash: in.Hash.String(), Consumed: in.Rows}
	for _, name := range slices.Sorted(maps.Keys(report.ModuleFailures)) {
		counts.Refused = append(counts.Refused, record.Count{Reason: "failed:" + name, N: report.ModuleFailures[name]})
	}
	return m.file.Publish(counts, in.Ledger)
}

// close gives up what was not published.
func (m *modules) close(ctx context.Context) {
	for _, k := range m.changes {
		k.change.Close(ctx)
	}
	m.file.Abort()
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
