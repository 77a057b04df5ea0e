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
//     (a round that was abandoned), only records of its last epoch.
//   - Each URL of the batch gets the row that was saved for it, or the run fails.
//   - Memory does not grow with the batch or the archive: what is known of each URL and each
//     record is in temporary files.
package replay

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"

	"mercator/formats/record"
	"mercator/formats/warc"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/fetch"
	"mercator/pkg/folder/stage"
	"mercator/pkg/merge"
)

// Options say what is replayed.
type Options struct {
	Files  []warc.Part // in any order
	Txn    string
	Schema *record.Schema // of the input
	OnRow  func(row *record.Fetch)
}

// sortMemory is the memory of each of three sorts, in bytes; the rest goes to disk.
const sortMemory = 8 << 20

// archive is one WARC file.
type archive struct {
	warc.Part
	name string // when it was written
}

// contact is where a group of records stands.
type contact struct {
	n     uint64 // number of the contact, in the order of the archive
	epoch uint64
	file  uint64 // index of the archive file
	off   uint64
}

func (c *contact) append(b []byte) []byte {
	for _, x := range [...]uint64{c.n, c.epoch, c.file, c.off} {
		b = binary.BigEndian.AppendUint64(b, x)
	}
	return b
}

// parseContact also returns what stands behind it.
func parseContact(b []byte) (c contact, rest []byte) {
	for _, x := range [...]*uint64{&c.n, &c.epoch, &c.file, &c.off} {
		*x, b = binary.BigEndian.Uint64(b), b[8:]
	}
	return c, b
}

// run is a replay. What is known of each contact and each row of the batch is sorted, on disk.
type run struct {
	Options
	archives []*archive
	n, epoch uint64        // of the contacts so far: how many, and the last epoch
	rows     *merge.Sorter // of the batch, by keyOf
	pages    *merge.Sorter // contacts and URLs, by keyOf
	found    *merge.Sorter // contacts that give a row, by number; contacts of pages with the batch's row
}

// Run is the body of a stage: it reads the batch, and emits the rows that were saved for it. It writes no WARC files.
func Run(ctx context.Context, b *stage.Batch[record.URL, record.Fetch], opt Options) error {
	if opt.Txn == "" {
		return &fault.Error{Class: fault.Usage, Found: "a replay without a transaction", Want: "the --txn of the round that was saved"}
	}
	r := &run{Options: opt, rows: merge.NewSorter(sortMemory, ""), pages: merge.NewSorter(sortMemory, ""), found: merge.NewSorter(sortMemory, "")}
	defer r.rows.Close()
	defer r.pages.Close()
	defer r.found.Close()
	if err := r.batch(ctx, b.Read); err != nil {
		return err
	}
	if err := r.index(ctx); err != nil {
		return err
	}
	if err := r.match(ctx); err != nil {
		return err
	}
	return r.emit(ctx, b)
}

// batch reads the batch.
func (r *run) batch(ctx context.Context, next func(*record.URL) error) error {
	var buf []byte
	for {
		var row record.URL
		err := next(&row)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err == nil {
			buf = record.AppendRow(buf[:0], &row)
			err = r.rows.Add(fingerprint.SHA256(row.URL), buf)
		}
		if err != nil {
			return err
		}
	}
}

// index finds the transaction's contacts, in the order of the archive.
func (r *run) index(ctx context.Context) error {
	for _, part := range r.Files {
		a := &archive{Part: part, name: filepath.Base(part.Path)}
		if err := a.info(); err != nil {
			return err
		}
		r.archives = append(r.archives, a)
	}
	slices.SortStableFunc(r.archives, func(a, b *archive) int { return natural(a.name, b.name) })
	for i := range r.archives {
		if err := r.scan(ctx, uint64(i)); err != nil {
			return err
		}
	}
	return nil
}

// info takes the name under which a file was written from its first record.
func (a *archive) info() error {
	f, length, err := a.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	r := warc.NewReader(io.LimitReader(f, length), warc.ReaderOptions{Name: a.Path})
	defer r.Close()
	rec, err := r.Next()
	if err == io.EOF {
		return nil
	}
	if err == nil && rec.Type == warc.TypeInfo {
		a.name = cmp.Or(rec.Get(warc.FieldFilename), a.name)
	}
	return err
}

