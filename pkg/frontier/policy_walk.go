package frontier

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
)

// Walk are the parameters of policy walk. The number of walkers bounds what is in memory while they move.
type Walk struct {
	Walkers int     `key:"frontier.walkers" range:"1 4096" placeholder:"100" help:"Walks at a time, 1 to 4096; a batch has a URL of each."`
	Restart float64 `key:"frontier.restart" range:">0 1" placeholder:"0.142857" more:"" help:"Chance that a walk begins again; above 0, at most 1."`
}

func (*Walk) about() about {
	return about{seed: true, endless: true, links: onlyLinks, late: true, virtualTime: true, text: "random walks: after each page one of its links, or at random and at dead ends any URL found so far; pages are visited again and again, and there is no end"}
}

func (w *Walk) complete() error {
	w.Walkers = cmp.Or(w.Walkers, 100)
	w.Restart = cmp.Or(w.Restart, 1.0/7)
	return nil
}

// Reasons to drop rows of a walk, besides an update's reasons.
const (
	dropSeen = "seen"         // add: the start set has the URL
	dropKind = "not-followed" // a link that leads to no page: an image, a style sheet
)

// followed are the kinds of links that lead from page to page (package extract
// lists all kinds). The others are fetched by a browser on its own, or are read by
// programs.
var followed = map[string]bool{
	"a": true, "area": true, "frame": true, "iframe": true, "redirect": true, "refresh": true,
	"listing": true, "menu": true, "longdesc": true,
}

// Follows reports whether a walk follows links of a kind.
func Follows(kind string) bool { return followed[kind] }

// walkState is the state of policy walk besides the queues, in which each walker has
// one URL: its next visit. The start set holds all URLs that were found, once each.
type walkState struct {
	Draws    uint64 `json:"draws"`     // random numbers used so far
	Begin    uint64 `json:"begin"`     // 1 + the number of the URL at which a walk is to begin next; 0: any
	Steps    uint64 `json:"steps"`     // visits to which a link led
	Restarts uint64 `json:"restarts"`  // visits drawn from the start set
	DeadEnds uint64 `json:"dead_ends"` // visits after which there was no link to follow
	Size     uint64 `json:"size"`      // URLs of the start set
	Starts   []run  `json:"starts"`    // the start set by number, from 0
	Known    []run  `json:"known"`     // the flightKey of each URL of the start set, sorted
}

func (w *Walk) policy(p *Params) hooks {
	return &walkPolicy{walkers: uint64(w.Walkers), chance: w.Restart, seed: p.Seed}
}

// walkPolicy is the random walk of Heydon and Najork (Mercator, 1999) and of Henzinger, Heydon, Mitzenmacher
// and Najork (1999, 2000).
//
// Each visit that has its final outcome is followed by another one: with the chance Restart, and where no link
// can be followed, of a URL drawn from the start set, else of one that the page links to. Each URL that the page links to has the same
// chance, however often the page has the link, and with whatever texts. A
// redirect is a page with one link. A visit that is tried again or put off stays where it is.
//
// All URLs found are starts, one as good as the other: Mercator's seed set grows by the pages discovered, and the
// frequency of visits can be compared with a definition, PageRank with its jump. Henzinger et al. draw a host
// first and then one of its URLs: endless hosts then catch fewer walks, but pages of small hosts are jumped to more often.
// Here a filter names the sites to leave out.
//
// A URL is drawn by its number, in one read: uniform over the distinct URLs but for size/2^53. The keys in Known
// tell whether a URL is in the set, for some seven bytes each; a draw among keys would favour those behind wide gaps.
// Among 10^9 URLs two have one key, so that one is missing, with a chance of 3 %.
//
// Random numbers are used in this order, so that the same records make the same walk. Visits that ended stand by
// textKey. Each takes one number for the restart, and one to choose a link by (meet). Last, one for each restart.
type walkPolicy struct {
	fair
	walkers, seed uint64
	chance        float64 // chance of a restart
	walkState

	links *sorter // links that may be followed, by textKey of their page (column Via)
	gone  *sorter // visits that have their final outcomes, by textKey
	fresh *sorter // URLs for the start set, by flightKey
}

func (w *walkPolicy) kept() any { return &w.walkState }

func (w *walkPolicy) files() [][]run { return [][]run{w.Starts, w.Known} }

func (w *walkPolicy) starts() []run { return w.Starts }

// WalkStat is the part of Stat for policy walk.
type WalkStat struct {
	Starts   uint64 `json:"starts"`    // URLs in the start set
	Steps    uint64 `json:"steps"`     // visits to which a link led
	Restarts uint64 `json:"restarts"`  // visits drawn from the start set
	DeadEnds uint64 `json:"dead_ends"` // visits after which there was no link to follow
}

