package tell

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/config"
	"mercator/pkg/config/sheet"
	"mercator/pkg/crawl"
	"mercator/pkg/driver/setup"
	"mercator/pkg/folder/shard"
	"mercator/pkg/frontier"
	"mercator/pkg/view/history"
)

// Status is the state of a crawl, from its last checkpoint, its frontier and a driver that works. The driver writes it, with
// the progress of its run, as the lines of --progress json and as crawl/PROGRESS.
type Status struct {
	Command string `json:"command,omitempty"` // "mcrawl" if a driver writes it
	Crawl   string `json:"crawl"`
	Policy  string `json:"policy"`
	RoundsStatus
	Driver  string       `json:"driver,omitempty"`
	Running *Status      `json:"running,omitempty"` // status from the driver; nil: no driver works, or it has written none yet
	Stages  *RoundStatus `json:"stages,omitempty"`  // stages of the open or next round, in a crawl of several shards
	URLsStatus
	DocumentsStatus
	Estimate
	Next   string  `json:"next,omitempty"` // the command to type next
	Config error   `json:"-"`              // why crawl.toml cannot be read
	Lost   []error `json:"-"`              // stores that are missing
	RunStatus
}

// RoundsStatus says which rounds and checkpoints there are.
type RoundsStatus struct {
	Checkpoint uint64   `json:"checkpoint"` // 0: the crawl has no seeds yet
	Round      string   `json:"round,omitempty"`
	Made       string   `json:"made,omitempty"`  // time of the checkpoint
	Rounds     uint64   `json:"rounds"`          // closed rounds; seeds and other additions count, too
	Batches    uint64   `json:"batches"`         // closed rounds r1, r2, …, which fetch
	Open       []string `json:"open,omitempty"`  // open rounds
	Inbox      uint64   `json:"inbox,omitempty"` // requests of mcrawl add and again that wait
}

// URLsStatus says what became of the URLs.
type URLsStatus struct {
	Known    uint64            `json:"known"` // URLs that the crawl knows
	Done     uint64            `json:"done"`  // known URLs with a final outcome
	Pending  uint64            `json:"pending"`
	InFlight uint64            `json:"in_flight"`
	Waiting  uint64            `json:"waiting"` // pending URLs that wait for a time
	NextDue  string            `json:"next_due,omitempty"`
	Held     uint64            `json:"held,omitempty"` // URLs over the budgets of their domains
	Parked   []frontier.Parked `json:"parked,omitempty"`
	Outcomes []record.Count    `json:"outcomes"` // final outcomes but those in Settings
	Trouble  *Trouble          `json:"trouble,omitempty"`
	Settings []record.Count    `json:"refused_by_settings,omitempty"`
	Visits   uint64            `json:"visits,omitempty"` // visits of URLs that are visited again and again: they are in no other count
	Pages    *frontier.Pages   `json:"pages,omitempty"`  // the pages of policy revisit
	Retried  uint64            `json:"retried"`
	Deferred uint64            `json:"deferred"`
}

// DocumentsStatus says what became of documents and of the rows about them.
type DocumentsStatus struct {
	Drops    []record.Count `json:"drops"`           // dropped rows, by stage and reason
	Robots   uint64         `json:"robots_contacts"` // contacts for a robots.txt
	Equal    uint64         `json:"duplicates"`      // documents with the content of an earlier one: they are not read for links
	Archived int64          `json:"archived_bytes"`  // bytes of WARC files
}

// Estimate is how long the URLs known take.
type Estimate struct {
	Hosts     []HostLeft `json:"hosts,omitempty"`      // the hosts that take longest
	HostsLeft uint64     `json:"hosts_left,omitempty"` // hosts with URLs that are due
	Left      float64    `json:"left_s,omitempty"`
	LeftIs    string     `json:"left_is,omitempty"` // how Left was estimated
}

// RunStatus is of a driver's run.
type RunStatus struct {
	Time        time.Time       `json:"time,omitzero"`
	Replies     uint64          `json:"replies,omitempty"`
	PerS        float64         `json:"replies_per_s,omitempty"` // replies a second in the last minute
	Received    int64           `json:"received_bytes,omitempty"`
	Active      int             `json:"active_hosts,omitempty"` // hosts of the batch with URLs left
	Connections int             `json:"connections,omitempty"`
	Batch       json.RawMessage `json:"batch,omitempty"`                 // mfetch's own line
	Waits       string          `json:"waits,omitempty"`                 // reason for a command's wait
	Bound       float64         `json:"bound_by_politeness_s,omitempty"` // time of this run in which only politeness held fetching back
	Elapsed     float64         `json:"elapsed_s,omitempty"`
}

