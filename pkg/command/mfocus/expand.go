package mfocus

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/focus/words"
)

type expandCmd struct {
	DB    string   `arg:"" help:"The words database; made if there is none."`
	Query []string `arg:"" optional:"" help:"A query; default: lines of mfocus words or mfocus query, or queries as text."`
	dictionary
	Depth int `default:"2" range:"1 5" help:"Steps from a sense: 1 takes the words beside it, 2 those beside them."`
	Words int `default:"200" range:"1 10000" help:"Words that a topic may have."`
	stopWords
	LockWait time.Duration `default:"10s" help:"Wait this long for a database that is in use."`
}

// Help is part of --help.
func (expandCmd) Help() string {
	return `The words wait in a queue. Each is looked up in the database, and in the
dictionary only if the database does not have it. Killed, run it again. "mfocus
topics" prints the result.

Examples:
  mfocus expand words.db Mouse
  mfocus query - < queries.txt | mfocus words | mfocus expand words.db`
}

// expanded is a line of mfocus expand.
type expanded struct {
	words.Answer
	words.Stats
}

func (c *expandCmd) Run(ctx context.Context, std *cli.Std) (err error) {
	f, err := c.filter(std)
	if err != nil {
		return err
	}
	x := &words.Expansion{
		Filter: f, Match: words.Matching(c.Match), Limits: words.Limits{Depth: c.Depth, Words: c.Words},
		Dictionary: func() (words.Dictionary, error) { return words.OpenDictionary(c.Dictionary) },
	}
	defer x.Close()
	out := bufio.NewWriter(std.Out)
	defer func() { err = errors.Join(err, out.Flush()) }()
	e := encoder(out)
	progress := std.StartProgress("words", 0)
	defer progress.Done()
	return c.each(std, f, func(query string, list []string) error {
		if x.DB == nil { // not before there is something to put in it
			if x.DB, err = words.OpenDB(ctx, c.DB, true, c.LockWait); err != nil {
				return err
			}
		}
		before := x.Stats()
		if err := x.Put(ctx, query, list); err != nil {
			return err
		}
		if err := x.Run(ctx, progress.Add); err != nil {
			return err
		}
		a, err := x.DB.Answer(ctx, query)
		if err != nil {
			return err
		}
		for _, w := range a.Unknown {
			advice := ""
			if x.Match == words.Exact || x.Match == words.Stem {
				advice = " (--match edit finds words like it)"
			}
			std.Warn("%q is not in the dictionary: it is a topic of one word%s", w, advice)
		}
		return e.Encode(expanded{a, x.Stats().Since(before)})
	})
}

// each calls do for each query with its important words.
func (c *expandCmd) each(std *cli.Std, f *words.Filter, do func(query string, list []string) error) error {
	text := func(s string) error {
		q, err := words.Identify(s)
		if err != nil {
			return err
		}
		if q.Type == words.Location {
			return &fault.Error{Class: fault.Usage, File: "query", Found: "a URL", Want: "words", Hint: "a URL is a seed: " + fault.Quote("mcrawl", "add", "crawl", q.URL)}
		}
		return do(strings.ToLower(q.Query), f.Words(q.Query))
	}
	if len(c.Query) > 0 && (len(c.Query) != 1 || c.Query[0] != "-") {
		return text(joined(c.Query))
	}
	var query string // the query that the lines being read belong to
	var list []string
	flush := func() error {
		if query == "" {
			return nil
		}
		err := do(strings.ToLower(query), list)
		query, list = "", nil
		return err
	}
	some := false
	err := eachLine(std, nil, func(line string) error {
		some = true
		if line[0] != '{' {
			return errors.Join(flush(), text(line))
		}
		var w struct {
			important
			Type words.Type `json:"type"`
		}
		if err := json.Unmarshal([]byte(line), &w); err != nil || w.Query == "" && w.Word == "" && w.Out == "" {
			return notOurs("a line of mfocus words or mfocus query, or text")
		}
		if w.Type != "" {
			return errors.Join(flush(), text(w.Query))
		}
		if w.Query == "" {
			w.Query = w.Word
		}
		if w.Query != query {
			if err := flush(); err != nil {
				return err
			}
		}
		query = w.Query
		if w.Word != "" && len(list) <= words.MaxQueryWords {
			list = append(list, w.Word)
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	if err == nil && !some {
		_, err = words.Identify("")
	}
	return err
}
