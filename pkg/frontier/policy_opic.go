package frontier

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/bits"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
)

// Opic are the parameters of policy opic.
type Opic struct {
	Tax     float64 `key:"frontier.tax" range:"0.000001 1" placeholder:"0.1" more:"" help:"Part of a page's credit for all URLs, 0.000001 to 1."`
	Refetch string  `key:"frontier.refetch" range:"0s 8760h" or:"never" placeholder:"never" help:"Fetch pages again by credit, after 0s to 8760h."`
}

func (o *Opic) about() about {
	return about{seed: true, endless: o.Refetch != "", links: withLinks, late: true, share: hostShare, text: "one queue; the URL of most credit first, which pages give to those that they link to (adaptive on-line page importance); no host fills a batch; with refetch, pages are fetched again by their credit, and there is no end"}
}

func (o *Opic) complete() error {
	o.Tax = math.Round(cmp.Or(o.Tax, 0.1)*millionths) / millionths
	if o.Refetch == "never" {
		o.Refetch = ""
	}
	if o.Refetch != "" {
		duration(&o.Refetch, 0)
	}
	return nil
}

// Policy opic serves the URL of most credit first: "Adaptive on-line page importance
// computation" (Abiteboul, Preda and Cobena, WWW 2003), in batches. Credit is counted in
// whole units, so that none is ever lost.
//
//   - A URL that Add puts in brings seedCredit, or what an export says that it had; one
//     that Update puts in has none.
//   - A page that has its final outcome gives all its credit away: a tax to the lambda
//     page, the rest in equal parts to the distinct URLs that it links to, itself and
//     links marked nofollow aside. What cannot be divided goes to the lambda page.
//     All credit of a page without links goes there: of one that failed, is a duplicate,
//     or was not searched.
//   - A part for a URL that does not wait stays with it, because it was fetched, is in
//     flight, or never got into the frontier.
//   - The lambda page is served as any other, when it has more credit than each URL
//     that waits: it gives to all URLs in equal parts, fetched or not.
//   - A URL that was put off, or is to be tried again, keeps its credit.
//   - Each of several shards has a lambda page for its own URLs (give.go).
//
// With Refetch a page that was found (status 2xx or 3xx) waits again, without credit. It is
// fetched again when links and the lambda page have given it enough: the credit since the last
// fetch is the paper's window. A page of a trap gets credit from few pages, which have little
// themselves, so traps are left alone. A part for a URL that does not wait then
// goes to the lambda page, and that gives to the URLs that wait.
//
// A batch is the n URLs of most credit, but that no host fills it (see hostShare);
// equals come in an order drawn by seed. With batches of one this is the greedy
// algorithm of the paper.
//
// The credit of a URL is its row's VirtualTime in each queue, without the last share of the lambda
// page, which the next Update adds to every row as it writes it again: it reads and writes all that
// waits, in order. What the batch gives is a sorted run, merged with the rows that it is for:
// those that may be targets, by a Bloom filter of the run's URL checksums. A table of credits by hash would
// spare rewriting rows that were not paid, but Next would have to look URLs up, and a paid row has to move in any case.
//
// Without Refetch, what a fetched page is given stays with it. Handed to the lambda page
// instead, it would come back in equal parts for all that wait: service by age, not by importance.
const (
	seedCredit = 1 << 32
	mostCredit = 1 << 62 // in all, of a shard; URLs that Add puts in beyond bring none
	maxTargets = 1 << 16 // one page gives to so many URLs, the lowest hashes first
	maxRows    = 8 << 20 // and in a crawl of several shards to those with rows of so many bytes

	hostShare = 4 // one URL of a batch in this many may be of one host

	creditSort = 4 << 20 // size of each sorter of payments

	// A row's order: all ones less its credit in steps of one from leastCredit on, as far
	// as that goes, and then a hash that breaks ties.
	tieBits     = 12
	creditSteps = 1 << (virtualTimeBits - tieBits)
	millionths  = 1_000_000
	leastCredit = -(creditSteps / 4)
)

