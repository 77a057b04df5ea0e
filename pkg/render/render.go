// Package render gives pages what their scripts make of them, within a round of a crawl.
//
// A browser (package browser, which mrender alone is built with) loads a page from the crawl's own archive. It has no network. What a page
// asks for and the archive does not have becomes a link, of kind "requested", that the next round fetches as any part of a page: by the
// filter, under robots.txt, politeness and sheets. When such parts have come, the page is rendered again, up to Settings.Attempts times.
// Each time all that it shows so far goes out: links of kind "rendered", text, and WARC records.
//
// So there is one way to contact a server, and what was rendered can be rendered again from the archive.
//
// # Invariants
//
//   - A page gets answers from the archive alone.
//   - The rows of a batch depend on the store's state, the archive and the settings; as far as a browser does the same again, that is what goes out.
//   - Pages come in this order: those that waited, by key, then the pages of the batch. Each is chosen when the Settings.Browsers-th before it
//     has ended: what hosts have shown so far counts, and no more pages are held than browsers run. One slow page holds the others up.
//   - Pages, parts that they wait for, hosts, requests, bytes and time are bounded.
package render

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/extract"
	"mercator/pkg/folder/stage"
	"mercator/pkg/merge"
	"mercator/pkg/web/filter"
	"mercator/pkg/web/linkkind"
	"mercator/pkg/web/process"
)

// Settings say how a batch is rendered.
type Settings struct {
	Pages    string         // Auto, All, or "": those that Rules name alone
	Rules    *filter.Filter // a page that a rule allows is rendered, one that a rule denies is not; nil: none
	Links    extract.Options
	Filter   *filter.Filter // judges links and parts; nil: all are wanted
	Archive  string         // fetch store
	MaxBody  int64
	Attempts int  // renderings of a page
	Browsers int  // at a time
	Page     Page // bounds and behaviours
	Start    func(ctx context.Context) (Browser, error)

	Outcomes func() (stage.Input[record.Fetch], error) // the batch's, when its links have been read; called twice
	Finding  func(*record.Module) error                // takes what pages show
	Done     func()                                    // after each page
}

// Report has the counts of a batch that the ledger does not have.
type Report struct {
	Chosen   map[string]uint64 `json:"chosen,omitempty"`   // pages, by reason
	Rendered uint64            `json:"rendered"`           // renderings of pages
	Gained   uint64            `json:"gained"`             // renderings with links that no other in the batch has, or much more text than the page has without scripts
	Waiting  uint64            `json:"waiting"`            // pages that wait for parts, at the end
	Failed   uint64            `json:"failed"`             // pages that no browser could load
	Crashes  uint64            `json:"crashes"`            // of browsers, also by their bounds
	Cut      map[string]uint64 `json:"cut,omitempty"`      // pages that were taken as they stood, by reason
	Requests uint64            `json:"requests"`           //
	Bytes    int64             `json:"bytes"`              // of answers
	Answers  map[string]uint64 `json:"answers,omitempty"`  // requests, by what became of them
	Peak     int64             `json:"browser_peak_bytes"` // most memory of a browser
	Seconds  float64           `json:"seconds"`            // in browsers
}

// What becomes of a request.
const (
	answered    = "answered"
	notFetched  = "not-fetched" // it was tried, or may not be
	missing     = "missing"     // it becomes a link
	refused     = "refused"     // by the filter
	notGET      = "method"      // it would change something, or is no GET
	unsupported = "unsupported" // no http, or no URL
	otherPage   = "navigation"  // the page would leave
)

// crashesOfPage is how many browsers a page may cost in one attempt.
const crashesOfPage = 2

// Batch passes the links of a batch on, and adds the links that its pages have after their scripts.
func Batch(ctx context.Context, st *store.Store, b *stage.Batch[record.Link, record.Link], set Settings) (r Report, err error) {
	r = Report{Chosen: map[string]uint64{}, Cut: map[string]uint64{}, Answers: map[string]uint64{}}
	many := map[uint64]uint8{} // pages of the batch by their links to pages
	if err := record.Each(b, func(row *record.Link) error {
		if row.LinkKind == linkkind.A && (len(many) < maxCounted || many[row.SrcKey] > 0) && many[row.SrcKey] <= shellLinks {
			many[row.SrcKey]++
		}
		if err := b.Pass(row); err != nil {
			return err
		}
		return context.Cause(ctx)
	}); err != nil {
		return r, err
	}
	tx, err := b.Begin(ctx)
	if err != nil {
		return r, err
	}
	s, err := openState(st, tx)
	if err != nil {
		return r, err
	}
	defer s.close()
	w := &batch{Settings: set, state: s, b: b, report: &r, made: map[uint64]bool{}}
	if err := w.readParts(ctx); err != nil {
		return r, err
	}
	err = w.render(ctx, func(render func(*Waiting) error) error {
		if err := w.readyPages(render); err != nil {
			return err
		}
		return w.newPages(ctx, many, render)
	})
	if err == nil {
		err = s.commit()
	}
	r.Waiting = uint64(len(s.pages))
	return r, err
}

