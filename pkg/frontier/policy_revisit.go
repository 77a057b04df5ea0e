package frontier

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/setting"
)

// Policy revisit comes back to pages, so that what is known of them is fresh.
//
// Pages are taken to change as Poisson processes, each at a rate of its own
// (Brewington and Cybenko, "How dynamic is the web?", 2000). The rate is estimated as
// in Cho and Garcia-Molina, "Estimating frequency of change" (2003): from the number
// of changes that were seen and the time in which they were. A visit that finds a
// change tells, where the server says when it was (Last-Modified), how long ago the
// last one was; where it does not, that there were one or more since the last visit,
// and the expected time since the last of them stands in for it (learn).
//
// How often a page is visited follows Cho and Garcia-Molina, "Effective page refresh
// policies for Web crawlers" (2003): of all ways to spend a number of visits, the one
// that keeps most copies fresh visits a page the less, the further its rate is above
// what the visits can follow (best).
//
// With several front queues, new URLs have so many, and known pages as many more, by the priority that the prioritizer
// gave; by scores (ByScore), a known page has the priority of its own score, not of the links to it. A fresh copy of a page of
// priority p is worth bias^-p of one of priority 0, and the visits are spent so that fresh copies are worth the most (best).
//
// What a server says of the future (Expires, Cache-Control) can only make the next visit
// later, and within bounds (promised).

// Revisit are the parameters of policy revisit.
type Revisit struct {
	NewShare    float64 `key:"frontier.new_share" range:">0 1" placeholder:"0.5" help:"Share of new URLs in a batch if revisits are due too."`
	MinInterval string  `key:"frontier.min_interval" range:"1s 8760h" placeholder:"1h" help:"Least time between two visits of a page, 1s or more."`
	MaxInterval string  `key:"frontier.max_interval" range:"1s 8760h" placeholder:"720h" help:"Longest time between two visits, up to 8760h."`
	GoneAfter   int     `key:"frontier.gone_after" range:"1 255" placeholder:"3" more:"" help:"Failed visits in a row that finish a page, 1 to 255."`
}

// mostInterval is the longest time between two visits.
const mostInterval = 365 * 24 * time.Hour

func (*Revisit) about() about {
	return about{seed: true, ranks: true, endless: true, virtualTime: true, text: "new URLs and pages to visit again, each with a share of a batch; a page is visited as often as keeps most pages fresh, by its estimated rate of change; with several queues, new URLs by priority, and pages of high priority more often; never ends by itself"}
}

func (r *Revisit) complete() error {
	r.NewShare, r.GoneAfter = cmp.Or(r.NewShare, 0.5), cmp.Or(r.GoneAfter, 3)
	if least, most := r.intervals(); most < least {
		return setting.Wrong("max_interval", most, "at least "+setting.Named("min_interval", least))
	}
	return nil
}

// intervals are the bounds of the time between two visits.
func (r *Revisit) intervals() (least, most time.Duration) {
	least = duration(&r.MinInterval, time.Hour)
	return least, duration(&r.MaxInterval, max(30*24*time.Hour, least))
}

// The kinds of URLs. Each has a front queue for each priority; the queues of new URLs come first.
const (
	newURLs = iota // never found
	oldURLs        // to be visited again
)

// schedule holds the parameters of policy revisit, ready for use.
type schedule struct {
	min, max uint64 // between two visits of a page, in µs
	prior    uint64 // mean time between two changes of a page that nothing is known of, in µs
	gone     uint8  // visits in a row that do not find a page, after which it is finished
	// worth is the value of a fresh copy of a page, by priority; lower priorities count as the last.
	worth []float64
}

// newSchedule makes the schedule of complete parameters.
func newSchedule(p Revisit, by Priority) *schedule {
	least, most := p.intervals()
	s := &schedule{min: uint64(least.Microseconds()), max: uint64(most.Microseconds()), gone: uint8(p.GoneAfter)}
	s.prior = 2 * s.min
	for rank := range max(by.Queues, 1) {
		s.worth = append(s.worth, math.Pow(cmp.Or(by.Bias, 2), -float64(rank)))
	}
	return s
}

func (r *Revisit) policy(p *Params) hooks {
	return &revisitPolicy{
		schedule: newSchedule(*r, p.Priority), weighted: weighted{seed: p.Seed, weight: []float64{r.NewShare, 1 - r.NewShare}}, of: p.Priority.drawn(mix(p.Seed)),
	}
}

