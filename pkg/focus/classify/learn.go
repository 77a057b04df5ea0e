package classify

import (
	"cmp"
	"encoding/json"
	"io"
	"math"
	"slices"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
)

// Bounds of what is learned of a crawl. It is kept in checkpoints and read and written once a round.
const (
	maxStems   = 1 << 17 // stems with a count of the pages that have them
	maxSample  = 768     // pages that stand for all
	maxPool    = 384     // pages that are likest to the topics
	maxState   = 64 << 20
	maxLeads   = 1 << 14
	poolRoom   = maxPool + 4096
	heldOut    = 12  // pages that the words of a query choose first as examples
	enough     = 8   // with this many examples of a person none are chosen
	maxChosen  = 64  // pages of a topic that are chosen
	rounds     = 6   // times that they are chosen anew
	growth     = 1.6 // as many more each time
	confident  = 0.8 // relevance of a page that may be chosen
	fewLearned = 4   // fewer examples teach nothing
	fewPages   = 150 // with fewer pages none are chosen
)

// LearnedName is the name of the store of what is learned, among the stores of modules.
const LearnedName = "focus"

const (
	blankPages = 50  // pages without a word that count, too: no word of few pages is common
	earlyPages = 100 // of the sample count as pages of no topic, whatever they are about
)

// Learned has what the pages of a crawl teach: on how many pages of no topic a word stands, a sample of pages, and those that are likest to the topics. One goroutine.
type Learned struct {
	Pages  int              `json:"pages"` // about no topic
	Stems  []string         `json:"stems"`
	On     []int            `json:"on"` // of each stem on how many pages it stands
	Sample []Page           `json:"sample"`
	Pool   []Page           `json:"pool"`
	Leads  []Lead           `json:"leads"` // relevant pages, the newest last
	ids    map[string]int32 // of Stems
}

// Lead is a relevant page: what has no text is about the topic of the page that it was found on.
type Lead struct {
	URL   uint64 `json:"url"` // fingerprint of the URL
	Topic string `json:"topic"`
}

func (l *Learned) lead(url, topic string) {
	if len(l.Leads) >= maxLeads {
		l.Leads = slices.Delete(l.Leads, 0, maxLeads/4)
	}
	l.Leads = append(l.Leads, Lead{fingerprint.OfString(url), topic})
}

// led is the topic of the page that a document was found on; of a page that is no longer known, the only topic of the model, if it has only one.
func (l *Learned) led(via string, m *Model) (topic string) {
	url := fingerprint.OfString(via)
	for _, lead := range slices.Backward(l.Leads) {
		if lead.URL == url {
			return lead.Topic
		}
	}
	for i, t := range m.Topics {
		if m.wants(i) {
			if topic != "" {
				return ""
			}
			topic = t.Name
		}
	}
	return topic
}

// Page is a page with its most telling words.
type Page struct {
	Key    uint64  `json:"key"`    // draws its place in the sample
	Before float32 `json:"before"` // relevance that its links promised
	Words  []int32 `json:"words"`  // numbers of stems, each followed by how often it stands
}

// ReadLearned reads what Write wrote; nothing is a crawl that has no page yet.
func ReadLearned(in io.Reader, name string) (*Learned, error) {
	l := &Learned{ids: make(map[string]int32)}
	if in == nil {
		return l, nil
	}
	data, err := io.ReadAll(io.LimitReader(in, maxState+1))
	if err != nil || len(data) == 0 {
		return l, err
	}
	bad := func(found string) error {
		return &fault.Error{Class: fault.Corrupt, File: name, Found: found, Want: "what mfocus score has learned of a crawl"}
	}
	if len(data) > maxState {
		return nil, bad("a longer state")
	}
	if err := json.Unmarshal(data, l); err != nil {
		return nil, bad(err.Error())
	}
	if len(l.Stems) != len(l.On) || len(l.Stems) > maxStems || len(l.Sample) > maxSample || len(l.Pool) > maxPool || len(l.Leads) > maxLeads {
		return nil, bad("another number of stems or pages")
	}
	for _, p := range slices.Concat(l.Sample, l.Pool) {
		for i := 0; i < len(p.Words); i += 2 {
			if len(p.Words)%2 != 0 || p.Words[i] < 0 || int(p.Words[i]) >= len(l.Stems) || p.Words[i+1] < 1 {
				return nil, bad("a page with words that are not there")
			}
		}
	}
	for i, s := range l.Stems {
		l.ids[s] = int32(i)
	}
	return l, nil
}

// Write writes the state.
func (l *Learned) Write(out io.Writer) error { return json.NewEncoder(out).Encode(l) }

// id is the number of a stem; -1 if there is no room for it.
func (l *Learned) id(stem string) int32 {
	id, found := l.ids[stem]
	if !found {
		if len(l.Stems) >= maxStems {
			return -1
		}
		id = int32(len(l.Stems))
		l.ids[stem] = id
		l.Stems, l.On = append(l.Stems, stem), append(l.On, 0)
	}
	return id
}

