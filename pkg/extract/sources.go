package extract

import (
	"fmt"
	"slices"
	"strings"
)

// Sources is a set of what links are taken from.
type Sources uint16

// The sources. Those of DefaultSources are meant as links by whoever wrote them;
// the others are guesses, in documents with few links among their strings.
const (
	FromHeaders Sources = 1 << iota // Link, Refresh, Content-Location and Location of a reply
	FromHTML
	FromCSS
	FromSitemaps // XML or text, compressed or not
	FromFeeds    // RSS, Atom and OPML
	FromRobots   // Sitemap lines
	FromPDF
	FromOffice  // office documents and books
	FromFTP     // listings
	FromGopher  // menus
	FromText    // URLs in plain text
	FromJSON    // URLs in strings
	FromXML     // URLs in elements and attributes, of any vocabulary
	FromScripts // what looks like a URL in JavaScript

	DefaultSources = FromText - 1
	AllSources     = FromScripts<<1 - 1
)

var sourceNames = []string{"headers", "html", "css", "sitemap", "feed", "robots", "pdf", "office", "ftp", "gopher", "text", "json", "xml", "script"}

// ParseSources reads a list of sources by name; "default" and "all" stand for several.
func ParseSources(names []string) (Sources, error) {
	var s Sources
	for _, name := range names {
		switch i := slices.Index(sourceNames, name); {
		case name == "default":
			s |= DefaultSources
		case name == "all":
			s |= AllSources
		case i >= 0:
			s |= 1 << i
		default:
			return 0, fmt.Errorf("no source %q, want one of %s, default, all", name, strings.Join(sourceNames, ", "))
		}
	}
	return s, nil
}

func (s Sources) has(one Sources) bool { return s&one != 0 }
