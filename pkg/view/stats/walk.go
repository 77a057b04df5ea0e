package stats

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/merge"
)

// Walks estimates from the visits of random walks (frontier policy walk) which share of the documents of a web a set of
// URLs holds: "Measuring index quality using random walks on the Web" (Henzinger, Heydon, Mitzenmacher and Najork,
// WWW8, 1999).
//
// By quality, a document counts as much as its PageRank. A walk visits documents that often, so the share is the
// part of the visits with a URL in the set.
//
// By size, each document counts the same. A visit then has the weight 1/p, where p is how often the page is visited,
// estimated: for each visit v, the chance that the walk is at the page next. That is 1/known of a visit that the walk does
// not go on from, and 1/(distinct links) of a page with a link to it, by the chance of a restart. The mean over all visits has
// the page's visits as its expectation, and varies less than they do ("On near-uniform URL sampling", the same
// authors and Najork, 2000, samples by the inverse of PageRank).
//
// The papers asked search engines for a page by its rarest words, and give no error; here a set of URLs answers exactly, and no visit
// is thrown away. The error is that of the walk alone: walks from one restart to the next are resampled (bootstrap). It says
// nothing of URLs that no page of the walk linked to.
//
// Visits and links are sorted in temporary files, so memory is bounded.
type Walks struct {
	restart float64
	known   uint64

	bySource *merge.Sorter // by hash of a page's URL: its links, then its visits
	byTarget *merge.Sorter // by hash of a URL: what visits bring it, then visits of it that count
	byKey    *merge.Sorter // by URL key: weight and walk of each visit

	walks   uint32            // begun
	last    map[string][]step // walks that have not gone on yet, by the URL that they are at
	round   int
	visits  uint64
	jumps   float64 // visits that no link leads on from, and the restarts of others
	counted uint64
	buf     []byte
}

// step is where a walk is.
type step struct {
	walk  uint32
	round int
}

// Limits of Walks.
const (
	walkGroups = 1000 // of walks, that are resampled together
	resamples  = 1000 // of the groups

	leastGroups = 30      // with visits that count; of fewer, resampling tells no range: of one, always itself
	lostAfter   = 16      // rounds, after which a walk that has not gone on is taken to have begun again
	mostOut     = 1 << 16 // distinct links of a page that get their part
)

// Kinds of rows in Walks.bySource and byTarget: they stand in this order.
const (
	aLink = iota
	aPart
	aVisit
)

// NewWalks returns a Walks that takes about mem bytes for what it sorts. restart is the chance that a walk begins again after
// a visit, known the number of URLs that it then may begin at.
func NewWalks(restart float64, known uint64, mem int64) *Walks {
	w := &Walks{restart: restart, known: max(known, 1), last: map[string][]step{}}
	for _, s := range []**merge.Sorter{&w.bySource, &w.byTarget, &w.byKey} {
		*s = merge.NewSorter(mem/3, "")
		(*s).Ties = bytes.Compare
	}
	return w
}

// Close deletes the temporary files.
func (w *Walks) Close() error {
	return errors.Join(w.bySource.Close(), w.byTarget.Close(), w.byKey.Close())
}

// Round begins the next round.
func (w *Walks) Round() {
	w.round++
	for url, steps := range w.last {
		if steps = slices.DeleteFunc(steps, func(s step) bool { return s.round+lostAfter < w.round }); len(steps) == 0 {
			delete(w.last, url)
		} else {
			w.last[url] = steps
		}
	}
}

// Visit takes an outcome of the round. counts says that its document is part of the sample; the first rounds of a walk,
// which are near the seeds, should not be.
func (w *Walks) Visit(r *record.Fetch, counts bool) error {
	if r.Role != record.RolePage || r.Outcome == record.OutcomeDeferred || r.Outcome == record.OutcomeParked {
		return nil
	}
	w.visits++
	walk := w.walk(r.Via)
	w.last[r.URL] = append(w.last[r.URL], step{walk, w.round})
	order := fingerprint.SHA256(r.URL)
	if document(r) && counts {
		w.counted++
		w.buf = binary.BigEndian.AppendUint64(append(w.buf[:0], aVisit), r.Key)
		if err := w.byTarget.Add(order, binary.BigEndian.AppendUint32(w.buf, walk)); err != nil {
			return err
		}
	}
	if r.Outcome != record.OutcomeFetched || r.Status >= 400 {
		w.jumps++
		return nil
	}
	return w.bySource.Add(order, []byte{aVisit})
}

