package tell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/zeebo/xxh3"

	"mercator/formats/record"
	"mercator/pkg/crawl"
	"mercator/pkg/extract"
	"mercator/pkg/frontier"
	"mercator/pkg/merge"
	"mercator/pkg/view/history"
	"mercator/pkg/view/stats"
	"mercator/pkg/web/canon"
)

// Broken selects broken links.
type Broken struct {
	Accept []uint16 // statuses, or classes of them, that count as working
	Except []string // failures of history.Failures that count as working
	Since  string   // a round or a checkpoint: links that were broken then are left out; "": none are left out
	Most   uint64   // links to a URL to give, which follow each other then; 0: all, in the order in which they were found
}

// BrokenLinks counts broken links.
type BrokenLinks struct {
	Links   uint64
	Pages   uint64 // pages with a broken link
	Targets uint64 // URLs that broken links lead to
	Seeds   uint64 // broken links that stand on no page: seeds
	Waiting uint64 // URLs that wait and were never tried
	Copies  uint64 // pages whose links were not read: each is a copy of a page in another folder
	// Unchecked counts the URLs that may work or not, by reason, the most frequent first.
	Unchecked []record.Count
}

// Broken gives to each the links of the crawl that are broken now. With q.Most, Links of the last one to a URL has the number of all to it.
func (c *Crawl) Broken(ctx context.Context, q Broken, each func(*history.Broken) error) (sum BrokenLinks, err error) {
	defer func() { err = damaged(c.Dir(), err) }()
	kept, err := c.Files()
	if err != nil {
		return sum, err
	}
	links, err := c.links(kept)
	if err != nil {
		return sum, err
	}
	if len(links.Fetched) == 0 {
		return sum, empty(c.Crawl)
	}
	links.Accept, links.Except = q.Accept, q.Except
	pages, targets := merge.NewSorter(HistoryMemory/8, ""), merge.NewSorter(HistoryMemory/8, "") // by hash
	defer func() { err = errors.Join(err, pages.Close(), targets.Close()) }()
	told := func(b *history.Broken) error {
		var row []byte
		var err error
		if q.Most > 0 {
			row, err = json.Marshal(numberedLink{sum.Links, b})
		}
		if err = errors.Join(err, targets.Add(xxh3.HashString(b.URL), row)); err != nil {
			return err
		}
		if sum.Links++; b.Page != "" {
			if err := pages.Add(xxh3.HashString(b.Page), nil); err != nil {
				return err
			}
		} else {
			sum.Seeds++
		}
		if q.Most > 0 {
			return nil
		}
		return each(b)
	}
	var unchecked history.Unchecked
	if q.Since == "" {
		unchecked, err = links.Each(HistoryMemory/2, told)
	} else {
		var then *crawl.RoundFiles
		if then, err = c.until(kept, q.Since); err == nil {
			unchecked, err = c.brokenSince(&links, then, told)
		}
	}
	if err != nil {
		return sum, err
	}
	if sum.Pages, err = distinct(pages); err != nil {
		return sum, err
	}
	if sum.Targets, err = byTarget(targets, q.Most, each); err != nil {
		return sum, err
	}
	if err := c.Refusals(ctx, "", func(r *history.Refusal) error {
		reason := record.OutcomeRefused
		if IsLimit(r.Rule) {
			reason = r.Rule
		}
		if checkable(r) {
			unchecked[reason]++
		}
		return nil
	}); err != nil {
		return sum, err
	}
	st, err := c.Frontiers.Stat(ctx, frontier.StatOptions{})
	if err != nil {
		return sum, err
	}
	delete(unchecked, record.OutcomeDeferred) // they wait
	if known := links.Tried + unchecked[record.OutcomeParked]; st.Discovered > known {
		sum.Waiting = min(st.Discovered-known, st.Pending+st.InFlight)
		unchecked["waiting"] = sum.Waiting
	}
	sum.Unchecked, sum.Copies = stats.Counts(unchecked), links.Copies
	return sum, nil
}

// checkable reports whether a URL that was refused may work or not: there is a server to ask, and it is not among the broken ones in any case.
func checkable(r *history.Refusal) bool {
	switch r.Rule {
	case history.FailureInvalid, extract.ReasonHops:
		return false
	case string(canon.ReasonScheme):
		scheme, _, _ := strings.Cut(strings.ToLower(r.URL), ":")
		return scheme == "http" || scheme == "https"
	}
	return true
}

// distinct counts the keys of a sorter.
func distinct(s *merge.Sorter) (n uint64, err error) {
	sorted, err := s.Sort()
	if err != nil {
		return 0, err
	}
	last := uint64(0)
	err = sorted.Each(func(key uint64, _ []byte) error {
		if n == 0 || key != last {
			n++
		}
		last = key
		return nil
	})
	return n, err
}

