package tell

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/formats/record/parquet"
	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/release"
	"mercator/pkg/config"
	"mercator/pkg/crawl"
	"mercator/pkg/driver/setup"
	"mercator/pkg/fetch"
	"mercator/pkg/folder/shard"
	"mercator/pkg/frontier"
	"mercator/pkg/view/derive"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/filter"
)

// software names this program in exported files.
const software = "mercator/" + release.Version

// Export writes what the crawl in dir has committed for other programs. The crawl may go on meanwhile.
type Export struct {
	Dir      string        // the crawl folder
	Warn     func(error)   // gets rounds that lost files
	Memory   int64         // bytes for sorting
	Threads  int           // documents that WET and WAT handle at a time; 0: 1
	Progress func(n int64) // gets the number of records; may be nil
	Filter   string        // file of filter rules: a URL that they deny is left out; "": none is
}

// chosen returns which URLs are exported; keep is nil for all. The caller calls done at the end.
func (e Export) chosen(ctx context.Context) (keep func(url string) (bool, error), done func() error, err error) {
	if e.Filter == "" {
		return nil, func() error { return nil }, nil
	}
	form, err := e.form()
	if err != nil {
		return nil, nil, err
	}
	rules, err := filter.Load(e.Filter, filter.Options{Schemes: form.Schemes})
	if err != nil {
		return nil, nil, err
	}
	if rules.DefaultDeny || rules.All {
		e.Warn(fmt.Errorf("note: only a rule that denies leaves out a URL: \"default deny\" and \"match all\" of %s do not", e.Filter))
	}
	judge := rules.NewJudge()
	var verdict [1]filter.Verdict
	keep = func(url string) (bool, error) {
		_, host, _ := canon.Split(url)
		err := judge.URLs(ctx, []filter.Candidate{{URL: url, Host: host, Named: true}}, verdict[:]) // so that only a rule that denies it leaves it out
		return verdict[0].Allow, err
	}
	return keep, func() error { return errors.Join(judge.Close(), rules.Close()) }, nil
}

// form is how the crawl writes URLs.
func (e Export) form() (canon.Options, error) {
	conf, err := config.Load(filepath.Join(e.Dir, config.Name))
	if err != nil {
		return canon.Options{}, err
	}
	return conf.Canon()
}

// archive calls write with the parts of the archive that are exported. An archive without a reply is refused.
func (e Export) archive(ctx context.Context, write func(folder *crawl.Crawl, parts []warc.Part) error) (err error) {
	folder, err := setup.Open(e.Dir, crawl.Options{})
	if err != nil {
		return err
	}
	parts, err := Archived(e.Dir)
	if err == nil && e.Filter != "" {
		var keep func(string) (bool, error)
		var done func() error
		if keep, done, err = e.chosen(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, done()) }()
		var dir string
		if dir, err = os.MkdirTemp("", "mcrawl-export-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		lost := 0
		if parts, lost, err = derive.Select(ctx, parts, dir, keep); lost > 0 {
			e.Warn(fmt.Errorf("note: left out, too: %s of documents that the filter leaves out and nobody can read", Count(uint64(lost), "revisit")))
		}
	}
	if err == nil {
		err = write(folder, parts)
	}
	if errors.Is(err, derive.ErrNoReply) && e.Filter != "" {
		return &fault.Error{Class: fault.Conflict, File: e.Filter, Found: "rules that leave out every reply of the crawl", Want: "some that leave out a section"}
	}
	if errors.Is(err, derive.ErrNoReply) {
		return empty(folder)
	}
	return damaged(e.Dir, err)
}

// Unfinished warns of URLs that wait. Where pages are fetched again and again some always do.
func (e Export) Unfinished(ctx context.Context) {
	f, err := frontier.OpenShards(e.Dir)
	if err != nil {
		return // the export says so
	}
	if st, err := f.Stat(ctx, frontier.StatOptions{}); err == nil && st.Visits == 0 && st.Pending+st.InFlight > 0 {
		e.Warn(fmt.Errorf("note: the crawl is not finished: %s", Count(st.Pending+st.InFlight, "URL")+" waiting"))
	}
}

