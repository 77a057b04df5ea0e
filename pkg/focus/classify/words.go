package classify

import (
	"math"
	"slices"
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

// stem returns the stem of a word in lower case. An irregular form has the stem of its word; "" is for words that say nothing of a topic.
func stem(word string, forms map[string]string) string {
	if s := forms[word]; s != "" {
		return s
	}
	if english.IsStopWord(word) || len(word) < minWord {
		return ""
	}
	return english.Stem(word, true)
}

// stems returns the stems of a text, each once, in the text's order.
func stems(text string, forms map[string]string) (list []string) {
	eachWord(text, func(word []byte, _, _ int) bool {
		if s := stem(string(word), forms); s != "" && !slices.Contains(list, s) {
			list = append(list, s)
		}
		return true
	})
	return list
}

// Word is a stem, and how often it stands in a document.
type Word struct {
	Stem  string
	Count int
}

// Words are the stems of a document, in the order of their first.
type Words []Word

// Texts are the texts that a document is scored by.
type Texts struct {
	Title string // counts titleWeight times
	Texts []string
}

const titleWeight = 3

// stemmer remembers stems. One goroutine.
type stemmer struct {
	forms map[string]string // of the model
	stems map[string]string
}

// keptWords is how many words are remembered from one document for the next.
const keptWords = 1 << 14

func (s *stemmer) stem(word []byte) string {
	if got, found := s.stems[string(word)]; found {
		return got
	}
	if s.stems == nil || len(s.stems) >= keptWords {
		s.stems = make(map[string]string)
	}
	w := string(word)
	s.stems[w] = stem(w, s.forms)
	return s.stems[w]
}

// words counts the words of texts.
func (t Texts) words(with *stemmer) (words Words) {
	at := make(map[string]int)
	n := 0
	count := func(text string, by int) {
		eachWord(text, func(word []byte, _, _ int) bool {
			s := with.stem(word)
			if s == "" {
				return true
			}
			i, found := at[s]
			if !found {
				i = len(words)
				at[s] = i
				words = append(words, Word{Stem: s})
			}
			words[i].Count += by
			n++
			return n < MaxWords
		})
	}
	count(t.Title, titleWeight)
	for _, text := range t.Texts {
		count(text, 1)
	}
	return words
}

// damped is the number of words that n times the same word count as, in thousandths.
func damped(n int) int { return dampedTable[min(n, len(dampedTable)-1)] }

var dampedTable = func() (table [256]int) {
	for n := range table {
		table[n] = int(math.Round(1000 * math.Log2(float64(1+n))))
	}
	return table
}()
