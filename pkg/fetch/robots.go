package fetch

import (
	"bytes"
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/politeness"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/httpmsg"
)

// Limits of RFC 9309: section 2.5 (bytes), 2.3.1.2 (redirects), 2.4 (caching).
const (
	robotsTextMax   = 500 << 10
	robotsHopsMax   = 5
	robotsKeep      = politeness.KeepRobots
	robotsCacheMax  = 1 << 18  // authorities that are remembered, beside those in use
	robotsTextsMax  = 64 << 20 // bytes of the texts that outlive a round, the newest
	robotsParsedMax = 16 << 20 // bytes of memory for parsed rules
)

// withRobots are the schemes that have a robots.txt, as in the examples of
// RFC 9309 section 2.3.
var withRobots = [...]string{"http", "https", "ftp"}

// HasRobots reports whether robots.txt is asked for by a scheme.
func HasRobots(scheme string) bool { return slices.Contains(withRobots[:], scheme) }

// verdict is the result of a contact for robots.txt.
type verdict uint8

const (
	unknown     verdict = iota
	asking              // a contact is under way
	allowAll            // there is none (RFC 9309 section 2.3.1.3)
	byRules             // see the text
	unreachable         // all is forbidden, for now (section 2.3.1.4)
)

// authority has the robots rules of one scheme and host, as far as they are known. It is
// guarded by runner.mu. A crawl has many: its name and text are in the spool.
type authority struct {
	fp      uint64 // of the name, scheme://host
	verdict verdict
	named   uint16 // bytes of the name
	users   uint16 // hosts in memory
	text    uint32 // bytes of the text
	at      int64  // where name and text stand in the spool
	fetched micros
	why     string // unreachable

	newer, older *authority // among those that no host uses
}

// robotsRequest is a request for robots.txt, or for one hop of its redirects. Without an authority it is a login, with all its contacts.
type robotsRequest struct {
	auth *authority // nil: a login for url
	name string     // of auth
	from *host      // host with the pages that wait
	url  string
	host string
	hops int

	sitemap, requisite uint8 // as record.URL has them, of the page that asks
}

// robotsRow interprets a robots row: it gives a verdict, or a URL to go on with.
func robotsRow(row *record.Fetch) (v verdict, why, next string) {
	switch {
	case row.Outcome != record.OutcomeFetched:
		return unreachable, row.Outcome + ": " + row.Error, ""
	case row.Status >= 200 && row.Status < 300 && row.Truncated != "" && row.Truncated != httpmsg.TruncatedLength:
		// The rules that forbid may be those that did not come (section 2.3.1.4: a
		// server or network error).
		return unreachable, "robots.txt came in part: " + strings.TrimSuffix(row.Truncated+": "+row.Error, ": "), ""
	case row.Status >= 200 && row.Status < 300:
		return byRules, "", ""
	case row.Status >= 300 && row.Status < 400 && row.RedirectURL != "":
		return asking, "", row.RedirectURL
	case httpmsg.NotNow(row.Status): // a server that is asked too often has not said that there is no robots.txt
		return unreachable, "status " + strconv.Itoa(int(row.Status)), ""
	case row.Status >= 300 && row.Status < 500 && row.Status != 304: // nobody asked for less than the whole
		return allowAll, "", ""
	}
	return unreachable, "status " + strconv.Itoa(int(row.Status)), ""
}

// whyOf is the reason of a robots row for an authority. Only that of its own host begins with an outcome: a page fails likewise there.
func whyOf(authority string, row *record.Fetch, why string) string {
	if _, host, _ := canon.Split(authority); why != "" && host != row.Host {
		return "robots.txt: " + why
	}
	return why
}

// Reasons of unreachable that are settings of ours, where robots.txt is said to be somewhere else.
const (
	robotsDenied  = "robots.txt: denied by "
	robotsAddress = "robots.txt: " + record.OutcomeAddress + ": "
)

// withoutRobots returns the outcome of a page when its robots.txt could not be fetched. A fetch that our own
// settings refused has an outcome of its own: the server gave no answer.
func withoutRobots(why string) string {
	switch {
	case strings.HasPrefix(why, robotsDenied):
		return record.OutcomeDenied
	case strings.HasPrefix(why, robotsAddress):
		return record.OutcomeAddress
	}
	return record.OutcomeRobotsUnreachable
}

