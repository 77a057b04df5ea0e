package driver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"mercator/formats/record"
	"mercator/pkg/cli"
	"mercator/pkg/config"
	"mercator/pkg/fetch"
	"mercator/pkg/history"
)

// Teller tells a person how a crawl goes on: in one line that is written again and again on a terminal, else in
// a line after ten seconds and each half minute, or as JSON each second. It writes crawl/PROGRESS for "mcrawl status", and the summary at the end.
type Teller struct {
	Out, Err io.Writer
	Width    int  // of the terminal that Err is; 0: it is none
	JSON     bool // lines of JSON in place of text
	Seldom   bool // also of JSON only as many as of text
	Silent   bool // no progress
	Quiet    bool // errors only: no summary

	now   func() time.Time
	d     *Driver
	begun time.Time
	stop  chan struct{}
	wg    sync.WaitGroup

	mu      sync.Mutex             // guards all below
	live    Status                 // the crawl as it stood after the last round, and what the rounds of this run did
	parts   map[int]fetch.Progress // of the round, by shard
	round   fetch.Progress         // their sum
	planned costly                 // live.Hosts and live.Left
	sized   costly                 // live.Archived
	samples []sample               // of the last minute
	shown   bool                   // a line stands on the terminal
	told    time.Time              // the last line where there is none
	soon    bool                   // the next one need not wait for as long
	wait    wait
	failed  bool // to write PROGRESS
	barren  bool // the error at the end says how to go on
}

// wait is what mfrontier waits for when no URL is due.
type wait struct {
	url   string
	until time.Time
	why   string
}

// text says what is waited for; urls is how many URLs wait in all.
func (w wait) text(now time.Time, urls uint64) string {
	more := ""
	if urls > 1 {
		more = fmt.Sprintf("; %s later", count(urls-1, "more URL"))
	}
	return fmt.Sprintf("waiting for %s: %s, next try in %s, at %s UTC%s", w.url, w.why, span(max(0, w.until.Sub(now).Seconds())), w.until.UTC().Format(time.TimeOnly), more)
}

// costly is what is found out again when so much time has passed that it costs little of it.
type costly struct {
	at   time.Time
	took time.Duration
}

func (c *costly) find(now func() time.Time, out func()) {
	if at := now(); c.at.IsZero() || at.Sub(c.at) >= max(tellEvery, costShare*c.took) {
		out()
		c.at, c.took = at, now().Sub(at)
	}
}

type sample struct {
	at      time.Time
	replies uint64
}

// Intervals of telling.
const (
	tellEvery   = time.Second
	lineEvery   = 30 * time.Second
	soonEvery   = 5 * time.Second
	firstLine   = 10 * time.Second // of a run
	rateOver    = time.Minute
	paceReplies = 10 // least number of which a pace is made
	costShare   = 20 // of what is costly: it takes at most this part of the time
)

// Begin is called before the first round of a run: what it tells is of the whole crawl.
func (t *Teller) Begin(ctx context.Context, d *Driver) error {
	t.d, t.now, t.begun, t.stop = d, d.opt.Now, d.opt.Now(), make(chan struct{})
	t.told, t.live.Crawl = t.begun, d.Crawl.Dir()
	if err := t.stand(ctx); err != nil {
		return err
	}
	t.wg.Go(func() {
		tick := time.NewTicker(tellEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				t.tick()
			case <-t.stop:
				return
			}
		}
	})
	return nil
}

// End is called when a run ends, however it does.
func (t *Teller) End() {
	if t.stop == nil {
		return
	}
	close(t.stop)
	t.wg.Wait()
	t.stop = nil
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clear()
	_ = removeLive(t.live.Crawl) // one that stays is known by the lock that nobody holds
}

