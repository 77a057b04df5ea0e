package words

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"mercator/pkg/base/fault"
)

// Version is the version of the database's tables.
const Version = 1

// application marks our databases (SQLite's application_id): "MFWD".
const application = 0x4d465744

// The tables. The word database is entry, sense and similar: answers of the dictionary. The query words database is
// query, topic and queue: words are taken at the front, the least place, while others are put in at the rear.
const tables = `
CREATE TABLE entry(word TEXT NOT NULL, match TEXT NOT NULL, rank INTEGER NOT NULL, sense TEXT NOT NULL, PRIMARY KEY(word, match, rank)) WITHOUT ROWID;
CREATE TABLE sense(sense TEXT PRIMARY KEY, gloss TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE similar(sense TEXT NOT NULL, n INTEGER NOT NULL, word TEXT NOT NULL, relation TEXT NOT NULL, of TEXT NOT NULL, PRIMARY KEY(sense, n)) WITHOUT ROWID;
CREATE TABLE query(query TEXT PRIMARY KEY, match TEXT NOT NULL, depth INTEGER NOT NULL, words INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE topic(query TEXT NOT NULL, rank INTEGER NOT NULL, topic TEXT NOT NULL, words INTEGER NOT NULL, PRIMARY KEY(query, topic)) WITHOUT ROWID;
CREATE TABLE queue(place INTEGER PRIMARY KEY AUTOINCREMENT, query TEXT NOT NULL, topic TEXT NOT NULL, word TEXT NOT NULL, sense TEXT NOT NULL,
  relation TEXT NOT NULL, depth INTEGER NOT NULL, weight REAL NOT NULL, state TEXT NOT NULL, redundant INTEGER NOT NULL DEFAULT 0,
  UNIQUE(query, topic, word, sense));
CREATE INDEX front ON queue(place) WHERE state = 'waiting';
`

// States of a word in the queue.
const (
	waiting = "waiting"
	done    = "done"
	held    = "held"    // beyond the depth or the number of words that the query may have
	unknown = "unknown" // no dictionary had it
)

// DB is the query words database and the word database, in one SQLite file. Processes may use it at the same time.
// Each change is a transaction: a process that is killed leaves all of it or nothing. A DB serves one goroutine.
type DB struct {
	path string
	db   *sql.DB
}

// OpenDB opens a database; create makes one if there is none. A busy database is waited for. A file of another version is
// fault.Version, another file fault.WrongKind.
func OpenDB(ctx context.Context, path string, create bool, wait time.Duration) (*DB, error) {
	mode := "rw" // also to read: what a killed process left is undone first
	if create {
		mode = "rwc"
	} else if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, &fault.Error{Class: fault.Usage, File: path, Found: "no such file", Want: "a words database", Hint: "make it: " + fault.Quote("mfocus", "expand", path, "mouse"), Err: err}
	}
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return nil, &fault.Error{Class: fault.Usage, File: path, Found: "a folder", Want: "the name of a database", Hint: "make one there: " + fault.Quote("mfocus", "expand", filepath.Join(path, "words.db"), "mouse")}
	}
	file := filepath.Clean(path)
	if !filepath.IsAbs(file) {
		file = "./" + file // ":memory:" is a name like others
	}
	name := fmt.Sprintf("file:%s?mode=%s&_txlock=immediate&_pragma=busy_timeout(%d)&_pragma=synchronous(full)&_pragma=cache_size(-8192)&_pragma=trusted_schema(off)",
		strings.ReplaceAll(url.PathEscape(file), "%2F", "/"), mode, wait.Milliseconds())
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	d := &DB{path, db}
	if err := d.prepare(ctx, create); err != nil {
		db.Close()
		return nil, err
	}
	return d, nil
}

