package tell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/politeness"
	"mercator/pkg/config"
	"mercator/pkg/config/sheet"
	"mercator/pkg/driver/setup"
	"mercator/pkg/fetch"
	"mercator/pkg/fetch/http1"
	"mercator/pkg/folder/shard"
	"mercator/pkg/fpset"
	"mercator/pkg/frontier"
	"mercator/pkg/urlset"
	"mercator/pkg/view/history"
	"mercator/pkg/view/stats"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/filter"
	"mercator/pkg/web/httpmsg"
	"mercator/pkg/web/robots"
)

// Explained is the crawl's decision about one URL, with the reasons.
type Explained struct {
	Input   string `json:"input"`
	URL     string `json:"url"` // canonical form of Input
	Host    string `json:"host"`
	Key     string `json:"url_key"`
	Shard   *int   `json:"shard,omitempty"` // owner of the host; nil: the crawl has no shards
	owner   int    // owner of the host; 0: the crawl has no shards
	program bool   // a program keeps the set of URLs
	kind    string // kind of the link that was refused; "": none was
	limit   string // the limit of new URLs that dropped it, or may have; "": none is known

	most uint64    // the host's limit of bytes, if it is reached; 0: it is not
	hold time.Time // no host is contacted before this time, since the last run was killed; zero: it was not

	Filter *DecidedBy    `json:"filter,omitempty"` // nil: the crawl has no filter
	rule   string        // rule that refused it, with its place in today's filter; "": none did
	Sheets []SheetOf     `json:"sheets,omitempty"`
	Robots RobotsVerdict `json:"robots"`
	Logins []string      `json:"logins,omitempty"` // kinds of credentials that only its server gets, without values
	Login  *LastOutcome  `json:"login,omitempty"`  // the last contact of a login with its host

	Known  bool         `json:"known"` // the crawl has found it, or it was given
	State  string       `json:"state"` // a constant In… of package frontier, "done", "dropped", "refused" or "unknown"
	Parked string       `json:"parked,omitempty"`
	Before uint64       `json:"before,omitempty"` // URLs of its host that come before it
	Via    string       `json:"via,omitempty"`    // the page with the link by which it was found
	Depth  *uint16      `json:"depth,omitempty"`
	Last   *LastOutcome `json:"last,omitempty"`

	Next time.Time `json:"next,omitzero"` // it may be fetched from then on; zero: at once, or never
	Ever bool      `json:"ever"`          // it will be fetched if the crawl goes on
	Why  string    `json:"why"`           // why not yet, or why never
}

// DecidedBy is the filter's verdict.
type DecidedBy struct {
	Allow     bool   `json:"allow"`
	Rule      string `json:"rule"` // "default" where none decides
	File      string `json:"file,omitempty"`
	Line      int    `json:"line,omitempty"`
	Condition string `json:"condition,omitempty"`
}

// SheetOf is a sheet that holds for the URL.
type SheetOf struct {
	Name      string         `json:"name"`
	File      string         `json:"file"`
	Line      int            `json:"line"`
	Condition string         `json:"condition"`
	Settings  []SheetSetting `json:"settings"`
}

// SheetSetting is a setting that a sheet gives.
type SheetSetting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// RobotsVerdict is the verdict of the saved robots.txt.
type RobotsVerdict struct {
	Verdict string    `json:"verdict"` // "allowed", "denied", or "unknown"
	At      time.Time `json:"at,omitzero"`
	Delay   float64   `json:"crawl_delay_s,omitempty"`
	Old     bool      `json:"old,omitempty"`     // it has expired: the next page of the host is fetched after it
	Ignored bool      `json:"ignored,omitempty"` // a sheet says that robots.txt decides nothing
}

// LastOutcome is the outcome of the URL's last try.
type LastOutcome struct {
	Round   string    `json:"round"`
	Outcome string    `json:"outcome"`
	Status  uint16    `json:"status,omitempty"`
	Cut     string    `json:"truncated,omitempty"` // why its document has no end
	Error   string    `json:"error,omitempty"`
	At      time.Time `json:"at,omitzero"`
}

// The states of URLs that do not wait.
const (
	stateDone    = "done"
	stateDropped = "dropped"
	stateRefused = "refused" // as a link, so that the set of URLs does not know it
	stateUnknown = "unknown"
)

