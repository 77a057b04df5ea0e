package resolve

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/fetch/addrguard"
	"mercator/pkg/folder/stage"
)

const (
	blockRows  = 2048 // rows are read in blocks of at most so many, or so many bytes: what the input has without waiting
	blockBytes = 1 << 20

	// Names are looked up in files together, since that reads much of a file: the names of so many rows, or of the rows that come in so much time.
	groupRows = 64 * blockRows
	groupWait = 20 * time.Millisecond

	tablePart = 6       // of the memory is for the table, and as much for rows that wait
	tableMax  = 2 << 30 // bytes
)

// Options of Resolve.
type Options struct {
	Resolver *Resolver
	Replay   *Replay // answers in place of Resolver and of the store's cache
	Memory   int64   // bound for all, bytes
	SilentOK bool    // pass names on as timed out though no server replies to anything
	Now      func() time.Time
	Progress func(n int64) // rows done; may be nil
}

// Stats of a batch. Names are Cached and Asked together.
type Stats struct {
	Names  uint64 `json:"names"`  // distinct, as far as the memory holds them
	Cached uint64 `json:"cached"` // answered from the store or from this batch, or without any question
	Asked  uint64 `json:"asked"`
	Failed uint64 `json:"failed"` // asked, without an address
	Silent uint64 `json:"silent"` // failed names without an answer of any server: timeout, network-error

	Special uint64 `json:"special"` // asked, with special-purpose addresses alone: not contacted unless that is allowed

	LookupsS float64 `json:"lookups_s"` // sum over the names asked of the time from the first question to the answer, seconds
}

// use is how a batch handles rows of one kind.
type use[R record.Row] struct {
	name func(row *R) string           // returns the name to look up
	tell func(row *R, a *answer) error // puts the answer into the row
}

// Resolve is the body of mresolve: url rows in, the same out in the same order with addr, addr_expires and addr_error. What was learnt
// joins the store's cache when the batch commits.
func Resolve(ctx context.Context, st *store.Store, b *stage.Batch[record.URL, record.URL], opt Options) (Stats, error) {
	u := use[record.URL]{
		name: func(row *record.URL) string { return Name(row.Host) },
		tell: func(row *record.URL, a *answer) (err error) {
			if row.Addr = a.addr; opt.Replay == nil && strings.Contains(a.addr, ",") {
				var addrs []netip.Addr
				addrs, err = parseAddrs(a.addr)
				row.Addr = FormatAddrs(rotated(addrs, row.Key>>48))
			}
			row.AddrExpires, row.AddrError = a.expires, a.status
			return err
		},
	}
	if opt.Replay != nil { // it knows hosts, with their ports, and the order of their addresses
		u.name = func(row *record.URL) string { return row.Host }
	}
	return resolveRows(ctx, st, b, opt, u)
}

// batch is the state of one run.
//
// Rows wait in a queue, in the order of the input, until their names' answers are in the table. The names
// that it has not are looked for in the files of the store and of learnt; for the others
// servers are asked. While a name is slow to come the rows behind it wait, and their names are asked for.
//
// When the table is full no more rows are taken in until the queue is empty; then it is begun again.
//
// All rows of a name get the same answer, whatever the number of names, so that a replay, which has one for each host, can give it: an
// answer of this batch counts for all of it, and one of the store that was valid when the batch began.
type batch[R record.Row] struct {
	opt    Options
	use    use[R]
	b      *stage.Batch[R, R]
	like   *record.Schema // of rows
	files  cacheFiles     // of the store when the batch began
	now    record.Time    // when the batch began
	learnt *learnt
	stats  Stats

	blocks chan *block // rows that were read
	ended  error       // of the input, valid when blocks is closed; io.EOF too
	queue  []*block    // blocks not written yet
	memory int64       // bytes of their rows

	unknown []uint32         // names that are to be looked for in files
	behind  int              // rows since the first of these
	late    <-chan time.Time // then they have waited long enough
	missing []uint32         // names to be asked for
	came    chan came        // has room for all that can be asked for at a time, and for begin, which may answer at once
}

// came is a name with its answer.
type came struct {
	name   uint32
	answer *answer
	took   time.Duration // from question to answer
}