// prepare checks what file it is, and makes the tables of a new one.
func (d *DB) prepare(ctx context.Context, create bool) error {
	if !create {
		_, err := d.check(ctx, d.db)
		return d.named(err)
	}
	return d.change(ctx, func(tx *sql.Tx) error {
		fresh, err := d.check(ctx, tx)
		if fresh {
			_, err = tx.ExecContext(ctx, tables+fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d;", application, Version))
		}
		return err
	})
}

// check reports whether a database has nothing in it yet: err is set then too.
func (d *DB) check(ctx context.Context, db interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}) (fresh bool, err error) {
	var id, version, schema int
	for _, p := range []struct {
		name string
		v    *int
	}{{"application_id", &id}, {"user_version", &version}, {"schema_version", &schema}} {
		if err := db.QueryRowContext(ctx, "PRAGMA "+p.name).Scan(p.v); err != nil {
			return false, err
		}
	}
	switch {
	case id == application && version == Version:
		return false, nil
	case id == application:
		return false, &fault.Error{Class: fault.Version, File: d.path, Found: fmt.Sprintf("a words database of version %d", version), Want: fmt.Sprintf("version %d", Version),
			Hint: "make a new one of the same queries, such as: mfocus expand new.db mouse"}
	}
	return id == 0 && version == 0 && schema == 0, &fault.Error{Class: fault.WrongKind, File: d.path, Found: "another database", Want: "a words database", Hint: "name a new file: mfocus expand words.db mouse"}
}

// Close closes the database.
func (d *DB) Close() error { return d.db.Close() }

// change runs do in a transaction that has the database for itself.
func (d *DB) change(ctx context.Context, do func(tx *sql.Tx) error) error {
	tx, err := d.db.BeginTx(ctx, nil)
	if err == nil {
		if err = do(tx); err == nil {
			err = tx.Commit()
		}
		if err != nil {
			tx.Rollback()
		}
	}
	return d.named(err)
}

// named makes faults of SQLite's errors.
func (d *DB) named(err error) error {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return &fault.Error{Class: fault.Busy, File: d.path, Found: "in use by another process", Want: "it free", Hint: "run the same command again, or wait longer with --lock-wait", Err: err}
	case sqlite3.SQLITE_CANTOPEN:
		return &fault.Error{Class: fault.Usage, File: d.path, Found: "cannot be opened", Want: "a file in a folder that is there, and that you may write", Hint: fmt.Sprintf("mkdir -p %s", filepath.Dir(d.path)), Err: err}
	case sqlite3.SQLITE_NOTADB:
		return &fault.Error{Class: fault.WrongKind, File: d.path, Found: "no SQLite database", Want: "a words database", Hint: "name a new file: mfocus expand words.db mouse", Err: err}
	case sqlite3.SQLITE_CORRUPT:
		return &fault.Error{Class: fault.Corrupt, File: d.path, Found: "a damaged database: " + e.Error(), Hint: "remove it and run mfocus expand again: all in it comes from queries and the dictionary", Err: err}
	}
	return fmt.Errorf("%s: %w", d.path, err)
}

// Limits of an expansion.
type Limits struct {
	Depth int // steps from a sense: 1 takes its own similar words, 2 theirs too
	Words int // of a topic
}

// MaxQueryWords is the largest query.
const MaxQueryWords = 64

// Expansion makes topics of queries.
type Expansion struct {
	DB     *DB
	Filter *Filter
	Match  Matching
	Limits Limits
	// Dictionary opens the dictionary when the first word is met that the database does not have.
	Dictionary func() (Dictionary, error)

	opened Dictionary
	stats  Stats
}

// Stats say what an expansion did.
type Stats struct {
	Put       int64 `json:"put"`       // words put in at the rear of the queue
	Taken     int64 `json:"taken"`     // words taken at its front
	Redundant int64 `json:"redundant"` // words that were in it already
	Held      int64 `json:"held"`      // words of Taken with similar words beyond a limit
	Known     int64 `json:"known"`     // questions that the database answered
	Asked     int64 `json:"asked"`     // questions to the dictionary
}

// Since returns the counts after before.
func (s Stats) Since(before Stats) Stats {
	return Stats{s.Put - before.Put, s.Taken - before.Taken, s.Redundant - before.Redundant, s.Held - before.Held, s.Known - before.Known, s.Asked - before.Asked}
}

// Stats returns the counts up to now.
func (x *Expansion) Stats() Stats { return x.stats }

