package stats

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/zeebo/xxh3"

	"mercator/formats/record"
	"mercator/pkg/merge"
)

// Comparison says how the URLs of one crawl differ from those of another: of each URL its last outcome counts, and
// the digest of its payload. URLs are told apart by 64-bit hashes of their text, since crawls may have other keys.
type Comparison struct {
	Appeared  uint64       `json:"appeared"`  // URLs of this crawl alone
	Went      uint64       `json:"went"`      // URLs of the other alone
	Changed   uint64       `json:"changed"`   // documents in both, of other content
	Otherwise uint64       `json:"otherwise"` // another outcome or status
	Same      uint64       `json:"same"`
	Examples  []Difference `json:"examples"` // up to MaxExamples of each kind
}

// Difference is a URL that differs.
type Difference struct {
	What  string `json:"what"` // "appeared", "went", "changed" or "otherwise"
	URL   string `json:"url"`
	Here  string `json:"here,omitempty"` // outcome, and status
	There string `json:"there,omitempty"`
}

// MaxExamples bounds the examples of each kind.
const MaxExamples = 50

// Compare compares two crawls in about mem bytes of memory. Each is a function that gives its rows, of which only those
// of pages count, in the order in which they were made.
func Compare(mem int64, here, there func(row func(*record.Fetch) error) error) (_ *Comparison, err error) {
	sorter := merge.NewSorter(mem, "")
	defer func() { err = errors.Join(err, sorter.Close()) }()
	var buf []byte
	for side, each := range []func(func(*record.Fetch) error) error{here, there} {
		if err := each(func(r *record.Fetch) error {
			if !r.OfPage() || r.Outcome == record.OutcomeDeferred || r.Outcome == record.OutcomeParked {
				return nil
			}
			became := r.Outcome
			if r.Status != 0 {
				became += " " + strconv.Itoa(int(r.Status))
			}
			buf = append(buf[:0], byte(side), byte(len(became)))
			buf = binary.LittleEndian.AppendUint64(append(buf, became...), xxh3.HashString(r.PayloadSHA1))
			return sorter.Add(xxh3.HashString(r.URL), append(buf, r.URL...))
		}); err != nil {
			return nil, err
		}
	}
	it, err := sorter.Sort()
	if err != nil {
		return nil, err
	}
	out, examples := new(Comparison), map[string]int{}
	var of uint64
	var last [2]visit
	differs := func(n *uint64, what, url string) {
		*n++
		if examples[what]++; examples[what] <= MaxExamples {
			out.Examples = append(out.Examples, Difference{what, url, last[0].became, last[1].became})
		}
	}
	finish := func() {
		a, b := last[0], last[1]
		switch {
		case !a.there && !b.there:
		case !b.there:
			differs(&out.Appeared, "appeared", a.url)
		case !a.there:
			differs(&out.Went, "went", b.url)
		case a.became != b.became:
			differs(&out.Otherwise, "otherwise", a.url)
		case a.content != b.content:
			differs(&out.Changed, "changed", a.url)
		default:
			out.Same++
		}
		last = [2]visit{}
	}
	if err := it.Each(func(key uint64, row []byte) error {
		if key != of {
			finish()
			of = key
		}
		v, l := visitOf(row[1:]), &last[row[0]] // rows of one key come in their order
		if !l.there || !strings.HasPrefix(v.became, record.OutcomeNotModified) {
			*l = v
		}
		return nil
	}); err != nil {
		return nil, err
	}
	finish()
	slices.SortFunc(out.Examples, func(a, b Difference) int {
		return cmp.Or(strings.Compare(a.What, b.What), strings.Compare(a.URL, b.URL))
	})
	return out, nil
}

// visit is what became of a URL. Not modified leaves what was there before.
type visit struct {
	there       bool
	became, url string
	content     uint64
}

func visitOf(row []byte) visit {
	n := int(row[0])
	return visit{true, string(row[1 : 1+n]), string(row[9+n:]), binary.LittleEndian.Uint64(row[1+n:])}
}
