package extract

import (
	"slices"
	"strings"

	"mercator/pkg/web/canon"
)

// folderOf is a URL up to the last "/" of its path.
func folderOf(url string) string {
	url, _, _ = strings.Cut(url, "?")
	return url[:strings.LastIndexByte(url, '/')+1]
}

// below is the first segment of a URL behind a folder; "" if it is not in a folder below that.
func below(folder, url string) string {
	rest, ok := strings.CutPrefix(url, folder)
	if !ok {
		return ""
	}
	rest, _, _ = strings.Cut(rest, "?")
	name, _, deeper := strings.Cut(rest, "/")
	if !deeper {
		return ""
	}
	return name
}

// belowItself reports whether a URL is in a folder below that of a page.
func belowItself(page, url string) bool { return below(folderOf(page), url) != "" }

// repeatsMenu reports whether a page has links to two folders below its own that are named as folders of its own path: on
// /a/b/ links to /a/b/a/ and /a/b/b/. A site that answers under any path has its menu, with relative links, on all those pages, and each makes
// as many more as the menu has links.
func (f *finder) repeatsMenu(page string) bool {
	folder := folderOf(page)
	_, _, path := canon.Split(folder)
	names := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	slices.Sort(names)
	if names = slices.Compact(names); len(names) < 2 {
		return false
	}
	first := "" // first item met
	var url []byte
	for i := range f.found.all {
		l := &f.found.all[i]
		ref := f.found.text[l.ref.start:l.ref.end]
		// Most links are known not to be such before they are resolved.
		start, _, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(string(ref)), "./"), "/")
		if !ok || !strings.Contains(string(ref), path) && !slices.Contains(names, start) {
			continue
		}
		var err error
		if url, _, err = f.page.Base.AppendResolve(url[:0], ref); err != nil {
			continue
		}
		name := below(folder, string(url))
		if !slices.Contains(names, name) || name == first {
			continue
		}
		if first != "" {
			return true
		}
		first = name
	}
	return false
}
