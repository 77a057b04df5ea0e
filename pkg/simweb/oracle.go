package simweb

import (
	"crypto/sha256"
	"slices"

	"mercator/formats/record"
)

// Verdict is the report of a correct crawl on one URL.
type Verdict struct {
	URL     string `json:"url"`
	Outcome string `json:"outcome"`         // one of record.Outcome…
	Status  int    `json:"status"`          // HTTP status; 0 if no reply is due
	Topic   string `json:"topic,omitempty"` // of a document of a web with topics

	r resource
}

// Oracle returns one verdict for each URL that a correct crawl from the seeds
// comes across, sorted by URL. It needs no network: it follows the links that
// the pages are made from, and never reads a page. Its memory is proportional
// to the result.
//
// A crawl is correct if it obeys robots.txt; follows redirects, and links of
// a, area, iframe, img, script and link elements in pages of status 2xx;
// takes the sitemaps named by robots.txt of each host that it contacts; and
// has no limit of depth, time or number. It may skip the links of a document
// with content that it has seen.
//
// With Config.Rough the crawl also keeps cookies, follows mostHops redirects in a row, and ends menus as menuEnds has it.
//
// With Config.Hard the verdicts hold for a web without time: what --hard adds
// is left out. So is what Config.Traps adds, which has no end.
func (w *Web) Oracle() []Verdict { return w.oracle(func(r resource) resource { return r }) }

// FoldedOracle is Oracle for a crawl of a web with Config.Aliases in which links to an alias lead to its canonical name, if that is of the
// same domain.
func (w *Web) FoldedOracle() []Verdict {
	return w.oracle(func(r resource) resource {
		if r.kind != kindNoName {
			r.host = origin(r.host)
		}
		return r
	})
}

// oracle is Oracle where links that lead to a resource lead to what fold makes of it.
func (w *Web) oracle(fold func(resource) resource) []Verdict {
	calm := *w
	calm.Hard, calm.Traps = false, 0
	w = &calm

	seen := map[resource]bool{}
	var queue []resource
	meet := func(r resource) {
		if r = fold(r); !seen[r] {
			seen[r] = true
			queue = append(queue, r)
		}
	}
	meet(resource{})
	var links []link
	var listed []resource
	for len(queue) > 0 {
		r := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if r.kind == kindNoName {
			continue
		}
		if w.hasSitemap(r.host) && !w.unreachable(r.host) {
			meet(resource{host: r.host, kind: kindSitemap})
		}
		status := w.status(r)
		switch {
		case w.denied(r), w.rough(r) != "":
		case r.kind == kindRedirect:
			to, _ := w.redirection(r)
			meet(to)
		case r.kind == kindSitemap:
			listed = w.appendSitemapTargets(listed[:0], r)
			for _, to := range listed {
				meet(to)
			}
		case status == 200 || r.kind == kindEndless || r.kind == kindWall:
			links = w.appendLinks(links[:0], r)
			for _, l := range links {
				if roughEnd(r, l.to) {
					continue
				}
				meet(l.to)
			}
		}
	}

	verdicts := make([]Verdict, 0, len(seen))
	for r := range seen {
		v := Verdict{URL: string(w.appendURL(nil, r)), r: r}
		switch {
		case r.kind == kindNoName:
			v.Outcome = record.OutcomeDNS
		case w.denied(r) && !w.unreachable(r.host):
			v.Outcome = record.OutcomeRobotsDenied
		case w.rough(r) != "":
			v.Outcome = w.rough(r)
		default:
			v.Outcome, v.Status = record.OutcomeFetched, w.status(r)
			if e := assetElement(r.n); r.kind != kindAsset || e != elemStyle && e != elemScript { // they say nothing
				v.Topic = w.TopicName(w.topic(r))
			}
		}
		verdicts = append(verdicts, v)
	}
	slices.SortFunc(verdicts, func(a, b Verdict) int {
		if a.URL < b.URL {
			return -1
		}
		return 1
	})
	return verdicts
}

// Duplicates counts the documents among verdicts (status 2xx, not empty) and
// how many of them repeat the content of another.
func (w *Web) Duplicates(verdicts []Verdict) (documents, duplicates int) {
	seen := map[[16]byte]bool{}
	var body []byte
	for _, v := range verdicts {
		if v.Status/100 != 2 {
			continue
		}
		body = w.appendBody(body[:0], v.r, 0)
		if len(body) == 0 {
			continue
		}
		documents++
		sum := sha256.Sum256(body)
		key := [16]byte(sum[:16])
		if seen[key] {
			duplicates++
		}
		seen[key] = true
	}
	return documents, duplicates
}

// status is the HTTP status of the page, robots rules aside.
func (w *Web) status(r resource) int {
	switch r.kind {
	case kindRedirect:
		_, status := w.redirection(r)
		return status
	case kindMissing:
		if r.n%4 == 3 {
			return 410
		}
		return 404
	case kindError:
		if r.n%4 == 3 {
			return 403
		}
		return 500
	case kindCalendar:
		if r.n == 0 || r.n == w.months()+1 {
			return 404
		}
	case kindSession:
		if r.v == sessions {
			return 404
		}
	case kindUnknown:
		return 404
	case kindEndless, kindWall:
		return roughStatus(r)
	}
	return 200
}