// revisitPolicy draws one of the kinds, and of that a front queue.
type revisitPolicy struct {
	*schedule
	weighted
	revisits
	of    weighted // front queues of one kind
	every []uint64 // between two visits, as intervals gives them; nil until needed
}

func (p *revisitPolicy) queues() int { return 2 * p.priorities() }

func (p *revisitPolicy) priorities() int { return len(p.worth) }

func (p *revisitPolicy) choose(draw uint64, ready func(queue int) bool) int {
	first := 0 // queue of the kind
	in := func(k int) bool { return ready(first + k) }
	kind := p.weighted.choose(draw, func(kind int) bool {
		first = kind * p.priorities()
		return p.of.choose(draw, in) >= 0
	})
	if kind < 0 {
		return -1
	}
	first = kind * p.priorities()
	return first + p.of.choose(draw, in)
}

func (p *revisitPolicy) kept() any { return &p.revisits }

func (p *revisitPolicy) due(s *state, e *Entry, before map[uint8]uint64) {
	s.takeTurn(e, p.level(e), before)
}

// level is by kind and priority. By the rate of change, too, a page that changes too fast to follow would cost the others
// their visits: the rate says when a page returns.
func (p *revisitPolicy) level(e *Entry) uint8 {
	kind := newURLs
	if e.Visit.Visits > 0 {
		kind = oldURLs
	}
	return uint8(kind*p.priorities() + p.rank(&e.URL))
}

// rank is the priority of a URL, as far as priorities are told apart.
func (p *schedule) rank(u *record.URL) int { return min(int(u.Priority), len(p.worth)-1) }

// kind is a page's index in rates: by its priority and its class.
func (p *schedule) kind(e *Entry) int { return p.rank(&e.URL)*classes + p.class(&e.Visit) }

// sound refuses more Rates than there are.
func (p *revisitPolicy) sound() error {
	if most := len(p.worth) * classes; len(p.Rates) > most {
		return fmt.Errorf("%d rates, want at most %d", len(p.Rates), most)
	}
	return nil
}

// rates are Rates; a new frontier has none.
func (p *revisitPolicy) rates() []uint64 {
	if n := len(p.worth) * classes; len(p.Rates) < n {
		p.Rates = append(p.Rates, make([]uint64, n-len(p.Rates))...)
	}
	return p.Rates
}

func (p *revisitPolicy) raised(e *Entry, had uint8) {
	if e.Visit.Visits > 0 {
		p.rates()[p.kind(e)]++
		was := *e
		was.URL.Priority = had
		p.rates()[p.kind(&was)]--
	}
}

// passed: the page asks for its visits where it waits now, from the next batch on (taken).
func (p *revisitPolicy) passed(e *Entry, from hooks) {
	switch {
	case e.Visit.Visits == 0:
	case from != nil:
		p.rates()[p.kind(e)]++
	default:
		p.rates()[p.kind(e)]--
	}
}

// arrive: only rows of an export were visited before, and raised ones.
func (p *revisitPolicy) arrive(c *change, h *Host, a *arrival) error {
	var e Entry
	e.URL.Priority = a.priority
	if c.adds {
		if err := e.Parse(0, a.row); err != nil {
			return err
		}
		if e.Visit.Visits > 0 && !a.known {
			p.rates()[p.kind(&e)]++
		}
	}
	return c.queueLast(h, a, p.level(&e))
}

// judged leaves the end of a URL to ended.
func (p *revisitPolicy) judged(o *record.Fetch, out *outcome, now record.Time) {
	if out.verdict.final() {
		seen := sightingOf(o, now)
		out.open, out.note = true, seen.append(out.note)
	}
}

// sight is the kind of result of a visit.
type sight uint8

const (
	found   sight = iota // the page
	unclear              // a part of the page
	absent               // no page
	barred               // no page, and no visit will ever find one
)

// sighting is the information of an outcome about a page.
type sighting struct {
	sight    sight
	bodiless bool        // nobody looked at the content
	at       record.Time // of the visit
	modified record.Time // when the page changed last, by the server; 0: unknown
	until    record.Time // until when it stays as it is, by the server; 0: unknown
	fp       uint64
	score    float32
	etag     string // with lastModified: what the next visit may refer to
	last     string
}