// WACZ writes the archive as a WACZ file. It says that it was created when the crawl's checkpoint was made: the same crawl gives the same file.
func (e Export) WACZ(ctx context.Context, out io.Writer) error {
	name, err := NameOf(e.Dir)
	if err != nil {
		return err
	}
	return e.archive(ctx, func(folder *crawl.Crawl, parts []warc.Part) error {
		st, err := folder.State()
		if err != nil {
			return err
		}
		var created time.Time
		if st.Checkpoint > 0 {
			k, err := folder.Checkpoint(st.Checkpoint)
			if err != nil {
				return err
			}
			created, _ = time.Parse(time.RFC3339, k.Made) // Checkpoint has seen its shape
		}
		return derive.WACZ(ctx, out, parts, derive.WACZOptions{Title: name, Software: software, Created: created, Memory: e.Memory, Progress: e.Progress})
	})
}

// CDXJ writes the sorted index of the archive.
func (e Export) CDXJ(ctx context.Context, out io.Writer) error {
	return e.archive(ctx, func(_ *crawl.Crawl, parts []warc.Part) error {
		return derive.CDXJ(ctx, out, parts, e.Memory, e.Progress)
	})
}

// Derived writes a WET or WAT file for each WARC file, into the new folder to.
func (e Export) Derived(ctx context.Context, to string, format derive.Format) error {
	conf, err := config.Load(filepath.Join(e.Dir, config.Name))
	if err != nil {
		return err
	}
	options := derive.Options{Format: format, MaxBody: int64(conf.File.Fetch.MaxBody), Threads: e.Threads, Software: software, Progress: e.Progress}
	return e.archive(ctx, func(_ *crawl.Crawl, parts []warc.Part) error {
		return newFolder(to, func(name string) bool { return strings.HasSuffix(name, ".warc."+string(format)+".gz") }, func(dir string) error {
			replies := false
			for _, p := range parts {
				base, _, _ := strings.Cut(filepath.Base(p.Path), ".warc")
				err := durable.WriteOutputBy(filepath.Join(dir, base+".warc."+string(format)+".gz"), func(out io.Writer) error {
					in, length, err := p.Open()
					if err != nil {
						return err
					}
					defer in.Close() // was read only
					w := derive.NewWriter(out, 0, options)
					err = w.File(ctx, bufio.NewReaderSize(io.NewSectionReader(in, 0, length), 64<<10), strings.TrimSuffix(p.Path, ".open"))
					replies = replies || w.Replies()
					return err
				})
				if err != nil {
					return err
				}
			}
			if !replies {
				return derive.ErrNoReply
			}
			return nil
		})
	})
}