// HostLeft is a host with URLs left.
type HostLeft struct {
	Host   string  `json:"host"`
	Scheme string  `json:"scheme,omitempty"` // of its URLs that wait, where it does not answer
	URLs   uint64  `json:"urls"`
	Took   float64 `json:"s"` // seconds for the URLs at the host's pace

	Failures uint64    `json:"failures_in_a_row,omitempty"` // contacts without an answer since its last answer
	Since    time.Time `json:"silent_since,omitzero"`       // the first of them, if there are several
	Again    time.Time `json:"tried_again,omitzero"`        // when it is tried again, if that lies ahead
}

// silent reports whether nobody knows how long the URLs of a host take, since it does not answer. A single contact may fail anywhere.
func (h HostLeft) silent() bool { return h.Failures > 1 }

func (h HostLeft) when() string {
	if h.silent() {
		text := fmt.Sprintf("which has not answered since %s UTC: %s in a row", h.Since.Format(time.DateTime), Count(h.Failures, "failed contact"))
		if !h.Again.IsZero() {
			text += fmt.Sprintf(", again at %s UTC", h.Again.Format(time.DateTime))
		}
		return text
	}
	return span(h.Took)
}

// Trouble is the most frequent failure of the last closed round. While URLs wait to be tried again, it is of the last round with a
// failure, among a few.
type Trouble struct {
	Round   string `json:"round"`
	Outcome string `json:"outcome"`
	URLs    uint64 `json:"urls"`
	URL     string `json:"url"` // an example
	Error   string `json:"error"`
}

// How an ETA was estimated.
const (
	leftIs    = "for the URLs known, at the pace that their hosts had"
	leftIsNow = "for the URLs known, at the pace of the last minute"
)

// ReadStatus reads the status of the crawl in dir, which may run.
func ReadStatus(ctx context.Context, dir string, now time.Time) (*Status, error) {
	folder, err := setup.Open(dir, crawl.Options{})
	if err != nil {
		return nil, err
	}
	f, err := frontier.OpenShards(dir)
	if err != nil {
		return nil, err
	}
	s := &Status{Crawl: dir, Driver: folder.Driven(), Lost: folder.Lost()}
	s.Archived = OnDisk(dir)
	if err := s.readFolder(ctx, folder, f); err != nil {
		return nil, err
	}
	if s.Driver != "" {
		s.Running = readLive(dir)
	}
	state, err := folder.State()
	if err != nil {
		return nil, err
	}
	waiting, err := folder.Inbox()
	if err != nil {
		return nil, err
	}
	s.Open, s.Inbox = state.Rounds, uint64(len(waiting))
	if s.Trouble, err = s.trouble(folder); err != nil {
		return nil, err
	}
	conf, err := config.Load(filepath.Join(dir, config.Name))
	var polite frontier.Politeness
	if err == nil {
		polite, err = Politeness(conf)
	}
	if err != nil {
		s.Config = err
	} else {
		plan, err := f.PlanRest(ctx, record.TimeOf(now), polite)
		if err != nil {
			return nil, err
		}
		s.addPlan(plan, now)
	}
	s.Next = s.nextCommand()
	return s, nil
}

// readFolder reads the last checkpoint and the frontier.
func (s *Status) readFolder(ctx context.Context, folder *crawl.Crawl, f frontier.Shards) error {
	k, err := folder.Current()
	if err != nil {
		return err
	}
	if k != nil {
		s.Checkpoint, s.Round, s.Made, s.Rounds = k.Number, k.Txn, k.Made, k.Totals.Rounds
		s.addTotals(k.Totals)
	}
	if s.Batches, err = folder.NextRound(); err != nil {
		return err
	}
	s.Batches = max(s.Batches, 1) - 1
	st, err := f.Stat(ctx, frontier.StatOptions{})
	if err != nil {
		return err
	}
	s.Policy, s.Known, s.Done, s.Pending, s.InFlight, s.Waiting, s.NextDue, s.Held = st.Policy, st.Discovered, st.Finished, st.Pending, st.InFlight, st.Waiting, st.NextDue, st.Held
	s.Visits, s.Retried, s.Deferred, s.Parked = st.Visits, st.Retried, st.Deferred, st.Parked
	s.Pages, _ = st.Own.(*frontier.Pages)
	s.addOutcomes(st.Outcomes)
	for _, p := range st.Parked {
		if record.OfSettings(p.Outcome) {
			s.addOutcomes([]record.Count{{Reason: p.Outcome, N: p.URLs}})
		}
	}
	return nil
}

