// Package distill finds the hubs and authorities of a focused crawl from the record files of its rounds.
//
// It is the distiller of Chakrabarti, van den Berg, Dom, "Focused crawling: a new approach to topic-specific Web resource
// discovery", 1999: Kleinberg's mutual recursion ("Authoritative sources in a hyperlinked environment", 1999) with edges
// weighted by relevance. A page is a hub as far as it links to authorities, and an authority as far as hubs link to it:
//
//	a(v) = Σ h(u) R(u) / s(u,v)    over links u → v, where R(v) is above a threshold
//	h(u) = Σ a(v) R(v) / t(u,v)
//
// R is the relevance that the classifier gave a page (column score). Links within a host are left out. s(u,v) is how many pages
// of u's host link to v, and t(u,v) to how many pages of v's host u links, so that a host has one voice (Bharat and Henzinger,
// "Improved algorithms for topic distillation in a hyperlinked environment", 1998). Both sums are scaled to 1 after each step.
//
// # Files
//
// A folder (crawl/focus) holds sorted runs: all pages (kind focus-pages), all links by source (focus-links) and the scores
// (focus-scores). STATE.json says which record files they were made from, and is replaced last. Update reads only record files
// that are new since. If any of the others is gone or changed, as after mckpt restore, it begins anew.
//
// # Invariants
//
//   - Everything is derived: without the folder, the same record files give the same bytes.
//   - Memory is what the caller grants, beside the best hubs that he asks for: streams are sorted and merged.
//   - URLs are told apart by their checksum (column url_key), as in the URL-seen test. Its first 16 bits are the host's.
package distill

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/formats/run"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/focus/classify"
	"mercator/pkg/merge"
	"mercator/pkg/view/history"
)

// Kinds of runs.
const (
	pagesKind  = "focus-pages"  // key of a URL; a page's status, relevance and url row
	linksKind  = "focus-links"  // key of the source; keys of its targets, ascending, 8 bytes each
	scoresKind = "focus-scores" // key of a URL; hub and authority, float64 each
)

// Status is the state of a page in the crawl.
type Status byte

const (
	Found    Status = iota // not fetched
	Tried                  // fetched, and no document came
	Document               // it has a relevance
	Redirect               // its server names another URL
)

// Page is a URL that a crawl met.
type Page struct {
	Status    Status
	Relevance float32 // 0 to 1; of a document
	URL       record.URL
	Topic     string
}

// File is a record file of a round: fetch records with relevance as score, or link records.
type File struct {
	Path  string
	Links bool
}

// Options of a Folder.
type Options struct {
	Memory    int64            // bytes
	Threshold float64          // relevance above which a page may be an authority
	Steps     int              // of the recursion; 0: this and the threshold as the last time, or the defaults
	Progress  func(rows int64) // may be nil
	Waiting   func(err error)  // called with fault.Busy when Update waits for another one; may be nil
}

// Defaults of Options.
const (
	DefaultThreshold = classify.Relevant
	DefaultSteps     = 5
)

// Folder holds what is known of a crawl's pages and links.
type Folder struct {
	dir string
	opt Options
}

// Open opens a folder, which need not be there.
func Open(dir string, opt Options) *Folder { return &Folder{dir, opt} }

// state is STATE.json.
type state struct {
	Version int             `json:"version"`
	Steps   int             `json:"steps"`
	Above   float64         `json:"threshold"`
	Files   []history.Stamp `json:"files"`
	Runs    int             `json:"runs"` // the number in the names of the runs
}

const (
	stateName    = "STATE.json"
	stateVersion = 2
	stateLimit   = 64 << 20
	sayAfter     = time.Second // wait for another update before a message
	asLongAsIt   = 1 << 62     // nanoseconds
)

func (f *Folder) path(kind string, runs int) string {
	return filepath.Join(f.dir, fmt.Sprintf("%s-%d.run", strings.TrimPrefix(kind, "focus-"), runs))
}

