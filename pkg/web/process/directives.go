package process

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
)

// DefaultAgent is the product name that the crawler has without a setting.
const DefaultAgent = "mercator"

// Directives are the requests of a page to all robots, and to ours by its product name, in meta elements and by X-Robots-Tag. The
// strictest counts: one by name adds to those for all, and takes none back. Others than these are not looked at.
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

// AddHeader takes in the fields X-Robots-Tag of a reply, as far as they are for all robots or for the agent.
func (d *Directives) AddHeader(h http.Header, agent string) {
	for _, list := range headerLists(h, agent) {
		d.Add(list)
	}
}

// Addresses reports whether a meta element of that name, or of several, is for all robots or for the agent: a product name,
// perhaps with a version, DefaultAgent if it is "".
func Addresses(name, agent string) bool {
	agent, _, _ = strings.Cut(cmp.Or(agent, DefaultAgent), "/")
	for word := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == ',' || r == ';' || r <= ' ' }) {
		if word, _, _ = strings.Cut(word, "/"); strings.EqualFold(word, "robots") || strings.EqualFold(word, agent) {
			return true
		}
	}
	return false
}

// known are directives; those of the first line have a value after a colon.
var known = []string{"max-snippet", "max-image-preview", "max-video-preview", "unavailable_after",
	"all", "none", "index", "noindex", "follow", "nofollow", "archive", "noarchive", "nocache", "snippet", "nosnippet", "imageindex", "noimageindex",
	"notranslate", "indexifembedded", "noodp", "noydir", "noai", "noimageai"}

// headerLists are the parts of the fields X-Robots-Tag that are for all robots or for the agent. "name: directives" is for the robot
// of that name, up to the next name in the field or to its end.
func headerLists(h http.Header, agent string) (lists []string) {
	for _, v := range h.Values("X-Robots-Tag") {
		ours := true
		var list []string
		for part := range strings.FieldsFuncSeq(v, func(r rune) bool { return r == ',' || r == ';' }) {
			part = strings.TrimSpace(part)
			if name, rest, ok := robotName(part); ok {
				ours, part = name == "*" || Addresses(name, agent), rest
			}
			if ours && part != "" {
				list = append(list, part)
			}
		}
		if len(list) > 0 {
			lists = append(lists, strings.Join(list, ", "))
		}
	}
	return lists
}

// robotName cuts the name of a robot from what is for it. A directive with a value has the same form: what has no directive behind
// the colon has no robot before it.
func robotName(part string) (name, rest string, ok bool) {
	name, rest, ok = strings.Cut(part, ":")
	name, rest = strings.TrimSpace(name), strings.TrimSpace(rest)
	if !ok || name == "" || strings.ContainsAny(name, " \t") || slices.Contains(known, strings.ToLower(name)) {
		return "", "", false
	}
	first, _, _ := strings.Cut(rest, " ")
	first, _, _ = strings.Cut(first, ":")
	return name, rest, rest == "" || slices.Contains(known, strings.ToLower(first))
}
