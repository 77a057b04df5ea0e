package words

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"mercator/pkg/base/fault"
)

// Topic is one sense of a query: what a focused crawl looks for. As text it is a JSON line.
type Topic struct {
	Topic string `json:"topic"`           // name of the sense, unique among topics: "mouse.n.01"
	Query string `json:"query"`           // that it is of
	Gloss string `json:"gloss,omitempty"` // meaning of the sense
	Words []Word `json:"words"`           // heaviest first, then by name; each once
}

// Word is a word of a topic. It may have spaces.
type Word struct {
	Word   string  `json:"word"`   // lower case
	Weight float64 `json:"weight"` // above 0, at most 1, which is the query's own words
}

// Join makes one topic of all topics with the same name: several queries may share a sense. It has the words of all, each with its
// largest weight, and the query of the first.
func Join(topics []Topic) []Topic {
	var joined []Topic
	at := map[string]int{}
	for _, t := range topics {
		i, have := at[t.Topic]
		if !have {
			at[t.Topic] = len(joined)
			joined = append(joined, t)
			continue
		}
		weights := map[string]float64{}
		for _, w := range slices.Concat(joined[i].Words, t.Words) {
			weights[w.Word] = max(weights[w.Word], w.Weight)
		}
		var all []Word
		for word, weight := range weights {
			all = append(all, Word{word, weight})
		}
		slices.SortFunc(all, func(a, b Word) int { return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Word, b.Word)) })
		joined[i].Words = all[:min(len(all), MaxTopicWords)]
	}
	return joined
}

// Limits of what ReadTopics takes.
const (
	MaxTopics     = 1000
	MaxTopicWords = 10_000 // of a topic
	maxTopicLine  = 4 << 20
)

// ReadTopics reads JSON lines. A line that is no topic, a topic named twice, a weight outside its range, or input without a
// topic is fault.Corrupt; name stands in messages.
func ReadTopics(in io.Reader, name string) ([]Topic, error) {
	var topics []Topic
	named := map[string]bool{}
	line := 0
	bad := func(found, want string) error {
		return &fault.Error{Class: fault.Corrupt, File: name, Place: fmt.Sprintf("line %d", max(line, 1)), Found: found, Want: want, Hint: "mfocus topics words.db --query mouse -o topics.jsonl"}
	}
	s := bufio.NewScanner(in)
	s.Buffer(nil, maxTopicLine)
	for s.Scan() {
		line++
		if strings.TrimSpace(s.Text()) == "" {
			continue
		}
		var t Topic
		if err := json.Unmarshal(s.Bytes(), &t); err != nil {
			return nil, bad("no topic: "+err.Error(), `{"topic":"mouse.n.01","query":"mouse","words":[{"word":"rodent","weight":0.5}]}`)
		}
		switch {
		case t.Topic == "":
			return nil, bad("a topic without a name", `a member "topic"`)
		case named[t.Topic]:
			return nil, bad(fmt.Sprintf("topic %q again", t.Topic), "each once")
		case len(topics) == MaxTopics:
			return nil, bad("more topics", fmt.Sprintf("at most %d", MaxTopics))
		case len(t.Words) == 0 || len(t.Words) > MaxTopicWords:
			return nil, bad(fmt.Sprintf("%d words", len(t.Words)), fmt.Sprintf("1 to %d", MaxTopicWords))
		}
		for _, w := range t.Words {
			if w.Word == "" || !(w.Weight > 0 && w.Weight <= 1) {
				return nil, bad(fmt.Sprintf("word %q of weight %v", w.Word, w.Weight), "a word, and a weight above 0 and at most 1")
			}
		}
		named[t.Topic] = true
		topics = append(topics, t)
	}
	err := s.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		line++
		return nil, bad("a longer line", fmt.Sprintf("at most %d bytes", maxTopicLine))
	}
	if err == nil && len(topics) == 0 {
		err = bad("no topic", "a JSON line each")
	}
	return topics, err
}
