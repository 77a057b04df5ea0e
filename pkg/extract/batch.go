package extract

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"

	"mercator/formats/record"
	"mercator/pkg/canon"
	"mercator/pkg/fault"
	"mercator/pkg/filter"
	"mercator/pkg/fingerprint"
	"mercator/pkg/httpmsg"
	"mercator/pkg/process"
)

// DefaultMaxBody bounds a document's decoded body, in bytes: as mfetch --max-body does. With
// it documents made to cost memory take mextract to some 60 of its 64 MiB; with 16 MiB it is 70.
const DefaultMaxBody = 10 << 20

// Settings say how a batch is extracted. The zero value takes bodies from the
// rows, filters nothing and runs no modules.
type Settings struct {
	Links      Options
	Filter     *filter.Filter     // nil: every URL is wanted
	Modules    []process.Selected // processing modules
	Duplicates bool               // extract documents that are marked duplicate, too; style sheets are in any case
	Archive    string             // fetch store with the WARC files; "": rows carry their bodies
	MaxBody    int64              // bytes of a decoded body; 0: DefaultMaxBody
	Threads    int                // workers; 0: 1

	// Header returns the reply's header of the row that was read last, where the
	// input has it (WARC). Nil: it is read from Archive.
	Header func() http.Header
	// Recycle takes back the body of a row when all is done with it; may be nil.
	Recycle func(body []byte)
	// Finding takes what modules report, in the order of the rows; nil without
	// modules.
	Finding func(*record.Module) error
	// Done is called after each row; may be nil.
	Done func()
}

// Books is a stage.Batch from fetch to link rows.
type Books interface {
	Read(*record.Fetch) error
	Make(reason string, row *record.Link) error
	Drop(reason string)
	Consume()
	Refuse(reason string, n uint64)
}

// Report is what happened beside the books.
type Report struct {
	Bytes          uint64            `json:"body_bytes"`                // of bodies searched
	Cut            map[string]uint64 `json:"bodies_cut,omitempty"`      // not searched to the end, by reason
	ModuleFailures map[string]uint64 `json:"module_failures,omitempty"` // by module
}

// Reasons for which a document is not searched to its end, beside those of the column
// truncated. In the ledger they stand among what was refused, behind "cut-".
const (
	CutMaxBody = "max-body" // it is longer than Settings.MaxBody
	CutTag     = "tag"      // the search ended at a token that is too long
)

// bodiesInFlight bounds the bodies, in bytes, of rows on their way: many pages of a
// usual size, and one at a time of the longest. Finding its links takes about three
// times as much memory as a body.
const bodiesInFlight = 8 << 20

// budget shares bodiesInFlight. Rows take their part in the order of the input, so
// that the row which the output waits for has always got its part.
type budget struct {
	mu   sync.Mutex
	free int64
	more chan struct{} // has an item when free has grown
}

// take waits until n bytes are free, or more than which there are.
func (b *budget) take(ctx context.Context, n int64) error { return b.await(ctx, n, n) }

