package words

import (
	"errors"
	"strings"
	"testing"

	"mercator/pkg/base/fault"
)

func TestReadTopics(t *testing.T) {
	const good = `{"topic":"mouse.n.01","query":"mouse","gloss":"a rodent","words":[{"word":"rodent","weight":0.5}]}` + "\n"
	topics, err := ReadTopics(strings.NewReader(good+"\n"), "t")
	if err != nil || len(topics) != 1 || topics[0].Words[0] != (Word{"rodent", 0.5}) {
		t.Fatal(topics, err)
	}
	for text, want := range map[string]string{
		"":          "t: line 1: no topic, want a JSON line each",
		"mouse\n":   "t: line 1: no topic: invalid character 'm' looking for beginning of value, want ",
		good + good: `t: line 2: topic "mouse.n.01" again`,
		`{"query":"mouse","words":[{"word":"rodent","weight":0.5}]}`:   "t: line 1: a topic without a name",
		`{"topic":"a","words":[]}`:                                     "t: line 1: 0 words",
		`{"topic":"a","words":[{"word":"rodent","weight":0}]}`:         `word "rodent" of weight 0`,
		`{"topic":"a","words":[{"word":"rodent","weight":1.5}]}`:       `word "rodent" of weight 1.5`,
		`{"topic":"a","words":[{"word":"","weight":1}]}`:               `word "" of weight 1`,
		good + `{"topic":"` + strings.Repeat("a", maxTopicLine) + `"}`: "t: line 2: a longer line",
	} {
		t.Run(want, func(t *testing.T) {
			if _, err := ReadTopics(strings.NewReader(text), "t"); !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), want) {
				t.Errorf("%.80s: %v, want %s", text, err, want)
			}
		})
	}
	var many strings.Builder
	for i := range MaxTopics + 1 {
		many.WriteString(strings.Replace(good, "01", strings.Repeat("x", i+1), 1))
	}
	if _, err := ReadTopics(strings.NewReader(many.String()), "t"); err == nil || !strings.Contains(err.Error(), "line 1001: more topics") {
		t.Error(err)
	}
}
