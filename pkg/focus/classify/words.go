package classify

import (
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"
)

// Bounds of what is looked at of a document.
const (
	MaxText  = 1 << 20 // bytes of its text
	MaxWords = 50_000
)

// Bounds of a word, in bytes. Others are no evidence.
const (
	minWord = 2
	maxWord = 40
)

// eachWord calls do with each word of a text, in lower case, and its place in bytes. A word is a run of letters. The bytes are valid during
// the call. It ends when do returns false.
func eachWord(text string, do func(word []byte, start, end int) bool) {
	var buf [maxWord + utf8.UTFMax]byte
	word, start := buf[:0], 0
	for i := 0; i <= len(text); {
		r, n := ' ', 1
		if i < len(text) {
			if r = rune(text[i]); r >= utf8.RuneSelf {
				r, n = utf8.DecodeRuneInString(text[i:])
			}
		}
		switch {
		case 'a' <= r && r <= 'z':
		case 'A' <= r && r <= 'Z':
			r += 'a' - 'A'
		case r >= utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsMark(r)):
			r = unicode.ToLower(r)
		default:
			if len(word) >= minWord && len(word) <= maxWord && !do(word, start, i) {
				return
			}
			word = buf[:0]
			i += n
			continue
		}
		if len(word) == 0 {
			start = i
		}
		if len(word) <= maxWord {
			word = utf8.AppendRune(word, r)
		}
		i += n
	}
}

// stem is the stem of a word in lower case; "" of words that say nothing of a topic.
func stem(word string) string {
	if english.IsStopWord(word) || len(word) < minWord {
		return ""
	}
	return english.Stem(word, true)
}
