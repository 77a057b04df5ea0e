// Package search keeps a full-text index of the pages of a crawl, an SQLite file with an FTS5 table.
//
//	page   a URL that ever had a document, where the archive has it, and the number of its document in the index
//	doc    a document, by its content fingerprint: URLs with the same content share it; its title, and its text as a zstd frame
//	text   the words of each document and where they stand: the FTS5 table, which reads the words of titles and texts through view shown, as join gives them
//	file   the record files that were read, in their order
//
// # Invariants
//
//   - Everything is derived: the same record files give the same rows, in one update or in many, killed or not.
//   - Each record file is one transaction. Queries see whole files, also while an update runs.
//   - If the files that were read are not the first ones of the crawl any more, as after mckpt restore, the index is made anew.
//   - A page leaves the index when its URL is gone, redirects, is refused, or has failed for the last time,
//     or when it asks not to be indexed (noindex, by meta element or X-Robots-Tag); its document leaves with its last URL.
//   - Titles and text hold no control characters, nor those that change the direction of what follows.
//   - A file with other tables, views or triggers is refused: it may come from somebody else.
//   - Memory is bounded: SQLite's cache, and two windows of documents, of each at most MaxText bytes of text.
//
// An Index serves one goroutine. Several processes may use the file.
package search

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"mercator/pkg/base/fault"
)

// Version is the version of the tables.
const Version = 4

// application marks our databases (SQLite's application_id): "MFTX".
const application = 0x4d465458

const drop = `DROP TABLE text; DROP VIEW shown; DROP TABLE page; DROP TABLE doc; DROP TABLE file;`

// What the bytes of a URL's document are is in the fetch store "store" of the crawl, by the columns of its fetch record.
const tables = `
CREATE TABLE file(n INTEGER PRIMARY KEY, path TEXT NOT NULL, bytes INTEGER NOT NULL, end TEXT NOT NULL);
CREATE TABLE doc(id INTEGER PRIMARY KEY, fp INTEGER NOT NULL UNIQUE, title TEXT NOT NULL, packed BLOB NOT NULL);
CREATE TABLE page(url TEXT PRIMARY KEY, host TEXT NOT NULL, doc INTEGER, gone INTEGER NOT NULL, fp INTEGER NOT NULL, fetched INTEGER NOT NULL,
	store TEXT NOT NULL, warc TEXT NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL, body INTEGER NOT NULL, mime TEXT NOT NULL, charset TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX page_doc ON page(doc) WHERE doc IS NOT NULL;
CREATE VIEW shown AS SELECT id, msearch_words(title) AS title, msearch_words(msearch_unpack(packed)) AS body FROM doc;
CREATE VIRTUAL TABLE text USING fts5(title, body, content = 'shown', content_rowid = 'id', tokenize = 'ascii');
INSERT INTO text(text, rank) VALUES('rank', 'bm25(4.0, 1.0)');
`

// Index is an open index.
type Index struct {
	path string
	db   *sql.DB
	conn *sql.Conn // the only one: settings, statements and transactions are of a connection
}

// Open opens the index of a crawl. create makes it if there is none; else that is fault.Usage. A file of another version is fault.Version,
// another file fault.WrongKind. What others lock is waited for.
func Open(ctx context.Context, path string, create bool, wait time.Duration) (*Index, error) {
	mode := "rw" // also for queries: what a killed process left is settled first
	if create {
		mode = "rwc"
	} else if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, none(path)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	name := url.URL{Scheme: "file", OmitHost: true, Path: abs, RawQuery: fmt.Sprintf("mode=%s&_pragma=busy_timeout(%d)&_pragma=cache_size(-8000)&_pragma=trusted_schema(off)&_pragma=cell_size_check(on)&_defensive=1", mode, wait.Milliseconds())}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, err
	}
	x := &Index{path: path, db: db}
	if x.conn, err = db.Conn(ctx); err == nil {
		if _, err = sqlite.Limit(x.conn, sqlite3.SQLITE_LIMIT_LENGTH, maxValue); err == nil {
			err = x.prepare(ctx, create)
		}
	}
	if err != nil {
		x.Close()
		return nil, x.named(ctx, err)
	}
	return x, nil
}

// none says that there is no index.
func none(path string) error {
	return &fault.Error{Class: fault.Usage, File: path, Found: "no index yet", Want: "a full-text index of the crawl", Hint: fault.Quote("msearch", "update", filepath.Dir(path))}
}

// Close closes the index.
func (x *Index) Close() error {
	var err error
	if x.conn != nil {
		err = x.conn.Close()
	}
	return errors.Join(err, x.db.Close())
}

// prepare checks what file it is, and makes the tables of a new one.
func (x *Index) prepare(ctx context.Context, create bool) error {
	fresh, err := x.fresh(ctx)
	switch {
	case err != nil:
		return err
	case create:
		err = x.make(ctx)
	case fresh:
		err = none(x.path)
	}
	if err == nil { // all views are ours: shown may call msearch_unpack
		err = x.exec(ctx, `PRAGMA trusted_schema = on`)
	}
	return err
}

