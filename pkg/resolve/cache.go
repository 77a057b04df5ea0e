package resolve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sort"
	"strings"
	"sync"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/fault"
	"mercator/pkg/fingerprint"
	"mercator/pkg/merge"
	"mercator/pkg/stage"
)

// The dns store holds one file of role "cache": a record stream of kind
// "module", one row a name, ascending by FP64 of the name and then by name, so
// that any reader of records reads it:
//
//	url_key = FP64(name), module = "dns", key = name,
//	value   = {"addr","expires","error","cname","server","family"} (type entry)
//
// A round looks its names up by one pass over the file for each window of rows,
// and rewrites the file once when it commits, leaving expired answers out.
const (
	StoreKind    = "dns"
	StoreVersion = "1.0"
	roleCache    = "cache"
	moduleName   = "dns"
)

// CreateStore makes an empty dns store.
func CreateStore(dir string, opt store.Options) error {
	return store.Create(dir, StoreKind, StoreVersion, nil, opt)
}

// entry is the value of a cached name.
type entry struct {
	Addr    string    `json:"addr,omitempty"`
	Expires time.Time `json:"expires"`
	Error   string    `json:"error,omitempty"`
	CNAME   string    `json:"cname,omitempty"`
	Server  string    `json:"server,omitempty"`
	Family  string    `json:"family,omitempty"` // "4" or "6" where only those addresses were asked for
}

func toEntry(a Answer) entry {
	return entry{Addr: FormatAddrs(a.Addrs), Expires: a.Expires.UTC().Truncate(time.Microsecond), Error: a.Status, CNAME: a.CNAME, Server: a.Server}
}

func (e entry) answer(name string) (Answer, error) {
	a := Answer{Name: name, Status: e.Error, Expires: e.Expires, CNAME: e.CNAME, Server: e.Server}
	for _, s := range strings.Split(e.Addr, ",") {
		if s == "" {
			continue
		}
		addr, err := netip.ParseAddr(s)
		if err != nil {
			return a, err
		}
		a.Addrs = append(a.Addrs, addr)
	}
	return a, nil
}

// Bounds of one window of rows: it is resolved as a whole.
const (
	windowRows  = 8192
	windowBytes = 4 << 20
	windowWait  = 200 * time.Millisecond // a slow input's rows do not wait longer for company
	knownMax    = 1 << 15                // names whose answers are kept in memory within a batch
)

// Options of Resolve.
type Options struct {
	Resolver *Resolver
	Replay   *Replay // answers in place of Resolver and of the store's cache
	Parallel int     // names asked for at a time
	Memory   int64   // bound for sorting, bytes
	Now      func() time.Time
	Progress func(n int64) // rows done; may be nil
}

// Stats of a batch.
type Stats struct {
	Names  uint64 `json:"names"`  // distinct within their windows
	Cached uint64 `json:"cached"` // answered from the store or from this batch
	Asked  uint64 `json:"asked"`
	Failed uint64 `json:"failed"` // asked, without an address
}

type batch struct {
	opt   Options
	b     *stage.Batch[record.URL, record.URL]
	cache func() (*cacheReader, error)
	now   time.Time         // when the batch began: an answer that was valid then is valid for all of it
	known map[string]string // entries as JSON, which is a third of an Answer's size
	fresh *merge.Sorter     // answers to be committed
	stats Stats
}

