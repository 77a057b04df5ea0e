package fetch

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"mercator/formats/record"
	"mercator/pkg/bodies"
	"mercator/pkg/fault"
	"mercator/pkg/fingerprint"
	"mercator/pkg/localfault"
	"mercator/pkg/merge"
)

// ours are the rows of URLs that were not contacted because of our own settings, or because
// this machine could not. They wait for the end of the batch: only then are they archived and
// emitted, or, where they are too many, the run fails. So a batch that is run again tries them
// anew, and takes from its archive only what servers did.
type ours struct {
	mu   sync.Mutex
	f    *os.File // per row its length in four bytes and its byte form
	w    *bufio.Writer
	row  []byte
	told bool            // the warning was given that there are too many
	said map[string]bool // what this machine lacks and a warning was given for

	pages  int64                  // rows that were not ours,
	done   int64                  // those of all that were not deferred, and no mistake
	held   int64                  // rows that are ours
	local  map[string]int64       // of those, this machine's and a failed login's, by kind
	first  [outcomes]record.Fetch // the first of those that a setting refused, by index in record.OutcomesOfSettings,
	number [outcomes]int64        // how many there are,
	known  int64                  // and how many of all are seeds, or of hosts that were contacted before,
	hosts  int64                  // and on how many hosts these are

	names map[uint64]struct{} // FP64 of these hosts' names: the scheduler forgets a host whose URLs are done, and more may come
}

// ourNames bounds ours.names, far above what is held for a mistake in a batch of a million hosts.
const ourNames = 1 << 16

// firstOf says whether a host was not counted yet. It is called with runner.mu held.
func (o *ours) firstOf(host string) bool {
	key := fingerprint.OfString(host)
	_, counted := o.names[key]
	if !counted && len(o.names) < ourNames {
		o.names[key] = struct{}{}
	}
	return !counted
}

const outcomes = len(record.OutcomesOfSettings)

// change says what changes the setting that caused an outcome.
var change = map[string]string{
	record.OutcomeAddress: "--allow-net NETWORK allows it",
	record.OutcomeDenied:  "--deny names the list",
	record.OutcomeScheme:  "--scheme and --exec name what fetches a scheme",
}

// loginFailed begins the error of a page that cannot be asked for without a login. As with faults of this machine, it is put off to a later round.
const loginFailed = "login: "

// isPutOff says whether an error is of that kind.
func isPutOff(text string) bool { return localfault.Is(text) || strings.HasPrefix(text, loginFailed) }

// oursMax is how many of n URLs, or hosts, settings may refuse before that is held for a mistake.
func oursMax(n int64) int64 { return max(10, n/100) }

// mistaken says whether settings refused so much of a batch on so many hosts that one of them is
// probably wrong. It takes more than half of few hosts: no single host, by an address that it
// gives itself, can stop the crawl of others. others is how many of the batch's URLs other shards fetch: each may be of another host.
func (o *ours) mistaken(hosts, others int64) bool {
	hosts += others
	return o.known > oursMax(o.pages+o.held+others) && o.hosts > min(oursMax(hosts), hosts/2)
}

// newOurs makes the file at once: there may be too many open ones when it is needed.
func newOurs(dir string) (*ours, error) {
	f, err := merge.TempFile(dir)
	if err != nil {
		return nil, err
	}
	return &ours{f: f, w: bufio.NewWriterSize(f, 16<<10), local: map[string]int64{}, said: map[string]bool{}, names: map[uint64]struct{}{}}, nil
}

