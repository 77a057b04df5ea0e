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
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/fetch/addrguard"
	"mercator/pkg/fetch/localfault"
	"mercator/pkg/folder/bodies"
)

// settingsRefusals holds the rows of URLs that were not contacted because a setting refused them, or because
// this machine could not. At the end of the batch they are archived and emitted; if there are too many,
// the run fails. So a batch that is run again tries them anew, and its archive holds only what servers did.
type settingsRefusals struct {
	mu          sync.Mutex
	f           *os.File // per row its length in four bytes and its byte form
	w           *bufio.Writer
	row         []byte
	warned      bool            // the warning that there are too many was given
	localWarned map[string]bool // local errors that a warning was given for

	pages       int64            // rows of pages that are not held here
	done        int64            // rows that are evidence of work done
	held        int64            // rows held here
	localErrors map[string]int64 // held rows by error of this machine, or of a login
	known       int64            // rows refused by settings that are seeds, or of hosts contacted before
	hosts       int64            // hosts of the rows that known counts
	reopened    int64            // times that such a host was opened again

	first  [outcomes]record.Fetch // first row refused, by index in record.OutcomesOfSettings
	addrs  []netip.Addr           // refused addresses, at most refusedAddrsMax and one more
	number [outcomes]int64        // rows refused, by the same index

	names map[uint64]struct{} // FP64 of the names of the hosts that isNewHost counted: the scheduler forgets a host without URLs, and more may come
}

// refusalNamesMax bounds settingsRefusals.names, far above what counts as a mistake in a batch of a million hosts.
const refusalNamesMax = 1 << 16

// refusedAddrsMax is how many addresses a hint names. If there are more, it names their networks.
const refusedAddrsMax = 4

// countAddr keeps the address that an error of a row begins with.
func (o *settingsRefusals) countAddr(text string) {
	if len(o.addrs) > refusedAddrsMax {
		return
	}
	if addr, err := RefusedAddr(text); err == nil && !slices.Contains(o.addrs, addr.Addr()) {
		o.addrs = append(o.addrs, addr.Addr())
	}
}

// RefusedAddr is the network of the one address that the error of a row with outcome address-refused begins with.
func RefusedAddr(text string) (netip.Prefix, error) {
	word, _, _ := strings.Cut(text, " ")
	addr, err := netip.ParseAddr(word)
	if err != nil {
		return netip.Prefix{}, err
	}
	addr = addr.Unmap()
	return addr.Prefix(addr.BitLen())
}

// isNewHost reports whether a host was not counted yet, and counts it. runner.mu is held.
func (o *settingsRefusals) isNewHost(host string) bool {
	key := fingerprint.OfString(host)
	_, counted := o.names[key]
	if !counted && len(o.names) < refusalNamesMax {
		o.names[key] = struct{}{}
	}
	return !counted
}

// countReopened counts a host that ran out of URLs and has new ones, if settings refused some: the scheduler takes it for another host.
func (o *settingsRefusals) countReopened(host string) {
	if _, refused := o.names[fingerprint.OfString(host)]; refused {
		o.reopened++
	}
}

const outcomes = len(record.OutcomesOfSettings)

// change tells, for each outcome, how to change the setting that caused it.
var change = map[string]string{
	record.OutcomeAddress: "allow it: --allow-net NETWORK",
	record.OutcomeDenied:  "--deny names the list",
	record.OutcomeScheme:  "--scheme and --exec name what fetches a scheme",
}

// loginFailed begins the error of a page that cannot be asked for without a login. As with faults of this machine, it is put off to a later round.
const loginFailed = "login: "

// isPutOff reports whether an error puts its URL off to a later round: an error of this machine, or of a login.
func isPutOff(text string) bool { return localfault.Is(text) || strings.HasPrefix(text, loginFailed) }

// refusalsMax is how many of n URLs, or hosts, settings may refuse before that is held for a mistake.
func refusalsMax(n int64) int64 { return max(10, n/100) }

// mistaken reports whether settings refused so much of a batch on so many hosts that one of them is
// probably wrong. It takes more than half of few hosts: no single host, by an address that it
// gives itself, can stop the crawl of others. others is how many of the batch's URLs other shards fetch: each may be of another host.
func (o *settingsRefusals) mistaken(hosts, others int64) bool {
	hosts += others
	return o.known > refusalsMax(o.pages+o.held+others) && o.hosts > min(refusalsMax(hosts), hosts/2)
}

