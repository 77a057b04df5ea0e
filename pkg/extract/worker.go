package extract

import (
	"context"
	"fmt"
	"math"
	"runtime/debug"
	"slices"

	"golang.org/x/sync/semaphore"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/filter"
	"mercator/pkg/web/httpmsg"
	"mercator/pkg/web/linkkind"
	"mercator/pkg/web/markup"
	"mercator/pkg/web/process"
)

// worker extracts one row at a time.
type worker struct {
	Settings
	archive archive
	runner  *process.Runner
	finder  finder
	parts   []linkParts // of the links that wait
	text    []byte      // text that the links before it point into
	seen    keySet      // URL checksums of a row's links, with kind and nofollow mixed in

	score func(page float32, text string) float32 // of a link

	judge      *filter.Judge // nil without a filter
	candidates []filter.Candidate
	verdicts   []filter.Verdict
	refusals   map[string]record.Extra // of rows of refused links, by reason; nil: nobody wants them
}

func newWorker(s Settings) *worker {
	w := &worker{Settings: s, archive: archive{dir: s.Archive}, runner: process.NewRunner(s.Modules)}
	w.seen.reset()
	if s.Score == nil {
		w.score = func(page float32, _ string) float32 { return page }
	}
	if s.Filter != nil {
		w.judge = s.Filter.NewJudge()
	}
	if s.Refused != nil {
		w.refusals, w.finder.keep = make(map[string]record.Extra), true
	}
	return w
}

// close ends what the worker has running. An error says that verdicts are not to be trusted;
// failed has what went wrong with modules.
func (w *worker) close() (failed map[string]error, err error) {
	w.archive.close()
	if w.judge != nil {
		err = w.judge.Close()
	}
	return w.runner.Close(), err
}

// output collects the links of one row and hands them on in chunks.
type output struct {
	*worker
	ctx    context.Context
	job    *job
	wait   chunk
	menu   bool // the page repeats its menu below itself
	ending ending
}

// linkParts say where the strings of a link are that waits.
type linkParts struct{ url, host, text span }

func (w *worker) run(ctx context.Context, j *job, bodies *semaphore.Weighted) {
	o := &output{worker: w, ctx: ctx, job: j}
	o.ending.drop, o.ending.err = o.extract()
	o.wait.end = &o.ending
	o.letGo() // the job stays in line until its turn
	w.seen.reset()
	large := w.Alone && (j.cost > bodiesInFlight/2 || cap(w.finder.found.text) > bodiesInFlight/2)
	w.finder.found.reset()
	w.finder.refused, w.finder.refusedSet = nil, nil
	if large { // before another document may take its place
		debug.FreeOSMemory()
	}
	bodies.Release(j.cost)
	o.flush()
	w.finder.barred = false
}

// letGo frees the body. Links were copied from it.
func (o *output) letGo() {
	row := &o.job.row
	if o.WARC != nil && row.Body != nil {
		o.WARC.Recycle(row.Body)
	}
	row.Body = nil
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
	if o.finder.barred {
		for _, l := range links {
			o.keepRefused(l, ReasonNofollow)
		}
		clear(links)
		o.wait.links = links[:0]
		return nil
	}
	if o.Raw {
		return nil // Resolve does the rest
	}
	links = o.withinHops(links)
	if o.judge == nil || len(links) == 0 {
		return nil
	}
	o.candidates = o.candidates[:0]
	for i := range links {
		l := &links[i]
		o.candidates = append(o.candidates, filter.Candidate{URL: l.URL, Host: l.Host, Depth: l.Depth, Kind: l.LinkKind, From: o.job.row.Host, Via: o.job.row.URL,
			Named: filter.Named(l), Requisite: l.Requisite > 0, Menu: o.menu && belowItself(o.job.row.URL, l.URL)})
	}
	o.verdicts = slices.Grow(o.verdicts[:0], len(links))[:len(links)]
	o.wait.links = links[:0]
	if err := o.judge.URLs(o.ctx, o.candidates, o.verdicts); err != nil {
		return err
	}
	for i, v := range o.verdicts {
		if v.Allow {
			if v.Page {
				links[i].Requisite |= linkkind.Page
			}
			o.wait.links = append(o.wait.links, links[i])
		} else {
			reason := v.Reason()
			o.refuse(reason, 1)
			o.keepRefused(links[i], reason)
		}
	}
	clear(links[len(o.wait.links):]) // their memory is used again, and would hold on to texts
	return nil
}

