// Package replay is the body of a stage: Run stands in for fetch.Run, contacts nobody, and
// answers a batch from the archive of an earlier crawl.
//
// Rows come out in the order of the archive, with their saved times, outcomes and places, so that
// every later stage repeats byte for byte. What the frontier says of a URL (priority, depth) is
// taken from the batch.
//
// # Invariants
//
//   - Only records of the batch's transaction are used; if it ran more than once
//     (a round that was abandoned), those of its last epoch.
//   - Each URL of the batch gets the row that was saved for it, or the run fails.
//   - Memory does not grow with the batch or the archive: what is known of each URL and each
//     record is in temporary files.
package replay

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"mercator/formats/record"
	"mercator/formats/warc"
	"mercator/pkg/fault"
	"mercator/pkg/fetch"
	"mercator/pkg/merge"
	"mercator/pkg/stage"
)

// Options say what is replayed.
type Options struct {
	Files  []warc.Part // in any order
	Txn    string
	Schema *record.Schema // of the input
	OnRow  func(row *record.Fetch)
}

// archive is one WARC file and the groups of records of the transaction in it.
type archive struct {
	warc.Part
	name    string // when it was written
	from, n int64  // the offsets of the groups, among those of all files
}

// numbers is a file of 64-bit numbers, which is written before it is read.
type numbers struct {
	f *os.File
	w *bufio.Writer
	n int64
}

func newNumbers() (*numbers, error) {
	f, err := merge.TempFile("")
	if err != nil {
		return nil, err
	}
	return &numbers{f: f, w: bufio.NewWriterSize(f, 64<<10)}, nil
}

func (s *numbers) add(x uint64) error {
	s.n++
	_, err := s.w.Write(binary.BigEndian.AppendUint64(nil, x))
	return err
}

// in returns n numbers from the given one on, to be read one after the other.
func (s *numbers) in(from, n int64) io.Reader {
	return bufio.NewReaderSize(io.NewSectionReader(s.f, 8*from, 8*n), 64<<10)
}

// Run is the body of a stage: it reads the batch, and emits the rows that were saved for it. It writes no WARC files.
func Run(ctx context.Context, b *stage.Batch[record.URL, record.Fetch], opt Options) error {
	if opt.Txn == "" {
		return &fault.Error{Class: fault.Usage, Found: "a replay without a transaction", Want: "the --txn of the round that was saved"}
	}
	batch, err := readBatch(ctx, b.Read, opt.Schema)
	if err != nil {
		return err
	}
	defer batch.close()
	groups, err := newNumbers()
	if err != nil {
		return err
	}
	defer groups.f.Close()
	archives, err := index(ctx, opt, groups)
	if err != nil {
		return err
	}
	for _, a := range archives {
		if err := a.emit(ctx, b, batch, groups, opt); err != nil {
			return err
		}
	}
	if batch.left > 0 {
		var row record.URL
		if err := batch.untaken(&row); err != nil {
			return err
		}
		return &fault.Error{Class: fault.Conflict, File: fmt.Sprintf("%d WARC files", len(archives)),
			Found: fmt.Sprintf("no record of %s and %d more URLs in transaction %q", row.URL, batch.left-1, opt.Txn),
			Hint:  "give the fetch store of the crawl, and the batch that the round had"}
	}
	return nil
}

// index finds the records of the transaction's last epoch, and adds to groups where they are.
func index(ctx context.Context, opt Options, groups *numbers) ([]*archive, error) {
	var all []*archive
	epoch := uint64(0)
	for _, part := range opt.Files {
		a := &archive{Part: part, name: filepath.Base(part.Path)}
		all = append(all, a)
		a.from = groups.n
		if err := a.scan(ctx, opt.Txn, groups, func(e uint64) bool {
			if e > epoch {
				epoch = e
				for _, b := range all {
					b.from, b.n = groups.n, 0
				}
			}
			return e == epoch
		}); err != nil {
			return nil, err
		}
	}
	if err := groups.w.Flush(); err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b *archive) int { return natural(a.name, b.name) })
	return all, nil
}

// scan lists the groups of records of a transaction. mine says whether an epoch counts.
func (a *archive) scan(ctx context.Context, txn string, groups *numbers, mine func(epoch uint64) bool) error {
	f, length, err := a.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	r := warc.NewReader(io.LimitReader(f, length), warc.ReaderOptions{Name: a.Path})
	defer r.Close()
	group := int64(0)
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		ends := false
		switch rec.Type {
		case warc.TypeInfo:
			if name := rec.Get(warc.FieldFilename); name != "" {
				a.name = name
			}
			ends = true
		case warc.TypeResource:
			if _, ends, err = warc.ReadHostname(rec); err != nil {
				return err
			}
		case warc.TypeMetadata:
			out, ok, err := warc.ReadOutcome(rec)
			if err != nil {
				return err
			}
			if ok && out.Round.Txn == txn && mine(out.Round.Epoch) {
				a.n++
				if err := groups.add(uint64(group)); err != nil {
					return err
				}
			}
			ends = ok
		}
		if ends {
			if err := r.Finish(); err != nil {
				return err
			}
			group = r.Good()
		}
	}
}

// emit writes the rows of one file.
func (a *archive) emit(ctx context.Context, b *stage.Batch[record.URL, record.Fetch], t *batch, groups *numbers, opt Options) error {
	if a.n == 0 {
		return nil
	}
	f, length, err := a.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	offsets := groups.in(a.from, a.n)
	for range a.n {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		var off [8]byte
		if _, err := io.ReadFull(offsets, off[:]); err != nil {
			return err
		}
		g, err := fetch.ReadGroup(io.NewSectionReader(f, 0, length), a.name, int64(binary.BigEndian.Uint64(off[:])))
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = &fault.Error{Class: fault.Truncated, File: a.Path, Found: "the file became shorter"}
			}
			return err
		}
		if g.Row.Role != record.RolePage {
			if opt.OnRow != nil {
				opt.OnRow(&g.Row)
			}
			if err := b.Make(g.Row.Role, &g.Row); err != nil {
				return err
			}
			continue
		}
		var row record.URL
		found, err := t.take(g.Row.URL, &row)
		if err != nil {
			return err
		}
		if !found {
			continue // an earlier run of the round had it in its batch
		}
		page := fetch.Merge(&row, &g.Row)
		fetch.EnterCut(b, &page)
		if opt.OnRow != nil {
			opt.OnRow(&page)
		}
		if err := b.Pass(&page); err != nil {
			return err
		}
	}
	return nil
}

// natural orders names by their texts and numbers, so that file 10 comes after file 9.
func natural(a, b string) int {
	for a != "" && b != "" {
		n, m := digits(a), digits(b)
		if n == 0 || m == 0 {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		x, _ := strconv.ParseUint(a[:n], 10, 64)
		y, _ := strconv.ParseUint(b[:m], 10, 64)
		if c := cmp.Compare(x, y); c != 0 {
			return c
		}
		a, b = a[n:], b[m:]
	}
	return cmp.Compare(len(a), len(b))
}

func digits(s string) int {
	n := 0
	for n < len(s) && n < 18 && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
