package stats

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"

	"mercator/formats/record"
	"mercator/pkg/merge"
)

// Changes say how pages changed between visits. A content lives from the visit that found it first to the moment between
// the last visit that found it and the one that found another, or status 404 or 410. One that was there at the last
// visit is censored: it lives at least so long. MedianS is the median of Kaplan and Meier (1958), which uses the censored too.
type Changes struct {
	Pages   uint64  `json:"pages"`   // pages with a document that were visited again
	Visits  uint64  `json:"visits"`  // visits to a page after the one that found its first document
	Same    uint64  `json:"same"`    // visits that found the content that was there before, or not modified
	Changed uint64  `json:"changed"` // visits that found another content
	Gone    uint64  `json:"gone"`    // status 404 or 410
	Failed  uint64  `json:"failed"`  // no document for another reason
	Lives   []Lives `json:"lives"`   // of all, then by media type and by top-level domain, of each the 100 largest groups
}

// Lives are the life-times of contents of a group of pages.
type Lives struct {
	By        string  `json:"by"`             // "all", "type" or "domain"
	Name      string  `json:"name,omitempty"` // of the type or domain
	Ended     uint64  `json:"ended"`          // contents that were seen to end
	Censored  uint64  `json:"censored"`       // contents that had not ended at the last visit
	MedianS   float64 `json:"median_s"`       // seconds; 0: more than half of the contents live longer than was watched
	ObservedS float64 `json:"observed_s"`     // sum of all times watched, seconds
	RateS     float64 `json:"changes_per_s"`  // ends by time watched
}

// lifeBins are the bins of life-times: four to a factor of two, from 1 ms.
const lifeBins = 160

func lifeBin(s float64) int  { return min(max(int(4*math.Log2(max(s, 1e-3)*1e3)), 0), lifeBins-1) }
func lifeOf(bin int) float64 { return math.Exp2((float64(bin)+0.5)/4) / 1e3 }

// lives count life-times in bins.
type lives struct {
	ended, censored [lifeBins]uint64
	observed        float64
}

func (l *lives) addLife(s float64, ended bool) {
	l.observed += s
	if ended {
		l.ended[lifeBin(s)]++
	} else {
		l.censored[lifeBin(s)]++
	}
}

// sum gives the group's figures.
func (l *lives) sum(by, name string) Lives {
	out := Lives{By: by, Name: name, ObservedS: l.observed}
	for i := range lifeBins {
		out.Ended += l.ended[i]
		out.Censored += l.censored[i]
	}
	if l.observed > 0 {
		out.RateS = float64(out.Ended) / l.observed
	}
	left, survive := out.Ended+out.Censored, 1.0
	for i := 0; i < lifeBins && left > 0; i++ {
		if survive *= 1 - float64(l.ended[i])/float64(left); survive <= 0.5 {
			out.MedianS = lifeOf(i)
			break
		}
		left -= l.ended[i] + l.censored[i]
	}
	return out
}

// What a visit found.
const (
	visitDocument = iota
	visitSame     // not modified
	visitGone
	visitFailed
)

// Histories takes the rows of a crawl once more, where pages were fetched twice.
type Histories struct {
	sorter         *merge.Sorter // by URL checksum: time, what, content, numbers of the media type and of the domain
	types, domains names
	buf            []byte
}

// NewHistories sorts in about mem bytes of memory.
func NewHistories(mem int64) *Histories { return &Histories{sorter: merge.NewSorter(mem, "")} }

// names numbers names, up to maxNames of them; 0 is Other.
type names struct {
	number map[string]uint64
	list   []string
}

func (n *names) of(name string) uint64 {
	if n.number == nil {
		n.number, n.list = map[string]uint64{}, []string{Other}
	}
	at, ok := n.number[name]
	if !ok && len(name) <= maxText && len(n.list) < maxNames {
		at = uint64(len(n.list))
		name = string([]byte(name))
		n.number[name] = at
		n.list = append(n.list, name)
	}
	return at
}

