package setup

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mercator/pkg/base/fault"
	"mercator/pkg/config"
	"mercator/pkg/urlset"
	"mercator/pkg/web/canon"
)

// Scope says how far from its seeds the crawl of a site goes.
type Scope int

// The scopes.
const (
	Hosts Scope = iota
	Domains
	Prefixes
)

// siteRule begins the rule of a site's scope, which one of scopeWords says.
const siteRule = "allow site: "

// partsRule lets the parts of a site's pages through, wherever they are.
const partsRule = "allow requisites: requisite\n"

var scopeWords = [...]string{"host", "domain", "prefix"}

// FilterFile is the file of filter rules that Site makes, in the crawl folder.
const FilterFile = "filter.txt"

// Site names a crawl folder for seeds, after the host of the first, and has the filter rules that
// keep a crawl to them, with and without "www.", by http and https; with parts, those of their pages that are elsewhere count, too.
func Site(urls []string, scope Scope, parts bool) (folder, rules string, err error) {
	var list []string
	for _, bare := range BareSeeds(urls) {
		urls = append(urls, ByHTTP(bare))
	}
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
		scheme, _, path := canon.Split(canonical)
		path, _, _ = strings.Cut(path, "?")
		path = path[:strings.LastIndexByte(path, '/')+1]
		switch scope {
		case Hosts:
			list = append(list, namesakes(host)...)
		case Domains:
			list = append(list, canon.RegisteredDomain(host))
		case Prefixes:
			for _, h := range namesakes(host) {
				for _, scheme := range schemesOf(scheme, host) {
					list = append(list, strconv.Quote(scheme+"://"+h+path))
				}
			}
		}
	}
	slices.Sort(list)
	rules = "# Which links the crawl follows: the first rule that matches decides. \"mextract explain --help\" tells what rules can say.\n" +
		"# Take the # away to leave out a section of the site:\n#deny blog: path /blog/\ninclude default\n"
	rules += siteRule + scopeWords[scope] + " " + strings.Join(slices.Compact(list), " ") + "\n"
	if parts {
		rules += "# Pictures, style sheets, fonts, frames and other parts of these pages, on any host. Links there are not followed.\n" + partsRule
	}
	return folder, rules + "default deny\n", nil
}

// SheetsFile is the file of host sheets that mcrawl site makes.
const SheetsFile = "sheets.txt"

// HostConnections is a sheet for the hosts of URLs, with and without "www.": each may have n connections.
func HostConnections(urls []string, n int) (string, error) {
	if _, err := config.SheetValue("politeness.connections", strconv.Itoa(n)); err != nil {
		return "", &fault.Error{Class: fault.Usage, Place: "--host-connections", Found: strconv.Itoa(n), Want: "1 to 64"}
	}
	var list []string
	for _, text := range urls {
		url, _, err := urlset.Seed(text, canon.Options{})
		if err != nil {
			return "", err
		}
		_, host, err := canon.Options{}.URL(url)
		if err != nil {
			return "", err
		}
		list = append(list, namesakes(host)...)
	}
	slices.Sort(list)
	return fmt.Sprintf("# Settings of hosts: mfetch-fetch(1), Sheets.\nsheet own: host %s\n    politeness.connections %d\n", strings.Join(slices.Compact(list), " "), n), nil
}

// BareSeeds are the seeds of a list that name no scheme.
func BareSeeds(urls []string) (bare []string) {
	for _, text := range urls {
		if _, assumed, err := urlset.Seed(text, canon.Options{}); err == nil && assumed {
			bare = append(bare, strings.TrimSpace(text))
		}
	}
	return bare
}

// ByHTTP is a bare seed as an http URL.
func ByHTTP(bare string) string { return "http://" + strings.TrimPrefix(bare, "//") }

// namesakes are a host with and without "www.": a site answers at one of them, and redirects from the other.
func namesakes(host string) []string {
	name, _ := canon.SplitPort(host)
	bare := strings.TrimPrefix(host, "www.")
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil || !strings.Contains(name, ".") || bare != host && canon.RegisteredDomain(host) == name {
		return []string{host}
	}
	return []string{bare, "www." + bare}
}

// schemesOf are those under which a server may have the same pages: http and https, on their own ports.
func schemesOf(scheme, host string) []string {
	if _, port := canon.SplitPort(host); scheme != "http" && scheme != "https" || port != "" {
		return []string{scheme}
	}
	return []string{"http", "https"}
}

