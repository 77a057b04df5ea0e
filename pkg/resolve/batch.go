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
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/fault"
	"mercator/pkg/fetch/addrguard"
	"mercator/pkg/fingerprint"
	"mercator/pkg/localfault"
	"mercator/pkg/stage"
)

// Rows come in blocks of at most so many, or so much text: what the input has without waiting.
const (
	blockRows  = 2048
	blockBytes = 1 << 20
	flushWait  = 200 * time.Millisecond // a slow input's rows do not wait longer for company

	// Of the first block, where the store is large: if it is the whole batch, the rest of
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

	spill int64 // maxSpill, but in tests
}

// Stats of a batch. Names are Cached and Asked together.
type Stats struct {
	Names  uint64 `json:"names"`  // distinct within a block of rows
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

// batch is the state of one run.
//
// Blocks of rows stand in a queue, in the order of the input. When a block comes its names are
// looked up in the answers of this batch and in the store, and those that neither has are asked
// for; the next block is taken in when all have been asked. The first block's rows go out as their answers come. While one is slow to come,
// the blocks behind it, as many as there is room for, go to disk (see spill.go): rows alone, since
// all answers go to r.asked, where they are looked up again when a block comes back.
//
// All rows of a host get the same answer, whatever the number of hosts, so that a replay,
// which has one for each host, can give it: an answer of this batch counts for all of it,
// and one of the store that was valid when the batch began.
type batch[R record.Row] struct {
	opt     Options
	use     use[R]
	b       *stage.Batch[R, R]
	like    *record.Schema // of rows
	open    func() (cacheFiles, error)
	files   cacheFiles          // of the store when the batch began
	now     time.Time           // when the batch began
	chunks  chan chunk[R]       // what was read
	free    block[R]            // whose memory can be used again
	spare   chan []R            // memory for chunks
	queue   []*block[R]         // that have not gone out
	asking  map[string]*inquiry // names whose answers are to come
	missing []*inquiry          // of these, to be asked for
	here    []uint32            // index of a block's names: place + 1; 0 is empty
	names   []*lookup           // of a block, to be looked up
	spill   spill               // blocks of the queue that are on disk
	stored  *entries            // of the store; nil before its files are read
	asked   *entries            // answers of this batch
	stats   Stats

	mu       sync.Mutex
	answered []*inquiry    // whose answers are to be taken in
	came     chan struct{} // there are some
}

// lookup is a name of a block.
type lookup struct {
	key     uint64 // FP64 of name
	name    string
	entry   entry
	known   bool
	inquiry *inquiry // that has the entry, if it was not known
}

// inquiry is a name that is asked for.
type inquiry struct {
	key     uint64
	name    string
	entry   entry
	special bool // special-purpose addresses, and no other
	over    bool // the answer is there
}

// block is a number of rows, with the lookup of each.
type block[R record.Row] struct {
	rows    []R // nil: they are on disk
	size    int // bytes of text, about
	lookups []*lookup
	first   []lookup // one of each name
	next    int      // row that goes out next
	away    away     // where the rows are on disk
}

// resolveRows looks up the names of a batch's rows, and passes these on.
func resolveRows[R record.Row](ctx context.Context, st *store.Store, b *stage.Batch[R, R], opt Options, u use[R]) (Stats, error) {
	r := &batch[R]{opt: opt, use: u, b: b, like: b.Schema(), now: opt.Now(), asking: map[string]*inquiry{}, came: make(chan struct{}, 1),
		open:   func() (cacheFiles, error) { return openBase(st, b.Tx()) },
		chunks: make(chan chunk[R]), spare: make(chan []R, 1), asked: newEntries(opt.Memory / askedPart), spill: spill{size: cmp.Or(opt.spill, maxSpill)}}
	if opt.Replay != nil {
		r.stored = opt.Replay.saved
	} else {
		var err error
		if r.files, err = r.open(); err != nil {
			return r.stats, err
		}
		defer r.files.Close()
		defer func() {
			if r.stored != nil {
				r.stored.Close()
			}
		}()
	}
	defer r.asked.Close()
	defer r.spill.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go r.read(ctx)
	if err := r.run(ctx); err != nil || opt.Replay != nil { // saved answers are not news
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

// run takes rows in, has their names asked for, and passes them on, until all are out.
func (r *batch[R]) run(ctx context.Context) error {
	var ended error // that of the input, io.EOF too
	for first := true; ended == nil || len(r.queue) > 0; {
		if err := r.learn(); err != nil {
			return err
		}
		if err := r.pass(ctx); err != nil {
			return err
		}
		var chunks <-chan chunk[R]
		var slots chan<- struct{}
		switch {
		case len(r.missing) > 0:
			slots = r.opt.Resolver.slots
		case ended == nil:
			room, err := r.room()
			if err != nil {
				return err
			}
			if room {
				chunks = r.chunks
			}
		case len(r.queue) == 0:
			continue
		}
		select {
		case c := <-chunks:
			if first {
				r.company(ctx, &c)
			}
			ended = c.err
			if err := r.take(&c, first && ended != nil); err != nil {
				return err
			}
			first = false
		case slots <- struct{}{}:
			r.ask()
			for len(r.missing) > 0 && r.opt.Resolver.tryEnter() {
				r.ask()
			}
		case <-r.came:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if ended != io.EOF {
		return ended
	}
	return nil
}

// ask has the first missing name looked up, in a slot that was taken.
func (r *batch[R]) ask() {
	q := r.missing[0]
	r.missing = r.missing[1:]
	r.opt.Resolver.begin(q.name, func(a *Answer) {
		q.entry = r.opt.Resolver.entryOf(a)
		q.special = len(a.Addrs) > 0 && !slices.ContainsFunc(a.Addrs, func(a netip.Addr) bool { return addrguard.Special(a) == "" })
		r.mu.Lock()
		r.answered = append(r.answered, q)
		r.mu.Unlock()
		select {
		case r.came <- struct{}{}:
		default:
		}
	})
}

// learn takes in the answers that have come.
func (r *batch[R]) learn() error {
	r.mu.Lock()
	answered := r.answered
	r.answered = nil
	r.mu.Unlock()
	for _, q := range answered {
		q.over = true
		delete(r.asking, q.name)
		r.stats.count(q)
		if err := r.asked.put(q.key, q.name, &q.entry); err != nil {
			return err
		}
	}
	return nil
}

// chunk is rows that came together, and what was found behind them.
type chunk[R record.Row] struct {
	rows []R
	size int   // bytes of text, about
	err  error // what ended the input; io.EOF if that is all
}

// read sends the batch's rows on, as they come. Rows keep their record batch alive, which blockBytes
// bounds in text.
func (r *batch[R]) read(ctx context.Context) {
	for {
		var c chunk[R]
		select {
		case c.rows = <-r.spare:
		default:
		}
		for more := true; more; more = r.b.Buffered() > 0 && len(c.rows) < blockRows && c.size < blockBytes {
			n := len(c.rows)
			if n == cap(c.rows) {
				c.rows = slices.Grow(c.rows, 1+min(r.b.Buffered(), blockRows-n))
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

// company adds to the first chunk, where the store is large, what comes in a short time.
func (r *batch[R]) company(ctx context.Context, c *chunk[R]) {
	if r.files.length() <= r.opt.Memory/storedPart/2 { // unpacked, it fits
		return
	}
	late := time.After(flushWait)
	for c.err == nil && len(c.rows) < firstRows && c.size < firstBytes {
		select {
		case more := <-r.chunks:
			c.rows, c.size, c.err = append(c.rows, more.rows...), c.size+more.size, more.err
		case <-late:
			return
		case <-ctx.Done():
			c.err = context.Cause(ctx)
		}
	}
}

// take puts a chunk's rows into the queue. only: they are the whole batch.
func (r *batch[R]) take(c *chunk[R], only bool) error {
	if len(c.rows) == 0 {
		return nil
	}
	w := &block[R]{rows: c.rows, size: c.size}
	if err := r.find(w, only); err != nil {
		return err
	}
	for i := range w.first {
		if w.first[i].known {
			r.stats.Cached++
			r.stats.Names++
		}
	}
	r.queue = append(r.queue, w)
	return nil
}

// room says whether another block may be taken in. If there are many rows in memory, the last
// block goes to disk for it.
func (r *batch[R]) room() (bool, error) {
	rows, size := 0, 0
	for _, w := range r.queue {
		rows += len(w.rows)
		size += w.size
	}
	if rows < 2*blockRows && size < 2*blockBytes || len(r.queue) == 0 {
		return true, nil
	}
	last := r.queue[len(r.queue)-1]
	if len(r.queue) > 1 && last.rows != nil {
		if err := r.putAway(last); err != nil {
			return false, err
		}
	}
	return last.rows == nil, nil
}

// find gives each row of a block its lookup. Names of which nothing is known are to be asked for.
func (r *batch[R]) find(w *block[R], only bool) error {
	w.lookups = r.free.lookups[:0]
	w.first = slices.Grow(r.free.first[:0], len(w.rows)) // it is pointed to, and does not grow
	r.free = block[R]{}
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
	if r.stored == nil {
		if err := r.load(w.first, only); err != nil {
			return err
		}
	}
	if err := r.recall(w.first); err != nil {
		return err
	}
	for i := range w.first {
		l := &w.first[i]
		if l.known || l.inquiry != nil {
			continue
		}
		if r.opt.Replay != nil {
			return r.opt.Replay.lacks(l.name)
		}
		// It may outlive the block, whose text it must not keep.
		l.inquiry = &inquiry{key: l.key, name: strings.Clone(l.name)}
		r.asking[l.inquiry.name] = l.inquiry
		r.missing = append(r.missing, l.inquiry)
	}
	return nil
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
	r.names = r.names[:0]
	for i := range first {
		if first[i].inquiry == nil {
			r.names = append(r.names, &first[i])
		}
	}
	if r.stored.onDisk() || r.asked.onDisk() {
		slices.SortFunc(r.names, func(a, b *lookup) int { return cmp.Compare(a.key, b.key) })
	}
	if err := r.asked.getAll(r.names); err != nil {
		return err
	}
	if err := r.stored.getAll(r.names); err != nil {
		return err
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
func (r *batch[R]) load(first []lookup, all bool) error {
	var only []uint64
	if all {
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
		e.Server, e.Family = "", "" // told to no row, and kept by the file
		return r.stored.put(key, name, e)
	})
	if err != nil {
		return err
	}
	return r.stored.flush()
}

// pass sends rows of the queue on, up to the first whose answer is to come.
func (r *batch[R]) pass(ctx context.Context) error {
	for len(r.queue) > 0 {
		w := r.queue[0]
		if w.rows == nil {
			if err := r.fetch(w); err != nil {
				return err
			}
		}
		for ; w.next < len(w.rows); w.next++ {
			l := w.lookups[w.next]
			e := &l.entry
			if l.inquiry != nil {
				if e = &l.inquiry.entry; !l.inquiry.over {
					return nil
				}
			}
			if err := r.forward(ctx, &w.rows[w.next], e); err != nil {
				return err
			}
		}
		r.queue[0] = nil
		r.queue = r.queue[1:]
		r.spill.full = false
		if cap(w.rows) < firstRows { // the memory of a large one is given back
			r.free = *w
			select {
			case r.spare <- w.rows[:0]:
			default:
			}
		}
	}
	return nil
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