// Add takes a row.
func (h *Histories) Add(r *record.Fetch) error {
	if !r.OfPage() || r.FetchTime == 0 {
		return nil
	}
	what := byte(visitFailed)
	switch {
	case document(r):
		what = visitDocument
	case r.Outcome == record.OutcomeNotModified:
		what = visitSame
	case r.Outcome == record.OutcomeFetched && (r.Status == 404 || r.Status == 410):
		what = visitGone
	}
	h.buf = append(binary.AppendUvarint(h.buf[:0], uint64(r.FetchTime)), what)
	h.buf = binary.LittleEndian.AppendUint64(h.buf, r.ContentFP)
	h.buf = binary.AppendUvarint(h.buf, h.types.of(r.MIME))
	h.buf = binary.AppendUvarint(h.buf, h.domains.of(topLevel(r.Host)))
	return h.sorter.Add(r.Key, h.buf)
}

// page has what the visits to a URL have found so far.
type page struct {
	content     uint64
	there       bool
	since, last uint64 // microseconds: the first and the last visit that found the content
	typ, domain uint64
	visits      uint64 // after the first document
	had         bool   // a document, once
}

// End gives what changed; nil if no page with a document was visited again. added is the error of adding.
func (h *Histories) End(added error) (_ *Changes, err error) {
	defer func() { err = errors.Join(err, h.sorter.Close()) }()
	if added != nil {
		return nil, added
	}
	it, err := h.sorter.Sort()
	if err != nil {
		return nil, err
	}
	out := new(Changes)
	var all lives
	types, domains := make([]lives, len(h.types.list)), make([]lives, len(h.domains.list))
	life := func(p *page, end uint64, ended bool) {
		s := float64(end-p.since) / 1e6
		all.addLife(s, ended)
		types[p.typ].addLife(s, ended)
		domains[p.domain].addLife(s, ended)
	}
	var p page
	finish := func() {
		if p.visits > 0 {
			out.Pages++
			if p.there {
				life(&p, p.last, false)
			}
		}
		p = page{}
	}
	var of uint64
	if err := it.Each(func(key uint64, row []byte) error {
		if key != of {
			finish()
			of = key
		}
		at, n := binary.Uvarint(row)
		what, row := row[n], row[n+1:]
		content, row := binary.LittleEndian.Uint64(row), row[8:]
		typ, n := binary.Uvarint(row)
		domain, _ := binary.Uvarint(row[n:])
		if p.had {
			p.visits++
			out.Visits++
		}
		switch {
		case what == visitDocument && p.there && content == p.content || what == visitSame && p.there:
			out.Same++
			p.last = max(p.last, at)
		case what == visitDocument:
			if p.there {
				out.Changed++
				life(&p, p.last+(max(at, p.last)-p.last)/2, true)
			} else if p.had {
				out.Changed++ // it came back
			}
			p.content, p.there, p.had, p.since, p.last, p.typ, p.domain = content, true, true, at, at, typ, domain
		case what == visitGone && p.had:
			out.Gone++
			if p.there {
				life(&p, p.last+(max(at, p.last)-p.last)/2, true)
			}
			p.there = false
		case p.had:
			out.Failed++
		}
		return nil
	}); err != nil {
		return nil, err
	}
	finish()
	if out.Pages == 0 {
		return nil, nil
	}
	out.Lives = append(out.Lives, all.sum("all", ""))
	for _, g := range []struct {
		by    string
		names names
		of    []lives
	}{{"type", h.types, types}, {"domain", h.domains, domains}} {
		var groups []Lives
		for i := range g.of {
			if l := g.of[i].sum(g.by, g.names.list[i]); l.Ended+l.Censored > 0 {
				groups = append(groups, l)
			}
		}
		slices.SortFunc(groups, func(a, b Lives) int {
			return cmp.Or(cmp.Compare(b.Ended+b.Censored, a.Ended+a.Censored), strings.Compare(a.Name, b.Name))
		})
		out.Lives = append(out.Lives, groups[:min(len(groups), TopWorst)]...)
	}
	return out, nil
}