// scan lists the transaction's contacts in one file.
func (r *run) scan(ctx context.Context, file uint64) error {
	a := r.archives[file]
	f, length, err := a.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	in := warc.NewReader(io.LimitReader(f, length), warc.ReaderOptions{Name: a.Path})
	defer in.Close()
	var buf []byte
	group := int64(0)
	for {
		rec, err := in.Next()
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
			ends = true
		case warc.TypeResource:
			if _, ends, err = warc.ReadHostname(rec); err != nil {
				return err
			}
		case warc.TypeMetadata:
			var out warc.Outcome
			if out, ends, err = warc.ReadOutcome(rec); err != nil {
				return err
			}
			if !ends || out.Round.Txn != r.Txn {
				break
			}
			c := contact{r.n, out.Round.Epoch, file, uint64(group)}
			r.n++
			r.epoch = max(r.epoch, c.epoch)
			if buf = c.append(buf[:0]); out.Row.Role == record.RolePage {
				err = r.pages.Add(fingerprint.SHA256(out.Row.URL), append(buf, out.Row.URL...))
			} else {
				err = r.found.Add(c.n, buf)
			}
			if err != nil {
				return err
			}
		}
		if ends {
			if err := in.Finish(); err != nil {
				return err
			}
			group = in.Good()
		}
	}
}

// match finds each row of the batch the contact that was saved for it.
func (r *run) match(ctx context.Context) error {
	pages, err := r.pages.Sort()
	if err != nil {
		return err
	}
	rows, err := r.rows.Sort()
	if err != nil {
		return err
	}
	var buf []byte
	var same []string // rows of one key, which is one URL, and one row, as a rule
	left, first := 0, ""
	missed := func() error {
		for _, text := range same {
			var row record.URL
			if _, err := record.ParseRow(text, &row, r.Schema); err != nil {
				return err
			}
			if left++; left == 1 {
				first = row.URL
			}
		}
		same = same[:0]
		return nil
	}
	at, page, pageErr := pages.Next()
	key, text, rowErr := rows.Next()
	for rowErr == nil {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		group := key
		for ; rowErr == nil && key == group; key, text, rowErr = rows.Next() {
			same = append(same, string(text))
		}
		for ; pageErr == nil && at <= group; at, page, pageErr = pages.Next() {
			c, url := parseContact(page)
			if at < group || c.epoch != r.epoch {
				continue
			}
			for i, text := range same {
				var row record.URL
				if _, err := record.ParseRow(text, &row, r.Schema); err != nil {
					return err
				}
				if row.URL == string(url) {
					buf = append(c.append(buf[:0]), text...)
					if err := r.found.Add(c.n, buf); err != nil {
						return err
					}
					if i == 0 {
						same = same[1:]
					} else {
						same = slices.Delete(same, i, i+1)
					}
					break
				}
			}
		}
		if err := missed(); err != nil {
			return err
		}
	}
	switch {
	case rowErr != io.EOF:
		return rowErr
	case pageErr != nil && pageErr != io.EOF:
		return pageErr
	case left > 0:
		return &fault.Error{Class: fault.Conflict, File: fmt.Sprintf("%d WARC files", len(r.archives)),
			Found: fmt.Sprintf("no record of %s and %d more URLs in transaction %q", first, left-1, r.Txn),
			Hint:  "give the fetch store of the crawl, and the batch that the round had"}
	}
	return nil
}

// emit emits the rows, in the order of the archive.
func (r *run) emit(ctx context.Context, b *stage.Batch[record.URL, record.Fetch]) error {
	found, err := r.found.Sort()
	if err != nil {
		return err
	}
	var f io.ReadCloser
	var in io.ReaderAt
	defer func() {
		if f != nil {
			f.Close()
		}
	}()
	for file := ^uint64(0); ; {
		_, text, err := found.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		c, row := parseContact(text)
		if c.epoch != r.epoch {
			continue
		}
		a := r.archives[c.file]
		if c.file != file {
			if f != nil {
				f.Close()
			}
			opened, length, err := a.Open()
			if err != nil {
				return err
			}
			f, in, file = opened, io.NewSectionReader(opened, 0, length), c.file
		}
		g, err := fetch.ReadGroup(in, a.name, int64(c.off))
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = &fault.Error{Class: fault.Truncated, File: a.Path, Found: "the file became shorter"}
			}
			return err
		}
		if err := r.row(b, &g.Row, string(row)); err != nil {
			return err
		}
	}
}

// row emits one row; for a page, text is the batch's.
func (r *run) row(b *stage.Batch[record.URL, record.Fetch], saved *record.Fetch, text string) error {
	if saved.Role != record.RolePage {
		fetch.EnterCut(b, saved)
		if r.OnRow != nil {
			r.OnRow(saved)
		}
		return b.Make(saved.Role, saved)
	}
	var row record.URL
	if _, err := record.ParseRow(text, &row, r.Schema); err != nil {
		return err
	}
	page := fetch.Merge(&row, saved)
	fetch.EnterCut(b, &page)
	if r.OnRow != nil {
		r.OnRow(&page)
	}
	return b.Pass(&page)
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
