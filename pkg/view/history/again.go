package history

import (
	"cmp"
	"net/http"
	"slices"

	"mercator/formats/record"
)

// Query says which URLs are to be fetched again: those that meet all conditions given.
type Query struct {
	Outcomes []string    // their last outcome is one of these, or OutcomeCut; none: any
	Statuses []uint16    // their last reply has one of these statuses, or classes (5 is 500 to 599), as status has it; none: any
	Before   record.Time // their server was asked last before then, or had no address; 0: at any time
	Rule     string      // they waited, and left the queue because this rule refused them; "": not so
	// Listed, if not nil, are the URLs in question, each with all that is known of it otherwise.
	Listed func(each func(*record.URL) error) error
	// Links are files of link rows. A listed URL that no other file has is known by the first link to it, with its depth.
	Links []string
}

// OutcomeCut names in a Query the pages whose document is not there to its end.
const OutcomeCut = "cut"

// of reports whether an outcome is one of those asked for.
func (q *Query) of(r *record.Fetch) bool {
	switch {
	case q.Rule != "" || len(q.Outcomes) > 0 && !slices.Contains(q.Outcomes, r.Outcome) && (r.Truncated == "" || r.Status >= 300 || !slices.Contains(q.Outcomes, OutcomeCut)):
		return false
	case len(q.Statuses) > 0 && !q.status(r):
		return false
	case q.Before > 0:
		_, asked := (&Links{}).failed(r)
		return asked && r.FetchTime < q.Before
	}
	return true
}

// status reports whether a reply has one of the statuses asked for. A page that was not modified has two: that of the reply, and 200, of the
// document that it still has.
func (q *Query) status(r *record.Fetch) bool {
	is := func(status uint16) bool {
		return slices.Contains(q.Statuses, status) || slices.Contains(q.Statuses, status/100)
	}
	return r.Outcome == record.OutcomeFetched && is(r.Status) || r.Outcome == record.OutcomeNotModified && (is(http.StatusNotModified) || is(http.StatusOK))
}

// dropped reports whether the outcome asked for is that a rule refused the URL while it waited.
func (q *Query) dropped(u *record.URL) bool {
	return q.Rule != "" && refusedBy(u.Extra.Text(RefusedColumn), q.Rule) ||
		slices.Contains(q.Outcomes, record.OutcomeRefused) && len(q.Statuses) == 0 && q.Before == 0
}

// Was is the schema of what Again gives: each URL has the outcome that is to be taken back when it waits once more.
var Was = record.NewSchema(record.KindURL, record.Column{Name: record.WasColumn, Text: true})

// last has what is known of a URL.
type last struct {
	number uint64
	row    []byte // nil: what happened last is not what was asked for
	listed bool
}

// Again gives to each the URLs of a query as they are to be queued: with what the last fetch tells of a document that is
// there, so that it can be asked for conditionally, and without failures. Some mem bytes are taken.
func Again(files []File, q Query, mem int64, each func(*record.URL) error) error {
	s := newSorting(mem)
	add := func(kind What, u *record.URL, wanted bool) error {
		return s.addEvent(kind, u.URL, func(b []byte) []byte {
			if !wanted {
				return b
			}
			return record.AppendRow(b, u)
		})
	}
	for _, f := range files {
		var err error
		switch f.What {
		case Queued:
			err = Read(f.Path, func(u *record.URL) error { return add(f.What, plain(u, ""), q.Listed != nil) })
		case Dropped:
			err = Read(f.Path, func(u *record.URL) error {
				return add(f.What, plain(u, record.OutcomeRefused), q.Listed != nil || q.dropped(u))
			})
		case Fetched:
			err = Read(f.Path, func(r *record.Fetch) error {
				if r.Role != record.RolePage {
					return nil
				}
				return add(f.What, again(r), q.Listed != nil || q.of(r))
			})
		}
		if err != nil {
			s.events.Close()
			return err
		}
	}
	if q.Listed != nil {
		err := q.eachLink(files, func(l *record.Link) error {
			u := l.ToURL()
			return add(Found, plain(&u, ""), true)
		})
		if err == nil {
			err = q.Listed(func(u *record.URL) error { return add(listed, u, true) })
		}
		if err != nil {
			s.events.Close()
			return err
		}
	}
	step := func(l *last, e *event) {
		if e.kind == Found && l.number > 0 {
			return // an earlier link is
		}
		if e.kind == listed {
			if l.listed = true; l.row != nil {
				return // it is known better
			}
		}
		l.number, l.row = e.number, nil
		if e.further != "" {
			l.row = []byte(e.further)
		}
	}
	end := func(_ string, l *last) (uint64, []byte) {
		if l.row == nil || q.Listed != nil && !l.listed {
			return 0, nil
		}
		return l.number, l.row
	}
	return fold(s, step, end, func(row []byte) error {
		var u record.URL
		if _, err := record.ParseRow(string(row), &u, Was); err != nil {
			return err
		}
		return each(&u)
	})
}

// eachLink calls each for the links to listed URLs that no file has, and to others where these are many. Where there is no such URL, no link is read.
func (q *Query) eachLink(files []File, each func(*record.Link) error) error {
	missing := keys{}
	if err := q.Listed(func(u *record.URL) error { missing.addKey(u.Key); return nil }); err != nil || len(q.Links) == 0 {
		return err
	}
	many := len(missing) == maxKeys
	for _, f := range files {
		var err error
		switch {
		case many || len(missing) == 0:
		case f.What == Queued, f.What == Dropped:
			err = Read(f.Path, func(u *record.URL) error { delete(missing, u.Key); return nil })
		case f.What == Fetched:
			err = Read(f.Path, func(r *record.Fetch) error { delete(missing, r.Key); return nil })
		}
		if err != nil {
			return err
		}
	}
	if len(missing) == 0 {
		return nil
	}
	for _, path := range q.Links {
		if err := Read(path, func(l *record.Link) error {
			if !missing.may(l.Key) {
				return nil
			}
			return each(l)
		}); err != nil {
			return err
		}
	}
	return nil
}

// plain is a URL without what is of its round, and with the outcome that it had.
func plain(u *record.URL, was string) *record.URL {
	p := *u
	p.Attempt, p.Due, p.Addr, p.AddrExpires, p.AddrError, p.Extra = 0, 0, "", 0, "", had(was)
	return &p
}

func had(outcome string) record.Extra { return Was.Texts(func(string) string { return outcome }) }

// again is the row of a URL that was fetched.
func again(r *record.Fetch) *record.URL {
	u := r.ToURL()
	u.Extra = had(r.Outcome)
	if r.Outcome == record.OutcomeNotModified || r.Outcome == record.OutcomeFetched && r.Status >= 200 && r.Status < 300 && r.Truncated == "" {
		u.ETag, u.LastModified, u.LastContentFP = r.ETag, r.LastModified, cmp.Or(r.ContentFP, r.LastContentFP)
	}
	return &u
}