// Close closes the dictionary.
func (x *Expansion) Close() error {
	if x.opened == nil {
		return nil
	}
	return x.opened.Close()
}

// Answer is the state of a query.
type Answer struct {
	Query   string   `json:"query"`
	Words   []string `json:"words"`             // words put into the queue
	Topics  []string `json:"topics"`            // one for each sense
	Unknown []string `json:"unknown,omitempty"` // words that the dictionary does not have: each is a topic of itself alone
}

// Put appends the words of a query to the queue. Adjacent words that the dictionary has as one entry
// ("computer mouse") become one word. The same query again adds nothing, unless limits are larger or unknown words
// are matched in another way. An empty list is fault.Usage.
func (x *Expansion) Put(ctx context.Context, query string, list []string) error {
	if len(list) == 0 || len(list) > MaxQueryWords {
		e := &fault.Error{Class: fault.Usage, File: "query", Place: fmt.Sprintf("%q", query), Found: "no important word", Want: "a word that is no stop word and no year, volume or page number",
			Hint: `mfocus words --explain shows what is taken out; text in double quotes is kept: '"1984"'`}
		if len(list) > 0 {
			e.Found, e.Want, e.Hint = fmt.Sprintf("%d words", len(list)), fmt.Sprintf("at most %d", MaxQueryWords), "mfocus words shows them"
		}
		return e
	}
	return x.DB.change(ctx, func(tx *sql.Tx) error {
		var depth, words int
		err := tx.QueryRowContext(ctx, "SELECT depth, words FROM query WHERE query = ?", query).Scan(&depth, &words)
		switch {
		case err == nil:
			_, err = tx.ExecContext(ctx, `UPDATE query SET match = ?2, depth = max(depth, ?3), words = max(words, ?4) WHERE query = ?1;
				DELETE FROM topic WHERE query = ?1 AND topic IN (SELECT word FROM queue WHERE query = ?1 AND topic = '' AND state = 'unknown');
				DELETE FROM queue WHERE query = ?1 AND topic IN (SELECT word FROM queue WHERE query = ?1 AND topic = '' AND state = 'unknown');
				UPDATE queue SET state = 'waiting' WHERE query = ?1 AND (state = 'unknown' OR state = 'held' AND ?5);
				UPDATE queue SET redundant = redundant + 1 WHERE query = ?1 AND topic = '';`, query, x.Match, x.Limits.Depth, x.Limits.Words, x.Limits.Depth > depth || x.Limits.Words > words)
			if err != nil {
				return err
			}
			var n int64
			err = tx.QueryRowContext(ctx, "SELECT count(*) FROM queue WHERE query = ? AND topic = ''", query).Scan(&n)
			x.stats.Redundant += n
			return err
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		if list, err = x.phrases(ctx, tx, list); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO query VALUES(?, ?, ?, ?)", query, x.Match, x.Limits.Depth, x.Limits.Words); err != nil {
			return err
		}
		for _, w := range list {
			if _, err := x.put(ctx, tx, item{query: query, word: w, weight: 1}); err != nil {
				return err
			}
		}
		return nil
	})
}

// longest is how many words a phrase may have.
const longest = 4

// phrases joins words side by side that are one in the dictionary, the longest first.
func (x *Expansion) phrases(ctx context.Context, tx *sql.Tx, list []string) (joined []string, err error) {
	for len(list) > 0 {
		n := min(longest, len(list))
		for ; n > 1; n-- {
			senses, err := x.senses(ctx, tx, strings.Join(list[:n], " "), Exact)
			if err != nil {
				return nil, err
			}
			if len(senses) > 0 {
				break
			}
		}
		joined = append(joined, strings.Join(list[:n], " "))
		list = list[n:]
	}
	return joined, nil
}

// item is a word in the queue.
type item struct {
	place               int64
	query, topic        string // no topic: a word of the query
	word, sense         string
	relation            Relation
	depth               int
	weight              float64
	match               Matching // of the query
	depthLimit, maximum int
}

