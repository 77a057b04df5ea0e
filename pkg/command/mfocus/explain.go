package mfocus

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"text/tabwriter"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/focus/classify"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/process"
)

type explainCmd struct {
	Names []string `arg:"" name:"document" help:"Files, or URLs of --crawl."`
	Crawl string   `type:"existingdir" placeholder:"DIR" help:"Crawl that has the documents of the URLs."`
	Most  int      `short:"n" range:"0" default:"20" placeholder:"20" help:"Show at most N words; 0: all."`
	JSON  bool     `name:"json" help:"Print a JSON line for each document."`
	ModelFlags
	archiveFlags
}

// Help is part of --help.
func (explainCmd) Help() string {
	return `Shows which words make a document like a topic, and by how much: shares of the cosine.
They add up to the likeness of document and topic, 0 to 1; from "(needed)" on a
document is about it. The more relevance links promised, the less is needed. It
depends on how like the topic the model's pages are, and those of --crawl.

Examples:
  mfocus explain --model mouse.model page.html
  mfocus explain --model mouse.model --crawl crawl \
    http://www.example.org/mice.html`
}

// explained is a document as JSON.
type explained struct {
	URL      string    `json:"url"`
	Score    float32   `json:"score"`
	Promised float32   `json:"promised"` // by links
	Topic    string    `json:"topic"`    // "" where the score is below 0.5 or no word speaks for one
	Words    int       `json:"words"`    // that were looked at
	Topics   []string  `json:"topics"`
	Alike    []float64 `json:"alike"`  // for each topic, as all below: the cosine of document and topic
	Needed   []float64 `json:"needed"` // with which a document is about it
	Shares   []share   `json:"shares"`
}

type share struct {
	Word  string    `json:"word"` // a stem
	Count int       `json:"count"`
	Alike []float64 `json:"alike"`
}

func (c *explainCmd) Run(ctx context.Context, std *cli.Std) error {
	m, err := c.Load()
	if err != nil {
		return err
	}
	warc := ""
	if c.Crawl != "" {
		warc = store.Within(c.Crawl, "fetch", store.Options{})
	}
	fitted, err := classify.FitIn(m, warc, "")
	if err != nil {
		return err
	}
	scorer := classify.NewScorer(fitted)
	show := func(row *record.Fetch, doc *process.Document) error {
		texts, read := classify.ReadTexts(doc)
		if !read {
			return &fault.Error{File: row.URL, Found: fmt.Sprintf("a document of type %q, in which no text is found", doc.MIME), Want: "HTML, text, XML, PDF, Word: others have the score that links promised"}
		}
		r, shares := scorer.Explain(texts, row.Score)
		e := explained{URL: row.URL, Score: r.Score, Promised: row.Score, Words: r.Words, Topics: m.Names(), Alike: rounded(r.Alike), Needed: rounded(fitted.Needed(row.Score)), Shares: []share{}}
		if r.Topic >= 0 {
			e.Topic = m.Topics[r.Topic].Name
		}
		for i, s := range shares {
			if c.Most > 0 && i >= c.Most {
				break
			}
			e.Shares = append(e.Shares, share{s.Word, s.Count, rounded(s.Alike)})
		}
		if c.JSON {
			return encoder(std.Out).Encode(e)
		}
		return e.table(std, len(shares))
	}
	if c.Crawl == "" {
		for _, name := range c.Names {
			if strings.Contains(name, "://") {
				return &fault.Error{Class: fault.Usage, File: name, Found: "a URL without a crawl", Want: "--crawl DIR, the crawl that has its document, or a file"}
			}
			if err := c.documents(std, name, show); err != nil {
				return err
			}
		}
		return nil
	}
	if err := isCrawl(c.Crawl); err != nil {
		return err
	}
	wanted := map[string]bool{}
	for _, name := range c.Names {
		u, _, err := canon.Options{}.URL(name)
		if err != nil {
			return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("%q", name), Want: "a URL of the crawl", Err: err}
		}
		wanted[u] = true
	}
	err = c.documents(std, c.Crawl, func(row *record.Fetch, doc *process.Document) error {
		if !wanted[row.URL] {
			return ctx.Err()
		}
		delete(wanted, row.URL)
		if err := show(row, doc); err != nil || len(wanted) > 0 {
			return err
		}
		return errAll
	})
	if errors.Is(err, errAll) {
		return nil
	}
	for _, name := range c.Names {
		if u, _, _ := (canon.Options{}).URL(name); err == nil && wanted[u] {
			if duplicate, err := c.duplicate(std, u); duplicate != nil || err != nil {
				return errors.Join(err, duplicate)
			}
			return &fault.Error{Class: fault.Usage, File: c.Crawl, Found: "no document of " + u, Want: "a URL that was fetched, and whose document is no duplicate",
				Hint: "see what became of each URL: " + fault.Quote("mcat", "--columns", "url,outcome,status", c.Crawl)}
		}
	}
	return err
}