// walk is the walk that comes from a page; a new one if there is none.
func (w *Walks) walk(via string) uint32 {
	steps := w.last[via]
	if via == "" || len(steps) == 0 {
		w.walks++
		return w.walks - 1
	}
	walk := steps[0].walk
	if w.last[via] = steps[1:]; len(steps) == 1 {
		delete(w.last, via)
	}
	return walk
}

// Link takes a link that a walk may follow.
func (w *Walks) Link(l *record.Link) error {
	w.buf = binary.BigEndian.AppendUint64(append(w.buf[:0], aLink), fingerprint.SHA256(l.URL))
	return w.bySource.Add(fingerprint.SHA256(l.SrcURL), w.buf)
}

// Estimate is the result of Walks.
type Estimate struct {
	Visits    uint64  `json:"visits"`    // of any outcome
	Walks     uint64  `json:"walks"`     // from one restart to the next
	Known     uint64  `json:"known"`     // URLs found
	Counted   uint64  `json:"counted"`   // visits of documents in the sample
	Documents uint64  `json:"documents"` // distinct documents in the sample
	Sets      []Share `json:"sets"`
}

// Share is the share of a set. Low and High bound 95 % of resampled walks.
type Share struct {
	Set     string  `json:"set"`
	Quality Between `json:"quality"` // of the documents, each by its PageRank
	Size    Between `json:"size"`    // of the documents, each as one
}

// Between is an estimate from 0 to 1, and its error.
type Between struct {
	Share float64 `json:"share"`
	Low   Bound   `json:"low"`
	High  Bound   `json:"high"`
}

// Bound is an end of a range; NaN: too few walks were resampled to tell it (leastGroups). That is null in JSON.
type Bound float64

// MarshalJSON gives a number or null.
func (b Bound) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(b)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(b))
}

// String is the bound to three digits, or "?".
func (b Bound) String() string {
	if math.IsNaN(float64(b)) {
		return "?"
	}
	return strconv.FormatFloat(float64(b), 'f', 3, 64)
}

// Estimate estimates the share of each set, of URL keys.
func (w *Walks) Estimate(names []string, sets []merge.Source) (*Estimate, error) {
	if w.counted == 0 {
		return nil, &fault.Error{Class: fault.No, Found: "no visit of a document in the rounds that count", Want: "one at least"}
	}
	if err := w.distribute(); err != nil {
		return nil, err
	}
	if err := w.weigh(); err != nil {
		return nil, err
	}
	e := &Estimate{Visits: w.visits, Walks: uint64(w.walks), Known: w.known, Counted: w.counted}
	groups, err := w.sum(e, sets)
	if err != nil {
		return nil, err
	}
	e.Sets = resampled(names, groups)
	return e, nil
}

