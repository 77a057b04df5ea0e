package stats

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/zeebo/xxh3"

	"mercator/formats/record"
	"mercator/pkg/merge"
)

// Comparison counts the pages of one crawl by how they differ from those of another, in the words of Meaning: of each URL its last outcome counts, and
// its content. URLs are told apart by 64-bit hashes of their text, since crawls may have other keys.
type Comparison struct {
	New      uint64       `json:"new"`
	Changed  uint64       `json:"changed"`
	Gone     uint64       `json:"gone"`
	Failed   uint64       `json:"failed"`
	Same     uint64       `json:"same"`     // the same document in both, or none in either
	Examples []Difference `json:"examples"` // up to MaxExamples of each kind
}

// Difference is a URL that differs.
type Difference struct {
	What  string `json:"what"` // a word of Meaning
	URL   string `json:"url"`
	Here  string `json:"here,omitempty"` // outcome, and status
	There string `json:"there,omitempty"`
}

// MaxExamples bounds the examples of each kind.
const MaxExamples = 50

// Compare counts what Differences finds.
func Compare(mem int64, here, there func(row func(*record.Fetch) error) error) (*Comparison, error) {
	out, examples := new(Comparison), map[string]int{}
	counts := map[string]*uint64{"new": &out.New, "changed": &out.Changed, "gone": &out.Gone, "failed": &out.Failed, "": &out.Same}
	err := Differences(mem, here, there, func(what string, a, b *record.Fetch) error {
		*counts[what]++
		if examples[what]++; what != "" && examples[what] <= MaxExamples {
			d := Difference{What: what, URL: cmp.Or(a, b).URL}
			if a != nil {
				d.Here = Became(a.Outcome, a.Status)
			}
			if b != nil {
				d.There = Became(b.Outcome, b.Status)
			}
			out.Examples = append(out.Examples, d)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out.Examples, func(a, b Difference) int {
		return cmp.Or(strings.Compare(a.What, b.What), strings.Compare(a.URL, b.URL))
	})
	return out, nil
}

// Became is an outcome as people read it, with the status of the reply, if there was one. A page that is not there was answered, not fetched.
func Became(outcome string, status uint16) string {
	if status == 0 {
		return outcome
	}
	if outcome == record.OutcomeFetched && status >= 300 {
		outcome = "answered"
	}
	return outcome + " " + strconv.Itoa(int(status))
}

// Differences compares two crawls, or two states of one, in about mem bytes of memory. here and there give the rows of a side in the order in which
// they were made; only rows of pages count. It calls each with the last row of a URL on both sides, with the columns that say where its
// document is, or nil if a side lacks the URL. what is a word of Meaning. A row "not modified" does not
// replace the row before. URLs come in the order of their hashes.
func Differences(mem int64, here, there func(row func(*record.Fetch) error) error, each func(what string, here, there *record.Fetch) error) (err error) {
	sorter := merge.NewSorter(mem, "")
	defer func() { err = errors.Join(err, sorter.Close()) }()
	var buf []byte
	for side, rows := range []func(func(*record.Fetch) error) error{here, there} {
		if err := rows(func(r *record.Fetch) error {
			if !r.OfPage() || r.Outcome == record.OutcomeDeferred || r.Outcome == record.OutcomeParked {
				return nil
			}
			buf = record.AppendRow(append(buf[:0], byte(side)), &record.Fetch{URL: r.URL, Key: r.Key, Host: r.Host, Role: r.Role, FetchTime: r.FetchTime, DurationUS: r.DurationUS, Outcome: r.Outcome, Status: r.Status,
				MIME: r.MIME, Charset: r.Charset, BodyLength: r.BodyLength, Truncated: r.Truncated, ContentFP: r.ContentFP, PayloadSHA1: r.PayloadSHA1, RedirectURL: r.RedirectURL,
				WARCFilename: r.WARCFilename, WARCOffset: r.WARCOffset, WARCLength: r.WARCLength})
			return sorter.Add(xxh3.HashString(r.URL), buf)
		}); err != nil {
			return err
		}
	}
	it, err := sorter.Sort()
	if err != nil {
		return err
	}
	var of uint64
	var last, good [2]*record.Fetch // good: the last that was a document
	finish := func() error {
		a, b := last[0], last[1]
		if a == nil && b == nil {
			return nil
		}
		other := a != nil && b != nil && a.PayloadSHA1 != b.PayloadSHA1 && (a.ContentFP != b.ContentFP || a.ContentFP == 0) // of a body that was packed in another way only the digest differs
		last, good = [2]*record.Fetch{}, [2]*record.Fetch{}
		return each(Meaning(other, a, b), a, b)
	}
	if err := it.Each(func(key uint64, row []byte) error {
		if key != of {
			if err := finish(); err != nil {
				return err
			}
			of = key
		}
		r, l, g := new(record.Fetch), &last[row[0]], &good[row[0]] // rows of one key come in their order
		if _, err := record.ParseRow(string(row[1:]), r, nil); err != nil {
			return err
		}
		switch {
		case r.Outcome != record.OutcomeNotModified:
			*l = r
		case *g != nil: // which has not been modified, whatever was answered between
			*l = *g
		case *l == nil:
			*l = r
		}
		if document(r) {
			*g = r
		}
		return nil
	}); err != nil {
		return err
	}
	return finish()
}

// Meaning says what a difference means for who reads the page: it is "new", "changed" (to other content), "gone" (there is no document, or a redirect), or
// "failed", for another reason that may pass. "" is nothing: there was no document before either, or it is the same.
func Meaning(other bool, now, before *record.Fetch) string {
	is, was := now != nil && document(now), before != nil && document(before)
	switch {
	case is && was && other:
		return "changed"
	case is && !was:
		return "new"
	case is || !was:
		return ""
	case now == nil || now.Outcome == record.OutcomeFetched && now.Status < 500:
		return "gone"
	}
	return "failed"
}
