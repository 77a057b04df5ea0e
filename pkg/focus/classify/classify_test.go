package classify

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"mercator/pkg/base/costtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/web/process"
)

// senses are two topics as a dictionary has them.
var senses = []Subject{
	{Name: "mouse.n.01", Query: "mouse", Gloss: "a small rodent", Words: map[string]float64{
		"mouse": 1, "house mouse": .9, "field mouse": .9, "rodent": .8, "gnawer": .8, "rat": .5, "snout": .4, "ears": .4, "hairless": .4, "tail": .4, "mammal": .5, "burrow": .3}},
	{Name: "mouse.n.04", Query: "mouse", Gloss: "a hand-operated electronic device", Words: map[string]float64{
		"mouse": 1, "computer mouse": 1, "electronic device": .8, "cursor": .5, "computer": .5, "screen": .4, "pad": .4, "ball": .3, "coordinates": .3, "button": .4, "keyboard": .3}},
}

// natural are texts as people write them. Training has not seen them.
var natural = []struct{ topic, text string }{
	{"mouse.n.01", "The harvest mouse is a small rodent that lives in fields of grain. It has large ears, a pointed snout and a long tail that it winds around stalks. Its nest is a ball of woven grass. Like other rodents it gnaws seeds; in winter it moves into a burrow or under hay. Owls and cats hunt it."},
	{"mouse.n.01", "Mice breed quickly. A female house mouse has five to ten litters a year, each of six young that are born blind and hairless. Rats, which are larger rodents, often drive mice from a cellar. The tail of a grown animal is about as long as its body."},
	{"mouse.n.04", "A wireless mouse needs a small receiver that is put into the computer. When you move the device over a pad, the cursor on the screen follows. The left button selects, the right button opens a menu, and a wheel between the buttons scrolls. A mouse and a keyboard can share one receiver."},
	{"mouse.n.04", "To clean an old computer mouse with a ball, open the ring on its bottom, take out the ball and wipe the rollers. If the cursor still jumps across the screen, replace the pad. Optical mice have no ball; a sensor below the device finds how far your hand has moved it."},
	{"", "The cathedral was built between the twelfth and the fourteenth century. Its tower is the highest of the country, and from the gallery you see the harbour, the old market and the hills behind the town. The choir has windows of coloured glass that were made before the fire."},
	{"", "Beat the eggs with sugar until they are pale, fold in the flour and melted butter, and bake the cake for forty minutes. Let it cool in the tin before you turn it out. A little lemon juice in the icing keeps it from becoming too sweet."},
	{"", "The parliament adopted the budget after a debate of nine hours. The opposition wanted more money for schools and railways. The minister of finance said that taxes would not rise before the election, and that the debt of the state was smaller than a year ago."},
	{"", "To install the package, unpack the archive, run configure and make, and copy the program into a directory of your search path. The manual page lists all options. Report bugs to the mailing list, with the version of your operating system and the output of the compiler."},
}

func train(t testing.TB, subjects []Subject, pages ...[2]string) *Model {
	t.Helper()
	training, err := NewTraining(subjects)
	must.OK(t, err)
	for _, p := range pages {
		topic := None
		if p[0] != "" {
			topic, err = training.Topic(p[0])
			must.OK(t, err)
		}
		training.Add(topic, Texts{Texts: []string{p[1]}})
	}
	m, err := training.Model()
	must.OK(t, err)
	return m
}

// fitted is a model where no page of a crawl is known.
func fitted(m *Model) *Fitted {
	l, _ := ReadLearned(nil, "")
	return m.Fit(l)
}

// The paper's example: two senses of "mouse", told apart with nothing but the words of a dictionary.
func TestSenses(t *testing.T) {
	s := NewScorer(fitted(train(t, senses)))
	for _, n := range natural {
		t.Run(fmt.Sprintf("%.40s", n.text), func(t *testing.T) {
			r := s.Texts(Texts{Texts: []string{n.text}}, 0)
			topic := ""
			if r.Score >= 0.5 {
				topic = s.f.m.Topics[r.Topic].Name
			}
			t.Logf("%-10s %.3f %.40s…", topic, r.Score, n.text)
			if topic != n.topic {
				t.Errorf("%q, want %q: score %v, odds %v", topic, n.topic, r.Score, r.Alike)
			}
		})
	}
}

