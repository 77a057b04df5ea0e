package frontier

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"mercator/formats/record"
	runfile "mercator/formats/run"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/merge"
)

// Stat is the size of a frontier.
type Stat struct {
	Policy string            `json:"policy"`
	Params map[string]string `json:"params,omitempty"` // parameters of the policy
	Counts
	Ready     []uint64  `json:"ready"` // URLs that wait for their turn, for each front queue
	Waiting   uint64    `json:"waiting"`
	Held      uint64    `json:"held,omitempty"`      // URLs over the budgets of their domains
	Parked    []Parked  `json:"parked,omitempty"`    // parked URLs, by outcome
	NextDue   string    `json:"next_due,omitempty"`  // when the first URL that waits for a time is due, RFC 3339
	Batch     *Flight   `json:"batch,omitempty"`     // the batch in flight
	Runs      int       `json:"runs"`                // number of files
	Rewritten uint64    `json:"rewritten"`           // how often waiting URLs were written again
	Detail    *Detail   `json:"detail,omitempty"`    // nil unless asked for
	Top       []TopHost `json:"top_hosts,omitempty"` // hosts with the most URLs left, most first

	Own PolicyStat `json:"-"` // the policy's part; nil: none. In JSON it has its own key.
}

// PolicyStat is a policy's part of Stat: *Pages, *Credit or *WalkStat.
type PolicyStat interface {
	// Lines returns names and values for people, and the key for JSON.
	Lines() (key string, lines [][2]string)
}

// MarshalJSON writes Own under its key, beside the other fields.
func (s *Stat) MarshalJSON() ([]byte, error) {
	type plain Stat
	all, err := json.Marshal((*plain)(s))
	if err != nil || s.Own == nil {
		return all, err
	}
	own, err := json.Marshal(s.Own)
	if err != nil {
		return nil, err
	}
	key, _ := s.Own.Lines()
	return fmt.Appendf(all[:len(all)-1], ",%q:%s}", key, own), nil
}

// Flight is the batch that is in flight.
type Flight struct {
	Txn     string `json:"txn,omitempty"`
	URLs    uint64 `json:"urls"`
	Refused uint64 `json:"refused,omitempty"` // URLs that a rule of the filter refused: the update finishes them
	Now     string `json:"now"`               // the round's time, RFC 3339
}

// Detail has counts that need a walk over all URLs.
type Detail struct {
	Depth [16]uint64 `json:"depth"` // URLs that wait or are in flight, by depth; the last counts all deeper ones
	Due   []DueCount `json:"due"`   // URLs that wait for a time, by how far off it is
}

// DueCount counts URLs that are due within a time, and not within the one before.
type DueCount struct {
	Within string `json:"within"`
	URLs   uint64 `json:"urls"`
}

// TopHost is a host with URLs that wait or are in flight.
type TopHost struct {
	Host       string `json:"host"`
	Pending    uint64 `json:"pending"`
	InFlight   uint64 `json:"in_flight"`
	Discovered uint64 `json:"discovered"`
}

// StatOptions say what Stat reads besides the manifest.
type StatOptions struct {
	Top    int  // number of hosts in Stat.Top; above 0 the host table is read
	Detail bool // make Stat.Detail, which reads all URLs
	Now    record.Time
}

// MaxTop bounds StatOptions.Top, which are held in memory.
const MaxTop = 10_000

// Stat returns the size of the frontier. Without options it reads the manifest only.
func (f *Frontier) Stat(ctx context.Context, o StatOptions) (*Stat, error) {
	if o.Top < 0 || o.Top > MaxTop {
		return nil, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("%d hosts", o.Top), Want: fmt.Sprintf("0 to %d", MaxTop)}
	}
	s, m, err := f.current()
	if err != nil {
		return nil, err
	}
	st := &Stat{Policy: m.Params["policy"], Params: maps.Clone(m.Params), Counts: s.Counts, Rewritten: s.Rewritten, Runs: len(s.Later) + len(s.Hosts) + len(s.Held) + len(s.Domains) + len(s.Dead)}
	delete(st.Params, "policy")
	if st.Outcomes == nil {
		st.Outcomes = []record.Count{} // a list even when there is none
	}
	for _, runs := range s.Ready {
		st.Ready = append(st.Ready, rowsOf(runs))
		st.Runs += len(runs)
	}
	st.Waiting, st.Held = rowsOf(s.Later), rowsOf(s.Held)
	if len(s.Later) > 0 {
		due := s.Later[0].Head
		for _, r := range s.Later {
			due = min(due, r.Head)
		}
		st.NextDue = timeText(record.Time(due))
	}
	st.Parked = s.parkedURLs()
	for _, runs := range s.Parked {
		st.Runs += len(runs)
	}
	if fl := s.InFlight; fl != nil {
		st.Batch = &Flight{fl.Txn, fl.Rows, rowsOf(fl.Refused), timeText(fl.Now)}
	}
	for _, runs := range s.policy.files() {
		st.Runs += len(runs)
	}
	st.Own = s.policy.stat()
	if o.Top > 0 {
		if st.Top, err = f.top(ctx, s, o.Top); err != nil {
			return nil, err
		}
	}
	if o.Detail {
		if st.Detail, err = f.detail(ctx, s, o.Now); err != nil {
			return nil, err
		}
	}
	return st, nil
}