// stand takes over where the crawl stands between two rounds.
func (t *Teller) stand(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.look()
	s := Status{Command: "mcrawl", Crawl: was.Crawl, Archived: was.Archived, Hosts: was.Hosts, Left: t.live.Left, LeftIs: t.live.LeftIs, Replies: was.Replies, Received: was.Received, Bound: was.Bound}
	if err := s.read(ctx, t.d.Crawl, t.d.frontier); err != nil {
		return err
	}
	s.Round = was.Round
	t.planned.find(t.now, func() {
		s.Hosts, s.Left, s.LeftIs = nil, 0, ""
		conf, err := config.Load(filepath.Join(s.Crawl, config.Name))
		if err != nil {
			return // the next round says so
		}
		polite, err := planPoliteness(conf)
		if err != nil {
			return // the next round says so
		}
		if plan, err := rest(ctx, t.d.frontier, polite, t.now()); err == nil { // else who needs the table will say what it is
			s.plan(plan, t.now())
		}
	})
	t.live, t.round, t.parts = s, fetch.Progress{}, nil
	return nil
}

// Round is called when a round begins, or is gone on with.
func (t *Teller) Round(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.live.Round, t.live.Waits, t.wait = name, "", wait{}
}

// Fetching is called with how mfetch of a shard goes on, 0 of a crawl without any.
func (t *Teller) Fetching(shard int, p *fetch.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.parts == nil {
		t.parts = map[int]fetch.Progress{}
	}
	t.parts[shard], t.live.Waits, t.wait = *p, "", wait{}
	t.round = *p
	if len(t.parts) > 1 {
		t.round = fetch.Progress{}
		for _, n := range slices.Sorted(maps.Keys(t.parts)) {
			t.round.Add(t.parts[n])
		}
	}
	if sum, err := json.Marshal(&t.round); err == nil {
		t.live.Batch = sum
	}
}

// Tasks is called with how many tasks of a stage are in which state.
func (t *Teller) Tasks(stage string, states counts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := "stage " + stage
	for i, c := range states.list() {
		text += fmt.Sprintf("%s %d %s", []string{":", ","}[min(i, 1)], c.N, c.Reason)
	}
	t.live.Waits = text
}

// Waits is called when a command waits.
func (t *Teller) Waits(w cli.Wait) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Quiet {
		return
	}
	if w.URL == "" {
		t.live.Waits = w.Text // stands in the line of progress
		return
	}
	if t.wait.url != w.URL {
		t.wait, t.soon = wait{url: w.URL, why: w.Why}, true
		if t.d != nil { // a run has begun
			t.wait.why = cmp.Or(t.d.lastError(w.URL), w.Why)
		}
	}
	t.wait.until = w.Until
}

// Said is called with each line of a warning of a command.
func (t *Teller) Said(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clear()
	fmt.Fprintln(t.Err, line)
}

// Failed is called with each line of an error of a command.
func (t *Teller) Failed(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clear()
	cli.LogError(t.Err, line)
}

// Ended is called when a round was closed.
func (t *Teller) Ended(ctx context.Context) error { return t.stand(ctx) }

// Done is called when no further round is made: it writes the summary.
func (t *Teller) Done(ctx context.Context, d *Driver, why string) error {
	t.mu.Lock()
	t.clear()
	l := t.look()
	t.mu.Unlock()
	if t.JSON {
		if err := t.line(l); err != nil {
			return err
		}
	}
	if t.Quiet {
		return nil
	}
	s, err := ReadStatus(ctx, l.Crawl, t.now())
	if err != nil {
		return err
	}
	s.Driver, s.Running, s.Trouble = "", nil, nil // that is this run, which ends; whyNothing has examples
	s.Next = s.next()
	fmt.Fprintf(t.Out, "mcrawl: %s\n", why)
	s.printBody(t.Out)
	if err := d.whyNothing(t.Out, s); err != nil {
		return err
	}
	if l.Replies > 0 {
		fmt.Fprintf(t.Out, "\nThis run: %s in %s, %.1f pages/s%s\n", count(l.Replies, "page"), span(l.Elapsed), float64(l.Replies)/max(l.Elapsed, 1e-3), boundBy(l.Bound, l.Elapsed))
	}
	fmt.Fprintf(t.Out, "Records of each round: %s   WARC files: %s\n", d.plan.all("rounds", "rN", "*.arrows.zst"), d.plan.all("fetch"))
	if !t.barren || s.Next != s.export() {
		fmt.Fprintf(t.Out, "next: %s\n", paint(t.Out, styleCommand, s.Next))
	}
	if s.Next == mcrawl("run", l.Crawl) {
		replay, err := Replay(l.Crawl)
		if err != nil {
			return err
		}
		fmt.Fprintf(t.Out, "to replay what is there by now: %s && %s\n", paint(t.Out, styleCommand, mcrawl("seal", l.Crawl)), replay)
	}
	return nil
}

