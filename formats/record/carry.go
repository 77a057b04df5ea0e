package record

import "unsafe"

// pair is a column that two kinds of rows have by one name.
type pair struct{ from, to field }

// common are the columns that rows of two kinds have by one name.
func common(from, to *rowType) (pairs []pair) {
	for i, c := range from.columns {
		if k := to.find(c.name); k >= 0 {
			pairs = append(pairs, pair{from.fields[i], to.fields[k]})
		}
	}
	return pairs
}

var (
	linkToURL  = common(linkType, urlType)
	urlToFetch = common(urlType, fetchType)
	fetchToURL = common(fetchType, urlType)
)

func carry(pairs []pair, from, to unsafe.Pointer) {
	for _, p := range pairs {
		p.to.set(to, p.from.get(from))
	}
}

// ToURL is the url row of a link: all columns that both kinds have, without the unknown ones, which are of the link.
func (l *Link) ToURL() (u URL) {
	carry(linkToURL, unsafe.Pointer(l), unsafe.Pointer(&u))
	u.Via = l.SrcURL
	return u
}

// Into gives a fetch row all columns that both kinds have, and the unknown ones.
func (u *URL) Into(f *Fetch) {
	carry(urlToFetch, unsafe.Pointer(u), unsafe.Pointer(f))
	f.Extra = u.Extra
}

// ToFetch is the row of a page to which nothing has happened yet. It has no address, as none has been contacted.
func (u *URL) ToFetch() (f Fetch) {
	u.Into(&f)
	f.Role, f.Addr = RolePage, ""
	return f
}

// ToURL is the row of the URL that was fetched: what stays with it, without what was of that fetch alone (attempt, address) and what
// the next may ask with (etag, last_modified, last_content_fp), and without the unknown columns.
func (f *Fetch) ToURL() (u URL) {
	carry(fetchToURL, unsafe.Pointer(f), unsafe.Pointer(&u))
	u.Attempt, u.Addr, u.ETag, u.LastModified, u.LastContentFP = 0, "", "", "", 0
	return u
}