// count counts a page's row that is not ours.
func (o *ours) count(row *record.Fetch) {
	if row.Role != record.RolePage {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pages++; row.Outcome != record.OutcomeDeferred {
		o.done++
	}
}

// hold takes in a row that is ours. known: it is a seed, or its host was contacted before. What
// pages link to is no sign of a mistake: anyone may link to any address. first: no such row of
// its host came before. size is that of the batch, as far as it is known. warn is what is to be told at once, or "".
func (o *ours) hold(row *record.Fetch, known, first bool, size int64) (warn string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held++
	if isPutOff(row.Error) {
		o.local[row.Error]++
		if row.Outcome != record.OutcomeDeferred && !known {
			o.done++
		}
	} else {
		if i := slices.Index(record.OutcomesOfSettings[:], row.Outcome); i >= 0 {
			if o.number[i]++; o.number[i] == 1 {
				o.first[i] = record.Fetch{URL: strings.Clone(row.URL), Outcome: row.Outcome, Error: strings.Clone(row.Error)}
			}
		}
		if known {
			o.known++
		}
		if first {
			o.hosts++
		}
		warn = o.due(size)
	}
	o.row = record.AppendRow(append(o.row[:0], 0, 0, 0, 0), row)
	binary.LittleEndian.PutUint32(o.row, uint32(len(o.row)-4))
	_, err = o.w.Write(o.row)
	return warn, err
}

// most is the index of the outcome that most URLs have.
func (o *ours) most() (most int) {
	for i, n := range o.number {
		if n > o.number[most] {
			most = i
		}
	}
	return most
}

// refused is how many URLs settings refused.
func (o *ours) refused() (n int64) {
	for _, of := range o.number {
		n += of
	}
	return n
}

// due is the warning that settings refused more than they should of a batch of this size, once.
func (o *ours) due(size int64) string {
	if o.told || o.refused() <= oursMax(size) {
		return ""
	}
	o.told = true
	return o.tell()
}

// tooMany is due at the end of the input, when the size of the batch is known.
func (o *ours) tooMany(size int64) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.due(size)
}

// tell says how many URLs settings refused, with an example.
func (o *ours) tell() string {
	i := o.most()
	how := change[o.first[i].Outcome]
	if addr, err := netip.ParseAddr(strings.SplitN(o.first[i].Error, " ", 2)[0]); err == nil { // a line to type as it is
		how = strings.Replace(how, "NETWORK", netip.PrefixFrom(addr, addr.BitLen()).String(), 1)
	}
	return fmt.Sprintf("%d of %d URLs were not fetched because of settings: %s: %s, such as %s; %s",
		o.refused(), o.pages+o.held, o.first[i].Outcome, clean(o.first[i].Error), clean(o.first[i].URL), how)
}

// judge is called when all rows have come, of so many hosts. An error says that the batch is not
// to be committed.
func (o *ours) judge(refusedOK bool, hosts, others int64) error {
	switch {
	case !refusedOK && (o.mistaken(hosts, others) || o.done+others == 0 && o.known > 0):
		return &fault.Error{Found: o.tell(), Hint: "correct the settings and run this again: nothing was committed, and fetched URLs are not fetched again. --refused-ok goes on without these URLs: they are parked"}
	case len(o.local) > 0 && o.done == 0:
		hint := "nothing was committed: correct this, and run the command again"
		for text := range o.local {
			if strings.HasPrefix(text, loginFailed) {
				hint = "nothing was committed: correct the form's lines in the file of fetch.login, and run the command again"
			}
		}
		return &fault.Error{Found: "nothing was fetched: " + o.lacks(), Hint: hint}
	}
	return nil
}

// lacks says what this machine could not do, and for how many URLs.
func (o *ours) lacks() string {
	var said []string
	for text, n := range o.local {
		said = append(said, fmt.Sprintf("%s (URLs: %d)", text, n))
	}
	slices.Sort(said)
	return strings.Join(said, "; ")
}

