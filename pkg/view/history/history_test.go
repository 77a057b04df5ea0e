package history

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
)

// write makes a file of rows.
func write[T record.Row](t *testing.T, like *record.Schema, rows ...T) string {
	t.Helper()
	return recordtest.File(t, filepath.Join(t.TempDir(), "rows"), like, rows...)
}

var (
	linkRefused = record.NewSchema(record.KindLink, record.Column{Name: RefusedColumn, Text: true})
	urlRefused  = record.NewSchema(record.KindURL, record.Column{Name: RefusedColumn, Text: true})
)

func link(url, from, rule string) record.Link {
	return record.Link{URL: url, SrcURL: from, Host: "h", Extra: linkRefused.Texts(func(string) string { return rule })}
}

func dropped(url, rule string) record.URL {
	return record.URL{URL: url, Host: "h", Via: "via", Attempt: 2, Due: 5, Extra: urlRefused.Texts(func(string) string { return rule })}
}

func page(url, outcome string, at record.Time) record.Fetch {
	return record.Fetch{URL: url, Host: "h", Role: record.RolePage, Outcome: outcome, FetchTime: at, Status: 200, Depth: 3, ETag: "tag", ContentFP: 7, X: `{"id":1}`}
}

// What happened to four URLs, over three rounds.
func files(t *testing.T) []File {
	return []File{
		{write(t, linkRefused, link("a", "p1", "filter:docs"), link("a", "p2", "filter:docs"), link("b", "p1", "filter:docs"), link("x", "p1", "scheme")), Refused},
		{write(t, nil, page("c", record.OutcomeTimeout, 10), page("d", record.OutcomeFetched, 10), page("e", record.OutcomeTimeout, 10)), Fetched},
		{write(t, linkRefused, link("a", "p3", "filter:pics"), link("d", "p3", "filter:docs")), Refused},
		{write(t, urlRefused, dropped("f", "filter:docs"), dropped("g", "filter:docs"), dropped("e", "filter:pics")), Dropped},
		{write(t, nil, record.URL{URL: "b", Host: "h"}), Queued},
		{write(t, nil, page("c", record.OutcomeFetched, 20), page("g", record.OutcomeFetched, 20)), Fetched},
	}
}

// Each URL that was not followed stands there once, where it was found first, with the last rule; what was followed does not.
func TestRefusals(t *testing.T) {
	for rule, want := range map[string][]string{
		"":            {"a filter:pics p1", "x scheme p1", "f filter:docs via", "e filter:pics via"},
		"docs":        {"f filter:docs via"},
		"filter:docs": {"f filter:docs via"},
		"scheme":      {"x scheme p1"},
		"none":        nil,
	} {
		t.Run(rule, func(t *testing.T) {
			var got []string
			if err := Refusals(func() ([]File, error) { return files(t), nil }, rule, nil, 1<<20, func(r *Refusal) error {
				got = append(got, r.URL+" "+r.Rule+" "+r.Found)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q: %q, want %q", rule, got, want)
			}
		})
	}
	var got []string
	if err := RefusedLinks(files(t), "docs", 1<<20, func(l *record.Link) error {
		got = append(got, l.URL+" "+l.SrcURL)
		return nil
	}); err != nil || !slices.Equal(got, []string{"a p1", "b p1", "d p3"}) {
		t.Errorf("%q, %v", got, err)
	}
}

// What a limit dropped was found, and neither waits nor has an outcome. Two spellings of one key are one URL.
func TestRefusalsLimited(t *testing.T) {
	key := func(l record.Link, key uint64) record.Link { l.Key = key; return l }
	found := write(t, nil, link("a", "p3", ""), link("b", "p3", ""), link("c", "p3", ""), link("deep", "p3", ""), link("deep", "p4", ""), link("waits", "p3", ""),
		key(link("one/", "p3", ""), 7), key(link("one", "p4", ""), 7), link("f", "p3", ""))
	limited := &Limited{Reason: "too-deep" + ReasonOr + "host-full", Links: []string{found}, Waiting: func(each func(*record.URL) error) error {
		return errors.Join(each(&record.URL{URL: "waits"}), each(&record.URL{URL: "one", Key: 7}))
	}}
	for rule, want := range map[string][]string{
		"":          {"x scheme p1", "f filter:docs via", "e filter:pics via", "b too-deep|host-full ", "a too-deep|host-full p3", "deep too-deep|host-full p3"},
		"host-full": {"b too-deep|host-full ", "a too-deep|host-full p3", "deep too-deep|host-full p3"},
		"too-deep":  {"b too-deep|host-full ", "a too-deep|host-full p3", "deep too-deep|host-full p3"},
		"docs":      {"f filter:docs via"},

		"too-deep|host-full": {"b too-deep|host-full ", "a too-deep|host-full p3", "deep too-deep|host-full p3"},
	} {
		var got []string
		if err := Refusals(func() ([]File, error) { return files(t), nil }, rule, limited, 1<<20, func(r *Refusal) error {
			got = append(got, r.URL+" "+r.Rule+" "+r.Found)
			return nil
		}); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", rule, got, err, want)
		}
	}
}

