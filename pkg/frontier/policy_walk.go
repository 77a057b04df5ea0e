package frontier

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"mercator/formats/record"
	"mercator/formats/segment"
	"mercator/pkg/fault"
	"mercator/pkg/fingerprint"
	"mercator/pkg/stage"
)

// Walk are the parameters of policy walk.
type Walk struct {
	Walkers int     `toml:"walkers" placeholder:"100" help:"Walks that go on at a time, 1 to 4096. A batch has one URL of each."`
	Restart float64 `toml:"restart" placeholder:"0.142857" help:"Chance that a walk begins anew instead of following a link, above 0 and at most 1."`
}

const walk = "walk"

func (*Walk) about() about {
	return about{seed: true, text: "random walks: after each page one of its links, or at random and at dead ends any URL found so far; pages are visited again and again, and there is no end"}
}

func (w *Walk) complete() error {
	w.Walkers = cmp.Or(w.Walkers, 100)
	w.Restart = cmp.Or(w.Restart, 1.0/7)
	if !(w.Restart > 0 && w.Restart <= 1) {
		return outside(fmt.Sprintf("restarts with chance %v", w.Restart), "more than 0, at most 1")
	}
	return within("%v walkers", w.Walkers, 1, maxWalkers)
}

// maxWalkers bounds what is in memory while walkers move.
const maxWalkers = 1 << 12

// Reasons under which rows of a walk are dropped, besides those of updates.
const (
	dropSeen = "seen"         // add: the start set has the URL
	dropKind = "not-followed" // a link that leads to no page: an image, a style sheet
)

// followed are the kinds of links that lead from page to page (package extract
// lists all kinds). The others are fetched by a browser on its own, or are read by
// programs.
var followed = map[string]bool{
	"a": true, "area": true, "frame": true, "iframe": true, "redirect": true, "refresh": true,
	"listing": true, "menu": true,
}

// walkState is what policy walk keeps besides the queues, in which each walker has
// one URL: its next visit. The start set holds all URLs that were found, once each.
type walkState struct {
	Draws    uint64 `json:"draws"`     // random numbers used so far
	Steps    uint64 `json:"steps"`     // visits to which a link led
	Restarts uint64 `json:"restarts"`  // visits drawn from the start set
	DeadEnds uint64 `json:"dead_ends"` // visits after which there was no link to follow
	Size     uint64 `json:"size"`      // URLs of the start set
	Starts   []run  `json:"starts"`    // the start set by number, from 0
	Known    []run  `json:"known"`     // of each URL in it the flightKey, by that
}

// WalkStat is what Stat tells of policy walk.
type WalkStat struct {
	Starts   uint64 `json:"starts"`    // URLs in the start set
	Steps    uint64 `json:"steps"`     // visits to which a link led
	Restarts uint64 `json:"restarts"`  // visits drawn from the start set
	DeadEnds uint64 `json:"dead_ends"` // visits after which there was no link to follow
}

// Walks reports whether the frontier's policy is walk: it is updated by Walk then,
// not by Update.
func (f *Frontier) Walks() (bool, error) {
	s, _, err := f.current()
	return err == nil && s.Walk != nil, err
}

// Walk is the body of stage "mfrontier update" of policy walk. Its input are the
// links that were found in the batch in flight, not new URLs; o.Links must be nil.
//
// Each visit that has its final outcome is followed by another one: with the
// chance Walk.Restart, and where no link can be followed, of a URL drawn from the
// start set, else of one link of the page. Each link row has the same chance, and
// mextract gives one for each URL, kind and nofollow, however often the page has the
// link. A redirect is a page with one link. A visit that is tried again or put off
// stays where it is.
//
// This is the random walk of Heydon and Najork (Mercator, 1999) and of Henzinger,
// Heydon, Mitzenmacher and Najork (1999, 2000).
func (f *Frontier) Walk(ctx context.Context, b *stage.Batch[record.Link, record.URL], o UpdateOptions) error {
	if _, err := f.checkUpdate(o); err != nil {
		return err
	}
	w := newWalk(f, b)
	defer w.close()
	w.limits = o.Limits
	if err := w.readLinks(ctx, b); err != nil {
		return err
	}
	return w.update(ctx, f, o)
}

