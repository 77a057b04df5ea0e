package classify

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"mercator/pkg/fault"
)

// What a model is made with. The values were found by trial on made webs and on pages about the senses of some nouns.
const (
	evidence   = 16      // Model.Evidence
	prior      = -3.0    // log-odds of a page before it is read: a page in twenty is of a topic
	sharePages = 0.5     // part of the words of a topic's pages that are the topic's own, where there are example pages
	shareWord  = 0.006   // the same of one word of a dictionary, of weight 1; of all words together at most sharePages
	unknown    = -0.1    // log-odds of a word that training has not seen
	unlisted   = -0.2    // the same where no example page says which words are common
	dictionary = 200.0   // words that a page of the dictionary's words would have
	vocabulary = 5000    // words of the language, all as likely, where no page says how likely they are
	most       = 4.0     // log-odds of one word, either way
	least      = 0.03    // words with less are left out
	seenOnce   = 5       // with this many example pages or more, a word of one page alone is left out
	maxCounts  = 2 << 20 // of stems, one a topic
	maxWords   = 20_000  // of a model
)

// None is the topic of pages that are of no topic.
const None = -1

// Subject is a topic to be learned.
type Subject struct {
	Name, Query, Gloss string
	Words              map[string]float64 // of a dictionary, weight up to 1; may have spaces; may be empty
}

// Training collects what a model is made of. One goroutine.
type Training struct {
	subjects []Subject
	pages    []int // of each topic; the last is None
	total    []int // words of all pages, in thousandths of log2(1+n)
	words    map[string]*seen
	buf      map[string]int
}

// seen is a stem in the pages of each topic.
type seen struct {
	count []int // as Training.total
	pages int   // of topics
}

// NewTraining begins with topics and their words. The names must differ.
func NewTraining(subjects []Subject) (*Training, error) {
	subjects = slices.Clone(subjects)
	slices.SortFunc(subjects, func(a, b Subject) int { return strings.Compare(a.Name, b.Name) })
	if len(subjects) < 1 || len(subjects) > MaxTopics {
		return nil, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("%d topics", len(subjects)), Want: fmt.Sprintf("1 to %d", MaxTopics)}
	}
	for i, s := range subjects {
		if s.Name == "" || i > 0 && s.Name == subjects[i-1].Name {
			return nil, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("topic %q twice, or without a name", s.Name), Want: "topics with names"}
		}
	}
	n := len(subjects) + 1
	return &Training{subjects: subjects, pages: make([]int, n), total: make([]int, n), words: make(map[string]*seen), buf: make(map[string]int)}, nil
}

// Topic is the number of a topic for Add, or an error that lists the topics.
func (t *Training) Topic(name string) (int, error) {
	var names []string
	for i, s := range t.subjects {
		if s.Name == name {
			return i, nil
		}
		names = append(names, s.Name)
	}
	return 0, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("examples of topic %q", name), Want: "one of " + strings.Join(names, ", ")}
}

// Add takes a page's text as an example of a topic, or of None. A text without words is none: then it returns false. Pages of more
// different words than memory is for are fault.Usage.
func (t *Training) Add(topic int, text string) (taken bool, err error) {
	if topic == None {
		topic = len(t.subjects)
	}
	clear(t.buf)
	n := 0
	eachWord(text, func(word []byte, _, _ int) bool {
		if s := stem(string(word)); s != "" {
			t.buf[s]++
			n++
		}
		return n < MaxWords
	})
	if n == 0 {
		return false, nil
	}
	t.pages[topic]++
	for s, n := range t.buf {
		w := t.words[s]
		if w == nil {
			if limit := maxCounts / len(t.pages); len(t.words) >= limit {
				return false, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("pages with more than %d different words", limit), Want: "fewer pages, or fewer topics"}
			}
			w = &seen{count: make([]int, len(t.pages))}
			t.words[s] = w
		}
		w.count[topic] += damped(n)
		t.total[topic] += damped(n)
		if topic < len(t.subjects) {
			w.pages++
		}
	}
	return true, nil
}

// damped is the number of words that n times the same word count as, in thousandths.
func damped(n int) int {
	if n >= len(dampedTable) {
		n = len(dampedTable) - 1
	}
	return dampedTable[n]
}

var dampedTable = func() (table [256]int) {
	for n := range table {
		table[n] = int(math.Round(1000 * math.Log2(float64(1+n))))
	}
	return table
}()

