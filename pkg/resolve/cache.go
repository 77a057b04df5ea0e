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

// appendTo appends the value of a row. Texts in which JSON escapes nothing, which is
// nearly all, need no stack for encoding/json: that was half the memory of goroutines.
func (e *entry) appendTo(b []byte) ([]byte, error) {
	fields := [...]struct{ name, text string }{
		{"addr", e.Addr}, {"expires", ""}, {"error", e.Error}, {"cname", e.CNAME}, {"server", e.Server}, {"family", e.Family},
	}
	for i := range fields {
		if !plain(fields[i].text) {
			value, err := json.Marshal(e)
			return append(b, value...), err
		}
	}
	sep := byte('{')
	for i, f := range fields {
		isTime := i == 1
		if f.text == "" && !isTime {
			continue
		}
		b = append(append(append(b, sep, '"'), f.name...), `":"`...)
		if isTime {
			b = e.Expires.AppendFormat(b, time.RFC3339Nano)
		}
		b = append(append(b, f.text...), '"')
		sep = ','
	}
	return append(b, '}'), nil
}

// plain says that JSON writes a text as it is.
func plain(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}

// parseEntry reads the value of a row. Those that toEntry made have one shape, which
// is read here eight times as fast as by encoding/json: a warm cache is read at each round.
func parseEntry(value string) (e entry, err error) {
	rest, ok := strings.CutPrefix(value, "{")
	for ok && rest != "}" {
		var name, text string
		if name, rest, ok = quoted(strings.TrimPrefix(rest, ",")); !ok || rest == "" || rest[0] != ':' {
			ok = false
			break
		}
		if text, rest, ok = quoted(rest[1:]); !ok {
			break
		}
		switch name {
		case "addr":
			e.Addr = text
		case "expires":
			e.Expires, err = time.Parse(time.RFC3339Nano, text)
		case "error":
			e.Error = text
		case "cname":
			e.CNAME = text
		case "server":
			e.Server = text
		case "family":
			e.Family = text
		default:
			ok = false
		}
	}
	if ok {
		return e, err
	}
	e = entry{}
	return e, json.Unmarshal([]byte(value), &e)
}