// Explain returns the crawl's decision about a URL. It reads the queues up to that URL, and the records of all rounds. A URL without a scheme is taken as
// https, or as http if the crawl knows that one alone.
func (c *Crawl) Explain(ctx context.Context, input string) (*Explained, error) {
	conf, err := c.Config()
	if err != nil {
		return nil, err
	}
	form, err := conf.Canon()
	if err != nil {
		return nil, err
	}
	given, assumed, err := urlset.Seed(input, form)
	if err != nil {
		return nil, err
	}
	e, err := c.explain(ctx, conf, form, input, given)
	if rest, ok := strings.CutPrefix(given, "https://"); err == nil && assumed && ok && e.State == stateUnknown {
		if plain, err := c.explain(ctx, conf, form, input, "http://"+rest); err != nil || plain.State != stateUnknown {
			return plain, err
		}
	}
	return e, err
}

func (c *Crawl) explain(ctx context.Context, conf *config.Config, form canon.Options, input, given string) (*Explained, error) {
	url, host, err := form.URL(given)
	if err != nil {
		return nil, err
	}
	key := form.URLKey(host, url)
	e := &Explained{Input: input, URL: url, Host: host, Key: fmt.Sprintf("%016x", key)}
	m, err := shard.Read(durable.OS, c.Dir())
	if err != nil {
		return nil, err
	}
	if m != nil {
		e.owner = m.Of(key)
		e.Shard = &e.owner
	}
	if file, err := conf.Setting("fetch.login"); err != nil {
		return nil, err
	} else if len(file) > 0 {
		logins, err := http1.ReadLogins(file[0])
		if err != nil {
			return nil, err
		}
		e.Logins = logins.Kinds(url, c.now())
	}
	row := record.URL{URL: url, Host: host, Key: key}
	if err := c.explainState(ctx, e, form, &row); err != nil {
		return nil, err
	}
	if err := explainFilter(ctx, e, conf, form, &row); err != nil {
		return nil, err
	}
	sheets, err := sheet.OfCrawl(conf)
	if err != nil {
		return nil, err
	}
	for _, i := range sheets.Of(url, host) {
		of := &sheets.All[i]
		one := SheetOf{Name: of.Name, File: sheets.Files[0], Line: of.Line, Condition: of.Condition}
		for _, v := range of.Values {
			text := v.Text
			if name := http1.SecretHeader(text); v.Key.Name == "fetch.headers" && name != "" {
				text = name + ": (not shown)"
			}
			one.Settings = append(one.Settings, SheetSetting{v.Key.Name, text})
		}
		e.Sheets = append(e.Sheets, one)
	}
	kept, err := c.explainRobots(e, conf)
	if err != nil {
		return nil, err
	}
	if most := sheets.HostBytes(conf.File.Batch); most != nil {
		h, _, err := c.Frontiers[e.owner].Host(ctx, host)
		if err != nil {
			return nil, err
		}
		if e.most = most(host); e.most == 0 || h.Bytes < e.most {
			e.most = 0
		}
	}
	if e.State == stateDropped || e.State == stateUnknown && conf.File.Stages.Seen != "" {
		if err := c.explainDropped(ctx, e, &conf.File, sheets, key); err != nil {
			return nil, err
		}
	}
	newest, err := c.Current()
	polite := sheets.Politeness(conf.File.Politeness.Delays)
	own := polite.Of(host)
	e.Robots.Ignored = own.NoRobots
	if c.Driven() == "" { // else contacts are made now
		if e.hold, err = fetch.Hold(store.Folder(c.store(e.owner, fetch.Kind), store.Options{}), c.now(), polite); err != nil {
			return nil, err
		}
	}
	e.Robots.Old = !kept.Robots.IsZero() && c.now().Sub(kept.Robots) > conf.File.Fetch.RobotsKeep
	e.conclude(c, row.Due, kept.May(own), own.Window, conf.File.Fetch.RobotsKeep, newest == nil)
	return e, err
}