// maxCounted bounds the pages whose links are counted (others are read), and the links that are known to be made.
const maxCounted = 1 << 18

// batch is the work on one.
type batch struct {
	Settings
	state  *state
	b      *stage.Batch[record.Link, record.Link]
	report *Report
	file   *store.NewFile  // of out
	out    *warc.Writer    // nil: there is no record yet
	made   map[uint64]bool // links that scripts have made: a menu on each page is one gain
}

// outcomes calls f with each outcome of the batch that says what became of a page or a part.
func (w *batch) outcomes(ctx context.Context, f func(*record.Fetch) error) error {
	in, err := w.Outcomes()
	if err != nil {
		return err
	}
	return record.Each(in, func(row *record.Fetch) error {
		if !row.OfPage() || row.Outcome == record.OutcomeNotModified || row.Outcome == record.OutcomeDeferred || row.Outcome == record.OutcomeParked {
			return context.Cause(ctx)
		}
		return cmp.Or(f(row), context.Cause(ctx))
	})
}

// part returns what became of a row's URL in this batch.
func (w *batch) part(row *record.Fetch) Part {
	p := partOf(row)
	p.Generation = w.state.tx.Generation()
	return p
}

// readParts takes the outcomes of the batch.
func (w *batch) readParts(ctx context.Context) error {
	sorter := merge.NewSorter(sortMemory, w.state.st.Dir())
	defer sorter.Close()
	parts := uint64(0)
	if err := w.outcomes(ctx, func(row *record.Fetch) error {
		parts++
		payload, err := json.Marshal(w.part(row))
		if err != nil {
			return err
		}
		return sorter.Add(row.Key, payload)
	}); err != nil {
		return err
	}
	return w.state.addParts(sorter, parts)
}

// sortMemory is for the parts of a batch, in bytes; what does not fit is sorted in temporary files.
const sortMemory = 8 << 20

