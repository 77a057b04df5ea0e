package driver

import (
	"fmt"
	"slices"
	"strings"

	"mercator/pkg/canon"
	"mercator/pkg/urlset"
)

// Scope says how far from its seeds the crawl of a site goes.
type Scope int

// The scopes.
const (
	Hosts Scope = iota
	Domains
	Prefixes
)

// FilterFile is the file of filter rules that Site makes, in the crawl folder.
const FilterFile = "filter.txt"

// Site names a crawl folder for seeds, after the host of the first, and has the filter rules that
// keep a crawl to them.
func Site(urls []string, scope Scope) (folder, rules string, err error) {
	var list []string
	for _, text := range urls {
		url, _, err := urlset.Seed(text, canon.Options{})
		if err != nil {
			return "", "", err
		}
		canonical, host, err := canon.Options{}.URL(url)
		if err != nil {
			return "", "", err
		}
		if folder == "" {
			folder = strings.NewReplacer("[", "", "]", "", ":", "_").Replace(host)
		}
		switch scope {
		case Hosts:
			list = append(list, "host "+host)
		case Domains:
			list = append(list, "domain "+canon.RegisteredDomain(host))
		case Prefixes:
			path, _, _ := strings.Cut(canonical, "?")
			list = append(list, fmt.Sprintf("prefix %q", path[:strings.LastIndexByte(path, '/')+1]))
		}
	}
	slices.Sort(list)
	rules = "# Which links the crawl follows. \"mextract explain --help\" tells what rules can say.\ninclude default\n"
	for _, test := range slices.Compact(list) {
		rules += "allow site: " + test + "\n"
	}
	return folder, rules + "default deny\n", nil
}
