package words

import (
	"regexp"
	"strings"
	"sync"

	"golang.org/x/net/publicsuffix"

	"mercator/pkg/base/fault"
	"mercator/pkg/web/canon"
)

// Type is the type of a query: "single word, set of words, & URL" (Singh and Tyagi).
type Type string

// The types.
const (
	OneWord  Type = "word"
	SetOf    Type = "words"
	Location Type = "url"
)

// MaxQuery bounds a query, in bytes.
const MaxQuery = 8 << 10

// Query is a query and what it is.
type Query struct {
	Query string `json:"query"` // without outer space
	Type  Type   `json:"type"`
	URL   string `json:"url,omitempty"` // canonical, if it is one
	Next  string `json:"next"`          // what takes it: the verb words of mfocus, or seeds: it is one
}

var (
	withScheme    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`) })
	withoutScheme = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?i:www\.[^/]+|[^/]+\.[a-z]{2,})(/|$)`) })
	bareHost      = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[\p{L}\p{N}-]+(\.[\p{L}\p{N}-]+)+\.?(:\d+)?([?#]|$)`)
	})
)

// Identify says what a query is. A text without spaces is a URL if it begins with a scheme and "://", or
// with "www.", if it is a host name followed by a slash, or if it is
// one under a public suffix ("example.org", but not "node.js"): such get the scheme https. Text in double
// quotes is one word. A query that is empty, or a URL that has no canonical form, is fault.Usage.
func Identify(text string) (Query, error) {
	q := Query{Query: strings.Join(strings.Fields(text), " "), Next: "words"}
	bad := &fault.Error{Class: fault.Usage, File: "query", Hint: `mfocus query "computer mouse"`}
	switch {
	case q.Query == "":
		bad.Found, bad.Want = "empty", "a word, a set of words or a URL"
		return q, bad
	case len(q.Query) > MaxQuery:
		bad.Found, bad.Want = "a longer text", "at most 8192 bytes"
		return q, bad
	}
	if location := locationOf(q.Query); location != "" {
		url, _, err := canon.URL(location)
		if err != nil {
			bad.Found, bad.Want, bad.Err = "a URL that cannot be crawled: "+err.Error(), "one such as https://www.example.org/", err
			bad.Hint = "mfocus query https://www.example.org/"
			return q, bad
		}
		q.Type, q.URL, q.Next = Location, url, "seeds"
		return q, nil
	}
	q.Type = SetOf
	if bare := strings.Trim(q.Query, `"`); !strings.Contains(q.Query, " ") || !strings.Contains(bare, `"`) && len(bare) == len(q.Query)-2 {
		q.Type = OneWord
	}
	return q, nil
}

// locationOf is the URL that a word without spaces stands for; "" if it is none.
func locationOf(word string) string {
	switch {
	case strings.Contains(word, " "):
		return ""
	case withScheme().MatchString(word):
		return word
	case withoutScheme().MatchString(word) && (strings.Contains(word, "/") || strings.EqualFold(word[:4], "www.")):
		return "https://" + word
	case bareHost().MatchString(word) && registered("https://"+word):
		return "https://" + word
	}
	return ""
}

// registered reports whether a URL's host is a name under a suffix that the public suffix list has.
func registered(url string) bool {
	url, _, err := canon.URL(url)
	if err != nil {
		return false
	}
	_, host, _ := canon.Split(url)
	name, _ := canon.SplitPort(host)
	name = strings.TrimSuffix(name, ".")
	suffix, registry := publicsuffix.PublicSuffix(name)
	return suffix != name && (registry || strings.Contains(suffix, "."))
}