// credits are the state of a frontier of policy opic beside its URLs.
type credits struct {
	Total  uint64 `json:"total"`          // credit that Add has brought; with Moved, that of all URLs and the lambda page
	Lambda uint64 `json:"lambda"`         // credit of the lambda page
	Share  uint64 `json:"share"`          // credit of each waiting URL, beside its row's VirtualTime
	Kept   uint64 `json:"kept,omitempty"` // credit given to URLs that did not wait
	// Moved is the credit that has come from other shards, less what has gone to them; of all shards together it is 0.
	Moved int64 `json:"moved,omitempty"`
}

func (o *Opic) policy(all *Params) hooks {
	p := &opicPolicy{tax: uint64(math.Round(o.Tax * millionths)), seed: all.Seed, again: o.Refetch != ""}
	after := duration(&o.Refetch, 0)
	p.after = record.Time(after.Microseconds())
	return p
}

// opicPolicy serves by credit. In each queue a URL's VirtualTime is its credit, and its key comes of the credit.
type opicPolicy struct {
	fair
	tax   uint64 // the tax in millionths
	seed  uint64
	again bool        // pages are fetched again
	after record.Time // least time until a page is fetched again
	credits
	*settlement // settlement of an Update; nil before its first link, outcome or new URL
}

func (p *opicPolicy) kept() any { return &p.credits }

func (p *opicPolicy) due(_ *state, e *Entry, _ map[uint8]uint64) { e.Key = p.order(e) }

// served: VirtualTime becomes the whole credit.
func (p *opicPolicy) served(_ *state, e *Entry) { e.VirtualTime += p.Share }

// order is the key of a row by its credit.
func (p *opicPolicy) order(e *Entry) uint64 {
	return steps(e.VirtualTime) | mix(fingerprint.SHA256(e.URL.URL)^p.seed)>>(64-tieBits)
}

func (p *opicPolicy) link(c *change, l *record.Link) error {
	if n, given := l.Extra.Number(columnCredit); given {
		return p.begun(c).takeGift(l, n)
	}
	return p.begun(c).addLink(l, nil)
}

func (p *opicPolicy) begun(c *change) *settlement {
	if p.settlement == nil {
		p.settlement = newSettlement(c, p)
	}
	return p.settlement
}

// judged leaves a page open that is to be fetched again.
func (p *opicPolicy) judged(o *record.Fetch, out *outcome, _ record.Time) {
	there := o.Outcome == record.OutcomeNotModified || o.Outcome == record.OutcomeFetched && o.Status >= 200 && o.Status < 400
	out.open = p.again && there && out.verdict.final()
}

func (p *opicPolicy) ended(c *change, e *Entry, o *outcome) (back bool, err error) {
	p.Lambda += e.VirtualTime // until distribute
	if err := p.begun(c).addGiver(e.URL.URL, e.VirtualTime, nil); err != nil || !o.open {
		return false, err
	}
	e.VirtualTime, e.URL.Attempt, e.URL.Due = 0, 0, 0
	if p.after > 0 {
		e.URL.Due = c.now + p.after
		c.s.Longest = max(c.s.Longest, p.after)
	}
	c.s.Counts.Visits++
	c.s.Counts.Pending++
	return true, p.waits(c, e, o)
}

func (p *opicPolicy) waits(c *change, e *Entry, o *outcome) error {
	queue := toReady
	switch {
	case o.verdict == park:
		queue = toParked + byte(parkedAs(o.outcome))
	case e.URL.Due != 0:
		queue = toLater
	}
	return p.begun(c).wait(e, queue)
}

// arrive queues a new URL: Add's with credit, Update's when gifts are paid.
func (p *opicPolicy) arrive(c *change, _ *Host, a *arrival) error {
	var e Entry
	if err := e.Parse(0, a.row); err != nil {
		return err
	}
	queue := toReady
	if a.due != 0 {
		queue = toLater
	}
	if !c.adds {
		return p.begun(c).wait(&e, queue)
	}
	e.VirtualTime = min(e.VirtualTime, mostCredit-p.Total)
	p.Total += e.VirtualTime
	e.VirtualTime -= p.Share
	return p.queueByCredit(c, &e, queue)
}