// sightingOf is an outcome row's news about its page. now, the round's time, replaces
// the time of a contact that never was, or by a clock that was years ahead.
func sightingOf(o *record.Fetch, now record.Time) sighting {
	s := sighting{at: o.FetchTime, fp: o.ContentFP, score: o.Score}
	if s.at <= 0 || s.at-now > record.Time(mostInterval.Microseconds()) {
		s.at = now
	}
	document := o.Outcome == record.OutcomeFetched && o.Status >= 200 && o.Status < 300
	switch {
	case o.Outcome == record.OutcomeScheme || o.Outcome == record.OutcomePort || o.Outcome == record.OutcomeRefused:
		s.sight = barred
	case document && o.Truncated != "" && o.Truncated != "length":
		s.sight = unclear // where it was cut is chance
		s.modified = serverTime(o.LastModified)
	case document, o.Outcome == record.OutcomeNotModified:
		s.bodiless = o.ContentFP == 0 && o.BodyLength == 0
		s.modified = serverTime(o.LastModified)
		if !s.bodiless || o.Outcome == record.OutcomeNotModified { // else a GET could be told that a page is the same that nobody has
			s.etag, s.last = o.ETag, o.LastModified
		}
	case o.Outcome == record.OutcomeFetched && o.Status >= 300 && o.Status < 400 && o.RedirectURL != "":
		// The validators are of an earlier document.
	default:
		s.sight = absent
	}
	if s.sight == found && o.FreshUntil > s.at {
		s.until = o.FreshUntil
	}
	return s
}

// serverTime reads a Last-Modified field (RFC 9110 section 5.6.7, the obsolete forms
// too) or the answer to FTP's MDTM (RFC 3659 section 2.3); 0 for anything else.
func serverTime(s string) record.Time {
	for _, layout := range []string{"Mon, 02 Jan 2006 15:04:05 GMT", "Monday, 02-Jan-06 15:04:05 GMT", time.ANSIC, "20060102150405"} {
		if t, err := time.Parse(layout, s); err == nil {
			return max(record.TimeOf(t), 0)
		}
	}
	return 0
}

func (s *sighting) append(b []byte) []byte {
	bodiless := byte(0)
	if s.bodiless {
		bodiless = 1
	}
	b = append(b, byte(s.sight), bodiless)
	for _, x := range []uint64{uint64(s.at), uint64(s.modified), uint64(s.until), s.fp, uint64(math.Float32bits(s.score)), uint64(len(s.etag))} {
		b = binary.AppendUvarint(b, x)
	}
	return append(append(b, s.etag...), s.last...)
}

// decode is the reverse of append, for bytes that this process wrote.
func (s *sighting) decode(b []byte) {
	s.sight, s.bodiless = sight(b[0]), b[1] == 1
	b = b[2:]
	var x [6]uint64
	for i := range x {
		v, n := binary.Uvarint(b)
		x[i], b = v, b[n:]
	}
	s.at, s.modified, s.until, s.fp = record.Time(x[0]), record.Time(x[1]), record.Time(x[2]), x[3]
	s.score, s.etag, s.last = math.Float32frombits(uint32(x[4])), string(b[:x[5]]), string(b[x[5]:])
}

// revisits is the state of a frontier of policy revisit besides its URLs.
type revisits struct {
	// Rates counts the pages that are visited again and again, by class of their rates, for each priority.
	Rates []uint64 `json:"rates"`
	// PerDay is how many visits of known pages a day the rounds have room for: a mean of
	// the last rounds, with more weight for recent ones. 0: not known yet.
	PerDay float64 `json:"per_day"`
	// Load is the share of PerDay that pages ask for, so that batches are just full.
	Load float64 `json:"load"`
	// Multiplier is Lagrange's, in µs: how much freshness a visit must bring to be made.
	// 0: PerDay is not known.
	Multiplier float64     `json:"multiplier"`
	Now        record.Time `json:"now"`   // when the last batch was taken
	Limit      uint64      `json:"limit"` // most URLs of the last batch; 0: any number
	All        uint64      `json:"all"`   // URLs of the last batch
	Old        uint64      `json:"old"`   // known pages in the last batch
	Left       uint64      `json:"left"`  // known pages that were due and found no room in the last batch
}

// reach is how many times the time that a page was seen not to change the next visit may
// be off, until a change was seen.
const reach = 4

