package tell

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/config"
	"mercator/pkg/fetch"
	"mercator/pkg/view/history"
	"mercator/pkg/view/stats"
)

// Reporter reports the progress of a crawl. On a terminal it rewrites one line. Elsewhere it writes a line after ten seconds
// and each half minute, or JSON each second. It also writes crawl/PROGRESS for "mcrawl status", and the summary at the end of a run.
type Reporter struct {
	Out, Err io.Writer
	Width    int  // columns of the terminal; 0: Err is no terminal
	JSON     bool // lines are JSON, not text
	Seldom   bool // JSON is written as seldom as text
	Silent   bool // no progress
	Quiet    bool // errors only: no summary

	now   func() time.Time
	crawl *Crawl
	begun time.Time
	stop  chan struct{}
	wg    sync.WaitGroup

	mu             sync.Mutex             // guards the fields below
	live           Status                 // the crawl after its last round, with the sums of this run
	parts          map[int]fetch.Progress // this round's progress, by shard
	round          fetch.Progress         // this round's progress, all shards together
	planned        refreshed              // live.Hosts and live.Left
	sized          refreshed              // live.Archived
	samples        []sample               // replies of the last minute
	shown          bool                   // the terminal shows a line of progress
	told           time.Time              // when the last line was written; a terminal has none
	soon           bool                   // the next line comes after soonEvery, not lineEvery
	wait           wait
	progressFailed bool // PROGRESS could not be written
}

// wait is the reason why mfrontier waits when no URL is due.
type wait struct {
	url   string
	until time.Time
	why   string
}

// text describes the wait; urls is the number of all waiting URLs.
func (w wait) text(now time.Time, urls uint64) string {
	more := ""
	if urls > 1 {
		more = fmt.Sprintf("; %s later", Count(urls-1, "more URL"))
	}
	return fmt.Sprintf("waiting for %s: %s, next try in %s, at %s UTC%s", w.url, w.why, span(max(0, w.until.Sub(now).Seconds())), w.until.UTC().Format(time.TimeOnly), more)
}

// refreshed is a value that takes long to compute: it is computed again so seldom that this takes a small part of the time.
type refreshed struct {
	at   time.Time
	took time.Duration
}

func (c *refreshed) refresh(now func() time.Time, out func()) {
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
	paceReplies = 10 // a pace is measured over at least so many replies
	costShare   = 20 // computing a refreshed value takes at most one part in so many of the time
)

// BeginRun is called before the first round of a run. It reads the status of the whole crawl.
func (r *Reporter) BeginRun(ctx context.Context, c *Crawl) error {
	r.crawl, r.now, r.begun, r.stop = c, c.now, c.now(), make(chan struct{})
	r.told, r.live.Crawl = r.begun, c.Dir()
	if err := r.refreshStatus(ctx); err != nil {
		return err
	}
	r.wg.Go(func() {
		tick := time.NewTicker(tellEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r.tick()
			case <-r.stop:
				return
			}
		}
	})
	return nil
}

// EndRun is called when a run ends, however it does.
func (r *Reporter) EndRun() {
	if r.stop == nil {
		return
	}
	close(r.stop)
	r.wg.Wait()
	r.stop = nil
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clearLine()
	_ = removeLive(r.live.Crawl) // one that stays is known by the lock that nobody holds
}

// refreshStatus reads the crawl's status between two rounds.
func (r *Reporter) refreshStatus(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.currentStatus()
	s := Status{Command: "mcrawl", Crawl: was.Crawl, Estimate: Estimate{Hosts: was.Hosts, Left: r.live.Left, LeftIs: r.live.LeftIs},
		RunStatus: RunStatus{Replies: was.Replies, Received: was.Received, Bound: was.Bound}}
	s.Archived = was.Archived
	if err := s.readFolder(ctx, r.crawl.Crawl, r.crawl.Frontiers); err != nil {
		return err
	}
	s.Round = was.Round
	r.planned.refresh(r.now, func() {
		s.Estimate = Estimate{}
		conf, err := config.Load(filepath.Join(s.Crawl, config.Name))
		if err != nil {
			return // the next round says so
		}
		polite, err := Politeness(conf)
		if err != nil {
			return // the next round says so
		}
		if plan, err := r.crawl.Frontiers.PlanRest(ctx, record.TimeOf(r.now()), polite); err == nil { // else who needs the table will say what it is
			s.addPlan(plan, r.now())
		}
	})
	r.live, r.round, r.parts = s, fetch.Progress{}, nil
	return nil
}

// BeginRound is called when a round begins or continues.
func (r *Reporter) BeginRound(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live.Round, r.live.Waits, r.wait = name, "", wait{}
}

