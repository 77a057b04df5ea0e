package resolve

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/fetch/addrguard"
	"mercator/pkg/fingerprint"
	"mercator/pkg/stage"
)

// Bounds of one window of rows. Four are in memory at most: one is passed on, one waits
// for its answers, one is asked for, and one is gathered.
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

// Options of Resolve.
type Options struct {
	Resolver *Resolver
	Replay   *Replay // answers in place of Resolver and of the store's cache
	Parallel int     // names asked for at a time
	Memory   int64   // bound for all, bytes
	Now      func() time.Time
	Progress func(n int64) // rows done; may be nil
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
	files  cacheFiles // of the store when the batch began
	now    time.Time  // when the batch began
	intake *intake[R]
	crew   *crew[*lookup]     // asks
	gone   chan *window[R]    // rows passed on, answers to be remembered
	asking map[string]*lookup // names asked for, by windows that are not gone
	here   map[string]*lookup // names of the window that is gathered
	ended  bool               // no window is behind that one
	stored *entries           // of the store; nil before its file is read
	asked  *entries           // answers of the windows that are gone
	stats  Stats

	running sync.WaitGroup // gather
}

// lookup is a name whose answer comes.
type lookup struct {
	key   uint64 // FP64 of name
	name  string
	entry entry
	known bool

	special bool          // asked for: special-purpose addresses, and no other
	done    chan struct{} // closed when the answer is there; nil if nobody is asked
}

// window is a number of rows, with the lookup of each.
type window[R record.Row] struct {
	rows    []R
	lookups []*lookup
	first   []lookup // those that no window before it has
	err     error    // what ended the input after these rows; io.EOF if that is all
}

// resolveRows looks up the names of a batch's rows, and passes these on.
func resolveRows[R record.Row](ctx context.Context, st *store.Store, b *stage.Batch[R, R], opt Options, u use[R]) (Stats, error) {
	r := &batch[R]{opt: opt, use: u, b: b, now: opt.Now(), asking: map[string]*lookup{}, here: make(map[string]*lookup, windowRows),
		open: func() (cacheFiles, error) { return openBase(st, b.Tx()) },
		gone: make(chan *window[R], 2), asked: newEntries(opt.Memory / askedPart)}
	large := false
	if opt.Replay != nil {
		r.stored = opt.Replay.saved
	} else {
		var err error
		if r.files, err = r.open(); err != nil {
			return r.stats, err
		}
		defer r.files.Close()
		large = r.files.length() > opt.Memory/storedPart/2 // unpacked, it does not fit
		defer func() {
			if r.stored != nil {
				r.stored.Close()
			}
		}()
	}
	defer r.asked.Close()
	ctx, cancel := context.WithCancel(ctx)
	r.crew = newCrew(opt.Parallel, 0, func(l *lookup, late func()) { opt.Resolver.answer(ctx, l, late) })
	defer r.crew.running.Wait()
	defer r.running.Wait()
	defer cancel()
	r.intake = read(ctx, b, u.size, large)
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

// answer has a name looked up.
func (r *Resolver) answer(ctx context.Context, l *lookup, late func()) {
	a := r.lookup(ctx, l.name, late)
	l.entry = r.entryOf(&a)
	l.special = len(a.Addrs) > 0 && !slices.ContainsFunc(a.Addrs, func(a netip.Addr) bool { return addrguard.Special(a) == "" })
	close(l.done)
}

// intake is where rows wait for their window: they are read in a goroutine of its own, so
// that a window can end by time.
type intake[R record.Row] struct {
	size func(row *R) int

	mu     sync.Mutex
	room   sync.Cond     // rows were taken, or ended is true
	some   chan struct{} // there is a row or err
	full   chan struct{} // no other row is coming to these
	rows   []R
	bytes  int
	max    struct{ rows, bytes int } // of the window that is filled
	err    error
	closed bool
}

// read reads the rows of a batch until its input or ctx ends. Rows keep their record batch
// alive, which windowBytes bounds in text. The first window is a large one, if that is wanted.
func read[R record.Row](ctx context.Context, b *stage.Batch[R, R], size func(row *R) int, large bool) *intake[R] {
	in := &intake[R]{size: size, some: make(chan struct{}, 1), full: make(chan struct{}, 1)}
	if in.max.rows, in.max.bytes = windowRows, windowBytes; large {
		in.max.rows, in.max.bytes = firstRows, firstBytes
	}
	in.room.L = &in.mu
	context.AfterFunc(ctx, func() {
		in.mu.Lock()
		in.closed = true
		in.mu.Unlock()
		in.room.Broadcast()
	})
	go func() {
		var row R
		for {
			err := b.Read(&row)
			if !in.put(&row, err) {
				return
			}
		}
	}()
	return in
}

// put adds a row, or what ended the input, and says whether another is wanted.
func (in *intake[R]) put(row *R, err error) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	for in.isFull() && !in.closed {
		in.room.Wait()
	}
	if err != nil {
		in.err = err
	} else {
		in.rows = append(in.rows, *row)
		in.bytes += in.size(row)
	}
	if len(in.rows) <= 1 {
		signal(in.some)
	}
	if in.err != nil || in.isFull() {
		signal(in.full)
	}
	return in.err == nil && !in.closed
}