func timeText(t record.Time) string { return t.Go().Format("2006-01-02T15:04:05.999999Z07:00") }

// Empty reports whether no URL waits and none is in flight, except URLs that are parked at now.
func (f *Frontier) Empty(now record.Time) (bool, error) {
	s, _, err := f.current()
	if err != nil {
		return false, err
	}
	_, empty := s.due(now)
	return empty && s.InFlight == nil, nil
}

func rowsOf(runs []run) (n uint64) {
	for _, r := range runs {
		n += r.Rows
	}
	return n
}

func compareTop(a, b TopHost) int {
	return cmp.Or(cmp.Compare(a.Pending, b.Pending), cmp.Compare(b.Host, a.Host))
}

func (f *Frontier) top(ctx context.Context, s *state, n int) ([]TopHost, error) {
	h := merge.NewHeap(func(a, b *TopHost) bool { return compareTop(*a, *b) < 0 }) // those in flight are among the pending
	err := eachNewest(ctx, f.st, s.Hosts, func(host *Host) error {
		t := TopHost{Host: host.Host, Pending: host.Discovered - host.Finished, Discovered: host.Discovered}
		if t.Pending == 0 {
			return nil
		}
		if h.Len() < n {
			h.Push(t)
		} else if first := h.First(); compareTop(t, *first) > 0 {
			*first = t
			h.Fix()
		}
		return nil
	})
	top := make([]TopHost, h.Len())
	for i := len(top) - 1; i >= 0; i-- {
		top[i] = h.Pop()
	}
	if err != nil {
		return nil, err
	}
	flying := make(map[string]uint64, len(top))
	for _, t := range top {
		flying[t.Host] = 0
	}
	err = f.flying(ctx, s, flying)
	for i := range top {
		t := &top[i]
		t.InFlight = flying[t.Host]
		t.Pending -= t.InFlight
	}
	return top, err
}

// EachHost calls fn for each host of the table, by hostKey.
func (f *Frontier) EachHost(ctx context.Context, fn func(*Host) error) error {
	s, _, err := f.current()
	if err != nil {
		return err
	}
	return eachNewest(ctx, f.st, s.Hosts, fn)
}

// FinishedAt is how many URLs were finished in a generation.
func (f *Frontier) FinishedAt(m *store.Manifest) (uint64, error) {
	s, err := f.load(m)
	if err != nil {
		return 0, err
	}
	return s.Counts.Finished, nil
}

// dueBounds are the classes of Detail.Due.
var dueBounds = []struct {
	name   string
	micros int64
}{{"now", 0}, {"1m", 60e6}, {"1h", 3600e6}, {"24h", 86400e6}, {"later", math.MaxInt64}}

func (f *Frontier) detail(ctx context.Context, s *state, now record.Time) (*Detail, error) {
	d := &Detail{Due: make([]DueCount, len(dueBounds))}
	for i, b := range dueBounds {
		d.Due[i].Within = b.name
	}
	err := f.each(ctx, s, func(q queue, e *Entry) error {
		d.Depth[min(int(e.URL.Depth), len(d.Depth)-1)]++
		if q == queueLater {
			i := 0
			for int64(e.URL.Due-now) > dueBounds[i].micros {
				i++
			}
			d.Due[i].URLs++
		}
		return nil
	})
	return d, err
}

// queue says where in the frontier a URL is.
type queue int

const (
	queueFlight queue = iota
	queueReady
	queueLater
	queueHeld
	queueParked
)