// boundBy says that a run went at the pace of politeness, if it did for at least half of its seconds.
func boundBy(polite, elapsed float64) string {
	share := 100 * polite / max(elapsed, 1e-3)
	if share < 50 {
		return ""
	}
	return fmt.Sprintf(", bound by politeness: for %.0f %% of the time\na connection was free, and no host with URLs left might be contacted yet", min(share, 100))
}

// whyNothing shows examples of what was not fetched in the last round, if nothing ever was.
func (d *Driver) whyNothing(w io.Writer, s *Status) error {
	for _, o := range s.Outcomes {
		if o.Reason == record.OutcomeFetched || o.Reason == record.OutcomeNotModified {
			return nil
		}
	}
	files, err := d.Crawl.RoundFiles(d.outcomes())
	if err != nil || len(files) == 0 {
		return err
	}
	const most = 3
	n := most
	err = history.Read(files[len(files)-1], func(row *record.Fetch) error {
		if row.Role == record.RolePage {
			if n == most {
				fmt.Fprintln(w, "No page was fetched, for instance:")
			}
			n--
			fmt.Fprintf(w, "  %s: %s: %s\n", row.URL, row.Outcome, row.Error)
		}
		if n == 0 {
			return errEnough
		}
		return nil
	})
	if err != errEnough {
		return err
	}
	return nil
}

// lastError is how the last fetch of a URL failed, if that was in one of the last rounds; "" if not.
func (d *Driver) lastError(url string) (why string) {
	const rounds = 3
	files, err := d.Crawl.RoundFiles(d.outcomes())
	if err != nil {
		return ""
	}
	for _, file := range slices.Backward(files[max(0, len(files)-rounds*d.plan.tasks()):]) {
		err := history.Read(file, func(row *record.Fetch) error {
			if row.Role == record.RolePage && row.URL == url && row.Outcome != record.OutcomeDeferred {
				why = whyAgain(row)
			}
			return nil
		})
		if err != nil || why != "" { // who needs the file will say what is wrong with it
			break
		}
	}
	return why
}

// whyAgain says how a fetch failed that is made again. A reply may be the failure, such as one of status 500.
func whyAgain(row *record.Fetch) string {
	if row.Outcome == record.OutcomeFetched {
		return fmt.Sprintf("status %d", row.Status)
	}
	return strings.TrimSuffix(row.Outcome+": "+row.Error, ": ")
}

var errEnough = errors.New("enough examples")

// tick tells what is due. It is called each second.
func (t *Teller) tick() {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.look()
	if err := writeLive(l.Crawl, &l); err != nil {
		if !t.failed {
			t.clear()
			fmt.Fprintf(t.Err, "mcrawl: %v: \"mcrawl status\" does not show this run\n", err)
		}
		t.failed = true
	}
	now := t.now()
	switch {
	case t.Silent || t.Quiet:
	case t.JSON && !t.Seldom:
		_ = t.line(l) // a reader that went away ends the run by itself, or does not mind
	case t.Width > 0:
		t.clear()
		fmt.Fprint(t.Err, "\r", cut(l.Line(), t.Width-1))
		t.shown = true
	case now.Sub(t.told) >= lineEvery, t.soon && now.Sub(t.told) >= soonEvery, t.told.Equal(t.begun) && now.Sub(t.begun) >= firstLine:
		t.told, t.soon = now, false
		if t.JSON {
			_ = t.line(l) // as above
		} else {
			fmt.Fprintln(t.Err, l.Line())
		}
	}
}

