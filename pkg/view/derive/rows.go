package derive

import (
	"context"
	"io"
	"os"
	"strings"

	"mercator/formats/record"
	"mercator/formats/warc"
	"mercator/pkg/view/history"
)

// Rows are the record files of a crawl that tell what its archive holds: mfetch knew when it wrote a record what an index says of
// it. A row tells all of most records; the others are read.
type Rows struct {
	Files  []string    // of fetch rows
	Places warc.Places // of the records in the archive: what else the rows tell of is another archive's
}

// Rows adds the lines of WARC files, without those in done, from the rows of the crawl. all is false if the rows are not those of
// just these files, or something cannot be read: then the index is of no use.
func (x *Index) Rows(ctx context.Context, rows *Rows, parts []warc.Part, done map[string]bool, progress func(int64)) (all bool, err error) {
	l := looks{parts: map[string]warc.Part{}, r: warc.NewReader(nil, warc.ReaderOptions{})}
	defer l.close()
	for _, p := range parts {
		l.parts[partName(p)] = p
	}
	var got warc.Places
	for _, file := range rows.Files {
		err := history.Read(file, func(r *record.Fetch) error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if r.WARCFilename == "" {
				return nil
			}
			rec, err := l.readRecord(r, rows.Places.Odd > 0)
			if err != nil {
				return err
			}
			got.Add(r.WARCFilename, r.WARCOffset, r.WARCLength, rec == nil || rec.Plain())
			if done[r.WARCFilename] {
				return nil
			}
			if rec == nil || rec.Plain() && tells(r) {
				x.line = appendRow(x.line[:0], r)
			} else if x.line, err = appendRecord(x.line[:0], l.r, rec, r.WARCFilename, nil); err != nil {
				return err
			}
			if progress != nil {
				progress(1)
			}
			if len(x.line) == 0 {
				return nil
			}
			return x.Add(x.line)
		})
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if err != nil {
			return false, nil // who reads the archive says what is wrong with it
		}
	}
	return got == rows.Places, nil
}

// mimeMax is the longest media type that a row has whole for certain, in bytes.
const mimeMax = 1 << 8

// tells reports whether a row has what an index says of a plain record. The bytes of others may differ, or the record's
// digest is to be made.
func tells(r *record.Fetch) bool {
	if r.PayloadSHA1 == "" && r.Outcome != record.OutcomeNotModified || r.Status < 200 || len(r.MIME) > mimeMax || strings.HasPrefix(r.MIME, "application/http") {
		return false
	}
	return !strings.ContainsFunc(r.URL, func(c rune) bool { return c <= ' ' || c >= 0x7f })
}

// looks opens the records that rows do not tell all of.
type looks struct {
	parts map[string]warc.Part // by name
	r     *warc.Reader
	name  string // of the open file
	file  *os.File
}

// readRecord returns the record of a row, or nil if the row tells all of it. odd says that there are records that are not plain.
func (l *looks) readRecord(r *record.Fetch, odd bool) (*warc.Record, error) {
	if !odd && tells(r) {
		return nil, nil
	}
	if l.file == nil || l.name != r.WARCFilename {
		l.close()
		part, ok := l.parts[r.WARCFilename]
		if !ok {
			return nil, os.ErrNotExist
		}
		var err error
		if l.file, _, err = part.Open(); err != nil {
			return nil, err
		}
		l.name = r.WARCFilename
	}
	return l.r.At(io.ReaderAt(l.file), l.name, r.WARCOffset, r.WARCLength)
}

func (l *looks) close() {
	if l.file != nil {
		l.file.Close() // was read only
		l.file = nil
	}
}