// await waits until n bytes are free, or more than which there are, and takes some.
func (b *budget) await(ctx context.Context, n, take int64) error {
	for {
		b.mu.Lock()
		if b.free >= min(n, bodiesInFlight) {
			b.free -= take
			b.mu.Unlock()
			return nil
		}
		b.mu.Unlock()
		select {
		case <-b.more:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	b.free += n
	b.mu.Unlock()
	select {
	case b.more <- struct{}{}:
	default:
	}
}

// chunkRows bounds the links that wait for their turn in one piece.
const chunkRows = 256

// chunks has the memory of chunks that were written.
var chunks = sync.Pool{New: func() any { return new([]record.Link) }}

// job is one row on its way through a worker. Its output comes in chunks, so that
// a page with very many links does not wait in memory as a whole.
type job struct {
	row    record.Fetch
	header http.Header
	cost   int64      // its part of the budget
	chunks chan chunk // the last one has the ending
}

type chunk struct {
	links    []record.Link
	findings []record.Module
	end      *ending // with the last chunk
}

// ending is what becomes of the row itself.
type ending struct {
	drop    string // reason; "": consumed
	refused map[string]uint64
	failed  []string // modules
	bytes   int
	cut     string // why the document was not searched to its end; ""
	err     error
}

// Batch extracts links, and findings of modules, from all rows of a batch. Rows
// come out in the order of the input whatever the number of threads. It ends with
// the first error; an archive that is damaged is one, a page that is not.
//
//	robots rows      consumed; links to the sitemaps they name, at depth 1
//	redirects        consumed; one link to the target, at the row's own depth
//	not fetched      dropped, by outcome
//	other status     dropped, "status-4xx"
//	duplicates       dropped, "duplicate", unless Settings.Duplicates; style sheets are
//	                 searched all the same, but not by modules
//	without a body   dropped, "no-body", unless their header has links
//	denied by a rule for documents   dropped, "filter:NAME" of the rule
//	pages            consumed; their links, at the row's depth + 1
func Batch(ctx context.Context, b Books, s Settings) (Report, error) {
	if s.MaxBody <= 0 {
		s.MaxBody = DefaultMaxBody
	}
	s.Threads = max(s.Threads, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	window := 2 * s.Threads
	bodies := &budget{free: bodiesInFlight, more: make(chan struct{}, 1)}
	todo := make(chan *job, window)
	order := make(chan *job, window)
	var workers sync.WaitGroup
	closed := make(chan error, s.Threads)
	for range s.Threads {
		workers.Go(func() {
			w := newWorker(s)
			defer func() { closed <- w.close() }()
			for {
				select {
				case j, ok := <-todo:
					if !ok {
						return
					}
					w.run(ctx, j, bodies)
				case <-ctx.Done():
					return
				}
			}
		})
	}

	var readErr error // set before order is closed
	go func() {
		defer close(order)
		defer close(todo)
		for {
			j := &job{chunks: make(chan chunk, 1)}
			if s.Header != nil { // the row brings its body, however long
				if readErr = bodies.await(ctx, bodiesInFlight*3/4, 0); readErr != nil {
					return
				}
			}
			if err := b.Read(&j.row); err != nil {
				if err != io.EOF {
					readErr = err
				}
				return
			}
			if s.Header != nil {
				j.header = s.Header()
			}
			j.cost = max(int64(len(j.row.Body)), min(j.row.BodyLength, s.MaxBody), 0)
			if readErr = bodies.take(ctx, j.cost); readErr != nil {
				return
			}
			for _, c := range []chan *job{order, todo} {
				select {
				case c <- j:
				case <-ctx.Done():
					readErr = context.Cause(ctx)
					return
				}
			}
		}
	}()

	report := Report{Cut: make(map[string]uint64), ModuleFailures: make(map[string]uint64)}
	for j := range order {
		if err := settle(ctx, b, s, j, &report); err != nil {
			// Workers end at once. The reader may be waiting for a pipe, and ends
			// when that does.
			cancel()
			workers.Wait()
			return report, err
		}
	}
	workers.Wait()
	for range s.Threads {
		if err := <-closed; readErr == nil {
			readErr = err
		}
	}
	return report, readErr
}

// settle writes the output of one row and enters it in the books.
func settle(ctx context.Context, b Books, s Settings, j *job, report *Report) error {
	for {
		var c chunk
		select {
		case c = <-j.chunks:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for i := range c.links {
			if err := b.Make(c.links[i].LinkKind, &c.links[i]); err != nil {
				return err
			}
		}
		if cap(c.links) > 0 {
			clear(c.links)
			chunks.Put(&c.links)
		}
		for i := range c.findings {
			if err := s.Finding(&c.findings[i]); err != nil {
				return err
			}
		}
		e := c.end
		if e == nil {
			continue
		}
		if e.err != nil {
			return e.err
		}
		for _, reason := range slices.Sorted(maps.Keys(e.refused)) { // the books may not hold all
			b.Refuse(reason, e.refused[reason])
		}
		for _, m := range e.failed {
			report.ModuleFailures[m]++
		}
		report.Bytes += uint64(e.bytes)
		if e.cut != "" {
			report.Cut[e.cut]++
			b.Refuse("cut-"+e.cut, 1)
		}
		if e.drop != "" {
			b.Drop(e.drop)
		} else {
			b.Consume()
		}
		if s.Done != nil {
			s.Done()
		}
		return nil
	}
}

// worker extracts one row at a time.
type worker struct {
	Settings
	archive archive
	runner  *process.Runner
	finder  finder
	parts   []linkParts // of the links that wait
	text    []byte      // which those are of
	seen    keySet      // URL checksums of a row's links, with kind and nofollow mixed in

	judge      *filter.Judge // nil without a filter
	candidates []filter.Candidate
	verdicts   []filter.Verdict
}

func newWorker(s Settings) *worker {
	w := &worker{Settings: s, archive: archive{dir: s.Archive}, runner: process.NewRunner(s.Modules)}
	w.seen.reset()
	if s.Filter != nil {
		w.judge = s.Filter.NewJudge()
	}
	return w
}

// close ends what the worker has running. An error says that verdicts are not to be trusted.
func (w *worker) close() error {
	w.archive.close()
	if w.judge == nil {
		return nil
	}
	return w.judge.Close()
}

// output collects the links of one row and hands them on in chunks.
type output struct {
	*worker
	ctx    context.Context
	job    *job
	wait   chunk
	ending ending
}

// linkParts say where the strings of a link are that waits.
type linkParts struct{ url, host, text span }

func (w *worker) run(ctx context.Context, j *job, bodies *budget) {
	o := &output{worker: w, ctx: ctx, job: j}
	o.ending.drop, o.ending.err = o.extract()
	o.wait.end = &o.ending
	if w.Recycle != nil {
		w.Recycle(j.row.Body)
	}
	j.row.Body = nil // the job stays in line until its turn
	w.seen.reset()
	w.finder.found.reset()
	if j.cost > bodiesInFlight/2 { // before another document may take its place
		debug.FreeOSMemory()
	}
	bodies.give(j.cost)
	o.flush()
}

// flush judges what waits, and hands on what is wanted. If the batch was given up it goes
// nowhere.
func (o *output) flush() {
	text := string(o.text)
	for i, p := range o.parts {
		l := &o.wait.links[i]
		l.URL, l.Host, l.Text = text[p.url.start:p.url.end], text[p.host.start:p.host.end], text[p.text.start:p.text.end]
	}
	o.text, o.parts = o.text[:0], o.parts[:0]
	if err := o.filter(); err != nil && o.ending.err == nil {
		o.ending.err = err
	}
	select {
	case o.job.chunks <- o.wait:
	case <-o.ctx.Done():
	}
	o.wait = chunk{}
}

// filter drops the links that wait and are not wanted. They are judged many at a time, since a
// rule may have to ask a program.
func (o *output) filter() error {
	links := o.wait.links
	if o.judge == nil || len(links) == 0 {
		return nil
	}
	o.candidates = o.candidates[:0]
	for i := range links {
		l := &links[i]
		o.candidates = append(o.candidates, filter.Candidate{URL: l.URL, Host: l.Host, Depth: l.Depth, Kind: l.LinkKind})
	}
	o.verdicts = slices.Grow(o.verdicts[:0], len(links))[:len(links)]
	o.wait.links = links[:0]
	if err := o.judge.URLs(o.ctx, o.candidates, o.verdicts); err != nil {
		return err
	}
	for i, v := range o.verdicts {
		if v.Allow {
			o.wait.links = append(o.wait.links, links[i])
		} else {
			o.refuse(v.Reason(), 1)
		}
	}
	clear(links[len(o.wait.links):]) // their memory is used again, and would hold on to texts
	return nil
}

func (o *output) refuse(reason string, n uint64) {
	if o.ending.refused == nil {
		o.ending.refused = make(map[string]uint64)
	}
	o.ending.refused[reason] += n
}

// extract does all for a row and returns the reason for which it is dropped, or "".
func (o *output) extract() (drop string, err error) {
	row := &o.job.row
	isRobots := row.Role == record.RoleRobots
	switch {
	case row.Outcome != record.OutcomeFetched && isRobots:
		return "", nil
	case row.Outcome != record.OutcomeFetched:
		return row.Outcome, nil
	case row.RedirectURL != "" && isRobots:
		return "", nil // the fetcher follows it
	case row.RedirectURL != "":
		u, _, key, err := o.Links.Canon.Redirect(row.URL, row.RedirectURL)
		if err != nil {
			o.refuse(string(canon.ReasonOf(err)), 1)
			return "", nil
		}
		o.text = append(o.text, u...)
		o.add(len(u), canon.PartsOf(u), key, &foundLink{kind: KindRedirect}, nil, row.Depth)
		return "", nil
	case (row.Status < 200 || row.Status > 299) && isRobots:
		return "", nil
	case row.Status < 200 || row.Status > 299:
		return fmt.Sprintf("status-%dxx", row.Status/100), nil
	case o.repeated() && row.MIME != "text/css":
		return "duplicate", nil
	}
	doc, err := o.document(row)
	if err != nil {
		return "", err
	}
	if doc == nil && isRobots {
		return "", nil
	}
	if doc == nil {
		return o.bare(row)
	}
	if o.judge != nil && !isRobots && o.Filter.JudgesDocuments() {
		c := filter.Candidate{URL: row.URL, Host: row.Host, Depth: row.Depth, MIME: MediaType(doc)}
		if v, err := o.judge.Document(o.ctx, c); err != nil || !v.Allow {
			return v.Reason(), err
		}
	}
	o.ending.bytes = len(doc.Body)
	if isRobots {
		o.finder.findRobots(doc, o.Links)
		o.found(1)
	} else {
		o.finder.find(doc, o.Links)
		o.process(row, doc)
		o.found(deeper(row.Depth))
	}
	return "", nil
}

// repeated says whether the row is a copy of a document that was searched. Its relative links
// lead elsewhere, so those of a copy can be lost: of style sheets none are, since a folder of
// pages that was copied has one for many pages.
func (o *output) repeated() bool {
	row := &o.job.row
	return row.Duplicate && !o.Duplicates && row.Role != record.RoleRobots
}

// bare takes the links in the header of a reply without a body, such as one with a
// Refresh field. Without any the row is dropped.
func (o *output) bare(row *record.Fetch) (drop string, err error) {
	header := o.job.header
	if o.Settings.Header == nil && row.WARCFilename != "" && o.archive.dir != "" {
		p, err := o.archive.read(row, 0, true)
		if err != nil {
			return "", err
		}
		header = p.header
	}
	o.finder.find(&Document{URL: row.URL, Header: header}, o.Links)
	if len(o.finder.found.all) == 0 {
		drop = "no-body"
	}
	o.found(deeper(row.Depth)) // what it refused, if nothing else
	return drop, nil
}

func deeper(depth uint16) uint16 {
	if depth < math.MaxUint16 {
		depth++
	}
	return depth
}

// found makes rows of what the finder has found.
func (o *output) found(depth uint16) {
	page := &o.finder.page
	if page.Cut && o.ending.cut == "" {
		o.ending.cut = CutTag
	}
	for reason, n := range page.Refused {
		o.refuse(reason, n)
	}
	o.links(depth)
}

// document returns the row's document, or nil if it has no body.
func (o *output) document(row *record.Fetch) (*Document, error) {
	doc := &Document{URL: row.URL, MIME: row.MIME, Charset: row.Charset, Header: o.job.header, Body: row.Body}
	limit := o.MaxBody
	if row.Body == nil && row.BodyLength > 0 {
		limit = min(limit, row.BodyLength)
	}
	// A row of a program that writes no WARC has its body alone, and no header.
	if o.Settings.Header == nil && (row.WARCFilename != "" || len(row.Body) == 0) {
		if row.WARCFilename == "" || row.BodyLength <= 0 {
			return nil, nil
		}
		if o.archive.dir == "" {
			return nil, &fault.Error{
				Class: fault.Usage, Found: "fetch records without --warc", Want: "the fetch store of their WARC files",
				Hint: "add --warc crawl/fetch; records that carry bodies need it too, for the links in reply headers",
			}
		}
		// The header is read even if the row carries the body: the links must be the
		// same when the batch is repeated without bodies.
		p, err := o.archive.read(row, limit, row.Body != nil)
		if err != nil {
			return nil, err
		}
		if p.undecodable != nil {
			o.refuse("undecodable", 1)
		}
		doc.Header = p.header
		if row.Body == nil {
			doc.Body = p.body
			if p.cut != "" && int64(len(p.body)) < row.BodyLength {
				o.ending.cut = p.cut
			}
		}
	}
	if int64(len(doc.Body)) > o.MaxBody {
		doc.Body = doc.Body[:o.MaxBody]
		o.ending.cut = CutMaxBody
	}
	if len(doc.Body) == 0 {
		o.ending.cut = ""
		return nil, nil
	}
	if o.ending.cut == "" {
		o.ending.cut = row.Truncated
	}
	if o.ending.cut == httpmsg.TruncatedLength && int64(len(doc.Body)) == o.MaxBody {
		o.ending.cut = CutMaxBody
	}
	return doc, nil
}

// links makes rows of what the finder has found.
func (o *output) links(depth uint16) {
	found := &o.finder.found
	for i := range found.all {
		l := &found.all[i]
		start := len(o.text)
		text, p, err := o.finder.page.Base.AppendResolve(o.text, found.text[l.ref.start:l.ref.end])
		if err != nil {
			o.refuse(string(canon.ReasonOf(err)), 1)
			continue
		}
		o.text = text
		url := text[start:]
		o.add(len(url), p, o.Links.Canon.Key(url, p), l, found.text[l.anchor.start:l.anchor.end], depth)
	}
}

// add makes a row of a link to a canonical URL, the last n bytes of o.text, unless the
// page had it before.
func (o *output) add(n int, p canon.Parts, key uint64, l *foundLink, text []byte, depth uint16) {
	row := &o.job.row
	start := len(o.text) - n
	again := key ^ fingerprint.OfString(l.kind)
	if l.nofollow {
		again = ^again
	}
	if !o.seen.add(again) {
		o.text = o.text[:start]
		o.refuse(ReasonRepeated, 1)
		return
	}
	o.text = append(o.text, text...)
	o.parts = append(o.parts, linkParts{
		url: span{start, start + n}, host: span{start + p.Host, start + p.Path}, text: span{start + n, len(o.text)},
	})
	if o.wait.links == nil {
		o.wait.links = (*chunks.Get().(*[]record.Link))[:0]
	}
	o.wait.links = append(o.wait.links, record.Link{
		SrcURL: row.URL, SrcKey: row.Key, Key: key, LinkKind: l.kind, Nofollow: l.nofollow, Depth: depth, Score: row.Score, Discovered: row.FetchTime,
	})
	if len(o.wait.links) == chunkRows {
		o.flush()
	}
}

// process runs the modules.
func (o *output) process(row *record.Fetch, doc *Document) {
	if len(o.Modules) == 0 || o.repeated() {
		return
	}
	findings, failed := o.runner.Run(o.ctx, &process.Document{
		URL: row.URL, Key: row.Key, Header: doc.Header, MIME: MediaType(doc), Charset: moduleCharset(doc),
		Truncated: row.Truncated, Body: doc.Body,
	})
	o.ending.failed = failed
	for _, f := range findings {
		o.wait.findings = append(o.wait.findings, record.Module{Key: row.Key, Module: f.Module, Name: f.Key, Value: f.Value})
	}
}