// byTarget counts the keys of a sorter of links by target. With most, it gives to each up to so many links of each target, in the order of the first.
func byTarget(targets *merge.Sorter, most uint64, each func(*history.Broken) error) (n uint64, err error) {
	if most == 0 {
		return distinct(targets)
	}
	sorted, err := targets.Sort()
	if err != nil {
		return 0, err
	}
	out := merge.NewSorter(HistoryMemory/8, "") // by number of the first link to the target
	defer func() { err = errors.Join(err, out.Close()) }()
	var group []numberedLink
	var links, target uint64
	flush := func() error {
		for i := range group {
			if i == len(group)-1 {
				group[i].Link.Links = links
			}
			row, err := json.Marshal(&group[i])
			if err = errors.Join(err, out.Add(group[0].Number, row)); err != nil {
				return err
			}
		}
		n, links, group = n+min(links, 1), 0, group[:0]
		return nil
	}
	err = sorted.Each(func(key uint64, row []byte) error {
		if links > 0 && key != target {
			if err := flush(); err != nil {
				return err
			}
		}
		target = key
		if links++; links > most {
			return nil
		}
		group = append(group, numberedLink{})
		return json.Unmarshal(row, &group[links-1])
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return 0, err
	}
	return n, eachLink(out, each)
}

// links are the record files of rounds by which links are checked.
func (c *Crawl) links(kept *crawl.RoundFiles) (l history.Links, err error) {
	form, err := c.Form()
	if err != nil {
		return l, err
	}
	conf, err := c.Config()
	if err != nil {
		return l, err
	}
	l.Redirect, l.Searched = target(form), conf.File.Extract.Duplicates || c.Walk
	if l.Fetched, err = kept.Files(c.Outcomes()); err == nil {
		l.Found, err = kept.Files("links")
	}
	if err == nil {
		l.Refused, err = kept.Files("refused")
	}
	return l, err
}

// target finds the targets of redirects by the URL rules of a crawl.
func target(form canon.Options) history.Target {
	return func(r *record.Fetch) (string, uint64, bool) {
		url, _, key, err := form.Redirect(r.URL, r.RedirectURL)
		return url, key, err == nil
	}
}

// brokenSince calls each for the links that are broken now, and that were missing or worked before.
func (c *Crawl) brokenSince(now *history.Links, then *crawl.RoundFiles, each func(*history.Broken) error) (unchecked history.Unchecked, err error) {
	before, err := c.links(then)
	if err != nil {
		return nil, err
	}
	before.Accept, before.Except = now.Accept, now.Except
	all := merge.NewSorter(HistoryMemory/8, "") // by hash: of then no payload, of now a number and the row
	defer func() { err = errors.Join(err, all.Close()) }()
	out := merge.NewSorter(HistoryMemory/8, "") // by number
	defer func() { err = errors.Join(err, out.Close()) }()
	hash := func(b *history.Broken) uint64 {
		return xxh3.HashString(strings.Join([]string{b.Page, b.Kind, b.Text, b.URL}, "\x00"))
	}
	_, err = before.Each(HistoryMemory/3, func(b *history.Broken) error { return all.Add(hash(b), nil) })
	if err != nil {
		return nil, err
	}
	number := uint64(0)
	unchecked, err = now.Each(HistoryMemory/3, func(b *history.Broken) error {
		row, err := json.Marshal(numberedLink{number, b})
		number++
		return errors.Join(err, all.Add(hash(b), row))
	})
	if err != nil {
		return nil, err
	}
	sorted, err := all.Sort()
	if err != nil {
		return nil, err
	}
	var was uint64
	some := false
	err = sorted.Each(func(key uint64, row []byte) error {
		if len(row) == 0 {
			was, some = key, true
			return nil
		}
		if some && was == key {
			return nil
		}
		var n numberedLink
		if err := json.Unmarshal(row, &n); err != nil {
			return err
		}
		return out.Add(n.Number, row)
	})
	if err != nil {
		return nil, err
	}
	return unchecked, eachLink(out, each)
}

// eachLink gives to each the links of a sorter of numberedLink.
func eachLink(s *merge.Sorter, each func(*history.Broken) error) error {
	sorted, err := s.Sort()
	if err != nil {
		return err
	}
	return sorted.Each(func(_ uint64, row []byte) error {
		var n numberedLink
		if err := json.Unmarshal(row, &n); err != nil {
			return err
		}
		return each(n.Link)
	})
}

// numberedLink is a broken link while it is sorted.
type numberedLink struct {
	Number uint64          `json:"n"`
	Link   *history.Broken `json:"l"`
}

func (s *BrokenLinks) String() string {
	text := Count(s.Links, "broken link")
	if s.Targets < s.Links {
		text += " to " + Count(s.Targets, "URL")
	}
	switch {
	case s.Seeds == 0:
		return text + " on " + Count(s.Pages, "page")
	case s.Seeds == s.Links:
		return text + " among the seeds"
	}
	return fmt.Sprintf("%s on %s, %d of them among the seeds", text, Count(s.Pages, "page"), s.Seeds)
}

// Text tells the counts of what was not checked.
func (s *BrokenLinks) Text() string {
	var parts []string
	for _, c := range s.Unchecked {
		parts = append(parts, Grouped(c.N)+" "+c.Reason)
	}
	if s.Copies > 0 {
		parts = append(parts, "links on "+Count(s.Copies, "duplicate page")+" (read with extract.duplicates=true)")
	}
	return strings.Join(parts, ", ")
}
