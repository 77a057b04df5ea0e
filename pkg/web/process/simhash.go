package process

import (
	"context"
	"fmt"
	"unicode"

	"github.com/zeebo/xxh3"
)

// shingleWords is how many words in a row are one feature of a document.
const shingleWords = 3

// Simhash is the 64-bit fingerprint of a text in which texts that share most of their
// words differ in few bits (Charikar, "Similarity estimation techniques from rounding
// algorithms", 2002; for web pages: Manku, Jain and Das Sarma, "Detecting
// near-duplicates for web crawling", 2007, who take pages for near-duplicates up to 3
// bits). Text without a word has 0.
//
// A word is a run of letters and digits, in lower case. Features are all runs of three
// words in a row, parted by single spaces; a text of one or two words is one feature.
// Each occurrence weighs 1. A feature's hash is xxh3 of 64 bits with seed 0. Bit i
// of the fingerprint is 1 if more of the weight has bit i set than not.
func Simhash(text string) uint64 {
	var votes [64]int
	vote := func(feature []byte) {
		h := xxh3.Hash(feature)
		for i := range votes {
			votes[i] += int(h>>i&1)*2 - 1
		}
	}
	var shingle []byte     // up to three words
	var ends []int         // of each word in it
	word, features := 0, 0 // bytes of the word at its end
	complete := func() {
		if word == 0 {
			return
		}
		ends = append(ends, len(shingle))
		if word = 0; len(ends) < shingleWords {
			shingle = append(shingle, ' ')
			return
		}
		vote(shingle)
		features++
		first := ends[0] + 1
		shingle = append(append(shingle[:0], shingle[first:]...), ' ')
		ends = append(ends[:0], ends[1]-first, ends[2]-first)
	}
	for _, r := range text {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			complete()
			continue
		}
		if word < MaxKey { // the rest of a longer one does not count
			before := len(shingle)
			shingle = append(shingle, string(unicode.ToLower(r))...)
			word += len(shingle) - before
		}
	}
	complete()
	if features == 0 && len(ends) > 0 {
		vote(shingle[:ends[len(ends)-1]])
	}
	var h uint64
	for i, v := range votes {
		if v > 0 {
			h |= 1 << i
		}
	}
	return h
}

// maxSimhash bounds the text that the simhash covers, in bytes.
const maxSimhash = 1 << 20

// simhashModule reports the simhash of the first MiB of a document's text, 16 hex
// digits. A document without words has none.
type simhashModule struct{}

func (simhashModule) Name() string    { return "simhash" }
func (simhashModule) Types() []string { return textTypes }
func (simhashModule) New() Instance   { return simhashModule{} }

func (simhashModule) Process(_ context.Context, doc *Document, report func(key, value string)) error {
	s, err := Text(doc, maxSimhash)
	if err != nil {
		return err
	}
	if h := Simhash(s); h != 0 {
		report("simhash", fmt.Sprintf("%016x", h))
	}
	return nil
}