// Irregular forms of a dictionary count as their words: in the topic's words, in the examples, and in documents.
func TestForms(t *testing.T) {
	training, err := NewTraining([]Subject{{Name: "mice", Query: "mice", Words: map[string]float64{"geese": 1}}})
	must.OK(t, err)
	training.Forms(map[string]string{"mice": "mouse", "geese": "goose", "mice's": "mouse", "bred stock": "breed", "walked": "walk"})
	training.Add(0, Texts{Texts: []string{"mice mouse geese"}})
	m, err := training.Model()
	must.OK(t, err)
	topic := m.Topics[0]
	if topic.Words["mous"] != 1000 || topic.Words["goos"] != 1000 || len(topic.Words) != 2 || topic.Examples[0]["mous"] != 2 || len(m.Forms) != 2 {
		t.Errorf("%+v, forms %v", topic, m.Forms)
	}
	s := NewScorer(fitted(m))
	one := func(text string) Result { return s.Texts(Texts{Texts: []string{text}}, 0) }
	if a, b := one("Three mice and a cat."), one("Three mouse and a cat."); a.Alike[0] == 0 || a.Alike[0] != b.Alike[0] {
		t.Errorf("%v, want %v", a, b)
	}
}

// A score is 0 to 1 and depends on nothing but the document; what Explain says adds up to it.
func TestScoreProperties(t *testing.T) {
	m := train(t, senses, [2]string{"", natural[4].text}, [2]string{"", natural[5].text})
	f := fitted(m)
	words := []string{"mouse", "rodents", "Computer", "the", "of", "cake", "é", "日本語", "x1", "screen.", "zzz", "\n", "ball-point"}
	random := rand.New(rand.NewPCG(1, 2))
	old := NewScorer(f)
	for range 300 {
		var text strings.Builder
		for range random.IntN(200) {
			text.WriteString(words[random.IntN(len(words))])
			fmt.Fprintf(&text, " w%c ", 'a'+random.IntN(26))
		}
		before := random.Float32()
		doc := process.Document{MIME: []string{"text/plain", "text/html", "image/gif"}[random.IntN(3)], URL: "http://h/" + text.String(), Body: []byte(text.String())}
		a, _ := old.Document(&doc, before)
		b, _ := NewScorer(f).Document(&doc, before)
		if a.Score < 0 || a.Score > 1 || math.IsNaN(float64(a.Score)) || a.Score != b.Score || a.Topic != b.Topic {
			t.Fatalf("%v, %v of %q", a, b, text.String())
		}
		r, shares := old.Explain(Texts{Texts: []string{text.String()}}, before)
		for i, alike := range r.Alike {
			sum := 0.0
			for _, s := range shares {
				sum += s.Alike[i]
			}
			if math.Abs(sum-alike) > 1e-9 {
				t.Fatalf("topic %d: shares add up to %v, the cosine is %v", i, sum, alike)
			}
		}
	}
	if r := old.Texts(Texts{}, 0); r.Score != 0 || r.Topic != -1 {
		t.Errorf("no words: %+v", r)
	}
}

// The same pages in another order give the same bytes, and these read back to the same.
func TestTrainingIsDeterministic(t *testing.T) {
	var pages [][2]string
	for _, n := range natural {
		pages = append(pages, [2]string{n.topic, n.text})
	}
	want, err := train(t, senses, pages...).Encode()
	must.OK(t, err)
	for range 5 {
		rand.Shuffle(len(pages), func(i, j int) { pages[i], pages[j] = pages[j], pages[i] })
		m := train(t, []Subject{senses[1], senses[0]}, pages...)
		if got, err := m.Encode(); err != nil || !bytes.Equal(got, want) {
			t.Fatal("other bytes", err)
		}
	}
	m, err := Decode("m", want)
	must.OK(t, err)
	if got, _ := m.Encode(); !bytes.Equal(got, want) {
		t.Error("other bytes once it was read")
	}
}

