package history

import (
	"cmp"
	"slices"

	"mercator/formats/record"
)

// Query says which URLs are to be fetched again: those of which all that is given holds.
type Query struct {
	Outcomes []string    // their last outcome is one of these; none: any
	Before   record.Time // their last outcome is a document, or that it has not changed, had before then; 0: at any time
	Rule     string      // they waited, and left the queue because this rule refused them; "": not so
	// Listed, if not nil, are the URLs in question, each with all that is known of it otherwise.
	Listed func(each func(*record.URL) error) error
}

// of reports whether an outcome is one of those asked for.
func (q *Query) of(r *record.Fetch) bool {
	switch {
	case q.Rule != "" || len(q.Outcomes) > 0 && !slices.Contains(q.Outcomes, r.Outcome):
		return false
	case q.Before > 0:
		return (r.Outcome == record.OutcomeFetched || r.Outcome == record.OutcomeNotModified) && r.FetchTime < q.Before
	}
	return true
}

// last is what is known of a URL.
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
		return s.add(kind, u.URL, func(b []byte) []byte {
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
			err = read(f.Path, func(u *record.URL) error { return add(f.What, plain(u), q.Listed != nil) })
		case Dropped:
			err = read(f.Path, func(u *record.URL) error {
				return add(f.What, plain(u), q.Listed != nil || q.Rule != "" && u.Extra.Text(RefusedColumn) == q.Rule)
			})
		case Fetched:
			err = read(f.Path, func(r *record.Fetch) error {
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
		if err := q.Listed(func(u *record.URL) error { return add(listed, u, true) }); err != nil {
			s.events.Close()
			return err
		}
	}
	step := func(l *last, e *event) {
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
		if _, err := record.ParseRow(string(row), &u, nil); err != nil {
			return err
		}
		return each(&u)
	})
}

// plain is a URL without what is of its round, or of columns beside those of the format.
func plain(u *record.URL) *record.URL {
	p := *u
	p.Attempt, p.Due, p.Addr, p.AddrExpires, p.AddrError, p.Extra = 0, 0, "", 0, "", record.Extra{}
	return &p
}

// again is the row of a URL that was fetched.
func again(r *record.Fetch) *record.URL {
	u := &record.URL{URL: r.URL, Key: r.Key, Host: r.Host, Priority: r.Priority, Score: r.Score, Depth: r.Depth, Via: r.Via, Discovered: r.Discovered}
	if r.Outcome == record.OutcomeNotModified || r.Outcome == record.OutcomeFetched && r.Status >= 200 && r.Status < 300 && r.Truncated == "" {
		u.ETag, u.LastModified, u.LastContentFP = r.ETag, r.LastModified, cmp.Or(r.ContentFP, r.LastContentFP)
	}
	return u
}
