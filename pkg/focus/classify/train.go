package classify

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
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
	pages    [][]Bag // of each topic; the last is None
	forms    map[string]string
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
	return &Training{subjects: subjects, pages: make([][]Bag, len(subjects)+1)}, nil
}

// Forms takes irregular forms of words, as a dictionary has them: "mice" is "mouse". It comes before Add. What the stemmer knows, and what is no single word, is left out.
func (t *Training) Forms(forms map[string]string) {
	t.forms = make(map[string]string)
	for form, base := range forms {
		is, of := stems(form, nil), stems(base, nil)
		if len(is) == 1 && len(of) == 1 && is[0] != of[0] && !strings.ContainsFunc(form, func(r rune) bool { return !unicode.IsLetter(r) }) && len(of[0]) <= maxWord && len(t.forms) < maxForms {
			t.forms[form] = of[0]
		}
	}
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

// Add takes a page as an example of a topic, or of None. A page without words is none: then it returns false. Of many pages some are drawn,
// whatever their order.
func (t *Training) Add(topic int, texts Texts) (taken bool) {
	most := maxExamples
	if topic == None {
		topic, most = len(t.subjects), maxOthers
	}
	words := texts.words(&stemmer{forms: t.forms})
	slices.SortFunc(words, func(a, b Word) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Stem, b.Stem)) })
	bag := make(Bag)
	for _, w := range words[:min(len(words), telling)] {
		bag[w.Stem] = int32(w.Count)
	}
	if len(bag) == 0 {
		return false
	}
	draw := func(b Bag) uint64 {
		text, _ := json.Marshal(b) // a map of numbers is no error
		return mixed(fingerprint.Of(text))
	}
	n := draw(bag)
	at, _ := slices.BinarySearchFunc(t.pages[topic], n, func(b Bag, n uint64) int { return cmp.Compare(draw(b), n) })
	if at < most {
		t.pages[topic] = slices.Insert(t.pages[topic][:min(len(t.pages[topic]), most-1)], at, bag)
	}
	return true
}

// given are the stems of the dictionary's words of a topic, with their weights in thousandths. The words of the query are among them. A weight is squared:
// what is far from the sense, such as the words of its gloss, is often a common word. Of several words each says less.
func (s *Subject) given(forms map[string]string) map[string]int32 {
	weights := make(map[string]float64)
	query := stems(s.Query, forms)
	several := float64(max(len(query), 1))
	take := func(words string, weight float64) {
		list := stems(words, forms)
		for _, s := range list {
			weights[s] = max(weights[s], weight/float64(len(list))/several)
		}
	}
	for word, weight := range s.Words {
		take(word, float64(weight*weight))
	}
	for _, s := range query { // all of them, whatever word the sense is of
		weights[s] = 1
	}
	if len(weights) == 0 {
		return nil
	}
	out := make(map[string]int32)
	order := slices.SortedFunc(maps.Keys(weights), func(a, b string) int { return cmp.Or(cmp.Compare(weights[b], weights[a]), cmp.Compare(a, b)) })
	for _, s := range order[:min(len(order), maxWords)] {
		if w := int32(math.Round(1000 * weights[s])); w > 0 && len(s) <= maxWord {
			out[s] = w
		}
	}
	return out
}

// Model makes the model.
func (t *Training) Model() (*Model, error) {
	m := &Model{Stems: language, Others: t.pages[len(t.subjects)], Forms: t.forms}
	for i := range t.subjects {
		s := &t.subjects[i]
		words := s.given(t.forms)
		if len(words) == 0 && len(t.pages[i]) == 0 {
			return nil, &fault.Error{Class: fault.Usage, Found: "topic " + s.Name + " without words and without pages", Want: "some", Hint: "add --examples " + fault.Quote(s.Name+"=FILE")}
		}
		m.Topics = append(m.Topics, Topic{Name: s.Name, Query: s.Query, Gloss: s.Gloss, Words: words, Examples: t.pages[i]})
	}
	return m, nil
}

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