// each calls fn for every URL of the frontier: those in flight by flightKey, then
// waiting URLs in order of service, URLs that wait for a time, held URLs, and parked URLs.
func (f *Frontier) each(ctx context.Context, s *state, fn func(queue, *Entry) error) error {
	walk := func(q queue, runs []run) error {
		return eachEntry(ctx, f.st, runs, func(e *Entry) error { return fn(q, e) })
	}
	if err := walk(queueFlight, s.InFlight.runs()); err != nil {
		return err
	}
	for _, runs := range s.Ready {
		if err := walk(queueReady, runs); err != nil {
			return err
		}
	}
	if err := walk(queueLater, s.Later); err != nil {
		return err
	}
	if err := walk(queueHeld, s.Held); err != nil {
		return err
	}
	for _, runs := range s.Parked {
		if err := walk(queueParked, runs); err != nil {
			return err
		}
	}
	return nil
}

// eachEntry calls fn for every URL of runs, by key. The row is fn's to keep.
func eachEntry(ctx context.Context, fs files, runs []run, fn func(*Entry) error) error {
	return eachPayload(ctx, fs, runs, func(path string, key uint64, payload []byte) error {
		e := new(Entry)
		if err := parseRow(e, key, payload, path); err != nil {
			return err
		}
		return fn(e)
	})
}

