package render

import (
	"bytes"
	"context"
	"slices"

	"mercator/formats/record"
	"mercator/pkg/extract"
	"mercator/pkg/web/linkkind"
	"mercator/pkg/web/markup"
	"mercator/pkg/web/process"
)

// Which pages are rendered, where no rule says it.
const (
	Auto = "auto" // pages that hold hardly anything, and pages of hosts that gave such pages
	All  = "all"  // all HTML pages
)

// Why a page is rendered.
const (
	WhyRule  = "rule"  // a rule says so
	WhyAll   = "all"   // all are
	WhyShell = "shell" // it has hardly any text or links, but scripts
	WhyHost  = "host"  // it has scripts, and shells of its host had more after theirs
)

// A shell has no more than this outside of noscript: a heading, a menu, a word about JavaScript.
const (
	shellText  = 800 // bytes
	shellLinks = 5
	shellBytes = 256 << 10 // a smaller page with more links in all is not read
)

// What a host must have shown. Of what gains nothing so often, one in unless has to gain.
const (
	hostGains  = 2
	fruitless  = 10
	fruitfulIn = 10
)

// worth reports whether pages of a tally are still rendered.
func (t Tally) worth() bool { return t.Rendered < fruitless || t.Gained*fruitfulIn >= t.Rendered }

// isPage reports whether a row has a page that could be rendered.
func isPage(row *record.Fetch) bool {
	return row.OfPage() && row.Outcome == record.OutcomeFetched && row.Status >= 200 && row.Status <= 299 && row.RedirectURL == "" &&
		row.BodyLength > 0 && row.Requisite == 0 && (row.MIME == "text/html" || row.MIME == "application/xhtml+xml" || row.MIME == "")
}

// static is the content of a page without its scripts.
type static struct {
	keys     map[uint64]bool // keys of the page's links
	links    int             // links to other pages, outside of noscript
	text     int             // bytes, outside of noscript
	scripts  []partKey       // keys of its scripts, and of what they import at once
	scripted bool            // it has scripts
	leads    bool            // by its markup it leads to another page
}

// static reads a page as it is without its scripts; nil: it has no document.
func (s *session) static(ctx context.Context, p *Waiting) (*static, error) {
	row := p.row()
	found, err := s.links(ctx, row, nil)
	if err != nil || found.dropped { // a rule for documents denies it
		return nil, err
	}
	doc, err := s.docs.Read(&row)
	if doc == nil || err != nil {
		return nil, err
	}
	st := &static{keys: map[uint64]bool{}}
	for i := range found.links {
		st.keys[found.links[i].Key] = true
	}
	var bare []byte
	if bare, st.scripted = withoutNoscript(doc.Body); len(bare) < len(doc.Body) {
		if found, err = s.links(ctx, row, bare); err != nil {
			return nil, err
		}
		doc.Body = bare
	}
	if text, err := process.Text(doc, 0); err == nil {
		st.text = len(text)
	}
	pages := map[uint64]bool{doc.Key: true}
	for i := range found.links {
		switch l := &found.links[i]; l.LinkKind {
		case linkkind.A, linkkind.Area, linkkind.SVGA:
			pages[l.Key] = true
		case linkkind.Refresh:
			st.leads = st.leads || l.Key != doc.Key
		case linkkind.Script, linkkind.LinkModulepreload:
			if key := partKey(l.Key); len(st.scripts) < maxMissing && !slices.Contains(st.scripts, key) {
				st.scripts = append(st.scripts, key)
			}
		}
	}
	st.links, st.scripted = len(pages)-1, st.scripted || len(st.scripts) > 0 // as of UTF-16, which withoutNoscript does not read
	return st, nil
}

// withoutNoscript returns a page without its noscript elements, which a browser with scripts does not show, and whether it has scripts.
func withoutNoscript(body []byte) (bare []byte, scripted bool) {
	var r markup.Reader
	r.Open(bytes.NewReader(body), body, false, scriptType)
	r.Texts = true
	bare = []byte{}                   // nil would mean the page as it is
	from, open, before := 0, false, 0 // body[from:] is not in bare yet
	for tok := r.Next(); tok != markup.TokenEnd; tok = r.Next() {
		switch {
		case tok == markup.TokenStart && r.Tag == markup.TagScript:
			scripted = scripted || extract.IsScript(&r.Element)
		case tok == markup.TokenStart && r.Tag == markup.TagNoscript && !open:
			bare, open = append(bare, body[from:before]...), true
		case tok == markup.TokenClose && r.Tag == markup.TagNoscript && open:
			from, open = r.Offset(), false
		}
		before = r.Offset()
	}
	switch {
	case open:
		return bare, scripted
	case from == 0:
		return body, scripted
	}
	return append(bare, body[from:]...), scripted
}

var scriptType = markup.Want(1<<markup.AttrType, 0)

// why is why a page is rendered if no rule says anything; "": it is not.
func (s *static) why(pages string, host *Waiting) string {
	shell := s.scripted && !s.leads && s.text <= shellText && s.links <= shellLinks
	switch {
	case pages == All:
		return WhyAll
	case pages != Auto:
		return ""
	case shell && (host == nil || host.Shells.worth()):
		return WhyShell
	case !shell && s.scripted && host != nil && host.Shells.Gained >= hostGains && host.Rest.worth():
		return WhyHost
	}
	return ""
}