// What happened last decides which URLs are to be fetched again.
func TestAgain(t *testing.T) {
	list := func(urls ...string) func(func(*record.URL) error) error {
		return func(each func(*record.URL) error) error {
			for _, u := range urls {
				if err := each(&record.URL{URL: u, Host: "h", Key: uint64(u[0])}); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for name, tt := range map[string]struct {
		q    Query
		want []string
	}{
		"outcome":  {Query{Outcomes: []string{record.OutcomeTimeout}}, nil}, // c was fetched since, e was dropped
		"fetched":  {Query{Outcomes: []string{record.OutcomeFetched}}, []string{"d 3 fetched", "c 3 fetched", "g 3 fetched"}},
		"refused":  {Query{Outcomes: []string{record.OutcomeRefused}}, []string{"f 0 refused", "e 0 refused"}},
		"status":   {Query{Statuses: []uint16{404, 200}}, []string{"d 3 fetched", "c 3 fetched", "g 3 fetched"}},
		"class":    {Query{Statuses: []uint16{2}, Before: 15}, []string{"d 3 fetched"}},
		"no class": {Query{Statuses: []uint16{4, 201}}, nil},
		"neither":  {Query{Statuses: []uint16{2}, Outcomes: []string{record.OutcomeRefused, record.OutcomeTimeout}}, nil},
		"older":    {Query{Before: 15}, []string{"d 3 fetched"}},
		"rule":     {Query{Rule: "docs"}, []string{"f 0 refused"}},
		"found":    {Query{Listed: list("z", "c", "y"), Links: []string{write(t, nil, record.Link{URL: "c", Key: 'c', SrcURL: "p", Depth: 1}, record.Link{URL: "z", Key: 'z', SrcURL: "p", Depth: 2}, record.Link{URL: "z", Key: 'z', SrcURL: "q", Depth: 4})}}, []string{"c 3 fetched", "z 2 p", "y 0 "}},
		"listed":   {Query{Listed: list("g", "z", "g", "e", "b")}, []string{"e 0 refused", "b 0 ", "g 3 fetched", "z 0 "}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			if err := Again(files(t), tt.q, 1<<20, func(u *record.URL) error {
				if u.Attempt != 0 || u.Due != 0 {
					t.Errorf("%s: failures are left: %+v", name, u)
				}
				if (u.Depth == 3) != (u.ETag == "tag" && u.LastContentFP == 7) {
					t.Errorf("%s: %+v", name, u)
				}
				if (u.Depth == 3) != (u.X == `{"id":1}`) {
					t.Errorf("%s: own columns %q of %s", name, u.X, u.URL)
				}
				via := u.Via
				if u.Extra.Text(record.WasColumn) != "" {
					via = u.Extra.Text(record.WasColumn)
				}
				got = append(got, fmt.Sprint(u.URL, " ", u.Depth, " ", via))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%s: %q, want %q", name, got, tt.want)
			}
		})
	}
}

// A page that was not modified answered 304, and still has its document of status 200.
func TestAgainNotModified(t *testing.T) {
	row := page("same", record.OutcomeNotModified, 10)
	row.Status = 304
	gone := page("gone", record.OutcomeFetched, 10)
	gone.Status = 410
	in := []File{{write(t, nil, row, gone, page("timeout", record.OutcomeTimeout, 10)), Fetched}}
	for status, want := range map[uint16][]string{304: {"same"}, 3: {"same"}, 200: {"same"}, 2: {"same"}, 4: {"gone"}, 201: nil} {
		var got []string
		if err := Again(in, Query{Statuses: []uint16{status}}, 1<<20, func(u *record.URL) error {
			got = append(got, u.URL)
			return nil
		}); err != nil || !slices.Equal(got, want) {
			t.Errorf("%d: %q, %v, want %q", status, got, err, want)
		}
	}
}

// What failed is asked for again by its age, too, and what has no age.
func TestAgainOlder(t *testing.T) {
	rows := []record.Fetch{page("fetched", record.OutcomeFetched, 10), page("young", record.OutcomeFetched, 20), page("timeout", record.OutcomeTimeout, 10), page("dns", record.OutcomeDNS, 0),
		page("robots", record.OutcomeRobotsDenied, 10), page("parked", record.OutcomeParked, 10), page("refused", record.OutcomeAddress, 10)}
	var got []string
	if err := Again([]File{{write(t, nil, rows...), Fetched}}, Query{Before: 15}, 1<<20, func(u *record.URL) error {
		got = append(got, u.URL)
		return nil
	}); err != nil || !slices.Equal(got, []string{"fetched", "timeout", "dns"}) {
		t.Errorf("%q, %v", got, err)
	}
}

// More rows than memory holds give the same.
func TestManyRows(t *testing.T) {
	var rows []record.Fetch
	const n = 60_000
	for i := range n {
		rows = append(rows, page(fmt.Sprintf("http://h/%d", i%(n/2)), []string{record.OutcomeTimeout, record.OutcomeFetched}[i/(n/2)], 10))
	}
	got := 0
	if err := Again([]File{{write(t, nil, rows...), Fetched}}, Query{Outcomes: []string{record.OutcomeFetched}}, 1<<20, func(u *record.URL) error {
		if want := fmt.Sprintf("http://h/%d", got); u.URL != want {
			return fmt.Errorf("%s, want %s", u.URL, want)
		}
		got++
		return nil
	}); err != nil || got != n/2 {
		t.Errorf("%d URLs, %v", got, err)
	}
}