// checkWalk refuses what means nothing to a walk.
func (o *UpdateOptions) checkWalk() error {
	if o.Links != nil {
		return &fault.Error{Class: fault.Usage, Found: "links as a second input for policy " + walk, Want: "them as the input"}
	}
	if err := ofWalk(o.Limits); err != nil {
		return err
	}
	if o.Prioritizer.Command != "" {
		return &fault.Error{Class: fault.Usage, Found: "a prioritizer for policy " + walk, Want: "policy " + priority}
	}
	if o.Budgets != (Budgets{}) {
		return &fault.Error{Class: fault.Usage, Found: "budgets of domains for policy " + walk, Want: "policy " + priority}
	}
	return nil
}

// walking is a change of a frontier of policy walk.
type walking struct {
	*change
	books books   // in which the URLs for the start set are rows of the input
	links *sorter // that may be followed, by textKey of their pages, which are in Via
	ended *sorter // visits that have their final outcomes, by textKey
	found *sorter // URLs for the start set, by flightKey
}

// visits stands in for the books of the input where a change counts URLs that are
// not of it.
type visits struct{ books }

func (visits) Consume()    {}
func (visits) Drop(string) {}

func newWalk(f *Frontier, b books) *walking {
	w := &walking{change: newChange(f, visits{b}), books: visits{b}}
	w.links, w.ended, w.found = w.sorter(smallSort), w.sorter(smallSort), w.sorter(smallSort)
	w.walking = w
	return w
}

// readLinks reads the links to their verified end, without the lock.
func (w *walking) readLinks(ctx context.Context, b *stage.Batch[record.Link, record.URL]) error {
	var t ticker
	var l record.Link
	var e Entry
	for {
		err := b.Read(&l)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = t.err(ctx)
		}
		if err != nil {
			return err
		}
		w.added++
		e.URL = record.URL{URL: l.URL, Key: l.Key, Host: l.Host, Score: l.Score, Via: l.SrcURL, Discovered: l.Discovered}
		if l.LinkKind != "redirect" {
			e.URL.Depth = 1 // more than the walk is when it is there, which others may reach by more links or fewer
		}
		switch {
		case !followed[l.LinkKind]:
			b.Drop(dropKind)
		case !segment.Fits(&e.URL):
			b.Drop(dropRange)
		case w.limits.Depth > 0 && int(l.Depth) > w.limits.Depth:
			b.Drop(dropDepth)
		default:
			b.Consume()
			if err := addRow(w.links, textKey(l.SrcURL), &e); err != nil {
				return err
			}
		}
	}
}

// textKey brings visits and the links of their pages together.
func textKey(url string) uint64 {
	h := sha256.Sum256([]byte(url))
	return binary.BigEndian.Uint64(h[:])
}

// addStarts is Add for policy walk: the rows become part of the start set, and
// walkers that have no visit before them begin.
func (f *Frontier) addStarts(ctx context.Context, b *stage.Batch[record.URL, record.URL], o AddOptions) error {
	w := newWalk(f, b)
	defer w.close()
	w.limits, w.books = o.Limits, b
	if err := w.spool(ctx, b, o.Prioritizer, w.find); err != nil {
		return err
	}
	if err := w.beginAdd(ctx, o); err != nil {
		return err
	}
	if err := w.restart(ctx, 0); err != nil {
		return err
	}
	return w.finish(ctx)
}

// ofWalk refuses limits that mean nothing to a walk.
func ofWalk(l Limits) error {
	if l.HostURLs > 0 {
		return &fault.Error{Class: fault.Usage, Found: "a limit of URLs per host for policy " + walk, Want: "none: walks visit a URL any number of times"}
	}
	return nil
}

// find offers a URL to the start set. A walk that begins there is no links deep, and
// needs the page's links, whether or not it has changed since somebody had it.
func (w *walking) find(u *record.URL) error {
	start := Entry{URL: *u}
	start.URL.Depth, start.URL.Attempt, start.URL.Due = 0, 0, 0
	start.URL.ETag, start.URL.LastModified, start.URL.LastContentFP = "", "", 0
	return addRow(w.found, flightKey(u.Host, u.URL), &start)
}

// draw is the next random number, uniform on [0, 1).
func (w *walking) draw() float64 {
	w.s.Walk.Draws++
	return random(w.s.policy.seed, w.s.Walk.Draws-1)
}

// standing is a walker after a visit.
type standing struct {
	url     string
	depth   uint16
	restart bool
	links   float64    // of the page, so far
	next    record.URL // one of them
}