// Standing is the line of progress as it is now; "" before the first round.
func (t *Teller) Standing() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.live.Round == "" {
		return ""
	}
	l := t.look()
	l.Hosts, l.Left, l.Waits = nil, 0, ""
	return l.Line()
}

func (t *Teller) line(l Status) error {
	b, err := json.Marshal(&l)
	if err == nil {
		_, err = fmt.Fprintf(t.Err, "%s\n", b)
	}
	return err
}

// look is how the crawl stands now. t.mu is held.
func (t *Teller) look() Status {
	t.sized.find(t.now, func() { t.live.Archived = onDisk(t.live.Crawl) })
	l, now := t.live, t.now()
	if t.wait.url != "" {
		l.Waits = t.wait.text(now, l.Waiting)
	}
	l.Time, l.Elapsed = now.UTC(), now.Sub(t.begun).Seconds()
	l.Replies += uint64(max(t.round.Replies()-t.round.Earlier, 0))
	if until := t.round.Held; until.After(now) && t.wait.url == "" {
		l.Waits = fmt.Sprintf("waiting until %s UTC: %s", until.UTC().Format(time.TimeOnly), fetch.Unrecorded)
	}
	l.Received, l.Bound = l.Received+t.round.Bytes, l.Bound+t.round.Bound
	l.Active, l.Connections = t.round.Hosts, t.round.Connections
	var ended []record.Count
	for o, n := range t.round.Outcomes {
		if o == record.OutcomeDeferred || o == record.OutcomeParked {
			continue
		}
		if l.Visits > 0 && !record.OfSettings(o) { // URLs come back: hardly an outcome is final
			l.Visits += uint64(n)
			continue
		}
		ended = append(ended, record.Count{Reason: o, N: uint64(n)})
		if !record.OfSettings(o) {
			l.Done += uint64(n) // it may come again: the frontier decides when the round ends
		}
	}
	l.outcomes(ended)
	l.Done = min(l.Done, l.Known)
	if l.Left = max(0, l.Left-now.Sub(t.planned.at).Seconds()); l.Left == 0 {
		l.LeftIs = ""
	}
	t.samples = append(t.samples, sample{now, l.Replies})
	for len(t.samples) > 2 && now.Sub(t.samples[0].at) > rateOver {
		t.samples = t.samples[1:]
	}
	if s := t.samples[0]; now.Sub(s.at) >= tellEvery {
		l.PerS = float64(l.Replies-s.replies) / now.Sub(s.at).Seconds()
		if l.Replies-s.replies >= paceReplies {
			l.observed()
		}
	}
	return l
}

// observed corrects the plan of the last checkpoint where all that is left is on one host: at the pace which that has now.
func (s *Status) observed() {
	if len(s.Hosts) != 1 || s.Active > 1 || s.Waits != "" {
		return
	}
	urls := s.Known - min(s.Done, s.Known)
	for _, p := range s.Parked {
		urls -= min(p.URLs, urls)
	}
	left := float64(urls) / s.PerS
	if due, err := time.Parse(time.RFC3339Nano, s.NextDue); err == nil {
		left = max(left, due.Sub(s.Time).Seconds())
	}
	s.Hosts = []HostLeft{{s.Hosts[0].Host, urls, left}}
	if s.Left, s.LeftIs = left, leftIsNow; urls == 0 {
		s.Hosts, s.LeftIs = nil, ""
	}
}

// clear takes the line off the terminal. t.mu is held.
func (t *Teller) clear() {
	if t.shown {
		fmt.Fprint(t.Err, "\r\x1b[K")
		t.shown = false
	}
}

// cut leaves of a line what fits into a terminal.
func cut(line string, width int) string {
	runes := []rune(line)
	if width < 1 || len(runes) <= width {
		return line
	}
	return string(runes[:width-1]) + "…"
}