// explainState finds out where the URL is, and sets what is known of it in row.
func (c *Crawl) explainState(ctx context.Context, e *Explained, form canon.Options, row *record.URL) error {
	key := row.Key
	is := func(u *record.URL) bool { return u.Key == key }
	place, waits, err := c.Frontiers[e.owner].Find(ctx, e.Host, is)
	if err != nil {
		return err
	}
	seen, err := c.seen(e.owner, form, row)
	if e.program = errors.Is(err, fault.WrongKind); err != nil && !e.program {
		return err
	}
	e.Known = seen || waits
	if err := c.explainLast(e, key, row); err != nil {
		return err
	}
	if e.Known = e.Known || e.Last != nil; !e.Known {
		e.State = stateUnknown
		return nil
	}
	switch {
	case waits:
		e.State, e.Parked, e.Before, *row = place.State, place.Parked, place.Before, place.URL
	case e.kind != "":
		e.State = stateRefused
	case e.Last == nil:
		e.State = stateDropped
	default:
		e.State = stateDone
	}
	if e.Via = row.Via; waits || e.Last != nil {
		e.Depth = &row.Depth
	}
	return nil
}

// seen asks the set of URLs of a shard.
func (c *Crawl) seen(n int, form canon.Options, row *record.URL) (bool, error) {
	st, err := store.Open(c.store(n, urlset.Kind), urlset.Kind, urlset.Version, store.Options{})
	if err != nil {
		return false, err
	}
	set, err := fpset.LoadCurrent(st, fpset.Options{Workers: 1})
	if err != nil {
		return false, err
	}
	defer set.Close()
	poly, err := urlset.Polynomial(st)
	if err != nil {
		return false, err
	}
	seen := []bool{false}
	err = set.ContainsAll([]uint64{urlset.KeyOf(poly, form, row)}, seen)
	return seen[0], err
}