// Fetching is called with the progress of a shard's mfetch; shard is 0 in a crawl without shards.
func (r *Reporter) Fetching(shard int, p *fetch.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.parts == nil {
		r.parts = map[int]fetch.Progress{}
	}
	r.parts[shard], r.live.Waits, r.wait = *p, "", wait{}
	r.round = *p
	if len(r.parts) > 1 {
		r.round = fetch.Progress{}
		for _, n := range slices.Sorted(maps.Keys(r.parts)) {
			r.round.Add(r.parts[n])
		}
	}
	if sum, err := json.Marshal(&r.round); err == nil {
		r.live.Batch = sum
	}
}

// Tasks is called with the number of a stage's tasks in each state.
func (r *Reporter) Tasks(stage string, states map[string]uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := "stage " + stage
	for i, c := range stats.Counts(states) {
		text += fmt.Sprintf("%s %d %s", []string{":", ","}[min(i, 1)], c.N, c.Reason)
	}
	r.live.Waits = text
}

// Waits is called when a command waits.
func (r *Reporter) Waits(w cli.Wait) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Quiet {
		return
	}
	if w.URL == "" {
		r.live.Waits = w.Text // the line of progress shows it
		return
	}
	if r.wait.url != w.URL {
		r.wait, r.soon = wait{url: w.URL, why: w.Why}, true
		if r.crawl != nil { // a run has begun
			r.wait.why = cmp.Or(r.crawl.lastError(w.URL), w.Why)
		}
	}
	r.wait.until = w.Until
}

// Warning prints a line of a command's warning.
func (r *Reporter) Warning(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clearLine()
	fmt.Fprintln(r.Err, line)
}

// Error prints a line of a command's error.
func (r *Reporter) Error(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clearLine()
	cli.LogError(r.Err, line)
}

// EndRound is called after a round is closed.
func (r *Reporter) EndRound(ctx context.Context) error { return r.refreshStatus(ctx) }

// PrintSummary writes the summary, after the last round of a run. hinted: the error that ends the run has a hint.
func (r *Reporter) PrintSummary(ctx context.Context, why string, hinted bool) error {
	r.mu.Lock()
	r.clearLine()
	l := r.currentStatus()
	r.mu.Unlock()
	if r.JSON {
		if err := r.writeJSON(l); err != nil {
			return err
		}
	}
	if r.Quiet {
		return nil
	}
	s, err := ReadStatus(ctx, l.Crawl, r.now())
	if err != nil {
		return err
	}
	s.Driver, s.Running, s.Trouble = "", nil, nil // that is this run, which ends; whyNothing has examples
	s.Next = s.nextCommand()
	fmt.Fprintf(r.Out, "mcrawl: %s\n", why)
	s.printBody(r.Out)
	if err := r.crawl.whyNothing(r.Out, s); err != nil {
		return err
	}
	if conf, err := r.crawl.Config(); err == nil && ctx.Err() == nil && conf.File.Focus.Model != "" { // it reads all rounds
		_, all, err := r.crawl.counted()
		if err != nil {
			return err
		}
		if all.Focus != nil {
			fmt.Fprintf(r.Out, "\n%s; more: %s\n", all.Focus, Paint(r.Out, styleCommand, fault.Quote("mcrawl", "stats", l.Crawl)))
		}
	}
	if l.Replies > 0 {
		fmt.Fprintf(r.Out, "\nThis run: %s in %s, %.1f pages/s%s\n", Count(l.Replies, "page"), span(l.Elapsed), float64(l.Replies)/max(l.Elapsed, 1e-3), boundBy(l.Bound, l.Elapsed))
	}
	fmt.Fprintf(r.Out, "Records of each round: %s   WARC files: %s\n", r.crawl.Path("rounds", "rN", "*.arrows.zst"), r.crawl.Path("fetch"))
	if !hinted || s.Next != s.export() {
		fmt.Fprintf(r.Out, "next: %s\n", Paint(r.Out, styleCommand, s.Next))
	}
	if s.Next == fault.Quote("mcrawl", "run", l.Crawl) {
		replay, err := Replay(l.Crawl)
		if err != nil {
			return err
		}
		fmt.Fprintf(r.Out, "to replay what is there by now: %s && %s\n", Paint(r.Out, styleCommand, fault.Quote("mcrawl", "seal", l.Crawl)), replay)
	}
	return nil
}

// boundBy says that politeness bound a run for at least half of its seconds.
func boundBy(polite, elapsed float64) string {
	share := 100 * polite / max(elapsed, 1e-3)
	if share < 50 {
		return ""
	}
	return fmt.Sprintf(", bound by politeness: for %.0f %% of the time\na connection was free, and no host with URLs left might be contacted yet", min(share, 100))
}