// put puts a word in at the rear. If it is there already, the larger weight counts.
func (x *Expansion) put(ctx context.Context, tx *sql.Tx, i item) (fresh bool, err error) {
	state := waiting
	if i.topic != "" && i.relation == InGloss {
		state = done // which sense it has is not known
	}
	r, err := tx.ExecContext(ctx, `INSERT INTO queue(query, topic, word, sense, relation, depth, weight, state) VALUES(?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`, i.query, i.topic, i.word, i.sense, i.relation, i.depth, i.weight, state)
	if err != nil {
		return false, err
	}
	if n, err := r.RowsAffected(); err != nil || n == 1 {
		x.stats.Put++
		return true, err
	}
	x.stats.Redundant++
	_, err = tx.ExecContext(ctx, `UPDATE queue SET redundant = redundant + 1, weight = max(weight, ?) WHERE query = ? AND topic = ? AND word = ? AND sense = ?`,
		i.weight, i.query, i.topic, i.word, i.sense)
	return false, err
}

// taken is how many words a transaction takes.
const taken = 256

// Run takes words at the front, until none waits, and puts those that are similar in at the rear.
func (x *Expansion) Run(ctx context.Context, progress func(n int64)) error {
	for more := true; more; {
		if err := context.Cause(ctx); err != nil {
			return context.Cause(ctx)
		}
		n := int64(0)
		err := x.DB.change(ctx, func(tx *sql.Tx) error {
			for more = true; more && n < taken; {
				i, err := front(ctx, tx)
				if errors.Is(err, sql.ErrNoRows) {
					more = false
					return nil
				}
				if err == nil {
					err = x.expandWord(ctx, tx, i)
				}
				if err != nil {
					return err
				}
				n++
			}
			return nil
		})
		if err != nil {
			return err
		}
		x.stats.Taken += n
		progress(n)
	}
	return nil
}

func front(ctx context.Context, tx *sql.Tx) (i item, err error) {
	err = tx.QueryRowContext(ctx, `SELECT q.place, q.query, q.topic, q.word, q.sense, q.relation, q.depth, q.weight, query.match, query.depth, query.words
		FROM queue q JOIN query ON query.query = q.query WHERE q.state = 'waiting' ORDER BY q.place LIMIT 1`).
		Scan(&i.place, &i.query, &i.topic, &i.word, &i.sense, &i.relation, &i.depth, &i.weight, &i.match, &i.depthLimit, &i.maximum)
	return i, err
}

// weights of a word by how it stands to the sense before it. The weight of a path is their product.
var weights = map[Relation]float64{Synonym: 0.9, Kind: 0.7, Broader: 0.5, Related: 0.6, Part: 0.4, InGloss: 0.25}

const (
	leastWeight  = 0.1 // of a word that is put in
	glossWords   = 40  // of a gloss
	mostSenses   = 40  // of a word
	mostPerQuery = 400 // topics
)

// expandWord works on a word: a query's word has topics, one for each sense, and a topic's word has similar ones.
func (x *Expansion) expandWord(ctx context.Context, tx *sql.Tx, i item) error {
	state := done
	switch {
	case i.topic == "":
		senses, err := x.senses(ctx, tx, i.word, i.match)
		if err != nil {
			return err
		}
		known := len(senses) > 0
		if !known {
			state, senses = unknown, []string{i.word}
		}
		for rank, s := range senses[:min(mostSenses, len(senses))] {
			_, err := tx.ExecContext(ctx, `INSERT INTO topic SELECT ?1, ?2, ?3, 0 WHERE (SELECT count(*) FROM topic WHERE query = ?1) < ?4 ON CONFLICT DO NOTHING`,
				i.query, i.place*mostSenses+int64(rank), s, mostPerQuery)
			if err != nil {
				return err
			}
			first := item{query: i.query, topic: s, word: i.word, sense: s, relation: Synonym, weight: 1}
			if !known {
				first.sense, first.relation = "", InGloss
			}
			if err := x.putWithin(ctx, tx, first, i.maximum); err != nil && err != errFull {
				return err
			}
		}
	case i.depth >= i.depthLimit:
		state = held
	default:
		if i.sense == "" { // of a dictionary that says words alone
			senses, err := x.senses(ctx, tx, i.word, Exact)
			if err != nil {
				return err
			}
			if len(senses) != 1 { // which is meant is not known
				break
			}
			i.sense = senses[0]
		}
		s, err := x.sense(ctx, tx, i.sense)
		if err != nil {
			return err
		}
		if err := x.spread(ctx, tx, i, s); err == errFull {
			state = held
		} else if err != nil {
			return err
		}
	}
	if state == held {
		x.stats.Held++
	}
	_, err := tx.ExecContext(ctx, "UPDATE queue SET state = ? WHERE place = ?", state, i.place)
	return err
}