// block is a number of rows that came together.
type block struct {
	rows    string   // byte forms
	names   []string // of each row, until they are looked up
	numbers []uint32 // then
	next    int      // row that goes out next
	read    int      // bytes of rows before it
}

// resolveRows looks up the names of a batch's rows, and passes these on.
func resolveRows[R record.Row](ctx context.Context, st *store.Store, b *stage.Batch[R, R], opt Options, u use[R]) (Stats, error) {
	r := &batch[R]{opt: opt, use: u, b: b, like: b.Schema(), now: record.TimeOf(opt.Now()), learnt: newLearnt(opt.Resolver), blocks: make(chan *block)}
	defer r.learnt.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var err error
	if opt.Replay != nil {
		r.files, r.now = opt.Replay.saved.runs, never
	} else {
		if r.files, err = openBase(st, b.Tx()); err != nil {
			return r.stats, err
		}
		defer r.files.Close()
		r.came = make(chan came, cap(opt.Resolver.slots)+cap(opt.Resolver.late)+1)
	}
	go r.read(ctx)
	if err := r.run(ctx); err != nil {
		return r.stats, err
	}
	if err := r.learnt.flush(); err != nil {
		return r.stats, err
	}
	tx := b.Tx()
	if tx == nil {
		if tx, err = b.Begin(ctx); err != nil {
			return r.stats, err
		}
	}
	if len(r.learnt.runs) == 0 {
		return r.stats, nil // nothing new: the files stay
	}
	return r.stats, commit(tx, st, r.learnt, record.TimeOf(opt.Now()))
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
	for r.blocks != nil || len(r.queue) > 0 {
		for len(r.came) > 0 {
			r.learn(<-r.came)
		}
		if err := r.pass(ctx); err != nil {
			return err
		}
		room, err := r.room()
		if err != nil {
			return err
		}
		var blocks <-chan *block
		var slots chan<- struct{}
		switch {
		case r.blocks == nil && len(r.queue) == 0:
			continue // all are out
		case len(r.missing) > 0:
			slots = r.opt.Resolver.slots
		case len(r.unknown) > 0 && (r.blocks == nil || !room || r.behind >= groupRows || len(r.files)+len(r.learnt.runs) == 0):
			if err := r.searchFiles(); err != nil {
				return err
			}
			continue
		case room:
			blocks = r.blocks
		}
		select {
		case w, more := <-blocks:
			if !more {
				r.blocks = nil
				continue
			}
			r.queueBlock(w)
		case <-r.late:
			r.behind = groupRows
		case slots <- struct{}{}:
			n := r.missing[0]
			r.missing = r.missing[1:]
			begun := r.opt.Now()
			r.opt.Resolver.startLookup(r.learnt.name(n), func(a *answer) { r.came <- came{n, a, r.opt.Now().Sub(begun)} })
		case a := <-r.came:
			r.learn(a)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if r.ended != io.EOF {
		return r.ended
	}
	return nil
}

// learn takes in an answer that has come.
func (r *batch[R]) learn(a came) {
	r.learnt.learn(a.name, a.answer)
	r.stats.count(a.answer)
	r.stats.LookupsS += a.took.Seconds()
}

// count adds a name that was asked for.
func (s *Stats) count(a *answer) {
	s.Names++
	s.Asked++
	if a.status != StatusOK {
		s.Failed++
	}
	if isSilent(a.status) {
		s.Silent++
	}
	if addrs, _ := parseAddrs(a.addr); len(addrs) > 0 && !slices.ContainsFunc(addrs, func(a netip.Addr) bool { return addrguard.Special(a) == "" }) {
		s.Special++
	}
}

// read sends the batch's rows on in blocks, as they come.
func (r *batch[R]) read(ctx context.Context) {
	defer close(r.blocks)
	var row R
	var rows []byte
	for r.ended == nil {
		w := &block{}
		rows = rows[:0]
		for more := true; more; more = r.b.Buffered() > 0 && len(w.names) < blockRows && len(rows) < blockBytes {
			if r.ended = r.b.Read(&row); r.ended != nil {
				break
			}
			rows = record.AppendRow(rows, &row)
			w.names = append(w.names, r.use.name(&row))
		}
		if len(w.names) == 0 {
			continue
		}
		w.rows = string(rows)
		select {
		case r.blocks <- w:
		case <-ctx.Done():
			r.ended = context.Cause(ctx)
			return
		}
	}
}

// queueBlock puts a block into the queue.
func (r *batch[R]) queueBlock(w *block) {
	w.numbers = make([]uint32, len(w.names))
	for i, name := range w.names {
		n, isNew := r.learnt.find(name)
		w.numbers[i] = n
		if !isNew {
			continue
		}
		if r.opt.Replay == nil {
			if is, ok := r.opt.Resolver.literal(name, r.now.Go()); ok {
				r.know(n, is)
				continue
			}
		}
		r.unknown = append(r.unknown, n)
	}
	w.names = nil
	if len(r.unknown) > 0 {
		if r.behind == 0 {
			r.late = time.After(groupWait)
		}
		r.behind += len(w.numbers)
	}
	r.queue = append(r.queue, w)
	r.memory += int64(len(w.rows))
}

// know takes in an answer that costs no question.
func (r *batch[R]) know(n uint32, a *answer) {
	r.learnt.set(n, a)
	r.stats.Names++
	r.stats.Cached++
}

// searchFiles looks for unknown names in files, the newest first. Those that are not there are to be asked for.
func (r *batch[R]) searchFiles() (err error) {
	files := slices.Concat(r.files, r.learnt.runs)
	var left []sought
	if len(files) > 0 {
		left = r.learnt.sorted(r.unknown)
	}
	for i := len(files) - 1; i >= 0; i-- {
		after := r.now
		if i >= len(r.files) {
			after = never
		}
		left, err = files[i].search(r.learnt.table, left, func(n uint32, row *record.URL) bool {
			ok := row.AddrExpires > after && (r.opt.Replay != nil || r.opt.Resolver.usable(row))
			if ok {
				a := answer{row.Addr, row.AddrError, row.Via, row.AddrExpires}
				if a.status != StatusOK {
					a.cname = ""
				}
				r.know(n, &a)
			}
			return ok
		})
		if err != nil {
			return err
		}
	}
	for _, n := range r.unknown {
		if r.learnt.known(n) {
			continue
		}
		if r.opt.Replay != nil && r.opt.Replay.aliases {
			r.know(n, &answer{})
			continue
		}
		if r.opt.Replay != nil {
			return r.opt.Replay.lacks(r.learnt.name(n))
		}
		r.missing = append(r.missing, n)
	}
	r.unknown, r.behind, r.late = r.unknown[:0], 0, nil
	return nil
}

// room reports whether another block may be taken in. A full table is begun again when nobody waits.
func (r *batch[R]) room() (bool, error) {
	most := min(r.opt.Memory/tablePart, tableMax)
	if r.learnt.size() <= most {
		return r.memory < most || len(r.queue) < 2, nil
	}
	if len(r.queue) > 0 {
		return false, nil
	}
	return true, r.learnt.flush()
}

// pass sends rows of the queue on, up to the first that still waits for its answer.
func (r *batch[R]) pass(ctx context.Context) error {
	var row R
	for len(r.queue) > 0 {
		w := r.queue[0]
		for ; w.next < len(w.numbers); w.next++ {
			n := w.numbers[w.next]
			if !r.learnt.known(n) {
				return nil
			}
			size, err := record.ParseRow(w.rows[w.read:], &row, r.like)
			if err != nil {
				return err
			}
			w.read += size
			a := r.learnt.answer(n)
			if err := r.forward(ctx, &row, &a); err != nil {
				return err
			}
		}
		r.memory -= int64(len(w.rows))
		r.queue[0] = nil
		r.queue = r.queue[1:]
	}
	return nil
}

// forward passes a row on. One without an answer of a server is passed on only where servers
// answer at all: what comes after would take it for the fault of each of the batch's names.
func (r *batch[R]) forward(ctx context.Context, row *R, a *answer) error {
	if isSilent(a.status) && r.opt.Replay == nil && !r.opt.SilentOK && !r.opt.Resolver.reachable(ctx) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		trouble := r.opt.Resolver.Trouble()
		if trouble != "" {
			trouble = " (" + trouble + ")"
		}
		return &fault.Error{Class: fault.No, Found: "no answer from any DNS server, to anything that was asked", Want: "one that answers",
			Hint: "nothing was committed" + trouble + "; run this again once a server answers; --server names another"}
	}
	if err := r.use.tell(row, a); err != nil {
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