// state reads STATE.json; nil if there is none of this version.
func (f *Folder) state() (*state, error) {
	b, err := durable.ReadFile(durable.OS, filepath.Join(f.dir, stateName), stateLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var s state
	if err == nil && (json.Unmarshal(b, &s) != nil || s.Version != stateVersion) {
		return nil, nil
	}
	return &s, err
}

// Update brings the folder up to date with the record files of a crawl, given in the order of its rounds. It reports whether
// anything changed. It waits for another update as long as that runs.
func (f *Folder) Update(ctx context.Context, files []File) (changed bool, err error) {
	if err := durable.MkdirAll(durable.OS, f.dir); err != nil {
		return false, err
	}
	lock, err := f.lock(ctx, sayAfter)
	if errors.Is(err, fault.Busy) {
		if f.opt.Waiting != nil {
			f.opt.Waiting(err)
		}
		lock, err = f.lock(ctx, asLongAsIt)
	}
	if err != nil {
		return false, err
	}
	defer lock.Close()
	old, err := f.state()
	if err != nil {
		return false, err
	}
	if f.opt.Steps == 0 {
		f.opt.Steps, f.opt.Threshold = DefaultSteps, DefaultThreshold
		if old != nil {
			f.opt.Steps, f.opt.Threshold = old.Steps, old.Above
		}
	}
	now := state{Version: stateVersion, Steps: f.opt.Steps, Above: f.opt.Threshold}
	for _, file := range files {
		s, err := history.StampOf(file.Path, filepath.Dir(f.dir))
		if err != nil {
			return false, err
		}
		now.Files = append(now.Files, s)
	}
	known := 0
	if old != nil && len(old.Files) <= len(now.Files) && slices.Equal(old.Files, now.Files[:len(old.Files)]) && f.whole(old.Runs) {
		known = len(old.Files)
		if known == len(now.Files) && old.Steps == now.Steps && old.Above == now.Above {
			return false, nil
		}
	}
	if old != nil {
		now.Runs = old.Runs + 1
	}
	from := -1
	if known > 0 {
		from = old.Runs
	}
	err = f.gather(ctx, files[known:], from, now.Runs)
	if from >= 0 && errors.Is(err, fault.Corrupt) {
		err = f.gather(ctx, files, -1, now.Runs)
	}
	if err != nil {
		return false, err
	}
	if err := f.score(ctx, now.Runs); err != nil {
		return false, err
	}
	b, err := json.MarshalIndent(now, "", " ")
	if err != nil {
		return false, err
	}
	if err := durable.WriteFile(durable.OS, filepath.Join(f.dir, stateName), append(b, '\n')); err != nil {
		return false, err
	}
	return true, f.clean(now.Runs)
}

func (f *Folder) lock(ctx context.Context, wait time.Duration) (io.Closer, error) {
	return store.Lock(ctx, durable.OS, filepath.Join(f.dir, store.LockFile), "mfocus distill", wait)
}

// whole reports whether the runs of a number are there and have their ends. Blocks are checked when they are read.
func (f *Folder) whole(runs int) bool {
	for _, kind := range []string{pagesKind, linksKind, scoresKind} {
		in, err := f.open(kind, runs)
		if err != nil {
			return false
		}
		in.close()
	}
	return true
}

// clean removes runs of other numbers, and what killed updates left. The caller holds the lock.
func (f *Folder) clean(runs int) error {
	durable.RemoveLeftovers(filepath.Join(f.dir, stateName), func(string) bool { return true })
	for _, kind := range []string{pagesKind, linksKind, scoresKind} {
		keep := f.path(kind, runs)
		all, err := filepath.Glob(f.path(kind, 0)[:len(f.path(kind, 0))-len("0.run")] + "*.run*")
		for _, path := range all {
			if path != keep && err == nil {
				err = os.Remove(path)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// gather makes the runs of pages and links from the runs of number from (-1: none) and record files.
func (f *Folder) gather(ctx context.Context, files []File, from, runs int) (err error) {
	pages, links := merge.NewSorter(f.opt.Memory/3, ""), merge.NewSorter(f.opt.Memory/3, "")
	defer func() { err = errors.Join(err, pages.Close(), links.Close()) }()
	links.Ties = bytes.Compare
	rows := int64(0)
	count := func() error {
		if rows++; rows%4096 == 0 {
			if f.opt.Progress != nil {
				f.opt.Progress(4096)
			}
			return context.Cause(ctx)
		}
		return nil
	}
	var b []byte
	for _, file := range files {
		if file.Links {
			err = history.Read(file.Path, func(l *record.Link) error {
				if l.Host == "" || l.SrcKey == 0 || l.SrcKey == l.Key {
					return count()
				}
				b = appendPage(b[:0], &Page{Status: Found, URL: l.ToURL()})
				if err := pages.Add(l.Key, b); err != nil {
					return err
				}
				if err := links.Add(l.SrcKey, binary.BigEndian.AppendUint64(nil, l.Key)); err != nil {
					return err
				}
				return count()
			})
		} else {
			err = history.Read(file.Path, func(r *record.Fetch) error {
				if p := pageOf(r); p != nil {
					b = appendPage(b[:0], p)
					if err := pages.Add(r.Key, b); err != nil {
						return err
					}
				}
				return count()
			})
		}
		if err != nil {
			return err
		}
	}
	if err := f.join(pagesKind, from, runs, pages, foldPage, func(page []byte) []byte { return page }); err != nil {
		return err
	}
	return f.join(linksKind, from, runs, links, foldTargets, sortTargets)
}

// pageOf returns the page of a fetch record; nil if it tells nothing of one.
func pageOf(r *record.Fetch) *Page {
	if !r.OfPage() || r.Outcome == record.OutcomeDeferred || r.Outcome == record.OutcomeParked || r.Outcome == record.OutcomeNotModified {
		return nil
	}
	if r.Duplicate && r.ContentFP == r.LastContentFP && r.ContentFP != 0 { // it has not changed: mfocus score left it
		return nil
	}
	p := &Page{Status: Tried, URL: r.ToURL()}
	p.URL.Priority, p.URL.Score, p.URL.X = 0, 0, "" // which the frontier has
	if r.Outcome == record.OutcomeFetched && r.Status/100 == 2 {
		p.Status, p.Topic, p.Relevance = Document, r.Extra.Text(classify.TopicColumn), relevance(r.Score)
	} else if r.Outcome == record.OutcomeFetched && r.Status/100 == 3 {
		p.Status = Redirect
	}
	return p
}

// relevance is a score from a record, which may be anything.
func relevance(score float32) float32 {
	if !(score > 0) {
		return 0
	}
	return min(score, 1)
}

var topicSchema = record.NewSchema(record.KindURL, record.Column{Name: classify.TopicColumn, Text: true})

// A page's payload: status, relevance (4 bytes), url row with its topic.
const pageHead = 5

func appendPage(b []byte, p *Page) []byte {
	b = append(b, byte(p.Status))
	b = binary.BigEndian.AppendUint32(b, math.Float32bits(p.Relevance))
	u := p.URL
	u.Extra = topicSchema.Texts(func(string) string { return p.Topic })
	return record.AppendRow(b, &u)
}

func status(payload []byte) Status { return Status(payload[0]) }

func relevanceOf(payload []byte) float64 {
	return float64(math.Float32frombits(binary.BigEndian.Uint32(payload[1:])))
}

// ParsePage reads a payload of a run of pages.
func parsePage(payload []byte) (p Page, err error) {
	p.Status, p.Relevance = status(payload), float32(relevanceOf(payload))
	if _, err := record.ParseRow(string(payload[pageHead:]), &p.URL, topicSchema); err != nil {
		return p, err
	}
	p.Topic = p.URL.Extra.Text(classify.TopicColumn)
	p.URL.Extra = record.Extra{}
	return p, nil
}

// foldPage joins what was known of a page and what came later: of fetches the last counts, else the first link.
func foldPage(have, later []byte) []byte {
	if status(later) > Found {
		return append(have[:0], later...)
	}
	return have
}

// foldTargets adds a target to a list. Those of an update come in ascending order.
func foldTargets(have, later []byte) []byte {
	if bytes.Equal(have[len(have)-8:], later) {
		return have
	}
	return append(have, later...)
}

// sortTargets makes a list ascending. It has the targets of the updates before, and behind them the targets of this one.
func sortTargets(list []byte) []byte {
	keys := make([]uint64, 0, len(list)/8)
	for b := list; len(b) >= 8; b = b[8:] {
		keys = append(keys, binary.BigEndian.Uint64(b))
	}
	if slices.IsSorted(keys) {
		return list
	}
	slices.Sort(keys)
	list = list[:0]
	for _, key := range slices.Compact(keys) {
		list = binary.BigEndian.AppendUint64(list, key)
	}
	return list
}

// join merges run number from with sorted rows into a new run. Rows of one key are folded into one; end may then change it.
func (f *Folder) join(kind string, from, runs int, rows *merge.Sorter, fold func(have, later []byte) []byte, end func([]byte) []byte) error {
	fresh, err := rows.Sort()
	if err != nil {
		return err
	}
	inputs := []stream{fresh}
	if from >= 0 {
		old, err := f.open(kind, from)
		if err != nil {
			return err
		}
		defer old.close()
		inputs = []stream{old.rows(), fresh}
	}
	return f.write(kind, runs, func(add func(uint64, []byte) error) error {
		heads := make([]cursor, len(inputs))
		for i, in := range inputs {
			heads[i].in = in
			if err := heads[i].next(); err != nil {
				return err
			}
		}
		var have []byte
		for {
			least := -1
			for i := range heads {
				if !heads[i].end && (least < 0 || heads[i].key < heads[least].key) {
					least = i
				}
			}
			if least < 0 {
				return nil
			}
			key := heads[least].key
			have = have[:0]
			for i := range heads {
				for h := &heads[i]; !h.end && h.key == key; {
					if len(have) == 0 {
						have = append(have, h.payload...)
					} else {
						have = fold(have, h.payload)
					}
					if err := h.next(); err != nil {
						return err
					}
				}
			}
			if err := add(key, end(have)); err != nil {
				return err
			}
		}
	})
}

// stream gives rows in ascending order of key, then io.EOF. A payload is valid until the next call.
type stream interface {
	Next() (key uint64, payload []byte, err error)
}

// cursor stands at a row of a stream.
type cursor struct {
	in      stream
	key     uint64
	payload []byte
	end     bool
}

func (c *cursor) next() error {
	var err error
	if c.key, c.payload, err = c.in.Next(); err == io.EOF {
		c.end, err = true, nil
	}
	return err
}

// cursorOf stands at the first row.
func cursorOf(in stream) (*cursor, error) {
	c := &cursor{in: in}
	return c, c.next()
}

// to goes on to a key, and reports whether there is a row of it. Keys are asked for in ascending order.
func (c *cursor) to(key uint64) (bool, error) {
	for !c.end && c.key < key {
		if err := c.next(); err != nil {
			return false, err
		}
	}
	return !c.end && c.key == key, nil
}

// table is a run in a file.
type table struct {
	file *os.File
	in   *run.Reader
}

func (t *table) rows() stream { return t.in.Scan(run.Start) }
func (t *table) close() error { return t.file.Close() }

func (f *Folder) open(kind string, runs int) (*table, error) {
	path := f.path(kind, runs)
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil {
		var in *run.Reader
		if in, err = run.Open(file, info.Size(), path, kind); err == nil {
			return &table{file, in}, nil
		}
	}
	file.Close()
	return nil, err
}

// write makes a run of the folder.
func (f *Folder) write(kind string, runs int, rows func(add func(key uint64, payload []byte) error) error) error {
	file, err := durable.Create(durable.OS, f.path(kind, runs))
	if err != nil {
		return err
	}
	defer file.Abort()
	w := run.NewWriter(file, kind)
	if err := rows(w.Add); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return file.Commit()
}

// temporary makes a run that has no name.
func temporary(kind string, rows func(add func(key uint64, payload []byte) error) error) (*table, error) {
	file, err := durable.TempFile("")
	if err != nil {
		return nil, err
	}
	w := run.NewWriter(file, kind)
	w.Plain()
	if err = rows(w.Add); err == nil {
		err = w.Close()
	}
	var in *run.Reader
	if err == nil {
		var size int64
		if size, err = file.Seek(0, io.SeekEnd); err == nil {
			in, err = run.Open(file, size, "temporary file", kind)
		}
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &table{file, in}, nil
}

// anew says how to go on after damage, since nothing here is lost with the folder.
func (f *Folder) anew(err error) error {
	if bad := (*fault.Error)(nil); errors.Is(err, fault.Corrupt) && errors.As(err, &bad) && fault.HintOf(err) == "" {
		bad.Hint = "mfocus makes it anew; remove it: " + fault.Quote("rm", "-r", f.dir)
	}
	return err
}

// current opens the runs that count.
func (f *Folder) current(kinds ...string) (tables []*table, err error) {
	s, err := f.state()
	if err == nil && s == nil {
		err = &fault.Error{Class: fault.Usage, File: f.dir, Found: "no scores", Want: "what mfocus distill makes", Hint: "make them: " + fault.Quote("mfocus", "distill", filepath.Dir(f.dir))}
	}
	for _, kind := range kinds {
		var t *table
		if err == nil {
			if t, err = f.open(kind, s.Runs); err == nil {
				tables = append(tables, t)
			}
		}
	}
	if err != nil {
		for _, t := range tables {
			t.close()
		}
		return nil, err
	}
	return tables, nil
}

// Stamp tells states of the folder apart.
func (f *Folder) Stamp() (string, error) {
	b, err := durable.ReadFile(durable.OS, filepath.Join(f.dir, stateName), stateLimit)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16]), err
}

// Each calls a function for all pages with their scores, in the order of their keys.
func (f *Folder) Each(ctx context.Context, each func(p *Page, hub, authority float64) error) (err error) {
	defer func() { err = f.anew(err) }()
	tables, err := f.current(pagesKind, scoresKind)
	if err != nil {
		return err
	}
	defer tables[0].close()
	defer tables[1].close()
	scores, err := cursorOf(tables[1].rows())
	if err != nil {
		return err
	}
	pages, err := cursorOf(tables[0].rows())
	for n := 1; err == nil && !pages.end; n++ {
		var p Page
		if p, err = parsePage(pages.payload); err != nil {
			return err
		}
		var has bool
		if has, err = scores.to(pages.key); err != nil {
			return err
		}
		hub, authority := 0.0, 0.0
		if has {
			hub, authority = scoreOf(scores.payload)
		}
		if err := each(&p, hub, authority); err != nil {
			return err
		}
		if n%4096 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err = pages.next()
	}
	return err
}