// robotsText returns the part that counts of the text that came with a robots row, in a form that can
// be kept. If the file was longer, the line that was cut does not count: it may say the opposite.
func robotsText(row *record.Fetch, text []byte) []byte {
	if row.Truncated != "" || int64(len(text)) < row.BodyLength {
		text = text[:bytes.LastIndexAny(text, "\r\n")+1]
	}
	return bytes.ToValidUTF8(text, []byte("\uFFFD"))
}

// robotsCache holds the rules of the batch: names and texts in the spool, parsed
// rules for those used last, and what earlier rounds left. known and what belongs
// to it is guarded by runner.mu.
type robotsCache struct {
	parse ParseRobots
	keep  time.Duration // Options.KeepRobots
	sp    *spool
	spMu  *sync.Mutex // guards sp

	known  map[uint64]*authority // by fp
	unused authority             // head of the ring of those that no host uses: newer is the oldest of them
	max    int
	dirty  bool // there is something to save

	mu     sync.Mutex
	parsed map[*authority]*list.Element
	order  *list.List // of parsedRules, last used first
	size   int
}

type parsedRules struct {
	auth  *authority
	rules Rules
	size  int
}

func newRobotsCache(parse ParseRobots, sp *spool, spMu *sync.Mutex) *robotsCache {
	c := &robotsCache{parse: parse, sp: sp, spMu: spMu, max: robotsCacheMax,
		known: map[uint64]*authority{}, parsed: map[*authority]*list.Element{}, order: list.New()}
	c.unused.newer, c.unused.older = &c.unused, &c.unused
	return c
}

// use returns the authority of a name for one more host, made if need be.
func (c *robotsCache) use(name string) (*authority, error) {
	fp := fingerprint.OfString(name)
	a := c.known[fp]
	if a != nil {
		b := make([]byte, a.named)
		if err := c.sp.readAt(b, a.at); err != nil {
			return nil, err
		}
		if string(b) == name {
			if a.users == 0 {
				a.newer.older, a.older.newer = a.older, a.newer
			}
			a.users++
			return a, nil
		}
	}
	fresh := &authority{fp: fp, users: 1}
	if a == nil {
		c.known[fp] = fresh
	} // else two names have one fingerprint, and the later is forgotten with its host
	return fresh, c.note(fresh, name, nil)
}

// holds reports whether rules are kept of an authority: it was contacted within a day.
func (c *robotsCache) holds(name string) bool {
	a := c.known[fingerprint.OfString(name)]
	return a != nil && (a.verdict == allowAll || a.verdict == byRules)
}

// note puts name and text of an authority into the spool.
func (c *robotsCache) note(a *authority, name string, text []byte) (err error) {
	a.named, a.text = uint16(len(name)), uint32(len(text))
	a.at, err = c.sp.blob([]byte(name), text)
	return err
}

// leave ends a host's use of its authorities.
func (c *robotsCache) leave(h *host) {
	for i, a := range h.rules {
		if a != nil {
			h.rules[i] = nil
			c.drop(a)
		}
	}
}

// drop ends one use.
func (c *robotsCache) drop(a *authority) {
	if a.users--; a.users == 0 && c.known[a.fp] == a {
		c.rest(a, c.unused.older)
	}
	for len(c.known) > c.max && c.unused.newer != &c.unused {
		oldest := c.unused.newer
		oldest.newer.older, oldest.older.newer = oldest.older, oldest.newer
		delete(c.known, oldest.fp)
		c.forget(oldest)
	}
}

// conclude sets what a contact for an authority's rules came to at an instant.
func (c *robotsCache) conclude(a *authority, name string, v verdict, why string, text []byte, at micros) error {
	if v == byRules {
		if err := c.note(a, name, text); err != nil {
			return err
		}
	}
	a.verdict, a.why, a.fetched = v, why, at
	c.dirty = c.dirty || v == byRules || v == allowAll
	c.forget(a)
	return nil
}

// redirectors has, for a URL, the names of the authorities that redirected to it. Of what is more
// than redirectorsMax the saved contacts are gone through again, one after the other.
type redirectors struct {
	names map[string][]string
	n     int
}

const redirectorsMax = 1 << 14

func (w *redirectors) addNames(url string, names []string) {
	if len(names) > 0 && w.n+len(names) <= redirectorsMax {
		w.names[url] = append(w.names[url], names...)
		w.n += len(names)
	}
}

func (w *redirectors) takeNames(url string) []string {
	names := w.names[url]
	delete(w.names, url)
	w.n -= len(names)
	return names
}

