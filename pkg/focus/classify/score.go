package classify

import (
	"cmp"
	"math"
	"slices"

	"mercator/pkg/process"
)

// Relevant is the score from which on a document is about a topic.
const Relevant = 0.5

// Result is what a model says of a document.
type Result struct {
	Score float32   // probability that it is of any topic, in thousandths
	Topic int       // the likeliest of the model's; -1 if the score is below Relevant or no word speaks for one
	Odds  []float64 // for each topic the log-odds against none
	Words int       // that were looked at, stop words aside
}

// Scorer scores one document at a time. One goroutine.
type Scorer struct {
	m       *Model
	weights [][]int32 // of the model's stems, by number
	numbers map[string]int32
	ids     map[string]int32 // of words: the number of their stem, of unknown ones a number of their own; stopWord
	next    int32            // number of the next unknown word
	counts  []int32          // of the document's words, by number
	inDoc   []int32          // the numbers with counts above 0, in the order of the document
	sums    []int64
}

const (
	stopWord = -1
	// keptWords is how many words are remembered from one document for the next.
	keptWords = 1 << 14
)

// NewScorer makes a scorer for a model.
func NewScorer(m *Model) *Scorer {
	s := &Scorer{m: m, numbers: make(map[string]int32, len(m.Words)), sums: make([]int64, len(m.Topics))}
	for word, w := range m.Words {
		s.numbers[word] = int32(len(s.weights))
		s.weights = append(s.weights, w)
	}
	s.forget()
	return s
}

func (s *Scorer) forget() {
	s.ids, s.next = make(map[string]int32), int32(len(s.weights))
	s.counts = make([]int32, len(s.weights), len(s.weights)+keptWords)
}

// count counts the words of a text, after n words of others, and returns how many there are then.
func (s *Scorer) count(text string, n int) int {
	eachWord(text, func(word []byte, _, _ int) bool {
		id, ok := s.ids[string(word)]
		if !ok {
			id = s.identify(string(word))
		}
		if id == stopWord {
			return true
		}
		if s.counts[id]++; s.counts[id] == 1 {
			s.inDoc = append(s.inDoc, id)
		}
		n++
		return n < MaxWords
	})
	return n
}

func (s *Scorer) identify(word string) int32 {
	id := int32(stopWord)
	if stem := stem(word); stem != "" {
		var known bool
		if id, known = s.numbers[stem]; !known {
			id = s.next
			s.next++
			s.counts = append(s.counts, 0)
		}
	}
	s.ids[word] = id
	return id
}

// Text scores a text.
func (s *Scorer) Text(texts ...string) Result { return s.given(nil, texts) }

// given scores texts as those of one document. before, if it is not nil, is the log-odds that it is of any topic before it is read.
func (s *Scorer) given(before *float64, texts []string) Result {
	n := 0
	for _, t := range texts {
		n = s.count(t, n)
	}
	defer s.clear()
	return s.result(before, n)
}

// clear makes room for another document.
func (s *Scorer) clear() {
	for _, id := range s.inDoc {
		s.counts[id] = 0
	}
	s.inDoc = s.inDoc[:0]
	if len(s.ids) > keptWords {
		s.forget()
	}
}

// result is what the counts say.
func (s *Scorer) result(before *float64, n int) Result {
	r := Result{Topic: -1, Words: n, Odds: make([]float64, len(s.m.Topics))}
	clear(s.sums)
	var length int64 // in thousandths of a word
	spoken := false
	for _, id := range s.inDoc {
		d := int64(damped(int(s.counts[id])))
		length += d
		for i := range s.sums {
			w := s.m.Topics[i].Unknown
			if int(id) < len(s.weights) {
				w = s.weights[id][i]
				spoken = spoken || w > 0
			}
			s.sums[i] += d * int64(w)
		}
	}
	if n == 0 && before == nil {
		for i := range r.Odds {
			r.Odds[i] = float64(s.m.Topics[i].Prior) / 1000
		}
		return r
	}
	long := max(length, int64(s.m.Evidence)*1000)
	for i, sum := range s.sums {
		start := float64(s.m.Topics[i].Prior) / 1000
		if before != nil {
			start = *before - math.Log(float64(len(s.m.Topics)))
		}
		r.Odds[i] = start + float64(sum*int64(s.m.Evidence)/long)/1000
	}
	best := max(slices.Max(r.Odds), 0)
	sum, wanted, topic := math.Exp(-best), 0.0, -1
	for i, o := range r.Odds {
		p := math.Exp(o - best)
		sum += p
		if s.m.wants(i) {
			if wanted += p; topic < 0 || o > r.Odds[topic] {
				topic = i
			}
		}
	}
	r.Score = float32(math.Round(1000*wanted/sum) / 1000)
	if spoken && r.Score >= Relevant {
		r.Topic = topic
	}
	return r
}

