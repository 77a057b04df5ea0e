package search

import (
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// maxWords bounds the words of a title or a text, in bytes. Three times MaxText holds all, except of characters that stand for many, such as U+FDFA.
const maxWords = 3 * MaxText

// maxWord bounds a word, in bytes: a longer one is cut, and a snippet, which has whole words, stays short. Nobody looks for the middle of a number or a
// key of that length.
const maxWord = 256

// unspaced are the scripts that put no spaces between words. Korean puts endings on them.
var unspaced = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo, unicode.Yi, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar}

// accented are the scripts whose marks are accents, or vowels that most people leave out. Marks of other scripts are letters.
var accented = []*unicode.RangeTable{unicode.Inherited, unicode.Latin, unicode.Greek, unicode.Cyrillic, unicode.Hebrew, unicode.Arabic, unicode.Syriac}

// word is a word of a text: what the index has of it, and where it stands, in bytes.
type word struct {
	folded        string
	from, mid, to int  // mid is the end of a pair's first character; else to
	unspaced      bool // a pair or a character of an unspaced script
}

// A character is no part of words, or goes on with a word, or is of an unspaced script, or belongs to the character before.
const gap, letter, single, mark = 0, 1, 2, 3

// wordsOf gives the words of a text in their order. A word is a run of letters and digits. A run in an unspaced script is cut into pairs that overlap, as by
// Lucene's CJKAnalyzer, and its last character: 安装器 is 安装, 装器 and 器. So whatever stands in a run is found as a phrase, and one character as what words begin with.
func wordsOf(text string) iter.Seq[word] {
	return func(yield func(word) bool) {
		var last word                     // the character before
		seen := map[string]string{}       // folded, for a bounded number of words
		kind, from, plain := gap, 0, true // plain: of ASCII
		for at, r, size := 0, rune(0), 1; size > 0; at += size {
			for kind == letter && at < len(text) && at-from < maxWord && alphanumeric(text[at]) {
				at++
			}
			r, size = utf8.DecodeRuneInString(text[at:]) // a gap behind the end
			next := kindOf(r)
			if next == mark || next == kind && kind != single {
				if kind == gap || at-from < maxWord {
					plain = plain && r < utf8.RuneSelf
					continue
				}
				next = kind // of another word
			}
			if kind != gap {
				s := text[from:at]
				f, ok := "", false
				if plain {
					f = s // FTS5 folds ASCII
				} else if f, ok = seen[s]; !ok {
					if f = fold(s); len(seen) < 4096 {
						seen[s] = f
					}
				}
				w := word{f, from, at, at, kind == single}
				if last.folded != "" && !yield(word{last.folded + w.folded, last.from, last.to, at, true}) {
					return
				}
				if last = w; next != single || kind != single {
					last = word{}
					if w.folded != "" && !yield(w) {
						return
					}
				}
			}
			kind, from, plain = next, at, r < utf8.RuneSelf
		}
	}
}

func alphanumeric(c byte) bool { return 'a' <= c|' ' && c|' ' <= 'z' || '0' <= c && c <= '9' }

func kindOf(r rune) int {
	switch {
	case r < utf8.RuneSelf && alphanumeric(byte(r)), r >= utf8.RuneSelf && r < 0xe00 && unicode.IsLetter(r):
		return letter
	case r < utf8.RuneSelf:
		return gap
	case unicode.In(r, unicode.M, unicode.Cf) || 0x1160 <= r && r <= 0x11ff || r == 0xff9e || r == 0xff9f: // vowels and final consonants of Hangul; voiced marks
		return mark
	case !unicode.In(r, unicode.L, unicode.N, unicode.Co):
		return gap
	case r >= 0xe00 && (unicode.In(r, unspaced...) || r == 'ー' || r == 'ｰ'):
		return single
	}
	return letter
}

// fold returns a word without what does not matter: case, the forms of compatibility of Unicode, accents, and what is invisible, such as soft hyphens.
func fold(s string) string {
	return norm.NFC.String(strings.Map(func(r rune) rune {
		switch {
		case r < utf8.RuneSelf && kindOf(r) == gap, unicode.Is(unicode.Cf, r): // ⑴ has brackets
			return -1
		case unicode.Is(unicode.M, r) && r != '\u3099' && r != '\u309a' && unicode.In(r, accented...): // が is another letter than か
			return -1
		}
		return r
	}, cases.Fold().String(norm.NFKD.String(s))))
}

// join returns the words of a title or text as the index takes them. FTS5's tokenizer ascii cuts them at the spaces; its snippets like to begin behind a stop and a space.
func join(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	end := 0
	for w := range wordsOf(text) {
		if b.Len()+len(w.folded)+2 > maxWords {
			break
		}
		between := text[min(end, w.from):w.from]
		before := strings.TrimRightFunc(between, unicode.IsSpace)
		if r, _ := utf8.DecodeLastRuneInString(before); before != "" && (before != between && (r == '.' || r == ':') || strings.ContainsRune("。！？", r)) {
			b.WriteByte('.')
		}
		b.WriteByte(' ')
		b.WriteString(w.folded)
		end = w.to
	}
	return b.String()
}

// original returns what a snippet of a text's words stands for in the text, with its marks. query is the expression that was looked for.
func original(text, snippet, query string) string {
	tokens := strings.FieldsFunc(snippet, func(r rune) bool { return r == ' ' || r == '.' })
	var b strings.Builder
	var of []word // as many words as there are tokens
	n, at, found, more := 0, 0, false, false
	for w := range wordsOf(text) {
		if more = found; more || len(tokens) == 0 {
			break
		}
		n++
		if of = append(of, w); len(of) > len(tokens) {
			of = of[1:]
		}
		found = slices.EqualFunc(of, tokens, func(w word, token string) bool { return w.folded == strings.Trim(token, opening+closing) })
	}
	if !found {
		return ""
	}
	put := func(end int, what string) {
		b.WriteString(text[at:max(at, end)] + what)
		at = max(at, end)
	}
	if n > len(of) {
		at = of[0].from
		b.WriteString("…")
	}
	for i, w := range of {
		if strings.HasPrefix(tokens[i], opening) {
			put(w.from, opening)
		}
		if strings.HasSuffix(tokens[i], closing) {
			if w.unspaced && !strings.Contains(query, w.folded) {
				w.to = w.mid // the query has one character of the pair
			}
			put(w.to, closing)
		}
	}
	if !more {
		return b.String() + text[at:]
	}
	put(of[len(of)-1].to, "…")
	return b.String()
}