// probe shortens the interval to the next visit of a page that is not known well. Pages
// that change all the time are known after few visits so. A page that was found changed
// after a time in which it would have anyway (blind) told nothing by that: seen always
// as rarely, it could never be told from pages that change much more often, and would be
// given up with them.
func (p *schedule) probe(v *Visit, blind bool, interval uint64) uint64 {
	switch {
	case v.Changes == 0:
		return min(interval, p.min+reach*v.ObservedUS)
	case blind && v.Changes < enough/2:
		return min(interval, max(p.mean(v.Changes, v.ObservedUS), p.min))
	}
	return interval
}

// trust is how many times the mean time between two changes of a page, as far as that is
// known, a server may keep visits away by saying that it stays as it is. So long promises
// are put to the test, the first soon, and a page that keeps them is visited less and less.
const trust = 2

// doubt is how many promises have to be kept before one is believed again after one was
// broken. A page that changes all the time and says a year is then scheduled like others.
const doubt = 4

// promised lengthens the interval to the next visit to the time that the last one was
// told that the page stays as it is: a visit before would find nothing new. A promise that is
// false but short is not found out, and costs at most the factor trust. The interval is not
// shortened to it: most promises say for how long copies may be used, and not when the page will change.
func (p *schedule) promised(v *Visit, interval uint64) uint64 {
	if v.Broken > 0 || v.Until <= v.Last {
		return interval
	}
	return max(interval, min(uint64(v.Until-v.Last), trust*p.mean(v.Changes, v.ObservedUS)))
}

// judge compares what a visit found with what the one before found and was promised: whether the page
// had changed, by the time that is given, while it was to stay. Of a change at some time before
// the visit that is the time of the visit: after a promise has ended nobody
// can tell, for those that a page stays until it changes end with changes too.
func judge(v *Visit, changed bool, at record.Time) {
	switch {
	case v.Until == 0:
	case changed && at < v.Until:
		v.Broken = uint8(min(int(v.Broken)+doubt, math.MaxUint8))
	case !changed && v.Broken > 0:
		v.Broken--
	}
}

// maxDoubled bounds how often an interval is doubled, because a page is not found.
const maxDoubled = 16

const day = 24 * 3600e6 // µs

// ended queues a URL for its next visit, if it needs one.
func (p *revisitPolicy) ended(c *change, e *Entry, o *outcome) (back bool, err error) {
	v := &e.Visit
	if v.Visits > 0 {
		p.rates()[p.kind(e)]--
	}
	var s sighting
	s.decode(o.note)
	blind := false
	switch s.sight {
	case found:
		blind = p.learn(v, &s, e.URL.LastContentFP)
		e.URL.ETag, e.URL.LastModified, e.URL.LastContentFP = s.etag, s.last, s.fp
		if c.byScore {
			e.URL.Score = s.score
			byScore(&e.URL, p.priorities())
		}
	case unclear:
		v.Gone, v.Visits = 0, max(v.Visits, 1)
		if s.modified > 0 && s.modified <= v.Last { // the body was cut, but Last-Modified shows that the page has not changed
			s.fp = e.URL.LastContentFP
			p.learn(v, &s, s.fp)
		}
	case barred:
		v.Gone = math.MaxUint8
	case absent:
		v.Gone++
	}
	if v.Visits == 0 || v.Gone >= p.gone { // a page that was never there is not waited for
		// The host learns here that it has one URL less, since its outcome alone did not tell.
		ev := Host{Key: hostKey(e.URL.Host), Host: e.URL.Host}
		verdictOf(&ev, o.verdict, o.outcome)
		return false, addRow(c.events, ev.Key, &ev)
	}
	p.rates()[p.kind(e)]++
	if p.every == nil {
		p.every = p.intervals(p.multiplier(&p.revisits))
	}
	wait := p.probe(v, blind, p.every[p.kind(e)])
	if s.sight == found {
		wait = p.promised(v, wait)
	}
	wait = min(wait<<min(v.Gone, maxDoubled), p.max)
	e.URL.Attempt = 0
	e.URL.Due = s.at + record.Time(wait)
	c.s.Longest = max(c.s.Longest, record.Time(p.max))
	c.s.Counts.Visits++
	c.s.Counts.Pending++
	return true, p.waits(c, e, o)
}