// passed: the row's credit goes along, and in the frontier that it comes to its VirtualTime is without that one's share.
func (p *opicPolicy) passed(e *Entry, from hooks) {
	if from == nil {
		p.Moved -= int64(e.VirtualTime + p.Share)
		return
	}
	e.VirtualTime += from.(*opicPolicy).Share - p.Share
	p.Moved += int64(e.VirtualTime + p.Share)
}

func (p *opicPolicy) moved(e *Entry) { e.Key = p.order(e) }

// importRow gives an added URL the credit that it had in the frontier that exported it, or seedCredit.
func (p *opicPolicy) importRow(e *Entry) {
	e.VirtualTime = seedCredit
	if n, given := e.URL.Extra.Number(columnCredit); given {
		e.VirtualTime = n
	}
}

// columnCredit is the credit's column in exported rows.
const columnCredit = "credit"

// CreditColumns are the further columns of exported rows and, in a crawl of several shards, of batches and the rows of Give.
var CreditColumns = record.NewSchema(record.KindURL, record.Column{Name: columnCredit})

func (p *opicPolicy) columns() *record.Schema { return CreditColumns }

func (p *opicPolicy) export(q queue, e *Entry) {
	credit := p.creditOf(q, e)
	e.URL.Extra = CreditColumns.Extra(func(string) uint64 { return credit })
}

// outcomesApplied takes out of the queues what is paid: an Update has read all links and outcomes.
func (p *opicPolicy) outcomesApplied(ctx context.Context, c *change) error {
	if c.adds {
		return nil
	}
	return p.begun(c).collect(ctx)
}

func (p *opicPolicy) settle(ctx context.Context, _ *change) error {
	if p.settlement == nil {
		return nil
	}
	return p.payCredits(ctx)
}

// steps is the part of an order that tells a credit.
func steps(credit uint64) uint64 {
	n := min(max(int64(credit), leastCredit), leastCredit+creditSteps-1)
	return uint64(creditSteps-1-(n-leastCredit)) << tieBits
}

// settlement is the change of credits by an update.
type settlement struct {
	*giving
	c        *change
	opic     *opicPolicy
	sent     uint64  // what URLs of this shard have given, as rows of Give say
	received uint64  // what they were given, likewise
	gifts    *sorter // by target
	marked   marks   // targets of gifts
	waiting  *sorter // rows that may be targets, by order, each after a byte that tells its queue
	rows     uint64  // of URLs that wait
	most     uint64  // credit of one of them
}

const (
	toReady byte = iota
	toLater
	toParked // and further ones, for each of parking
)

func newSettlement(c *change, p *opicPolicy) *settlement {
	return &settlement{giving: newGiving(c, p.tax), c: c, opic: p, gifts: c.sorter(creditSort), marked: newMarks(maxMarks), waiting: c.sorter(largeSort)}
}

// takeGift takes a row of Give: credit for a URL of this shard or, of a page to itself, what it has given in all.
func (t *settlement) takeGift(l *record.Link, credit uint64) error {
	if l.URL == l.SrcURL {
		t.sent += credit
		return nil
	}
	t.received += credit
	return t.gift(target{order: fingerprint.SHA256(l.URL), key: l.Key}, credit)
}

// gift notes a gift for a URL.
func (t *settlement) gift(to target, credit uint64) error {
	t.marked.set(to.key)
	t.buf = binary.AppendUvarint(t.buf[:0], credit)
	return t.gifts.addPayload(to.order, t.buf)
}

// wait notes a row that waits, and may be paid.
func (t *settlement) wait(e *Entry, queue byte) error {
	t.buf = e.Append(append(t.buf[:0], queue))
	return t.waiting.addPayload(fingerprint.SHA256(e.URL.URL), t.buf)
}