// each calls f for the rows that are held.
func (o *ours) each(like *record.Schema, f func(row *record.Fetch) error) error {
	if err := o.w.Flush(); err != nil {
		return err
	}
	if _, err := o.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	in := bufio.NewReaderSize(o.f, 64<<10)
	for range o.held {
		var n [4]byte
		if _, err := io.ReadFull(in, n[:]); err != nil {
			return err
		}
		b := make([]byte, binary.LittleEndian.Uint32(n[:]))
		if _, err := io.ReadFull(in, b); err != nil {
			return err
		}
		row := new(record.Fetch)
		if _, err := record.ParseRow(string(b), row, like); err != nil {
			return err
		}
		if err := f(row); err != nil {
			return err
		}
	}
	return nil
}

// usualBatch is taken for the size of a batch that is not read to its end.
const usualBatch = 10_000

// hold puts a row aside that is ours.
func (r *runner) hold(h *host, row *record.Fetch) error {
	scheme, _, _ := strings.Cut(row.URL, ":")
	r.mu.Lock()
	byRobots := withoutRobots(row.Error) != record.OutcomeRobotsUnreachable // the host sent us there: no mistake of ours
	known := !byRobots && (row.Depth == 0 || r.robots.holds(scheme+"://"+h.name))
	first := known && !isPutOff(row.Error) && r.ours.firstOf(h.name)
	size := r.urls.Load() + r.opt.Others
	if !r.eof {
		size = max(size, usualBatch)
	}
	r.mu.Unlock()
	warn, err := r.ours.hold(row, known, first, size)
	if warn != "" {
		r.warn("%s", warn)
	}
	return err
}

// settleOurs emits the rows that are ours, or fails.
func (r *runner) settleOurs(ctx context.Context) error {
	if err := r.ours.judge(r.opt.RefusedOK, r.s.made, r.opt.Others); err != nil {
		return err
	}
	if len(r.ours.local) > 0 {
		r.warn("%s", r.ours.lacks())
	}
	return r.ours.each(r.opt.Schema, func(row *record.Fetch) error { return r.emit(ctx, row, nil, "", 0, bodies.Place{}) })
}

// Of what this machine lacks.
const (
	lackPause = time.Second // before the connection that had it is used again
	lackMax   = 5           // contacts in a row that may fail for a host by what may be over in a second
)

// tell tells what this machine lacks, once for each kind.
func (r *runner) tell(text string) {
	if r.ours.say(text) {
		r.warn("%s: these URLs are put off to a later round; it does not count as an attempt", text)
	}
}

// say says whether a warning of that kind is the first.
func (o *ours) say(text string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	first := !o.said[text]
	o.said[text] = true
	return first
}

// lack ends a contact that this machine could not make. sent: the server had been contacted
// before that.
func (r *runner) lack(ctx context.Context, h *host, row *record.Fetch, text string, sent bool, end time.Time) (turn, error) {
	row.Outcome, row.Error = record.OutcomeDeferred, text
	t := turn{made: sent, end: end.UnixMicro()}
	r.mu.Lock()
	if sent {
		t.required, t.wide = r.gap(h.polite, row, h.asked, h.fails)
	} else {
		r.conns.end(h, nil, 0)
	}
	r.mu.Unlock()
	r.tell(text)
	if localfault.Passing(text) {
		select {
		case <-time.After(lackPause):
		case <-ctx.Done():
		}
	}
	return t, context.Cause(ctx)
}

// forgo decides how a host goes on after a contact at addr that this machine could not make: at its next
// address, or again, or not in this batch.
func (r *runner) forgo(h *host, addr netip.Addr, why string) {
	h.lacks++
	switch {
	case localfault.Unrouted(why):
		h.unrouted = append(h.unrouted, addr)
		h.noRoute = why // what addresses says when none is left
	case !localfault.Passing(why) || h.lacks >= lackMax:
		r.leave(h, why)
	}
}

// leave leaves a host alone for the rest of the batch, because of this machine.
func (r *runner) leave(h *host, why string) {
	r.tell(why)
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.deferred == "" {
		h.deferred = why
	}
}

func (r *runner) warn(format string, args ...any) {
	if r.opt.Warn != nil {
		r.opt.Warn(format, args...)
	}
}