// enough is how many changes of a page tell its rate: beyond, what was seen long ago
// counts half, and half again, so that a page may change its ways.
const enough = 32

// slowest is how many times the longest interval is the mean time between two changes
// beyond which pages are told apart no more.
const slowest = 8

// learn adds to what is known about a page what a visit saw. was is the content
// fingerprint of the visit before. The visit was blind if it found a change, nothing
// tells when it was, and the visit before was more than two mean times between changes ago.
func (p *schedule) learn(v *Visit, s *sighting, was uint64) (blind bool) {
	v.Gone = 0
	first := v.Last == 0
	if v.Visits < math.MaxUint32 {
		v.Visits++
	}
	told := s.modified > 0 && s.modified <= s.at // unless its clock is fast
	since := uint64(s.at - v.Last)
	switch {
	case first && told:
		// By the nature of Poisson processes, the time since the last change is distributed
		// as that between two.
		v.Changes++
		v.ObservedUS += uint64(s.at - s.modified)
	case first:
	case s.at <= v.Last: // the clock went back
	case s.fp == was && !(s.bodiless && told && s.modified > v.Last):
		v.ObservedUS += since
		judge(v, false, s.at)
	case told && s.modified > v.Last:
		v.Changes++
		v.ObservedUS += uint64(s.at - s.modified)
		judge(v, true, s.modified)
	default:
		v.Changes++
		judge(v, true, s.at)
		v.ObservedUS += p.sinceChange(v, since)
		blind = since > 2*p.mean(v.Changes, v.ObservedUS)
	}
	v.Last, v.Until = s.at, s.until
	if v.Changes >= enough && v.Changes%2 == 0 {
		v.Changes, v.ObservedUS = v.Changes/2, v.ObservedUS/2
	}
	v.ObservedUS = min(v.ObservedUS, p.mostObserved(v.Changes))
	return blind
}

// mostObserved bounds the time in which that number of changes was seen.
func (p *schedule) mostObserved(changes uint32) uint64 {
	return slowest * p.max * (2*uint64(changes) + 1) / 2
}

// mean is the estimated mean time between two changes of a page, in µs. Half a change
// in the least interval is taken to have been seen before the first visit, so that
// few visits say little; Cho and Garcia-Molina's estimator adds a half too.
func (p *schedule) mean(changes uint32, observed uint64) uint64 {
	return (2*observed + p.prior) / (2*uint64(changes) + 1)
}

// sinceChange is the expected time since the last change of a page that has changed
// within a time, at the rate of all visits up to this one (v counts its change
// already): the t for which t = E[T | T < within] if T is exponential with the mean that
// t leads to. It is the step of the expectation-maximization algorithm (Dempster, Laird
// and Rubin, 1977) with which the likelihood of censored visits is greatest.
func (p *schedule) sinceChange(v *Visit, within uint64) uint64 {
	low, high := uint64(0), within/2
	for low < high {
		t := low + (high-low+1)/2
		z := float64(within) / float64(p.mean(v.Changes, v.ObservedUS+t))
		// E[T | T < within] / within
		if expected := 1/z - 1/math.Expm1(z); expected*float64(within) >= float64(t) {
			low = t
		} else {
			high = t - 1
		}
	}
	return low
}

// Pages are scheduled by class of their rates: four classes to each doubling of the
// mean time between two changes, from a second on. The middle of a class is at most
// an eighth off, which costs next to no freshness.
const (
	firstClass = 18 // log2 of a quarter of the first class's lower end in µs
	classes    = 27 * 4
)

// class of a page's rate.
func (p *schedule) class(v *Visit) int {
	m := p.mean(v.Changes, v.ObservedUS) >> firstClass
	if m < 4 {
		return 0
	}
	k := bits.Len64(m) - 3
	return min(4*k+int(m>>k)-4, classes-1)
}

// classMean is the mean time between two changes of pages in the middle of a class, in µs.
func classMean(class int) float64 {
	return math.Ldexp(4.5+float64(class%4), class/4+firstClass)
}

// intervals are the times between two visits of pages of each class, in µs, for each priority.
func (p *schedule) intervals(multiplier float64) []uint64 {
	var all []uint64
	for _, worth := range p.worth {
		for class := range classes {
			all = append(all, p.best(classMean(class), multiplier/worth))
		}
	}
	return all
}

