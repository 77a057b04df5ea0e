package fetch

import (
	"container/list"
	"context"
	"io"
	"strings"
	"sync"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/fault"
	"mercator/pkg/fingerprint"
)

// Limits of RFC 9309: section 2.5 (bytes), 2.3.1.2 (redirects), 2.4 (caching).
const (
	robotsTextMax   = 500 << 10
	robotsHopsMax   = 5
	robotsKeep      = 24 * time.Hour
	robotsCacheMax  = 1 << 18 // authorities that outlive a round, the newest
	robotsParsedMax = 16 << 20
)

// verdict is what a contact for robots.txt came to.
type verdict uint8

const (
	unknown     verdict = iota
	asking              // a contact is under way
	allowAll            // there is none (RFC 9309 section 2.3.1.3)
	byRules             // see the text
	unreachable         // all is forbidden, for now (section 2.3.1.4)
)

// authority is what is known of the robots rules of one scheme and host. It is
// guarded by runner.mu.
type authority struct {
	key     string // scheme://host
	verdict verdict
	why     string // unreachable
	fetched micros
	text    location
}

// location is a text in the spool.
type location struct {
	off int64
	len int
}

// errand is a contact for robots.txt, or one hop of its redirects.
type errand struct {
	auth *authority
	from *host // whose pages wait
	url  string
	host string
	hops int
}

// robotsRow says what a robots row means: a verdict, or a URL to go on with.
func robotsRow(row *record.Fetch) (v verdict, why, next string) {
	switch {
	case row.Outcome != record.OutcomeFetched:
		return unreachable, row.Outcome + ": " + row.Error, ""
	case row.Status >= 200 && row.Status < 300:
		return byRules, "", ""
	case row.Status >= 300 && row.Status < 400 && row.RedirectURL != "":
		return asking, "", row.RedirectURL
	case row.Status == 429: // a server that is asked too often has not said that there is no robots.txt
		return unreachable, "status 429", ""
	case row.Status >= 300 && row.Status < 500:
		return allowAll, "", ""
	}
	return unreachable, "status " + itoa(int(row.Status)), ""
}

// robotsCache holds the rules of the batch: texts in the spool, parsed rules for
// those used last, and what earlier rounds left.
type robotsCache struct {
	parse ParseRobots
	read  func([]byte, int64) error // of the spool

	known map[uint64]*authority // by FP64 of the key; those that outlive their hosts

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

func newRobotsCache(parse ParseRobots, read func([]byte, int64) error) *robotsCache {
	return &robotsCache{parse: parse, read: read, known: map[uint64]*authority{}, parsed: map[*authority]*list.Element{}, order: list.New()}
}

// rules returns the parsed rules of an authority whose verdict is byRules.
// runner.mu is locked inside and so must not be held; c.mu is taken after it.
func (c *robotsCache) rules(a *authority) (Rules, error) {
	c.mu.Lock()
	if e := c.parsed[a]; e != nil {
		c.order.MoveToFront(e)
		c.mu.Unlock()
		return e.Value.(*parsedRules).rules, nil
	}
	c.mu.Unlock()
	b := make([]byte, a.text.len)
	if err := c.read(b, a.text.off); err != nil {
		return nil, err
	}
	p := &parsedRules{auth: a, rules: c.parse(b), size: 512 + 4*len(b)}
	c.mu.Lock()
	defer c.mu.Unlock()
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

// forget drops the parsed rules of an authority whose text has changed.
func (c *robotsCache) forget(a *authority) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.parsed[a]; e != nil {
		c.size -= c.order.Remove(e).(*parsedRules).size
		delete(c.parsed, a)
	}
}

// Files of the store beside the WARC files: streams of module rows, so that
// mcat shows them.
const (
	roleRobots   = "robots"
	roleContacts = "contacts"
	moduleRobots = "robots"
	moduleHost   = "contact-host"
	moduleAddr   = "contact-addr"
)

// loadModules calls f for the rows of the store's file of that role.
func loadModules(st *store.Store, base *store.Manifest, role string, f func(*record.Module) error) error {
	for _, e := range base.Files {
		if e.Role != role {
			continue
		}
		file, err := st.OpenFile(e.Path)
		if err != nil {
			return err
		}
		r, err := record.NewReader[record.Module](file, record.ReaderOptions{Name: st.Path(e.Path)})
		for err == nil {
			var row record.Module
			if err = r.Read(&row); err == nil {
				err = f(&row)
			}
		}
		file.Close()
		if err != io.EOF {
			return err
		}
	}
	return nil
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
	if role == roleContacts {
		f.Sticky()
	}
	w, err := record.NewWriter[record.Module](f, record.WriterOptions{Name: f.Path(), Level: record.Fast})
	if err != nil {
		return err
	}
	n := uint64(0)
	if err := rows(func(row *record.Module) error { n++; return w.Write(row) }); err != nil {
		return err
	}
	books := record.Stage{Name: "mfetch", Out: n}
	if n > 0 {
		books.Made = []record.Count{{Reason: role, N: n}}
	}
	rowsOut, hash, err := w.Finish()
	if err != nil {
		return err
	}
	books.Out, books.OutHash = rowsOut, hash.String()
	if _, err := w.Commit(record.Ledger{Stages: []record.Stage{books}}); err != nil {
		return err
	}
	return f.Close()
}

// load reads the rules of earlier rounds that are not too old at now.
func (c *robotsCache) load(st *store.Store, base *store.Manifest, now time.Time, blob func([]byte) (int64, error)) error {
	return loadModules(st, base, roleRobots, func(row *record.Module) error {
		head, text, _ := strings.Cut(row.Value, "\n")
		when, kind, _ := strings.Cut(head, " ")
		t, err := time.Parse(time.RFC3339Nano, when)
		if err != nil || kind != "allow-all" && kind != "rules" {
			return &fault.Error{Class: fault.Corrupt, File: "robots rules", Place: row.Name, Found: clean(head)}
		}
		if !t.Add(robotsKeep).After(now) || t.After(now) || len(c.known) >= robotsCacheMax {
			return nil
		}
		a := &authority{key: strings.Clone(row.Name), verdict: allowAll, fetched: t.UnixMicro()}
		if kind == "rules" {
			a.verdict = byRules
			if a.text.off, err = blob([]byte(text)); err != nil {
				return err
			}
			a.text.len = len(text)
		}
		c.known[fingerprint.OfString(a.key)] = a
		return nil
	})
}

// save writes the rules that the next round may use, newest first.
func (c *robotsCache) save(ctx context.Context, tx *store.Tx) error {
	var list []*authority
	for _, a := range c.known {
		if a.verdict == allowAll || a.verdict == byRules {
			list = append(list, a)
		}
	}
	sortAuthorities(list)
	return saveModules(tx, roleRobots, func(write func(*record.Module) error) error {
		for i, a := range list {
			if i == robotsCacheMax {
				break
			}
			head := time.UnixMicro(a.fetched).UTC().Format(time.RFC3339Nano)
			var value string
			if a.verdict == byRules {
				b := make([]byte, a.text.len)
				if err := c.read(b, a.text.off); err != nil {
					return err
				}
				value = head + " rules\n" + string(b)
			} else {
				value = head + " allow-all"
			}
			if err := write(&record.Module{Key: fingerprint.OfString(a.key), Module: moduleRobots, Name: a.key, Value: value}); err != nil {
				return err
			}
			if err := context.Cause(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}