// Resolve is the body of mresolve: url rows in, the same out in the same order
// with addr, addr_expires and addr_error. What was learnt joins the store's
// cache when the batch commits.
func Resolve(ctx context.Context, st *store.Store, b *stage.Batch[record.URL, record.URL], opt Options) (Stats, error) {
	r := &batch{opt: opt, b: b, now: opt.Now(), known: map[string]string{}, fresh: merge.NewSorter(opt.Memory/8, "")}
	defer r.fresh.Close()
	base := b.Tx().Base()
	r.cache = func() (*cacheReader, error) { return openCache(st, base) }
	if opt.Replay != nil {
		r.cache = opt.Replay.open
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rows := r.readAhead(ctx)
	for {
		window, err := collect(rows)
		if len(window) > 0 {
			if err := r.window(ctx, window); err != nil {
				return r.stats, err
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return r.stats, err
		}
	}
	if opt.Replay != nil {
		return r.stats, nil // saved answers are not news
	}
	return r.stats, r.commit(base)
}

// name is what a row's host is looked up by. A replay knows hosts, with their
// ports: the order of their addresses depends on it.
func (r *batch) name(row *record.URL) string {
	if r.opt.Replay != nil {
		return row.Host
	}
	return Name(row.Host)
}

type rowOrErr struct {
	row record.URL
	err error
}

// readAhead reads rows in a goroutine of its own, so that a window can end by time.
func (r *batch) readAhead(ctx context.Context) <-chan rowOrErr {
	ch := make(chan rowOrErr, 256)
	go func() {
		defer close(ch)
		for {
			var v rowOrErr
			v.err = r.b.Read(&v.row)
			select {
			case ch <- v:
			case <-ctx.Done():
				return
			}
			if v.err != nil {
				return
			}
		}
	}()
	return ch
}

// collect gathers a window: until it is full, the input pauses, or ends. Rows
// keep their record batch alive, which windowBytes bounds in text.
func collect(rows <-chan rowOrErr) (window []record.URL, err error) {
	var timeout <-chan time.Time
	size := 0
	for {
		select {
		case v, ok := <-rows:
			if !ok {
				return window, context.Canceled
			}
			if v.err != nil {
				return window, v.err
			}
			window = append(window, v.row)
			size += len(v.row.URL) + len(v.row.Host) + len(v.row.Via)
			if len(window) == windowRows || size > windowBytes {
				return window, nil
			}
			if timeout == nil {
				timeout = time.After(windowWait)
			}
		case <-timeout:
			return window, nil
		}
	}
}

// window resolves and passes on some rows.
func (r *batch) window(ctx context.Context, rows []record.URL) error {
	answers := map[string]Answer{}
	var missing []string
	for i := range rows {
		name := r.name(&rows[i])
		if _, seen := answers[name]; seen {
			continue
		}
		r.stats.Names++
		a, ok, err := r.recall(name)
		if err != nil {
			return err
		}
		if ok && r.valid(a.Expires) {
			r.stats.Cached++
			answers[name] = a
			continue
		}
		answers[name] = Answer{}
		missing = append(missing, name)
	}
	missing, err := r.lookUp(missing, answers)
	if err != nil {
		return err
	}
	if r.opt.Replay != nil && len(missing) > 0 {
		return r.opt.Replay.lacks(missing[0])
	}
	if err := r.ask(ctx, missing, answers); err != nil {
		return err
	}
	for i := range rows {
		row := &rows[i]
		a := answers[r.name(row)]
		if r.opt.Replay == nil {
			a.Addrs = Rotate(a.Addrs, row.Key>>48)
		}
		row.Addr = FormatAddrs(a.Addrs)
		row.AddrExpires = record.TimeOf(a.Expires)
		row.AddrError = a.Status
		if err := r.b.Pass(row); err != nil {
			return err
		}
		if r.opt.Progress != nil {
			r.opt.Progress(1)
		}
	}
	return nil
}

// valid says whether an answer counts in this batch: all rows of a host get the
// same one, so that a replay, which has one for each host, can give it. A saved
// answer always counts.
func (r *batch) valid(expires time.Time) bool {
	return r.opt.Replay != nil || expires.After(r.now)
}

// lookUp fills in what the cache file knows, by one merge, and returns the rest.
func (r *batch) lookUp(names []string, answers map[string]Answer) (missing []string, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	c, err := r.cache()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	sort.Slice(names, func(i, j int) bool { return order(names[i], names[j]) < 0 })
	for _, name := range names {
		e, ok, err := c.seek(name)
		if err != nil {
			return nil, err
		}
		if !ok || !r.valid(e.Expires) || !r.covers(&e) {
			missing = append(missing, name)
			continue
		}
		a, err := e.answer(name)
		if err != nil {
			return nil, c.corrupt(err)
		}
		if r.opt.Replay == nil {
			a = r.opt.Resolver.wanted(a)
		}
		r.stats.Cached++
		answers[name] = a
		if err := r.remember(a); err != nil {
			return nil, err
		}
	}
	return missing, nil
}

// covers says whether an entry was asked for all the addresses wanted now.
func (r *batch) covers(e *entry) bool {
	return e.Family == "" || r.opt.Replay != nil || e.Family == r.opt.Resolver.cfg.Family
}

// order compares names as the cache file sorts them.
func order(a, b string) int {
	fa, fb := fingerprint.OfString(a), fingerprint.OfString(b)
	switch {
	case fa < fb:
		return -1
	case fa > fb:
		return 1
	}
	return strings.Compare(a, b)
}

// remember keeps an answer for later windows. A full table is emptied: a name
// that is looked up again costs a read or a question, not a wrong answer.
func (r *batch) remember(a Answer) error {
	if len(r.known) >= knownMax {
		clear(r.known)
	}
	e := toEntry(a)
	e.CNAME, e.Server = "", "" // rows do not tell them
	value, err := json.Marshal(e)
	r.known[strings.Clone(a.Name)] = string(value)
	return err
}

// recall is the answer that remember kept, if it did.
func (r *batch) recall(name string) (a Answer, ok bool, err error) {
	value, ok := r.known[name]
	if !ok {
		return a, false, nil
	}
	var e entry
	if err := json.Unmarshal([]byte(value), &e); err != nil {
		return a, false, err
	}
	a, err = e.answer(name)
	return a, true, err
}

// ask puts questions to the source, many at a time.
func (r *batch) ask(ctx context.Context, names []string, answers map[string]Answer) error {
	got := make([]Answer, len(names))
	work := make(chan int)
	var wg sync.WaitGroup
	for range min(r.opt.Parallel, len(names)) {
		wg.Go(func() {
			for i := range work {
				got[i] = r.opt.Resolver.Lookup(ctx, names[i])
			}
		})
	}
	for i := range names {
		work <- i
	}
	close(work)
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	for i, a := range got {
		r.stats.Asked++
		if a.Status != StatusOK {
			r.stats.Failed++
		}
		answers[names[i]] = a
		if err := r.remember(a); err != nil {
			return err
		}
		if _, literal := Literal(a.Name); literal {
			continue // costs no question
		}
		e := toEntry(a)
		if family := r.opt.Resolver.cfg.Family; family != "any" {
			e.Family = family
		}
		value, err := json.Marshal(e)
		if err != nil {
			return err
		}
		payload := append(append([]byte(a.Name), 0), value...)
		if err := r.fresh.Add(fingerprint.OfString(a.Name), payload); err != nil {
			return err
		}
	}
	return nil
}

// commit merges the fresh answers into a new cache file.
func (r *batch) commit(base *store.Manifest) error {
	it, err := r.fresh.Sort()
	if err != nil {
		return err
	}
	next := inOrder(it)
	row, err := next()
	if err == io.EOF {
		return nil // nothing new: the file stays
	}
	if err != nil {
		return err
	}
	old, err := r.cache()
	if err != nil {
		return err
	}
	defer old.Close()
	tx := r.b.Tx()
	f, err := tx.Create("cache/", ".arrows.zst", roleCache)
	if err != nil {
		return err
	}
	w, err := record.NewWriter[record.Module](f, record.WriterOptions{Name: f.Path(), Level: record.Fast})
	if err != nil {
		return err
	}
	now := r.opt.Now()
	keep := func(m *record.Module) error {
		var e entry
		if err := json.Unmarshal([]byte(m.Value), &e); err != nil {
			return old.corrupt(err)
		}
		if !e.Expires.After(now) {
			return nil
		}
		return w.Write(m)
	}
	for {
		// Of equal names the later answer counts: within fresh the last, and fresh
		// before old.
		following, nerr := next()
		if nerr != nil && nerr != io.EOF {
			return nerr
		}
		if nerr == nil && following.Key == row.Key && following.Name == row.Name {
			row = following
			continue
		}
		if err := old.upTo(&row, keep); err != nil {
			return err
		}
		if err := keep(&row); err != nil {
			return err
		}
		if nerr == io.EOF {
			break
		}
		row = following
	}
	if err := old.upTo(nil, keep); err != nil {
		return err
	}
	if _, err := w.Commit(record.Ledger{}); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	for _, e := range base.Files {
		if e.Role == roleCache {
			tx.Drop(e.Path)
		}
	}
	return nil
}

// inOrder yields the sorted answers in the file's order. The sorter knows keys
// only, and names that collide can be made on purpose.
func inOrder(it *merge.Iter) func() (record.Module, error) {
	var group []record.Module // of one key
	var ahead *record.Module
	var end error
	read := func() {
		key, payload, err := it.Next()
		if ahead, end = nil, err; err == nil {
			name, value, _ := strings.Cut(string(payload), "\x00")
			ahead = &record.Module{Key: key, Module: moduleName, Name: name, Value: value}
		}
	}
	read()
	return func() (record.Module, error) {
		for len(group) == 0 || ahead != nil && ahead.Key == group[0].Key {
			if ahead == nil {
				return record.Module{}, end
			}
			group = append(group, *ahead)
			read()
			if ahead == nil && end != io.EOF {
				return record.Module{}, end
			}
			if ahead == nil || ahead.Key != group[0].Key {
				sort.SliceStable(group, func(i, j int) bool { return group[i].Name < group[j].Name })
				break
			}
		}
		row := group[0]
		group = group[1:]
		return row, nil
	}
}

// cacheReader walks a cache file once, forward. Without a file it is at its end.
type cacheReader struct {
	path string
	file io.Closer
	rows *record.Reader[record.Module]
	row  record.Module
	end  bool
}

func openCache(st *store.Store, m *store.Manifest) (*cacheReader, error) {
	for _, e := range m.Files {
		if e.Role != roleCache {
			continue
		}
		f, err := st.OpenFile(e.Path)
		if err != nil {
			return nil, err
		}
		return newCacheReader(f, st.Dir()+"/"+e.Path, f)
	}
	return &cacheReader{end: true}, nil
}

func newCacheReader(in io.Reader, name string, file io.Closer) (*cacheReader, error) {
	c := &cacheReader{path: name, file: file}
	var err error
	c.rows, err = record.NewReader[record.Module](in, record.ReaderOptions{Name: name})
	if err == nil {
		err = c.advance()
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return c, nil
}

func (c *cacheReader) Close() error {
	if c.file == nil {
		return nil
	}
	return c.file.Close()
}

func (c *cacheReader) corrupt(err error) error {
	return &fault.Error{Class: fault.Corrupt, File: c.path, Place: fmt.Sprintf("name %q", c.row.Name), Err: err}
}

// advance goes to the next row and checks that the file ascends.
func (c *cacheReader) advance() error {
	before := c.row
	err := c.rows.Read(&c.row)
	if err == io.EOF {
		c.end = true
		return nil
	}
	if err != nil {
		return err
	}
	if before.Name != "" && compareRows(&before, &c.row) >= 0 {
		return c.corrupt(errors.New("out of order"))
	}
	return nil
}

func compareRows(a, b *record.Module) int {
	switch {
	case a.Key < b.Key:
		return -1
	case a.Key > b.Key:
		return 1
	}
	return strings.Compare(a.Name, b.Name)
}

// seek finds a name; names must come in the file's order.
func (c *cacheReader) seek(name string) (e entry, found bool, err error) {
	want := record.Module{Key: fingerprint.OfString(name), Name: name}
	for !c.end && compareRows(&c.row, &want) < 0 {
		if err := c.advance(); err != nil {
			return e, false, err
		}
	}
	if c.end || compareRows(&c.row, &want) != 0 {
		return e, false, nil
	}
	if err := json.Unmarshal([]byte(c.row.Value), &e); err != nil {
		return e, false, c.corrupt(err)
	}
	return e, true, nil
}

// upTo gives each row before limit to keep, and skips one equal to it. A nil
// limit is the end.
func (c *cacheReader) upTo(limit *record.Module, keep func(*record.Module) error) error {
	for !c.end {
		if limit != nil {
			switch d := compareRows(&c.row, limit); {
			case d > 0:
				return nil
			case d == 0:
				return c.advance()
			}
		}
		if err := keep(&c.row); err != nil {
			return err
		}
		if err := c.advance(); err != nil {
			return err
		}
	}
	return nil
}
