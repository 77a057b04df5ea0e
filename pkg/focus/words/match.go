package words

import (
	"github.com/kljensen/snowball/english"

	"mercator/pkg/base/fault"
)

// Matching is a technique by which a word that the dictionary does not have finds one that it has: Singh and
// Tyagi's symmetric matching, "using any one Matching technique". Each is symmetric: Similarity(a, b) is Similarity(b, a).
type Matching string

// The techniques.
const (
	Exact   Matching = "exact"   // the same word
	Stem    Matching = "stem"    // the same stem, by Snowball's English stemmer
	Edit    Matching = "edit"    // few insertions, deletions, changes and swaps: one of three to six letters, two of seven to ten
	Trigram Matching = "trigram" // at least half of the groups of three letters in common (Dice's coefficient)
)

// Similarity of two words: 0 if they do not match, 1 if they are equal, and in between the closer the higher.
// Words of more than 64 bytes match only themselves.
func (m Matching) Similarity(a, b string) float64 {
	a, b = fold(a), fold(b)
	if a == b {
		return 1
	}
	longer := max(len(a), len(b))
	if longer > MaxWord || min(len(a), len(b)) == 0 {
		return 0
	}
	closeness := func() float64 { return 1 - 2*float64(fault.Distance(a, b))/float64(len(a)+len(b)+2) } // a letter changed is closer than one left out
	switch m {
	case Stem:
		if english.Stem(a, true) == english.Stem(b, true) {
			return closeness()
		}
	case Edit:
		allowed := (longer + 1) / 4
		if longer < 3 || longer-min(len(a), len(b)) > allowed || fault.Distance(a, b) > allowed {
			return 0
		}
		return closeness()
	case Trigram:
		if s := dice(trigrams(a), trigrams(b)); s >= 0.5 {
			return min(s, closeness1) // anagrams of groups may have all in common
		}
	}
	return 0
}

// closeness1 is below 1, which equal words alone have.
const closeness1 = 0.999

// trigrams are the groups of three characters of a word with two spaces before it and one after, each once.
func trigrams(w string) map[[3]rune]bool {
	runes := append([]rune("  "+w), ' ')
	set := make(map[[3]rune]bool, len(runes))
	for i := range len(runes) - 2 {
		set[[3]rune(runes[i:i+3])] = true
	}
	return set
}

func dice(a, b map[[3]rune]bool) float64 {
	common := 0
	for g := range a {
		if b[g] {
			common++
		}
	}
	return 2 * float64(common) / float64(len(a)+len(b))
}

// Find returns the senses of a word. If the dictionary lacks it, they are the senses of the dictionary's word that is most
// similar by m, the first of equals. found is the word used; there are no senses if none matches.
func Find(d Dictionary, w string, m Matching) (found string, senses []string, err error) {
	w = fold(w)
	senses, err = d.Senses(w)
	if len(senses) > 0 || err != nil || m == Exact || w == "" {
		return w, senses, err
	}
	best := 0.0
	err = d.Words(func(other string) error {
		if m == Stem && other[0] != w[0] { // suffixes alone are cut off
			return nil
		}
		if s := m.Similarity(w, other); s > best {
			found, best = other, s
		}
		return nil
	})
	if err != nil || best == 0 {
		return "", nil, err
	}
	senses, err = d.Senses(found)
	return found, senses, err
}
