package stats

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Spent is the cost of a command of a round.
type Spent struct {
	Stage    string    `json:"stage,omitempty"` // stage that was run by itself
	Command  string    `json:"command"`         // with its verb
	Began    time.Time `json:"began"`
	ElapsedS float64   `json:"elapsed_s"`
	OwnS     float64   `json:"own_s"` // at its end, in which all commands before it in the pipe had ended

	WaitedS  float64 `json:"waited_s,omitempty"`  // until a URL was due (mfrontier next), or a host might be contacted again (mfetch)
	LookupsS float64 `json:"lookups_s,omitempty"` // sum over the names asked of the time from question to answer (mresolve, mfetch)
}

// Times say where the time of a crawl went. A moment counts for the first command of the pipe that still works, so the
// parts add up to ElapsedS, and fetching while names are still looked up counts as names. A moment in which several shards work
// is shared equally by them. Time between rounds does not count, nor do attempts that did not end a round or stage.
type Times struct {
	Rounds  uint64 `json:"rounds"`         // rounds with times on record
	Without uint64 `json:"rounds_without"` // of those with outcomes: not made by mcrawl, or the record is lost or damaged
	// SpanS is from the start of the first attempt to fetch a page to the end of the last. What it is longer than ElapsedS are attempts of
	// rounds that were interrupted, and the time between rounds and runs.
	SpanS float64 `json:"span_s"`
	Spread
	ByRound []Spread `json:"by_round"` // neighbours are joined where there are more than maxSpreads
}

// Spread is where the time of a round went, or of several that follow each other. Seconds.
type Spread struct {
	Round string `json:"round,omitempty"` // the first

	ElapsedS    float64 `json:"elapsed_s"`             // in which any command of the round worked
	WaitingS    float64 `json:"waiting_s"`             // no URL was due, or a connection was free and politeness forbade a contact
	NamesS      float64 `json:"names_s"`               // mresolve, and mresolve canon
	FetchingS   float64 `json:"fetching_s"`            // mfetch, less waiting
	ExtractingS float64 `json:"extracting_s"`          // mextract, and in focused crawls mfocus score
	RenderingS  float64 `json:"rendering_s,omitempty"` // mrender
	SetsS       float64 `json:"sets_s"`                // mfpset and murlset
	FrontierS   float64 `json:"frontier_s"`            // mfrontier, less waiting
	ExchangeS   float64 `json:"exchange_s"`            // of rows between shards
	CheckpointS float64 `json:"checkpoint_s"`
	OtherS      float64 `json:"other_s,omitempty"` // commands that are none of a round's

	LookupsS  float64 `json:"lookups_s"`  // sum over the names asked of the time from question to answer
	ContactsS float64 `json:"contacts_s"` // sum of the durations of contacts, also for robots.txt, and of attempts that failed

	// NamesOfElapsed is NamesS by ElapsedS.
	NamesOfElapsed float64 `json:"names_of_elapsed"`
	// NamesOfThread is LookupsS by LookupsS and ContactsS: the share of a thread that looks up the name of each URL and then
	// fetches it, as Mercator's do (Heydon and Najork 1999, section 3.7: 87 % before, 25 % after its own resolver).
	NamesOfThread float64 `json:"names_of_thread"`
}

// maxSpreads bounds Times.ByRound.
const maxSpreads = 1000

// parts are the kinds of work of commands.
func (s *Spread) part(command string) *float64 {
	switch command {
	case "wait":
		return &s.WaitingS
	case "mresolve", "mresolve canon":
		return &s.NamesS
	case "mfetch":
		return &s.FetchingS
	case "mextract", "mfocus score":
		return &s.ExtractingS
	case "mrender":
		return &s.RenderingS
	case "mfpset mark", "murlset new":
		return &s.SetsS
	case "mfrontier next", "mfrontier update", "mfrontier raise":
		return &s.FrontierS
	case "mmerge split", "mmerge gather":
		return &s.ExchangeS
	case "mckpt rounds", "mckpt commit", "mckpt push":
		return &s.CheckpointS
	}
	return &s.OtherS
}

