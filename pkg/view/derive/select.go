package derive

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"

	"mercator/formats/warc"
)

// Select copies records of WARC files to files of the same names in dir: records with a target URI that is kept, and records without one.
// The files have one record a member, as a crawl's files have. Records are copied byte for byte, but for revisits: they do not say where in a file their
// original is, and become whole replies if it is left out. The caller warns of those that cannot, which Select counts.
func Select(ctx context.Context, parts []warc.Part, dir string, keep func(uri string) (bool, error)) (kept []warc.Part, lost int, err error) {
	for _, p := range parts {
		path := filepath.Join(dir, partName(p))
		n, err := selectFrom(ctx, p, path, keep)
		if err != nil {
			return nil, 0, err
		}
		lost += n
		kept = append(kept, warc.Part{Path: path, Length: -1})
	}
	return kept, lost, nil
}

func selectFrom(ctx context.Context, p warc.Part, path string, keep func(uri string) (bool, error)) (lost int, err error) {
	in, length, err := p.Open()
	if err != nil {
		return 0, err
	}
	defer in.Close() // was read only
	file, err := os.Create(path)
	if err != nil {
		return 0, err
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
				return 0, err
			}
			if err := out.Flush(); err != nil {
				return 0, err
			}
			return lost, file.Close()
		}
		if err != nil {
			return 0, err
		}
		if err := until(rec.Offset); err != nil {
			return 0, err
		}
		from, wanted = rec.Offset, true
		if rec.TargetURI != "" {
			if wanted, err = keep(rec.TargetURI); err != nil {
				return 0, err
			}
		}
		if name, offset, ok := rec.Original(); ok && wanted {
			wanted = false // another record stands for it
			there, err := keep(rec.Get(warc.FieldRefersToTargetURI))
			if err != nil {
				return 0, err
			}
			member, err := revisit(r, rec, filepath.Dir(p.Path), name, offset, there)
			if err != nil {
				return 0, err
			}
			if member == nil {
				lost++
			}
			if _, err := out.Write(member); err != nil {
				return 0, err
			}
		}
	}
	return 0, context.Cause(ctx)
}

// maxOriginal bounds the block of an original that becomes that of its revisit, in bytes: it is in memory.
const maxOriginal = 64 << 20

// revisit makes the record that stands for a revisit: the same without the place of its original, or, if that is not there any more, a reply with the
// original's block; nil if nobody can read that.
func revisit(r *warc.Reader, rec *warc.Record, dir, name string, offset int64, there bool) ([]byte, error) {
	out, block := *rec, rec.Block
	gone := []string{warc.FieldRefersToFilename, warc.FieldRefersToOffset}
	if !there {
		if !filepath.IsLocal(name) {
			return nil, nil
		}
		file := filepath.Join(dir, name)
		in, _, err := warc.Part{Path: file + ".open", Length: -1}.Open()
		if err != nil {
			return nil, nil
		}
		defer in.Close() // was read only
		first, original, err := warc.OpenAt(in, offset, 0, warc.ReaderOptions{Name: file})
		defer original.Close()
		if err != nil || first.Type != warc.TypeResponse || first.TargetURI != rec.Get(warc.FieldRefersToTargetURI) || first.Length > maxOriginal {
			return nil, nil
		}
		gone = append(gone, warc.FieldProfile, warc.FieldRefersTo, warc.FieldRefersToTargetURI, warc.FieldRefersToDate, warc.FieldBlockDigest)
		out.Type, out.ContentType, block = warc.TypeResponse, first.ContentType, first.Block
	}
	b, err := io.ReadAll(block)
	if err != nil {
		return nil, err
	}
	out.Fields = slices.DeleteFunc(slices.Clone(rec.Fields), func(f warc.Field) bool { return slices.Contains(gone, f.Name) })
	out.Block, out.Length = bytes.NewReader(b), int64(len(b))
	return warc.Encoder{Codec: r.Codec()}.Append(nil, &out)
}
