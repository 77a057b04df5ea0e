package driver

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/formats/record/parquet"
	"mercator/formats/warc"
	"mercator/pkg/crawl"
	"mercator/pkg/derive"
	"mercator/pkg/durable"
	"mercator/pkg/fault"
)

// software is what exported files say that made them.
const software = "mercator"

// Export writes what the crawl in dir has committed for other programs. The crawl may go on meanwhile.
type Export struct {
	Dir      string // the crawl folder
	Now      func() time.Time
	Memory   int64         // bytes for sorting
	Progress func(n int64) // is told of records; may be nil
}

// parts is the archive. One without a byte is refused.
func (e Export) parts() ([]warc.Part, error) {
	if _, err := crawl.Open(e.Dir, crawl.Options{}); err != nil {
		return nil, noCrawl(e.Dir, err)
	}
	parts, err := archived(e.Dir)
	if err == nil && len(parts) == 0 {
		err = e.empty()
	}
	return parts, err
}

func (e Export) empty() error {
	return &fault.Error{Class: fault.Conflict, File: e.Dir, Found: "nothing was fetched in this crawl", Want: "something to export"}
}

// WACZ writes the archive as a WACZ file.
func (e Export) WACZ(ctx context.Context, out io.Writer) error {
	parts, err := e.parts()
	if err != nil {
		return err
	}
	name, err := nameOf(e.Dir)
	if err != nil {
		return err
	}
	return derive.WACZ(ctx, out, parts, derive.WACZOptions{Title: name, Software: software, Created: e.Now(), Memory: e.Memory, Progress: e.Progress})
}

// CDXJ writes the sorted index of the archive.
func (e Export) CDXJ(ctx context.Context, out io.Writer) error {
	parts, err := e.parts()
	if err != nil {
		return err
	}
	return derive.CDXJ(ctx, out, parts, e.Memory, e.Progress)
}

// Derived writes a WET or WAT file for each WARC file, into the new folder to.
func (e Export) Derived(ctx context.Context, to string, format derive.Format) error {
	parts, err := e.parts()
	if err != nil {
		return err
	}
	return newFolder(to, func(dir string) error {
		for _, p := range parts {
			name := strings.TrimSuffix(filepath.Base(p.Path), ".open")
			base, _, _ := strings.Cut(name, ".warc")
			if err := e.derived(ctx, filepath.Join(dir, base+".warc."+string(format)+".gz"), p, format); err != nil {
				return err
			}
		}
		return nil
	})
}

func (e Export) derived(ctx context.Context, path string, p warc.Part, format derive.Format) error {
	in, length, err := p.Open()
	if err != nil {
		return err
	}
	defer in.Close() // was read only
	file, err := durable.Create(durable.OS, path)
	if err != nil {
		return err
	}
	defer file.Abort()
	out := bufio.NewWriterSize(file, 64<<10)
	w := derive.NewWriter(out, 0, derive.Options{Format: format, Software: software, Progress: e.Progress})
	if err := w.File(ctx, bufio.NewReaderSize(io.NewSectionReader(in, 0, length), 64<<10), strings.TrimSuffix(p.Path, ".open")); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return file.Commit()
}

// Parquet writes the rows of all rounds that count as Parquet files, one for each kind of rows that there is, into
// the new folder to: outcomes, links, refused, modules.
func (e Export) Parquet(ctx context.Context, to string) error {
	folder, err := crawl.Open(e.Dir, crawl.Options{})
	if err != nil {
		return noCrawl(e.Dir, err)
	}
	st, err := folder.State()
	if err != nil {
		return err
	}
	files := func(name string) ([]string, error) {
		list, err := folder.RoundFiles(name)
		return slices.DeleteFunc(list, func(path string) bool { // of an open round they are not whole
			return slices.Contains(st.Rounds, filepath.Base(filepath.Dir(path)))
		}), err
	}
	outcomes, err := files("marked")
	if err == nil && len(outcomes) == 0 {
		outcomes, err = files("fetched") // of a walk
	}
	if err == nil && len(outcomes) == 0 {
		err = e.empty()
	}
	if err != nil {
		return err
	}
	return newFolder(to, func(dir string) error {
		if err := parquetFile[record.Fetch](ctx, e, filepath.Join(dir, "outcomes.parquet"), outcomes); err != nil {
			return err
		}
		for _, name := range []string{"links", "refused", "modules"} {
			list, err := files(name)
			if err != nil {
				return err
			}
			path := filepath.Join(dir, name+".parquet")
			if name == "modules" {
				err = parquetFile[record.Module](ctx, e, path, list)
			} else {
				err = parquetFile[record.Link](ctx, e, path, list)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// parquetFile writes record files, if there are any, as one Parquet file.
func parquetFile[T record.Row](ctx context.Context, e Export, path string, files []string) error {
	if len(files) == 0 {
		return nil
	}
	file, err := durable.Create(durable.OS, path)
	if err != nil {
		return err
	}
	defer file.Abort()
	out := bufio.NewWriterSize(file, 1<<20)
	if err := parquet.Files[T](ctx, out, files, e.Progress); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return file.Commit()
}

// newFolder makes the folder to, which is not there or empty, with what fill puts into it: all or nothing.
func newFolder(to string, fill func(dir string) error) error {
	to = filepath.Clean(to)
	list, err := os.ReadDir(to)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return &fault.Error{Class: fault.Usage, File: to, Found: "no folder", Want: "a new or an empty folder", Err: err}
	case len(list) > 0:
		return &fault.Error{Class: fault.Usage, File: to, Found: "a folder with " + list[0].Name() + " in it", Want: "a new or an empty folder"}
	}
	part := filepath.Join(filepath.Dir(to), "."+filepath.Base(to)+".part")
	if err := os.RemoveAll(part); err != nil { // of an export that was killed
		return err
	}
	if err := os.MkdirAll(part, 0o777); err != nil {
		return err
	}
	if err = fill(part); err == nil {
		if err = durable.OS.SyncDir(part); err == nil && list != nil {
			err = os.Remove(to) // it is empty
		}
		if err == nil {
			err = os.Rename(part, to)
		}
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(part))
	}
	return durable.OS.SyncDir(filepath.Dir(to))
}