// Parts lists where the time went, with the names of the parts; those that took none are left out.
func (s Spread) Parts() (list []Part) {
	for _, p := range []Part{{"waiting", s.WaitingS}, {"names", s.NamesS}, {"fetching", s.FetchingS}, {"extracting", s.ExtractingS},
		{"rendering", s.RenderingS}, {"sets", s.SetsS}, {"frontier", s.FrontierS}, {"exchange", s.ExchangeS}, {"checkpoint", s.CheckpointS}, {"other", s.OtherS}} {
		if p.S > 0 {
			list = append(list, p)
		}
	}
	return list
}

// Part is one kind of work, and the seconds that it took.
type Part struct {
	Name string
	S    float64
}

// Text describes the part.
func (p Part) Text() string {
	if p.Name == "waiting" {
		return "waiting for politeness and retries"
	}
	return p.Name
}

// spread gives the times of a round; shards are in it together.
func spread(all []Spent) (s Spread) {
	span := func(c *Spent) (from, to time.Duration) {
		to = c.Began.Add(seconds(c.ElapsedS)).Sub(all[0].Began)
		return to - seconds(max(c.OwnS, 0)), to
	}
	more := map[time.Duration]int{} // commands that begin to work at a moment, less those that end then
	for i := range all {
		from, to := span(&all[i])
		more[from]++
		more[to]--
	}
	share := map[time.Duration]float64{} // seconds of one that works from the start until a moment
	working, sum := 0, 0.0
	moments := slices.Sorted(maps.Keys(more))
	for i, at := range moments {
		share[at] = sum
		if working += more[at]; working > 0 {
			took := (moments[i+1] - at).Seconds()
			s.ElapsedS += took
			sum += took / float64(working)
		}
	}
	for i := range all {
		c := &all[i]
		s.LookupsS += c.LookupsS
		if from, to := span(c); from < to {
			part := share[to] - share[from]
			waited := min(c.WaitedS/c.OwnS, 1) * part
			s.WaitingS += waited
			*s.part(c.Command) += part - waited
		}
	}
	return s
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// plus adds what followed.
func (s *Spread) plus(o *Spread) {
	s.ElapsedS, s.WaitingS, s.NamesS, s.FetchingS = s.ElapsedS+o.ElapsedS, s.WaitingS+o.WaitingS, s.NamesS+o.NamesS, s.FetchingS+o.FetchingS
	s.ExtractingS, s.SetsS, s.FrontierS = s.ExtractingS+o.ExtractingS, s.SetsS+o.SetsS, s.FrontierS+o.FrontierS
	s.RenderingS += o.RenderingS
	s.ExchangeS, s.CheckpointS, s.OtherS = s.ExchangeS+o.ExchangeS, s.CheckpointS+o.CheckpointS, s.OtherS+o.OtherS
	s.LookupsS, s.ContactsS = s.LookupsS+o.LookupsS, s.ContactsS+o.ContactsS
}

// Sum is where the time of several went.
func Sum(list []Spread) (s Spread) {
	for i := range list {
		s.plus(&list[i])
	}
	s.shares()
	return s
}

// shares computes the shares of names.
func (s *Spread) shares() {
	if s.ElapsedS > 0 {
		s.NamesOfElapsed = s.NamesS / s.ElapsedS
	}
	if all := s.LookupsS + s.ContactsS; all > 0 {
		s.NamesOfThread = s.LookupsS / all
	}
}

// Focus says how relevant the documents of a focused crawl are.
type Focus struct {
	Yield
	Topics  []Topic `json:"topics"` // of the relevant documents, the most frequent first
	ByRound []Yield `json:"by_round"`
}

// Yield is the harvest of a round, or of several that follow each other.
type Yield struct {
	Round    string  `json:"round,omitempty"` // the first
	Fetched  uint64  `json:"fetched"`         // documents, duplicates among them, which have no relevance of their own
	Relevant uint64  `json:"relevant"`
	Harvest  float64 `json:"harvest"` // Relevant by Fetched
}

// Topic is a topic of a focused crawl, such as a sense of its query.
type Topic struct {
	Name      string `json:"topic"`
	Documents uint64 `json:"documents"`
}

func (y *Yield) String() string {
	return fmt.Sprintf("%d of %d documents are relevant: a harvest of %.1f %%", y.Relevant, y.Fetched, 100*y.Harvest)
}

func (y *Yield) plus(o *Yield) { y.Fetched, y.Relevant = y.Fetched+o.Fetched, y.Relevant+o.Relevant }

func (y *Yield) share() {
	if y.Fetched > 0 {
		y.Harvest = float64(y.Relevant) / float64(y.Fetched)
	}
}

// byRound joins neighbours of a list when there are twice as many as it may have.
type byRound[T any] struct {
	list []T
	plus func(a, b *T)
	n    int // rounds in each but the last
	last int // in that
}

func (l *byRound[T]) addRound(one T) {
	if l.n = max(l.n, 1); len(l.list) > 0 && l.last < l.n {
		l.plus(&l.list[len(l.list)-1], &one)
		l.last++
		return
	}
	l.list, l.last = append(l.list, one), 1
	if len(l.list) <= maxSpreads {
		return
	}
	// They are odd in number: the last stays as it is.
	joined := l.list[:0]
	for i := range l.list {
		if i%2 == 0 {
			joined = append(joined, l.list[i])
		} else {
			l.plus(&joined[len(joined)-1], &l.list[i])
		}
	}
	l.list, l.n = joined, 2*l.n
}

// rounds counts by round.
type rounds struct {
	name     string
	spent    []Spent
	contacts float64 // seconds
	yield    Yield
	times    Times
	spreads  byRound[Spread]
	yields   byRound[Yield]
	topics   *table
	focused  bool
}

func newRounds() rounds {
	return rounds{topics: newTable(), spreads: byRound[Spread]{plus: (*Spread).plus}, yields: byRound[Yield]{plus: (*Yield).plus}}
}

// endRound ends a round.
func (r *rounds) endRound() {
	if r.name == "" {
		return
	}
	if len(r.spent) == 0 {
		r.times.Without++
	} else {
		s := spread(r.spent)
		s.Round, s.ContactsS = r.name, r.contacts
		r.times.Rounds++
		r.times.Spread.plus(&s)
		r.spreads.addRound(s)
	}
	if r.yield.Fetched > 0 {
		r.yield.Round = r.name
		r.yields.addRound(r.yield)
	}
	r.spent, r.contacts, r.yield = nil, 0, Yield{}
}

// Round begins a round: the next rows belong to it. spent is the recorded cost of its commands. Several shards may have the same round,
// one after the other.
func (c *Collector) Round(name string, spent []Spent) {
	if c.rounds.name != name {
		c.rounds.endRound()
		c.rounds.name = name
	}
	c.rounds.spent = append(c.rounds.spent, spent...)
}

// result takes over the figures by round.
func (r *rounds) result(s *Stats) {
	r.endRound()
	if r.times.Rounds > 0 {
		r.times.ByRound = r.spreads.list
		for i := range r.times.ByRound {
			r.times.ByRound[i].shares()
		}
		r.times.shares()
		s.Times = &r.times
	}
	if !r.focused {
		return
	}
	s.Focus = &Focus{ByRound: r.yields.list}
	for i := range s.Focus.ByRound {
		s.Focus.Yield.plus(&s.Focus.ByRound[i])
		s.Focus.ByRound[i].share()
	}
	s.Focus.share()
	for _, t := range r.topics.list(func(g *group) uint64 { return g.documents }) {
		s.Focus.Topics = append(s.Focus.Topics, Topic{t.name, t.documents})
	}
}
