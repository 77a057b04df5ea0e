package process

import (
	"net/http"
	"testing"
)

// Directives with values hide no other, and are no names of robots.
func TestDirectives(t *testing.T) {
	all, noindex := Directives{NoFollow: true, NoIndex: true}, Directives{NoIndex: true}
	for field, want := range map[string]Directives{
		"noindex":                                                 noindex,
		"max-snippet:50, noindex":                                 noindex,
		"Max-Snippet: 50, noindex":                                noindex,
		"max-video-preview: -1, nofollow":                         {NoFollow: true},
		"max-image-preview:large, noindex, nofollow":              all,
		"max-image-preview:none":                                  {},
		"max-image-preview: none":                                 {},
		"nofollow, max-image-preview : none, noindex":             all,
		"unavailable_after: 25 Jun 2030 15:00:00 PST, noindex":    noindex,
		"unavailable_after: Tue, 25 Jun 2030 15:00:00 GMT , none": all,
		"otherbot: noindex":                                       {},
		"nofollow, otherbot: noindex":                             {NoFollow: true},
	} {
		var d Directives
		if d.AddHeader(http.Header{"X-Robots-Tag": {field}}); d != want {
			t.Errorf("%s: %+v, want %+v", field, d, want)
		}
	}
}
