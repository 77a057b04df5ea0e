// Package urldb is the URLs database of a focused crawler: the "collection of URLs which find by our web Crawler and
// Distiller" (Singh and Tyagi), an SQLite file with a row for each URL that the crawl met.
//
// The table urls has these columns:
//
//	key        INTEGER  checksum of the URL (url_key, as a signed number)
//	url        TEXT     canonical
//	sense      TEXT     topic that the classifier gave the document; "" if none
//	relevance  REAL     0 to 1; of a document
//	hub        REAL     score of package distill
//	authority  REAL     score of package distill
//	found_on   TEXT     URL with the link that the crawl found it by; "" for a seed
//	depth      INTEGER  links from a seed
//	status     TEXT     waiting, failed (fetched without a document), redirect (3xx) or fetched
//
// # Invariants
//
//   - The file is derived: it is made from the folder of package distill, and replaced whole by a rename.
//   - The header holds an application number and a version; another file is refused.
//   - Memory is SQLite's cache, some 16 MB, whatever the number of URLs.
package urldb

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/url"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver

	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/focus/distill"
)

// Numbers in the file's header.
const (
	application = 0x4d465552 // "MFUR"
	Version     = 1
)

// Row is a URL of the database.
type Row struct {
	URL       string  `json:"url"`
	Sense     string  `json:"sense,omitempty"`
	Relevance float64 `json:"relevance"`
	Hub       float64 `json:"hub"`
	Authority float64 `json:"authority"`
	FoundOn   string  `json:"found_on,omitempty"`
	Depth     int     `json:"depth"`
	Status    string  `json:"status"`
}

// statuses are the texts of distill.Status.
var statuses = [...]string{distill.Found: "waiting", distill.Tried: "failed", distill.Document: "fetched", distill.Redirect: "redirect"}

const schema = `
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -16000;
CREATE TABLE made(stamp TEXT);
CREATE TABLE urls(key INTEGER PRIMARY KEY, url TEXT NOT NULL, sense TEXT NOT NULL, relevance REAL NOT NULL, hub REAL NOT NULL,
	authority REAL NOT NULL, found_on TEXT NOT NULL, depth INTEGER NOT NULL, status TEXT NOT NULL);
BEGIN;`

const indexes = `
COMMIT;
CREATE INDEX urls_url ON urls(url);
CREATE INDEX urls_relevance ON urls(relevance);
CREATE INDEX urls_hub ON urls(hub);
CREATE INDEX urls_authority ON urls(authority);`

// Current reports whether the file was made from what the folder holds. One that is no database of this version is an error.
func Current(path string, from *distill.Folder) (bool, error) {
	db, err := open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer db.Close()
	var have string
	if err := db.QueryRow(`SELECT stamp FROM made`).Scan(&have); err != nil {
		return false, corrupt(path, err)
	}
	want, err := from.Stamp()
	return have == want, err
}

// Make makes the file from a folder of package distill. It appears whole.
func Make(ctx context.Context, path string, from *distill.Folder) (err error) {
	stamp, err := from.Stamp()
	if err != nil {
		return err
	}
	file, err := durable.CreateOutput(path) // SQLite writes to it by its temporary name
	if err != nil {
		return err
	}
	defer file.Abort()
	temp := file.File().Name()
	db, err := sql.Open("sqlite", dsn(temp, "rwc"))
	if err != nil {
		return err
	}
	defer func() {
		if db != nil {
			db.Close()
		}
	}()
	db.SetMaxOpenConns(1) // settings and the transaction are of a connection
	if _, err := db.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d;", application, Version)+schema); err != nil {
		return failed(path, err)
	}
	if _, err := db.ExecContext(ctx, `INSERT INTO made VALUES (?)`, stamp); err != nil {
		return failed(path, err)
	}
	insert, err := db.PrepareContext(ctx, `INSERT INTO urls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`)
	if err != nil {
		return failed(path, err)
	}
	defer insert.Close()
	err = from.Each(ctx, func(p *distill.Page, hub, authority float64) error {
		_, err := insert.ExecContext(ctx, int64(p.URL.Key), p.URL.URL, p.Topic, math.Round(float64(p.Relevance)*1e6)/1e6, hub, authority, p.URL.Via, int(p.URL.Depth), statuses[p.Status])
		return failed(path, err)
	})
	if err != nil {
		return err
	}
	if err := insert.Close(); err != nil {
		return failed(path, err)
	}
	if _, err := db.ExecContext(ctx, indexes); err != nil {
		return failed(path, err)
	}
	err, db = db.Close(), nil
	if err != nil {
		return failed(path, err)
	}
	return file.Commit()
}