func (in *intake[R]) isFull() bool { return len(in.rows) >= in.max.rows || in.bytes > in.max.bytes }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// take gives the rows of a window: until it is full, the input pauses, or ends. The memory
// of former rows is used again.
func (in *intake[R]) take(ctx context.Context, former []R) (rows []R, err error) {
	select {
	case <-in.some:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	timer := time.NewTimer(windowWait)
	defer timer.Stop()
	select {
	case <-in.full:
	case <-timer.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	rows, in.rows, in.bytes = in.rows, former[:0], 0
	in.max.rows, in.max.bytes = windowRows, windowBytes
	select {
	case <-in.full:
	default:
	}
	select {
	case <-in.some:
	default:
	}
	in.room.Broadcast()
	return rows, in.err
}

// gather sends windows whose names are known or asked for, until the input or ctx ends.
func (r *batch[R]) gather(ctx context.Context, windows chan<- *window[R]) {
	defer close(windows)
	defer close(r.crew.work)
	var former []*window[R] // whose memory can be used again
	var failed error
	for {
		w := &window[R]{err: failed}
		var missing []*lookup
		if failed == nil {
			if n := len(former); n > 0 {
				w.rows, w.lookups, w.first, former = former[n-1].rows, former[n-1].lookups, former[n-1].first, former[:n-1]
			}
			w.rows, w.err = r.intake.take(ctx, w.rows)
			r.ended = w.err == io.EOF
			var err error
			if missing, err = r.find(w); err != nil {
				w.rows, w.err = nil, err
			}
			r.crew.hire(len(missing))
		}
		// The window is sent while its names are asked for, so that rows flow as
		// their answers come.
		sent := windows
		for sent != nil || len(missing) > 0 {
			var work chan<- *lookup
			var next *lookup
			if len(missing) > 0 {
				work, next = r.crew.work, missing[0]
			}
			select {
			case sent <- w:
				sent = nil
			case work <- next:
				missing = missing[1:]
			case w := <-r.gone:
				failed = errors.Join(failed, r.remember(w))
				former = append(former, w)
			case <-ctx.Done():
				return
			}
		}
		if w.err != nil && (w.err != io.EOF || failed == nil) {
			return
		}
	}
}

// find gives each row of a window its lookup, and returns those that must be asked for.
func (r *batch[R]) find(w *window[R]) (missing []*lookup, err error) {
	w.lookups = w.lookups[:0]
	w.first = slices.Grow(w.first[:0], len(w.rows))
	clear(r.here)
	for i := range w.rows {
		name := r.use.name(&w.rows[i])
		l := r.here[name]
		if l == nil {
			if l = r.asking[name]; l == nil {
				w.first = append(w.first, lookup{key: fingerprint.OfString(name), name: name})
				l = &w.first[len(w.first)-1]
			}
			r.here[name] = l
		}
		w.lookups = append(w.lookups, l)
	}
	if err := r.recall(w.first); err != nil {
		return nil, err
	}
	for i := range w.first {
		if l := &w.first[i]; !l.known {
			missing = append(missing, l)
		}
	}
	if r.opt.Replay != nil && len(missing) > 0 {
		return nil, r.opt.Replay.lacks(missing[0].name)
	}
	for _, l := range missing {
		l.done = make(chan struct{})
		r.asking[l.name] = l
	}
	return missing, nil
}

// recall fills in what needs no question.
func (r *batch[R]) recall(first []lookup) error {
	if r.stored == nil && len(first) > 0 {
		if err := r.load(first); err != nil {
			return err
		}
	}
	names := make([]*lookup, 0, len(first))
	for i := range first {
		l := &first[i]
		if r.opt.Replay == nil {
			if a, ok := r.opt.Resolver.literal(l.name, r.now); ok {
				l.entry, l.known = r.opt.Resolver.entryOf(&a), true
				continue
			}
		}
		names = append(names, l)
	}
	if r.stored != nil && r.stored.onDisk() || r.asked.onDisk() {
		slices.SortFunc(names, func(a, b *lookup) int { return cmp.Compare(a.key, b.key) })
	}
	if err := r.asked.getAll(names); err != nil || r.stored == nil {
		return err
	}
	return r.stored.getAll(names)
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
	err := r.files.load(r.opt.Resolver, r.now, only, func(key uint64, name string, e *entry) error {
		e.Server, e.Zone, e.Absent, e.Failed = "", "", "", "" // told to no row, and kept by the file
		return r.stored.put(key, name, e)
	})
	if err != nil {
		return err
	}
	return r.stored.flush()
}

// pass sends a window's rows on as their answers come.
func (r *batch[R]) pass(ctx context.Context, w *window[R]) error {
	for i := range w.rows {
		row, l := &w.rows[i], w.lookups[i]
		if l.done != nil {
			select {
			case <-l.done:
			case <-ctx.Done():
			}
			if err := context.Cause(ctx); err != nil {
				return err
			}
		}
		if err := r.use.tell(row, &l.entry); err != nil {
			return err
		}
		if err := r.b.Pass(row); err != nil {
			return err
		}
		if r.opt.Progress != nil {
			r.opt.Progress(1)
		}
	}
	for i := range w.first {
		switch l := &w.first[i]; {
		case l.done == nil:
			r.stats.Cached++
		case l.entry.Error != StatusOK:
			r.stats.Failed++
			if l.entry.Error == StatusTimeout || l.entry.Error == StatusNetwork {
				r.stats.Silent++
			}
			fallthrough
		default:
			r.stats.Asked++
			if l.special {
				r.stats.Special++
			}
		}
	}
	r.stats.Names += uint64(len(w.first))
	return nil
}

// remember keeps what was asked for a window. If nothing was, no other window waits for its
// lookups, and their memory can be used again.
func (r *batch[R]) remember(w *window[R]) error {
	first := w.first
	for i := range first {
		l := &first[i]
		if l.done == nil {
			continue
		}
		w.first = nil
		delete(r.asking, l.name)
		if err := r.asked.put(l.key, l.name, &l.entry); err != nil {
			return err
		}
	}
	return nil
}
