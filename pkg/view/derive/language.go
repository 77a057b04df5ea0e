package derive

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"unicode"
	_ "unsafe" // for the profiles

	"github.com/abadojack/whatlanggo"
)

// How much of a text its language is guessed by: the second where the first leaves it open.
var detectBytes = [...]int{4 << 10, 16 << 10}

// commonCrawls are the codes that Common Crawl's columns and WET files have, CLD2's, where the guesser knows one language of a group.
var commonCrawls = map[string]string{"arb": "ara", "azj": "aze", "bho": "bih", "cmn": "zho", "mai": "bih", "nob": "nor", "pes": "fas", "ydd": "yid"}

// language is the ISO 639-3 code of a text's language as Common Crawl writes it, or "" if the text is too short
// or too mixed to tell.
func language(text string) string {
	for _, n := range detectBytes {
		if lang, sure := guess(strings.ToValidUTF8(text[:min(n, len(text))], "")); sure {
			code := lang.Iso6393()
			return cmp.Or(commonCrawls[code], code)
		} else if len(text) <= n {
			break
		}
	}
	return ""
}

// guess is whatlanggo.Detect in a tenth of its time: an index of all trigrams of a script finds those of a text once, not once for each language.
func guess(text string) (lang whatlanggo.Lang, sure bool) {
	letters := 0
	for i := range len(text) {
		if c := text[i] | 0x20; c >= 'a' && c <= 'z' {
			letters++
		}
	}
	script := unicode.Latin
	if letters <= len(text)/2 {
		script = whatlanggo.DetectScript(text)
	}
	index := trigrams()[script]
	if index == nil { // a script of one language
		info := whatlanggo.Detect(text)
		return info.Lang, info.IsReliable()
	}
	found := rank(text)
	distance := slices.Clone(index.worst)
	for i, t := range found {
		for _, p := range index.places[t.key] {
			distance[p.lang] -= apart - max(i-p.rank, p.rank-i)
		}
	}
	first, second := -1, -1
	for i, d := range distance {
		switch {
		case first < 0 || d < distance[first]:
			first, second = i, first
		case second < 0 || d < distance[second]:
			second = i
		}
	}
	near, next := 300*apart-distance[first], 300*apart-distance[second]
	switch {
	case near == 0:
		return -1, false
	case next == 0: // by trigrams that came by accident, perhaps
		return index.langs[first], near/500 >= 1
	}
	rate := float64(near-next) / float64(next)
	return index.langs[first], rate/(12/float64(len(found))+0.05) > whatlanggo.ReliableConfidenceThreshold
}

// apart is the distance of a trigram that only one of two texts has.
const apart = 300

// profiles are the trigrams of each language, the most frequent first.
type profiles map[whatlanggo.Lang][]string

// whatlanggo keeps them to itself.
var (
	//go:linkname latin github.com/abadojack/whatlanggo.latinLangs
	latin profiles
	//go:linkname cyrillic github.com/abadojack/whatlanggo.cyrillicLangs
	cyrillic profiles
	//go:linkname arabic github.com/abadojack/whatlanggo.arabicLangs
	arabic profiles
	//go:linkname devanagari github.com/abadojack/whatlanggo.devanagariLangs
	devanagari profiles
	//go:linkname ethiopic github.com/abadojack/whatlanggo.ethiopicLangs
	ethiopic profiles
	//go:linkname hebrew github.com/abadojack/whatlanggo.hebrewLangs
	hebrew profiles
)

// trigramIndex finds the languages of a script that have a trigram.
type trigramIndex struct {
	langs  []whatlanggo.Lang
	worst  []int // the distance of each from a text with none of its trigrams
	places map[uint64][]place3
}

type place3 struct{ lang, rank int }

var trigrams = sync.OnceValue(func() map[*unicode.RangeTable]*trigramIndex {
	all := map[*unicode.RangeTable]*trigramIndex{}
	for script, list := range map[*unicode.RangeTable]profiles{unicode.Latin: latin, unicode.Cyrillic: cyrillic, unicode.Arabic: arabic,
		unicode.Devanagari: devanagari, unicode.Ethiopic: ethiopic, unicode.Hebrew: hebrew} {
		x := &trigramIndex{places: map[uint64][]place3{}}
		for lang := range list {
			x.langs = append(x.langs, lang)
		}
		slices.Sort(x.langs)
		for i, lang := range x.langs {
			x.worst = append(x.worst, apart*len(list[lang]))
			for rank, t := range list[lang] {
				var key uint64
				for _, r := range t {
					key = key<<21 | uint64(r)
				}
				x.places[key] = append(x.places[key], place3{i, rank})
			}
		}
		all[script] = x
	}
	return all
})

// trigram is three characters, and how often they come.
type trigram struct {
	key uint64
	n   int
}

// rank lists the trigrams of a text of at most 64 KB, the most frequent first, without those of a space beside a space.
func rank(text string) []trigram {
	shift := bits.LeadingZeros64(uint64(len(text) + 1))
	found := make([]uint16, 2<<(64-shift)) // by hash, places in the list, from 1: half of them stay free
	var list []trigram
	var key uint64 = ' '
	add := func(r rune) {
		key = key<<21&(1<<63-1) | uint64(r)
		a, b := rune(key>>42), rune(key>>21&(1<<21-1))
		if a == 0 || b == ' ' && (a == ' ' || r == ' ') {
			return
		}
		for at := key * 0x9E3779B97F4A7C15 >> (shift - 1); ; at = (at + 1) % uint64(len(found)) {
			if found[at] == 0 {
				list = append(list, trigram{key, 1})
				found[at] = uint16(len(list))
				return
			} else if t := &list[found[at]-1]; t.key == key {
				t.n++
				return
			}
		}
	}
	for _, r := range text {
		add(plain(r))
	}
	add(' ')
	slices.SortFunc(list, func(a, b trigram) int {
		if a.n != b.n {
			return b.n - a.n
		}
		return cmp.Compare(b.key, a.key)
	})
	return list
}

// plain is a letter in lower case, or a space.
func plain(r rune) rune {
	switch {
	case r >= 'a' && r <= 'z':
		return r
	case r >= 'A' && r <= 'Z':
		return r | 0x20
	case r < 0x80 && r > ' ' && r != 0x7f || unicode.IsSymbol(r) || unicode.IsSpace(r) || unicode.IsPunct(r) || unicode.IsDigit(r):
		return ' '
	}
	return unicode.ToLower(r)
}