// spread puts the words beside a sense in.
func (x *Expansion) spread(ctx context.Context, tx *sql.Tx, i item, s Sense) error {
	next := func(w Similar) error {
		if i.relation == Broader && w.Relation == Kind { // up and down again: a squirrel is no mouse
			return nil
		}
		weight := i.weight * weights[w.Relation]
		if len(w.Word) > MaxWord || weight < leastWeight || w.Word == i.word && w.Sense == i.sense {
			return nil
		}
		return x.putWithin(ctx, tx, item{query: i.query, topic: i.topic, word: w.Word, sense: w.Sense, relation: w.Relation, depth: i.depth + 1, weight: weight}, i.maximum)
	}
	gloss := x.Filter.Words(definition(s.Gloss))
	similar := slices.Clone(s.Similar)
	for _, w := range gloss[:min(glossWords, len(gloss))] {
		similar = append(similar, Similar{Word: w, Relation: InGloss})
	}
	slices.SortStableFunc(similar, func(a, b Similar) int { // if the topic is full, of the closest words
		return int(1000 * (weights[b.Relation] - weights[a.Relation]))
	})
	for _, w := range similar {
		if err := next(w); err != nil {
			return err
		}
	}
	return nil
}

// definition is a gloss without its examples, which stand in quotes.
func definition(gloss string) string {
	text, _, _ := strings.Cut(gloss, `; "`)
	return strings.ReplaceAll(text, `"`, " ")
}

// errFull says that a topic has all the words that it may have.
var errFull = errors.New("the topic is full")

// putWithin is put for a word of a topic, within the limit of words.
func (x *Expansion) putWithin(ctx context.Context, tx *sql.Tx, i item, maximum int) error {
	var n int
	if err := tx.QueryRowContext(ctx, "SELECT words FROM topic WHERE query = ? AND topic = ?", i.query, i.topic).Scan(&n); errors.Is(err, sql.ErrNoRows) {
		return nil // beyond the number of topics
	} else if err != nil {
		return err
	}
	if n >= maximum {
		return errFull
	}
	fresh, err := x.put(ctx, tx, i)
	if err == nil && fresh {
		_, err = tx.ExecContext(ctx, "UPDATE topic SET words = words + 1 WHERE query = ? AND topic = ?", i.query, i.topic)
	}
	return err
}

// dictionary opens it at the first question.
func (x *Expansion) dictionary() (Dictionary, error) {
	x.stats.Asked++
	if x.opened == nil {
		d, err := x.Dictionary()
		if err != nil {
			return nil, err
		}
		x.opened = d
	}
	return x.opened, nil
}

// senses returns the senses of a word from the database, or from the dictionary, and then saves them in the database. A word that
// the dictionary lacks is asked for again next time, since another dictionary may have it.
func (x *Expansion) senses(ctx context.Context, tx *sql.Tx, word string, match Matching) (names []string, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT sense FROM entry WHERE word = ? AND match IN ('exact', ?) ORDER BY match = 'exact' DESC, rank", word, match)
	if err != nil {
		return nil, err
	}
	if names, err = column(rows); err != nil || len(names) > 0 {
		x.stats.Known++
		return names, err
	}
	d, err := x.dictionary()
	if err != nil {
		return nil, err
	}
	found, names, err := Find(d, word, match)
	if err != nil {
		return nil, err
	}
	by := Exact
	if found != word {
		by = match
	}
	for i, s := range names {
		if _, err := tx.ExecContext(ctx, "INSERT INTO entry VALUES(?, ?, ?, ?)", word, by, i, s); err != nil {
			return nil, err
		}
	}
	return names, nil
}