// importRow takes in a robots row of an earlier run of the batch.
func (c *robotsCache) importRow(row *record.Fetch, text []byte, redirected *redirectors) error {
	names := redirected.takeNames(row.URL)
	if name, ok := strings.CutSuffix(row.URL, "/robots.txt"); ok && strings.Count(name, "/") == 2 {
		names = append(names, name)
	}
	v, why, next := robotsRow(row)
	if v == asking {
		if url, _, err := canon.URL(next); err == nil && url != row.URL {
			redirected.addNames(url, names)
		}
		return nil // where the redirects end nowhere, the contact is gone through again
	}
	for _, name := range names {
		a, err := c.use(name)
		if err != nil {
			return err
		}
		if a.verdict == unknown {
			err = c.conclude(a, name, v, whyOf(name, row, why), robotsText(row, text), ended(row))
		}
		if err != nil {
			return err
		}
		c.drop(a)
	}
	return nil
}

// rest puts a into the ring, next newer than older.
func (c *robotsCache) rest(a, older *authority) {
	a.older, a.newer = older, older.newer
	a.older.newer, a.newer.older = a, a
}

// rules returns the parsed rules of an authority with the verdict byRules.
// runner.mu is locked inside and so must not be held; c.mu is taken after it.
func (c *robotsCache) rules(a *authority) (Rules, error) {
	c.mu.Lock()
	if e := c.parsed[a]; e != nil {
		c.order.MoveToFront(e)
		c.mu.Unlock()
		return e.Value.(*parsedRules).rules, nil
	}
	c.mu.Unlock()
	c.spMu.Lock()
	b := make([]byte, a.text)
	err := c.sp.readAt(b, a.at+int64(a.named))
	c.spMu.Unlock()
	if err != nil {
		return nil, err
	}
	p := &parsedRules{auth: a, rules: c.parse(b), size: 512 + 4*len(b)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.parsed[a]; e != nil { // another host's worker was faster
		return e.Value.(*parsedRules).rules, nil
	}
	c.parsed[a] = c.order.PushFront(p)
	c.size += p.size
	for c.size > robotsParsedMax && c.order.Len() > 1 {
		e := c.order.Back()
		old := c.order.Remove(e).(*parsedRules)
		delete(c.parsed, old.auth)
		c.size -= old.size
	}
	return p.rules, nil
}

// forget drops the parsed rules of an authority after its text has changed.
func (c *robotsCache) forget(a *authority) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.parsed[a]; e != nil {
		c.size -= c.order.Remove(e).(*parsedRules).size
		delete(c.parsed, a)
	}
}

// Files of the store beside the WARC files (SPEC.md): streams of module rows, so
// that mcat shows them.
const (
	roleRobots   = "robots"
	roleContacts = "contacts"
	moduleRobots = "robots"
	moduleHost   = "contact-host"
	moduleAddr   = "contact-addr"
	moduleClaim  = "contact-claim"
	moduleReach  = "contact-reach"
)

// loadModules calls f for the rows of the store's file of that role.
func loadModules(st *store.Store, base *store.Manifest, role string, f func(*record.Module) error) error {
	for _, e := range base.Files {
		if e.Role != role {
			continue
		}
		file, err := st.OpenFile(e.Path)
		if e.Secret && errors.Is(err, fs.ErrNotExist) {
			continue // a copy goes on without it
		}
		if err != nil {
			return err
		}
		r, err := record.NewReader[record.Module](file, record.ReaderOptions{Name: st.Path(e.Path)})
		for err == nil {
			var row record.Module
			if err = r.Read(&row); err != nil {
				break
			}
			if row.Name == "" || row.Key != fingerprint.OfString(row.Name) {
				err = badRow(fmt.Sprintf("url_key %016x", row.Key), "the FP64 of key")
			} else {
				err = f(&row)
			}
			if bad := (*fault.Error)(nil); errors.As(err, &bad) && bad.File == "" {
				bad.File, bad.Place = st.Path(e.Path), "key "+clean(row.Name[:min(len(row.Name), 200)])
			}
		}
		file.Close()
		if err != io.EOF {
			return err
		}
	}
	return nil
}

// badRow is the fault of a row that no file of the store has; loadModules says where it is.
func badRow(found, want string) error {
	return &fault.Error{Class: fault.Corrupt, Found: found, Want: want}
}