// given are the stems of the dictionary's words of a topic, how likely each is of all, and how many words of weight 1 they are worth; nil without words. The
// words of the query are among them. A weight is squared: what is far from the sense, such as the words of its gloss, is often a common word.
func (s *Subject) given() (likely map[string]float64, worth float64) {
	if len(s.Words) == 0 {
		return nil, 0
	}
	weights := make(map[string]float64)
	take := func(words string, weight float64) {
		var stems []string
		eachWord(words, func(word []byte, _, _ int) bool {
			if s := stem(string(word)); s != "" {
				stems = append(stems, s)
			}
			return true
		})
		for _, s := range stems { // of several words each says less
			weights[s] = max(weights[s], float64(weight)/float64(len(stems)))
		}
	}
	take(s.Query, 1)
	for word, weight := range s.Words {
		take(word, weight)
	}
	for _, s := range slices.Sorted(maps.Keys(weights)) {
		weights[s] = float64(weights[s] * weights[s])
		worth += weights[s]
	}
	for s := range weights {
		weights[s] /= worth
	}
	return weights, worth
}

// Model estimates a model. Example pages without pages of no topic are fault.Usage: each common word would speak for the topic.
func (t *Training) Model() (*Model, error) {
	none := len(t.subjects)
	m := &Model{Stems: language, Evidence: evidence, Others: t.pages[none], Words: make(map[string][]int32)}
	given, worth := make([]map[string]float64, none), make([]float64, none)
	all := make(map[string]bool)
	for s := range t.words {
		all[s] = true
	}
	examples := 0
	for i := range t.subjects {
		s := &t.subjects[i]
		given[i], worth[i] = s.given()
		for w := range given[i] {
			all[w] = true
		}
		examples += t.pages[i]
		if t.pages[i] == 0 && len(given[i]) == 0 {
			return nil, &fault.Error{Class: fault.Usage, Found: "topic " + s.Name + " without words and without pages", Want: "some", Hint: "add --examples " + fault.Quote(s.Name+"=FILE")}
		}
		m.Topics = append(m.Topics, Topic{Name: s.Name, Query: s.Query, Gloss: s.Gloss, Pages: t.pages[i],
			Prior: nats(prior - math.Log(float64(none))), Unknown: nats(unknown)})
		if t.pages[i] == 0 {
			m.Topics[i].Unknown = nats(unlisted)
		}
	}
	if examples > 0 && t.pages[none] == 0 {
		return nil, &fault.Error{Class: fault.Usage, Found: "examples of topics, and no page that is of none", Want: "such pages: without them each common word would speak for a topic", Hint: "add --others DIR"}
	}
	// Laplace's estimate, over the words that are known.
	size := float64(vocabulary)
	if t.pages[none] > 0 {
		size = float64(len(t.words))
	}
	type weighed struct {
		stem    string
		weights []int32
		best    int32
	}
	var words []weighed
	for _, s := range slices.Sorted(maps.Keys(all)) {
		w := t.words[s]
		if w == nil {
			w = &seen{count: make([]int, none+1)}
		}
		inDictionary := false
		one := weighed{stem: s}
		elsewhere := (float64(w.count[none])/1000 + 1) / (float64(t.total[none])/1000 + size)
		for i := range t.subjects {
			share := min(shareWord*worth[i], sharePages)
			if t.pages[i] > 0 {
				share = sharePages
			}
			here, n := float64(w.count[i])/1000, float64(t.total[i])/1000
			if given[i] != nil {
				inDictionary = inDictionary || given[i][s] > 0
				here, n = here+float64(dictionary*given[i][s]), n+dictionary
			}
			odds := math.Log(float64(1-share) + float64(share*here/n)/elsewhere)
			one.weights = append(one.weights, nats(max(-most, min(odds, most))))
			one.best = max(one.best, one.weights[i], -one.weights[i])
		}
		if len(s) > maxWord || one.best < nats(least) || !inDictionary && w.pages == 1 && examples >= seenOnce {
			continue
		}
		words = append(words, one)
	}
	if limit := min(maxWords, MaxWeights/none); len(words) > limit {
		slices.SortStableFunc(words, func(a, b weighed) int { return int(b.best) - int(a.best) })
		words = words[:limit]
	}
	for _, w := range words {
		m.Words[w.stem] = w.weights
	}
	if len(m.Words) == 0 {
		return nil, &fault.Error{Class: fault.Usage, Found: "no word that tells a topic from others", Want: "more pages, or words of a dictionary"}
	}
	return m, nil
}

// nats is a log-odds in thousandths.
func nats(x float64) int32 { return int32(math.Round(1000 * x)) }

// OfWords is a model of one topic, the words of a query. A query without words is fault.Usage.
func OfWords(query string) (*Model, error) {
	t, err := NewTraining([]Subject{{Name: query, Query: query, Words: map[string]float64{query: 1}}})
	if err != nil {
		return nil, err
	}
	m, err := t.Model()
	if err != nil {
		return nil, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("query %q", query), Want: "a word that is no stop word"}
	}
	return m, nil
}