func (w *walkPolicy) stat() PolicyStat {
	return &WalkStat{w.Size, w.Steps, w.Restarts, w.DeadEnds}
}

// Lines has a line a number.
func (w *WalkStat) Lines() (key string, lines [][2]string) {
	return "walk", [][2]string{{"start set", fmt.Sprint(w.Starts)}, {"links followed", fmt.Sprint(w.Steps)}, {"walks begun", fmt.Sprintf("%d, after %d dead ends", w.Restarts, w.DeadEnds)}}
}

// judged: a walker does not wait for what is parked. The start set has the URL.
func (w *walkPolicy) judged(_ *record.Fetch, o *outcome, _ record.Time) {
	if o.verdict == park {
		o.verdict, o.due = finish, 0
	}
}

func (w *walkPolicy) ended(c *change, e *Entry, _ *outcome) (bool, error) {
	return false, addTo(c, &w.gone, fingerprint.SHA256(e.URL.URL), e)
}

// addTo gives a sorter a row, and makes it first if need be.
func addTo(c *change, s **sorter, key uint64, e *Entry) error {
	if *s == nil {
		*s = c.sorter(smallSort)
	}
	return addRow(*s, key, e)
}

// link takes a link that may be followed.
func (w *walkPolicy) link(c *change, l *record.Link) error {
	e := Entry{URL: l.ToURL()}
	if e.URL.Depth = 0; l.Hops == 0 {
		e.URL.Depth = 1 // more than the walk is when it is there, which others may reach by more links or fewer
	}
	switch {
	case !Follows(l.LinkKind):
		c.b.Drop(dropKind)
	case !fits(&e.URL):
		c.b.Drop(dropRange)
	case c.limits.deep(l.URL, l.Host, int(l.Depth)):
		c.b.Drop(dropDepth)
	default:
		c.b.Consume()
		return addTo(c, &w.links, fingerprint.SHA256(l.SrcURL), &e)
	}
	return nil
}

// found offers a URL to the start set. A walk that begins there is no links deep, and
// needs the page's links, whether or not it has changed since somebody had it.
func (w *walkPolicy) found(c *change, u *record.URL) error {
	start := Entry{URL: *u}
	start.URL.Depth, start.URL.Hops, start.URL.Attempt, start.URL.Due = 0, 0, 0, 0
	start.URL.ETag, start.URL.LastModified, start.URL.LastContentFP = "", "", 0
	return addTo(c, &w.fresh, flightKey(u.Host, u.URL), &start)
}

// draw is the next random number, uniform on [0, 1).
func (w *walkPolicy) draw() float64 { return unit(w.bits()) }

// bits is the same as 64 bits.
func (w *walkPolicy) bits() uint64 {
	w.Draws++
	return random(w.seed, w.Draws-1)
}

// standing is a walker after a visit.
type standing struct {
	url     string
	depth   uint16
	restart bool
	salt    uint64
	next    record.URL // target of the link to follow; "": none
}

// meet offers a link of the page. The walker keeps the link with the lowest hash of its URL: each URL
// has the same chance, in whatever order and however often links come.
func (v *standing) meet(c *change, link *record.URL) {
	depth := min(int(v.depth)+int(link.Depth), math.MaxUint16)
	if c.limits.deep(link.URL, link.Host, depth) {
		return
	}
	if v.next.URL == "" || mix(link.Key^v.salt) < mix(v.next.Key^v.salt) {
		v.next = *link
		v.next.Depth = uint16(depth)
	}
}

// outcomesApplied gives each walker a next visit, if its last one has ended.
func (w *walkPolicy) outcomesApplied(ctx context.Context, c *change) error {
	steps, err := w.move(ctx, c)
	if err != nil {
		return err
	}
	w.Steps += steps
	return w.restart(ctx, c, steps)
}