// meet offers a link of the page. Of n links the last is kept with chance 1/n, so
// that each is with the same (reservoir sampling).
func (v *standing) meet(w *walking, link *record.URL) {
	depth := min(int(v.depth)+int(link.Depth), math.MaxUint16)
	if w.limits.Depth > 0 && depth > w.limits.Depth {
		return
	}
	v.links++
	if w.draw()*v.links < 1 {
		v.next = *link
		v.next.Depth = uint16(depth)
	}
}

// move gives all walkers whose visits have ended another one.
func (w *walking) move(ctx context.Context) error {
	ended, err := w.ended.sorted()
	if err != nil {
		return err
	}
	links, err := w.links.sorted()
	if err != nil {
		return err
	}
	var e Entry
	var here []standing
	steps := uint64(0)
	var t ticker
	for !ended.done {
		order := ended.key
		here = here[:0]
		for ; !ended.done && ended.key == order; err = ended.take() {
			if err == nil {
				err = decodeRow(&w.ended.coders, ended.row, order, &e)
			}
			if err != nil {
				return err
			}
			here = append(here, standing{url: e.URL.URL, depth: e.URL.Depth, restart: w.draw() < w.s.policy.restart})
		}
		for ; err == nil && !links.done && links.key <= order; err = links.take() {
			if err := t.err(ctx); err != nil {
				return err
			}
			if links.key < order {
				continue // of robots.txt
			}
			if err := decodeRow(&w.links.coders, links.row, order, &e); err != nil {
				return err
			}
			met := false
			for i := range here {
				if v := &here[i]; v.url == e.URL.Via {
					met = true
					if !v.restart {
						v.meet(w, &e.URL)
					}
				}
			}
			if met {
				if err := w.find(&e.URL); err != nil {
					return err
				}
			}
		}
		if err != nil {
			return err
		}
		for i := range here {
			switch v := &here[i]; {
			case v.restart:
			case v.links == 0:
				w.s.Walk.DeadEnds++
			default:
				steps++
				if err := w.arrive(&v.next); err != nil {
					return err
				}
			}
		}
	}
	w.s.Walk.Steps += steps
	return w.restart(ctx, steps)
}

// restart brings the start set up to date, and draws from it a visit for each
// walker that has none; steps have one that the books do not count yet. It reads
// the old runs before it merges them: what a merge writes cannot be read before the
// commit.
func (w *walking) restart(ctx context.Context, steps uint64) error {
	s, n := w.s.Walk, &w.s.Counts
	first := s.Size
	fresh, known, err := w.grow(ctx)
	if err != nil || s.Size == 0 {
		return err
	}
	idle := w.s.policy.walkers - n.Pending - n.InFlight - steps
	if idle > w.s.policy.walkers {
		return &fault.Error{Class: fault.Corrupt, File: w.st.Dir(), Found: fmt.Sprintf("%d visits waiting and in flight", n.Pending+n.InFlight), Want: fmt.Sprintf("at most %d, one for each walker", w.s.policy.walkers)}
	}
	starts := make([]uint64, idle)
	for i := range starts {
		starts[i] = uint64(w.draw() * float64(s.Size))
	}
	slices.Sort(starts)
	s.Restarts += idle
	later, _ := slices.BinarySearch(starts, first)
	if err := w.look(starts[:later]); err != nil {
		return err
	}
	if err := mergeRuns(ctx, w.st, w.tx, w.s, s.Size-first, w.s.layout.step,
		list[Entry]{&s.Starts, "starts/", "starts", w.s.layout.queueFan, every},
		list[Entry]{&s.Known, "known/", "known", w.s.layout.hostFan, every}); err != nil || first == s.Size {
		return err
	}
	run, err := newRun[Entry](w.tx, "starts/", "starts", 0)
	if err != nil {
		return err
	}
	starts = starts[later:]
	err = eachRow(fresh, func(e *Entry) error {
		for ; len(starts) > 0 && starts[0] == e.Key; starts = starts[1:] {
			if err := w.begins(e); err != nil {
				return err
			}
		}
		return run.add(e)
	})
	if err != nil {
		return err
	}
	r, err := run.finish()
	s.Starts, s.Known = append(s.Starts, r), append(s.Known, known)
	return err
}

// begins makes a URL of the start set the next visit of a walker.
func (w *walking) begins(e *Entry) error {
	visit := e.URL
	visit.Via = ""
	return w.arrive(&visit)
}