// Share is what one word adds to a document's log-odds.
type Share struct {
	Word  string    // a stem
	Count int       // how often it stands in the document
	Odds  []float64 // for each topic
}

// Explain scores texts as those of one document, and says what each stem of it adds: those that move the score most first. Words that
// the model does not have are one share, with the word "".
func (s *Scorer) Explain(texts ...string) (Result, []Share) {
	defer s.clear()
	n := 0
	for _, t := range texts {
		n = s.count(t, n)
	}
	stems := make([]string, len(s.weights))
	for word, id := range s.numbers {
		stems[id] = word
	}
	var length int64
	for _, id := range s.inDoc {
		length += int64(damped(int(s.counts[id])))
	}
	scale := float64(s.m.Evidence) / float64(max(length, int64(s.m.Evidence)*1000))
	rest := Share{Odds: make([]float64, len(s.m.Topics))}
	var shares []Share
	for _, id := range s.inDoc {
		d := float64(damped(int(s.counts[id])))
		known := int(id) < len(s.weights)
		one := Share{Count: int(s.counts[id]), Odds: make([]float64, len(s.m.Topics))}
		for i := range one.Odds {
			w := s.m.Topics[i].Unknown
			if known {
				w = s.weights[id][i]
			}
			one.Odds[i] = d * float64(w) * scale / 1000
		}
		if known {
			one.Word = stems[id]
			shares = append(shares, one)
			continue
		}
		rest.Count += one.Count
		for i, o := range one.Odds {
			rest.Odds[i] += o
		}
	}
	if rest.Count > 0 {
		shares = append(shares, rest)
	}
	moves := func(a Share) float64 { return max(slices.Max(a.Odds), -slices.Min(a.Odds)) }
	slices.SortFunc(shares, func(a, b Share) int { return cmp.Or(cmp.Compare(moves(b), moves(a)), cmp.Compare(a.Word, b.Word)) })
	return s.result(nil, n), shares
}

// leastPage is the score that the page of a link has at least, so that a few words can speak for the link.
const leastPage = 0.05

// Links makes, for each thread, what gives a link the probability that its target is relevant: it begins with the score of its page, and the words of
// its text move it as those of a document do. A link without words has the score of its page.
func (m *Model) Links() func() func(page float32, text string) float32 {
	one := NewScorer(m)
	return func() func(float32, string) float32 {
		s := &Scorer{m: m, weights: one.weights, numbers: one.numbers, sums: make([]int64, len(m.Topics))}
		s.forget()
		return func(page float32, text string) float32 {
			if text == "" {
				return page
			}
			r := s.given(begin(max(page, leastPage)), []string{text})
			if r.Words == 0 {
				return page
			}
			return r.Score
		}
	}
}

// fewWords is the number of words from which on a page is judged by its text alone: others are mostly pictures, or frames.
const fewWords = 200

// Document scores a document by its text, of a page of few words also by what it says of its pictures and of itself (process.Captions). An
// image has no text: its file name speaks for it, and begins with the score of the page that it was found on. read is false if nothing can be
// read in it.
func (s *Scorer) Document(doc *process.Document, found float32) (r Result, read bool) {
	texts, read := Texts(doc)
	if !read {
		return Result{Topic: -1}, false
	}
	if image(doc.MIME) {
		return s.given(begin(found), texts), true
	}
	return s.Text(texts...), true
}

// begin is the log-odds of an image before its name is read; nil where the score of its page is not known.
func begin(found float32) *float64 {
	if found <= 0 {
		return nil
	}
	p := max(0.02, min(float64(found), 0.98))
	odds := math.Log(p / (1 - p))
	return &odds
}
