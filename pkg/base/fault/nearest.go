package fault

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// DidYouMean is the hint for a name that is none of the known ones: the nearest of them,
// or "" where none is near.
func DidYouMean(name string, known []string) string {
	name = strings.ToLower(name)
	best := Nearest(name, known)
	if best == "" || name == "" || Distance(name, strings.ToLower(best)) > 1+min(len(name), len(best))/3 && !strings.HasPrefix(strings.ToLower(best), name) {
		return ""
	}
	return fmt.Sprintf("did you mean %q?", best)
}

// Nearest is the known name with the least distance, however far: of those that begin with name
// if there are any. It is "" only where none is known.
func Nearest(name string, known []string) string {
	if name != "" {
		begun := slices.DeleteFunc(slices.Clone(known), func(k string) bool { return !strings.HasPrefix(k, name) })
		if len(begun) > 0 {
			known = begun
		}
	}
	if len(known) == 0 {
		return ""
	}
	return slices.MinFunc(known, func(a, b string) int { return Distance(name, a) - Distance(name, b) })
}

// maxCompared bounds what Distance looks at, in bytes: a name of the command line may be of any length.
const maxCompared = 256

// Distance is Levenshtein's, in bytes, where two neighbours that changed places count as one change.
func Distance(a, b string) int {
	a, b = a[:min(len(a), maxCompared)], b[:min(len(b), maxCompared)]
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			change := 1
			if a[i] == b[j] {
				change = 0
			}
			row[j+1] = min(last[j]+change, row[j]+1, last[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

// notOneOf is a text that says what was found and which names are wanted.
var notOneOf = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`"([^"]+)"[^",]*, want (?:one of )?(.*)$`)
})

// Suggest is the hint of DidYouMean for an error that says what was found, in quotes, and lists the
// names that are wanted, with commas or "or" between; "" for any other error.
func Suggest(err error) string {
	m := notOneOf().FindStringSubmatch(err.Error())
	if m == nil {
		return ""
	}
	_, list, found := strings.Cut(m[2], ": ") // "a test: host, domain"
	if !found {
		list = m[2]
	}
	var names []string
	for name := range strings.SplitSeq(strings.ReplaceAll(list, " or ", ", "), ",") {
		if name = strings.Trim(name, ` "`); name != "" && !strings.Contains(name, " ") {
			names = append(names, name)
		}
	}
	if len(names) < 2 {
		return ""
	}
	return DidYouMean(m[1], names)
}