func TestBadTraining(t *testing.T) {
	for name, c := range map[string]struct {
		subjects []Subject
		pages    [][2]string
		says     string
	}{
		"no topics":          {nil, nil, "0 topics, want 1 to 400"},
		"a name twice":       {[]Subject{{Name: "a"}, {Name: "a"}}, nil, "twice"},
		"no words, no pages": {[]Subject{{Name: "a"}}, nil, "topic a without words and without pages"},
		"another topic":      {senses, [][2]string{{"cat.n.01", "text"}}, "one of mouse.n.01, mouse.n.04"},
	} {
		t.Run(name, func(t *testing.T) {
			training, err := NewTraining(c.subjects)
			for _, p := range c.pages {
				var topic int
				if topic, err = training.Topic(p[0]); err == nil {
					training.Add(topic, Texts{Texts: []string{p[1]}})
				}
			}
			if err == nil {
				_, err = training.Model()
			}
			if !errors.Is(err, fault.Usage) || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("%s: %v, want %q", name, err, c.says)
			}
		})
	}
	m := train(t, senses)
	if _, err := m.Only([]string{"cat.n.01"}, "m"); !errors.Is(err, fault.Usage) {
		t.Error(err)
	}
	if one, err := m.OfQuery("Mouse", "m"); err != nil || len(one.Topics) != 2 {
		t.Error(one, err)
	}
	if _, err := m.OfQuery("cat", "m"); !errors.Is(err, fault.Usage) {
		t.Error(err)
	}
	one, err := m.Only([]string{"mouse.n.04"}, "m")
	score := func(text string) float32 { return NewScorer(fitted(one)).Texts(Texts{Texts: []string{text}}, 0).Score }
	if err != nil || score(natural[0].text) > 0.5 || score(natural[2].text) < 0.5 {
		t.Error("one of two topics", err)
	}
}

// Passages are parts of the text, where they say, and about the topic.
func TestPassages(t *testing.T) {
	s := NewScorer(fitted(train(t, senses)))
	text := natural[4].text + "\nÜber die Maus: A mouse is a small rodent. It is grey.\tThe house mouse has a tail. " + natural[5].text + "\n\nMove the computer mouse on its pad. " + strings.Repeat("The mouse moved. ", 500) + "\n" + natural[6].text
	characters := []rune(text)
	all := s.Passages(text, 0)
	var got []string
	for i, p := range all {
		if p.Text != text[p.Start:p.End] || p.Text != string(characters[p.StartChar:p.EndChar]) || strings.Contains(p.Text, "\n") || !utf8.ValidString(p.Text) || len(p.Text) > maxSize {
			t.Errorf("passage %d is not its part of the text: %+v", i, p)
		}
		if i > 0 && p.Start < all[i-1].End {
			t.Errorf("passage %d begins in the one before", i)
		}
		got = append(got, fmt.Sprintf("%s %.40s", s.f.m.Topics[p.Topic].Name, p.Text))
	}
	want := []string{"mouse.n.01 Über die Maus: A mouse is a small rodent", "mouse.n.04 Move the computer mouse on its pad. The "}
	if len(got) < 2 || got[0] != want[0] || got[1] != want[1] || !strings.HasSuffix(all[0].Text, "has a tail.") {
		t.Errorf("%q, want first %q", got, want)
	}
	if few := s.Passages(text, 1); len(few) != 1 {
		t.Errorf("%d passages, want the best one", len(few))
	}
}

// Documents that would take all time or memory are scored, or are not, soon.
func TestHostileDocuments(t *testing.T) {
	s := NewScorer(fitted(train(t, senses)))
	bomb := func(part string) []byte {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		w, _ := z.Create("word/document.xml")
		for range 24 << 20 / len(part) {
			w.Write([]byte(part))
		}
		z.Close()
		return b.Bytes()
	}
	const docx = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
	const n = 4 << 20
	ole := "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
	for name, doc := range map[string]process.Document{
		"zeros in a zip":         {MIME: docx, Body: bomb(strings.Repeat("\x00", 1<<16))},
		"words in a zip":         {MIME: docx, Body: bomb(strings.Repeat("<w:t>mouse </w:t>", 1<<12))},
		"deep XML":               {MIME: "application/xml", Body: []byte(strings.Repeat("<a>", n/3))},
		"entities":               {MIME: "application/xml", Body: []byte("<!DOCTYPE a [<!ENTITY a \"" + strings.Repeat("&a;", 1000) + "\">]><a>" + strings.Repeat("&a;", n/3))},
		"one word":               {MIME: "text/plain", Body: bytes.Repeat([]byte("m"), n)},
		"many words":             {MIME: "text/plain", Body: manyWords(n)},
		"pictures":               {MIME: "text/html", Body: []byte(strings.Repeat("<img alt=mouse src=a>", n/21))},
		"a Word file of nothing": {MIME: "application/msword", Body: []byte(ole + strings.Repeat("\x00", n))},
		"short runs":             {MIME: "application/msword", Body: []byte(ole + strings.Repeat("abcdefghijk\x00", n/12))},
		"one long run":           {MIME: "application/msword", Body: []byte(ole + strings.Repeat("m\x00", n/2))},
		"no Word file":           {MIME: "application/msword", Body: bytes.Repeat([]byte("mouse "), n/6)},
		"not UTF-8":              {MIME: "text/plain", Charset: "utf-8", Body: bytes.Repeat([]byte{0xff}, n)},
	} {
		t.Run(name, func(t *testing.T) {
			var r Result
			var read bool
			took := costtest.Of(func() { r, read = s.Document(&doc, 0.5) })
			t.Logf("%-24s %v, read %v, score %v, %d words", name, took.Round(time.Millisecond), read, r.Score, r.Words)
			if took > 10*time.Second || r.Words > MaxWords || r.Score < 0 || r.Score > 1 {
				t.Errorf("%s: %v, %+v", name, took, r)
			}
		})
	}
}

