package classify

import (
	"cmp"
	"math"
	"slices"

	"mercator/pkg/web/process"
)

// Relevant is the score from which on a document is about a topic.
const Relevant = 0.5

// aboutRival is the score of a page that is about a topic that does not count.
const aboutRival = 0.1

// Result is a model's score of a document.
type Result struct {
	Score float32   // probability that it is of any topic, in thousandths
	Topic int       // of the model's; -1 if the score is below Relevant
	Alike []float64 // for each topic the cosine of document and topic
	Words int       // different ones that were looked at, stop words aside
}

// Scorer scores one document at a time. One goroutine.
type Scorer struct {
	f    *Fitted
	stem stemmer
}

// NewScorer makes a scorer for a fitted model.
func NewScorer(f *Fitted) *Scorer { return &Scorer{f: f, stem: stemmer{forms: f.m.Forms}} }

// telling are the words of texts that count, with a vector of them.
func (s *Scorer) telling(texts Texts) (words Words, v vector) {
	return s.tellingWords(texts.words(&s.stem))
}

func (s *Scorer) tellingWords(words Words) (Words, vector) {
	l, v := s.f.l, vector{}
	rarity := func(w Word) float64 {
		id, found := l.ids[w.Stem]
		if !found {
			id = -1
		}
		return float64(damp(int32(w.Count)) * l.rarity(id))
	}
	slices.SortStableFunc(words, func(a, b Word) int { return cmp.Or(cmp.Compare(rarity(b), rarity(a)), cmp.Compare(a.Stem, b.Stem)) })
	words = words[:min(len(words), telling)]
	sum := 0.0
	for _, w := range words {
		x := rarity(w)
		id, found := l.ids[w.Stem]
		if !found {
			id = math.MaxInt32
		}
		v.ids, v.x = append(v.ids, id), append(v.x, x)
		sum += float64(x * x)
	}
	for i := range v.x {
		v.x[i] /= math.Sqrt(sum)
	}
	return words, v
}

// Texts scores texts as the texts of one document. before is the relevance that links promised of it.
func (s *Scorer) Texts(texts Texts, before float32) Result {
	words, v := s.telling(texts)
	return s.result(len(words), v, before)
}

func (s *Scorer) result(words int, v vector, before float32) Result {
	f := s.f
	r := Result{Topic: -1, Words: words, Alike: make([]float64, len(f.profiles))}
	if words == 0 {
		return r
	}
	score := 0.0
	for t := range f.profiles {
		r.Alike[t] = v.dot(f.profiles[t])
		if p := f.scales[t].relevance(likeness(r.Alike[t], before)); f.m.wants(t) && p > score {
			score = p
		}
	}
	if score >= Relevant {
		r.Topic = f.sense(v, func(t int) float64 { return f.scales[t].relevance(likeness(r.Alike[t], before)) })
		if !f.m.wants(r.Topic) {
			r.Topic, score = -1, aboutRival
		}
	}
	r.Score = float32(math.Round(1000*score) / 1000)
	if r.Topic >= 0 {
		r.Score = max(r.Score, Relevant+0.001)
	} else {
		r.Score = min(r.Score, Relevant-0.001)
	}
	return r
}

// sense returns the relevant topic with the highest score of its own words, the query's left out. Of equal topics the first counts.
func (f *Fitted) sense(v vector, relevance func(t int) float64) int {
	best, most := -1, -1.0
	for t := range f.own {
		if relevance(t) < Relevant {
			continue
		}
		if x := v.dot(f.own[t]); x > most+1e-9 || best >= 0 && x > most-1e-9 && f.m.wants(t) && !f.m.wants(best) {
			best, most = t, x
		}
	}
	return best
}

// named is the topic that a file's name speaks for; "" if it speaks for none.
func (s *Scorer) named(name string) string {
	_, v := s.telling(Texts{Texts: []string{name}})
	best, most := "", 0.0
	for t, p := range s.f.profiles {
		if x := v.dot(p) + v.dot(s.f.own[t]); s.f.m.wants(t) && x > most+1e-9 {
			best, most = s.f.m.Topics[t].Name, x
		}
	}
	return best
}

// Share is the part of a document's likeness that one word adds.
type Share struct {
	Word  string    // a stem
	Count int       // how often it stands in the document
	Alike []float64 // for each topic
}

// Explain scores texts as the texts of one document, and says what each stem of it adds. Stems that add most come first.
func (s *Scorer) Explain(texts Texts, before float32) (Result, []Share) {
	words, v := s.telling(texts)
	var shares []Share
	for i, w := range words {
		one := Share{Word: w.Stem, Count: w.Count, Alike: make([]float64, len(s.f.profiles))}
		for t, p := range s.f.profiles {
			if int(v.ids[i]) < len(p) {
				one.Alike[t] = float64(v.x[i] * p[v.ids[i]])
			}
		}
		if slices.Max(one.Alike) > 0 {
			shares = append(shares, one)
		}
	}
	slices.SortFunc(shares, func(a, b Share) int {
		return cmp.Or(cmp.Compare(slices.Max(b.Alike), slices.Max(a.Alike)), cmp.Compare(a.Word, b.Word))
	})
	return s.result(len(words), v, before), shares
}

// What a link's text does to the relevance that the link's page gives.
const (
	fade    = 0.7 // of the log-odds of the page
	textual = 4.0 // log-odds of a text that is as like a topic as a page has to be
	useless = 0.8 // log-odds that a text without a word of a topic takes
)

// Link gives a link the probability that its target is relevant: the probability of its page, moved by the link's text.
func (s *Scorer) Link(page float32, text string) float32 {
	if text == "" {
		return page
	}
	words, v := s.telling(Texts{Texts: []string{text}})
	if len(words) == 0 {
		return page
	}
	most := 0.0
	for t := range s.f.profiles {
		if s.f.m.wants(t) {
			most = max(most, min(math.Sqrt(max(v.dot(s.f.profiles[t]), 0))/s.f.scales[t].Least, 1.2))
		}
	}
	p := max(0.03, min(float64(page), 0.97))
	odds := fade*math.Log(p/(1-p)) - useless + textual*most
	return float32(math.Round(1000/(1+math.Exp(-odds))) / 1000)
}

// Document scores a document. read is false if it has no text: then what links promised is its score.
func (s *Scorer) Document(doc *process.Document, before float32) (r Result, read bool) {
	texts, read := ReadTexts(doc)
	if !read {
		return Result{Topic: -1, Score: before}, false
	}
	return s.Texts(texts, before), true
}

// Needed is for each topic the cosine from which on a page is about it, by what links promised.
func (f *Fitted) Needed(before float32) (cosines []float64) {
	for t := range f.scales {
		low, high := 0.0, 1.0
		for range 20 {
			if mid := (low + high) / 2; f.scales[t].relevance(likeness(mid, before)) < Relevant {
				low = mid
			} else {
				high = mid
			}
		}
		cosines = append(cosines, high)
	}
	return cosines
}
