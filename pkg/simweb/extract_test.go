package simweb

import (
	"mime"
	"testing"

	"mercator/pkg/base/must"
	"mercator/pkg/extract"
	"mercator/pkg/web/canon"
)

// The project's own extractor finds the links that a page was made from, no
// more and no fewer.
func TestExtractFindsLinks(t *testing.T) {
	findsLinks(t, mustNew(t, small))
	few := topical
	few.Pages = 500
	findsLinks(t, mustNew(t, few))
}

func findsLinks(t *testing.T, w *Web) {
	for _, v := range w.Oracle() {
		if v.Status != 200 {
			continue
		}
		want := map[string]bool{}
		for _, l := range w.appendLinks(nil, v.r) {
			want[string(w.appendURL(nil, l.to))] = true
		}
		if v.r.kind == kindSitemap {
			for _, to := range w.appendSitemapTargets(nil, v.r) {
				want[string(w.appendURL(nil, to))] = true
			}
		}
		mediaType, params, err := mime.ParseMediaType(w.contentType(v.r))
		must.OK(t, err)
		page := extract.Find(&extract.Document{URL: v.URL, MIME: mediaType, Charset: params["charset"], Body: w.appendBody(nil, v.r, 0)}, extract.Options{})
		got := map[string]bool{}
		for _, l := range page.Links {
			url, _, err := page.Base.Resolve(l.Ref)
			if canon.ReasonOf(err) == canon.ReasonScheme {
				continue
			}
			if got[url] = true; !want[url] && url != v.URL {
				t.Errorf("%s: %q is %s, %v: not a link of the page", v.URL, l.Ref, url, err)
			}
		}
		for url := range want {
			if !got[url] {
				t.Errorf("%s: %s not found", v.URL, url)
			}
		}
	}
}