// saveModules writes a file of that role in place of the one before.
func saveModules(tx *store.Tx, role string, rows func(write func(*record.Module) error) error) error {
	for _, e := range tx.Base().Files {
		if e.Role == role {
			tx.Drop(e.Path)
		}
	}
	f, err := tx.Create(role+"-", ".arrows.zst", role)
	if err != nil {
		return err
	}
	switch role {
	case roleContacts:
		f.Sticky()
	case roleCookies:
		if err := f.Secret(); err != nil {
			return err
		}
	}
	w, err := record.NewWriter[record.Module](f, record.WriterOptions{Name: f.Path(), Level: record.Fast})
	if err != nil {
		return err
	}
	n := uint64(0)
	if err := rows(func(row *record.Module) error { n++; return w.Write(row) }); err != nil {
		return err
	}
	counts := record.Stage{Name: "mfetch", Out: n}
	if n > 0 {
		counts.Made = []record.Count{{Reason: role, N: n}}
	}
	rowsOut, hash, err := w.Finish()
	if err != nil {
		return err
	}
	counts.Out, counts.OutHash = rowsOut, hash.String()
	if _, err := w.Commit(record.Ledger{Stages: []record.Stage{counts}}); err != nil {
		return err
	}
	return f.Close()
}

// load reads the rules of earlier rounds that are not too old at now.
func (c *robotsCache) load(st *store.Store, base *store.Manifest, now time.Time) error {
	return loadRobots(st, base, func(row *record.Module, t time.Time, rules bool, text string) error {
		fp := row.Key
		if !t.Add(cmp.Or(c.keep, robotsKeep)).After(now) || t.After(now) || len(c.known) >= c.max || c.known[fp] != nil {
			return nil
		}
		a := &authority{fp: fp, verdict: allowAll, fetched: t.UnixMicro()}
		if rules {
			a.verdict = byRules
		}
		c.known[fp] = a
		c.rest(a, &c.unused) // the newest come first
		return c.note(a, row.Name, []byte(text))
	})
}

// loadRobots reads what is kept of each authority: since when, and its rules, or that there are none.
func loadRobots(st *store.Store, base *store.Manifest, each func(row *record.Module, at time.Time, rules bool, text string) error) error {
	return loadModules(st, base, roleRobots, func(row *record.Module) error {
		head, text, _ := strings.Cut(row.Value, "\n")
		when, kind, _ := strings.Cut(head, " ")
		t, err := time.Parse(time.RFC3339Nano, when)
		switch {
		case row.Module != moduleRobots:
			return badRow(clean(row.Module), "module "+moduleRobots)
		case err != nil || !strings.HasSuffix(when, "Z") || kind != "allow-all" && kind != "rules":
			return badRow(clean(head), "a time of RFC 3339 in UTC, and rules or allow-all")
		case kind == "allow-all" && row.Value != head:
			return badRow("a text behind allow-all", "nothing")
		case len(row.Name) > math.MaxUint16 || len(text) > 3*robotsTextMax:
			return badRow(fmt.Sprintf("%d bytes of key, %d of text", len(row.Name), len(text)), fmt.Sprintf("%d and %d at most", math.MaxUint16, 3*robotsTextMax))
		}
		return each(row, t, kind == "rules", text)
	})
}

// save writes the rules that the next round may use, newest first. Where nothing
// was learnt, the file of the round before stands.
func (c *robotsCache) save(ctx context.Context, tx *store.Tx) error {
	if !c.dirty {
		return nil
	}
	var list []*authority
	for _, a := range c.known {
		if a.verdict == allowAll || a.verdict == byRules {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b *authority) int {
		return cmp.Or(cmp.Compare(b.fetched, a.fetched), cmp.Compare(a.fp, b.fp))
	})
	return saveModules(tx, roleRobots, func(write func(*record.Module) error) error {
		texts := 0
		for _, a := range list[:min(len(list), c.max)] {
			if texts+int(a.text) > robotsTextsMax {
				break
			}
			texts += int(a.text)
			b := make([]byte, int(a.named)+int(a.text))
			if err := c.sp.readAt(b, a.at); err != nil {
				return err
			}
			name, value := string(b[:a.named]), time.UnixMicro(a.fetched).UTC().Format(time.RFC3339Nano)
			if a.verdict == byRules {
				value += " rules\n" + string(b[a.named:])
			} else {
				value += " allow-all"
			}
			if err := write(&record.Module{Key: a.fp, Module: moduleRobots, Name: name, Value: value}); err != nil {
				return err
			}
			if err := context.Cause(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}
