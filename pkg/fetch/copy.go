package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/base/fault"
)

// Copier copies the WARC records of fetch rows out of fetch stores, into one file. One goroutine.
type Copier struct {
	Encoder   warc.Encoder
	Out       io.Writer
	RecordMax int64 // bytes of a record; one is in memory

	Records, Bytes uint64 // copied; bytes of their blocks

	begun  bool
	name   string   // of the open file
	file   *os.File // nil before the first row
	block  []byte
	member []byte
}

// Close closes the file that was read last.
func (c *Copier) Close() {
	if c.file != nil {
		c.file.Close() // was read only
		c.file = nil
	}
}

// Begin writes the warcinfo record with which a file begins; only once.
func (c *Copier) Begin(now record.Time) (err error) {
	if c.begun {
		return nil
	}
	c.begun = true
	if c.Encoder.Dictionary != nil {
		if _, err := c.Out.Write(c.Encoder.Dictionary.Frame()); err != nil {
			return err
		}
	}
	block := warc.FormatFields([]warc.Field{{Name: "software", Value: "mercator mfetch copy"}, {Name: "format", Value: "WARC File Format 1.1"}})
	info := warc.Record{Type: warc.TypeInfo, Date: now.Go(), ContentType: warc.MediaFields, Block: bytes.NewReader(block), Length: int64(len(block))}
	if c.member, err = c.Encoder.Append(c.member[:0], &info); err == nil {
		_, err = c.Out.Write(c.member)
	}
	return err
}

// Copy copies the record that a row points to, from the fetch store dir. Rows without one are passed over.
// A revisit record no longer names the file of its original, which is another one there.
func (c *Copier) Copy(ctx context.Context, dir string, row *record.Fetch) error {
	if row.WARCFilename == "" || row.WARCLength == 0 {
		return nil
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := c.open(dir, row.WARCFilename); err != nil {
		return err
	}
	r := readers.Get().(*warc.Reader)
	defer readers.Put(r)
	rec, err := r.At(c.file, c.name, row.WARCOffset, row.WARCLength)
	if err != nil {
		return err
	}
	place := fmt.Sprintf("record at byte %d", row.WARCOffset)
	if rec.TargetURI != row.URL {
		return &fault.Error{Class: fault.Corrupt, File: c.name, Place: place, Found: fmt.Sprintf("a record of %q", rec.TargetURI), Want: fmt.Sprintf("%q", row.URL),
			Hint: "give the fetch store that the rows came from"}
	}
	if rec.Length > c.RecordMax {
		return &fault.Error{Class: fault.Usage, File: c.name, Place: place, Found: fmt.Sprintf("%d bytes", rec.Length), Want: fmt.Sprintf("at most %d, a quarter of --memory", c.RecordMax),
			Hint: fmt.Sprintf("give --memory %d", 4*rec.Length)}
	}
	c.block = slices.Grow(c.block[:0], int(rec.Length))[:rec.Length]
	if _, err := io.ReadFull(rec.Block, c.block); err != nil {
		return err
	}
	out := *rec
	out.Block = bytes.NewReader(c.block)
	out.Fields = slices.DeleteFunc(slices.Clone(rec.Fields), func(f warc.Field) bool {
		return f.Name == warc.FieldRefersToFilename || f.Name == warc.FieldRefersToOffset || f.Name == warc.FieldBlockDigest && c.Encoder.BlockDigest
	})
	if err := r.Finish(); err != nil {
		return err
	}
	if c.member, err = c.Encoder.Append(c.member[:0], &out); err != nil {
		return err
	}
	c.Records++
	c.Bytes += uint64(len(c.block))
	_, err = c.Out.Write(c.member)
	return err
}

// open opens a file of the store, whether it still grows or not.
func (c *Copier) open(dir, name string) error {
	if !filepath.IsLocal(name) {
		return &fault.Error{Class: fault.Corrupt, Found: fmt.Sprintf("WARC file name %q", name), Want: "one inside the fetch store"}
	}
	path := filepath.Join(dir, name)
	if c.file != nil && c.name == path {
		return nil
	}
	c.Close()
	f, _, err := warc.Part{Path: path + store.OpenSuffix, Length: -1}.Open()
	if errors.Is(err, os.ErrNotExist) {
		return &fault.Error{File: path, Found: "no such WARC file", Hint: "give the fetch store that the rows came from", Err: err}
	}
	if err != nil {
		return err
	}
	c.name, c.file = path, f
	return nil
}
