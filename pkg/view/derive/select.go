package derive

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"

	"mercator/formats/warc"
)

// Select copies records of WARC files to files of the same names in dir, byte for byte: records with a target URI that is kept, and records without one.
// The files have one record a member, as a crawl's files have.
func Select(ctx context.Context, parts []warc.Part, dir string, keep func(uri string) (bool, error)) (kept []warc.Part, err error) {
	for _, p := range parts {
		path := filepath.Join(dir, partName(p))
		if err := selectFrom(ctx, p, path, keep); err != nil {
			return nil, err
		}
		kept = append(kept, warc.Part{Path: path, Length: -1})
	}
	return kept, nil
}

func selectFrom(ctx context.Context, p warc.Part, path string, keep func(uri string) (bool, error)) error {
	in, length, err := p.Open()
	if err != nil {
		return err
	}
	defer in.Close() // was read only
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	out := bufio.NewWriterSize(file, 64<<10)
	r := warc.NewReader(bufio.NewReaderSize(io.NewSectionReader(in, 0, length), 64<<10), warc.ReaderOptions{Name: p.Path})
	defer r.Close()
	wanted, from := true, int64(0) // what stands before the first record, such as a dictionary, is kept
	until := func(end int64) error {
		if !wanted || end == from {
			return nil
		}
		_, err := io.Copy(out, io.NewSectionReader(in, from, end-from))
		return err
	}
	for ctx.Err() == nil {
		rec, err := r.Next()
		if err == io.EOF {
			if err := until(length); err != nil {
				return err
			}
			if err := out.Flush(); err != nil {
				return err
			}
			return file.Close()
		}
		if err != nil {
			return err
		}
		if err := until(rec.Offset); err != nil {
			return err
		}
		from, wanted = rec.Offset, true
		if rec.TargetURI != "" {
			if wanted, err = keep(rec.TargetURI); err != nil {
				return err
			}
		}
	}
	return context.Cause(ctx)
}