// best is the time between two visits of a page with a mean time between two
// changes, both in µs. With z = interval/mean the page is fresh for a share of the
// time of (1-e^-z)/z. Most pages are fresh where one visit more would bring the same
// everywhere: mean * (1-(1+z)e^-z) = multiplier. With a mean at or below the
// multiplier, visits of a page are not worth their cost at all.
func (p *schedule) best(mean, multiplier float64) uint64 {
	share := multiplier / mean
	if share >= 1 {
		return p.max
	}
	low, high := 0.0, 64.0
	for range 48 {
		if z := (low + high) / 2; -math.Expm1(-z)-z*math.Exp(-z) < share {
			low = z
		} else {
			high = z
		}
	}
	whole := math.Round(low*mean/1e6) * 1e6 // seconds: the last bits of math.Exp are not the same on every processor
	return min(max(uint64(whole), p.min), p.max)
}

// multiplier returns the multiplier. Before rounds have shown how many visits there is room for, a page with no history is
// visited about as often as it changes, or more often if it has a high priority.
func (p *schedule) multiplier(r *revisits) float64 {
	if r.Multiplier == 0 {
		return float64(p.prior) / 4 * p.worth[len(p.worth)-1]
	}
	return r.Multiplier
}

// adjust sets the multiplier so that the pages that are known need as many visits as
// the rounds have room for.
func (p *schedule) adjust(r *revisits) {
	if r.PerDay == 0 {
		return
	}
	low, high := math.Log(1e3), math.Log(float64(slowest*p.max))
	asked := 0.0
	for range 40 {
		middle := (low + high) / 2
		visits := 0.0
		for kind, n := range r.Rates {
			if n > 0 {
				visits += float64(n) * day / float64(p.best(classMean(kind%classes), math.Exp(middle)/p.worth[kind/classes]))
			}
		}
		if visits > r.PerDay*r.Load {
			low = middle
		} else {
			high, asked = middle, visits
		}
	}
	r.Multiplier = math.Exp(high)
	// Room that pages cannot use, since there is a least interval, is not room for many more.
	if asked > 0 {
		r.PerDay = min(r.PerDay, growth*asked)
	}
}

// growth is how many times the visits that its pages ask for a frontier may think that
// there is room for.
const growth = 1.5

// leastLoad is the least share of the room for visits that pages are to ask for.
const leastLoad = 0.9

// taken notes what a batch of at most limit URLs (0: any number) taken now has of each
// front queue, and learns from the time since the one before how many visits the rounds
// have room for: more than was thought while batches are not filled, less while pages
// that are due find no room in them.
func (p *revisitPolicy) taken(s *state, now record.Time, taken []uint64, limit uint64) {
	r := &p.revisits
	if r.Now > 0 && now > r.Now {
		share := 1 - p.weight[newURLs]
		perDay := day / float64(now-r.Now)
		most := max(float64(r.Limit)-float64(r.All-r.Old), share*float64(max(r.Limit, r.All))) // of known pages in that batch
		room := most * perDay
		switch {
		case limit > 0 && r.Limit > 0:
		case r.Left > 0:
			room = float64(r.Old) * perDay
		default:
			room = max(room, growth*r.PerDay)
		}
		if r.PerDay == 0 {
			r.PerDay, r.Load = room, 1
		}
		r.PerDay += (room - r.PerDay) / 4
		if r.Left > 0 {
			r.Load = max(r.Load-1./32, leastLoad)
		} else if most > 0 {
			r.Load = min(r.Load+(1-float64(r.Old)/most)/16, growth)
		}
		p.adjust(r)
	}
	r.Now, r.Limit, r.All, r.Old, r.Left = now, limit, 0, 0, 0
	for queue, n := range taken {
		r.All += n
		if queue >= oldURLs*p.priorities() {
			r.Old += n
		}
	}
	if limit == 0 || r.All == limit { // else the hosts of what is left have their share
		for _, runs := range s.Ready[oldURLs*p.priorities():] {
			r.Left += rowsOf(runs)
		}
	}
}

