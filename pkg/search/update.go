package search

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"unicode"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"
	"modernc.org/sqlite"

	"mercator/formats/record"
	"mercator/pkg/extract"
	"mercator/pkg/frontier"
	"mercator/pkg/view/history"
	"mercator/pkg/web/process"
)

// MaxText bounds the text of a document that is put in, in bytes.
const MaxText = 512 << 10

// A window is a run of rows; their documents are read at the same time.
const (
	windowRows  = 16
	windowBytes = 8 << 20 // of bodies
)

// File is a record file of a round.
type File struct {
	Path    string
	Dropped bool // URLs that waited and were refused; else fetch records
}

// store returns the path in the crawl of the fetch store that has the documents of the file's rows. The file is in rounds/ROUND of the same crawl or shard.
func (f File) store(crawl string) (string, error) {
	rel, err := filepath.Rel(crawl, filepath.Join(filepath.Dir(f.Path), "..", "..", "fetch"))
	return filepath.ToSlash(rel), err
}

// Settings of an update.
type Settings struct {
	Retries  frontier.Retries // when a failure is final; the zero value: frontier.DefaultRetries
	Agent    string           // product name, for directives that are for it; "": process.DefaultAgent
	MaxBody  int64            // bytes of a document that are read; 0: extract.DefaultMaxBody
	Threads  int              // threads that read documents; 0: 1
	Progress func(rows int64) // may be nil
}

// Report is the result of an update. For an empty index all URLs are new, each counted once, however often it was fetched.
type Report struct {
	Anew    bool  `json:"anew"`    // the index was made again: indexed pages are no longer part of the crawl
	Files   int   `json:"files"`   // record files read
	New     int64 `json:"new"`     // URLs with a document that had none
	Changed int64 `json:"changed"` // URLs with another document
	Same    int64 `json:"same"`    // URLs that were fetched again, and are as before
	Gone    int64 `json:"gone"`    // URLs that left the index
}

// Update brings the index up to date with the record files of a crawl's closed rounds, in their order. Damage of files and of the archive is
// an error, and what was read before stays. Two updates at a time share the work.
func (x *Index) Update(ctx context.Context, files []File, s Settings) (r Report, err error) {
	defer func() { err = x.named(ctx, err) }()
	if s.Retries.MaxAttempts == 0 {
		s.Retries = frontier.DefaultRetries
	}
	stamps, err := x.stamps(files)
	if err != nil {
		return r, err
	}
	u := &update{Index: x, Settings: s, crawl: filepath.Dir(x.path), report: &r}
	if err := u.prepare(ctx); err != nil {
		return r, err
	}
	defer u.close()
	empty := false
	for {
		more := false
		err := x.change(ctx, func() error {
			next, anew, err := u.behind(ctx, stamps)
			if anew && err == nil {
				r.Anew = true
				err = x.exec(ctx, drop+tables)
			}
			empty = empty || next == 0
			if next == len(files) || err != nil {
				return err
			}
			more = true
			if err := u.file(ctx, files[next]); err != nil {
				return err
			}
			r.Files++
			at := stamps[next]
			return x.exec(ctx, `INSERT INTO file VALUES (?, ?, ?, ?)`, next+1, at.Path, at.Bytes, at.End)
		})
		if err != nil {
			return r, err
		}
		if !more {
			break
		}
	}
	if empty {
		r = Report{Anew: r.Anew, Files: r.Files}
		if err := x.conn.QueryRowContext(ctx, `SELECT count(*) FROM page WHERE NOT gone`).Scan(&r.New); err != nil {
			return r, err
		}
	}
	// The index is one file again, without free pages, and people without a right to write can read it. Where others read it at the moment, the next update does this.
	if _, err := x.conn.ExecContext(ctx, `PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE); PRAGMA busy_timeout = 0; PRAGMA journal_mode = DELETE;`); ctx.Err() != nil {
		return r, err
	}
	return r, nil
}

// Behind is how many of the files are not in the index yet. anew: the next update makes it anew, since the files that were read are no longer the first of these.
func (x *Index) Behind(ctx context.Context, files []File) (n int, anew bool, err error) {
	stamps, err := x.stamps(files)
	if err != nil {
		return 0, false, err
	}
	next, anew, err := (&update{Index: x}).behind(ctx, stamps)
	return len(files) - next, anew, x.named(ctx, err)
}

func (x *Index) stamps(files []File) (stamps []history.Stamp, err error) {
	for _, f := range files {
		stamp, err := history.StampOf(f.Path, filepath.Dir(x.path))
		if err != nil {
			return nil, err
		}
		stamps = append(stamps, stamp)
	}
	return stamps, nil
}

