package resolve

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/bits"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/fault"
	"mercator/pkg/fetch/addrguard"
	"mercator/pkg/fingerprint"
	"mercator/pkg/localfault"
	"mercator/pkg/stage"
)

// A window of rows is full with so many, or with so much text; put together of rows that came
// apart, it may have nearly twice that. Three are in memory at most: one is passed on, one is
// asked for or waits, and one is gathered; rows of one more have been read. Where the first waits for a name that is slow to come,
// those behind it that are asked for wait on disk (see ahead.go).
const (
	windowRows  = 2048
	windowBytes = 1 << 20
	windowWait  = 200 * time.Millisecond // a slow input's rows do not wait longer for company

	// Of the first window, where the store is large: if it is the whole batch, the rest of
	// the store need not be kept.
	firstRows  = 16384
	firstBytes = 4 << 20
)

// Parts of the memory that tables take. At 64 MiB, 10^5 names of a store fit, and what is
// beyond them costs less than a garbage collector without room.
const (
	storedPart = 8
	askedPart  = 16
)

// storedName is what a name takes in a cache file at the least, in bytes, or nearly; many take 60.
const storedName = 20

// Options of Resolve.
type Options struct {
	Resolver *Resolver
	Replay   *Replay // answers in place of Resolver and of the store's cache
	Memory   int64   // bound for all, bytes
	SilentOK bool    // pass names on as timed out though no server replies to anything
	Now      func() time.Time
	Progress func(n int64) // rows done; may be nil

	ahead int64 // maxAhead, but in tests
}

// Stats of a batch. Names are Cached and Asked together.
type Stats struct {
	Names  uint64 `json:"names"`  // distinct within some windows
	Cached uint64 `json:"cached"` // answered from the store or from this batch, or without any question
	Asked  uint64 `json:"asked"`
	Failed uint64 `json:"failed"` // asked, without an address
	Silent uint64 `json:"silent"` // of those, without an answer of a server: timeout, network-error

	Special uint64 `json:"special"` // asked, with special-purpose addresses alone: not contacted unless that is allowed
}

// use is what a batch does with rows of one kind.
type use[R record.Row] struct {
	name func(row *R) string               // that is to be looked up
	size func(row *R) int                  // bytes of text, about
	tell func(row *R, answer *entry) error // puts the answer into the row
}