func (x *Index) make(ctx context.Context) error {
	// While an update runs, queries read what was there before.
	if err := x.exec(ctx, `PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL`); err != nil {
		return err
	}
	return x.change(ctx, func() error {
		fresh, err := x.fresh(ctx)
		if fresh && err == nil {
			err = x.exec(ctx, tables+fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d;", application, Version))
		}
		return err
	})
}

// maxValue bounds what SQLite reads as one value or row, in bytes, and what a text unpacks to: the file may be another's. A title and a text have at most twice maxWords.
const maxValue = 4 << 20

// schemaOf lists what a database is made of.
func schemaOf(ctx context.Context, conn *sql.Conn) (lines []string, err error) {
	rows, err := conn.QueryContext(ctx, `SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema ORDER BY name, type LIMIT 100`)
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		var typ, name, table, text string
		if err := rows.Scan(&typ, &name, &table, &text); err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		lines = append(lines, typ+" "+name+" "+table+" "+text)
	}
	return lines, errors.Join(rows.Err(), rows.Close())
}

// ownSchema returns the schema of a new index.
var ownSchema = sync.OnceValues(func() ([]string, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	conn, err := db.Conn(context.Background())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(context.Background(), tables); err != nil {
		return nil, err
	}
	return schemaOf(context.Background(), conn)
})

// ours refuses a database that has other tables, or views and triggers beside: a query would run what these say.
func (x *Index) ours(ctx context.Context) error {
	want, err := ownSchema()
	if err != nil {
		return err
	}
	have, err := schemaOf(ctx, x.conn)
	if err == nil && !slices.Equal(have, want) {
		err = &fault.Error{Class: fault.WrongKind, File: x.path, Found: "other tables than those of an index", Want: "an index that msearch made", Hint: x.anew()}
	}
	return err
}

// fresh reports whether a database has nothing in it yet. It is an error if that is not ours.
func (x *Index) fresh(ctx context.Context) (bool, error) {
	var id, version, schema int
	for _, p := range []struct {
		name string
		v    *int
	}{{"application_id", &id}, {"user_version", &version}, {"schema_version", &schema}} {
		if err := x.conn.QueryRowContext(ctx, "PRAGMA "+p.name).Scan(p.v); err != nil {
			return false, err
		}
	}
	switch {
	case id == application && version == Version:
		return false, x.ours(ctx)
	case id == application:
		return false, &fault.Error{Class: fault.Version, File: x.path, Found: fmt.Sprintf("an index of version %d", version), Want: fmt.Sprintf("version %d", Version), Hint: x.anew()}
	case id == 0 && version == 0 && schema == 0:
		return true, nil
	}
	return false, &fault.Error{Class: fault.WrongKind, File: x.path, Found: "another database", Want: "an index that msearch made", Hint: "move it away, then: " + fault.Quote("msearch", "update", filepath.Dir(x.path))}
}

// anew is the line that makes the index again.
func (x *Index) anew() string {
	return "make it again: rm " + fault.Quote(x.path) + "* && " + fault.Quote("msearch", "update", filepath.Dir(x.path))
}

func (x *Index) exec(ctx context.Context, query string, args ...any) error {
	_, err := x.conn.ExecContext(ctx, query, args...)
	return err
}

// change runs do in a transaction that alone may write.
func (x *Index) change(ctx context.Context, do func() error) error {
	if err := x.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := do()
	if err == nil {
		err = x.exec(ctx, "COMMIT")
	}
	if err != nil {
		_ = x.exec(context.WithoutCancel(ctx), "ROLLBACK") // else SQLite does so when the file is opened again
	}
	return err
}

// named makes faults of SQLite's errors.
func (x *Index) named(ctx context.Context, err error) error {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	code := e.Code() & 0xff
	if code == sqlite3.SQLITE_ERROR && (strings.Contains(e.Error(), "unsupported file format") || strings.Contains(e.Error(), unpackFailed)) { // in the header; a text
		code = sqlite3.SQLITE_CORRUPT
	}
	switch code {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR:
		return &fault.Error{File: x.path, Found: strings.TrimSpace(e.Error()), Hint: "make room on that disk, and run the same command again: df -h shows the disks", Err: err}
	case sqlite3.SQLITE_TOOBIG:
		return &fault.Error{Class: fault.Corrupt, File: x.path, Found: fmt.Sprintf("a row of more than %d bytes", maxValue), Want: "one that msearch made", Hint: x.anew(), Err: err}
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return &fault.Error{Class: fault.Busy, File: x.path, Found: "in use by another process", Want: "it free", Hint: "run the same command again", Err: err}
	case sqlite3.SQLITE_NOTADB:
		return &fault.Error{Class: fault.WrongKind, File: x.path, Found: "no SQLite database", Want: "an index that msearch made", Hint: x.anew(), Err: err}
	case sqlite3.SQLITE_CORRUPT:
		return &fault.Error{Class: fault.Corrupt, File: x.path, Found: "a damaged index: " + e.Error(), Hint: x.anew(), Err: err}
	}
	return &fault.Error{File: x.path, Found: strings.TrimSpace(e.Error()), Err: err}
}
