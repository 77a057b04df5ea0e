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
		"mercator: nofollow":                                      {NoFollow: true},
		"MERCATOR : NOINDEX":                                      noindex,
		"mercator/2: none":                                        all,
		"mercatorbot: none":                                       {},
		"otherbot: noindex, nofollow, mercator: noindex":          noindex,
		"mercator: noindex, otherbot: nofollow":                   noindex,
		"noindex, mercator: nofollow":                             all,
		"otherbot: max-snippet: 20, noindex, mercator: nofollow":  {NoFollow: true},
		"*: noindex":                                              noindex,
		"robots: noindex":                                         noindex,
		"otherbot:, noindex":                                      {},
		"index, noindex":                                          noindex,
		"all":                                                     {},
		"noarchive, nosnippet":                                    {},
		"x-ratio: 3, noindex":                                     noindex,
		"mercator: unavailable_after: 25 Jun 2030 15:00:00 PST":   {},
	} {
		t.Run(field, func(t *testing.T) {
			var d Directives
			if d.AddHeader(http.Header{"X-Robots-Tag": {field}}, ""); d != want {
				t.Errorf("%s: %+v, want %+v", field, d, want)
			}
		})
	}
}

// Of several fields and elements the strictest counts: what is for us adds to what is for all.
func TestDirectivesAddUp(t *testing.T) {
	var d Directives
	d.AddHeader(http.Header{"X-Robots-Tag": {"otherbot: none", "noindex", "mercator: follow, index"}}, "")
	if want := (Directives{NoIndex: true}); d != want {
		t.Errorf("%+v, want %+v", d, want)
	}
	d.AddHeader(http.Header{"X-Robots-Tag": {"mercator: nofollow"}}, "museum/3.1")
	if d.NoFollow {
		t.Error("directives for mercator hold for museum")
	}
	if d.AddHeader(http.Header{"X-Robots-Tag": {"Museum: nofollow"}}, "museum/3.1"); !d.NoFollow {
		t.Error("directives for museum do not hold for museum/3.1")
	}
}

func TestMetaNames(t *testing.T) {
	for name, want := range map[string]bool{
		"robots": true, " ROBOTS ": true, "mercator": true, "Mercator": true, "mercator/2": true, "robots, otherbot": true, "otherbot mercator": true,
		"": false, "otherbot": false, "mercatorbot": false, "robotstxt": false, "description": false, "museum": false,
	} {
		t.Run(name, func(t *testing.T) {
			if got := Addresses(name, ""); got != want {
				t.Errorf("%q: %v", name, got)
			}
		})
	}
	if !Addresses("museum", "Museum/3.1") || Addresses("mercator", "Museum/3.1") {
		t.Error("the product name of the settings is not the one that counts")
	}
}

// Module page finds all that a page asks of us.
func TestPageRobots(t *testing.T) {
	doc := &Document{
		MIME: "text/html", Agent: "museum", Header: http.Header{"X-Robots-Tag": {"museum: nofollow", "otherbot: none"}},
		Body: []byte("<meta name=robots content=noarchive><meta name=otherbot content=none><meta name=Museum content=noindex>"),
	}
	got := ""
	if err := (pageModule{}).Process(t.Context(), doc, func(key, value string) { got += key + "=" + value + " " }); err != nil {
		t.Fatal(err)
	}
	if want := "robots=nofollow, noarchive, noindex "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if _, asks := Head(doc); asks != (Directives{NoFollow: true, NoIndex: true}) {
		t.Errorf("%+v", asks)
	}
}
