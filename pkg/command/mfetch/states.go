package mfetch

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/fetch"
	"mercator/pkg/fetch/program"
	"mercator/pkg/folder/stage"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/process"
)

// commands are the programs of --exec, by scheme.
func (c *fetchCmd) commands(schemes *canon.Schemes) (map[string]string, error) {
	commands := map[string]string{}
	for _, spec := range c.Exec {
		name, command, _ := strings.Cut(spec, "=")
		if !schemes.Has(name) || strings.TrimSpace(command) == "" || commands[name] != "" {
			return nil, &fault.Error{Class: fault.Usage, Place: "--exec", Found: fmt.Sprintf("%q", spec), Want: "SCHEME=COMMAND, once for each of the schemes of --scheme"}
		}
		commands[name] = command
	}
	return commands, nil
}

// states are the programs of --exec-state, and the changes of their stores in this round.
type states struct {
	programs []*process.Exec
	dir      string // of their stores
	opt      store.Options
	txn      string
	changes  map[string]*process.Change // by scheme
	err      error                      // of add
}

// states reads --exec-state. The stores are beside the fetch store, as they are in a crawl.
func (c *fetchCmd) states() (*states, error) {
	s := &states{dir: filepath.Join(filepath.Dir(filepath.Clean(c.Store)), store.ModulesDir), txn: c.Txn,
		opt: store.Options{LockWait: c.LockWait, Maker: "mextract create"}, changes: map[string]*process.Change{}}
	if len(c.ExecState) == 0 {
		return s, nil
	}
	form, err := c.Canon()
	if err != nil {
		return nil, err
	}
	commands, err := c.commands(form.Schemes)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(c.ExecState))) {
		if commands[name] == "" {
			return nil, &fault.Error{Class: fault.Usage, Place: "--exec-state", Found: strconv.Quote(name), Want: "a scheme that has a program", Hint: "--exec " + fault.Quote(name+"=COMMAND")}
		}
		s.programs = append(s.programs, &process.Exec{ModuleName: name, Command: commands[name]})
	}
	return s, nil
}

// stores are those that the stage commits to, as the ledger names them.
func (s *states) stores() (names []string) {
	for _, p := range s.programs {
		if st := store.Folder(filepath.Join(s.dir, p.Name()), store.Options{}); st.CrawlDir() != "" {
			names = append(names, st.NameInCrawl())
		}
	}
	return names
}

// around begins the changes, fetches the batch, and commits them. A program that fails at begin ends the run:
// without its state it would fail URLs that it could fetch.
func (s *states) around(ctx context.Context, std *cli.Std, in stage.Input[record.URL], batch func() error) error {
	defer func() {
		for _, change := range s.changes {
			change.Close(ctx)
		}
	}()
	for _, p := range s.programs {
		change, err := process.OpenChange(ctx, filepath.Join(s.dir, p.Name()), p, s.txn, s.opt)
		if err != nil {
			return err
		}
		s.changes[p.Name()] = change
		if err := change.Failed(); err != nil {
			return &fault.Error{Class: fault.Program, Place: "--exec " + p.Name() + "=" + p.Command, Err: err, Want: "a program that takes its state up", Hint: "mend the command, and run this again"}
		}
	}
	if err := batch(); err != nil {
		return err
	}
	if s.err != nil {
		return s.err
	}
	for _, p := range s.programs {
		change := s.changes[p.Name()]
		if err := change.Commit(ctx, "mfetch program", in.Trailer()); err != nil {
			return err
		}
		if err := change.Failed(); err != nil {
			std.Warn("program of %s: its state stays as it was before this batch: %v", p.Name(), err)
		}
	}
	return nil
}

// show lets the programs that fetch read their folders.
func (s *states) show(protocols map[string]fetch.Protocol) {
	for name, change := range s.changes {
		if m, ok := protocols[name].(*program.Module); ok {
			m.State = change.Dir()
		}
	}
}

// tellOutcome tells the program of its scheme what became of a URL: a finding for each of these columns that is not empty.
func (s *states) tellOutcome(ctx context.Context, row *record.Fetch) {
	scheme, _, _ := canon.Split(row.URL)
	change := s.changes[scheme]
	if change == nil || row.Role != record.RolePage {
		return
	}
	status := ""
	if row.Status != 0 {
		status = strconv.Itoa(int(row.Status))
	}
	for _, f := range [...]process.Finding{
		{Key: "url", Value: row.URL}, {Key: "outcome", Value: row.Outcome}, {Key: "status", Value: status}, {Key: "addr", Value: row.Addr},
		{Key: "etag", Value: row.ETag}, {Key: "last_modified", Value: row.LastModified}, {Key: "error", Value: row.Error},
	} {
		if f.Value != "" && s.err == nil {
			s.err = change.Add(ctx, row.Key, f)
		}
	}
}