// move lets walkers follow links, and returns how many did.
func (w *walkPolicy) move(ctx context.Context, c *change) (steps uint64, err error) {
	if w.gone == nil {
		return 0, nil
	}
	ended, err := w.gone.sorted()
	if err != nil {
		return 0, err
	}
	links := &peeker{done: true}
	if w.links != nil {
		if links, err = w.links.sorted(); err != nil {
			return 0, err
		}
	}
	var e Entry
	var here []standing
	var t ticker
	for !ended.done {
		order := ended.key
		here = here[:0]
		for ; !ended.done && ended.key == order; err = ended.takeRow() {
			if err == nil {
				err = e.Parse(order, ended.row)
			}
			if err != nil {
				return 0, err
			}
			here = append(here, standing{url: e.URL.URL, depth: e.URL.Depth, restart: w.draw() < w.chance, salt: w.bits()})
		}
		for ; err == nil && !links.done && links.key <= order; err = links.takeRow() {
			if err := t.err(ctx); err != nil {
				return 0, err
			}
			if links.key < order {
				continue // of robots.txt
			}
			if err := e.Parse(order, links.row); err != nil {
				return 0, err
			}
			met := false
			for i := range here {
				if v := &here[i]; v.url == e.URL.Via {
					met = true
					if !v.restart {
						v.meet(c, &e.URL)
					}
				}
			}
			if met {
				if err := w.found(c, &e.URL); err != nil {
					return 0, err
				}
			}
		}
		if err != nil {
			return 0, err
		}
		for i := range here {
			switch v := &here[i]; {
			case v.restart:
			case v.next.URL == "":
				w.DeadEnds++
			default:
				steps++
				if err := c.arrive(&v.next); err != nil {
					return 0, err
				}
			}
		}
	}
	return steps, nil
}

// restart brings the start set up to date, and draws from it a visit for each
// walker that has none; steps have one that the ledger does not count yet. It reads
// the old runs before it merges them: what a merge writes cannot be read before the
// commit.
func (w *walkPolicy) restart(ctx context.Context, c *change, steps uint64) error {
	s, n := &w.walkState, &c.s.Counts
	first := s.Size
	fresh, known, err := w.grow(ctx, c)
	if err != nil || s.Size == 0 {
		return err
	}
	idle := w.walkers - n.Pending - n.InFlight - steps
	if idle > w.walkers {
		return &fault.Error{Class: fault.Corrupt, File: c.st.Dir(), Found: fmt.Sprintf("%d visits waiting and in flight", n.Pending+n.InFlight), Want: fmt.Sprintf("at most %d, one for each walker", w.walkers)}
	}
	starts := make([]uint64, idle)
	for i := range starts {
		starts[i] = uint64(w.draw() * float64(s.Size))
	}
	if idle > 0 && s.Begin > 0 {
		starts[0], s.Begin = s.Begin-1, 0
	}
	slices.Sort(starts)
	s.Restarts += idle
	later, _ := slices.BinarySearch(starts, first)
	if err := w.readStarts(c, starts[:later]); err != nil {
		return err
	}
	if err := mergeRuns(ctx, c.st, c.tx, c.s, s.Size-first, c.s.layout.step,
		list{&s.Starts, "starts/", "starts", c.s.layout.queueFan, every},
		list{&s.Known, "known/", "known", c.s.layout.hostFan, every}); err != nil || first == s.Size {
		return err
	}
	run, err := newRun(c.tx, "starts/", "starts", 0)
	if err != nil {
		return err
	}
	starts = starts[later:]
	err = fresh.each(func(number uint64, payload []byte) error {
		var e Entry
		for ; len(starts) > 0 && starts[0] == number; starts = starts[1:] {
			if err := e.Parse(number, payload); err != nil {
				return err
			}
			if err := begins(c, &e); err != nil {
				return err
			}
		}
		return run.addPayload(number, payload)
	})
	if err != nil {
		return err
	}
	r, err := run.finish()
	s.Starts, s.Known = append(s.Starts, r), append(s.Known, known)
	return err
}

// begins makes a URL of the start set the next visit of a walker.
func begins(c *change, e *Entry) error {
	visit := e.URL
	visit.Via = ""
	return c.arrive(&visit)
}

// readStarts makes URLs of the start set, by their numbers, ascending, the next visits of
// walkers.
func (w *walkPolicy) readStarts(c *change, numbers []uint64) error {
	for _, r := range w.Starts {
		n, _ := slices.BinarySearch(numbers, r.Head+r.Rows)
		if n == 0 {
			continue
		}
		if err := readNumbered(c, r, numbers[:n]); err != nil {
			return err
		}
		numbers = numbers[n:]
	}
	if len(numbers) > 0 {
		return &fault.Error{Class: fault.Corrupt, File: "starts", Found: fmt.Sprintf("no URL of number %d", numbers[0]), Want: fmt.Sprintf("%d URLs, as the frontier counts them", w.Size)}
	}
	return nil
}