// Parquet writes the rows of all rounds that count as Parquet files, one for each kind of rows that there is, into
// the new folder to: outcomes, robots, links, refused, modules.
func (e Export) Parquet(ctx context.Context, to string) (err error) {
	folder, err := setup.Open(e.Dir, crawl.Options{Warn: e.Warn})
	if err != nil {
		return err
	}
	kept, err := folder.Files()
	if err != nil {
		return err
	}
	kept = kept.Closed() // of an open round files are not whole
	outcomes, err := kept.Outcomes()
	var files []string
	if err == nil {
		files, err = kept.Files(outcomes)
	}
	if err == nil && len(files) == 0 {
		err = e.noRows(folder, kept)
	}
	if err != nil {
		return err
	}
	keep, done, err := e.chosen(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	form, err := e.form()
	if err != nil {
		return err
	}
	tables := []struct {
		name, of string
		write    table
	}{
		{"outcomes", outcomes, e.outcomes(derive.OfPages, keep, form)}, {"robots", outcomes, e.outcomes(derive.OfRobots, keep, form)}, {"links", "links", plain(keep, linkURLs)},
		{"refused", "refused", plain(keep, linkURLs)}, {"modules", "modules", plain(keep, func(m *record.Module) []string { return []string{m.URL} })},
	}
	exported := func(name string) bool {
		for _, table := range tables {
			if name == table.name+".parquet" {
				return true
			}
		}
		return false
	}
	return damaged(e.Dir, newFolder(to, exported, func(dir string) error {
		for _, table := range tables {
			files, err := kept.Files(table.of)
			if err != nil {
				return err
			}
			if len(files) == 0 {
				continue
			}
			err = durable.WriteOutputBy(filepath.Join(dir, table.name+".parquet"), func(out io.Writer) error { return table.write(ctx, out, files, e.Progress) })
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// table writes files of rows as a Parquet file.
type table func(ctx context.Context, out io.Writer, files []string, progress func(int64)) error

// outcomes writes some of the outcomes.
func (e Export) outcomes(of derive.Roles, keep func(string) (bool, error), form canon.Options) table {
	return func(ctx context.Context, out io.Writer, files []string, progress func(int64)) error {
		return derive.Outcomes(ctx, out, files, of, keep, target(form), e.Memory, progress)
	}
}

// plain writes a table with the columns of the rows. A row is written if keep accepts all its URLs.
func plain[T record.Row](keep func(string) (bool, error), urls func(*T) []string) table {
	return func(ctx context.Context, out io.Writer, files []string, progress func(int64)) error {
		t := &parquet.Table[T]{}
		if keep != nil {
			t.Only = func(row *T) (bool, error) {
				for _, url := range urls(row) {
					if kept, err := keep(url); !kept || err != nil {
						return false, err
					}
				}
				return true, nil
			}
		}
		return parquet.Files(ctx, out, files, t, progress)
	}
}

func linkURLs(l *record.Link) []string { return []string{l.SrcURL, l.URL} }

// noRows says why no round has outcomes: their files are gone, or nothing was fetched.
func (e Export) noRows(folder *crawl.Crawl, kept *crawl.RoundFiles) error {
	if err := kept.AllThere("marked", "fetched"); err != nil {
		return err
	}
	next, err := folder.NextRound()
	if err != nil || next <= 1 {
		return cmp.Or(err, empty(folder))
	}
	return &fault.Error{Class: fault.Corrupt, File: filepath.Join(e.Dir, "rounds"), Found: fmt.Sprintf("no outcomes of any of %s", Count(next-1, "round")), Want: "the files rN/marked.arrows.zst",
		Hint: "put them back from a copy; the WARC files need none of them: " + fault.Quote("mcrawl", "export", e.Dir, "--wacz")}
}

var rename = os.Rename // a test has it fail

// newFolder makes the folder to with what fill puts into it: all or nothing. It is not there, empty, or has only files of an older
// export, by their names, which are replaced.
func newFolder(to string, exported func(name string) bool, fill func(dir string) error) (err error) {
	to = filepath.Clean(to)
	part := filepath.Join(filepath.Dir(to), "."+filepath.Base(to)+".part")
	old := strings.TrimSuffix(part, "part") + "old"
	if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) { // else the rename fails, or there is nothing to put back
		if err := os.Rename(old, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	list, err := os.ReadDir(to)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fault.Error{Class: fault.Usage, File: to, Found: "no folder", Want: "a new or an empty folder", Err: err}
	}
	for _, file := range list {
		if !file.Type().IsRegular() || !exported(file.Name()) {
			return &fault.Error{Class: fault.Usage, File: to, Found: "a folder with " + file.Name() + " in it", Want: "a new or an empty folder, or an older export"}
		}
	}
	for _, left := range []string{part, old} { // of an export that was killed
		if err := os.RemoveAll(left); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(part, 0o777); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(part)) }()
	if err := fill(part); err != nil {
		return err
	}
	if err := durable.OS.SyncDir(part); err != nil {
		return err
	}
	if err := os.Rename(to, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := rename(part, to); err != nil {
		if back := os.Rename(old, to); !errors.Is(back, fs.ErrNotExist) {
			err = errors.Join(err, back)
		}
		return err
	}
	return errors.Join(os.RemoveAll(old), durable.OS.SyncDir(filepath.Dir(to)))
}

// IndexDir is the folder of a crawl that has the index of its WARC files.
const IndexDir = "index"

// Archived returns the committed parts of the WARC files of the crawl in dir.
func Archived(dir string) ([]warc.Part, error) {
	dirs, err := shard.Dirs(durable.OS, dir)
	if err != nil {
		return nil, err
	}
	for i := range dirs {
		dirs[i] = filepath.Join(dirs[i], fetch.Kind)
		if _, err := store.Open(dirs[i], fetch.Kind, fetch.Version, store.Options{}); err != nil { // says that it is lost
			return nil, err
		}
	}
	return fetch.Saved(dirs, store.Options{})
}

// Replay says how to serve the sealed crawl in dir with pywb, and where it is then.
func Replay(dir string) (string, error) {
	name, err := NameOf(dir)
	return fmt.Sprintf("%s, then http://localhost:8080/%s/", fault.Quote("wayback", "-d", filepath.Join(dir, IndexDir)), derive.Collection(name)), err
}

// NameOf returns the name of a crawl, which is its folder's name.
func NameOf(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	return filepath.Base(abs), err
}