// OfSite reports whether the rules of the crawl in dir are those that Site made.
func OfSite(dir string, conf *config.Config) bool {
	rules, err := conf.Setting("extract.filter")
	if err != nil || len(rules) != 1 {
		return false
	}
	return filepath.Clean(rules[0]) == filepath.Join(dir, FilterFile)
}

// ScopeOf returns the scope of the rules that Site made for the crawl in dir. It is false if Site made none, or somebody edited them.
func ScopeOf(dir string) (Scope, bool) {
	for scope, word := range scopeWords {
		if hasRule(dir, siteRule+word+" ") {
			return Scope(scope), true
		}
	}
	return Hosts, false
}

// hasRule reports whether a line of the rules that Site made for the crawl in dir begins so.
func hasRule(dir, rule string) bool {
	rules, err := os.ReadFile(filepath.Join(dir, FilterFile))
	return err == nil && strings.Contains(string(rules), "\n"+rule)
}

// SitePreset are settings of mcrawl site, and BarePreset is one of a crawl with bare seeds, if nobody gave others.
var (
	SitePreset = []config.Pair{{Key: "frontier.retry_delay", Value: "5s"}, // the end of a small crawl is not to wait for minutes
		{Key: "urls.url_rules", Value: "session-ids,tracking"}} // a page is fetched once, however readers came to it
	BarePreset = config.Pair{Key: "fetch.connect_timeout", Value: "5s"}
)

// ownConnections is the number in the sheet of HostConnections in dir; "" if that was edited.
func ownConnections(dir, sheets string) string {
	b, err := os.ReadFile(sheets)
	_, n, is := strings.Cut(string(b), "\n    politeness.connections ")
	if err != nil || filepath.Clean(sheets) != filepath.Join(dir, SheetsFile) || !is || strings.Count(string(b), "\n") != 3 {
		return ""
	}
	return strings.TrimSpace(n)
}

// named reports whether somebody chose the name of the crawl in dir: it is not that of the first seed.
func named(dir string) bool {
	seeds, _ := os.ReadFile(filepath.Join(dir, seedsText))
	first, _, _ := strings.Cut(string(seeds), "\n")
	folder, _, err := Site([]string{first}, Hosts, true)
	return err == nil && folder != filepath.Base(dir)
}

// SiteCommand is the command that crawls a site into a new folder, with the settings of the crawl in dir. With several URLs it keeps cookies.
func SiteCommand(dir string, conf *config.Config, urls ...string) string {
	words := append([]string{"mcrawl", "site"}, urls...)
	scope, made := ScopeOf(dir)
	if scope != Hosts {
		words = append(words, "--"+scopeWords[scope])
	}
	if made && !hasRule(dir, partsRule) {
		words = append(words, "--no-requisites")
	}
	preset := SitePreset
	if bare, err := conf.Setting("bare_seeds"); err == nil && len(bare) > 0 {
		preset = append(slices.Clone(preset), BarePreset)
	}
	own := []string{"seeds", "bare_seeds", "extract.filter"}
	var set []string
	for _, k := range config.Keys() {
		text := conf.Text(k)
		switch {
		case text == "" || k.Alone || slices.Contains(own, k.Name) || slices.Contains(preset, config.Pair{Key: k.Name, Value: text}) || len(urls) > 1 && k.Name == "fetch.cookies":
		case k.Name == "fetch.contact":
			words = append(words, "--contact", text)
		case k.Path && text != k.Word:
			if values, err := conf.Setting(k.Name); err == nil && len(values) == 1 {
				if n := ownConnections(dir, values[0]); n != "" {
					words = append(words, "--host-connections", n)
				} else if file, err := filepath.Abs(values[0]); err == nil {
					set = append(set, "--set", k.Name+"="+file)
				}
			}
		default:
			set = append(set, "--set", k.Name+"="+text)
		}
	}
	words = append(words, set...)
	if len(urls) > 1 {
		words = append(words, "--set", "fetch.cookies=true")
	}
	folder, _, err := Site(urls, Hosts, true)
	if named(dir) {
		folder = dir
	}
	if err == nil && isThere(folder) {
		free := folder
		for n := 2; isThere(free); n++ {
			free = fmt.Sprintf("%s-%d", folder, n)
		}
		words = append(words, "--into", free)
	}
	return fault.Quote(words...)
}