func column(rows *sql.Rows) (list []string, err error) {
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, rows.Err()
}

// sense is one that the database knows, or the dictionary.
func (x *Expansion) sense(ctx context.Context, tx *sql.Tx, name string) (s Sense, err error) {
	err = tx.QueryRowContext(ctx, "SELECT sense, gloss FROM sense WHERE sense = ?", name).Scan(&s.Name, &s.Gloss)
	if err == nil {
		x.stats.Known++
		rows, err := tx.QueryContext(ctx, "SELECT word, relation, of FROM similar WHERE sense = ? ORDER BY n", name)
		if err != nil {
			return s, err
		}
		defer rows.Close()
		for rows.Next() {
			var w Similar
			if err := rows.Scan(&w.Word, &w.Relation, &w.Sense); err != nil {
				return s, err
			}
			s.Similar = append(s.Similar, w)
		}
		return s, rows.Err()
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return s, err
	}
	d, err := x.dictionary()
	if err != nil {
		return s, err
	}
	if s, err = d.Sense(name); err != nil || s.Name == "" {
		return s, err // another dictionary may have it
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO sense VALUES(?, ?)", name, s.Gloss); err != nil {
		return s, err
	}
	for n, w := range s.Similar {
		if _, err := tx.ExecContext(ctx, "INSERT INTO similar VALUES(?, ?, ?, ?, ?)", name, n, w.Word, w.Relation, w.Sense); err != nil {
			return s, err
		}
	}
	return s, nil
}

// Answer returns the database's state of a query.
func (d *DB) Answer(ctx context.Context, query string) (a Answer, err error) {
	a.Query = query
	for _, part := range []struct {
		list *[]string
		sql  string
	}{
		{&a.Words, "SELECT word FROM queue WHERE query = ? AND topic = '' ORDER BY place"},
		{&a.Topics, "SELECT topic FROM topic WHERE query = ? ORDER BY rank"},
		{&a.Unknown, "SELECT word FROM queue WHERE query = ? AND topic = '' AND state = 'unknown' ORDER BY place"},
	} {
		rows, err := d.db.QueryContext(ctx, part.sql, query)
		if err != nil {
			return a, d.named(err)
		}
		if *part.list, err = column(rows); err != nil {
			return a, d.named(err)
		}
	}
	return a, nil
}

// Topics calls do for each wanted topic: queries in the order of their names, topics by their senses, the most
// usual first. A word with several senses in a topic is there once, with its largest weight.
func (d *DB) Topics(ctx context.Context, wanted func(query, topic string) bool, do func(Topic) error) error {
	rows, err := d.db.QueryContext(ctx, "SELECT query, topic, coalesce((SELECT gloss FROM sense WHERE sense = topic), '') FROM topic ORDER BY query, rank")
	if err != nil {
		return d.named(err)
	}
	var topics []Topic
	for rows.Next() {
		var t Topic
		if err := rows.Scan(&t.Query, &t.Topic, &t.Gloss); err != nil {
			rows.Close()
			return d.named(err)
		}
		if wanted(t.Query, t.Topic) {
			topics = append(topics, t)
		}
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return d.named(err)
	}
	for _, t := range topics {
		if t.Words, err = d.words(ctx, t); err != nil {
			return d.named(err)
		}
		if err := do(t); err != nil {
			return err
		}
	}
	return nil
}

func (d *DB) words(ctx context.Context, t Topic) (list []Word, err error) {
	rows, err := d.db.QueryContext(ctx, "SELECT word, max(weight) AS most FROM queue WHERE query = ? AND topic = ? GROUP BY word ORDER BY most DESC, word", t.Query, t.Topic)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var w Word
		if err := rows.Scan(&w.Word, &w.Weight); err != nil {
			return nil, err
		}
		w.Weight = math.Round(w.Weight*1e4) / 1e4
		list = append(list, w)
	}
	return list, rows.Err()
}