// withinHops drops the links that wait and are one redirect too many.
func (o *output) withinHops(links []record.Link) []record.Link {
	if o.job.row.Hops < MaxHops {
		return links // as nearly all are
	}
	o.wait.links = links[:0]
	for _, l := range links {
		if l.Hops <= MaxHops {
			o.wait.links = append(o.wait.links, l)
		} else {
			o.refuse(ReasonHops, 1)
			o.keepRefused(l, ReasonHops)
		}
	}
	clear(links[len(o.wait.links):])
	return o.wait.links
}

// link is a link of the document with all that it has of the document's row. depth is the depth of the document's links.
func (o *output) link(kind string, depth uint16) record.Link {
	row, hops := &o.job.row, uint8(0)
	if hopOf(kind) {
		depth, hops = row.Depth, uint8(min(int(row.Hops)+1, math.MaxUint8))
	}
	return record.Link{SrcURL: row.URL, SrcKey: row.Key, LinkKind: kind, Depth: depth, Hops: hops, Score: row.Score, Discovered: row.FetchTime,
		Sitemap: sitemapLevel(row, kind), Requisite: requisite(row, kind)}
}

// keepRefused has a row made of a link that was refused.
func (o *output) keepRefused(l record.Link, reason string) {
	traceRefused(&l, reason)
	if o.refusals == nil {
		return
	}
	extra, ok := o.refusals[reason]
	if !ok {
		extra = RefusedColumn.Texts(func(string) string { return reason })
		o.refusals[reason] = extra
	}
	l.Extra = extra
	if o.wait.refused == nil {
		o.wait.refused = (*chunks.Get().(*[]record.Link))[:0]
	}
	o.wait.refused = append(o.wait.refused, l)
}

// keepReferences does so with what the finder refused: references that have no canonical form have it as URL, without a host.
func (o *output) keepReferences(depth uint16) {
	for _, r := range o.finder.refused {
		l := o.link(r.kind, depth)
		l.URL = r.ref
		o.keepRefused(l, r.reason)
		if len(o.wait.refused) == chunkRows {
			o.flush()
		}
	}
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
	if o.score == nil {
		if o.score, err = o.Score(); err != nil {
			return "", err
		}
	}
	isRobots := row.Role == record.RoleRobots
	switch {
	case row.Role == record.RoleLogin:
		return row.Role, nil
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
			o.finder.keepRefused(linkkind.Redirect, row.RedirectURL, string(canon.ReasonOf(err)))
			o.keepReferences(row.Depth)
			return "", nil
		}
		o.text = append(o.text, u...)
		o.addRow(len(u), canon.PartsOf(u), key, linkkind.Redirect, false, nil, row.Depth)
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
		o.process(row, doc) // before there are links in memory
		o.finder.find(doc, o.Links)
		o.letGo()
		o.found(deeper(row.Depth))
	}
	return "", nil
}

// repeated reports whether the row is a copy of a document that was searched. Its relative links
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
	if o.WARC == nil && row.WARCFilename != "" && o.archive.dir != "" {
		p, err := o.archive.read(row, 0, true)
		if err != nil {
			return "", err
		}
		header = p.header
	}
	o.finder.find(&Document{URL: row.URL, Header: header}, o.Links)
	if len(o.finder.found.all) == 0 || o.finder.barred {
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
	if !o.finder.barred || o.refusals != nil {
		o.links(depth)
	}
	o.keepReferences(depth)
}

