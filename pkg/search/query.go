package search

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"mercator/pkg/base/fault"
)

// Limits of a query.
const (
	maxTerms = 32   // words and phrases
	maxQuery = 1024 // bytes
)

// Query is a search.
type Query struct {
	Words string // see Expression
	Site  string // only pages of this host, with or without port, and of hosts below it; "": all
	Most  int    // results
	Also  int    // other URLs of a result
}

// Result is a document.
type Result struct {
	Rank    int       `json:"rank"`  // 1 is the best
	Score   float64   `json:"score"` // BM25 (Robertson et al., TREC-3, 1994), a word of the title four times; larger is better
	URL     string    `json:"url"`   // the shortest that has it
	Title   string    `json:"title"`
	Snippet string    `json:"snippet"`        // words around those that were found, in one line
	Marks   [][2]int  `json:"marks"`          // of the words that were found: first character in the snippet, and the one after the last
	Fetched time.Time `json:"fetched"`        // when a server last said that this is the document
	Also    []string  `json:"also,omitempty"` // other URLs with the same content
	More    int       `json:"more,omitempty"` // how many more URLs there are
}

// Marks in snippets of FTS5: clean has left none in texts.
const (
	opening = "\x02"
	closing = "\x03"
)

// Expression returns the query of FTS5 (https://www.sqlite.org/fts5.html, section 3) for some words. All of them have to stand on a page:
//
//	crawl          the word, whatever its case and accents; of a script without spaces also inside a run
//	"web crawler"  the words one after the other
//	crawl*         words that begin so
//	-spider        pages without it
//
// All else is text: no character is an error, and none but letters and digits counts. A query without any of them is fault.Usage.
func Expression(words string) (string, error) {
	bad := func(found, want string) (string, error) {
		return "", &fault.Error{Class: fault.Usage, Place: "query", Found: found, Want: want, Hint: `write it like this: msearch query crawl 'mercator "web crawler" -spider'`}
	}
	if len(words) > maxQuery {
		return bad(fmt.Sprintf("%d bytes", len(words)), fmt.Sprintf("at most %d", maxQuery))
	}
	words = clean(words)
	var with, without []string
	for {
		words = strings.TrimLeftFunc(words, unicode.IsSpace)
		if words == "" {
			break
		}
		var term string
		rest, not := strings.CutPrefix(words, "-")
		if inside, quoted := strings.CutPrefix(rest, `"`); quoted {
			term, rest, _ = strings.Cut(inside, `"`)
		} else {
			end := strings.IndexFunc(rest, func(r rune) bool { return unicode.IsSpace(r) || r == '"' })
			if end < 0 {
				end = len(rest)
			}
			term, rest = rest[:end], rest[end:]
		}
		begins := false
		if strings.HasPrefix(rest, "*") {
			begins, rest = true, rest[1:]
		} else if strings.HasSuffix(term, "*") {
			begins = true
		}
		words = rest
		of := slices.Collect(wordsOf(term))
		if n := len(of); n == 0 {
			continue
		} else if of[n-1].unspaced && n > 1 && of[n-2].to == of[n-1].to {
			of = of[:n-1] // whatever follows the last pair
		} else if of[n-1].unspaced {
			begins = true
		}
		term = `"`
		for _, w := range of {
			term += " " + w.folded
		}
		if term += `"`; begins {
			term += "*"
		}
		if not {
			without = append(without, term)
		} else {
			with = append(with, term)
		}
	}
	switch {
	case len(with)+len(without) > maxTerms:
		return bad(fmt.Sprintf("%d words", len(with)+len(without)), fmt.Sprintf("at most %d", maxTerms))
	case len(with) == 0 && len(without) > 0:
		return bad("only words that pages are not to have", "a word that they have")
	case len(with) == 0:
		return bad("no word", "letters or digits")
	}
	e := strings.Join(with, " AND ")
	if len(without) > 0 {
		e = "(" + e + ") NOT (" + strings.Join(without, " OR ") + ")"
	}
	return e, nil
}