// quoted reads a string of JSON in which nothing is escaped.
func quoted(s string) (text, rest string, ok bool) {
	if s == "" || s[0] != '"' {
		return "", s, false
	}
	text, rest, ok = strings.Cut(s[1:], `"`)
	return text, rest, ok && !strings.Contains(text, `\`)
}

// told is an answer as rows tell it.
type told struct {
	addrs   string // before Rotate
	status  string
	cname   string
	expires time.Time
}

func tell(a *Answer) told {
	return told{FormatAddrs(a.Addrs), a.Status, a.CNAME, a.Expires.UTC().Truncate(time.Microsecond)}
}

// tell is what an entry gives those who want addresses of r's family, or all if r is nil.
func (r *Resolver) tell(e *entry) (told, error) {
	if r == nil || e.Family == r.cfg.Family || e.Family == "" && r.cfg.Family == "any" {
		return told{e.Addr, e.Error, e.CNAME, e.Expires}, nil
	}
	addrs, err := parseAddrs(e.Addr)
	if err != nil {
		return told{}, err
	}
	a := r.wanted(Answer{Addrs: addrs, Status: e.Error, CNAME: e.CNAME, Expires: e.Expires})
	return tell(&a), nil
}

func parseAddrs(list string) (addrs []netip.Addr, err error) {
	for s := range strings.SplitSeq(list, ",") {
		if s == "" {
			continue
		}
		a, err := netip.ParseAddr(s)
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, a)
	}
	return addrs, nil
}

// Bounds of one window of rows, which is looked up in the store by one pass. Three are
// in memory at most: one waits for its answers, one is asked for, and one is gathered.
const (
	windowRows  = 4096
	windowBytes = 2 << 20
	windowWait  = 200 * time.Millisecond // a slow input's rows do not wait longer for company
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

// batch is the state of one run. One goroutine gathers windows, finds out what is
// known of their names and has the others asked; another passes the rows on.
type batch[R record.Row] struct {
	opt    Options
	use    use[R]
	b      *stage.Batch[R, R]
	cache  func() (*cacheReader, error)
	now    time.Time // when the batch began: an answer that was valid then is valid for all of it
	rows   <-chan rowOrErr[R]
	work   chan *lookup
	gone   chan *window[R]    // rows passed on, answers to be remembered
	asking map[string]*lookup // of the windows that are not gone
	known  *table             // of those that are, and of the store
	loaded bool               // the store was read into known, as far as it fits
	whole  bool               // it did fit
	fresh  *merge.Sorter      // answers to be committed
	entry  []byte             // of them, the last; its memory is used again
	stats  Stats
}

// lookup is a name whose answer comes.
type lookup struct {
	key  uint64 // FP64 of name
	name string
	told
	server string        // that was asked
	asked  chan struct{} // closed when the answer is there; nil if nobody need be asked
}

// answer has a name looked up.
func (r *Resolver) answer(ctx context.Context, l *lookup) {
	a := r.Lookup(ctx, l.name)
	l.told, l.server = tell(&a), a.Server
	close(l.asked)
}

// before says whether a cache file has the name before another.
func (l *lookup) before(key uint64, name string) bool {
	return l.key < key || l.key == key && l.name < name
}

// window is a number of rows, with the lookup of each.
type window[R record.Row] struct {
	rows    []R
	lookups []*lookup
	first   []*lookup // those that no window before it has
	cached  uint64
	err     error // what ended the input after these rows; io.EOF if that is all
}

// use is what a batch does with rows of one kind.
type use[R record.Row] struct {
	name func(row *R) string              // that is to be looked up
	size func(row *R) int                 // bytes of text, about
	tell func(row *R, answer *told) error // puts the answer into the row
}

// Resolve is the body of mresolve: url rows in, the same out in the same order
// with addr, addr_expires and addr_error. What was learnt joins the store's
// cache when the batch commits.
func Resolve(ctx context.Context, st *store.Store, b *stage.Batch[record.URL, record.URL], opt Options) (Stats, error) {
	u := use[record.URL]{
		name: func(row *record.URL) string { return Name(row.Host) },
		size: func(row *record.URL) int { return len(row.URL) + len(row.Host) + len(row.Via) },
		tell: func(row *record.URL, t *told) (err error) {
			if row.Addr = t.addrs; strings.Contains(t.addrs, ",") {
				row.Addr, err = rotated(t.addrs, row.Key>>48)
			}
			row.AddrExpires = record.TimeOf(t.expires)
			row.AddrError = t.status
			return err
		},
	}
	if opt.Replay != nil { // it knows hosts, with their ports, and the order of their addresses
		u.name = func(row *record.URL) string { return row.Host }
		u.tell = func(row *record.URL, t *told) error {
			row.Addr, row.AddrExpires, row.AddrError = t.addrs, record.TimeOf(t.expires), t.status
			return nil
		}
	}
	return resolveRows(ctx, st, b, opt, u)
}

func rotated(list string, hash uint64) (string, error) {
	addrs, err := parseAddrs(list)
	if err != nil {
		return "", err
	}
	return FormatAddrs(Rotate(addrs, hash)), nil
}

// resolveRows looks up the names of a batch's rows, and passes these on.
func resolveRows[R record.Row](ctx context.Context, st *store.Store, b *stage.Batch[R, R], opt Options, u use[R]) (Stats, error) {
	r := &batch[R]{opt: opt, use: u, b: b, now: opt.Now(), asking: map[string]*lookup{}, known: newTable(opt.Memory / 6),
		work: make(chan *lookup), gone: make(chan *window[R], 2), fresh: merge.NewSorter(opt.Memory/32, "")}
	defer r.fresh.Close()
	base := b.Tx().Base()
	r.cache = func() (*cacheReader, error) { return openCache(st, base) }
	if opt.Replay != nil {
		r.cache = opt.Replay.open
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	r.rows = r.readAhead(ctx)
	windows := make(chan *window[R]) // the one that is sent waits with its questions asked
	running.Go(func() { r.gather(ctx, windows) })
	if opt.Replay == nil {
		for range opt.Parallel {
			running.Go(func() {
				for l := range r.work {
					opt.Resolver.answer(ctx, l)
				}
			})
		}
	}
	for w := range windows {
		if err := r.pass(ctx, w); err != nil {
			return r.stats, err
		}
		if w.err == io.EOF {
			break
		}
		if w.err != nil {
			return r.stats, w.err
		}
		select {
		case r.gone <- w:
		case <-ctx.Done(): // then nobody may take it
		}
	}
	if err := context.Cause(ctx); err != nil {
		return r.stats, err
	}
	if opt.Replay != nil {
		return r.stats, nil // saved answers are not news
	}
	return r.stats, commit(b.Tx(), r.fresh, r.cache, opt.Now())
}

type rowOrErr[R record.Row] struct {
	row R
	err error
}

// readAhead reads rows in a goroutine of its own, so that a window can end by time.
func (r *batch[R]) readAhead(ctx context.Context) <-chan rowOrErr[R] {
	ch := make(chan rowOrErr[R], 256)
	go func() {
		defer close(ch)
		for {
			var v rowOrErr[R]
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
func (r *batch[R]) collect(ctx context.Context) (window []R, err error) {
	var timeout <-chan time.Time
	size := 0
	for {
		select {
		case v, ok := <-r.rows:
			if !ok {
				return window, ctx.Err()
			}
			if v.err != nil {
				return window, v.err
			}
			window = append(window, v.row)
			size += r.use.size(&v.row)
			if len(window) == windowRows || size > windowBytes {
				return window, nil
			}
			if timeout == nil {
				timeout = time.After(windowWait)
			}
		case <-timeout:
			return window, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// gather sends windows whose names are known or asked for, until the input or ctx ends.
func (r *batch[R]) gather(ctx context.Context, windows chan<- *window[R]) {
	defer close(windows)
	defer close(r.work)
	for {
		w := &window[R]{}
		w.rows, w.err = r.collect(ctx)
		missing, err := r.find(w)
		if err != nil {
			w.rows, w.err = nil, err
		}
		// The window is sent while its names are asked for, so that rows flow as
		// their answers come.
		sent := windows
		for sent != nil || len(missing) > 0 {
			var work chan<- *lookup
			var next *lookup
			if len(missing) > 0 {
				work, next = r.work, missing[0]
			}
			select {
			case sent <- w:
				sent = nil
			case work <- next:
				missing = missing[1:]
			case g := <-r.gone:
				r.remember(g)
			case <-ctx.Done():
				return
			}
		}
		if w.err != nil {
			return
		}
	}
}

// find gives each row of a window its lookup, and returns those that must be asked for.
func (r *batch[R]) find(w *window[R]) (missing []*lookup, err error) {
	w.lookups = make([]*lookup, len(w.rows))
	for i := range w.rows {
		name := r.use.name(&w.rows[i])
		l := r.asking[name]
		if l == nil {
			l = &lookup{key: fingerprint.OfString(name), name: name}
			r.asking[name] = l
			w.first = append(w.first, l)
			if t, ok := r.known.get(l.key, name); ok && r.valid(t.expires) {
				l.told = t
				w.cached++
			} else {
				missing = append(missing, l)
			}
		}
		w.lookups[i] = l
	}
	if missing, err = r.lookUp(w, missing); err != nil {
		return nil, err
	}
	if r.opt.Replay != nil && len(missing) > 0 {
		return nil, r.opt.Replay.lacks(missing[0].name)
	}
	for _, l := range missing {
		l.asked = make(chan struct{})
	}
	return missing, nil
}

// pass sends a window's rows on as their answers come, and keeps the answers.
func (r *batch[R]) pass(ctx context.Context, w *window[R]) error {
	for i := range w.rows {
		row, l := &w.rows[i], w.lookups[i]
		if l.asked != nil {
			select {
			case <-l.asked:
			case <-ctx.Done():
			}
			if err := context.Cause(ctx); err != nil {
				return err
			}
		}
		if err := r.use.tell(row, &l.told); err != nil {
			return err
		}
		if err := r.b.Pass(row); err != nil {
			return err
		}
		if r.opt.Progress != nil {
			r.opt.Progress(1)
		}
	}
	r.stats.Names += uint64(len(w.first))
	r.stats.Cached += w.cached
	for _, l := range w.first {
		if err := r.keep(l); err != nil {
			return err
		}
	}
	return nil
}

// keep puts an answer that was asked for among those to be committed.
func (r *batch[R]) keep(l *lookup) error {
	if l.asked == nil {
		return nil
	}
	r.stats.Asked++
	if l.status != StatusOK {
		r.stats.Failed++
	}
	var err error
	if r.entry, err = r.opt.Resolver.appendEntry(r.entry[:0], l.name, &l.told, l.server); err != nil || len(r.entry) == 0 {
		return err
	}
	return r.fresh.Add(l.key, r.entry)
}

// appendEntry appends an answer for the store: the name, a zero, the value; nothing for
// a name that costs no question.
func (r *Resolver) appendEntry(b []byte, name string, t *told, server string) ([]byte, error) {
	if _, literal := Literal(name); literal {
		return b, nil
	}
	e := entry{Addr: t.addrs, Expires: t.expires, Error: t.status, CNAME: t.cname, Server: server}
	if family := r.cfg.Family; family != "any" {
		e.Family = family
	}
	return e.appendTo(append(append(b, name...), 0))
}

// remember keeps the answers of a window for later ones.
func (r *batch[R]) remember(w *window[R]) {
	for _, l := range w.first {
		delete(r.asking, l.name)
		r.know(l.key, l.name, l.told)
	}
}

// know puts an answer into the table, which may have to be emptied for it.
func (r *batch[R]) know(key uint64, name string, t told) (hadRoom bool) {
	hadRoom = r.known.put(key, name, t)
	r.whole = r.whole && hadRoom
	return hadRoom
}

// valid says whether an answer counts in this batch: all rows of a host get the
// same one, so that a replay, which has one for each host, can give it. A saved
// answer always counts.
func (r *batch[R]) valid(expires time.Time) bool {
	return r.opt.Replay != nil || expires.After(r.now)
}

// lookUp fills in what the cache file knows, by one pass over it, and returns the rest.
// The first pass loads the file into the table, if it fits: then it is the only one.
func (r *batch[R]) lookUp(w *window[R], names []*lookup) (missing []*lookup, err error) {
	if len(names) == 0 || r.whole {
		return names, nil
	}
	c, err := r.cache()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	sort.Slice(names, func(i, j int) bool { return names[i].before(names[j].key, names[j].name) })
	load := !r.loaded
	r.loaded = true
	for ; !c.end && (load || len(names) > 0); err = c.advance() {
		if err != nil {
			return nil, err
		}
		for len(names) > 0 && names[0].before(c.row.Key, c.row.Name) {
			missing = append(missing, names[0])
			names = names[1:]
		}
		hit := len(names) > 0 && names[0].name == c.row.Name
		if !hit && !load {
			continue
		}
		e, err := parseEntry(c.row.Value)
		if err != nil {
			return nil, c.corrupt(err)
		}
		good := r.valid(e.Expires) && r.opt.Resolver.covers(&e)
		t, err := r.opt.Resolver.tell(&e)
		if err != nil {
			return nil, c.corrupt(err)
		}
		switch {
		case hit && good:
			// A part of a text would keep the cache's record batch alive; a window's
			// hits lie in all of them.
			t.addrs, t.status, t.cname = strings.Clone(t.addrs), strings.Clone(t.status), strings.Clone(t.cname)
			names[0].told = t
			w.cached++
		case hit:
			missing = append(missing, names[0])
		case good:
			load = r.know(c.row.Key, c.row.Name, t)
		}
		if hit {
			names = names[1:]
		}
	}
	if err != nil {
		return nil, err
	}
	r.whole = load
	return append(missing, names...), nil
}

// covers says whether an entry was asked for all the addresses wanted now.
func (r *Resolver) covers(e *entry) bool {
	return e.Family == "" || r == nil || e.Family == r.cfg.Family
}

// commit merges fresh answers with those of base into a new cache file, which leaves out
// what has expired by now.
func commit(tx *store.Tx, fresh *merge.Sorter, open func() (*cacheReader, error), now time.Time) error {
	it, err := fresh.Sort()
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
	old, err := open()
	if err != nil {
		return err
	}
	defer old.Close()
	f, err := tx.Create("cache/", ".arrows.zst", roleCache)
	if err != nil {
		return err
	}
	w, err := record.NewWriter[record.Module](f, record.WriterOptions{Name: f.Path(), Level: record.Fast})
	if err != nil {
		return err
	}
	keep := func(m *record.Module) error {
		e, err := parseEntry(m.Value)
		if err != nil {
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
	for _, e := range tx.Base().Files {
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