// whyNothing shows failures of the last round, in a crawl that never fetched anything.
func (c *Crawl) whyNothing(w io.Writer, s *Status) error {
	for _, o := range s.Outcomes {
		if o.Reason == record.OutcomeFetched || o.Reason == record.OutcomeNotModified {
			return nil
		}
	}
	files, err := c.RoundFiles(c.Outcomes())
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
func (c *Crawl) lastError(url string) (why string) {
	const rounds = 3
	files, err := c.RoundFiles(c.Outcomes())
	if err != nil {
		return ""
	}
	for _, file := range slices.Backward(files[max(0, len(files)-rounds*len(c.Frontiers)):]) {
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

// tick is called each second. It writes PROGRESS, and the line that is due.
func (r *Reporter) tick() {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.currentStatus()
	if err := writeLive(l.Crawl, &l); err != nil {
		if !r.progressFailed {
			r.clearLine()
			fmt.Fprintf(r.Err, "mcrawl: %v: \"mcrawl status\" does not show this run\n", err)
		}
		r.progressFailed = true
	}
	now := r.now()
	switch {
	case r.Silent || r.Quiet:
	case r.JSON && !r.Seldom:
		_ = r.writeJSON(l) // a reader that went away ends the run by itself, or does not mind
	case r.Width > 0:
		r.clearLine()
		fmt.Fprint(r.Err, "\r", truncate(l.Line(), r.Width-1))
		r.shown = true
	case now.Sub(r.told) >= lineEvery, r.soon && now.Sub(r.told) >= soonEvery, r.told.Equal(r.begun) && now.Sub(r.begun) >= firstLine:
		r.told, r.soon = now, false
		if r.JSON {
			_ = r.writeJSON(l) // as above
		} else {
			fmt.Fprintln(r.Err, l.Line())
		}
	}
}

// CurrentLine is the line of progress now; "" before the first round.
func (r *Reporter) CurrentLine() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.live.Round == "" {
		return ""
	}
	l := r.currentStatus()
	l.Hosts, l.Left, l.Waits = nil, 0, ""
	return l.Line()
}

func (r *Reporter) writeJSON(l Status) error {
	b, err := json.Marshal(&l)
	if err == nil {
		_, err = fmt.Fprintf(r.Err, "%s\n", b)
	}
	return err
}

// currentStatus returns the crawl's status now. The caller holds r.mu.
func (r *Reporter) currentStatus() Status {
	r.sized.refresh(r.now, func() { r.live.Archived = OnDisk(r.live.Crawl) })
	l, now := r.live, r.now()
	if r.wait.url != "" {
		l.Waits = r.wait.text(now, l.Waiting)
	}
	l.Time, l.Elapsed = now.UTC(), now.Sub(r.begun).Seconds()
	l.Replies += uint64(max(r.round.Replies()-r.round.Earlier, 0))
	if until := r.round.Held; until.After(now) && r.wait.url == "" {
		l.Waits = fmt.Sprintf("waiting until %s UTC: %s", until.UTC().Format(time.TimeOnly), fetch.Unrecorded)
	}
	l.Received, l.Bound = l.Received+r.round.Bytes, l.Bound+r.round.Bound
	l.Active, l.Connections = r.round.Hosts, r.round.Connections
	var ended []record.Count
	for o, n := range r.round.Outcomes {
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
	l.addOutcomes(ended)
	l.Done = min(l.Done, l.Known)
	if l.Left = max(0, l.Left-now.Sub(r.planned.at).Seconds()); l.Left == 0 {
		l.LeftIs = ""
	}
	r.samples = append(r.samples, sample{now, l.Replies})
	for len(r.samples) > 2 && now.Sub(r.samples[0].at) > rateOver {
		r.samples = r.samples[1:]
	}
	if s := r.samples[0]; now.Sub(s.at) >= tellEvery {
		l.PerS = float64(l.Replies-s.replies) / now.Sub(s.at).Seconds()
		if l.Replies-s.replies >= paceReplies {
			l.correctPlan()
		}
	}
	return l
}

// correctPlan corrects the plan of the last checkpoint by the pace of now, if one host has all URLs that are left.
func (s *Status) correctPlan() {
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
	s.Hosts = []HostLeft{{Host: s.Hosts[0].Host, URLs: urls, Took: left}}
	if s.Left, s.LeftIs = left, leftIsNow; urls == 0 {
		s.Hosts, s.LeftIs = nil, ""
	}
}

// clearLine removes the line from the terminal. The caller holds r.mu.
func (r *Reporter) clearLine() {
	if r.shown {
		fmt.Fprint(r.Err, "\r\x1b[K")
		r.shown = false
	}
}

// truncate leaves of a line what fits into a terminal.
func truncate(line string, width int) string {
	runes := []rune(line)
	if width < 1 || len(runes) <= width {
		return line
	}
	return string(runes[:width-1]) + "…"
}
