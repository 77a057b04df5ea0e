// Package replay answers a batch from the archive of an earlier crawl.
//
// It is the protocol module that contacts nobody: rows come out in the order of
// the archive, with their saved times, outcomes and places, so that every later
// stage repeats byte for byte. What the frontier says of a URL (priority, depth)
// is taken from the batch.
//
// # Invariants
//
//   - Only records of the batch's transaction are used; if it ran more than once
//     (a round that was abandoned), those of its last epoch.
//   - Each URL of the batch gets the row that was saved for it, or the run fails.
//   - Memory is 16 bytes for each URL of the batch and each record, whatever they hold.
package replay

import (
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
	"mercator/pkg/fingerprint"
	"mercator/pkg/merge"
	"mercator/pkg/stage"
)

// Options say what is replayed.
type Options struct {
	Files  []warc.Part // in any order
	Txn    string
	Schema *record.Schema // of the input
	Bodies bool           // rows carry their bodies, for sinks that take them
	OnRow  func(row *record.Fetch)
}

// place is where something begins: in the spool, or in a WARC file.
type place struct {
	fp  uint64 // of the URL
	off int64
}

// archive is one WARC file and the records of the transaction in it.
type archive struct {
	warc.Part
	name   string // when it was written
	groups []place
}

// Run is the body of a stage. It writes no WARC files.
func Run(ctx context.Context, b *stage.Batch[record.URL, record.Fetch], opt Options) error {
	if opt.Txn == "" {
		return &fault.Error{Class: fault.Usage, Found: "a replay without a transaction", Want: "the --txn of the round that was saved"}
	}
	batch, err := readBatch(ctx, b, opt.Schema)
	if err != nil {
		return err
	}
	defer batch.f.Close()
	archives, err := index(ctx, opt)
	if err != nil {
		return err
	}
	for _, a := range archives {
		if err := a.emit(ctx, b, batch, opt); err != nil {
			return err
		}
	}
	if batch.left > 0 {
		var row record.URL
		for i, p := range batch.rows {
			if !batch.used[i] {
				if err := batch.read(p.off, &row); err != nil {
					return err
				}
				break
			}
		}
		return &fault.Error{Class: fault.Conflict, File: fmt.Sprintf("%d WARC files", len(archives)),
			Found: fmt.Sprintf("no record of %s and %d more URLs in transaction %q", row.URL, batch.left-1, opt.Txn),
			Hint:  "give the fetch store of the crawl, and the batch that the round had"}
	}
	return nil
}

// batch is the input, on disk, found by URL.
type batch struct {
	f    *os.File
	like *record.Schema
	rows []place // sorted by fp
	used []bool
	left int
}

// readBatch spools the input: per row its length in four bytes and its canonical encoding.
func readBatch(ctx context.Context, b *stage.Batch[record.URL, record.Fetch], like *record.Schema) (*batch, error) {
	f, err := merge.TempFile("")
	if err != nil {
		return nil, err
	}
	t := &batch{f: f, like: like}
	w := newSpoolWriter(f)
	for {
		var row record.URL
		err := b.Read(&row)
		if err == io.EOF {
			break
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err == nil {
			t.rows = append(t.rows, place{fingerprint.OfString(row.URL), w.at})
			err = w.add(&row)
		}
		if err != nil {
			f.Close()
			return nil, err
		}
	}
	if err := w.Flush(); err != nil {
		f.Close()
		return nil, err
	}
	slices.SortStableFunc(t.rows, func(a, b place) int { return cmp.Compare(a.fp, b.fp) })
	t.used, t.left = make([]bool, len(t.rows)), len(t.rows)
	return t, nil
}

func (t *batch) read(off int64, row *record.URL) error {
	var n [4]byte
	if _, err := t.f.ReadAt(n[:], off); err != nil {
		return err
	}
	b := make([]byte, binary.LittleEndian.Uint32(n[:]))
	if _, err := t.f.ReadAt(b, off+4); err != nil {
		return err
	}
	_, err := record.ParseCanonical(b, row, t.like)
	return err
}

// take fills row with the batch's row for a URL, once.
func (t *batch) take(url string, row *record.URL) (bool, error) {
	fp := fingerprint.OfString(url)
	i, _ := slices.BinarySearchFunc(t.rows, fp, func(p place, fp uint64) int { return cmp.Compare(p.fp, fp) })
	for ; i < len(t.rows) && t.rows[i].fp == fp; i++ {
		if t.used[i] {
			continue
		}
		if err := t.read(t.rows[i].off, row); err != nil {
			return false, err
		}
		if row.URL == url {
			t.used[i] = true
			t.left--
			return true, nil
		}
	}
	return false, nil
}

// index finds the records of the transaction's last epoch.
func index(ctx context.Context, opt Options) ([]*archive, error) {
	var all []*archive
	epoch := uint64(0)
	for _, part := range opt.Files {
		a := &archive{Part: part, name: filepath.Base(part.Path)}
		all = append(all, a)
		if err := a.scan(ctx, opt.Txn, func(e uint64) bool {
			if e > epoch {
				epoch = e
				for _, b := range all {
					b.groups = nil
				}
			}
			return e == epoch
		}); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b *archive) int { return natural(a.name, b.name) })
	return all, nil
}

// scan lists the groups of records of a transaction. mine says whether an epoch counts.
func (a *archive) scan(ctx context.Context, txn string, mine func(epoch uint64) bool) error {
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
				a.groups = append(a.groups, place{off: group})
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
func (a *archive) emit(ctx context.Context, b *stage.Batch[record.URL, record.Fetch], t *batch, opt Options) error {
	if len(a.groups) == 0 {
		return nil
	}
	f, length, err := a.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	for _, p := range a.groups {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		g, err := fetch.ReadGroup(io.NewSectionReader(f, 0, length), a.name, p.off)
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
		if opt.Bodies {
			if page.Body, err = g.PipeBody(); err != nil {
				return err
			}
		}
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