// distribute gives each page's links their parts of its visits.
func (w *Walks) distribute() error {
	it, err := w.bySource.Sort()
	if err != nil {
		return err
	}
	var targets []uint64
	distinct, visits := 0.0, 0.0
	var last uint64
	end := func() error {
		if distinct == 0 {
			w.jumps += visits
		} else {
			w.jumps += visits * w.restart
			part := visits * (1 - w.restart) / distinct
			for _, t := range targets {
				if part == 0 {
					break
				}
				w.buf = binary.BigEndian.AppendUint64(append(w.buf[:0], aPart), math.Float64bits(part))
				if err := w.byTarget.Add(t, w.buf); err != nil {
					return err
				}
			}
		}
		targets, distinct, visits = targets[:0], 0, 0
		return nil
	}
	target := uint64(0)
	if err := it.Each(func(order uint64, row []byte) error {
		if order != last {
			if err := end(); err != nil {
				return err
			}
			last = order
		}
		switch row[0] {
		case aVisit:
			visits++
		default:
			if t := binary.BigEndian.Uint64(row[1:]); distinct == 0 || t != target {
				target = t
				distinct++
				if len(targets) < mostOut {
					targets = append(targets, t)
				}
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return end()
}

// weigh gives each visit of a document its weight.
func (w *Walks) weigh() error {
	it, err := w.byTarget.Sort()
	if err != nil {
		return err
	}
	var last uint64
	expected := 0.0
	return it.Each(func(order uint64, row []byte) error {
		if order != last {
			last, expected = order, 0
		}
		if row[0] == aPart {
			expected += math.Float64frombits(binary.BigEndian.Uint64(row[1:]))
			return nil
		}
		key, walk := binary.BigEndian.Uint64(row[1:]), row[9:]
		weight := 1 / (expected + w.jumps/float64(w.known))
		w.buf = binary.BigEndian.AppendUint64(w.buf[:0], math.Float64bits(weight))
		return w.byKey.Add(key, append(w.buf, walk...))
	})
}

// sums are of visits: all, and for each set those that it has.
type sums []struct{ visits, weight float64 }

// sum adds up the visits of each group of walks.
func (w *Walks) sum(e *Estimate, sets []merge.Source) ([]sums, error) {
	it, err := w.byKey.Sort()
	if err != nil {
		return nil, err
	}
	groups := make([]sums, min(w.walks, walkGroups))
	for i := range groups {
		groups[i] = make(sums, 1+len(sets))
	}
	cursors := make([]cursor, len(sets))
	for i, s := range sets {
		cursors[i].set = s
	}
	has := make([]bool, 1+len(sets))
	has[0] = true
	var last uint64
	err = it.Each(func(key uint64, row []byte) error {
		if e.Documents == 0 || key != last {
			e.Documents++
			last = key
			for i := range cursors {
				if has[1+i], err = cursors[i].has(key); err != nil {
					return err
				}
			}
		}
		weight := math.Float64frombits(binary.BigEndian.Uint64(row))
		group := groups[binary.BigEndian.Uint32(row[8:])%walkGroups]
		for i := range group {
			if has[i] {
				group[i].visits++
				group[i].weight += weight
			}
		}
		return nil
	})
	return groups, err
}

// cursor looks for ascending keys in a set.
type cursor struct {
	set  merge.Source
	keys []uint64
	over bool
}

func (c *cursor) has(key uint64) (bool, error) {
	for !c.over {
		if i, found := slices.BinarySearch(c.keys, key); i < len(c.keys) {
			c.keys = c.keys[i:]
			return found, nil
		}
		var err error
		if c.keys, err = c.set.Block(); err == io.EOF {
			c.over = true
		} else if err != nil {
			return false, err
		}
	}
	return false, nil
}

// resampled gives the shares of the sets with their errors.
func resampled(names []string, groups []sums) []Share {
	rng := rand.New(rand.NewPCG(1999, 8)) // the same visits have the same error
	quality, size := make([][]float64, len(names)), make([][]float64, len(names))
	total := func(pick func(i int) sums) sums {
		all := make(sums, 1+len(names))
		for i := range groups {
			for k, s := range pick(i) {
				all[k].visits += s.visits
				all[k].weight += s.weight
			}
		}
		return all
	}
	counted := 0
	for _, g := range groups {
		if g[0].visits > 0 {
			counted++
		}
	}
	for range resamples {
		if counted < leastGroups {
			break
		}
		all := total(func(int) sums { return groups[rng.IntN(len(groups))] })
		if all[0].visits == 0 {
			continue
		}
		for k := range names {
			quality[k] = append(quality[k], all[1+k].visits/all[0].visits)
			size[k] = append(size[k], all[1+k].weight/all[0].weight)
		}
	}
	all := total(func(i int) sums { return groups[i] })
	shares := make([]Share, len(names))
	for k, name := range names {
		shares[k] = Share{name, between(all[1+k].visits/all[0].visits, quality[k]), between(all[1+k].weight/all[0].weight, size[k])}
	}
	return shares
}

// between has the range in which 95 % of the samples are, to four digits; without samples there is none.
func between(share float64, samples []float64) Between {
	round := func(x float64) float64 { return math.Round(x*1e4) / 1e4 }
	slices.Sort(samples)
	at := func(part float64) Bound {
		if len(samples) == 0 {
			return Bound(math.NaN())
		}
		return Bound(round(samples[int(part*float64(len(samples)-1))]))
	}
	return Between{round(share), at(0.025), at(0.975)}
}