// newSettingsRefusals makes the file at once: there may be too many open ones when it is needed.
func newSettingsRefusals(dir string) (*settingsRefusals, error) {
	f, err := durable.TempFile(dir)
	if err != nil {
		return nil, err
	}
	return &settingsRefusals{f: f, w: bufio.NewWriterSize(f, 16<<10), localErrors: map[string]int64{}, localWarned: map[string]bool{}, names: map[uint64]struct{}{}}, nil
}

// countRow counts the row of a page that is not held here.
func (o *settingsRefusals) countRow(row *record.Fetch) {
	if row.Role != record.RolePage {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pages++; row.Outcome != record.OutcomeDeferred {
		o.done++
	}
}

// holdRow holds a row. known: it is a seed, or its host was contacted before. What pages link to
// is no sign of a mistake: anyone may link to any address. first: it is the first such row of its
// host. size is the size of the batch, as far as it is known. warn is a warning to give at once, or "".
func (o *settingsRefusals) holdRow(row *record.Fetch, known, first bool, size int64) (warn string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held++
	if isPutOff(row.Error) {
		o.localErrors[row.Error]++
		if row.Outcome != record.OutcomeDeferred && !known {
			o.done++
		}
	} else {
		if i := slices.Index(record.OutcomesOfSettings[:], row.Outcome); i >= 0 {
			if o.number[i]++; o.number[i] == 1 {
				o.first[i] = record.Fetch{URL: strings.Clone(row.URL), Outcome: row.Outcome, Error: strings.Clone(row.Error)}
			}
			if known && row.Outcome == record.OutcomeAddress { // no hint to allow what a page of somebody's links to
				o.countAddr(row.Error)
			}
		}
		if known {
			o.known++
		}
		if first {
			o.hosts++
		}
		warn = o.settingsWarning(size)
	}
	o.row = record.AppendRow(append(o.row[:0], 0, 0, 0, 0), row)
	binary.LittleEndian.PutUint32(o.row, uint32(len(o.row)-4))
	_, err = o.w.Write(o.row)
	return warn, err
}

// commonest is the index of the outcome that most URLs have.
func (o *settingsRefusals) commonest() (index int) {
	for i, n := range o.number {
		if n > o.number[index] {
			index = i
		}
	}
	return index
}

// refused is how many URLs settings refused.
func (o *settingsRefusals) refused() (n int64) {
	for _, of := range o.number {
		n += of
	}
	return n
}

// settingsWarning returns, once, the warning that settings refused too much of a batch of this size; else "".
func (o *settingsRefusals) settingsWarning(size int64) string {
	if o.warned || o.refused() <= refusalsMax(size) {
		return ""
	}
	o.warned = true
	return o.describeSettings()
}

// finalWarning returns the warning due at the end of the input, when the size of the batch is known; else "".
func (o *settingsRefusals) finalWarning(size int64) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.settingsWarning(size)
}

// describeSettings says how many URLs settings refused, with an example.
func (o *settingsRefusals) describeSettings() string {
	i := o.commonest()
	how := change[o.first[i].Outcome]
	if example, err := RefusedAddr(o.first[i].Error); err == nil { // a line to type as it is: it replaces the setting, so it names all
		var networks []string
		if len(o.addrs) == 0 {
			networks = append(networks, example.String())
		}
		for _, addr := range slices.SortedFunc(slices.Values(o.addrs), netip.Addr.Compare) {
			network := netip.PrefixFrom(addr, addr.BitLen())
			if len(o.addrs) > refusedAddrsMax {
				network = addrguard.Network(addr)
			}
			networks = append(networks, network.String())
		}
		how = strings.Replace(how, "NETWORK", strings.Join(slices.Compact(networks), ","), 1)
	}
	return fmt.Sprintf("%d of %d URLs were not fetched because of settings: %s: %s, such as %s; %s",
		o.refused(), o.pages+o.held, o.first[i].Outcome, clean(o.first[i].Error), clean(o.first[i].URL), how)
}

// judge is called when all rows have come, of so many hosts. An error says that the batch is not
// to be committed.
func (o *settingsRefusals) judge(refusedOK bool, hosts, others int64) error {
	switch {
	case !refusedOK && (o.mistaken(hosts, others) || o.done+others == 0 && o.known > 0):
		return &fault.Error{Found: o.describeSettings(), Hint: "correct the settings and run this again: nothing was committed, and fetched URLs are not fetched again; or go on without these URLs, which are parked then: --refused-ok"}
	case len(o.localErrors) > 0 && o.done == 0:
		hint := "nothing was committed: correct this, and run the command again"
		for text := range o.localErrors {
			if strings.HasPrefix(text, loginFailed) {
				hint = "nothing was committed: correct the form's lines in the file of fetch.login, and run the command again"
			}
		}
		return &fault.Error{Found: "nothing was fetched: " + o.describeLocal(), Hint: hint}
	}
	return nil
}

