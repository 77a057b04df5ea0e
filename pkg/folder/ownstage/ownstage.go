// Package ownstage asks a program of the user's about the rows of a stage: it is the URL-seen test, the content-seen test or the
// resolver of a crawl, or a filter between two stages.
//
// The program runs for four events (MERCATOR_EVENT), as a processing module with state does (package process): "begin", "rows", "commit",
// and "abort" where the batch is given up. It has the name of the round (MERCATOR_TXN) and a folder (MERCATOR_MODULE_DIR), a copy
// of what it left there in the round before. At "rows" it reads a row a line, as JSON, and answers each by a line: an object
// with the columns that change, {} for none, or null for a row that goes no further.
//
// # Invariants
//
//   - The folder becomes the next generation of the stage's store by the stage's own commit, with the kept output. What is
//     killed, program or stage, leaves the generation before, and a committed batch is never asked again.
//   - Each row has exactly one answer. A program that fails, hangs, or answers too little, too much or something else ends the
//     stage by one error of class fault.Program (package coprocess), and nothing is committed.
//   - Only columns that the stage names can change.
//
// The program is asked for rows as they come, so the store is locked all the while.
package ownstage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/coprocess"
	"mercator/pkg/base/fault"
	"mercator/pkg/folder/stage"
	"mercator/pkg/fpset"
	"mercator/pkg/web/process"
)

// together is how many rows are asked for together, where they are at hand.
const together = 256

// Program is a stage's.
type Program struct {
	Setting string // that names it: "stages.seen"; "": none may
	Command string // for sh -c
	Timeout time.Duration
}

// Open opens the store of the stage: a store of the kind or, with a program, the store of the program's state in its place.
func (p Program) Open(dir, kind string, version int, opt store.Options) (*store.Store, error) {
	if p.Command == "" {
		st, err := store.Open(dir, kind, version, opt)
		if p.Setting == "" {
			return st, Explain(dir, kind, err)
		}
		if e := ofProgram(dir, kind, err); e != nil {
			e.Hint = "give the program that the store was made for: --program COMMAND"
			if crawl := store.Folder(store.Within(dir, kind, opt), opt).CrawlDir(); crawl != "" {
				e.Hint = fmt.Sprintf("set %s to the program that the crawl was made with: %s", p.Setting, fault.Quote("mcrawl", "set", crawl, p.Setting+"=COMMAND"))
			}
		}
		return st, err
	}
	opt.Maker = "mextract create"
	st, err := store.Open(store.Within(dir, kind, opt), process.Kind, process.Version, opt)
	if e := (*fault.Error)(nil); errors.Is(err, fault.WrongKind) && errors.As(err, &e) {
		e.Place, e.Hint = p.Setting, "that setting counts when the crawl is made: take it out, or make another crawl"
	}
	return st, err
}

// Verb returns the verb of the stage's transactions: builtin, or process.Verb with a program.
func (p Program) Verb(builtin string) string {
	if p.Command == "" {
		return builtin
	}
	return process.Verb
}

// Explain is err, the error of a store of a kind, with what to do if a program keeps its state there.
func Explain(dir, kind string, err error) error {
	if e := ofProgram(dir, kind, err); e != nil {
		e.Hint = fmt.Sprintf("the program that crawl.toml names under [stages] keeps its state there: %s", fault.Quote("mextract", "state", store.Within(dir, kind, store.Options{})))
	}
	return err
}

// ofProgram is err if it says that a store is of another kind, and a program keeps its state there.
func ofProgram(dir, kind string, err error) (e *fault.Error) {
	if errors.Is(err, fault.WrongKind) && errors.As(err, &e) {
		if _, other := store.Open(store.Within(dir, kind, store.Options{}), process.Kind, process.Version, store.Options{}); other == nil {
			return e
		}
	}
	return nil
}

// Rows say what the rows of a stage are to the program.
type Rows[In, Out record.Row] struct {
	Convert  func(*In, *Out) (ask bool) // makes the row that goes on; without ask the program is not asked for it
	Columns  []string                   // that an answer may set
	Check    func(*Out) error           // of a row with its answer; nil: any
	Drop     string                     // the reason under which a row counts that goes no further; "": all rows go on
	Progress func(n int64)
}