// addOutcomes adds outcomes to Settings or to Outcomes.
func (s *Status) addOutcomes(list []record.Count) {
	of := map[bool]counts{false: {}, true: {}} // by whether they are of settings
	for _, o := range slices.Concat(s.Outcomes, s.Settings, list) {
		of[record.OfSettings(o.Reason)][o.Reason] += o.N
	}
	s.Outcomes, s.Settings = of[false].list(), of[true].list()
}

// troubleRounds bounds how many rounds are read for a Trouble.
const troubleRounds = 10

func (s *Status) trouble(folder *crawl.Crawl) (t *Trouble, err error) {
	n := 0
	err = folder.Back(func(k *crawl.Checkpoint) error {
		if t, err = troubleIn(s.Crawl, k.Txn); err != nil {
			return err
		}
		if n++; t != nil || s.Waiting == 0 || n == troubleRounds {
			return errEnough
		}
		return nil
	})
	if err == errEnough {
		err = nil
	}
	return t, err
}

// troubleIn reads the records of a closed round, where the crawl keeps them.
func troubleIn(dir, round string) (*Trouble, error) {
	dirs, err := shard.Dirs(durable.OS, dir)
	if err != nil {
		return nil, err
	}
	n := counts{}
	example := map[string]record.Fetch{}
	for _, dir := range dirs {
		for _, name := range []string{"marked", "fetched"} { // of a walk
			_ = history.Read(filepath.Join(dir, "rounds", round, name+".arrows.zst"), func(row *record.Fetch) error { // what is damaged, verify names
				if row.Role != record.RolePage || !isError(row.Outcome) {
					return nil
				}
				if n[row.Outcome]++; n[row.Outcome] == 1 {
					example[row.Outcome] = *row
				}
				return nil
			})
		}
	}
	most := n.list()
	if len(most) == 0 {
		return nil, nil
	}
	row := example[most[0].Reason]
	return &Trouble{round, row.Outcome, most[0].N, row.URL, row.Error}, nil
}

// addTotals adds the sums of all stages.
func (s *Status) addTotals(t crawl.Totals) {
	drops := counts{}
	for _, stage := range t.Stages {
		for _, c := range slices.Concat(stage.Drops, stage.Refused) {
			drops[stage.Name+": "+c.Reason] += c.N
			if stage.Name == "mextract" && c.Reason == "duplicate" {
				s.Equal += c.N
			}
		}
		for _, c := range stage.Made {
			if stage.Name == "mfetch" && c.Reason == record.RoleRobots {
				s.Robots += c.N
			}
		}
	}
	s.Drops = drops.list()
}

// addPlan adds what is left. The crawl does not end before the first waiting URL is due.
func (s *Status) addPlan(p *frontier.Plan, now time.Time) {
	if p == nil || p.URLs == 0 {
		return
	}
	s.HostsLeft = p.Hosts
	for _, h := range p.Slow {
		left := HostLeft{Host: h.Host, URLs: h.URLs, Took: h.Took.Seconds(), Failures: h.Failures}
		if left.silent() {
			left.Scheme = h.Scheme
			left.Since = h.Since.Go()
			if h.Until > record.TimeOf(now) {
				left.Again = h.Until.Go()
			}
		}
		s.Hosts = append(s.Hosts, left)
	}
	if p.Hosts > 0 && p.Hosts == uint64(len(s.Hosts)) && !slices.ContainsFunc(s.Hosts, func(h HostLeft) bool { return !h.silent() }) {
		return // none answers
	}
	s.Left, s.LeftIs = p.Duration.Seconds(), leftIs
	if due, err := time.Parse(time.RFC3339Nano, s.NextDue); err == nil {
		s.Left = max(s.Left, due.Sub(now).Seconds())
	}
}