// collect reads all that waits. Rows that are marked wait to be paid; others are written again
// at once, with the share of the lambda page.
func (t *settlement) collect(ctx context.Context) error {
	err := t.distribute(ctx, func(_ target, to []target, part uint64) (err error) {
		for i := 0; i < len(to) && err == nil; i++ {
			t.opic.Lambda -= part
			err = t.gift(to[i], part)
		}
		return err
	})
	if err != nil {
		return err
	}
	if t.sent > t.opic.Lambda {
		return &fault.Error{Class: fault.Conflict, File: "links", Found: fmt.Sprintf("%d units given by pages of this shard", t.sent), Want: "no more than they had"}
	}
	t.opic.Lambda -= t.sent
	t.opic.Moved += int64(t.received - t.sent)
	s := t.c.s
	ready, err := t.rewrite(ctx, s.Ready[0], "ready/0-", "ready", toReady, func(e *Entry) uint64 {
		return steps(e.VirtualTime) | e.Key&(1<<tieBits-1)
	})
	if err != nil {
		return err
	}
	byTime := func(e *Entry) uint64 { return e.Key }
	later, err := t.rewrite(ctx, s.Later, "later/", "later", toLater, byTime)
	if err != nil {
		return err
	}
	for i := range s.Parked {
		if s.Parked[i], err = t.rewrite(ctx, s.Parked[i], "parked/", "parked", toParked+byte(i), byTime); err != nil {
			return err
		}
	}
	s.Ready[0], s.Later = ready, later
	t.opic.Share = 0
	t.marked = nil
	return nil
}

// rewrite writes runs as one, but for the rows that are marked.
func (t *settlement) rewrite(ctx context.Context, runs []run, folder, role string, queue byte, order func(*Entry) uint64) ([]run, error) {
	s := t.c.s
	m := newMerger(t.c.st, runs)
	defer m.close()
	var w *runWriter
	var tick ticker
	var e Entry
	last := uint64(0)
	for {
		err := m.next(&e)
		if err == io.EOF {
			break
		}
		if err == nil {
			err = tick.err(ctx)
		}
		if err != nil {
			return nil, err
		}
		s.Rewritten++
		e.VirtualTime += t.opic.Share
		e.Key = order(&e)
		// Credits beyond the steps of an order may change places.
		if t.marked.has(e.URL.Key) || e.Key < last {
			if err := t.wait(&e, queue); err != nil {
				return nil, err
			}
			continue
		}
		last = e.Key
		t.noteCredit(&e)
		if w == nil {
			if w, err = newRun(t.c.tx, folder, role, 0); err != nil {
				return nil, err
			}
		}
		t.buf = e.Append(t.buf[:0])
		if err := w.addPayload(e.Key, t.buf); err != nil {
			return nil, err
		}
	}
	for _, r := range runs {
		t.c.tx.Drop(r.Path)
	}
	if w == nil {
		return nil, nil
	}
	r, err := w.finish()
	return []run{r}, err
}

// payCredits gives the gifts to the rows that wait for them, puts these into their queues, and serves the
// lambda page if it is its turn.
func (t *settlement) payCredits(ctx context.Context) error {
	gifts, err := t.gifts.sorted()
	if err != nil {
		return err
	}
	waiting, err := t.waiting.sorted()
	if err != nil {
		return err
	}
	k := &t.opic.credits
	var tick ticker
	var e Entry
	for !waiting.done {
		order := waiting.key
		if err := tick.err(ctx); err != nil {
			return err
		}
		if err := t.lapse(gifts, func() bool { return gifts.key < order }); err != nil {
			return err
		}
		gift := uint64(0)
		for !gifts.done && gifts.key == order {
			n, _ := binary.Uvarint(gifts.row)
			gift += n
			if err := gifts.takeRow(); err != nil {
				return err
			}
		}
		queue := waiting.row[0]
		if err := e.Parse(0, waiting.row[1:]); err != nil {
			return err
		}
		e.VirtualTime += gift
		t.noteCredit(&e)
		if err := t.opic.queueByCredit(t.c, &e, queue); err != nil {
			return err
		}
		if err := waiting.takeRow(); err != nil {
			return err
		}
	}
	if err := t.lapse(gifts, func() bool { return true }); err != nil {
		return err
	}
	if t.rows > 0 && k.Lambda > t.most {
		all := t.c.s.Counts.Discovered
		if t.opic.again {
			all = t.rows
		}
		k.Share = k.Lambda / all
		k.Kept += k.Share * (all - t.rows)
		k.Lambda %= all
	}
	return nil
}