// Resolve is the body of mresolve: url rows in, the same out in the same order
// with addr, addr_expires and addr_error. What was learnt joins the store's
// cache when the batch commits.
func Resolve(ctx context.Context, st *store.Store, b *stage.Batch[record.URL, record.URL], opt Options) (Stats, error) {
	u := use[record.URL]{
		name: func(row *record.URL) string { return Name(row.Host) },
		size: func(row *record.URL) int { return len(row.URL) + len(row.Host) + len(row.Via) },
		tell: func(row *record.URL, e *entry) (err error) {
			if row.Addr = e.Addr; strings.Contains(e.Addr, ",") {
				row.Addr, err = rotated(e.Addr, row.Key>>48)
			}
			row.AddrExpires, row.AddrError = record.TimeOf(e.Expires), e.Error
			return err
		},
	}
	if opt.Replay != nil { // it knows hosts, with their ports, and the order of their addresses
		u.name = func(row *record.URL) string { return row.Host }
		u.tell = func(row *record.URL, e *entry) error {
			row.Addr, row.AddrExpires, row.AddrError = e.Addr, record.TimeOf(e.Expires), e.Error
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

// batch is the state of one run. One goroutine reads rows, one finds out what is known of
// their names and has the others asked, and one passes the rows on.
//
// All rows of a host get the same answer, whatever the number of hosts, so that a replay,
// which has one for each host, can give it: an answer of this batch counts for all of it,
// and one of the store that was valid when the batch began.
type batch[R record.Row] struct {
	opt    Options
	use    use[R]
	b      *stage.Batch[R, R]
	open   func() (cacheFiles, error)
	files  cacheFiles              // of the store when the batch began
	now    time.Time               // when the batch began
	large  bool                    // is the next window, the first one of a batch whose store is
	chunks chan chunk[R]           // what was read
	spare  chan []R                // memory for chunks
	gone   chan *window[R]         // rows passed on, answers to be remembered
	asking map[string]*inquiry     // by windows that are not gone
	here   []uint32                // index of the names of the window that is gathered: place + 1; 0 is empty
	names  []*lookup               // of that window, to be looked up
	ended  bool                    // no window is behind that one
	ahead  ahead                   // windows on disk
	stuck  chan struct{}           // a window that is passed on has long waited for wanted
	wanted atomic.Pointer[inquiry] // what that window waits for
	came   chan struct{}           // its answer may be there
	stored *entries                // of the store; nil before its file is read
	asked  *entries                // answers of the windows that are gone
	stats  Stats

	running sync.WaitGroup // gather
}

// lookup is a name of a window.
type lookup struct {
	key     uint64 // FP64 of name
	name    string
	entry   entry
	known   bool
	inquiry *inquiry // that has the entry, if it was not known
}

// inquiry is a name that is asked for, by one window or several.
type inquiry struct {
	key   uint64
	name  string
	entry entry

	left    *countdown  // of the window that asks
	special bool        // special-purpose addresses, and no other
	over    atomic.Bool // the answer is there
}

// countdown of a window's names whose answers are to come. Those of a window on disk are in
// memory, so that it goes there only when they are few.
type countdown struct {
	n   atomic.Int32
	few chan struct{} // closed when there are few
}

const fewNames = windowRows / 32

func newCountdown(n int) *countdown {
	c := &countdown{few: make(chan struct{})}
	if c.n.Store(int32(n)); n <= fewNames {
		close(c.few)
	}
	return c
}

func (c *countdown) down() {
	if c.n.Add(-1) == fewNames {
		close(c.few)
	}
}

// window is a number of rows, with the lookup of each.
type window[R record.Row] struct {
	rows    []R
	lookups []*lookup
	first   []lookup   // one of each name
	asked   []*inquiry // of names that no window before it has asked for
	left    *countdown // of these
	stats   Stats      // of names that are in neither any more
	few     bool       // of these have no answer
	away    *away      // where the rows are, if they are on disk
	err     error      // what ended the input after these rows; io.EOF if that is all
}

// resolveRows looks up the names of a batch's rows, and passes these on.
func resolveRows[R record.Row](ctx context.Context, st *store.Store, b *stage.Batch[R, R], opt Options, u use[R]) (Stats, error) {
	r := &batch[R]{opt: opt, use: u, b: b, now: opt.Now(), asking: map[string]*inquiry{}, stuck: make(chan struct{}), came: make(chan struct{}, 1),
		open:   func() (cacheFiles, error) { return openBase(st, b.Tx()) },
		chunks: make(chan chunk[R]), spare: make(chan []R, 1), gone: make(chan *window[R], 2), asked: newEntries(opt.Memory / askedPart), ahead: ahead{size: cmp.Or(opt.ahead, maxAhead)}}
	if opt.Replay != nil {
		r.stored = opt.Replay.saved
	} else {
		var err error
		if r.files, err = r.open(); err != nil {
			return r.stats, err
		}
		defer r.files.Close()
		r.large = r.files.length() > opt.Memory/storedPart/2 // unpacked, it does not fit
		defer func() {
			if r.stored != nil {
				r.stored.Close()
			}
		}()
	}
	defer r.asked.Close()
	defer r.ahead.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer r.running.Wait()
	defer cancel()
	go r.read(ctx)
	windows := make(chan *window[R]) // the one that is sent waits with its questions asked
	r.running.Go(func() { r.gather(ctx, windows) })
	var last *window[R]
	for w := range windows {
		if err := r.pass(ctx, w); err != nil {
			return r.stats, err
		}
		if last = w; w.err == io.EOF {
			continue // to the channel's end, from which on the batch is this goroutine's alone
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
	close(r.gone)
	for w := range r.gone {
		if err := r.remember(w); err != nil {
			return r.stats, err
		}
	}
	if err := r.remember(last); err != nil {
		return r.stats, err
	}
	if r.stored != nil {
		r.stored.Close() // the merge needs room
		r.stored = nil
	}
	tx := b.Tx()
	if tx == nil {
		var err error
		if tx, err = b.Begin(ctx); err != nil {
			return r.stats, err
		}
	}
	return r.stats, commit(tx, r.asked, r.open, opt.Now())
}

// openBase opens the cache that a transaction changes, or without one, the newest.
func openBase(st *store.Store, tx *store.Tx) (cacheFiles, error) {
	if tx != nil {
		return openCache(st, tx.Base())
	}
	for {
		m, err := st.Current()
		if err != nil {
			return nil, err
		}
		c, err := openCache(st, m)
		if !errors.Is(err, fs.ErrNotExist) {
			return c, err
		}
		// Others commit meanwhile: then there is a newer one.
		if newer, nerr := st.Current(); nerr != nil || newer.Generation == m.Generation {
			return nil, err
		}
	}
}

// ask has a name looked up, in a slot that was taken.
func (r *batch[R]) ask(q *inquiry) {
	r.opt.Resolver.begin(q.name, func(a *Answer) { r.answer(q, a) })
}

func (r *batch[R]) answer(q *inquiry, a *Answer) {
	q.entry = r.opt.Resolver.entryOf(a)
	q.special = len(a.Addrs) > 0 && !slices.ContainsFunc(a.Addrs, func(a netip.Addr) bool { return addrguard.Special(a) == "" })
	q.over.Store(true)
	if r.wanted.Load() == q {
		signal(r.came)
	}
	q.left.down()
}

// chunk is rows that came together, and what was found behind them.
type chunk[R record.Row] struct {
	rows []R
	size int   // bytes of text, about
	err  error // what ended the input; io.EOF if that is all
}

// read sends the batch's rows on, as they come. It is a goroutine of its own, so that a window
// can end by time. Rows keep their record batch alive, which windowBytes bounds in text.
func (r *batch[R]) read(ctx context.Context) {
	for {
		var c chunk[R]
		select {
		case c.rows = <-r.spare:
		default:
		}
		for more := true; more; more = r.b.Buffered() > 0 && len(c.rows) < windowRows && c.size < windowBytes {
			n := len(c.rows)
			if n == cap(c.rows) {
				c.rows = slices.Grow(c.rows, 1+min(r.b.Buffered(), windowRows-n))
			}
			c.rows = c.rows[:n+1]
			if c.err = r.b.Read(&c.rows[n]); c.err != nil {
				c.rows = c.rows[:n]
				break
			}
			c.size += r.use.size(&c.rows[n])
		}
		select {
		case r.chunks <- c:
		case <-ctx.Done():
			return
		}
		if c.err != nil {
			return
		}
	}
}

// take fills a window, until it is full, the input pauses, or ends.
func (r *batch[R]) take(ctx context.Context, w *window[R], large bool) {
	rows, bytes := windowRows, windowBytes
	if large {
		rows, bytes = firstRows, firstBytes
	}
	var late <-chan time.Time
	for size := 0; w.err == nil && len(w.rows) < rows && size < bytes; {
		select {
		case c := <-r.chunks:
			if w.err = c.err; len(w.rows) == 0 {
				w.rows = c.rows
			} else {
				w.rows = append(w.rows, c.rows...)
			}
			if size += c.size; late == nil {
				late = time.After(windowWait)
			}
		case <-late:
			return
		case <-ctx.Done():
			w.err = ctx.Err()
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// gather sends windows whose names are known or asked for, until the input or ctx ends.
func (r *batch[R]) gather(ctx context.Context, windows chan<- *window[R]) {
	defer close(windows)
	var (
		queue   []*window[R]   // to be sent; all but the last are on disk
		last    *window[R]     // of the queue, if it is in memory
		missing []*inquiry     // its names that are to be asked for
		spare   = &window[R]{} // whose memory can be used again
		taking  bool
		ended   bool // no window comes after the last
	)
	taken := make(chan *window[R], 1)
	failed := false
	fail := func(err error) {
		if err != nil && !failed {
			failed, ended, last = true, true, &window[R]{err: err}
			queue = append(queue[:0], last)
		}
	}
	reuse := func(w *window[R]) {
		if cap(w.rows) >= firstRows {
			return // the memory of a large one is given back
		}
		spare = &window[R]{lookups: w.lookups, first: w.first}
		select {
		case r.spare <- w.rows[:0]:
		default:
		}
	}
	for !ended || len(queue) > 0 || len(missing) > 0 {
		if last == nil && len(missing) == 0 && !taking && !ended {
			w, large := spare, r.large
			spare, r.large, taking = &window[R]{}, false, true
			r.running.Go(func() {
				r.take(ctx, w, large)
				taken <- w
			})
		}
		// A window is sent while its names are asked for, so that rows flow as
		// their answers come.
		var sent chan<- *window[R]
		var head *window[R]
		if len(queue) > 0 {
			sent, head = windows, queue[0]
		}
		var slots chan<- struct{}
		if len(missing) > 0 {
			slots = r.opt.Resolver.slots
		}
		var stuck, few <-chan struct{}
		if last != nil && last.err == nil && len(missing) == 0 && !r.ahead.full {
			if few = last.left.few; last.few {
				few, stuck = nil, r.stuck
			}
		}
		select {
		case w := <-taken:
			if taking = false; failed {
				break
			}
			queue, last, ended = append(queue, w), w, w.err != nil
			r.ended = w.err == io.EOF
			var err error
			missing, err = r.find(w)
			fail(err)
		case sent <- head:
			if queue = queue[1:]; head == last {
				last = nil
			}
		case slots <- struct{}{}:
			r.ask(missing[0])
			missing = missing[1:]
		case w := <-r.gone:
			fail(r.remember(w))
			if w.away == nil {
				reuse(w)
			}
		case <-few:
			last.few = true
		case <-stuck:
			memory := *last
			err := r.putAway(last)
			fail(err)
			if err == nil && last.away != nil {
				reuse(&memory)
				last = nil
			}
		case <-ctx.Done():
			return
		}
	}
}

// find gives each row of a window its lookup, and returns those names that must be asked for.
func (r *batch[R]) find(w *window[R]) (missing []*inquiry, err error) {
	w.lookups = w.lookups[:0]
	w.first = slices.Grow(w.first[:0], len(w.rows))
	here := r.emptyIndex(len(w.rows))
	for i := range w.rows {
		name := r.use.name(&w.rows[i])
		key := fingerprint.OfString(name)
		at := int(key) & (len(here) - 1)
		for here[at] != 0 && (w.first[here[at]-1].key != key || w.first[here[at]-1].name != name) {
			at = (at + 1) & (len(here) - 1)
		}
		if here[at] == 0 {
			w.first = append(w.first, lookup{key: key, name: name, inquiry: r.asking[name]})
			here[at] = uint32(len(w.first))
		}
		w.lookups = append(w.lookups, &w.first[here[at]-1])
	}
	if err := r.recall(w.first); err != nil {
		return nil, err
	}
	for i := range w.first {
		l := &w.first[i]
		if l.known || l.inquiry != nil {
			continue
		}
		if r.opt.Replay != nil {
			return nil, r.opt.Replay.lacks(l.name)
		}
		// It may outlive the window, whose text it must not keep.
		l.inquiry = &inquiry{key: l.key, name: strings.Clone(l.name)}
		r.asking[l.inquiry.name] = l.inquiry
		w.asked = append(w.asked, l.inquiry)
	}
	w.left = newCountdown(len(w.asked))
	for _, q := range w.asked {
		q.left = w.left
	}
	return w.asked, nil
}

// emptyIndex is an index for so many names, at most half full.
func (r *batch[R]) emptyIndex(names int) []uint32 {
	size := 1 << bits.Len(uint(2*names))
	if cap(r.here) < size {
		r.here = make([]uint32, size)
	}
	r.here = r.here[:size]
	clear(r.here)
	return r.here
}

// recall fills in what needs no question.
func (r *batch[R]) recall(first []lookup) error {
	if r.stored == nil && len(first) > 0 {
		if err := r.load(first); err != nil {
			return err
		}
	}
	r.names = r.names[:0]
	for i := range first {
		if first[i].inquiry == nil {
			r.names = append(r.names, &first[i])
		}
	}
	if r.stored != nil && r.stored.onDisk() || r.asked.onDisk() {
		slices.SortFunc(r.names, func(a, b *lookup) int { return cmp.Compare(a.key, b.key) })
	}
	if err := r.asked.getAll(r.names); err != nil {
		return err
	}
	if r.stored != nil {
		if err := r.stored.getAll(r.names); err != nil {
			return err
		}
	}
	if r.opt.Replay != nil {
		return nil
	}
	for _, l := range r.names {
		if l.known {
			continue
		}
		if a, ok := r.opt.Resolver.literal(l.name, r.now); ok {
			l.entry, l.known = r.opt.Resolver.entryOf(&a), true
		}
	}
	return nil
}

// load reads the store's cache. If the first names are all that the batch has, only these
// are kept.
func (r *batch[R]) load(first []lookup) error {
	var only []uint64
	if r.ended {
		for i := range first {
			only = append(only, first[i].key)
		}
		slices.Sort(only)
	}
	r.stored = newEntries(r.opt.Memory / storedPart)
	names := int64(len(only))
	if only == nil {
		names = r.files.length() / storedName
	}
	r.stored.mem.expect(names)
	err := r.files.load(r.opt.Resolver, r.now, only, func(key uint64, name string, e *entry) error {
		e.Server, e.Family, e.Zone, e.Absent, e.Failed = "", "", "", "", "" // told to no row, and kept by the file
		return r.stored.put(key, name, e)
	})
	if err != nil {
		return err
	}
	return r.stored.flush()
}

// pass sends a window's rows on as their answers come.
func (r *batch[R]) pass(ctx context.Context, w *window[R]) error {
	if w.away != nil {
		if err := r.passAway(ctx, w.away); err != nil {
			return err
		}
	}
	for i := range w.rows {
		l := w.lookups[i]
		e := &l.entry
		if l.inquiry != nil {
			if err := r.await(ctx, l.inquiry, false); err != nil {
				return err
			}
			e = &l.inquiry.entry
		}
		if err := r.forward(ctx, &w.rows[i], e); err != nil {
			return err
		}
	}
	w.count()
	r.stats.add(w.stats)
	return nil
}

// await waits for an answer. If it is slow to come, windows may go to disk; at once, if this
// one was there.
func (r *batch[R]) await(ctx context.Context, q *inquiry, atOnce bool) error {
	r.wanted.Store(q)
	if !q.over.Load() {
		var stuck chan<- struct{}
		var slow <-chan time.Time
		if atOnce {
			stuck = r.stuck
		} else {
			t := time.NewTimer(windowWait)
			defer t.Stop()
			slow = t.C
		}
		for !q.over.Load() && ctx.Err() == nil {
			select {
			case <-r.came: // or one that was wanted before
			case <-slow:
				stuck = r.stuck
			case stuck <- struct{}{}:
			case <-ctx.Done():
			}
		}
	}
	return context.Cause(ctx)
}

// forward passes a row on. One without an answer of a server is passed on only where servers
// answer at all: what comes after would take it for the fault of each of the batch's names.
func (r *batch[R]) forward(ctx context.Context, row *R, e *entry) error {
	if e.silent() && r.opt.Resolver != nil && !r.opt.SilentOK && !r.opt.Resolver.reachable(ctx) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		trouble := r.opt.Resolver.Trouble()
		if trouble != "" {
			trouble = " (" + trouble + ")"
		}
		return &fault.Error{Class: fault.No, Found: "no answer from any DNS server, to anything that was asked", Want: "one that answers",
			Hint: "name a server that can be reached by --server, or by servers in crawl.toml, and run this again: nothing was committed; --silent-ok goes on without" + trouble}
	}
	if err := r.use.tell(row, e); err != nil {
		return err
	}
	if err := r.b.Pass(row); err != nil {
		return err
	}
	if r.opt.Progress != nil {
		r.opt.Progress(1)
	}
	return nil
}

// count adds the window's names, all of which have their answers, to its stats.
func (w *window[R]) count() {
	for i := range w.first {
		if w.first[i].known {
			w.stats.Cached++
			w.stats.Names++
		}
	}
	for _, q := range w.asked {
		w.stats.count(q)
	}
}

// silent says that no server answered.
func (e *entry) silent() bool {
	return e.Error == StatusTimeout || e.Error == StatusNetwork || localfault.Is(e.Error)
}

// count adds a name that was asked for.
func (s *Stats) count(q *inquiry) {
	s.Names++
	s.Asked++
	if q.entry.Error != StatusOK {
		s.Failed++
	}
	if q.entry.silent() {
		s.Silent++
	}
	if q.special {
		s.Special++
	}
}

func (s *Stats) add(o Stats) {
	s.Names += o.Names
	s.Cached += o.Cached
	s.Asked += o.Asked
	s.Failed += o.Failed
	s.Silent += o.Silent
	s.Special += o.Special
}

// remember keeps what was asked for a window that is gone.
func (r *batch[R]) remember(w *window[R]) error {
	if w.away != nil {
		r.ahead.free(w.away)
	}
	for _, q := range w.asked {
		if err := r.learn(q); err != nil {
			return err
		}
	}
	return nil
}

// learn keeps an answer.
func (r *batch[R]) learn(q *inquiry) error {
	delete(r.asking, q.name)
	return r.asked.put(q.key, q.name, &q.entry)
}