// nextCommand is the command that a person types next.
func (s *Status) nextCommand() string {
	parked := s.parked()
	switch {
	case s.Driver != "":
		return fault.Quote("mcrawl", "status", s.Crawl, "--watch")
	case s.Checkpoint == 0, len(s.Open) > 0, s.Inbox > 0, s.Pending+s.InFlight > parked:
		return fault.Quote("mcrawl", "run", s.Crawl)
	case parked > 0 && s.release() != "":
		return s.release()
	case !slices.ContainsFunc(s.Outcomes, func(c record.Count) bool { return !isError(c.Reason) }) && len(s.Outcomes) > 0:
		for _, o := range s.Outcomes {
			if o.Reason != record.OutcomePort {
				return fault.Quote("mcrawl", "again", s.Crawl, "--outcome", o.Reason)
			}
		}
		return fault.Quote("mcrawl", "add", s.Crawl, "URL") // nothing makes a port another
	}
	return s.export()
}

func (s *Status) export() string { return fault.Quote("mcrawl", "export", s.Crawl, "--wacz") }

// release is the command that brings back what a setting parked; "" where there is nothing.
func (s *Status) release() string {
	var outcomes []string
	for _, p := range s.Parked {
		if p.Outcome != record.OutcomeParked {
			outcomes = append(outcomes, p.Outcome)
		}
	}
	if len(outcomes) == 0 {
		return ""
	}
	return fault.Quote("mcrawl", "again", s.Crawl, "--outcome", strings.Join(outcomes, ","))
}

// Print writes the status for people.
func (s *Status) Print(out io.Writer) error {
	w := newPage(out)
	fmt.Fprintln(w, Paint(w, StyleHeading, fmt.Sprintf("crawl %s, policy %s", s.Crawl, s.Policy)))
	switch {
	case s.Driver != "":
		fmt.Fprintf(w, "%s %s\n", Paint(w, styleGood, "running:"), s.Driver)
		if s.Running != nil {
			fmt.Fprintf(w, "  %s\n", s.Line())
		}
	case len(s.Open) > 0:
		fmt.Fprintln(w, Paint(w, styleNote, fmt.Sprintf("not running; round %s is open", strings.Join(s.Open, ", "))))
	default:
		fmt.Fprintln(w, "not running; no round is open")
	}
	if s.Checkpoint == 0 {
		fmt.Fprintln(w, "no checkpoint: the seeds are not in yet")
	} else {
		fmt.Fprintf(w, "checkpoint %d, of round %s, made %s; %s closed%s\n", s.Checkpoint, s.Round, s.Made, Count(cmp.Or(s.Batches, s.Rounds), "round"), s.added())
	}
	if s.Inbox > 0 {
		fmt.Fprintf(w, "waiting: %s of mcrawl add and again\n", Count(s.Inbox, "request"))
	}
	if s.Stages != nil {
		s.Stages.table(w)
	}
	s.printBody(w)
	fmt.Fprintf(w, "next: %s\n", Paint(w, styleCommand, s.Next))
	return w.Flush()
}

// added describes the checkpoints that something other than rounds of fetching closed.
func (s *Status) added() string {
	if s.Batches == 0 || s.Rounds <= s.Batches {
		return ""
	}
	return fmt.Sprintf(", and %s of the queue alone (seeds, mcrawl add and again)", Count(s.Rounds-s.Batches, "change"))
}

// replies says which statuses replies had that are not read for links.
func (s *Status) replies() string {
	var by []string
	for _, c := range s.Drops {
		if class, ok := strings.CutPrefix(c.Reason, "mextract: status-"); ok {
			by = append(by, fmt.Sprintf("%s had status %s", Grouped(c.N), class))
		}
	}
	return strings.Join(by, ", ")
}