// eachPayload calls fn for every row of runs, by key.
func eachPayload(ctx context.Context, fs files, runs []run, fn func(path string, key uint64, payload []byte) error) error {
	m := newMerger(fs, runs)
	defer m.close()
	var t ticker
	last := uint64(0)
	for {
		err := m.takeRow(func(path string, key uint64, payload []byte) error {
			if key < last {
				return &fault.Error{Class: fault.Corrupt, File: path, Found: fmt.Sprintf("a row of key %d, where one of %d was served before", key, last)}
			}
			last = key
			return fn(path, key, payload)
		})
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = t.err(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// EachURL calls fn for every URL that is not finished: those in flight first, then in
// order of service.
func (f *Frontier) EachURL(ctx context.Context, fn func(*record.URL) error) error {
	s, _, err := f.current()
	if err != nil {
		return err
	}
	return f.each(ctx, s, func(_ queue, e *Entry) error { return fn(&e.URL) })
}

// repeats reports whether an output is the batch in flight, which Next gives again from it.
func (s *state) repeats(m *store.Manifest, output string) bool {
	return s.InFlight != nil && slices.ContainsFunc(m.Done, func(d store.Done) bool { return d.Output == output && d.Txn == s.InFlight.Txn })
}

// Check reads every file of the frontier whole and compares what they hold with
// the ledger. Damage is fault.Corrupt and its kin, a ledger that does not balance fault.No.
func (f *Frontier) Check(ctx context.Context) error {
	s, m, err := f.current()
	if err != nil {
		return err
	}
	unread := s.paths()
	for _, e := range m.Files {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		switch e.Role {
		case "ready", "later", "inflight", "held", "parked", "starts", "known", "hosts", "dead", "domains":
			err = verify(f.st, e.Path)
		default:
			if s.repeats(m, e.Path) || !f.st.Spent(m, e) {
				err = f.st.CheckFile(e)
			}
		}
		if err != nil {
			return err
		}
		if _, ours := unread[e.Path]; !ours && e.Role != store.RoleOutput && e.Role != store.RoleNames {
			return &fault.Error{Class: fault.No, File: e.Path, Found: "a file of role " + e.Role + " that the frontier's state does not name"}
		}
		delete(unread, e.Path)
	}
	if len(unread) > 0 {
		path := slices.Min(slices.Collect(maps.Keys(unread)))
		return &fault.Error{Class: fault.No, File: path, Found: "a file that the frontier's state names and its manifest lacks"}
	}
	var c Counts
	waiting := map[queue]uint64{}
	each, end := s.policy.check(ctx, f, s)
	if err := f.each(ctx, s, func(q queue, e *Entry) error {
		waiting[q]++
		each(q, e)
		return nil
	}); err != nil {
		return err
	}
	if err := end(); err != nil {
		return err
	}
	err = eachNewest(ctx, f.st, s.Hosts, func(h *Host) error {
		c.Discovered += h.Discovered
		c.Finished += h.Finished
		c.Retried += h.Retried
		c.Deferred += h.Deferred
		c.Dead += h.Dead
		return nil
	})
	if err != nil {
		return err
	}
	fresh := slices.DeleteFunc(slices.Clone(s.Hosts), func(r run) bool { return !r.Fresh })
	if err := eachNewest(ctx, f.st, fresh, func(h *Host) error {
		if hasHistory(h) {
			return &fault.Error{Class: fault.No, File: f.st.Dir(), Found: fmt.Sprintf("the speed of host %s in a table that is said to have none", h.Host)}
		}
		return nil
	}); err != nil {
		return err
	}
	n := s.Counts
	for _, t := range []struct {
		what      string
		got, want uint64
	}{
		{"URLs discovered by the host table", c.Discovered, n.Discovered},
		{"URLs finished by the host table", c.Finished, n.Finished},
		{"retries by the host table", c.Retried, n.Retried},
		{"deferrals by the host table", c.Deferred, n.Deferred},
		{"URLs given up by the host table", c.Dead, n.Dead},
		{"URLs in the queues", waiting[queueReady] + waiting[queueLater] + waiting[queueHeld] + waiting[queueParked], n.Pending},
		{"URLs in flight", waiting[queueFlight], n.InFlight},
		{"final outcomes", sumOf(n.Outcomes), n.Finished + n.MovedOut - n.MovedIn + sumOf(n.TakenBack)},
		{"URLs pending, in flight and finished", n.Pending + n.InFlight + n.Finished, n.Discovered},
	} {
		if t.got != t.want {
			return &fault.Error{Class: fault.No, File: f.st.Dir(), Found: fmt.Sprintf("%d %s", t.got, t.what), Want: fmt.Sprint(t.want)}
		}
	}
	return nil
}

// paths are the files that a state names.
func (s *state) paths() map[string]struct{} {
	p := map[string]struct{}{}
	all := append([][]run{s.Later, s.Hosts, s.Dead, s.Domains, s.Held}, s.Ready...)
	all = append(all, s.Parked[:]...)
	all = append(all, s.policy.files()...)
	for _, runs := range all {
		for _, r := range runs {
			p[r.Path] = struct{}{}
		}
	}
	if fl := s.InFlight; fl != nil {
		p[fl.Path] = struct{}{}
		for _, r := range fl.Refused {
			p[r.Path] = struct{}{}
		}
	}
	return p
}

// verify reads a run whole, and decodes each of its rows.
func verify(fs files, path string) error {
	r, file, err := openRun(fs, path)
	if err != nil {
		return err
	}
	defer file.Close()
	return verifyRun(r, file.Name())
}

func verifyRun(r *runfile.Reader, name string) error {
	if err := r.Verify(); err != nil {
		return err
	}
	row := NewRow(r.Kind())
	for scan := r.Scan(runfile.Start); row != nil; {
		key, payload, err := scan.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = parseRow(row, key, payload, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Location is where the frontier has a URL that is not finished.
type Location struct {
	State  string     // one of the constants In…
	Parked string     // the outcome that it is parked for
	Before uint64     // URLs of its host that come before it
	URL    record.URL // the row, with the time at which it is due
}

// Where a URL may be.
const (
	InFlight  = "in flight"
	InQueue   = "waiting"
	InTime    = "waiting for a time"
	InBudget  = "held, over the budget of its domain"
	InParking = "parked"
)

// errFound ends a search.
var errFound = errors.New("found")

// Find looks for a URL of a host. It reads all that waits, in the order of service, up to that URL.
func (f *Frontier) Find(ctx context.Context, host string, is func(*record.URL) bool) (p Location, found bool, err error) {
	s, _, err := f.current()
	if err != nil {
		return p, false, err
	}
	states := [...]string{queueFlight: InFlight, queueReady: InQueue, queueLater: InTime, queueHeld: InBudget, queueParked: InParking}
	err = f.each(ctx, s, func(q queue, e *Entry) error {
		if e.URL.Host != host {
			return nil
		}
		if !is(&e.URL) {
			p.Before++
			return nil
		}
		p.State, p.URL = states[q], e.URL
		return errFound
	})
	if err != errFound || p.State != InParking {
		return p, err == errFound, unlessFound(err)
	}
	for i, runs := range s.Parked {
		err = eachEntry(ctx, f.st, runs, func(e *Entry) error {
			if is(&e.URL) {
				p.Parked = parking[i]
				return errFound
			}
			return nil
		})
		if err != nil {
			break
		}
	}
	return p, err == errFound, unlessFound(err)
}

// unlessFound is an error that is not the end of a search.
func unlessFound(err error) error {
	if err == errFound {
		return nil
	}
	return err
}