// Run is the body of a stage of shape stage.Filter with the store st.
func Run[In, Out record.Row](ctx context.Context, b *stage.Batch[In, Out], st *store.Store, txn string, p Program, rows Rows[In, Out]) error {
	text, err := record.NewText[Out](nil, nil)
	if err != nil {
		return err
	}
	url, err := record.NewText[Out](nil, []string{"url"})
	if err != nil {
		return err
	}
	change, err := record.NewText[Out](nil, rows.Columns)
	if err != nil {
		return err
	}
	work, err := workFolder(st, b.Tx())
	if err != nil {
		return err
	}
	defer process.RemoveFolder(work)
	state, err := p.begin(ctx, st, b.Tx(), txn, work)
	if state != nil {
		defer state.Close(ctx)
	}
	if err != nil {
		return p.failed(ctx, err)
	}
	asked := &coprocess.Program{Command: p.Command, Timeout: p.Timeout, Env: process.Env("rows", process.Dir(state), txn)}
	defer asked.Kill()
	var questions []byte
	out, at, drop := make([]Out, together), make([]int, 0, together), make([]bool, together)
	answered := func(k int, answer string) error {
		row := &out[at[k]]
		switch answer = strings.TrimSpace(answer); {
		case answer == "null" && rows.Drop != "":
			drop[at[k]] = true
			return nil
		case answer == "{}":
		case !strings.HasPrefix(answer, "{"):
			want := "a JSON object"
			if rows.Drop != "" {
				want += " or null"
			}
			return fmt.Errorf("the answer %.100q, want %s", answer, want)
		default:
			if err := change.SetJSON([]byte(answer), row); err != nil {
				return fmt.Errorf("the answer %.100q: %w", answer, err)
			}
		}
		if rows.Check != nil {
			return rows.Check(row)
		}
		return nil
	}
	err = fpset.ReadAvailable(ctx, together, b.Read, func(in []In) error {
		questions, at = questions[:0], at[:0]
		for i := range in {
			drop[i] = false
			if rows.Convert(&in[i], &out[i]) {
				questions, at = append(text.AppendJSON(questions, &out[i], true), '\n'), append(at, i)
			}
		}
		name := func(k int) string { return string(url.AppendTSV(nil, &out[at[k]])) }
		if err := asked.Ask(ctx, questions, len(at), name, answered); err != nil {
			return err
		}
		rows.Progress(int64(len(in)))
		for i := range in {
			if drop[i] {
				b.Drop(rows.Drop)
			} else if err := b.Pass(&out[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return p.placed(err)
	}
	asked.Timeout = process.EventTime * cmp.Or(p.Timeout, coprocess.DefaultTimeout)
	if err := asked.Close(); err != nil {
		return p.placed(err)
	}
	return p.failed(ctx, process.WriteState(b.Tx(), func(to io.Writer) error { return state.Write(ctx, to) }))
}

// workFolder makes a folder in the store where the copy of the program's is made, and removes what attempts at work that is done have left. Another
// attempt at this generation may be at work on another machine, so its folder stays (package store).
func workFolder(st *store.Store, tx *store.Tx) (string, error) {
	work := st.Path(store.WorkDir)
	if err := os.MkdirAll(work, 0o777); err != nil {
		return "", err
	}
	list, err := os.ReadDir(work)
	if err != nil {
		return "", err
	}
	for _, e := range list {
		generation, _, _ := strings.Cut(e.Name(), "-")
		if g, err := strconv.ParseUint(generation, 10, 64); tx.Fenced() && err == nil && g >= tx.Generation() {
			continue
		}
		if err := process.RemoveFolder(filepath.Join(work, e.Name())); err != nil {
			return "", err
		}
	}
	return os.MkdirTemp(work, fmt.Sprintf("%06d-", tx.Generation()))
}

// begin makes the program's folder from the state so far, and tells it.
func (p Program) begin(ctx context.Context, st *store.Store, tx *store.Tx, txn, work string) (process.State, error) {
	old, done, err := process.OpenState(st, tx.Base())
	if err != nil {
		return nil, err
	}
	defer done()
	return (&process.Exec{ModuleName: filepath.Base(st.Dir()), Command: p.Command, Limits: process.ExecLimits{Timeout: p.Timeout}, Temp: work}).Begin(ctx, old, txn)
}

// placed is err with the setting's name, if it is of the program.
func (p Program) placed(err error) error {
	if e := (*fault.Error)(nil); errors.As(err, &e) && e.Class == fault.Program && e.Place == "" {
		if e.Place = p.Setting; strings.HasPrefix(e.Found, "no answer") || strings.HasPrefix(e.Found, "no end") {
			e.Hint = strings.TrimPrefix(e.Hint+"; a slow program gets more time by stages.timeout", "; ")
		}
	}
	return err
}

// failed is the error of an event that the program failed at.
func (p Program) failed(ctx context.Context, err error) error {
	if err == nil || !errors.Is(err, process.ErrFailed) {
		return err
	}
	if ended := context.Cause(ctx); ended != nil {
		return ended
	}
	return &fault.Error{Class: fault.Program, File: "exec " + p.Command, Place: p.Setting, Found: strings.TrimPrefix(err.Error(), "module "), Hint: "nothing of this batch was committed: mend the program, and run this again"}
}

// Columns that programs may set.
var (
	OfFilters  = []string{"priority", "score"} // of url rows
	OfLinks    = []string{"score"}
	OfContent  = []string{"duplicate"}
	OfResolver = []string{"addr", "addr_expires", "addr_error"}
)

// All converts a row to itself.
func All[T record.Row](in, out *T) bool { *out = *in; return true }