// document returns the row's document, or nil if it has no body.
func (o *output) document(row *record.Fetch) (*Document, error) {
	doc := &Document{URL: row.URL, MIME: row.MIME, Charset: row.Charset, Header: o.job.header, Body: row.Body, Sitemap: row.Sitemap > 0}
	limit := o.MaxBody
	if row.Body == nil && row.BodyLength > 0 {
		limit = min(limit, row.BodyLength)
	}
	// A row of a program that writes no WARC has its body alone, and no header.
	if o.WARC == nil && (row.WARCFilename != "" || len(row.Body) == 0) {
		if row.WARCFilename == "" || row.BodyLength <= 0 {
			return nil, nil
		}
		if o.archive.dir == "" {
			return nil, &fault.Error{
				Class: fault.Usage, Found: "fetch records without --warc", Want: "the fetch store of their WARC files",
				Hint: "add --warc crawl/fetch",
			}
		}
		// The header is read even if the row carries the body: the links must be the
		// same when the batch is repeated without bodies.
		p, err := o.archive.read(row, limit, row.Body != nil)
		if err != nil {
			return nil, err
		}
		if p.undecodable != nil {
			o.refuse(ReasonUndecodable, 1)
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
	if len(found.slots) > idleSlots {
		found.slots = nil // not needed any more
	}
	if o.Raw {
		o.rawLinks(depth)
		return
	}
	o.menu = o.judge != nil && o.finder.repeatsMenu(o.job.row.URL)
	for i := range found.all {
		l := &found.all[i]
		if sitemapLevel(&o.job.row, found.kinds[l.kind]) > sitemapLevels {
			o.refuse(ReasonSitemapDepth, 1)
			o.finder.keepRefused(linkkind.Sitemap, markup.View(found.text[l.ref.start:l.ref.end]), ReasonSitemapDepth)
			continue
		}
		start := len(o.text)
		text, p, err := o.finder.page.Base.AppendResolve(o.text, found.text[l.ref.start:l.ref.end])
		if err != nil {
			if !o.finder.barred {
				o.refuse(string(canon.ReasonOf(err)), 1)
				o.finder.keepRefused(found.kinds[l.kind], markup.View(found.text[l.ref.start:l.ref.end]), string(canon.ReasonOf(err)))
			}
			continue
		}
		o.text = text
		url := text[start:]
		o.addRow(len(url), p, o.Links.Canon.Key(url, p), found.kinds[l.kind], l.nofollow, found.text[l.anchor.start:l.anchor.end], depth)
	}
}

// addRow makes a row of a link to a canonical URL, the last n bytes of o.text, unless the
// page had it before with the same text, or with any and this one has none.
func (o *output) addRow(n int, p canon.Parts, key uint64, kind string, nofollow bool, text []byte, depth uint16) {
	start := len(o.text) - n
	again := key ^ fingerprint.OfString(kind)
	if nofollow {
		again = ^again
	}
	fresh := o.seen.add(again)
	if len(text) > 0 {
		fresh = o.seen.add(again + fingerprint.Of(text))
	}
	if !fresh {
		o.text = o.text[:start]
		if !o.finder.barred {
			o.refuse(ReasonRepeated, 1)
		}
		return
	}
	o.text = append(o.text, text...)
	l := o.link(kind, depth)
	l.Key, l.Nofollow, l.Score = key, nofollow, o.score(l.Score, markup.View(text))
	o.put(linkParts{url: spanOf(start, start+n), host: spanOf(start+p.Host, start+p.Path), text: spanOf(start+n, len(o.text))}, l)
}

// put lets a link wait, without its strings.
func (o *output) put(parts linkParts, l record.Link) {
	o.parts = append(o.parts, parts)
	if o.wait.links == nil {
		o.wait.links = (*chunks.Get().(*[]record.Link))[:0]
	}
	o.wait.links = append(o.wait.links, l)
	if len(o.wait.links) == chunkRows {
		o.flush()
	}
}

// process runs the modules.
func (o *output) process(row *record.Fetch, doc *Document) {
	if len(o.Modules) == 0 || o.repeated() {
		return
	}
	var findings []process.Finding
	findings, o.ending.failed = o.runner.Run(o.ctx, &process.Document{
		URL: row.URL, Key: row.Key, Header: doc.Header, MIME: MediaType(doc), Charset: ModuleCharset(doc), Status: int(row.Status),
		Truncated: row.Truncated, Body: doc.Body, Agent: o.Links.Agent,
	})
	for _, f := range findings {
		o.wait.findings = append(o.wait.findings, record.Module{URL: row.URL, Key: row.Key, Module: f.Module, Name: f.Key, Value: f.Value})
	}
}