func readNumbered(c *change, r run, numbers []uint64) error {
	rd, file, err := openRun(c.st, r.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	scan := rd.Scan(r.From)
	var e Entry
	for i, n := range numbers {
		if i == 0 || n != numbers[i-1] {
			key, payload, err := scan.Seek(n)
			switch {
			case err == nil && key == n:
				err = parseRow(&e, key, payload, r.Path)
			case err == nil || err == io.EOF:
				err = &fault.Error{Class: fault.Corrupt, File: r.Path, Found: fmt.Sprintf("no URL of number %d", n)}
			}
			if err != nil {
				return err
			}
		}
		if err := begins(c, &e); err != nil {
			return err
		}
	}
	return nil
}

// grow adds to the start set what was found and is not in it. It returns the new
// URLs by number, and the run that makes them known.
func (w *walkPolicy) grow(ctx context.Context, c *change) (fresh *sorter, known run, err error) {
	fresh = c.sorter(smallSort)
	if w.fresh == nil {
		return fresh, known, nil
	}
	rows, err := w.fresh.sorted()
	if err != nil || rows.done {
		return fresh, known, err
	}
	table := openTable(c.st, w.Known)
	defer table.close()
	var run *runWriter
	var t ticker
	seen, last := false, uint64(0)
	for first := true; err == nil && !rows.done; first = false {
		if err = t.err(ctx); err != nil {
			break
		}
		if order := rows.key; first || order != last {
			last, seen = order, false
			if err = table.each(order, func(string, []byte) error { seen = true; return nil }); err != nil {
				break
			}
		}
		if seen {
			w.count(c, func() { c.b.Drop(dropSeen) })
		} else {
			w.count(c, c.b.Consume)
			seen = true
			if run == nil {
				run, err = newRun(c.tx, "known/", "known", 0)
			}
			if err == nil {
				err = fresh.addPayload(w.Size, rows.row)
			}
			if err == nil {
				err = run.addPayload(last, nil)
			}
			w.Size++
		}
		if err == nil {
			err = rows.takeRow()
		}
	}
	if err == nil && run != nil {
		known, err = run.finish()
	}
	return fresh, known, err
}

// allRefused lets a walk begin at the first URL of the start set that the filter accepts, since no walk had a URL to visit.
func (w *walkPolicy) allRefused(ctx context.Context, fs files, judge Judge) error {
	m := newMerger(fs, w.Starts)
	defer m.close()
	for number := uint64(0); ; {
		_, rules, err := judged(ctx, judge, judgedTogether, nil, func(e *Entry) error {
			err := m.next(e)
			e.URL.Via = "" // as begins does
			return err
		})
		if err != nil {
			return err
		}
		if len(rules) == 0 {
			return &fault.Error{Class: fault.No, Found: fmt.Sprintf("the filter refuses all %d URLs at which a walk can begin", w.Size), Want: "one that it lets through",
				Hint: "change the filter, or add URLs"}
		}
		if i := slices.Index(rules, ""); i >= 0 {
			w.Begin = number + uint64(i) + 1
			return nil
		}
		number += uint64(len(rules))
	}
}

// count counts a row of an Add; an Update's rows are links, which link has counted.
func (w *walkPolicy) count(c *change, as func()) {
	if c.adds {
		as()
	}
}

// check compares the start set and the walkers with the ledger.
func (w *walkPolicy) check(ctx context.Context, f *Frontier, s *state) (each func(queue, *Entry), end func() error) {
	return func(queue, *Entry) {}, func() error { return w.checkStarts(ctx, f, s) }
}

func (w *walkPolicy) checkStarts(ctx context.Context, f *Frontier, s *state) error {
	mismatch := func(found string, want uint64) error {
		return &fault.Error{Class: fault.No, File: f.st.Dir(), Found: found, Want: fmt.Sprint(want)}
	}
	n := &s.Counts
	if busy := n.Pending + n.InFlight; busy != w.walkers && w.Size > 0 {
		return mismatch(fmt.Sprintf("%d walkers", busy), w.walkers)
	}
	if made := w.Steps + w.Restarts; made != n.Discovered {
		return mismatch(fmt.Sprintf("%d steps and restarts", made), n.Discovered)
	}
	numbered, known := uint64(0), uint64(0)
	if err := eachEntry(ctx, f.st, w.Starts, func(e *Entry) error {
		if e.Key != numbered {
			return mismatch(fmt.Sprintf("a URL of number %d in the start set", e.Key), numbered)
		}
		numbered++
		return nil
	}); err != nil {
		return err
	}
	if err := eachPayload(ctx, f.st, w.Known, func(string, uint64, []byte) error { known++; return nil }); err != nil {
		return err
	}
	if numbered != w.Size || known != w.Size {
		return mismatch(fmt.Sprintf("%d URLs in the start set, %d of them known", numbered, known), w.Size)
	}
	return nil
}