// readyPages gives the pages that waited and are to be rendered now.
func (w *batch) readyPages(render func(*Waiting) error) error {
	for _, key := range slices.Sorted(maps.Keys(w.state.pages)) {
		p := w.state.pages[key]
		if doc, _, err := w.state.find(key); err != nil {
			return err
		} else if doc.Generation == w.state.tx.Generation() && doc.Status > 0 { // newPages has what it is now
			delete(w.state.pages, key)
			continue
		}
		ready, err := w.ready(p)
		if ready {
			err = render(p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// newPages gives the pages of the batch that are to be rendered now. many are those whose links are counted.
func (w *batch) newPages(ctx context.Context, many map[uint64]uint8, render func(*Waiting) error) (err error) {
	sess := w.session()
	defer sess.close()
	var rules *filter.Judge
	if w.Rules != nil {
		rules = w.Rules.NewJudge()
		defer func() { err = errors.Join(err, rules.Close()) }()
	}
	return w.outcomes(ctx, func(row *record.Fetch) error {
		host := w.state.hosts[row.Host]
		full := many[row.Key] > shellLinks && row.BodyLength < shellBytes && (host == nil || host.Shells.Gained < hostGains)
		if !isPage(row) || w.Rules == nil && w.Pages != All && (w.Pages != Auto || full) {
			return nil
		}
		why := ""
		if rules != nil {
			v, err := judged(ctx, rules, filter.Candidate{URL: row.URL, Host: row.Host, Depth: row.Depth})
			if err != nil || v.Rule != nil && !v.Allow {
				return err
			}
			if v.Rule != nil {
				why = WhyRule
			}
		}
		if why == "" && w.Pages == "" {
			return nil
		}
		part := w.part(row)
		part.File, part.MIME, part.Charset = strings.Clone(part.File), strings.Clone(part.MIME), strings.Clone(part.Charset)
		p := &Waiting{URL: strings.Clone(row.URL), Host: strings.Clone(row.Host), Part: &part, Depth: row.Depth, Hops: row.Hops, Score: row.Score, Fetched: row.FetchTime, key: row.Key}
		doc, err := sess.static(ctx, p)
		if doc == nil || err != nil {
			return err
		}
		if p.Why = cmp.Or(why, doc.why(w.Pages, host)); p.Why == "" {
			return nil
		}
		w.report.Chosen[p.Why]++
		for _, key := range doc.scripts {
			if _, found, err := w.state.find(uint64(key)); err != nil {
				return err
			} else if !found {
				p.Missing = append(p.Missing, key)
			}
		}
		if len(p.Missing) == 0 || len(w.state.pages) >= maxWaiting {
			return render(p)
		}
		w.state.pages[p.key] = p
		return nil
	})
}

// ready reports whether a page that waits is to be rendered: for the first time when all of its scripts were tried, and
// again when something has come that it asked for.
func (w *batch) ready(p *Waiting) (bool, error) {
	came := false
	var left []partKey
	for _, key := range p.Missing {
		part, found, err := w.state.find(uint64(key))
		if err != nil {
			return false, err
		}
		if !found || part.Generation != w.state.tx.Generation() {
			left = append(left, key)
		} else if part.Status > 0 || p.Attempts == 0 {
			came = true
		}
	}
	if p.Attempts == 0 {
		p.Missing = left
		return len(left) == 0, nil
	}
	return came, nil
}

// rendered is the result of rendering a page.
type rendered struct {
	page    *Waiting
	result  Result
	links   []record.Link
	refused map[string]uint64
	missing []partKey
	asked   map[string]asked // by URL
	answers map[string]uint64
	static  *static
	took    time.Duration
	crashes uint64
	peak    int64
	failed  error // no browser could load it
	err     error // ends the batch
}

// render renders the pages that choose gives it, as many at a time as browsers run, and writes what they gave in their order.
func (w *batch) render(ctx context.Context, choose func(render func(*Waiting) error) error) error {
	ctx, stop := context.WithCancel(ctx)
	idle := make(chan *session, w.Browsers)
	for range w.Browsers {
		idle <- w.session()
	}
	var running []chan *rendered // in their order
	oldest := func() error {
		r := <-running[0]
		running = running[1:]
		return w.settle(r)
	}
	err := choose(func(p *Waiting) error {
		sess, done := <-idle, make(chan *rendered, 1)
		go func() {
			r := sess.render(ctx, p)
			idle <- sess
			done <- r
		}()
		if running = append(running, done); len(running) < w.Browsers {
			return nil
		}
		return oldest()
	})
	for err == nil && len(running) > 0 {
		err = oldest()
	}
	stop()
	for range w.Browsers {
		(<-idle).close()
	}
	if err == nil && w.out != nil {
		err = cmp.Or(w.out.Flush(), w.file.Close())
	}
	return err
}

// settle writes what a page gave, and lets it wait for more.
func (w *batch) settle(r *rendered) error {
	if r.err != nil {
		return r.err
	}
	p, rep := r.page, w.report
	p.Attempts++
	rep.Crashes += r.crashes
	rep.Peak = max(rep.Peak, r.peak)
	rep.Seconds += r.took.Seconds()
	if w.Done != nil {
		w.Done()
	}
	if r.failed != nil {
		rep.Failed++
		w.tally(p, false)
		delete(w.state.pages, p.key)
		return w.Finding(&record.Module{URL: p.URL, Key: p.key, Module: module, Name: process.KeyError, Value: r.failed.Error()})
	}
	rep.Rendered++
	rep.Requests += uint64(r.result.Requests)
	rep.Bytes += r.result.Bytes
	for name, n := range r.answers {
		rep.Answers[name] += n
	}
	if r.result.Cut != "" {
		rep.Cut[r.result.Cut]++
	}
	for _, reason := range slices.Sorted(maps.Keys(r.refused)) {
		w.b.Refuse(reason, r.refused[reason])
	}
	gained := len(r.result.Text) > 2*r.static.text+shellText/4
	for i := range r.links {
		if key := r.links[i].Key; r.links[i].LinkKind == linkkind.Rendered && !w.made[key] {
			gained = true
			if len(w.made) < maxCounted {
				w.made[key] = true
			}
		}
		if err := w.b.Make(r.links[i].LinkKind, &r.links[i]); err != nil {
			return err
		}
	}
	if gained {
		rep.Gained++
	}
	w.tally(p, gained)
	if p.Missing = r.missing; len(p.Missing) > 0 && p.Attempts < w.Attempts && (w.state.pages[p.key] != nil || len(w.state.pages) < maxWaiting) {
		w.state.pages[p.key] = p
	} else {
		delete(w.state.pages, p.key)
	}
	return w.write(r)
}

// tally counts what a page that no rule names gave, or that it failed, for other pages of its host.
func (w *batch) tally(p *Waiting, gained bool) {
	h := w.state.host(p.Host)
	if h == nil || p.Why != WhyShell && p.Why != WhyHost {
		return
	}
	t := &h.Shells
	if p.Why == WhyHost {
		t = &h.Rest
	}
	if p.Attempts == 1 {
		t.Rendered++
	}
	if gained && !p.Gained {
		t.Gained++
		p.Gained = true
	}
}

// session is the state of one worker.
type session struct {
	*batch
	docs    *extract.Documents
	judge   *filter.Judge // nil: all is wanted
	browser Browser       // nil: none runs
}

func (w *batch) session() *session {
	s := &session{batch: w, docs: extract.NewDocuments(w.Archive, w.MaxBody)}
	if w.Filter != nil {
		s.judge = w.Filter.NewJudge()
	}
	return s
}

func (s *session) close() {
	s.docs.Close()
	if s.judge != nil {
		_ = s.judge.Close()
	}
	if s.browser != nil {
		s.browser.Close()
	}
}

// links returns the links of a row's document, or of body in its place.
func (s *session) links(ctx context.Context, row record.Fetch, body []byte) (*rows, error) {
	row.Body = body
	in := &rows{row: row, refused: map[string]uint64{}}
	_, err := extract.Batch(ctx, in, extract.Settings{Links: s.Links, Filter: s.Filter, Duplicates: true, Archive: s.Archive, MaxBody: s.MaxBody, Threads: 1})
	return in, err
}

// rows is one row for extract.Batch, and its links.
type rows struct {
	row     record.Fetch
	read    bool
	links   []record.Link
	refused map[string]uint64
	dropped bool
}

func (r *rows) Read(row *record.Fetch) error {
	if r.read {
		return io.EOF
	}
	*row, r.read = r.row, true
	return nil
}

func (r *rows) Make(_ string, row *record.Link) error {
	l := *row
	l.URL, l.Host, l.Text = strings.Clone(l.URL), strings.Clone(l.Host), strings.Clone(l.Text)
	r.links = append(r.links, l)
	return nil
}

func (r *rows) Drop(string)                    { r.dropped = true }
func (r *rows) Consume()                       {}
func (r *rows) Refuse(reason string, n uint64) { r.refused[reason] += n }

// render renders a page.
func (s *session) render(ctx context.Context, p *Waiting) *rendered {
	r := &rendered{page: p, asked: map[string]asked{}, answers: map[string]uint64{}, refused: map[string]uint64{}}
	began := time.Now()
	defer func() { r.took = time.Since(began) }()
	if r.static, r.err = s.static(ctx, p); r.err != nil {
		return r
	}
	if r.static == nil {
		r.failed = errors.New("no document")
		return r
	}
	for {
		a := &answerer{session: s, ctx: ctx, r: r, row: p.row(), links: map[uint64]bool{}}
		page := s.Page
		page.URL, page.Time, page.Answer = p.URL, p.Fetched.Go(), a.answer
		if s.browser == nil {
			if s.browser, r.err = s.Start(ctx); r.err != nil {
				return r
			}
		}
		r.links, r.missing = nil, nil
		clear(r.asked)
		clear(r.answers)
		clear(r.refused)
		r.result, r.failed = s.browser.Load(ctx, page)
		r.peak = max(r.peak, s.browser.Peak())
		if ctx.Err() != nil {
			r.err = context.Cause(ctx)
		}
		if r.err == nil {
			r.err = a.err
		}
		if r.err != nil {
			return r
		}
		if r.failed == nil {
			break
		}
		s.browser.Close()
		s.browser = nil
		if r.crashes++; r.crashes == crashesOfPage {
			return r
		}
	}
	found, err := s.links(ctx, p.row(), append([]byte("\uFEFF"), r.result.HTML...))
	if err != nil {
		r.err = err
		return r
	}
	requested, on := r.links, map[uint64]bool{}
	r.links = nil
	for _, l := range found.links {
		if !r.static.keys[l.Key] && l.Key != p.key {
			l.LinkKind = linkkind.Rendered
			r.links = append(r.links, l)
			on[l.Key] = true
		}
	}
	for _, l := range requested { // in any order; and whether the page would leave by a link that it shows is chance
		if l.LinkKind == otherPage {
			if on[l.Key] {
				continue
			}
			l.LinkKind = linkkind.Rendered
		}
		r.links = append(r.links, l)
	}
	slices.SortStableFunc(r.links, func(a, b record.Link) int {
		return cmp.Or(strings.Compare(a.URL, b.URL), strings.Compare(a.LinkKind, b.LinkKind))
	})
	slices.Sort(r.missing)
	for reason, n := range found.refused {
		r.refused[reason] += n
	}
	return r
}