// explainLast finds the last outcome of a URL, and what was known of it then.
func (c *Crawl) explainLast(e *Explained, key uint64, row *record.URL) error {
	kept, err := c.Files()
	if err != nil {
		return err
	}
	names := []string{"dropped", c.Outcomes()}
	if !e.Known {
		names = append(names, "refused")
		if !e.program && len(e.Logins) == 0 { // what is not in the set has no outcome
			names = names[2:]
		}
	}
	files, err := kept.Files(names...)
	if err != nil {
		return err
	}
	for _, file := range files {
		round := filepath.Base(filepath.Dir(file))
		name, _, _ := strings.Cut(filepath.Base(file), ".")
		if name == "refused" {
			err := history.Read(file, func(l *record.Link) error {
				if l.Key == key && (e.Last == nil || e.kind != "") {
					e.Last, e.kind = &LastOutcome{Round: round, Outcome: record.OutcomeRefused, Error: l.Extra.Text(history.RefusedColumn)}, l.LinkKind
					*row = l.ToURL()
				}
				return nil
			})
			if err != nil {
				return err
			}
			continue
		}
		if name == "dropped" {
			err := history.Read(file, func(u *record.URL) error {
				if u.Key == key {
					e.kind = ""
					e.Last = &LastOutcome{Round: round, Outcome: record.OutcomeRefused, Error: u.Extra.Text(history.RefusedColumn)}
					*row = *u
				}
				return nil
			})
			if err != nil {
				return err
			}
			continue
		}
		err := history.Read(file, func(r *record.Fetch) error {
			if r.Role == record.RoleLogin && r.Host == e.Host {
				e.Login = &LastOutcome{round, r.Outcome, r.Status, r.Truncated, r.Error, r.FetchTime.Go().UTC()}
			}
			if r.Key == key && r.Role == record.RolePage {
				e.Last, e.kind = &LastOutcome{round, r.Outcome, r.Status, r.Truncated, r.Error, r.FetchTime.Go().UTC()}, ""
				*row = r.ToURL()
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// explainDropped finds the first link to a URL that was dropped, and which limit of new URLs dropped it.
func (c *Crawl) explainDropped(ctx context.Context, e *Explained, f *config.File, sheets *sheet.Sheets, key uint64) error {
	kept, err := c.Files()
	if err != nil {
		return err
	}
	files, err := kept.Files("links")
	if err != nil {
		return err
	}
	for _, file := range files {
		err := history.Read(file, func(l *record.Link) error {
			if l.Key == key && e.Depth == nil {
				depth := l.Depth
				e.Via, e.Depth = l.SrcURL, &depth
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if e.State == stateUnknown && e.Depth == nil {
		return nil
	}
	e.Known, e.State = true, stateDropped
	own := f.Frontier.NewURLs
	sheets.Apply(sheets.Of(e.URL, e.Host), &own)
	host, _, err := c.Frontiers[e.owner].Host(ctx, e.Host)
	switch {
	case err != nil:
		return err
	case e.Depth != nil && own.MaxDepth > 0 && int(*e.Depth) > own.MaxDepth:
		e.limit = fmt.Sprintf("frontier.max_depth (%d) dropped it", own.MaxDepth)
	case own.MaxHostURLs > 0 && host.Discovered >= own.MaxHostURLs:
		e.limit = fmt.Sprintf("frontier.max_host_urls (%d) dropped it", own.MaxHostURLs)
	}
	var limits []string
	for key, set := range map[string]bool{"frontier.max_depth": own.MaxDepth > 0, "frontier.max_host_urls": own.MaxHostURLs > 0, "stages.new": f.Stages.New != ""} {
		if set {
			limits = append(limits, key)
		}
	}
	if slices.Sort(limits); e.limit == "" && len(limits) > 0 {
		e.limit = strings.Join(limits, " or ") + " may have dropped it"
	}
	return nil
}

// explainFilter asks the filter. A URL that the crawl does not know counts as a link on its own host.
func explainFilter(ctx context.Context, e *Explained, conf *config.Config, form canon.Options, row *record.URL) error {
	rules, file, err := setup.LoadFilter(conf, form)
	if err != nil || file == "" {
		return err
	}
	defer rules.Close()
	judge := rules.NewJudge()
	defer judge.Close()
	c := filter.Candidate{URL: e.URL, Host: e.Host, Depth: row.Depth, Via: row.Via, Named: e.Known && row.Via == "" || row.Sitemap > 0, Requisite: row.Requisite > 0}
	if c.From = e.Host; row.Via != "" {
		_, c.From, _ = canon.Split(row.Via)
	} else if c.Named {
		c.From = ""
	}
	if !c.Named && !c.Requisite {
		c.Kind = cmp.Or(e.kind, "a")
	}
	_, v, err := judge.Explain(ctx, c, false)
	if err != nil {
		return err
	}
	e.Filter = &DecidedBy{Allow: v.Allow, Rule: v.Name(), File: file}
	if r := v.Rule; r != nil {
		e.Filter.File, e.Filter.Line, e.Filter.Condition = r.File, r.Line, r.Text
	}
	if e.Last == nil {
		return nil
	}
	for _, r := range append(rules.Rules, filter.Rule{Name: "default", File: file}, filter.Rule{Name: e.Filter.Rule, File: e.Filter.File, Line: e.Filter.Line}) {
		if e.Last.Error == "filter:"+r.Name {
			e.rule = fmt.Sprintf("rule %s (%s)", r.Name, strings.TrimSuffix(fmt.Sprintf("%s:%d", r.File, r.Line), ":0"))
		}
	}
	return nil
}

// kept is what the crawl keeps of a host by a scheme. It may be in any shard: the owner of the address has it.
func (c *Crawl) kept(scheme, host string) (kept fetch.Kept, err error) {
	dirs, err := shard.Dirs(durable.OS, c.Dir())
	if err != nil {
		return kept, err
	}
	for _, dir := range dirs {
		k, err := fetch.KeptOf(store.Folder(filepath.Join(dir, fetch.Kind), store.Options{}), scheme, host)
		if err != nil {
			return kept, err
		}
		if k.Robots.After(kept.Robots) {
			kept.Robots, kept.Rules = k.Robots, k.Rules
		}
		if k.Next.After(kept.Next) {
			kept.Next = k.Next
		}
		if k.Ended.After(kept.Ended) {
			kept.Ended, kept.Took = k.Ended, k.Took
		}
	}
	return kept, nil
}

// ByHTTP reports whether the host of a URL has answered for its robots.txt by http, and not by https.
func (c *Crawl) ByHTTP(url string, form canon.Options) (bool, error) {
	_, host, err := form.URL(url)
	if err != nil {
		return false, err
	}
	plain, err := c.kept("http", host)
	if err != nil || plain.Robots.IsZero() {
		return false, err
	}
	secure, err := c.kept("https", host)
	return secure.Robots.IsZero(), err
}

// explainRobots asks the robots.txt that is kept.
func (c *Crawl) explainRobots(e *Explained, conf *config.Config) (kept fetch.Kept, err error) {
	scheme, _, _ := canon.Split(e.URL)
	if kept, err = c.kept(scheme, e.Host); err != nil {
		return kept, err
	}
	e.Robots = RobotsVerdict{Verdict: "unknown", At: kept.Robots}
	if kept.Robots.IsZero() {
		return kept, nil
	}
	e.Robots.Verdict = "allowed"
	if kept.Rules != nil {
		parse, err := robots.NewEngine(conf.File.Fetch.RobotsEngine)
		if err != nil {
			return kept, err
		}
		agent, _, _ := strings.Cut(conf.File.Fetch.UserAgent, "/")
		rules := parse(kept.Rules, agent)
		if e.Robots.Delay = rules.CrawlDelay().Seconds(); !rules.Allowed(e.URL) {
			e.Robots.Verdict = "denied"
		}
	}
	return kept, nil
}

// conclude says when the URL may be fetched, and why not yet. The URL is due at due, and its host may be contacted from next on. fresh: nothing is
// committed yet.
func (e *Explained) conclude(c *Crawl, due record.Time, next time.Time, window *politeness.Window, keep time.Duration, fresh bool) {
	dir := c.Dir()
	now := c.now()
	waits := !slices.Contains([]string{stateDone, stateDropped, stateRefused, stateUnknown}, e.State)
	after := func(t time.Time, why string) {
		if t.After(now) && t.After(e.Next) {
			e.Next, e.Why = t.UTC(), why
		}
	}
	switch e.Ever = waits; {
	case e.Filter != nil && !e.Filter.Allow && e.State != frontier.InFlight && (waits || e.State == stateUnknown):
		e.Ever, e.Why = false, "the filter refuses it"
		return
	case e.State == stateUnknown && fresh:
		e.Why = "no round has run, and no seed is taken in; begin: " + fault.Quote("mcrawl", "run", dir)
		return
	case e.State == stateUnknown:
		e.Why = "the crawl has not found it; add it: " + fault.Quote("mcrawl", "add", dir, e.URL)
		return
	case e.Robots.Verdict == "denied" && !e.Robots.Ignored && !e.Robots.Old:
		sooner := fault.Quote("mcrawl", "set", dir, "robots.keep=1s")
		if e.State == stateDone {
			sooner += " && " + fault.Quote("mcrawl", "again", dir, "--outcome", record.OutcomeRobotsDenied)
		}
		e.Ever, e.Why = false, fmt.Sprintf("robots.txt forbids it; that file holds until %s; ask for it sooner: %s", e.Robots.At.Add(keep).UTC().Format(time.RFC3339), sooner+" && "+fault.Quote("mcrawl", "run", dir)+" && "+fault.Quote("mcrawl", "set", dir, "robots.keep="))
		return
	case e.State == stateDropped && e.limit != "":
		e.Why = e.limit + c.onceMore(e, "; take it in, whatever the limits")
		return
	case e.State == stateDropped:
		e.Why = "it was found, and no page of the crawl is kept of it; see whether a rule dropped it: " + fault.Quote("mcrawl", "refused", dir)
		return
	case e.State == stateDone && e.Last.Error == frontier.RefusedBytes:
		e.Why = "its host had sent the bytes that frontier.max_host_bytes lets it send; with a higher limit, take it in again: " + fault.Quote("mcrawl", "again", dir, "--rule", frontier.RefusedBytes)
		return
	case e.State == stateRefused, e.State == stateDone && e.Last.Outcome == record.OutcomeRefused:
		rule, of := strings.CutPrefix(e.Last.Error, "filter:")
		by := cmp.Or(e.rule, rule)
		if of && e.rule == "" {
			by = "rule " + rule
		}
		when := map[bool]string{true: " while it waited"}[e.State == stateDone]
		e.Why = fmt.Sprintf("%s refused it%s; when that lets it through, take it in again: %s", by, when, fault.Quote("mcrawl", "again", dir, "--rule", rule))
		return
	case e.State == stateDone && e.Last.Error == record.EndsLogin:
		e.Ever, e.Why = false, record.EndsLogin+"; without that setting, take it in again: "+fault.Quote("mcrawl", "again", dir, e.URL)
		return
	case e.State == stateDone && isError(e.Last.Outcome):
		e.Why = "it failed and is done; fetch it, and others that failed so, once more: " + fault.Quote("mcrawl", "again", dir, "--outcome", e.Last.Outcome)
		return
	case e.State == stateDone && fetch.IsSwollen(e.Last.Cut, e.Last.Error):
		e.Why = "it is done, though its document was " + fetch.Swollen + ", which no setting changes" + c.onceMore(e, "; fetch it once more")
		return
	case e.State == stateDone && e.Last.Cut != "":
		after := map[string]string{httpmsg.TruncatedLength: " with a larger fetch.max_body,", httpmsg.TruncatedTime: " with a larger fetch.timeout,"}[e.Last.Cut]
		e.Why = "it is done, though its document has no end (" + e.Last.Cut + ");" + after + " fetch it, and others like it, once more: " + fault.Quote("mcrawl", "again", dir, "--outcome", history.OutcomeCut)
		return
	case e.State == stateDone:
		e.Why = "it is done" + c.onceMore(e, "; fetch it once more")
		return
	case e.State == frontier.InFlight:
		e.Why = "it is in a round that is not closed; go on: " + fault.Quote("mcrawl", "run", dir)
		return
	case e.most > 0:
		e.Ever, e.Why = false, fmt.Sprintf("its host has sent the %s that frontier.max_host_bytes lets it send: the next round refuses it", Size(int64(e.most)))
		return
	case e.State == frontier.InParking && due == 0 && (e.Last == nil || e.Last.Outcome != e.Parked): // with its host
		e.Ever, e.Why = false, fmt.Sprintf("it is parked with its host, as %s; put it back: %s", e.Parked, c.Release())
		return
	case e.State == frontier.InParking && due == 0:
		e.Ever, e.Why = false, fmt.Sprintf("it is parked as %s; change the setting, then put it back: %s", e.Parked, fault.Quote("mcrawl", "again", dir, "--outcome", e.Parked))
		return
	}
	why := "it is due then"
	if at := due.Go(); e.State == frontier.InParking {
		why = "its server asked for a longer wait than politeness.longest_wait grants; of a host of your own, robots.policy ignore in a sheet takes it back"
	} else if before := at.Add(-time.Minute); window != nil && due > 0 && window.Opens(before).After(before) && !window.Opens(before).After(at) {
		why = waitsFor(window)
	}
	after(due.Go(), why)
	after(next, "its host is left alone until then")
	after(e.hold, "a run was killed or interrupted: the next one leaves all hosts alone until then, at the earliest")
	if at := e.Next; window != nil {
		if at.Before(now) {
			at = now
		}
		if opens := window.Opens(at); opens.After(at) {
			after(opens, waitsFor(window))
		}
	}
	switch {
	case e.Why != "":
	case e.State == frontier.InBudget:
		e.Why = "its domain has used its budget of this round"
	case e.Before > 0:
		e.Why = fmt.Sprintf("%s of its host %s before it", Count(e.Before, "URL"), map[bool]string{true: "comes", false: "come"}[e.Before == 1])
	default:
		e.Why = "a round takes it as soon as there is one"
	}
}

// onceMore ends a sentence with the command that queues a URL, if the set of URLs knows it. A program's set (stages.seen) cannot be asked.
func (c *Crawl) onceMore(e *Explained, what string) string {
	switch {
	case !e.program:
		return what + ": " + fault.Quote("mcrawl", "again", c.Dir(), e.URL)
	case e.Last != nil:
		return what + ", and all others with its outcome: " + fault.Quote("mcrawl", "again", c.Dir(), "--outcome", e.Last.Outcome)
	}
	return ", and the program of stages.seen knows it"
}

func waitsFor(w *politeness.Window) string {
	return "it waits for the window of its host, " + w.String()
}

// Text is the last outcome for people.
func (l *LastOutcome) Text() string {
	text := stats.Became(l.Outcome, l.Status)
	if l.Error != "" {
		text += " (" + l.Error + ")"
	}
	text += ", " + l.Round
	if !l.At.IsZero() {
		text += ", " + l.At.Format(time.RFC3339)
	}
	return text
}