// manyWords is a text of different words.
func manyWords(n int) (b []byte) {
	for i := 0; len(b) < n; i++ {
		for x := i; x > 0; x /= 26 {
			b = append(b, 'a'+byte(x%26))
		}
		b = append(b, " x "...)
	}
	return b
}

func FuzzScore(f *testing.F) {
	s := NewScorer(fitted(train(f, senses)))
	f.Add([]byte("<p>A mouse. <img alt='computer mouse'>"), "text/html")
	f.Add([]byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1A mouse is a rodent."), "application/msword")
	f.Add([]byte("<a>mouse</a>"), "application/rss+xml")
	f.Fuzz(func(t *testing.T, body []byte, mime string) {
		doc := &process.Document{MIME: mime, Body: body, URL: string(body)}
		r, _ := s.Document(doc, 0)
		if r.Score < 0 || r.Score > 1 || math.IsNaN(float64(r.Score)) {
			t.Error(r)
		}
		for _, p := range s.Passages(string(body), 3) {
			if p.Text != string(body[p.Start:p.End]) || p.EndChar-p.StartChar != utf8.RuneCountInString(p.Text) {
				t.Error(p)
			}
		}
	})
}

// A crawl that finds little else than its topic goes on to know it: what most pages have in common is not taken for what pages of no topic have.
func TestMostPagesAreRelevant(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	text := func(topic string) string {
		var words []string
		for i := range 60 {
			words = append(words, fmt.Sprintf("%s%c%c%c", topic, 'a'+r.IntN(4), 'a'+r.IntN(20), 'a'+r.IntN(20)), fmt.Sprintf("plain%c%c", 'a'+r.IntN(10), 'a'+r.IntN(20)))
			if i < 12 && r.IntN(4) > 0 {
				words = append(words, fmt.Sprintf("%sshared%c", topic, 'a'+i))
			}
		}
		return strings.Join(words, " ")
	}
	var pages [][2]string
	for range 12 {
		pages = append(pages, [2]string{"tune", text("tune")})
	}
	m := train(t, []Subject{{Name: "tune", Query: "tune", Words: map[string]float64{"tune": 1}}}, pages...)
	l, _ := ReadLearned(nil, "")
	for batch := range 5 {
		var texts []string
		for i := range 80 {
			topic := "tune"
			if i%16 == 0 {
				topic = []string{"rope", "leaf", "coal"}[i/16%3]
			}
			texts = append(texts, text(topic))
		}
		learner := NewScorer(m.Fit(l))
		for i, text := range texts {
			l.Add(uint64(1000*batch+i), 0, Texts{Texts: []string{text}}.words(&learner.stem))
		}
		l.countEarly()
		s, unlike := NewScorer(m.Fit(l)), l.tally()
		wrong := 0
		for i, text := range texts {
			r := s.Texts(Texts{Texts: []string{text}}, 0)
			if (r.Topic == 0) != (i%16 != 0) {
				wrong++
			}
			if r.Topic < 0 {
				unlike.add(Texts{Texts: []string{text}}.words(&s.stem))
			}
		}
		unlike.count()
		if wrong > 8 {
			t.Errorf("batch %d: %d of %d pages are judged wrongly", batch, wrong, len(texts))
		}
	}
}