// noteCredit notes a row that is written.
func (t *settlement) noteCredit(e *Entry) {
	t.rows++
	t.most = max(t.most, e.VirtualTime)
}

// lapse passes over gifts for URLs that do not wait.
func (t *settlement) lapse(gifts *peeker, while func() bool) error {
	for !gifts.done && while() {
		n, _ := binary.Uvarint(gifts.row)
		if t.opic.again {
			t.opic.Lambda += n
		} else {
			t.opic.Kept += n
		}
		if err := gifts.takeRow(); err != nil {
			return err
		}
	}
	return nil
}

// queueByCredit puts a row into its queue.
func (p *opicPolicy) queueByCredit(c *change, e *Entry, queue byte) error {
	switch {
	case queue >= toParked:
		return c.park(e, int(queue-toParked))
	case queue == toLater:
		return addRow(c.later, uint64(e.URL.Due), e)
	}
	return addRow(c.queue, p.order(e), e)
}

// marks is a Bloom filter of URL checksums, a word of 64 bits for each, with at most a few
// percent of false answers up to maxMarks; more of them only cost time.
type marks []uint64

const maxMarks = 2<<20 - 1 // 4 MiB

func newMarks(n int) marks {
	return make(marks, 1<<bits.Len(uint(min(n, maxMarks)/4)))
}

func (m marks) bitOf(key uint64) (word int, mask uint64) {
	h := mix(key)
	return int(h >> 32 & uint64(len(m)-1)), 1<<(h&63) | 1<<(h>>6&63) | 1<<(h>>12&63)
}

func (m marks) set(key uint64) {
	word, mask := m.bitOf(key)
	m[word] |= mask
}

func (m marks) has(key uint64) bool {
	word, mask := m.bitOf(key)
	return m[word]&mask == mask
}

// Credit is the credit that a frontier of policy opic has given out, in units: 2^32 for each URL that was added.
type Credit struct {
	Total  uint64 `json:"total"`
	Lambda uint64 `json:"lambda"` // part of Total that the lambda page has
	Kept   uint64 `json:"kept"`   // part of Total given to URLs that were not waiting
}

// Lines has a line a number.
func (k *Credit) Lines() (key string, lines [][2]string) {
	return "credit", [][2]string{{"credit", fmt.Sprintf("%d units", k.Total)}, {"  lambda page", fmt.Sprint(k.Lambda)}, {"  of URLs that did not wait", fmt.Sprint(k.Kept)}}
}

func (p *opicPolicy) stat() PolicyStat { return &Credit{p.here(), p.Lambda, p.Kept} }

// here is the credit of all URLs of this shard and its lambda page.
func (k *credits) here() uint64 { return k.Total + uint64(k.Moved) }

func (p *opicPolicy) creditOf(q queue, e *Entry) uint64 {
	if q == queueFlight {
		return e.VirtualTime
	}
	return e.VirtualTime + p.Share
}

// check adds up what all URLs and the lambda page have.
func (p *opicPolicy) check(_ context.Context, f *Frontier, _ *state) (each func(queue, *Entry), end func() error) {
	sum := p.Lambda + p.Kept
	return func(q queue, e *Entry) { sum += p.creditOf(q, e) }, func() error {
		if sum != p.here() {
			return &fault.Error{Class: fault.No, File: f.st.Dir(), Found: fmt.Sprintf("credit of %d units", sum), Want: fmt.Sprint(p.here())}
		}
		return nil
	}
}