// update is an update at work.
type update struct {
	*Index
	Settings
	crawl     string
	report    *Report
	last      int // files that were read when behind last looked
	documents []reader

	page, known, same, leave, put, left, find, addDoc, addText, dropText, dropDoc *sql.Stmt
}

// behind is the number of the next file. After the first look, only the last file is compared.
func (u *update) behind(ctx context.Context, stamps []history.Stamp) (next int, anew bool, err error) {
	rows, err := u.conn.QueryContext(ctx, `SELECT n, path, bytes, end FROM file WHERE n >= ? ORDER BY n`, u.last)
	if err != nil {
		return 0, false, err
	}
	for rows.Next() && !anew && err == nil {
		var at history.Stamp
		err = rows.Scan(&next, &at.Path, &at.Bytes, &at.End)
		anew = next > len(stamps) || stamps[next-1] != at
	}
	if err = errors.Join(err, rows.Err(), rows.Close()); err != nil || anew {
		u.last = 0
		return 0, anew, err
	}
	if next == 0 && u.last > 0 { // another update has made it anew meanwhile
		u.last = 0
		return u.behind(ctx, stamps)
	}
	u.last = next
	return next, false, nil
}

func (u *update) prepare(ctx context.Context) error {
	for range max(u.Threads, 1) + 1 { // the last is for what is read while rows are written
		u.documents = append(u.documents, reader{crawl: u.crawl, agent: u.Agent, maxBody: u.MaxBody, of: map[string]*extract.Documents{}})
	}
	for _, s := range []struct {
		to    **sql.Stmt
		query string
	}{
		{&u.page, `SELECT doc, gone, fp FROM page WHERE url = ?`},
		{&u.known, `SELECT host, fp, fetched, store, warc, offset, length, body, mime, charset FROM page WHERE url = ?`},
		{&u.same, `UPDATE page SET fetched = max(fetched, ?2) WHERE url = ?1`},
		{&u.leave, `UPDATE page SET doc = NULL, gone = 1 WHERE url = ?`},
		{&u.put, `INSERT OR REPLACE INTO page VALUES (?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&u.left, `SELECT EXISTS (SELECT 1 FROM page WHERE doc = ?)`},
		{&u.find, `SELECT id FROM doc WHERE fp = ?`},
		{&u.addDoc, `INSERT INTO doc(fp, title, packed) VALUES (?, ?, ?)`},
		{&u.addText, `INSERT INTO text(rowid, title, body) VALUES (?, ?, ?)`},
		{&u.dropText, `DELETE FROM text WHERE rowid = ?`},
		{&u.dropDoc, `DELETE FROM doc WHERE id = ?`},
	} {
		var err error
		if *s.to, err = u.conn.PrepareContext(ctx, s.query); err != nil {
			return err
		}
	}
	return nil
}

func (u *update) close() {
	for _, d := range u.documents {
		d.close()
	}
	for _, s := range []*sql.Stmt{u.page, u.known, u.same, u.leave, u.put, u.left, u.find, u.addDoc, u.addText, u.dropText, u.dropDoc} {
		s.Close()
	}
}

// job is a row of a fetch record file, with the text of its document if it has one that may be new. noindex in a header has to be looked for in each reply: the
// content may be as before, or the same as at another URL.
type job struct {
	row     record.Fetch
	text    *text // nil: not read
	looked  bool  // at the header, for noindex
	noindex bool  // the page asks to be left out
}

// file applies a record file.
func (u *update) file(ctx context.Context, f File) error {
	store, err := f.store(u.crawl)
	if err != nil {
		return err
	}
	if f.Dropped {
		ctx := context.WithoutCancel(ctx)
		return history.Read(f.Path, func(r *record.URL) error { return u.gone(ctx, r.URL) })
	}
	windows := make(chan []job)
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error {
		defer close(windows)
		return u.read(ctx, f, store, windows)
	})
	work.Go(func() error {
		whole := context.WithoutCancel(ctx) // to watch ctx costs the driver a goroutine a statement
		for window := range windows {
			for i := range window {
				if err := u.apply(whole, store, &window[i]); err != nil {
					return err
				}
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if u.Progress != nil {
				u.Progress(int64(len(window)))
			}
		}
		return nil
	})
	return work.Wait()
}

// read reads rows, and the documents of each window at the same time.
func (u *update) read(ctx context.Context, f File, store string, out chan<- []job) error {
	var window []job
	bytes := int64(0)
	send := func() error {
		var next atomic.Int64
		var threads errgroup.Group
		for _, d := range u.documents[1:] {
			threads.Go(func() error {
				for {
					i := int(next.Add(1)) - 1
					if i >= len(window) {
						return nil
					}
					j := &window[i]
					var err error
					switch {
					case j.row.Outcome == record.OutcomeNotModified:
						err = d.readHeader(store, j)
					case !has(&j.row):
					case !j.row.Duplicate && j.row.ContentFP != j.row.LastContentFP:
						err = d.read(store, j)
					default:
						err = d.readHeader(store, j)
					}
					if err != nil {
						return err
					}
				}
			})
		}
		if err := threads.Wait(); err != nil {
			return err
		}
		select {
		case out <- window:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		window, bytes = nil, 0
		return nil
	}
	err := history.Read(f.Path, func(r *record.Fetch) error {
		if !r.OfPage() {
			return nil
		}
		window = append(window, job{row: *r})
		if bytes += r.BodyLength; len(window) < windowRows && bytes < windowBytes {
			return nil
		}
		return send()
	})
	if err == nil && len(window) > 0 {
		err = send()
	}
	return err
}

// has reports whether a row has a document.
func has(r *record.Fetch) bool {
	return r.Outcome == record.OutcomeFetched && r.Status/100 == 2 && r.ContentFP != 0
}

// apply applies what became of a URL.
func (u *update) apply(ctx context.Context, store string, j *job) error {
	r := &j.row
	switch r.Outcome {
	case record.OutcomeDeferred, record.OutcomeParked:
		return nil // nobody asked
	case record.OutcomeNotModified:
		if err := u.documents[0].readHeader(store, j); err != nil {
			return err
		}
		if j.noindex {
			return u.gone(ctx, r.URL)
		}
		return u.again(ctx, r)
	case record.OutcomeAddress, record.OutcomeDenied, record.OutcomeScheme:
		return u.gone(ctx, r.URL) // settings refuse it
	case record.OutcomeFetched:
		if r.Status/100 == 2 {
			if r.ContentFP == 0 {
				return u.gone(ctx, r.URL)
			}
			return u.addDocument(ctx, store, j)
		}
	}
	if !u.Retries.Final(r) {
		return nil
	}
	return u.gone(ctx, r.URL)
}

// addDocument puts the document of a URL in.
func (u *update) addDocument(ctx context.Context, store string, j *job) error {
	r := &j.row
	var old sql.NullInt64
	var gone bool
	var fp int64
	err := u.page.QueryRowContext(ctx, r.URL).Scan(&old, &gone, &fp)
	known := err == nil && !gone
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if err := u.documents[0].readHeader(store, j); err != nil {
		return err
	}
	if known && !j.noindex && fp == int64(r.ContentFP) {
		u.report.Same++
		_, err := u.same.ExecContext(ctx, r.URL, int64(r.FetchTime))
		return err
	}
	doc, err := u.document(ctx, store, j)
	if err != nil {
		return err
	}
	_, err = u.put.ExecContext(ctx, r.URL, r.Host, doc, int64(r.ContentFP), int64(r.FetchTime), store, r.WARCFilename, r.WARCOffset, r.WARCLength, r.BodyLength, r.MIME, r.Charset)
	if err != nil {
		return err
	}
	switch {
	case j.noindex: // what it has now is remembered, as of a page that is gone
		if known {
			u.report.Gone++
		}
		_, err = u.leave.ExecContext(ctx, r.URL)
	case known:
		u.report.Changed++
	default:
		u.report.New++
	}
	return errors.Join(err, u.release(ctx, old))
}

// document is the number of a page's document, which is put in if it is new; null if the document has no text, or the page asks to be left out.
func (u *update) document(ctx context.Context, store string, j *job) (doc sql.NullInt64, err error) {
	if j.noindex {
		return doc, nil
	}
	r := &j.row
	switch err := u.find.QueryRowContext(ctx, int64(r.ContentFP)).Scan(&doc); {
	case err == nil || !errors.Is(err, sql.ErrNoRows):
		return doc, err
	case j.text == nil:
		if err := u.documents[0].read(store, j); err != nil {
			return doc, err
		}
	}
	if j.noindex || j.text.empty() {
		return doc, nil
	}
	made, err := u.addDoc.ExecContext(ctx, int64(r.ContentFP), j.text.title, j.text.packed)
	if err != nil {
		return doc, err
	}
	id, err := made.LastInsertId()
	if err != nil {
		return doc, err
	}
	_, err = u.addText.ExecContext(ctx, id, j.text.words[0], j.text.words[1])
	return sql.NullInt64{Int64: id, Valid: true}, err
}

// again handles a URL that has not changed by its server's reply: if it has left the index, it comes back.
func (u *update) again(ctx context.Context, now *record.Fetch) error {
	var old sql.NullInt64
	var gone bool
	var fp int64
	switch err := u.page.QueryRowContext(ctx, now.URL).Scan(&old, &gone, &fp); {
	case errors.Is(err, sql.ErrNoRows):
		return nil // before it was ever fetched
	case err != nil:
		return err
	case !gone:
		u.report.Same++
		_, err := u.same.ExecContext(ctx, now.URL, int64(now.FetchTime))
		return err
	}
	r := record.Fetch{URL: now.URL, Role: record.RolePage, Outcome: record.OutcomeFetched, Status: 200}
	var fetched int64
	var store string
	err := u.known.QueryRowContext(ctx, now.URL).Scan(&r.Host, &fp, &fetched, &store, &r.WARCFilename, &r.WARCOffset, &r.WARCLength, &r.BodyLength, &r.MIME, &r.Charset)
	if err != nil {
		return err
	}
	r.ContentFP, r.FetchTime = uint64(fp), now.FetchTime
	return u.addDocument(ctx, store, &job{row: r})
}

// gone takes a URL out. What it had is remembered: it may come back unchanged.
func (u *update) gone(ctx context.Context, url string) error {
	var old sql.NullInt64
	var gone bool
	var fp int64
	err := u.page.QueryRowContext(ctx, url).Scan(&old, &gone, &fp)
	if errors.Is(err, sql.ErrNoRows) || gone {
		return nil
	}
	if err != nil {
		return err
	}
	u.report.Gone++
	if _, err := u.leave.ExecContext(ctx, url); err != nil {
		return err
	}
	return u.release(ctx, old)
}

// release takes a document out if no URL has it.
func (u *update) release(ctx context.Context, doc sql.NullInt64) error {
	if !doc.Valid {
		return nil
	}
	var left bool
	if err := u.left.QueryRowContext(ctx, doc).Scan(&left); err != nil || left {
		return err
	}
	if _, err := u.dropText.ExecContext(ctx, doc); err != nil {
		return err
	}
	_, err := u.dropDoc.ExecContext(ctx, doc)
	return err
}

// text is the indexed text of a document.
type text struct {
	title  string
	words  [2]string // of the title and of the body
	packed []byte    // the body
}

// The options are constants: there is no error.
var (
	packer, _   = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(4), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(MaxText), zstd.WithSingleSegment(true))
	unpacker, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxValue))
)

const unpackFailed = "the text of a document"

func init() {
	sqlite.MustRegisterDeterministicScalarFunction("msearch_unpack", 1, func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
		packed, _ := args[0].([]byte)
		body, err := unpacker.DecodeAll(packed, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", unpackFailed, err)
		}
		return string(body), nil
	})
	sqlite.MustRegisterDeterministicScalarFunction("msearch_words", 1, func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
		text, _ := args[0].(string)
		return join(text), nil
	})
}

func (t *text) empty() bool { return t.words[0] == "" && t.words[1] == "" }

// reader reads documents. One goroutine.
type reader struct {
	crawl string
	agent string                        // Settings.Agent
	of    map[string]*extract.Documents // by fetch store

	maxBody int64 // Settings.MaxBody
}

func (d reader) close() {
	for _, of := range d.of {
		of.Close()
	}
}

func (d reader) documents(store string) *extract.Documents {
	from := d.of[store]
	if from == nil {
		from = extract.NewDocuments(filepath.Join(d.crawl, filepath.FromSlash(store)), d.maxBody)
		d.of[store] = from
	}
	return from
}

// readHeader reads the header of a job's reply, if nobody has.
func (d reader) readHeader(store string, j *job) error {
	if j.looked {
		return nil
	}
	h, err := d.documents(store).Header(&j.row)
	var asks process.Directives
	asks.AddHeader(h, d.agent)
	j.looked, j.noindex = true, asks.NoIndex
	return err
}

// read reads the text of a job's document; it is empty where none can be found.
func (d reader) read(store string, j *job) error {
	j.text = new(text)
	doc, err := d.documents(store).Read(&j.row)
	if doc == nil || err != nil {
		return err
	}
	doc.Agent = d.agent
	title, asks := process.Head(doc)
	if j.looked, j.noindex = true, asks.NoIndex; j.noindex {
		return nil
	}
	body, err := process.Content(doc, MaxText)
	if err != nil {
		return nil // nobody can read it
	}
	title, body = clean(title), clean(body)
	if rest, ok := strings.CutPrefix(body, title); ok {
		body = strings.TrimPrefix(rest, "\n") // of HTML the title comes first
	}
	j.text = &text{title, [2]string{join(title), join(body)}, packer.EncodeAll([]byte(body), nil)}
	return nil
}

// clean replaces control characters, and those that change the direction of text.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && unicode.IsControl(r) || r >= turns[0] && slices.Contains(turns, r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// turns are the line and paragraph separators, and the directional embeddings, overrides and isolates of Unicode (UAX 9).
var turns = []rune("\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