// page makes a page of the words of a text.
func (l *Learned) page(key uint64, before float32, words Words) Page {
	p := Page{Key: mixed(key), Before: before}
	for _, w := range words {
		if id := l.id(w.Stem); id >= 0 {
			p.Words = append(p.Words, id, int32(w.Count))
		}
	}
	return p
}

// mixed draws a number by another one (splitmix64).
func mixed(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Add takes a page of the crawl.
func (l *Learned) Add(key uint64, before float32, words Words) {
	if len(words) == 0 {
		return
	}
	p := l.page(key, before, words)
	l.trim(&p)
	l.Pool = append(l.Pool, p)
	if i, found := slices.BinarySearchFunc(l.Sample, p.Key, byKey); !found && i < maxSample {
		l.Sample = slices.Insert(l.Sample[:min(len(l.Sample), maxSample-1)], i, p)
	}
}

// countEarly counts pages of the sample, as long as few are known to be about no topic: with no word known to be common, each would tell.
func (l *Learned) countEarly() {
	for _, p := range l.Sample[:min(len(l.Sample), max(0, earlyPages-l.Pages))] {
		l.Pages++
		for i := 0; i < len(p.Words); i += 2 {
			l.On[p.Words[i]]++
		}
	}
}

// tally counts pages of a batch that are about no topic: how rare a word is, such pages say. They count when all of the batch was scored, so that their order does not.
type tally struct {
	l     *Learned
	pages int
	on    []int // of each stem
}

func (l *Learned) tally() *tally { return &tally{l: l, on: make([]int, len(l.Stems))} }

// add counts a page by its words.
func (t *tally) add(words Words) {
	t.pages++
	for _, w := range words {
		if id, found := t.l.ids[w.Stem]; found && int(id) < len(t.on) {
			t.on[id]++
		}
	}
}

func (t *tally) count() {
	t.l.Pages += t.pages
	for id, n := range t.on {
		t.l.On[id] += n
	}
}

func byKey(p Page, key uint64) int { return cmp.Compare(p.Key, key) }

// trim keeps the most telling words of a page.
func (l *Learned) trim(p *Page) {
	type word struct {
		id, n int32
		x     float64
	}
	words := make([]word, 0, len(p.Words)/2)
	for i := 0; i < len(p.Words); i += 2 {
		words = append(words, word{p.Words[i], p.Words[i+1], float64(damp(p.Words[i+1]) * l.rarity(p.Words[i]))})
	}
	// Numbers of stems depend on the order in which pages came.
	slices.SortFunc(words, func(a, b word) int { return cmp.Or(cmp.Compare(b.x, a.x), cmp.Compare(l.Stems[a.id], l.Stems[b.id])) })
	words = words[:min(len(words), telling)]
	slices.SortFunc(words, func(a, b word) int { return cmp.Compare(a.id, b.id) })
	p.Words = p.Words[:0]
	for _, w := range words {
		p.Words = append(p.Words, w.id, w.n)
	}
	p.Words = slices.Clip(p.Words)
}

// telling is how many words of a page count.
const telling = 200

// damp returns the damped count of a word that occurs n times.
func damp(n int32) float64 { return float64(damped(int(n))) / 1000 }

// rarity of a stem is its inverse document frequency in the pages of no topic.
func (l *Learned) rarity(id int32) float64 {
	on := 0
	if id >= 0 && int(id) < len(l.On) {
		on = l.On[id]
	}
	return math.Log(1 + float64(l.Pages+blankPages)/float64(on+1))
}

// vector is a page of length 1 in the space of stems.
type vector struct {
	ids []int32
	x   []float64
}

func (l *Learned) vector(p *Page) (v vector) {
	sum := 0.0
	for i := 0; i < len(p.Words); i += 2 {
		x := float64(damp(p.Words[i+1]) * l.rarity(p.Words[i]))
		v.ids, v.x = append(v.ids, p.Words[i]), append(v.x, x)
		sum += float64(x * x)
	}
	for i := range v.x {
		v.x[i] /= math.Sqrt(sum)
	}
	return v
}

func (v vector) dot(dense []float64) (sum float64) {
	for i, id := range v.ids {
		if int(id) < len(dense) {
			sum += float64(v.x[i] * dense[id])
		}
	}
	return sum
}

func (v vector) addTo(dense []float64, by float64) {
	for i, id := range v.ids {
		dense[id] += float64(by * v.x[i])
	}
}

// unit makes the length of a vector 1.
func unit(dense []float64) []float64 {
	sum := 0.0
	for _, x := range dense {
		sum += float64(x * x)
	}
	if sum > 0 {
		sum = 1 / math.Sqrt(sum)
	}
	for i := range dense {
		dense[i] *= sum
	}
	return dense
}
