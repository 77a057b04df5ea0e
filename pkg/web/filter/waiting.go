package filter

import (
	"context"
	"slices"

	"mercator/formats/record"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/linkkind"
)

// Waiting judges URLs that wait to be fetched, by the rules of today, and stores for each the reason to refuse it
// (Verdict.Reason); "" if there is none. Both slices have one length.
//
//   - What kind of link led to a URL is no longer known. It is refused if it would be by links of any kind, so that
//     "allow pages: kind a" and "default deny" refuse no page that waits. Programs get no kind.
//   - A URL that no page linked to (a seed, or one that was added) was asked for by name, and so was a sitemap: see Candidate.Named.
func (j *Judge) Waiting(ctx context.Context, urls []*record.URL, reasons []string) error {
	clear(reasons)
	w := &j.waiting
	for i := -1; i < len(j.filter.kinds); i++ {
		kind := ""
		if i >= 0 {
			kind = j.filter.kinds[i]
		}
		of, candidates := w.of[:0], w.candidates[:0]
		for k, u := range urls {
			if i < 0 || reasons[k] != "" {
				of, candidates = append(of, k), append(candidates, Candidate{URL: u.URL, Host: u.Host, Depth: u.Depth, Kind: kind, From: hostOf(u.Via), Via: u.Via, Named: u.Via == "" || u.Sitemap > 0, Requisite: u.Requisite > 0})
			}
		}
		verdicts := slices.Grow(w.verdicts[:0], len(of))[:len(of)]
		w.of, w.candidates, w.verdicts = of, candidates, verdicts
		if err := j.URLs(ctx, candidates, verdicts); err != nil {
			return err
		}
		for n, v := range verdicts {
			switch k := of[n]; {
			case v.Allow:
				reasons[k] = ""
			case i < 0:
				reasons[k] = v.Reason()
			}
		}
	}
	return nil
}

// Named reports whether a link was found that is asked for by name (Candidate.Named): a sitemap that the robots.txt
// of a host of the crawl names, where that redirects to, and what it names on its own host. The robots.txt of a host
// that has only a sitemap of the crawl, or parts of its pages, asks for nothing.
func Named(l *record.Link) bool {
	if l.Sitemap <= 1 || l.LinkKind == linkkind.Redirect {
		return l.Sitemap > 0
	}
	_, from, path := canon.Split(l.SrcURL)
	return from == l.Host && path != "/robots.txt"
}

// hostOf is the host of a canonical URL.
func hostOf(url string) string {
	_, host, _ := canon.Split(url)
	return host
}
