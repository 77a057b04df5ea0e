package classify

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// Fitted is a model, fitted to what was learned of a crawl. It is read-only.
type Fitted struct {
	m        *Model
	l        *Learned
	profiles [][]float64 // of each topic, by stem: of length 1
	own      [][]float64 // profiles without the words of the query
	scales   []scale
}

// scale makes a relevance of a likeness: of the pages that are about a topic, and of others, it is normally distributed.
type scale struct {
	Mean, Spread   float64 // of others
	Mean1, Spread1 float64 // of pages about the topic
	Share          float64 // of pages that are about it
	Least          float64 // below, no page is about it
}

func normal(x, mean, spread float64) float64 {
	z := (x - mean) / spread
	return math.Exp(-0.5*z*z) / spread
}

// relevance is the probability that a page of a likeness is about the topic.
func (s *scale) relevance(x float64) float64 {
	if x <= s.Mean {
		return 0
	}
	a := s.Share * normal(min(x, s.Mean1), s.Mean1, s.Spread1)
	b := (1 - s.Share) * normal(min(x, s.Mean1), s.Mean, s.Spread)
	p := a / (a + b)
	if x < s.Least {
		p = min(p, 0.49) * x / s.Least
	}
	return p
}

// Where nothing is known of a crawl.
const (
	firstMean, firstSpread   = 0.15, 0.10
	firstMean1, firstSpread1 = 0.50, 0.10
	firstShare               = 0.05
	firstPages               = 30 // pages that these weigh as much as
	between                  = 0.6
	folds                    = 6
	leastAlike               = 0.07 // cosine of a page with the words of a topic, to be an example of it
	promised                 = 0.15 // added to a likeness by the promise of links
)

// likeness of a page, of its cosine with a topic and of what links promise.
func likeness(cosine float64, before float32) float64 {
	return math.Sqrt(max(cosine, 0)) + float64(promised*float64(before))
}

// Of pages that were chosen by the words of a query, which are more like the topic than others are.
const (
	chosenSpread = 0.10
	chosenAbove  = 1.5 // spreads that the mean of the topic may lie below theirs
)

// fit finds the two distributions of the likeness of pages. held are pages surely about the topic: a person's examples, or chosen pages.
func fit(all, held []float64, chosen bool) scale {
	s := scale{firstMean, firstSpread, firstMean1, firstSpread1, firstShare, 0}
	n1 := float64(max(len(held), heldOut))
	if len(held) > 0 {
		mean, sq := 0.0, 0.0
		for _, x := range held {
			mean += x
		}
		mean /= float64(len(held))
		for _, x := range held {
			sq += float64((x - mean) * (x - mean))
		}
		s.Mean1, s.Spread1 = mean, math.Max(math.Sqrt(sq/float64(len(held))), 0.03)
	}
	mean1, spread1 := s.Mean1, s.Spread1
	floor := mean1 - spread1/2
	if chosen && len(held) > 0 {
		spread1 = max(spread1, chosenSpread)
		s.Spread1, floor = spread1, mean1-chosenAbove*spread1
	}
	for range 40 {
		var n, sum, sq, m, sum1, sq1 float64
		for _, x := range all {
			p := s.relevance(x)
			n, sum, sq = n+1-p, sum+float64((1-p)*x), sq+float64((1-p)*(x-s.Mean)*(x-s.Mean))
			m, sum1, sq1 = m+p, sum1+float64(p*x), sq1+float64(p*(x-s.Mean1)*(x-s.Mean1))
		}
		s.Mean, s.Spread = (sum+firstPages*firstMean)/(n+firstPages), math.Sqrt((sq+firstPages*firstSpread*firstSpread)/(n+firstPages))
		s.Mean1, s.Spread1 = (sum1+n1*mean1)/(m+n1), math.Sqrt((sq1+n1*spread1*spread1)/(m+n1))
		// Neither may swallow the other.
		s.Mean1 = max(s.Mean1, floor)
		if apart := s.Mean1 - s.Mean; apart > 0 {
			s.Spread = min(s.Spread, apart/2.5)
		}
		s.Share = (m + firstPages*firstShare) / (m + n + firstPages)
	}
	s.Least = s.Mean + between*(mean1-s.Mean)
	return s
}