// Pages sums up what policy revisit has learnt about the pages that it visits.
type Pages struct {
	Known     uint64        `json:"known"`           // pages found at least once, and visited again
	Visits    float64       `json:"visits_a_day"`    // visits that the intervals of the known pages ask for
	Room      float64       `json:"room_a_day"`      // visits that the rounds have room for; 0: not known yet
	IntervalS float64       `json:"mean_interval_s"` // Known divided by Visits, in seconds
	Fresh     float64       `json:"expected_fresh"`  // expected share of copies that equal their page, if visits are in time and estimates right
	Change    []ChangeCount `json:"change"`          // by estimated mean time between two changes
	// Priorities are the pages of each priority, the last of all lower ones, too; nil: one front queue has all.
	Priorities []PriorityCount `json:"priorities,omitempty"`
}

// PriorityCount counts pages of one priority.
type PriorityCount struct {
	Pages  uint64  `json:"pages"`
	Visits float64 `json:"visits_a_day"`
	Fresh  float64 `json:"expected_fresh"`
}

// Add adds the pages of another frontier with the same parameters.
func (p *Pages) Add(o *Pages) {
	mean := func(a float64, n uint64, b float64, m uint64) float64 {
		return (a*float64(n) + b*float64(m)) / float64(max(n+m, 1))
	}
	visits := func(n uint64, interval float64) float64 { return float64(n) / max(interval, 1) * 86400 }
	p.Fresh = mean(p.Fresh, p.Known, o.Fresh, o.Known)
	p.Known, p.Visits, p.Room = p.Known+o.Known, p.Visits+o.Visits, p.Room+o.Room
	p.IntervalS = meanInterval(p.Known, p.Visits)
	for i, n := range o.Change {
		of := &p.Change[i]
		asked := visits(of.Pages, of.IntervalS) + visits(n.Pages, n.IntervalS)
		of.Pages += n.Pages
		of.IntervalS = meanInterval(of.Pages, asked)
	}
	for i, n := range o.Priorities {
		of := &p.Priorities[i]
		of.Fresh = mean(of.Fresh, of.Pages, n.Fresh, n.Pages)
		of.Pages, of.Visits = of.Pages+n.Pages, of.Visits+n.Visits
	}
}

// Lines has the number of pages, and how often the pages of each class are visited.
func (p *Pages) Lines() (key string, lines [][2]string) {
	lines = append(lines, [2]string{"pages to visit", fmt.Sprintf("%d, %s visits a day, room for %s; %.1f %% expected fresh", p.Known, rate(p.Visits), rate(p.Room), 100*p.Fresh)})
	for _, n := range p.Change {
		if n.Pages > 0 {
			lines = append(lines, [2]string{"  change in " + n.Within, fmt.Sprintf("%d, visited every %v", n.Pages, time.Duration(n.IntervalS)*time.Second)})
		}
	}
	for rank, n := range p.Priorities {
		lines = append(lines, [2]string{fmt.Sprintf("  of priority %d", rank), fmt.Sprintf("%d, %s visits a day; %.1f %% expected fresh", n.Pages, rate(n.Visits), 100*n.Fresh)})
	}
	return "pages", lines
}

// rate writes how often something is done: three digits of what is small, whole numbers of what is not.
func rate(perDay float64) string {
	if perDay < 100 {
		return fmt.Sprintf("%.3g", perDay)
	}
	return fmt.Sprintf("%.0f", perDay)
}

// ChangeCount counts pages that change within a time, in the mean, and not within the
// one before.
type ChangeCount struct {
	Within    string  `json:"within"`
	Pages     uint64  `json:"pages"`
	IntervalS float64 `json:"mean_interval_s"` // between two visits
}

// changeBounds are the classes of Pages.Change.
var changeBounds = []struct {
	name   string
	micros float64
}{{"1h", day / 24}, {"24h", day}, {"168h", 7 * day}, {"720h", 30 * day}, {"longer", math.Inf(1)}}

