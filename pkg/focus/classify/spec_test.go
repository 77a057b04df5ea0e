package classify

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"mercator/formats/spectest"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

// vectorModel is the model of the page's example.
func vectorModel() *Model {
	return &Model{Stems: "english", Topics: []Topic{
		{Name: "mouse.n.01", Query: "mouse", Gloss: "a small rodent", Words: map[string]int32{"mous": 1000, "rodent": 250}, Examples: []Bag{{"mous": 4, "owl": 1}}},
		{Name: "mouse.n.04", Query: "mouse", Rival: true, Words: map[string]int32{"mous": 1000, "cursor": 62}},
	}, Others: []Bag{{"cathedr": 3}}, Forms: map[string]string{"mice": "mous"}}
}

// many are so many stems.
func many(n int) map[string]int32 {
	words := make(map[string]int32)
	for i := range n {
		words[fmt.Sprintf("w%x", i)] = 1
	}
	return words
}

// TestSpec holds the reader to SPEC.md and its vectors.
func TestSpec(t *testing.T) {
	seal := func(edit func(m *Model)) []byte {
		m := vectorModel()
		edit(m)
		data, err := m.Encode()
		must.OK(t, err)
		return data
	}
	bad := func(name, says string, edit func(m *Model)) spectest.Vector {
		return spectest.Vector{Name: "bad/" + name, Bytes: seal(edit), Class: fault.Corrupt, Says: says}
	}
	good := seal(func(*Model) {})
	all := []spectest.Vector{
		{Name: "good/model.json", Bytes: good, Gives: string(good)},
		bad("R1-stems.json", `stems: "german", want "english"`, func(m *Model) { m.Stems = "german" }),
		bad("R2-no-topics.json", "topics: 0 topics", func(m *Model) { m.Topics = nil }),
		bad("R2-many-topics.json", "topics: 401 topics", func(m *Model) {
			m.Topics = nil
			for i := range 401 {
				m.Topics = append(m.Topics, Topic{Name: fmt.Sprintf("t%03d", i), Words: map[string]int32{"a": 1}})
			}
		}),
		bad("R2-no-name.json", `topics: name ""`, func(m *Model) { m.Topics[0].Name = "" }),
		bad("R2-order.json", `topics: name "mouse.n.01"`, func(m *Model) { m.Topics[1].Name = "mouse.n.01" }),
		bad("R3-no-words.json", "topic mouse.n.04: 0 stems, want 1 to 2000", func(m *Model) { m.Topics[1].Words = nil }),
		bad("R3-many-words.json", "topic mouse.n.04: 2001 stems", func(m *Model) { m.Topics[1].Words = many(maxWords + 1) }),
		bad("R3-many-examples.json", "topic mouse.n.01: 65 pages, want at most 64", func(m *Model) { m.Topics[0].Examples = slices.Repeat(m.Topics[0].Examples, 65) }),
		bad("R4-many-others.json", "others: 257 pages, want at most 256", func(m *Model) { m.Others = slices.Repeat(m.Others, 257) }),
		bad("R5-empty.json", "others: 0 stems, want 1 to 200", func(m *Model) { m.Others = []Bag{{}} }),
		bad("R5-long-page.json", "others: 201 stems", func(m *Model) { m.Others = []Bag{many(telling + 1)} }),
		bad("R6-empty.json", `stem "" of 1`, func(m *Model) { m.Topics[0].Words[""] = 1 }),
		bad("R6-long.json", "of 5, want 1 to 40 bytes", func(m *Model) { m.Topics[0].Words[strings.Repeat("a", 41)] = 5 }),
		bad("R6-weight.json", `stem "cursor" of 1001`, func(m *Model) { m.Topics[1].Words["cursor"] = 1001 }),
		bad("R6-count.json", `stem "cathedr" of 0, want 1 to 40 bytes, and 1 to 50000`, func(m *Model) { m.Others[0]["cathedr"] = 0 }),
		bad("R8-many-forms.json", "forms: 10001 words, want at most 10000", func(m *Model) {
			for w := range many(maxForms) {
				m.Forms[w] = "a"
			}
		}),
		bad("R8-no-stem.json", `forms: stem "" of "mice", want 1 to 40 bytes`, func(m *Model) { m.Forms["mice"] = "" }),
		{Name: "bad/R7-version-2.json", Bytes: bytes.Replace(good, []byte(Magic+" 1"), []byte(Magic+" 2"), 1), Class: fault.Version, Says: "mercator-focus-model version 2, want 1"},
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
	must.OK(f, err)
	_, body, _ := strings.Cut(string(good), "\n")
	f.Add(body)
	f.Fuzz(func(t *testing.T, body string) {
		m, err := Decode("m", fmt.Appendf(nil, "%s 1 %d %s\n%s", Magic, len(body), store.Sum([]byte(body)), body))
		if err != nil {
			return
		}
		again, err := m.Encode()
		must.OK(t, err)
		if r := NewScorer(fitted(m)).Texts(Texts{Texts: []string{"a mouse is a rodent, the cursor is none"}}, 0); r.Score < 0 || r.Score > 1 {
			t.Error(r)
		}
		if once, err := Decode("m", again); err != nil {
			t.Fatal(err, once)
		}
	})
}
