package history

import (
	"slices"

	"mercator/formats/record"
)

// Refusal is a URL that was not followed.
type Refusal struct {
	URL   string `json:"url"`
	Found string `json:"found_on,omitempty"` // the first page with a link to it
	Rule  string `json:"rule"`               // the ledger's reason for the last time that it was refused, such as filter:docs of rule docs
}

// refusal is the state of a URL in the search for refusals.
type refusal struct {
	number   uint64 // number of the first refusal
	followed bool
	found    string
	rule     string
}

// Refusals gives to each, in the order in which they were first refused, the URLs that were refused and not followed
// afterwards or before. rule, if not "", is the only one that counts. Some mem bytes are taken.
func Refusals(files []File, rule string, mem int64, each func(*Refusal) error) error {
	s := newSorting(mem)
	for _, f := range files {
		var err error
		refused := func(url, found string, x record.Extra) error {
			return s.addEvent(f.What, url, func(b []byte) []byte { return record.AppendText(record.AppendText(b, x.Text(RefusedColumn)), found) })
		}
		switch f.What {
		case Queued:
			err = Read(f.Path, func(u *record.URL) error { return s.addEvent(f.What, u.URL, nil) })
		case Dropped:
			err = Read(f.Path, func(u *record.URL) error { return refused(u.URL, u.Via, u.Extra) })
		case Fetched:
			err = Read(f.Path, func(r *record.Fetch) error {
				if r.Role != record.RolePage {
					return nil
				}
				return s.addEvent(f.What, r.URL, nil)
			})
		case Refused:
			err = Read(f.Path, func(l *record.Link) error { return refused(l.URL, l.SrcURL, l.Extra) })
		}
		if err != nil {
			s.events.Close()
			return err
		}
	}
	step := func(r *refusal, e *event) {
		switch e.kind {
		case Queued, Fetched:
			*r = refusal{followed: true}
			return
		case Dropped:
			r.followed = false
		}
		if r.followed {
			return
		}
		by, rest := record.CutText(e.further)
		found, _ := record.CutText(rest)
		if r.number == 0 {
			r.number, r.found = e.number, found
		}
		r.rule = by
	}
	end := func(url string, r *refusal) (uint64, []byte) {
		if r.number == 0 || rule != "" && !refusedBy(r.rule, rule) {
			return 0, nil
		}
		return r.number, record.AppendText(record.AppendText(record.AppendText(nil, url), r.rule), r.found)
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
