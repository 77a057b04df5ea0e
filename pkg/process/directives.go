package process

import (
	"net/http"
	"strings"
)

// Directives are what a page asks of all robots, by meta elements of the name robots and by X-Robots-Tag. Others than these are not looked at.
type Directives struct{ NoFollow, NoIndex bool }

// Add takes in a list, such as "noindex, nofollow".
func (d *Directives) Add(list string) {
	for _, word := range strings.FieldsFunc(strings.ToLower(list), func(r rune) bool { return r == ',' || r == ';' || r <= ' ' }) {
		d.NoFollow = d.NoFollow || word == "nofollow" || word == "none"
		d.NoIndex = d.NoIndex || word == "noindex" || word == "none"
	}
}

// AddHeader takes in the fields X-Robots-Tag of a reply. "botname: directives" is for that robot alone.
func (d *Directives) AddHeader(h http.Header) {
	for _, v := range h.Values("X-Robots-Tag") {
		if name, _, ok := strings.Cut(v, ":"); !ok || strings.ContainsAny(strings.TrimSpace(name), ", ") {
			d.Add(v)
		}
	}
}