// Find gives the best results of a query, the best first, and how many documents there are in all.
func (x *Index) Find(ctx context.Context, q Query) (results []Result, total int64, err error) {
	defer func() { err = x.named(ctx, err) }()
	query, err := Expression(q.Words)
	if err != nil {
		return nil, 0, err
	}
	if err := x.exec(ctx, "BEGIN"); err != nil { // all of it from one state
		return nil, 0, err
	}
	defer x.exec(context.WithoutCancel(ctx), "ROLLBACK")
	const matching = ` FROM text WHERE text MATCH ?1 AND (?2 = '' OR EXISTS (SELECT 1 FROM page WHERE doc = text.rowid AND ` + onSite + `))`
	site := strings.ToLower(strings.Trim(q.Site, "."))
	if err := x.conn.QueryRowContext(ctx, `SELECT count(*)`+matching, query, site).Scan(&total); err != nil {
		return nil, 0, err
	}
	rows, err := x.conn.QueryContext(ctx, `SELECT rowid, rank`+matching+` ORDER BY rank, rowid LIMIT ?3`, query, site, q.Most)
	if err != nil {
		return nil, 0, err
	}
	var docs []int64
	for rows.Next() {
		r := Result{Rank: len(results) + 1}
		var doc int64
		if err := rows.Scan(&doc, &r.Score); err != nil {
			return nil, 0, errors.Join(err, rows.Close())
		}
		r.Score = -r.Score
		docs, results = append(docs, doc), append(results, r)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, 0, err
	}
	for i, doc := range docs {
		r := &results[i]
		var body, snippet string
		err := x.conn.QueryRowContext(ctx, `SELECT doc.title, msearch_unpack(packed), snippet(text, 1, char(2), char(3), '', 32) FROM text LEFT JOIN doc ON id = text.rowid WHERE text MATCH ? AND text.rowid = ?`, query, doc).Scan(&r.Title, &body, &snippet)
		if err != nil {
			return nil, 0, err
		}
		r.Title = strings.Join(strings.Fields(r.Title), " ")
		r.Snippet, r.Marks = marks(original(body, snippet, query))
		if err := x.urls(ctx, r, doc, site, q.Also); err != nil {
			return nil, 0, err
		}
	}
	return results, total, nil
}

// onSite is the condition that a page is on the site ?2.
const onSite = `instr('.' || host || ':', '.' || ?2 || ':') > 0`

// urls fills in the URLs of a document. One on the site comes first.
func (x *Index) urls(ctx context.Context, r *Result, doc int64, site string, limit int) error {
	var n int
	if err := x.conn.QueryRowContext(ctx, `SELECT count(*) FROM page WHERE doc = ?`, doc).Scan(&n); err != nil {
		return err
	}
	rows, err := x.conn.QueryContext(ctx, `SELECT url, fetched FROM page WHERE doc = ?1 ORDER BY ?2 = '' OR `+onSite+` DESC, length(url), url LIMIT ?3`, doc, site, 1+limit)
	if err != nil {
		return err
	}
	for rows.Next() {
		var url string
		var at int64
		if err := rows.Scan(&url, &at); err != nil {
			return errors.Join(err, rows.Close())
		}
		if r.URL == "" {
			r.URL, r.Fetched = url, time.UnixMicro(at).UTC()
		} else {
			r.Also = append(r.Also, url)
		}
	}
	r.More = n - 1 - len(r.Also)
	return errors.Join(rows.Err(), rows.Close())
}

// marks takes the marks out of a snippet, which becomes one line.
func marks(s string) (line string, of [][2]int) {
	of = [][2]int{}
	b := make([]byte, 0, len(s))
	at, begin := 0, 0
	space := true // no space is due
	for _, r := range s {
		switch {
		case r == rune(opening[0]):
			begin = at
		case r == rune(closing[0]):
			of = append(of, [2]int{begin, at})
		case unicode.IsSpace(r) && space:
		case unicode.IsSpace(r):
			b, at, space = append(b, ' '), at+1, true
		default:
			b, at, space = utf8.AppendRune(b, r), at+1, false
		}
	}
	return strings.TrimRight(string(b), " "), of
}

// Stat is the size of an index.
type Stat struct {
	Documents int64 `json:"documents"`
	URLs      int64 `json:"urls"`     // URLs with a document in the index
	Textless  int64 `json:"textless"` // URLs without text in the index: pictures, styles
	Gone      int64 `json:"gone"`     // URLs that had a document once, or ask not to be indexed
	Bytes     int64 `json:"bytes"`
	Files     int64 `json:"files"` // record files read
}

// Stat counts.
func (x *Index) Stat(ctx context.Context) (s Stat, err error) {
	err = x.conn.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM doc), (SELECT count(*) FROM page WHERE doc IS NOT NULL), (SELECT count(*) FROM page WHERE doc IS NULL AND NOT gone), (SELECT count(*) FROM page WHERE gone),
		(SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()), (SELECT count(*) FROM file)`).Scan(&s.Documents, &s.URLs, &s.Textless, &s.Gone, &s.Bytes, &s.Files)
	return s, x.named(ctx, err)
}

// Marked is the snippet with text before and after each word that was found.
func (r *Result) Marked(before, after string) string {
	var b strings.Builder
	at, next := 0, 0
	for _, c := range r.Snippet {
		for next < len(r.Marks) && r.Marks[next][1] == at {
			b.WriteString(after)
			next++
		}
		if next < len(r.Marks) && r.Marks[next][0] == at {
			b.WriteString(before)
		}
		b.WriteRune(c)
		at++
	}
	if next < len(r.Marks) {
		b.WriteString(after)
	}
	return b.String()
}
