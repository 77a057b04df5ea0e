package stats

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"mercator/formats/record"
	"mercator/pkg/merge"
)

// MaxPages is how many HTML documents are read for Pages: of more, those with the smallest hashes of their URLs, which is a fair sample.
const MaxPages = 100_000

// maxShared is how many URLs Pages lists of each title.
const maxShared = 5

// Pages are figures of the documents that the last visits found.
type Pages struct {
	Documents uint64 `json:"documents"`
	HTML      uint64 `json:"html"` // documents of HTML
	Read      uint64 `json:"read"` // HTML documents that were read: the figures below are of these
	// Documents that lack something, and the first 100 of each kind.
	WithoutTitle       Lack `json:"without_title"`
	WithoutDescription Lack `json:"without_description"`
	WithoutLanguage    Lack `json:"without_language"`
	// Shared are titles of several documents: how many documents have one, and the 100 commonest.
	SharedTitles uint64  `json:"shared_titles"`
	Shared       []Title `json:"shared"`
	Slowest      []Page  `json:"slowest"` // of all documents, by the duration of the contact, the first 100
	Largest      []Page  `json:"largest"` // by decoded bytes, the first 100
}

// Lack counts documents that lack something.
type Lack struct {
	N    uint64   `json:"n"`
	URLs []string `json:"urls"` // some of them
}

func (l *Lack) addURL(url string) {
	if l.N++; len(l.URLs) < TopWorst {
		l.URLs = append(l.URLs, url)
	}
}

// Title is one that several documents have.
type Title struct {
	Title string   `json:"title"`
	N     uint64   `json:"n"`
	URLs  []string `json:"urls"` // the first few
}

// Page is a document.
type Page struct {
	URL        string `json:"url"`
	MIME       string `json:"type"`
	Bytes      int64  `json:"bytes"`
	DurationUS int64  `json:"duration_us"`
}

// PagesOf counts in about mem bytes of memory. rows gives the rows of a crawl, in their order; facts says what an HTML document has, and false if it cannot be read.
func PagesOf(mem int64, rows func(func(*record.Fetch) error) error, facts func(*record.Fetch) (title, description, language string, ok bool)) (p *Pages, err error) {
	p = new(Pages)
	titles := merge.NewSorter(mem/2, "") // by hash of the title
	defer func() { err = errors.Join(err, titles.Close()) }()
	url := func(p *Page) string { return p.URL }
	slowest := top[Page]{n: TopWorst, name: url, key: func(p *Page) float64 { return float64(p.DurationUS) }}
	largest := top[Page]{n: TopWorst, name: url, key: func(p *Page) float64 { return float64(p.Bytes) }}
	var buf []byte
	err = Differences(mem/2, rows, func(func(*record.Fetch) error) error { return nil }, func(_ string, r, _ *record.Fetch) error {
		if !document(r) {
			return nil
		}
		p.Documents++
		page := &Page{strings.Clone(r.URL), strings.Clone(r.MIME), r.BodyLength, r.DurationUS}
		slowest.add(page)
		largest.add(page)
		if r.MIME != "text/html" && r.MIME != "application/xhtml+xml" {
			return nil
		}
		if p.HTML++; p.Read >= MaxPages {
			return nil
		}
		title, description, language, ok := facts(r)
		if !ok {
			return nil
		}
		p.Read++
		if title == "" {
			p.WithoutTitle.addURL(page.URL)
		}
		if description == "" {
			p.WithoutDescription.addURL(page.URL)
		}
		if language == "" {
			p.WithoutLanguage.addURL(page.URL)
		}
		if title == "" {
			return nil
		}
		buf = record.AppendText(record.AppendText(buf[:0], title), page.URL)
		return titles.Add(xxh3.HashString(title), buf)
	})
	if err != nil {
		return nil, err
	}
	p.Slowest, p.Largest = slowest.rows(), largest.rows()
	it, err := titles.Sort()
	if err != nil {
		return nil, err
	}
	shared := top[Title]{n: TopWorst, name: func(t *Title) string { return t.Title }, key: func(t *Title) float64 { return float64(t.N) }}
	var t *Title
	finish := func() {
		if t != nil && t.N > 1 {
			p.SharedTitles += t.N
			shared.add(t)
		}
	}
	if err := it.Each(func(_ uint64, row []byte) error {
		title, rest := record.CutText(string(row))
		url, _ := record.CutText(rest)
		if t == nil || t.Title != title { // two of one hash may count as several
			finish()
			t = &Title{Title: title}
		}
		if t.N++; len(t.URLs) < maxShared {
			t.URLs = append(t.URLs, url)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	finish()
	p.Shared = shared.rows()
	return p, nil
}

// top keeps the n rows with the largest key.
type top[T any] struct {
	n    int
	key  func(*T) float64
	name func(*T) string // decides where keys are equal
	list []*T
}

func (t *top[T]) add(row *T) {
	if t.list = append(t.list, row); len(t.list) >= 2*t.n {
		t.cut()
	}
}

func (t *top[T]) cut() {
	slices.SortFunc(t.list, func(a, b *T) int {
		return cmp.Or(cmp.Compare(t.key(b), t.key(a)), strings.Compare(t.name(a), t.name(b)))
	})
	t.list = t.list[:min(len(t.list), t.n)]
}

func (t *top[T]) rows() (list []T) {
	t.cut()
	for _, row := range t.list {
		list = append(list, *row)
	}
	return list
}
