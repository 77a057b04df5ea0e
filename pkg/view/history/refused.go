package history

import (
	"slices"
	"strconv"

	"mercator/formats/record"
)

// Refusal is a URL that was not followed.
type Refusal struct {
	URL   string `json:"url"`
	Found string `json:"found_on,omitempty"` // the first page with a link to it
	Rule  string `json:"rule"`               // the ledger's reason for the last time that it was refused, such as filter:docs of rule docs
}

// Limited are the URLs that a limit of new URLs dropped. No file names them: they were found, and neither waited nor had an outcome.
type Limited struct {
	Reason  string   // why, such as too-deep; of several that it may be, with ReasonOr between
	Links   []string // files of link rows that were followed, in closed rounds
	Waiting func(each func(*record.URL) error) error
}

// ReasonOr stands between the reasons of Limited.
const ReasonOr = "|"

// refusal is the state of a URL in the search for refusals.
type refusal struct {
	number   uint64 // number of the first refusal
	known    bool   // the set of URLs has it
	followed bool
	waits    bool
	url      string
	found    string
	rule     string
}

// Refusals gives to each, in the order in which they were first refused, the URLs that were refused and not followed
// afterwards or before. rule, if not "", is the only one that counts. With limited those that a limit dropped are among them; files is
// called when what waits was read, so that a URL that a running crawl fetches meanwhile is in either. Some mem bytes are taken.
func Refusals(files func() ([]File, error), rule string, limited *Limited, mem int64, each func(*Refusal) error) error {
	s := newSorting(mem)
	if err := readRefusals(s, files, limited); err != nil {
		s.events.Close()
		return err
	}
	reason := ""
	if limited != nil {
		reason = limited.Reason
	}
	step := func(r *refusal, e *event) {
		url, rest := record.CutText(e.further)
		by, rest := record.CutText(rest)
		found, _ := record.CutText(rest)
		switch {
		case e.kind == waits:
			r.waits = true
			return
		case e.kind == Fetched:
			*r = refusal{known: true, followed: true, waits: r.waits}
			return
		case e.kind == Queued, e.kind == Found && !r.known:
			*r = refusal{number: e.number, known: true, waits: r.waits, url: url, found: found, rule: reason}
			return
		case e.kind == Found, e.kind == Refused && (r.followed || r.known && r.rule == reason):
			return
		case e.kind == Dropped && r.rule == reason:
			*r = refusal{waits: r.waits}
		}
		if e.kind == Dropped {
			r.known, r.followed = true, false
		}
		if r.number == 0 {
			r.number, r.url, r.found = e.number, url, found
		}
		r.rule = by
	}
	end := func(_ string, r *refusal) (uint64, []byte) {
		if r.followed || r.number == 0 || r.rule == "" || r.waits && r.rule == reason || rule != "" && !refusedBy(r.rule, rule) {
			return 0, nil
		}
		return r.number, record.AppendText(record.AppendText(record.AppendText(nil, r.url), r.rule), r.found)
	}
	return fold(s, step, end, func(row []byte) error {
		var r Refusal
		var rest string
		r.URL, rest = record.CutText(string(row))
		r.Rule, rest = record.CutText(rest)
		r.Found, _ = record.CutText(rest)
		return each(&r)
	})
}

// readRefusals gives to s what Refusals needs to know. Spellings that the crawl takes for one URL have one key.
func readRefusals(s *sorting, files func() ([]File, error), limited *Limited) error {
	add := func(kind What, key uint64, url, rule, found string) error {
		id := url
		if key != 0 {
			id = strconv.FormatUint(key, 16)
		}
		return s.addEvent(kind, id, func(b []byte) []byte {
			return record.AppendText(record.AppendText(record.AppendText(b, url), rule), found)
		})
	}
	if limited != nil {
		if err := limited.Waiting(func(u *record.URL) error { return add(waits, u.Key, u.URL, "", "") }); err != nil {
			return err
		}
	}
	all, err := files()
	if err != nil {
		return err
	}
	for _, f := range all {
		switch f.What {
		case Queued:
			err = Read(f.Path, func(u *record.URL) error { return add(f.What, u.Key, u.URL, "", u.Via) })
		case Dropped:
			err = Read(f.Path, func(u *record.URL) error { return add(f.What, u.Key, u.URL, u.Extra.Text(RefusedColumn), u.Via) })
		case Fetched:
			err = Read(f.Path, func(r *record.Fetch) error {
				if r.Role != record.RolePage {
					return nil
				}
				return add(f.What, r.Key, r.URL, "", "")
			})
		case Refused:
			err = Read(f.Path, func(l *record.Link) error { return add(f.What, l.Key, l.URL, l.Extra.Text(RefusedColumn), l.SrcURL) })
		}
		if err != nil {
			return err
		}
	}
	if limited == nil {
		return nil
	}
	for _, path := range limited.Links {
		if err := Read(path, func(l *record.Link) error { return add(Found, l.Key, l.URL, "", l.SrcURL) }); err != nil {
			return err
		}
	}
	return nil
}

// RefusedLinks gives to each the first link to each URL that rule refused, without the column.
func RefusedLinks(files []File, rule string, mem int64, each func(*record.Link) error) error {
	s := newSorting(mem)
	for _, f := range files {
		if f.What != Refused {
			continue
		}
		if err := Read(f.Path, func(l *record.Link) error {
			if !refusedBy(l.Extra.Text(RefusedColumn), rule) {
				return nil
			}
			l.Extra = record.Extra{}
			return s.addEvent(f.What, l.URL, func(b []byte) []byte { return record.AppendRow(b, l) })
		}); err != nil {
			s.events.Close()
			return err
		}
	}
	type first struct {
		number uint64
		row    []byte
	}
	step := func(f *first, e *event) {
		if f.number == 0 {
			f.number, f.row = e.number, slices.Clone([]byte(e.further))
		}
	}
	end := func(_ string, f *first) (uint64, []byte) { return f.number, f.row }
	return fold(s, step, end, func(row []byte) error {
		var l record.Link
		if _, err := record.ParseRow(string(row), &l, nil); err != nil {
			return err
		}
		return each(&l)
	})
}