// dsn is the name of a file for the driver.
func dsn(path, mode string) string {
	return (&url.URL{Scheme: "file", OmitHost: true, Path: absolute(path), RawQuery: "mode=" + mode + "&_pragma=trusted_schema(off)"}).String()
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

func failed(path string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return &fault.Error{File: path, Found: err.Error(), Err: err}
}

func corrupt(path string, err error) error {
	return &fault.Error{Class: fault.Corrupt, File: path, Found: err.Error(), Want: "a URLs database", Err: err, Hint: "remove the file: it is made again"}
}

// open opens a database for reading.
func open(path string) (*sql.DB, error) {
	in, err := durable.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	head := make([]byte, 100)
	if _, err := in.ReadAt(head, 0); err != nil || !bytes.HasPrefix(head, []byte("SQLite format 3\x00")) || binary.BigEndian.Uint32(head[68:]) != application {
		return nil, &fault.Error{Class: fault.WrongKind, File: path, Place: "header", Found: "no URLs database", Want: "what mfocus urls makes", Hint: "give another name, or remove the file: it is made again"}
	}
	if v := binary.BigEndian.Uint32(head[60:]); v != Version {
		return nil, &fault.Error{Class: fault.Version, File: path, Place: "header", Found: fmt.Sprintf("a URLs database of version %d", v), Want: fmt.Sprint(Version), Hint: "remove the file: it is made again"}
	}
	return sql.Open("sqlite", dsn(path, "ro"))
}

// Query says which rows are wanted, and in which order.
type Query struct {
	Sense  string // "": any
	Status string // "": any
	By     string // relevance, hub, authority (the highest first) or url
	Most   int    // rows; 0: all
}

// Senses lists the senses that documents have, in their order.
func Senses(ctx context.Context, path string) (senses []string, err error) {
	db, err := open(path)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, `SELECT DISTINCT sense FROM urls WHERE sense != '' ORDER BY sense`)
	if err != nil {
		return nil, corrupt(path, err)
	}
	defer rows.Close()
	for rows.Next() {
		var sense string
		if err := rows.Scan(&sense); err != nil {
			return nil, corrupt(path, err)
		}
		senses = append(senses, sense)
	}
	return senses, rows.Err()
}

// Each calls a function for the rows of a query.
func Each(ctx context.Context, path string, q Query, each func(*Row) error) error {
	if _, err := os.Stat(path); err != nil {
		return err
	}
	db, err := open(path)
	if err != nil {
		return err
	}
	defer db.Close()
	order := "url"
	if q.By != "url" {
		order = q.By + " DESC, url"
	}
	most := -1
	if q.Most > 0 {
		most = q.Most
	}
	rows, err := db.QueryContext(ctx, `SELECT url, sense, relevance, hub, authority, found_on, depth, status FROM urls
		WHERE (?1 = '' OR sense = ?1) AND (?2 = '' OR status = ?2) ORDER BY `+order+` LIMIT ?3`, q.Sense, q.Status, most)
	if err != nil {
		return corrupt(path, err)
	}
	defer rows.Close()
	for rows.Next() {
		var r Row
		if err := rows.Scan(&r.URL, &r.Sense, &r.Relevance, &r.Hub, &r.Authority, &r.FoundOn, &r.Depth, &r.Status); err != nil {
			return corrupt(path, err)
		}
		if err := each(&r); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil && ctx.Err() == nil {
		return corrupt(path, err)
	}
	return context.Cause(ctx)
}