// duplicate returns an error if the URL's document is a duplicate, and names the page that it equals if the crawl's records do; else nil.
func (c *explainCmd) duplicate(std *cli.Std, u string) (error, error) {
	rows := func(do func(row *record.Fetch)) error {
		in, _, err := c.rows(std, []string{c.Crawl})
		if err != nil {
			return err
		}
		return record.Each(in, func(row *record.Fetch) error {
			if row.OfPage() && row.Outcome == record.OutcomeFetched && row.Status/100 == 2 {
				do(row)
			}
			return nil
		})
	}
	var is bool
	var content uint64
	if err := rows(func(row *record.Fetch) {
		if row.URL == u && row.Duplicate {
			is, content = true, row.ContentFP
		}
	}); err != nil || !is {
		return nil, err
	}
	equal := ""
	if content != 0 {
		if err := rows(func(row *record.Fetch) {
			if equal == "" && row.ContentFP == content && !row.Duplicate {
				equal = row.URL
			}
		}); err != nil {
			return nil, err
		}
	}
	e := &fault.Error{Class: fault.Usage, File: c.Crawl, Found: u + ", a duplicate: it has no score of its own", Want: "a page that is none"}
	if equal != "" {
		e.Want = "the page that it equals, " + equal
		e.Hint = fault.Quote("mfocus", "explain", "--crawl", c.Crawl, equal)
	}
	return e, nil
}

// errAll ends the search.
var errAll = errors.New("all found")

func rounded(odds []float64) []float64 {
	out := make([]float64, len(odds))
	for i, o := range odds {
		out[i] = math.Round(o*1000) / 1000
	}
	return out
}

// table prints a document; all is how many shares there are.
func (e *explained) table(std *cli.Std, all int) error {
	topic := e.Topic
	if topic == "" {
		topic = "none"
	}
	screen := std.Screen()
	fmt.Fprintf(screen, "%s\nscore %.3f, topic %s, %s, links promised %.3f\n", cli.Printable(e.URL), e.Score, cli.Printable(topic), cli.Count(e.Words, "word"), e.Promised)
	t := tabwriter.NewWriter(screen, 0, 8, 2, ' ', tabwriter.AlignRight)
	line := func(word, count string, odds []float64) {
		fmt.Fprintf(t, "%s\t%s\t", word, count)
		for _, o := range odds {
			fmt.Fprintf(t, "%.3f\t", o)
		}
		fmt.Fprintln(t)
	}
	fmt.Fprintln(t, screen.Paint("heading", "stem\ttimes\t"+cli.Printable(strings.Join(e.Topics, "\t"))+"\t"))
	for _, s := range e.Shares {
		line(s.Word, fmt.Sprint(s.Count), s.Alike)
	}
	if n := all - len(e.Shares); n > 0 {
		fmt.Fprintf(t, "(%d more)\t\t\n", n)
	}
	line("(sum)", "", e.Alike)
	line("(needed)", "", e.Needed)
	return t.Flush()
}
