package classify

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
)

// Magic begins a model's file.
const Magic = "mercator-focus-model"

// Bounds of a model.
const (
	MaxTopics   = 400
	maxWords    = 2000 // of a topic
	maxExamples = 64   // of a topic
	maxOthers   = 256
	maxForms    = 10_000
	maxWeight   = 1000
	maxFile     = 64 << 20 // bytes
)

// language of the stems.
const language = "english"

// Model knows topics by words and by examples. It is read-only.
type Model struct {
	Stems  string            `json:"stems"`            // language of the stemmer: "english"
	Topics []Topic           `json:"topics"`           // in order of name
	Others []Bag             `json:"others,omitempty"` // pages of no topic
	Forms  map[string]string `json:"forms,omitempty"`  // stems of irregular forms: "mous" of "mice"

	without []bool // for each topic whether it counts only as a rival of the others; nil: none does
}

// Topic is a topic of a model.
type Topic struct {
	Name     string           `json:"topic"`
	Query    string           `json:"query,omitempty"`
	Gloss    string           `json:"gloss,omitempty"`
	Rival    bool             `json:"rival,omitempty"`    // a document about it is not relevant, unless it is asked for by name
	Words    map[string]int32 `json:"words,omitempty"`    // weights of stems, in thousandths
	Examples []Bag            `json:"examples,omitempty"` // pages about it
}

// Bag is a page: how often each of its most telling stems stands there.
type Bag map[string]int32

// Encode gives the model's file.
func (m *Model) Encode() ([]byte, error) { return store.Seal(Magic, m) }

// Read reads a model's file.
func Read(path string) (*Model, error) {
	data, err := durable.ReadFile(durable.OS, path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &fault.Error{Class: fault.Usage, File: path, Found: "no such file", Want: "a model", Hint: "make it: " + fault.Quote("mfocus", "train", "-o", path, "--topics", "topics.jsonl"), Err: err}
	}
	if err != nil {
		return nil, err
	}
	return Decode(path, data)
}

// Decode reads a model from the content of a file. It refuses what SPEC.md says.
func Decode(name string, data []byte) (*Model, error) {
	m := new(Model)
	if err := store.Unseal(name, Magic, data, m); err != nil {
		if e, ok := errors.AsType[*fault.Error](err); ok && e.Hint == "" {
			e.Hint = "train it again: mfocus train --help"
		}
		return nil, err
	}
	for i, t := range m.Topics {
		if t.Rival {
			if m.without == nil {
				m.without = make([]bool, len(m.Topics))
			}
			m.without[i] = true
		}
	}
	return m, m.check(name)
}

// check is the list of rules that SPEC.md gives.
func (m *Model) check(name string) error {
	bad := func(place, found, want string) error {
		return &fault.Error{Class: fault.Corrupt, File: name, Place: place, Found: found, Want: want}
	}
	if m.Stems != language {
		return bad("stems", fmt.Sprintf("%.80q", m.Stems), fmt.Sprintf("%q", language))
	}
	if len(m.Topics) < 1 || len(m.Topics) > MaxTopics {
		return bad("topics", fmt.Sprintf("%d topics", len(m.Topics)), fmt.Sprintf("1 to %d", MaxTopics))
	}
	stems := func(place string, words map[string]int32, least, most int, count int32) error {
		if len(words) < least || len(words) > most {
			return bad(place, fmt.Sprintf("%d stems", len(words)), fmt.Sprintf("%d to %d", least, most))
		}
		for _, stem := range slices.Sorted(maps.Keys(words)) {
			if n := words[stem]; stem == "" || len(stem) > maxWord || n < 1 || n > count {
				return bad(place, fmt.Sprintf("stem %.80q of %d", stem, n), fmt.Sprintf("1 to %d bytes, and 1 to %d", maxWord, count))
			}
		}
		return nil
	}
	bags := func(place string, pages []Bag, most int) error {
		if len(pages) > most {
			return bad(place, fmt.Sprintf("%d pages", len(pages)), fmt.Sprintf("at most %d", most))
		}
		for _, p := range pages {
			if err := stems(place, p, 1, telling, MaxWords); err != nil {
				return err
			}
		}
		return nil
	}
	for i, t := range m.Topics {
		if t.Name == "" || i > 0 && t.Name <= m.Topics[i-1].Name {
			return bad("topics", fmt.Sprintf("name %.80q", t.Name), "names in order, each once")
		}
		least := 1
		if len(t.Examples) > 0 {
			least = 0
		}
		if err := cmp.Or(stems("topic "+t.Name, t.Words, least, maxWords, maxWeight), bags("topic "+t.Name, t.Examples, maxExamples)); err != nil {
			return err
		}
	}
	if len(m.Forms) > maxForms {
		return bad("forms", fmt.Sprintf("%d words", len(m.Forms)), fmt.Sprintf("at most %d", maxForms))
	}
	for _, word := range slices.Sorted(maps.Keys(m.Forms)) {
		if s := m.Forms[word]; s == "" || len(s) > maxWord {
			return bad("forms", fmt.Sprintf("stem %.80q of %.80q", s, word), fmt.Sprintf("1 to %d bytes", maxWord))
		}
	}
	return bags("others", m.Others, maxOthers)
}

// Names returns the names of the topics.
func (m *Model) Names() (names []string) {
	for _, t := range m.Topics {
		names = append(names, t.Name)
	}
	return names
}

// Only is the model for some of its topics: a document is relevant if it is about one of these. The others stay their rivals. A topic that it does not
// have is fault.Usage; file names the model in messages.
func (m *Model) Only(names []string, file string) (*Model, error) {
	if len(names) == 0 {
		return m, nil
	}
	out := *m
	out.without = slices.Repeat([]bool{true}, len(m.Topics))
	for _, name := range names {
		i := slices.Index(m.Names(), name)
		if i < 0 {
			i = slices.IndexFunc(m.Topics, func(t Topic) bool { return strings.EqualFold(t.Name, name) })
		}
		if i < 0 {
			return nil, &fault.Error{Class: fault.Usage, File: file, Found: fmt.Sprintf("no topic %q", name), Want: "one of the model's: " + strings.Join(m.Names(), ", "),
				Hint: "train a model for it: mfocus train --help"}
		}
		out.without[i] = m.without != nil && m.without[i] && !m.Topics[i].Rival
	}
	return &out, nil
}

// Choose is Only, and the model's file keeps the choice.
func (m *Model) Choose(names []string, file string) (*Model, error) {
	out, err := m.Only(names, file)
	if err != nil || len(names) == 0 {
		return out, err
	}
	out.Topics = slices.Clone(out.Topics)
	for i := range out.Topics {
		out.Topics[i].Rival = out.without[i]
	}
	return out, nil
}

// wants reports whether a topic counts.
func (m *Model) wants(topic int) bool { return m.without == nil || !m.without[topic] }

// OfQuery is the model for the topics of a query.
func (m *Model) OfQuery(query, file string) (*Model, error) {
	var names, queries []string
	for _, t := range m.Topics {
		if queries = append(queries, t.Query); strings.EqualFold(t.Query, query) && !t.Rival {
			names = append(names, t.Name)
		}
	}
	if names == nil {
		slices.Sort(queries)
		return nil, &fault.Error{Class: fault.Usage, File: file, Found: fmt.Sprintf("no topic of the query %q", query), Want: "one of the model's: " + strings.Join(slices.Compact(queries), ", "),
			Hint: "train a model for it: mfocus train --help"}
	}
	return m.Only(names, file)
}
