package classify

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"mercator/formats/spectest"
	"mercator/formats/store"
	"mercator/pkg/fault"
)

// vectorModel is the model of the page's example.
func vectorModel() *Model {
	return &Model{Stems: "english", Evidence: 16, Others: 2, Topics: []Topic{
		{Name: "mouse.n.01", Query: "mouse", Gloss: "a small rodent", Pages: 3, Prior: -3693, Unknown: -200},
		{Name: "mouse.n.04", Query: "mouse", Prior: -3693, Unknown: -200},
	}, Words: map[string][]int32{"mous": {3900, 3800}, "rodent": {3500, -105}, "cursor": {-105, 3300}}}
}

// TestSpec holds the reader to SPEC.md and its vectors.
func TestSpec(t *testing.T) {
	seal := func(edit func(m *Model)) []byte {
		m := vectorModel()
		edit(m)
		data, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	bad := func(name, says string, edit func(m *Model)) spectest.Vector {
		return spectest.Vector{Name: "bad/" + name, Bytes: seal(edit), Class: fault.Corrupt, Says: says}
	}
	good := seal(func(*Model) {})
	all := []spectest.Vector{
		{Name: "good/model.json", Bytes: good, Gives: string(good)},
		bad("R1-stems.json", `stems: "german", want "english"`, func(m *Model) { m.Stems = "german" }),
		bad("R2-evidence-0.json", "evidence: 0, want", func(m *Model) { m.Evidence = 0 }),
		bad("R2-evidence-1001.json", "evidence: 1001, want", func(m *Model) { m.Evidence = 1001 }),
		bad("R3-no-topics.json", "topics: 0 topics", func(m *Model) { m.Topics = nil }),
		bad("R3-many-topics.json", "topics: 401 topics", func(m *Model) {
			m.Topics = nil
			for i := range 401 {
				m.Topics = append(m.Topics, Topic{Name: fmt.Sprintf("t%03d", i)})
			}
		}),
		bad("R3-no-name.json", `topics: name ""`, func(m *Model) { m.Topics[0].Name = "" }),
		bad("R3-order.json", `topics: name "mouse.n.01"`, func(m *Model) { m.Topics[1].Name = "mouse.n.01" }),
		bad("R4-prior.json", "topic mouse.n.01: weights 20001 and -200", func(m *Model) { m.Topics[0].Prior = 20001 }),
		bad("R4-unknown.json", "topic mouse.n.04: weights -3693 and -20001", func(m *Model) { m.Topics[1].Unknown = -20001 }),
		bad("R5-no-words.json", "words: 0 words", func(m *Model) { m.Words = nil }),
		{Name: "bad/R5-many-weights", Class: fault.Corrupt, Says: "words: 262145 words of 2 topics", Case: func(t testing.TB) error {
			m := vectorModel()
			for i := range MaxWeights/2 - 2 {
				m.Words[fmt.Sprintf("w%x", i)] = []int32{1, 2}
			}
			return m.check("many.json")
		}},
		bad("R6-weights.json", `word "cursor": 1 weights`, func(m *Model) { m.Words["cursor"] = []int32{1} }),
		bad("R7-empty.json", `word "": 0 bytes`, func(m *Model) { m.Words[""] = []int32{1, 2} }),
		bad("R7-long.json", "41 bytes, weights", func(m *Model) { m.Words[strings.Repeat("a", 41)] = []int32{1, 2} }),
		bad("R7-range.json", `word "cursor": 6 bytes, weights [20001 0]`, func(m *Model) { m.Words["cursor"] = []int32{20001, 0} }),
		{Name: "bad/R8-version-2.json", Bytes: bytes.Replace(good, []byte(Magic+" 1"), []byte(Magic+" 2"), 1), Class: fault.Version, Says: "mercator-focus-model version 2, want 1"},
	}
	line, body, _ := strings.Cut(strings.TrimSpace(string(good)), "\n")
	spectest.Check(t, spectest.Format{
		Vectors: all,
		Regions: map[string]string{"example": "    " + line + "\n    " + body + "\n"},
		Read: func(t testing.TB, name string, file []byte) (string, error) {
			m, err := Decode(name, file)
			if err != nil {
				return "", err
			}
			again, err := m.Encode()
			return string(again), err
		},
	})
}

// FuzzModel: what is accepted encodes again to the same, and scores.
func FuzzModel(f *testing.F) {
	good, err := vectorModel().Encode()
	if err != nil {
		f.Fatal(err)
	}
	_, body, _ := strings.Cut(string(good), "\n")
	f.Add(body)
	f.Fuzz(func(t *testing.T, body string) {
		m, err := Decode("m", fmt.Appendf(nil, "%s 1 %d %s\n%s", Magic, len(body), store.Sum([]byte(body)), body))
		if err != nil {
			return
		}
		again, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if r := NewScorer(m).Text("a mouse is a rodent, the cursor is none"); r.Score < 0 || r.Score > 1 {
			t.Error(r)
		}
		if once, err := Decode("m", again); err != nil {
			t.Fatal(err, once)
		}
	})
}