// printBody writes what the summary of a run has, too.
func (s *Status) printBody(w io.Writer) {
	fmt.Fprintf(w, "\n%s known, %s done, %s waiting", column(s.Known, "URL"), Grouped(s.Done), Grouped(s.Pending))
	if s.InFlight > 0 && s.Driver == "" {
		fmt.Fprintf(w, ", %s in the open round, which the next run goes on with", Grouped(s.InFlight))
	} else if s.InFlight > 0 {
		fmt.Fprintf(w, ", %s in flight", Grouped(s.InFlight))
	}
	fmt.Fprintln(w)
	if s.Waiting > 0 {
		fmt.Fprintf(w, "%12s of these waiting for a time, the first until %s\n", Grouped(s.Waiting), s.NextDue)
	}
	if s.Held > 0 {
		fmt.Fprintf(w, "%12s of these over the budgets of their domains\n", Grouped(s.Held))
	}
	for _, c := range s.Outcomes {
		line := fmt.Sprintf("%12s %s", Grouped(c.N), c.Reason)
		if isError(c.Reason) {
			line = Paint(w, styleBad, line)
		}
		fmt.Fprintln(w, line)
		if by := s.replies(); by != "" && c.Reason == record.OutcomeFetched {
			fmt.Fprintf(w, "%12s that is any reply; counting repeats, %s\n", "", by)
		}
	}
	if s.Visits > 0 {
		fmt.Fprintf(w, "%s, after which the URL waits for the next: no outcome above counts them, mcrawl stats does\n", column(s.Visits, "visit"))
	}
	if s.Pages != nil {
		_, lines := s.Pages.Lines()
		for _, l := range lines {
			fmt.Fprintf(w, "%s: %s\n", l[0], l[1])
		}
	}
	if t := s.Trouble; t != nil {
		fmt.Fprintf(w, "%s, such as %s", Paint(w, styleBad, fmt.Sprintf("In round %s %s %s", t.Round, Count(t.URLs, "URL"), t.Outcome)), t.URL)
		if t.Error != "" {
			fmt.Fprintf(w, ": %s", t.Error)
		}
		fmt.Fprintln(w)
	}
	if s.Retried+s.Deferred > 0 {
		fmt.Fprintf(w, "%s tried again after a failure", column(s.Retried, "time"))
		if s.Deferred > 0 {
			fmt.Fprintf(w, "; %s put off untried", Count(s.Deferred, "time"))
		}
		fmt.Fprintln(w)
	}
	printCounts(w, "Refused by the settings of this crawl:", s.Settings)
	for _, p := range s.Parked {
		fmt.Fprint(w, Paint(w, styleNote, fmt.Sprintf("%12s parked: %s", Grouped(p.URLs), p.Outcome)))
		if p.Due != "" {
			fmt.Fprintf(w, ", the first until %s", p.Due)
		}
		if p.Outcome == record.OutcomeParked {
			fmt.Fprint(w, ": longer than politeness.longest_wait, as the server asks")
		}
		fmt.Fprintln(w)
	}
	if s.release() != "" {
		fmt.Fprintf(w, "%12s back into the queue, after a change of settings: %s\n", "", Paint(w, styleCommand, s.release()))
	}
	printCounts(w, "Drops by stage and reason, of links and of rows:", s.Drops)
	fmt.Fprintf(w, "%12s of WARC files; %s; %s\n", Size(s.Archived), Count(s.Equal, "duplicate")+" (not read for links)", Count(s.Robots, "robots.txt contact"))
	for _, h := range s.Hosts[:min(len(s.Hosts), 5)] {
		fmt.Fprintf(w, "%s left on %s, %s\n", column(h.URLs, "URL"), frontier.ServedBy(h.Scheme, h.Host), h.when())
	}
	if s.Left > 0 && (s.Running == nil || s.Running.Left < 1) { // else the line of the round has a newer estimate
		fmt.Fprintf(w, "about %s to go (%s)\n", span(s.Left), s.LeftIs)
	}
}

// liveFile is the file in the crawl folder with the driver's live status.
const liveFile = crawl.ProgressFile

// liveMax bounds the file.
const liveMax = 1 << 20

// readLive reads what the driver that works on the crawl last told; nil if that is nothing. A file from before it took
// the lock is of one that was killed.
func readLive(dir string) *Status {
	f, err := os.Open(filepath.Join(dir, liveFile))
	if err != nil {
		return nil
	}
	defer f.Close()
	told, err := f.Stat()
	if err != nil {
		return nil
	}
	if begun, err := os.Stat(filepath.Join(dir, crawl.DriverFile)); err == nil && told.ModTime().Before(begun.ModTime()) {
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(f, liveMax))
	l := new(Status)
	if err != nil || json.Unmarshal(b, l) != nil { // of another version
		return nil
	}
	return l
}

// writeLive replaces the file.
func writeLive(dir string, l *Status) error { return replace(filepath.Join(dir, liveFile), l) }

// replace writes a file that tells something, as JSON. A crawl is whole without it, so nobody waits for the disk: a power cut may tear it.
func replace(file string, value any) error {
	b, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return replaceBytes(file, append(b, '\n'))
}