// describeLocal names the faults of this machine, and counts their URLs.
func (o *settingsRefusals) describeLocal() string {
	var said []string
	for text, n := range o.localErrors {
		said = append(said, fmt.Sprintf("%s (URLs: %d)", text, n))
	}
	slices.Sort(said)
	return strings.Join(said, "; ")
}

// eachRow calls f for the rows that are held.
func (o *settingsRefusals) eachRow(like *record.Schema, f func(row *record.Fetch) error) error {
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

// holdRefusal puts aside the row of a URL that was not contacted.
func (r *runner) holdRefusal(h *host, row *record.Fetch) error {
	scheme, _, _ := strings.Cut(row.URL, ":")
	r.mu.Lock()
	byRobots := withoutRobots(row.Error) != record.OutcomeRobotsUnreachable // the host sent us there: no mistake of ours
	known := !byRobots && (row.Depth == 0 || r.robots.holds(scheme+"://"+h.name))
	first := known && !isPutOff(row.Error) && r.refusals.isNewHost(h.name)
	size := r.urls.Load() + r.opt.Others
	if !r.eof {
		size = max(size, usualBatch)
	}
	r.mu.Unlock()
	warn, err := r.refusals.holdRow(row, known, first, size)
	if warn != "" {
		r.warn("%s", warn)
	}
	return err
}

// settleRefusals emits the rows held, or fails.
func (r *runner) settleRefusals(ctx context.Context) error {
	r.warnOfSettings() // what was being held when the input ended went by the usual size
	if err := r.refusals.judge(r.opt.RefusedOK, r.s.opened-r.refusals.reopened, r.opt.Others); err != nil {
		return err
	}
	if len(r.refusals.localErrors) > 0 {
		r.warn("%s", r.refusals.describeLocal())
	}
	return r.refusals.eachRow(r.opt.Schema, func(row *record.Fetch) error { return r.emit(ctx, row, nil, "", 0, bodies.Place{}) })
}

// Limits after errors of this machine.
const (
	localErrorPause = time.Second // before the connection that met one is used again
	localErrorsMax  = 5           // contacts of a host in a row that may meet a passing one
)

// warnOfSettings warns, once, if settings refused too much of a batch that was read to its end.
func (r *runner) warnOfSettings() {
	if warn := r.refusals.finalWarning(r.urls.Load() + r.opt.Others); warn != "" {
		r.warn("%s", warn)
	}
}

// warnLocal warns of an error of this machine, once for each kind.
func (r *runner) warnLocal(text string) {
	if r.refusals.isNewLocal(text) {
		r.warn("%s: these URLs are put off to a later round; it does not count as an attempt", text)
	}
}

// isNewLocal reports whether an error is the first of its kind.
func (o *settingsRefusals) isNewLocal(text string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	first := !o.localWarned[text]
	o.localWarned[text] = true
	return first
}

// localError ends a contact that this machine could not make. sent: the server had been contacted
// before that.
func (r *runner) localError(ctx context.Context, h *host, row *record.Fetch, text string, sent bool, end time.Time) (turn, error) {
	row.Outcome, row.Error = record.OutcomeDeferred, text
	t := turn{made: sent, end: end.UnixMicro()}
	r.mu.Lock()
	if sent {
		t.required, t.serverGap = r.gap(h.polite, row, h.crawlDelay, h.fails)
	} else {
		r.conns.endContact(h, nil, 0)
	}
	r.mu.Unlock()
	r.warnLocal(text)
	if localfault.Passing(text) {
		select {
		case <-time.After(localErrorPause):
		case <-ctx.Done():
		}
	}
	return t, context.Cause(ctx)
}

// afterLocalError decides how a host goes on after a contact at addr that this machine could not make: at its next
// address, or again, or not in this batch.
func (r *runner) afterLocalError(h *host, addr netip.Addr, why string) {
	h.localErrors++
	switch {
	case localfault.Unrouted(why):
		h.unrouted = append(h.unrouted, addr)
		h.noRoute = why // what addresses says when none is left
	case !localfault.Passing(why) || h.localErrors >= localErrorsMax:
		r.deferHost(h, why)
	}
}

// deferHost leaves a host alone for the rest of the batch, because of this machine.
func (r *runner) deferHost(h *host, why string) {
	r.warnLocal(why)
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