func (p *schedule) pages(r *revisits) *Pages {
	out := &Pages{Room: r.PerDay, Change: make([]ChangeCount, len(changeBounds))}
	visits := make([]float64, len(changeBounds)) // a day
	if len(p.worth) > 1 {
		out.Priorities = make([]PriorityCount, len(p.worth))
	}
	for kind, interval := range p.intervals(p.multiplier(r)) {
		if kind >= len(r.Rates) {
			break
		}
		n, mean := r.Rates[kind], classMean(kind%classes)
		i := 0
		for mean > changeBounds[i].micros {
			i++
		}
		z := float64(interval) / mean
		out.Known += n
		out.Fresh += float64(n) * -math.Expm1(-z) / z
		if out.Priorities != nil {
			of := &out.Priorities[kind/classes]
			of.Pages += n
			of.Visits += float64(n) * day / float64(interval)
			of.Fresh += float64(n) * -math.Expm1(-z) / z
		}
		out.Change[i].Pages += n
		visits[i] += float64(n) * day / float64(interval)
	}
	for i, b := range changeBounds {
		out.Visits += visits[i]
		out.Change[i].Within = b.name
		out.Change[i].IntervalS = meanInterval(out.Change[i].Pages, visits[i])
	}
	out.IntervalS = meanInterval(out.Known, out.Visits)
	out.Fresh /= float64(max(out.Known, 1))
	for i := range out.Priorities {
		out.Priorities[i].Fresh /= float64(max(out.Priorities[i].Pages, 1))
	}
	return out
}

// meanInterval is the mean interval of pages with so many visits a day, in s; 0 without pages.
func meanInterval(pages uint64, visits float64) float64 {
	if pages == 0 {
		return 0
	}
	return math.Round(float64(pages) / visits * 86400)
}

func (p *revisitPolicy) stat() PolicyStat { return p.pages(&p.revisits) }

// check counts the pages by class.
func (p *revisitPolicy) check(context.Context, *Frontier, *state) (each func(queue, *Entry), end func() error) {
	rates := make([]uint64, len(p.rates()))
	each = func(_ queue, e *Entry) {
		if e.Visit.Visits > 0 {
			rates[p.kind(e)]++
		}
	}
	return each, func() error {
		for kind, n := range rates {
			if n != p.Rates[kind] {
				return &fault.Error{Class: fault.No, Found: fmt.Sprintf("%d pages of priority %d that change about every %v", n, kind/classes, time.Duration(classMean(kind%classes))*time.Microsecond), Want: fmt.Sprint(p.Rates[kind])}
			}
		}
		return nil
	}
}

// Columns of exported pages that url records do not have otherwise.
const (
	columnVisits   = "visits"
	columnChanges  = "changes"
	columnObserved = "observed_us"
	columnVisited  = "last_visit"
	columnGone     = "gone"
	columnUntil    = "promised_until"
	columnBroken   = "promises_broken"
)

var visitColumns = record.NewSchema(record.KindURL, record.Column{Name: columnVisits}, record.Column{Name: columnChanges}, record.Column{Name: columnObserved}, record.Column{Name: columnVisited, Time: true}, record.Column{Name: columnGone}, record.Column{Name: columnUntil, Time: true}, record.Column{Name: columnBroken})

func (p *revisitPolicy) columns() *record.Schema { return visitColumns }

func (p *revisitPolicy) export(_ queue, e *Entry) {
	if e.Visit.Visits > 0 {
		e.URL.Extra = visitExtra(visitColumns, &e.Visit)
	}
}

func (p *revisitPolicy) importRow(e *Entry) { e.Visit = p.visitOf(e.URL.Extra) }

func visitExtra(s *record.Schema, v *Visit) record.Extra {
	return s.Extra(func(name string) uint64 {
		switch name {
		case columnVisits:
			return uint64(v.Visits)
		case columnChanges:
			return uint64(v.Changes)
		case columnObserved:
			return v.ObservedUS
		case columnVisited:
			return uint64(v.Last)
		case columnGone:
			return uint64(v.Gone)
		case columnUntil:
			return uint64(v.Until)
		}
		return uint64(v.Broken)
	})
}

// visitOf is the reverse of visitExtra, for any row: nothing in it is more than visits
// lead to.
func (p *schedule) visitOf(x record.Extra) (v Visit) {
	number := func(name string, most uint64) uint64 {
		n, _ := x.Number(name)
		return min(n, most)
	}
	when := func(name string) record.Time {
		n, _ := x.Number(name)
		return max(record.Time(n), 0)
	}
	v.Visits = uint32(number(columnVisits, math.MaxUint32))
	if v.Visits == 0 {
		return v
	}
	v.Changes = uint32(number(columnChanges, enough-1))
	v.ObservedUS = number(columnObserved, p.mostObserved(v.Changes))
	v.Last = when(columnVisited)
	v.Gone = uint8(number(columnGone, uint64(p.gone-1))) // a page that is finished as gone does not wait
	v.Until = when(columnUntil)
	v.Broken = uint8(number(columnBroken, math.MaxUint8))
	return v
}
