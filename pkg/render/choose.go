package render

import (
	"regexp"
	"sync"

	"mercator/formats/record"
	"mercator/pkg/web/linkkind"
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

// A shell has no more than this: a heading, a menu, a word about JavaScript.
const (
	shellText  = 800 // bytes
	shellLinks = 5
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
	links    int             // links to other pages
	text     int             // bytes
	scripts  []partKey       // keys of its scripts, and of what they import at once
	scripted bool            // it has scripts
}

func staticOf(doc *process.Document, links []record.Link, text string) *static {
	s := &static{keys: map[uint64]bool{}, text: len(text)}
	for i := range links {
		l := &links[i]
		switch l.LinkKind {
		case linkkind.A, linkkind.Area, linkkind.SVGA:
			if l.Key != doc.Key && !s.keys[l.Key] {
				s.links++
			}
		case linkkind.Script, linkkind.LinkModulepreload:
			if !s.keys[l.Key] {
				s.scripts = append(s.scripts, partKey(l.Key))
			}
		}
		s.keys[l.Key] = true
	}
	s.scripted = len(s.scripts) > 0 || scriptTag().Match(doc.Body)
	return s
}

var scriptTag = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)<script`) })

// why is why a page is rendered if no rule says anything; "": it is not.
func (s *static) why(pages string, host *Waiting) string {
	shell := s.scripted && s.text <= shellText && s.links <= shellLinks
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