// look makes URLs of the start set, by their numbers, ascending, the next visits of
// walkers.
func (w *walking) look(numbers []uint64) error {
	for _, r := range w.s.Walk.Starts {
		n, _ := slices.BinarySearch(numbers, r.Head+r.Rows)
		if n == 0 {
			continue
		}
		if err := w.lookIn(r, numbers[:n]); err != nil {
			return err
		}
		numbers = numbers[n:]
	}
	if len(numbers) > 0 {
		return &fault.Error{Class: fault.Corrupt, File: "starts", Found: fmt.Sprintf("no URL of number %d", numbers[0]), Want: fmt.Sprintf("%d URLs, by the frontier's books", w.s.Walk.Size)}
	}
	return nil
}

func (w *walking) lookIn(r run, numbers []uint64) error {
	rd, file, err := openRun[Entry](w.st, r.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	scan := rd.Scan(r.From)
	var e Entry
	for i, n := range numbers {
		if i == 0 || n != numbers[i-1] {
			if err := scan.Seek(n, &e); err != nil && err != io.EOF {
				return err
			} else if err == io.EOF || e.Key != n {
				return &fault.Error{Class: fault.Corrupt, File: r.Path, Found: fmt.Sprintf("no URL of number %d", n)}
			}
		}
		if err := w.begins(&e); err != nil {
			return err
		}
	}
	return nil
}

// grow adds to the start set what was found and is not in it. It returns the new
// URLs by number, and the run that makes them known.
func (w *walking) grow(ctx context.Context) (fresh *sorter, known run, err error) {
	fresh = w.sorter(smallSort)
	rows, err := w.found.sorted()
	if err != nil || rows.done {
		return fresh, known, err
	}
	table := openTable[Entry](w.st, w.s.Walk.Known)
	defer table.close()
	var run *runWriter[Entry]
	var t ticker
	var e Entry
	var same []Entry // of the same order, in the table
	seen, last := false, uint64(0)
	for first := true; err == nil && !rows.done; first = false {
		if err = t.err(ctx); err != nil {
			break
		}
		if order := rows.key; first || order != last {
			last = order
			if same, err = table.find(order, same[:0]); err != nil {
				break
			}
			seen = len(same) > 0
		}
		if seen {
			w.books.Drop(dropSeen)
		} else {
			w.books.Consume()
			seen = true
			if run == nil {
				run, err = newRun[Entry](w.tx, "known/", "known", 0)
			}
			if err == nil {
				err = decodeRow(&w.found.coders, rows.row, last, &e)
			}
			if err == nil {
				err = addRow(fresh, w.s.Walk.Size, &e)
			}
			if err == nil {
				err = run.add(&Entry{Key: last, URL: nameless})
			}
			w.s.Walk.Size++
		}
		if err == nil {
			err = rows.take()
		}
	}
	if err == nil && run != nil {
		known, err = run.finish()
	}
	return fresh, known, err
}

// nameless is the URL of rows whose order is all that they say.
var nameless = record.URL{Key: fingerprint.URLKey("", "")}

// checkWalk compares the start set and the walkers with the books.
func (f *Frontier) checkWalk(ctx context.Context, s *state) error {
	wrong := func(found string, want uint64) error {
		return &fault.Error{Class: fault.No, File: f.st.Dir(), Found: found, Want: fmt.Sprint(want)}
	}
	n := &s.Counts
	if busy := n.Pending + n.InFlight; busy != s.policy.walkers && s.Walk.Size > 0 {
		return wrong(fmt.Sprintf("%d walkers", busy), s.policy.walkers)
	}
	if made := s.Walk.Steps + s.Walk.Restarts; made != n.Discovered {
		return wrong(fmt.Sprintf("%d steps and restarts", made), n.Discovered)
	}
	numbered, known := uint64(0), uint64(0)
	if err := eachEntry(ctx, f.st, s.Walk.Starts, func(e *Entry) error {
		if e.Key != numbered {
			return wrong(fmt.Sprintf("a URL of number %d in the start set", e.Key), numbered)
		}
		numbered++
		return nil
	}); err != nil {
		return err
	}
	if err := eachEntry(ctx, f.st, s.Walk.Known, func(*Entry) error { known++; return nil }); err != nil {
		return err
	}
	if numbered != s.Walk.Size || known != s.Walk.Size {
		return wrong(fmt.Sprintf("%d URLs in the start set, %d of them known", numbered, known), s.Walk.Size)
	}
	return nil
}