// stems returns the stems of all topics' words and of the examples, in order.
func (m *Model) stems() []string {
	all := make(map[string]bool)
	for _, t := range m.Topics {
		for s := range t.Words {
			all[s] = true
		}
		for _, bag := range t.Examples {
			for s := range bag {
				all[s] = true
			}
		}
	}
	for _, bag := range m.Others {
		for s := range bag {
			all[s] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// anchors are the topics as their words have them: of length 1.
func (m *Model) anchors(l *Learned, size int) (anchors [][]float64) {
	for _, t := range m.Topics {
		a := make([]float64, size)
		for s, w := range t.Words {
			if id, found := l.ids[s]; found {
				a[id] = float64(w) / 1000 * l.rarity(id)
			}
		}
		anchors = append(anchors, unit(a))
	}
	return anchors
}

// queried are the stems of a topic's query.
func (m *Model) queried(topic int, l *Learned) (ids []int32) {
	t := &m.Topics[topic]
	for _, s := range stems(t.Query, m.Forms) {
		if id, found := l.ids[s]; found && t.Words[s] > 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// words returns the words of a bag, in order.
func (b Bag) words() (words Words) {
	for _, s := range slices.Sorted(maps.Keys(b)) {
		words = append(words, Word{s, int(b[s])})
	}
	return words
}

// Fit fits the model to a crawl. It bounds what was learned.
func (m *Model) Fit(l *Learned) *Fitted {
	f := &Fitted{m: m, l: l}
	for _, stem := range m.stems() {
		l.id(stem)
	}
	size := len(l.Stems)
	// The pages: a sample, those that may be about a topic, and the person's examples.
	pages := slices.Clone(l.Sample)
	for _, p := range l.Pool {
		if _, found := slices.BinarySearchFunc(l.Sample, p.Key, byKey); !found {
			pages = append(pages, p)
		}
	}
	vectors := make([]vector, len(pages))
	others := make([]float64, size)
	for i := range pages {
		vectors[i] = l.vector(&pages[i])
	}
	examples := make([][]vector, len(m.Topics))
	for t := range m.Topics {
		for _, words := range m.Topics[t].Examples {
			p := l.page(0, 0, words.words())
			l.trim(&p)
			examples[t] = append(examples[t], l.vector(&p))
		}
	}
	var none []vector
	for _, words := range m.Others {
		p := l.page(0, 0, words.words())
		l.trim(&p)
		none = append(none, l.vector(&p))
	}
	of := make([]float64, len(pages)) // how surely a page is about a topic
	if slices.ContainsFunc(examples, func(e []vector) bool { return len(e) >= enough }) {
		// At first each may be: were most of the crawl about the topic, and counted as unlike it, little would be left of the examples.
		for i := range of {
			of[i] = 1
		}
	}
	// unlike makes others anew: the mean of pages that are about no topic. A page that is likely about one does not count: where most are, what is left of each would add up.
	unlike := func() {
		clear(others)
		n, weights := float64(20+len(none)), make([]float64, len(l.Sample))
		for i := range weights {
			if of[i] < Relevant {
				weights[i] = 1 - of[i]
			}
			n += weights[i]
		}
		for _, v := range none {
			v.addTo(others, 1/n)
		}
		for i := range l.Sample {
			vectors[i].addTo(others, weights[i]/n)
		}
	}
	anchors := m.anchors(l, size)
	f.profiles, f.own, f.scales = slices.Clone(anchors), make([][]float64, len(m.Topics)), make([]scale, len(m.Topics))
	like := make([][]float64, len(m.Topics)) // of each page
	held := make([][]float64, len(m.Topics))
	chosen := make([][]int, len(m.Topics))
	measure := func(t int) {
		like[t] = like[t][:0]
		for i := range pages {
			like[t] = append(like[t], likeness(vectors[i].dot(f.profiles[t]), pages[i].Before))
		}
	}
	// Of few pages none are chosen as examples, and words alone have a fixed threshold: pages that only name the topic would teach the others.
	few := len(l.Sample) < fewPages
	chooses := func(t int) bool { return !few && len(examples[t]) < enough && m.wants(t) }
	// The pages that have most of the query's words come first.
	for t := range m.Topics {
		if !chooses(t) {
			continue
		}
		chosen[t] = covering(m.queried(t, l), vectors)
	}
	k := float64(heldOut)
	for round := range rounds {
		unlike()
		for t := range m.Topics {
			teach := slices.Clone(examples[t])
			before := make([]float32, len(teach))
			for i := range before {
				before[i] = 0.5
			}
			for _, i := range chosen[t] {
				teach, before = append(teach, vectors[i]), append(before, pages[i].Before)
			}
			held[t] = held[t][:0]
			f.profiles[t] = anchors[t]
			if len(examples[t]) > 0 || len(teach) >= fewLearned {
				weight := 1.0
				if len(examples[t]) >= enough {
					weight = 0.2
				}
				f.profiles[t], held[t] = profileOf(teach, before, others, anchors[t], weight, held[t])
			}
			f.own[t] = slices.Clone(anchors[t])
			if len(examples[t]) > 0 {
				copy(f.own[t], f.profiles[t])
			}
			for _, id := range m.queried(t, l) {
				f.own[t][id] = 0
			}
			measure(t)
			sample := like[t][:len(l.Sample)]
			if few && len(examples[t]) == 0 {
				sample = nil
			}
			f.scales[t] = fit(sample, held[t], len(examples[t]) < enough)
		}
		for i := range pages {
			of[i] = 0
			for t := range m.Topics {
				of[i] = max(of[i], f.scales[t].relevance(like[t][i]))
			}
		}
		if round == rounds-1 {
			break
		}
		k = min(k*growth, maxChosen)
		for t := range m.Topics {
			if !chooses(t) {
				continue
			}
			if good := f.surest(t, pages, vectors, like, int(k)); len(good) >= fewLearned {
				chosen[t] = good[:min(len(good), int(k))]
			}
		}
	}
	f.keep(like, pages)
	return f
}

// covering are the pages that have most of a query's words, the best first.
func covering(query []int32, vectors []vector) (order []int) {
	if len(query) == 0 {
		return nil
	}
	cosine := make([]float64, len(vectors))
	for i := range vectors {
		log := 0.0
		for _, id := range query {
			x := 0.0
			if k, found := slices.BinarySearch(vectors[i].ids, id); found {
				x = vectors[i].x[k]
			}
			log += math.Log(x + 0.003)
		}
		if cosine[i] = math.Exp(log / float64(len(query))); cosine[i] > leastAlike {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(cosine[b], cosine[a]) })
	return order[:min(len(order), heldOut)]
}

// profileOf makes a topic's profile of what teaches it, without what pages of no topic have, and with the anchor by its weight. It appends to held
// how alike each is to a profile that it had no part in.
func profileOf(teach []vector, before []float32, others, anchor []float64, weight float64, held []float64) (profile, measured []float64) {
	sum := make([]float64, len(others))
	for _, v := range teach {
		v.addTo(sum, 1)
	}
	mean := func(sum []float64, n int) []float64 {
		p := slices.Clone(sum)
		for i := range p {
			p[i] = max(p[i]/float64(max(n, 1))-others[i], 0)
		}
		unit(p)
		for i := range p {
			p[i] += float64(weight * anchor[i])
		}
		return unit(p)
	}
	for fold := 0; fold < min(folds, len(teach)) && len(teach) > 1; fold++ {
		rest, n := slices.Clone(sum), len(teach)
		for i := fold; i < len(teach); i += folds {
			teach[i].addTo(rest, -1)
			n--
		}
		p := mean(rest, n)
		for i := fold; i < len(teach); i += folds {
			held = append(held, likeness(teach[i].dot(p), before[i]))
		}
	}
	return mean(sum, len(teach)), held
}

// surest are pages that are surely about a topic, in the order of their keys: the better half, and at least some.
func (f *Fitted) surest(t int, pages []Page, vectors []vector, like [][]float64, some int) (good []int) {
	for i := range pages {
		relevance := func(t int) float64 { return f.scales[t].relevance(like[t][i]) }
		if relevance(t) >= confident && f.sense(vectors[i], relevance) == t {
			good = append(good, i)
		}
	}
	slices.SortStableFunc(good, func(a, b int) int { return cmp.Compare(like[t][b], like[t][a]) })
	good = good[:min(len(good), max(len(good)/2, some))]
	slices.SortFunc(good, func(a, b int) int { return cmp.Compare(pages[a].Key, pages[b].Key) })
	return good
}

// keep bounds the pool.
func (f *Fitted) keep(like [][]float64, pages []Page) {
	l := f.l
	if len(l.Pool) <= maxPool {
		return
	}
	best := map[uint64]float64{}
	for i, p := range pages {
		for t := range like {
			best[p.Key] = max(best[p.Key], like[t][i])
		}
	}
	slices.SortStableFunc(l.Pool, func(a, b Page) int { return cmp.Or(cmp.Compare(best[b.Key], best[a.Key]), cmp.Compare(a.Key, b.Key)) })
	l.Pool = slices.CompactFunc(l.Pool, func(a, b Page) bool { return a.Key == b.Key })
	l.Pool = slices.Clone(l.Pool[:min(len(l.Pool), maxPool)])
}
