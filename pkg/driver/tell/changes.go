package tell

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/crawl"
	"mercator/pkg/extract"
	"mercator/pkg/frontier"
	"mercator/pkg/merge"
	"mercator/pkg/view/stats"
	"mercator/pkg/web/process"
)

// PageChange is a page that differs between two states of a crawl, or two crawls.
type PageChange struct {
	What   string `json:"what"` // a word of stats.Meaning
	URL    string `json:"url"`
	Before string `json:"before,omitempty"` // outcome and status of the earlier visit
	Now    string `json:"now,omitempty"`    // outcome and status of the later visit

	Fetched   time.Time `json:"fetched,omitzero"`     // when the earlier visit was
	Refetched time.Time `json:"refetched,omitzero"`   // when the later visit was
	Moved     string    `json:"redirect,omitempty"`   // where the later visit was redirected to
	Bytes     int64     `json:"bytes,omitempty"`      // length of the later body
	BytesWere int64     `json:"bytes_were,omitempty"` // length of the earlier body

	rows [2]*record.Fetch // the later visit, then the earlier one
}

// Changes compares the pages of two states of a crawl, or of two crawls.
type Changes struct {
	now, before *Crawl
	rows, other []string // files of fetch rows

	Unknown bool // Each was asked for a URL that has no row
}

// Changes compares two states of the crawl. A state is named by a round, or by the number of a checkpoint. If to is "", it is the state of now; if from is
// "", it is the state before the last mcrawl again.
func (c *Crawl) Changes(from, to string) (*Changes, error) {
	kept, err := c.Files()
	if err != nil {
		return nil, err
	}
	if from == "" {
		names := kept.Names()
		i := len(names) - 1
		for ; i > 0 && !strings.HasPrefix(names[i], "again"); i-- {
		}
		if i <= 0 {
			hint := "fetch all again: " + fault.Quote("mcrawl", "again", c.Dir(), "--older", "0s")
			if st, err := c.Frontiers.Stat(context.Background(), frontier.StatOptions{}); err == nil && (st.Policy == "revisit" || st.Policy == "walk") && len(names) > 1 {
				hint = "it visits pages again by itself; what changed since its first round: " + fault.Quote("mcrawl", "changes", c.Dir(), names[0])
			}
			return nil, &fault.Error{Class: fault.Usage, File: c.Dir(), Found: "no pages were fetched again by mcrawl again", Want: "a round to compare with, such as r1, or another crawl", Hint: hint}
		}
		from = names[i-1]
	}
	then, err := c.until(kept, from)
	if err == nil && to != "" {
		kept, err = c.until(kept, to)
	}
	if err != nil {
		return nil, err
	}
	if len(kept.Names()) < len(then.Names()) {
		return nil, &fault.Error{Class: fault.Usage, File: c.Dir(), Found: "changes from " + from + " to " + to + ", which came before it", Want: "the earlier one first"}
	}
	return c.changes(kept, c, then)
}

// ChangesSince compares the crawl with another.
func (c *Crawl) ChangesSince(before *Crawl) (*Changes, error) {
	now, err := c.Files()
	if err != nil {
		return nil, err
	}
	then, err := before.Crawl.Files()
	if err != nil {
		return nil, err
	}
	return c.changes(now, before, then)
}

func (c *Crawl) changes(now *crawl.RoundFiles, before *Crawl, then *crawl.RoundFiles) (*Changes, error) {
	all := &Changes{now: c, before: before}
	var err error
	if all.rows, err = now.Files(c.Outcomes()); err == nil {
		all.other, err = then.Files(before.Outcomes())
	}
	if err == nil && len(all.rows) == 0 {
		err = empty(c.Crawl)
	}
	if err == nil && len(all.other) == 0 {
		err = empty(before.Crawl)
	}
	return all, err
}

// Each gives to each the pages that differ, in the order of what and URL; url, if not "", is the only one.
func (c *Changes) Each(url string, each func(*PageChange) error) (err error) {
	sorter := merge.NewSorter(HistoryMemory/3, "") // by what, URL: then both rows
	sorter.Ties = bytes.Compare
	defer func() { err = errors.Join(err, sorter.Close()) }()
	c.Unknown = url != ""
	some := func(files []string) func(func(*record.Fetch) error) error {
		return func(row func(*record.Fetch) error) error {
			return eachRow(files, func(r *record.Fetch) error {
				if url != "" && r.URL != url {
					return nil
				}
				c.Unknown = false
				return row(r)
			})
		}
	}
	err = stats.Differences(HistoryMemory/3, some(c.rows), some(c.other), func(what string, now, before *record.Fetch) error {
		if what == "" {
			return nil
		}
		row := []byte(what + "\x00" + cmp.Or(now, before).URL + "\x00")
		for _, r := range [...]*record.Fetch{now, before} {
			row = record.AppendText(row, string(record.AppendRow(nil, cmp.Or(r, &record.Fetch{}))))
		}
		return sorter.Add(0, row)
	})
	if err != nil {
		return damaged(c.now.Dir(), err)
	}
	it, err := sorter.Sort()
	if err != nil {
		return err
	}
	return it.Each(func(_ uint64, payload []byte) error {
		parts := bytes.SplitN(payload, []byte{0}, 3)
		ch, rest := PageChange{What: string(parts[0]), URL: string(parts[1])}, parts[2]
		for i := range ch.rows {
			var row []byte
			row, rest = record.CutText(rest)
			ch.rows[i] = new(record.Fetch)
			if _, err := record.ParseRow(string(row), ch.rows[i], nil); err != nil {
				return err
			}
		}
		if now := ch.rows[0]; now.URL != "" {
			ch.Now, ch.Refetched, ch.Moved, ch.Bytes = stats.Became(now.Outcome, now.Status), now.FetchTime.Go(), now.RedirectURL, now.BodyLength
		}
		if before := ch.rows[1]; before.URL != "" {
			ch.Before, ch.Fetched, ch.BytesWere = stats.Became(before.Outcome, before.Status), before.FetchTime.Go(), before.BodyLength
		}
		return each(&ch)
	})
}

// diffText bounds the text of a page that is compared, in bytes.
const diffText = 1 << 20

// Diff gives the lines of text by which a page differs, as a unified diff; of a page without text one line says so.
func (c *Changes) Diff(ch *PageChange) (string, error) {
	var texts [2]string
	var names [2]string
	for i, of := range []*Crawl{c.now, c.before} {
		r := ch.rows[i]
		names[i] = ch.URL + "\t" + r.FetchTime.Go().Format(time.RFC3339)
		if r.Status < 200 || r.Status > 299 {
			names[i] = "/dev/null"
			continue
		}
		documents := extract.DocumentsOf(of.Dir(), 0)
		doc, err := documents.Read(r)
		documents.Close()
		if err != nil {
			return "", damaged(of.Dir(), err)
		}
		if doc == nil {
			continue
		}
		if texts[i], err = process.Text(doc, diffText); err != nil {
			return fmt.Sprintf("%s: no text to compare: %s\n", ch.URL, doc.MIME), nil
		}
		texts[i] += "\n"
	}
	if texts[0] == texts[1] {
		return fmt.Sprintf("%s: the text is the same\n", ch.URL), nil
	}
	return udiff.Unified(names[1], names[0], texts[1], texts[0]), nil
}
