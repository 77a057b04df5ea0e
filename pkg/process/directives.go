package process

import (
	"net/http"
	"slices"
	"strings"
)

// Directives are what a page asks of all robots, by meta elements of the name robots and by X-Robots-Tag. Others than these are not looked at.
type Directives struct{ NoFollow, NoIndex bool }

// Add takes in a list, such as "noindex, nofollow".
func (d *Directives) Add(list string) {
	before := ""
	for _, word := range strings.FieldsFunc(strings.ToLower(list), func(r rune) bool { return r == ',' || r == ';' || r <= ' ' }) {
		valued := strings.HasSuffix(before, ":") // "max-image-preview: none" is not "none"
		if before = word; valued {
			continue
		}
		d.NoFollow = d.NoFollow || word == "nofollow" || word == "none"
		d.NoIndex = d.NoIndex || word == "noindex" || word == "none"
	}
}

// withValues are the directives that have a value after a colon.
var withValues = []string{"max-snippet", "max-image-preview", "max-video-preview", "unavailable_after"}

// AddHeader takes in the fields X-Robots-Tag of a reply. "botname: directives" is for that robot alone.
func (d *Directives) AddHeader(h http.Header) {
	for _, v := range h.Values("X-Robots-Tag") {
		name, _, ok := strings.Cut(v, ":")
		if name = strings.TrimSpace(name); !ok || strings.ContainsAny(name, ", ") || slices.Contains(withValues, strings.ToLower(name)) {
			d.Add(v)
		}
	}
}