func replaceBytes(file string, b []byte) error {
	dir, name := filepath.Split(file)
	temp := dir + "." + name + durable.TempSuffix
	err := os.WriteFile(temp, b, 0o666)
	if err == nil {
		err = os.Rename(temp, file)
	}
	if err != nil {
		_ = os.Remove(temp) // the first error is the one to tell
	}
	return err
}

func removeLive(dir string) error {
	if err := os.Remove(filepath.Join(dir, liveFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// isError reports whether an outcome is one that a person should look at.
func isError(outcome string) bool {
	return !slices.Contains([]string{record.OutcomeFetched, record.OutcomeNotModified, record.OutcomeRobotsDenied, record.OutcomeRefused, record.OutcomeDeferred, record.OutcomeParked}, outcome)
}

// Line is the status in a line: of the driver's, if one works.
func (s *Status) Line() string {
	l := cmp.Or(s.Running, s)
	var b strings.Builder
	if l.Round != "" {
		fmt.Fprintf(&b, "%s: ", l.Round)
	}
	fmt.Fprintf(&b, "%s of %s URLs done", Grouped(l.Done), Grouped(l.Known))
	if l.PerS >= 0.05 {
		fmt.Fprintf(&b, ", %.1f pages/s", l.PerS)
	}
	fmt.Fprintf(&b, ", %s", Size(l.Archived))
	errs := slices.DeleteFunc(slices.Clone(l.Outcomes), func(c record.Count) bool { return !isError(c.Reason) })
	if len(errs) > 0 {
		fmt.Fprintf(&b, ", errors %s (", Grouped(sumCounts(errs)))
		for i, e := range errs[:min(len(errs), 3)] {
			b.WriteString([]string{"", ", "}[min(i, 1)])
			fmt.Fprintf(&b, "%s %s", e.Reason, Grouped(e.N))
		}
		if len(errs) > 3 {
			b.WriteString(", …")
		}
		b.WriteString(")")
	}
	if n := sumCounts(l.Settings); n > 0 {
		fmt.Fprintf(&b, ", refused by settings %s", Grouped(n))
	}
	if l.Active > 0 {
		fmt.Fprintf(&b, ", %s", Count(uint64(l.Active), "active host"))
	}
	if text := l.waits(); text != "" {
		fmt.Fprintf(&b, "; %s", text)
	}
	if l.Left >= 1 {
		fmt.Fprintf(&b, "; about %s to go for the URLs known", span(l.Left))
	}
	return b.String()
}

// sayHost is how long a host must take at least to be named.
const sayHost = 10 // seconds

// waits describes why the crawl waits.
func (l *Status) waits() string {
	if l.Waits != "" {
		return l.Waits
	}
	if len(l.Hosts) == 0 || l.Hosts[0].Took < sayHost || l.Hosts[0].Took < l.Left/2 {
		return ""
	}
	h := l.Hosts[0]
	if h.silent() {
		return fmt.Sprintf("%s left on %s, %s", Count(h.URLs, "URL"), frontier.ServedBy(h.Scheme, h.Host), h.when())
	}
	return fmt.Sprintf("politeness: %s has %s left at %s, %s", h.Host, Count(h.URLs, "URL"), pace(h.Took/float64(h.URLs)), span(h.Took))
}

// OnDisk is the size of the WARC files, also of those that grow.
func OnDisk(dir string) (n int64) {
	dirs, _ := shard.Dirs(durable.OS, dir) // who opens the crawl says what is wrong
	for _, dir := range dirs {
		files, _ := filepath.Glob(filepath.Join(crawl.QuoteGlob(dir), "fetch", "*.warc*")) // the pattern is right
		for _, f := range files {
			if st, err := os.Stat(f); err == nil { // else it just got its final name
				n += st.Size()
			}
		}
	}
	return n
}

// Politeness is the politeness of the settings.
func Politeness(conf *config.Config) (frontier.Politeness, error) {
	of := conf.File.Politeness
	sheets, err := sheet.OfCrawl(conf)
	return frontier.Politeness{Policy: sheets.Politeness(of.Delays), AddrDelay: of.AddrDelay,
		Connections: conf.File.Fetch.Connections, KeepRobots: conf.File.Fetch.RobotsKeep, Duration: frontier.DefaultPoliteness.Duration}, err
}
